"""A simulation's run as a function of plain arrays, for packages that differentiate by themselves.

Such a package calls `evaluate` where it wants values, and `with_pullback` where it wants a pullback too. `adjoint` makes the pullback a
function of the same kind, `pushforward` the tangent, and `batched` the runs of a batch. So derivatives of any order follow, of batches too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.model import apply
from diffsim.ad.transforms.gradients import stop_gradient
from diffsim.ad.transforms.jvp import jvp
from diffsim.ad.transforms.vjp import vjp
from diffsim.base.arguments import instance
from diffsim.checkpoint import Checkpoint, Policy
from diffsim.errors import ParameterError
from diffsim.simulation.batch import Batch
from diffsim.simulation.gradients.taped import TapedRun
from diffsim.simulation.prepared.checks import check_steps
from diffsim.simulation.prepared.options import RunOptions
from diffsim.simulation.prepared.solution import Solution
from diffsim.simulation.simulation import Simulation
from diffsim.stepping.derive.forward import receiver_points
from diffsim.typing import Array

Plain: TypeAlias = tuple[Array, ...]
Pull: TypeAlias = Callable[[Sequence[Array]], Sequence[Array]]
Function: TypeAlias = Callable[..., Sequence[Any]]


class ExportedRun(TapedRun):
    """A run of a simulation."""

    derived = False

    def values(self, *arrays: Any) -> tuple[Any, ...]:
        """The values of diffsim's arrays."""
        return tuple(wrap(value) for value in apply(self, [core(a) for a in arrays]))

    def adjoint(self) -> Derived:
        return Derived(self, (_pulled,), len(self.names), len(self.outputs))

    def pushforward(self) -> Derived:
        return Derived(self, (_pushed,), len(self.names), len(self.outputs))

    def batched(self, runs: int) -> Derived | None:
        together = Together.of(self, runs)
        return None if together is None else Derived(together, (), len(self.names), len(self.outputs))

    def result(self, values: Sequence[Any], stack: Callable[[Sequence[Any], int], Any]) -> Solution:
        """Values by name, as arrays of another package. Its function `stack` puts the components of a vector together along an axis."""
        solution = self.solution(values)
        return Solution(solution.final, solution.traces, groups=replace(self.compiled.groups, stack=stack))

    def check_type(self, name: str, dtype: str, convert: str) -> None:
        """Raise unless an input has the type in which the simulation computes: a conversion would be a copy, and hide a loss of digits."""
        if dtype != self.compiled.dtype.name:
            raise ParameterError(
                f"input {name} has the type {dtype}, expected {self.compiled.dtype.name}, in which the simulation computes; convert it by "
                f"{convert}, or build the simulation with another precision="
            )

    def check_wanted(self, name: str, constant: str) -> None:
        """Raise if the simulation has no derivative for an input."""
        if name not in self.compiled.wrt:
            raise ParameterError(
                f"input {name} requires a gradient, expected one of {', '.join(self.compiled.wrt) or 'none'}, for which the simulation was "
                f"built; add it to wrt=, or hold it constant by {constant}"
            )

    def result_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each value."""
        return tuple(self._result_shape(part, state) for part, state in self.outputs)

    def _result_shape(self, part: str, state: str) -> tuple[int, ...]:
        if part == "traces":
            return self.steps + 1, self.points[receiver_points(state)].count
        shape, axes = self.compiled.grid.shape, self.compiled.step.states[state].axes
        return shape if axes is None else tuple(shape[axis] for axis in axes)


Derivation: TypeAlias = Callable[[Function, int], Function]
"""(function, number of its arguments) -> a derivative as a function."""


def _pulled(function: Function, arguments: int) -> Function:
    """The pullback as a function of arguments and cotangents."""
    return lambda *both: tuple(vjp(function, *both[:arguments])[1](tuple(both[arguments:])))


def _pushed(function: Function, arguments: int) -> Function:
    """The tangents of the values as a function of arguments and tangents."""
    return lambda *both: tuple(jvp(function, both[:arguments], both[arguments:])[1])


class Derived:
    """A function of diffsim's arrays, or a derivative of one, of any order.

    Args:
        base: the function.
        chain: the derivatives that were taken, the first one first.
        arguments: number of its arguments.
        values: number of its values.

    Attributes:
        derived: whether it is a derivative of another one.
    """

    def __init__(self, base: ExportedRun | Together, chain: tuple[Derivation, ...], arguments: int, values: int) -> None:
        self._base, self._chain, self._counts = base, chain, (arguments, values)
        self._function: Function = base.values
        counts = arguments, values
        for derivation in chain:
            self._function = derivation(self._function, counts[0])
            counts = _counts_of(derivation, *counts)
        self.derived = bool(chain)

    def evaluate(self, *args: Array) -> Plain:
        """The values, in memory of their own."""
        return tuple(np.array(value) for value in self._function(*args))

    def with_pullback(self, *args: Array) -> tuple[Plain, Pull]:
        """The values, and a pullback from their cotangents to one of each argument."""
        values, pullback = vjp(self._function, *args)
        return tuple(np.array(value) for value in values), lambda cts: [np.array(bar) for bar in pullback(tuple(cts))]

    def adjoint(self) -> Derived:
        """The pullback as a function of arguments and cotangents, one row after the other."""
        return Derived(self._base, (*self._chain, _pulled), *self._counts)

    def pushforward(self) -> Derived:
        """The tangents of the values as a function of arguments and tangents, one row after the other."""
        return Derived(self._base, (*self._chain, _pushed), *self._counts)

    def batched(self, runs: int) -> Derived | None:
        """The function for several runs in one call: arguments and values have an axis of runs first. None: there is no such call."""
        batch = self._base.batched(runs)
        return None if batch is None else Derived(batch._base, (*batch._chain, *self._chain), *self._counts)


def _counts_of(derivation: Derivation, arguments: int, values: int) -> tuple[int, int]:
    """The number of arguments and of values of a derivative."""
    return (arguments + values, arguments) if derivation is _pulled else (2 * arguments, values)


@dataclass(frozen=True)
class Together:
    """The runs of a batch as a function of arrays, each with an axis of runs.

    Attributes:
        run: one of the runs. Its places of sources and receivers are those of all runs.
        batch: computes them.
    """

    run: ExportedRun
    batch: Batch

    @classmethod
    def of(cls, run: ExportedRun, runs: int) -> Together | None:
        """None if the simulation's runs cannot be computed together, or not with inputs of their own."""
        compiled = run.compiled
        one = Simulation._of(compiled)
        if Batch.obstacle(one) is not None or any(name in compiled.step.series for name in run.names) or run.options.online:
            return None
        with compiled.turn:
            batch = compiled.batches.get(runs)
            if not isinstance(batch, Batch):
                batch = compiled.batches[runs] = Batch(one, runs)
            return cls(run, batch)

    def values(self, *arrays: Any) -> tuple[Any, ...]:
        wrt = self.run.compiled.wrt
        inputs = {name: value if name in wrt else stop_gradient(value) for name, value in zip(self.run.names, arrays, strict=True)}
        with self.batch._placed(self.run.points):
            return self.run._values(self.batch.run(inputs, self.run.steps, checkpoint=self.run.options.policy))

    def batched(self, runs: int) -> Derived | None:
        return None  # a batch of batches


