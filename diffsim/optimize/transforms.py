"""Pointwise maps from a step z in the optimiser's space to a physical value, with z = 0 at the reference value.

`apply` is a program of `diffsim.numpy`, so its derivative need not be given. A new one is a class with these three methods and a line in
`make_transform`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy
import numpy.typing as npt
from scipy.special import expit, logit

import diffsim.numpy as np
from diffsim.ad import custom_jvp
from diffsim.ad.arrays.guard import constant
from diffsim.base.arguments import one_of
from diffsim.errors import ParameterError

F64 = npt.NDArray[numpy.float64]


class Transform(Protocol):
    """A strictly increasing map of z, one for each reference value."""

    neutral: float | F64
    """The reference where the user gives none; a number, or one for each free cell."""

    boxed: bool
    """True if the bounds on values become bounds on z (otherwise the map itself keeps them)."""

    def check(self, reference: F64) -> None:
        """Raise ParameterError where `reference` has no z."""
        ...

    def apply(self, z: Any, reference: F64) -> Any:
        """The value at z."""
        ...

    def invert(self, value: F64, reference: F64) -> F64:
        """The z of a value; -inf or inf at the end of the range."""
        ...


class Identity:
    """m = m_ref + z."""

    neutral: float | F64 = 0.0
    boxed = True

    def check(self, reference: F64) -> None:
        pass

    def apply(self, z: Any, reference: F64) -> Any:
        return reference + z

    def invert(self, value: F64, reference: F64) -> F64:
        return value - reference


class Log:
    """m = m_ref exp(z): positive whatever z is."""

    neutral: float | F64 = 1.0
    boxed = True

    def check(self, reference: F64) -> None:
        if numpy.any(reference <= 0):
            raise ParameterError(
                f'reference: expected values > 0 for transform="log", got {reference.min():g}; raise it or use transform="identity"'
            )

    def apply(self, z: Any, reference: F64) -> Any:
        with np.errstate(over="ignore"):  # an infinite value is reported by the caller, with its cell
            return reference * np.exp(z)

    def invert(self, value: F64, reference: F64) -> F64:
        with numpy.errstate(divide="ignore"):
            return numpy.log(numpy.maximum(value, 0.0) / reference)


class Logit:
    """m = a + (b - a) σ(σ⁻¹((m_ref - a)/(b - a)) + z), σ(z) = 1/(1 + e⁻ᶻ): between a and b whatever z is."""

    boxed = False

    def __init__(self, lower: F64, upper: F64) -> None:
        if not (numpy.all(numpy.isfinite(lower)) and numpy.all(numpy.isfinite(upper)) and numpy.all(lower < upper)):
            raise ParameterError('transform="logit": expected finite lower < upper in free cells, got another; give both bounds')
        self._lower, self._range = constant(lower), constant(upper - lower)
        self.neutral: float | F64 = lower + 0.5 * self._range

    def _fraction(self, value: F64) -> F64:
        return (value - self._lower) / self._range

    def check(self, reference: F64) -> None:
        fraction = self._fraction(reference)
        if numpy.any((fraction <= 0) | (fraction >= 1)):
            raise ParameterError(
                'reference: expected values strictly between lower and upper for transform="logit", got one on or beyond a bound; '
                "widen the bounds or move the reference"
            )

    def apply(self, z: Any, reference: F64) -> Any:
        return self._lower + self._range * sigmoid(logit(self._fraction(reference)) + z)

    def invert(self, value: F64, reference: F64) -> F64:
        return logit(self._fraction(value)) - logit(self._fraction(reference))


@custom_jvp
def sigmoid(z: Any) -> Any:
    """σ(z) = 1/(1 + e⁻ᶻ)."""
    return expit(z)


@sigmoid.defjvp
def _slope(primals: Any, tangents: Any) -> Any:
    (z,), (z_dot,) = primals, tangents
    value = sigmoid(z)
    return value, value * sigmoid(-z) * z_dot  # not 1 - σ(z), which loses all digits for large z


def make_transform(name: str, lower: F64, upper: F64) -> Transform:
    """The transform of that name, for values between `lower` and `upper`."""
    one_of("transform", name, ("identity", "log", "logit"))
    if name == "identity":
        return Identity()
    return Log() if name == "log" else Logit(lower, upper)
