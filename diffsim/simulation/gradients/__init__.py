"""Gradients of a simulation: a forward run, the reverse sweep, and what both cost."""
