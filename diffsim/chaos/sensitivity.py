"""The derivative of a long average, with its error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from diffsim.base.arguments import function
from diffsim.errors import ParameterError
from diffsim.typing import Array

Average: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""(states by name, shape (times, cells)) -> a value for each time, the mean of which is the average."""


BIAS = "; ± leaves out the bias of shadowing: compare diffsim.chaos.linear_response"


def named(average: Average) -> Average:
    """The quantity, which names a state that it reads and the system has not."""
    function("average", average, "lambda now: now['z'][:, 0]", optional=False)

    def value(states: Mapping[str, Any]) -> Any:
        try:
            return average(states)
        except KeyError as error:
            if error.args and error.args[0] in states:
                raise
            raise ParameterError(f"average reads {error}, expected states, {', '.join(states)}; correct the name") from error
        except AttributeError as error:
            if error.obj is not states:
                raise
            raise ParameterError(f"average asks states for {error.name}, expected them by name; write now['z'][:, 0]") from error

    return value


def values_of(average: Average, states: Mapping[str, Any], times: int) -> Array:
    """The values of the quantity, one for each time."""
    return checked(np.asarray(average(states), dtype=float), times)


def checked(values: Array, times: int) -> Array:
    """Raise unless there is a value for each time."""
    if values.shape != (times,):
        raise ParameterError(f"average returned shape {values.shape}, expected a value for each of {times} times; return that")
    return values


@dataclass(frozen=True)
class Sensitivity:
    """The derivative of a long average for a parameter.

    Attributes:
        value: the derivative.
        error: its standard error. Of a derivative by shadowing it is that of sampling along one trajectory.
        average: the average.
        average_error: its standard error.
        by_shadowing: whether shadowing gave the derivative, whose bias `error` does not contain.
    """

    value: float
    error: float
    average: float
    average_error: float
    by_shadowing: bool = False

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.error:.2g} ({_of_average(self.average, self.average_error)}){BIAS if self.by_shadowing else ''}"


@dataclass(frozen=True)
class Sensitivities:
    """The derivatives of a long average for several parameters.

    Attributes:
        values: the derivatives by name, each of the shape of the parameter.
        errors: upper estimates of their standard errors, alike. They are those of sampling along one trajectory, and do not contain the
            bias of shadowing.
        average: the average.
        average_error: its standard error.
    """

    values: Mapping[str, Array]
    errors: Mapping[str, Array]
    average: float
    average_error: float

    def __str__(self) -> str:
        each = (
            f"{name} of shape {value.shape}" if value.ndim else f"{name} {value:.4g} ± {self.errors[name]:.2g}"
            for name, value in self.values.items()
        )
        return f"{', '.join(each)} ({_of_average(self.average, self.average_error)}){BIAS}"


def _of_average(value: float, error: float) -> str:
    return f"average {value:.5g} ± {error:.2g}"
