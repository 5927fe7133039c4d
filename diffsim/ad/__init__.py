"""Reverse-mode differentiation over arrays."""