class Latest:
    """The pullback of the latest values, for the reverse sweep that follows most runs: it saves another forward run.

    Other packages call functions that depend on their arguments alone, so the pullback is only given out for the same arguments.
    """

    def __init__(self, model: Exported) -> None:
        self.model, self._lock = model, threading.Lock()
        self._batches: dict[int, Latest | None] = {}
        self._kept: tuple[list[Array], Pull] | None = None

    def values(self, *args: Array) -> Plain:
        """The values; their pullback is kept."""
        values, pull = self.model.with_pullback(*args)
        with self._lock:
            self._kept = [arg.copy() for arg in args], pull
        return values

    def take(self, args: Sequence[Array]) -> Pull | None:
        """The pullback, once, if the latest values were those of these arguments."""
        with self._lock:
            if self._kept is None or not all(map(np.array_equal, self._kept[0], args)):
                return None
            pull, self._kept = self._kept[1], None
            return pull

    def batched(self, runs: int) -> Latest | None:
        """That of the function for several runs in one call, the same each time; None: there is no such call."""
        if runs not in self._batches:
            model = self.model.batched(runs)
            self._batches[runs] = None if model is None else Latest(model)
        return self._batches[runs]


class Pulled:
    """The pullback of a function, as a function of arguments and cotangents, which takes that of the latest values where it fits."""

    derived = True
    with_pullback: Callable[..., tuple[Plain, Pull]]
    adjoint: Callable[[], Exported]
    pushforward: Callable[[], Exported]

    def __init__(self, latest: Latest, arguments: int) -> None:
        self._adjoint, self._latest, self._arguments = latest.model.adjoint(), latest, arguments
        self.with_pullback, self.adjoint, self.pushforward = self._adjoint.with_pullback, self._adjoint.adjoint, self._adjoint.pushforward

    def batched(self, runs: int) -> Pulled | None:
        """The pullback for several runs in one call."""
        latest = self._latest.batched(runs)
        return None if latest is None else Pulled(latest, self._arguments)

    def evaluate(self, *both: Array) -> Plain:
        """Cotangents of the arguments."""
        pull = self._latest.take(both[: self._arguments])
        return self._adjoint.evaluate(*both) if pull is None else tuple(pull(both[self._arguments :]))


Exported: TypeAlias = ExportedRun | Derived | Pulled
"""A function from a row of arrays to a row of arrays."""


def export(simulation: Simulation, inputs: Mapping[str, Any], steps: int, checkpoint: Checkpoint) -> tuple[ExportedRun, Mapping[str, Any]]:
    """A run of a simulation as a function of its inputs, with sources and receivers where they are now; and the inputs by names of fields.

    Raises:
        ParameterError: it is no simulation, or an input has another name.
        ShapeError: a vector has another number of components.
    """
    if isinstance(simulation, Batch):
        raise ParameterError(
            "simulation is a diffsim.Batch, expected a diffsim.Simulation, for other packages take one run; give the simulation of one "
            "run, over whose inputs vmap runs as a batch, or let the batch differentiate by its value_and_grad or vjp"
        )
    instance("simulation", simulation, Simulation, "a diffsim.Simulation", "give one")
    simulation._compiled.domain.require("a run in other packages", False)
    fields = simulation._apart(inputs)
    return ExportedRun.of(simulation._compiled, tuple(fields), check_steps(steps), RunOptions.of(Policy.of(checkpoint))), fields
