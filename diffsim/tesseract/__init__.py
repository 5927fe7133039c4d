"""Functions of diffsim as Tesseracts: programs with a schema of inputs and outputs, which other programs call and differentiate."""

from diffsim.tesseract.endpoints import endpoints
from diffsim.tesseract.function import Function

__all__ = ["Function", "endpoints"]
