"""An entry of the table of elementary functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any, Literal, TypeAlias

Partial: TypeAlias = Callable[..., Any]
"""A partial derivative, such as `lambda m, x, o: o * m.expit(-x)`.

It is a function of Python. Its first argument has functions by the names of the table. The names of the others tell its operands: x and y
are the arguments of the function, o is its value. It is called with arrays, and with expressions of a step, so it has operators and
functions of `m` only.
"""
Source = str | tuple[str, ...]
"""Source of a kernel.

A text is an expression, written where the function is used; {x} and {y} are its arguments. A tuple has the lines of a function of x and y.
In both, numbers are in braces, so that they get the type of the kernel, and so are names of functions: "{0.5} * {log}(x)". These are
those of `source.ENGINE` and `source.HELPERS`, and those of the table that have lines.
"""


@dataclass(frozen=True)
class InSteps:
    """The forms of steps and scans, where they differ.

    Attributes:
        source: as that of a function.
        partials: as those of a function; None: the same.
    """

    source: Source
    partials: tuple[Partial, ...] | None = None


@dataclass(frozen=True)
class Function:
    """A function of numbers.

    Attributes:
        name: NumPy's, or SciPy's if NumPy has none.
        meaning: its meaning, as a sentence.
        reference: the function of NumPy's arrays.
        partials: a partial derivative for each argument.
        source: for kernels.
        in_steps: where steps and scans need another source or derivative.
        slope: whether a partial derivative is finite wherever the function is, or overflows with the function, or is infinite at a point.
        finite: whether the value is finite wherever the arguments are.
        domain: of the first argument; the derivative may be infinite at its ends.
    """

    name: str
    meaning: str
    reference: Callable[..., Any]
    partials: tuple[Partial, ...]
    source: Source
    in_steps: InSteps | None = None
    slope: Literal["finite", "overflows", "infinite"] = "finite"
    finite: bool = True
    domain: tuple[float, float] = (float("-inf"), float("inf"))

    @property
    def count(self) -> int:
        """Number of arguments."""
        return len(self.partials)

    @property
    def singular(self) -> bool:
        """True if a partial derivative may be infinite or NaN where the value is finite."""
        return self.slope != "finite"

    @cached_property
    def source_in_steps(self) -> Source:
        return self.in_steps.source if self.in_steps else self.source

    @cached_property
    def partials_in_steps(self) -> tuple[Partial, ...]:
        return (self.in_steps and self.in_steps.partials) or self.partials


def read_by(partial: Partial) -> tuple[str, ...]:
    """The names, of x, y and o, that a partial derivative reads."""
    assert isinstance(partial, FunctionType)
    code = partial.__code__  # not `inspect.signature`, which takes long on import
    return code.co_varnames[1 : code.co_argcount]
