"""Calls of functions of NumPy's names."""
