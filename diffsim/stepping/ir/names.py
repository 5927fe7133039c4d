"""Names of fields in a step's derivatives, and of host functions in messages. A field of an equation has no such name: each has a space."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Title:
    """The name of a host function in messages.

    Attributes:
        what: the function that a user called, such as "newton".
        fields: for which it solves.
        steady: name of the steady problem that it belongs to; "" in a step.
    """

    what: str
    fields: tuple[str, ...] = ()
    steady: str = ""

    def __str__(self) -> str:
        return f"{self.what} for {', '.join(self.fields)}" if self.fields else self.what

    def at(self, step: int) -> str:
        """Where a call of it failed."""
        return f"in the steady problem {self.steady}, {self}" if self.steady else f"in step {step}, {self}"


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
