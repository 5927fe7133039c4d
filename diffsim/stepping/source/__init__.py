"""A program as Taichi source, for the workers of a CPU and for a GPU."""
