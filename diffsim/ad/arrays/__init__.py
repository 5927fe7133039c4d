"""The array that a differentiated function works with."""
