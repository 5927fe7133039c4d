"""Derivatives of functions: vjp, jvp, Jacobians, rules by hand, checks, and the tape."""
