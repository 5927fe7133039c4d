"""The version of diffsim."""

__version__ = "0.1.0"
