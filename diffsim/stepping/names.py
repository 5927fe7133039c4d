"""Names of fields that a step's derivatives have: no field of an equation can have one, since each has a space."""

from __future__ import annotations


def bar(name: str) -> str:
    """Name of a field's cotangent."""
    return f"{name} bar"


def strip(state: str) -> str:
    """Name of the array with the kept values of a state, where it is damped."""
    return f"strip of {state}"


def dot(name: str, order: int = 1) -> str:
    """Name of a field's tangent; those of different orders differ."""
    return f"{name} dot" if order == 1 else f"{name} dot {order}"
