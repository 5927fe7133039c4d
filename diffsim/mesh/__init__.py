"""Cells: the grid, and fields that lie on it."""
