"""Names of fields in a step's derivatives. Each contains a space, so no field of an equation can have such a name."""

from __future__ import annotations


def bar(name: str) -> str:
    """Name of a field's cotangent."""
    return f"{name} bar"


def strip(state: str) -> str:
    """Name of the array with the kept values of a state, where it is damped."""
    return f"strip of {state}"


def dot(name: str, order: int = 1) -> str:
    """Name of a field's tangent. Tangents of different orders have different names."""
    return f"{name} dot" if order == 1 else f"{name} dot {order}"


def primal(name: str) -> str:
    """The name of the field that a tangent, of any order, belongs to."""
    return name.partition(" dot")[0]
