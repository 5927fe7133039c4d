"""The derivative of a long average, with its error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Average: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""(states by name, shape (times, cells)) -> a value for each time, the mean of which is the average."""


@dataclass(frozen=True)
class Sensitivity:
    """The derivative of a long average for a parameter.

    Attributes:
        value: the derivative.
        error: its standard error.
        average: the average.
    """

    value: float
    error: float
    average: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.error:.2g} (average {self.average:.5g})"
