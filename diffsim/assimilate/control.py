"""The variables of the search, in which the background has the covariance 1: the control transform."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.ad import vjp
from diffsim.base.arguments import mapping
from diffsim.base.messages import shown
from diffsim.errors import ParameterError, ShapeError
from diffsim.optimize import Prior, StackedPriors
from diffsim.simulation.prepared.blown_up import counted
from diffsim.typing import Array

F64 = npt.NDArray[np.float64]
Balance = Callable[[dict[str, Any]], Mapping[str, Any]]
LINEAR = 1e-9
"""Relative difference up to which a function counts as linear."""
FACTOR = -30.0
"""Factor of one of the random errors on which that is tested: below 0 for `abs`, large for functions with a limit."""


class Balanced:
    """Errors of unknowns that depend on each other: v -> v + K v with a linear function K of independent errors v.

    Args:
        function: K, unknown -> error to unknown -> what is added to its error, in `diffsim.numpy`.
        shapes: unknown -> its shape.

    Raises:
        ParameterError: the function reads or names something else, gives values that are not finite, or is not linear.
        ShapeError: it gives another shape.
    """

    def __init__(self, function: Balance, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._function = function
        zeros = {name: np.zeros(shape) for name, shape in shapes.items()}
        known = ", ".join(shapes)
        try:
            value, self._pullback = vjp(function, zeros)
        except KeyError as error:
            raise ParameterError(
                f"balance raised KeyError: {error}, expected a function of the unknowns with a background_error, {known}; read those alone"
            ) from error
        self._names = tuple(mapping("what balance returns", value, "{'qx': error}"))
        for name, one in value.items():
            if name not in shapes:
                raise ParameterError(
                    f"balance returns {shown(name)}, which has no background_error, expected some of {known}; leave it out, or give it one"
                )
            if np.shape(one) != shapes[name]:
                raise ShapeError(f"balance gives {name} the shape {np.shape(one)}, expected {shapes[name]}; give an error for each value")
        rng = np.random.default_rng(0)
        first, second = ({name: rng.standard_normal(shape) for name, shape in shapes.items()} for _ in range(2))
        joint = {name: first[name] + FACTOR * second[name] for name in shapes}
        a, b, both = (self._added(errors) for errors in (first, second, joint))
        for name, one in a.items():
            if not np.isfinite(one).all():
                raise ParameterError(
                    f"balance gives {name} {counted(one)} for errors that are finite, expected finite ones; mend it where it divides by 0"
                )
        apart = sum(float(np.abs(both[name] - a[name] - FACTOR * b[name]).sum()) for name in self._names)
        size = sum(float(np.abs(a[name]).sum() + np.abs(FACTOR * b[name]).sum()) for name in self._names)
        if not apart <= LINEAR * size:
            raise ParameterError(
                f"balance(a - 30 b) differs by {apart / (size or 1.0):.2g} from balance(a) - 30 balance(b) for random errors a and b, "
                "expected a linear function; leave out what does not depend on the errors, and linearise around the background"
            )

    def _added(self, errors: dict[str, F64]) -> dict[str, F64]:
        return {name: np.asarray(one, np.float64) for name, one in self._function(errors).items()}

    def __call__(self, errors: dict[str, F64]) -> dict[str, F64]:
        """v + K v."""
        added = self._added(errors)
        return {name: one + added[name] if name in added else one for name, one in errors.items()}

    def transpose(self, bars: dict[str, F64]) -> dict[str, F64]:
        """v + Kᵀ v."""
        added = self._pullback({name: bars[name] for name in self._names})[0]
        return {name: one + np.asarray(added[name]) for name, one in bars.items()}


class Control:
    """Variables z and the unknowns x = x_b + L z, with a root L of the covariance.

    A state that begins each window anew has the background's root in the first window, and the root of its jumps in the others, around a
    first guess.

    Args:
        background: values of the unknowns before the search. Of a state that begins each window anew, one for each window.
        background_error: input -> prior.
        model_error: state -> prior of its jumps; empty for one window.
        balance: how errors of the background depend on each other; None: not at all.
    """

    def __init__(
        self,
        background: Mapping[str, F64],
        background_error: Mapping[str, Prior],
        model_error: Mapping[str, Prior],
        balance: Balanced | None = None,
    ) -> None:
        self.background = {name: np.array(value, np.float64) for name, value in background.items()}
        self._parts: list[tuple[str, int | None, Prior]] = [
            (name, 0 if name in model_error else None, prior) for name, prior in background_error.items()
        ]
        self._first = {name: (0,) if name in model_error else (...,) for name in background_error}
        self._priors, self._balance = list(background_error.values()), balance
        self.known = sum(prior.inner for prior in background_error.values())
        for name, prior in model_error.items():
            self._parts += [(name, k, prior) for k in range(1, len(self.background[name]))]
        self._ends = np.cumsum([prior.inner for _, _, prior in self._parts])
        self.size = int(self._ends[-1])

    def unknowns(self, z: Array) -> dict[str, F64]:
        """x_b + L z."""
        return {name: self.background[name] + value for name, value in self.root(z).items()}

    def root(self, z: Array) -> dict[str, F64]:
        """L z."""
        out = {name: np.zeros(value.shape) for name, value in self.background.items()}
        for (name, window, prior), part in zip(self._parts, np.split(np.asarray(z), self._ends[:-1]), strict=True):
            place = out[name] if window is None else out[name][window]
            place[...] = prior.root(part).reshape(place.shape)
        if self._balance is not None:
            for name, value in self._balance({name: out[name][at] for name, at in self._first.items()}).items():
                out[name][self._first[name]] = value
        return out

    def root_transpose(self, bars: Mapping[str, Array]) -> F64:
        """Lᵀ of a cotangent of the unknowns."""
        if self._balance is not None:
            changed: dict[str, F64] = {name: np.array(bar, np.float64) for name, bar in bars.items()}
            for name, value in self._balance.transpose({name: changed[name][at] for name, at in self._first.items()}).items():
                changed[name][self._first[name]] = value
            bars = changed
        places = ((bars[name] if window is None else bars[name][window], prior) for name, window, prior in self._parts)
        return np.concatenate([prior.root_transpose(np.ravel(place)) for place, prior in places])

    def background_part(self, z: Array) -> F64:
        """z without the variables that no background holds."""
        return np.concatenate([np.asarray(z)[: self.known], np.zeros(self.size - self.known)])

    def prior(self) -> Prior:
        """The prior of the unknowns of one window, one after another."""
        return StackedPriors(self._priors) if self._balance is None else Joint(self)


class Joint:
    """The prior of unknowns with balanced errors, of one window, one after another."""

    def __init__(self, control: Control) -> None:
        self._control, self.inner = control, control.size
        self.size = sum(value.size for value in control.background.values())

    def root(self, z: Array) -> F64:
        """L z."""
        return np.concatenate([value.ravel() for value in self._control.root(z).values()])

    def root_transpose(self, v: Array) -> F64:
        """Lᵀ v."""
        background = self._control.background
        parts = np.split(np.asarray(v, np.float64), np.cumsum([value.size for value in background.values()])[:-1])
        return self._control.root_transpose(
            {name: part.reshape(background[name].shape) for name, part in zip(background, parts, strict=True)}
        )

    def variance(self) -> F64:
        """Variance of each unknown: a product with Lᵀ for each."""
        unit, out = np.zeros(self.size), np.empty(self.size)
        for k in range(self.size):
            unit[k] = 1.0
            out[k] = np.square(self.root_transpose(unit)).sum()
            unit[k] = 0.0
        return out
