"""Gradients of a simulation: a forward run, the reverse sweep, and their costs."""
