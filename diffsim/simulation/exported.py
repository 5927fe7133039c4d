"""A simulation's run as a function of plain arrays, for packages that differentiate by themselves.

Such a package calls `evaluate` where it wants values, and `record` where it wants a pullback too. `Adjoint` makes the pullback a function
of the same kind, so derivatives of any order follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.model import apply
from diffsim.ad.transforms.vjp import vjp
from diffsim.arguments import instance
from diffsim.checkpoint import Checkpoint, Policy
from diffsim.errors import ParameterError
from diffsim.simulation.batch import Batch
from diffsim.simulation.checks import check_steps
from diffsim.simulation.options import RunOptions
from diffsim.simulation.recorded import RecordedRun
from diffsim.simulation.simulation import Simulation
from diffsim.stepping.forward import receiver_points
from diffsim.typing import Array

Plain: TypeAlias = tuple[Array, ...]
Pull: TypeAlias = Callable[[Sequence[Array]], Sequence[Array]]


class Exported(Protocol):
    """A function from a row of arrays to a row of arrays."""

    def evaluate(self, *args: Array) -> Plain:
        """The values, in memory of their own."""

    def record(self, *args: Array) -> tuple[Plain, Pull]:
        """The values, and a pullback from their cotangents to one of each argument."""

    def adjoint(self) -> Exported:
        """The pullback as a function of arguments and cotangents, one row after the other."""


class ExportedRun(RecordedRun):
    """A run of a simulation."""

    def adjoint(self) -> Adjoint:
        def values(*arrays: Any) -> tuple[Any, ...]:
            return tuple(wrap(value) for value in apply(self, [core(a) for a in arrays]))

        return Adjoint(values, len(self.names), len(self.outputs))

    def check_type(self, name: str, dtype: str, convert: str) -> None:
        """Raise unless an input has the type in which the simulation computes: a conversion would be a copy, and hide a loss of digits.

        Args:
            name: the input.
            dtype: its type.
            convert: how to convert it, for the message.
        """
        if dtype != self.compiled.dtype.name:
            raise ParameterError(
                f"input {name} has the type {dtype}, expected {self.compiled.dtype.name}, in which the simulation computes; convert it by "
                f"{convert}, or build the simulation with another precision="
            )

    def check_wanted(self, name: str, constant: str) -> None:
        """Raise if the simulation has no derivative for an input.

        Args:
            name: the input.
            constant: how to hold it constant, for the message.
        """
        if name not in self.compiled.wrt:
            raise ParameterError(
                f"input {name} requires a gradient, expected one of {', '.join(self.compiled.wrt) or 'none'}, for which the simulation was "
                f"built; add it to wrt=, or hold it constant by {constant}"
            )

    def result_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each value."""
        return tuple(self._final_shape(name) if part == "final" else self._trace_shape(name) for part, name in self.outputs)

    def _final_shape(self, state: str) -> tuple[int, ...]:
        shape, axes = self.compiled.grid.shape, self.compiled.step.states[state].axes
        return shape if axes is None else tuple(shape[axis] for axis in axes)

    def _trace_shape(self, state: str) -> tuple[int, ...]:
        return self.steps + 1, self.points[receiver_points(state)].count


class Adjoint:
    """The pullback of a function, as a function of arguments and cotangents.

    Args:
        function: of diffsim's arrays.
        arguments: number of its arguments.
        values: number of its values.
    """

    def __init__(self, function: Callable[..., Sequence[Any]], arguments: int, values: int) -> None:
        self._function, self._arguments, self._values = function, arguments, values

    def _pulled(self, *both: Any) -> tuple[Any, ...]:
        args, cotangents = both[: self._arguments], both[self._arguments :]
        return tuple(vjp(self._function, *args)[1](tuple(cotangents)))

    def evaluate(self, *args: Array) -> Plain:
        return tuple(np.array(value) for value in self._pulled(*args))

    def record(self, *args: Array) -> tuple[Plain, Pull]:
        values, pullback = vjp(self._pulled, *args)
        return tuple(np.array(value) for value in values), lambda cts: [np.array(bar) for bar in pullback(tuple(cts))]

    def adjoint(self) -> Adjoint:
        return Adjoint(self._pulled, self._arguments + self._values, self._arguments)


def export(simulation: Simulation, names: Iterable[str], steps: int, checkpoint: Checkpoint) -> ExportedRun:
    """A run of a simulation as a function of the inputs that are named, with sources and receivers where they are now.

    Raises:
        ParameterError: it is no simulation, or an input has another name.
    """
    if isinstance(simulation, Batch):
        raise ParameterError(
            "simulation is a diffsim.Batch, expected a diffsim.Simulation, for other packages take one run; give the simulation of one run "
            "and add up its losses, or let the batch differentiate by its value_and_grad or vjp"
        )
    instance("simulation", simulation, Simulation, "a diffsim.Simulation", "give one")
    return ExportedRun.of(simulation._compiled, tuple(names), check_steps(steps), RunOptions(Policy.of(checkpoint)))
