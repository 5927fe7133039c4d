"""Proofs that a gradient is right: measured figures, each with its limit."""

from diffsim.certificate.certify import certify
from diffsim.certificate.line import Certificate, Line

__all__ = ["Certificate", "Line", "certify"]
