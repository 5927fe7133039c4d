"""A simulation as one operation on the tape of an array program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from diffsim.ad.arrays.array import Array as DifferentiatedArray
from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.core import is_plain, require_not_recording
from diffsim.ad.model import apply
from diffsim.ad.ops.structure import astype
from diffsim.ad.transforms.gradients import value_and_grad
from diffsim.base.quantities import plain
from diffsim.errors import DerivativeError
from diffsim.simulation.gradients.direct import Direct
from diffsim.simulation.gradients.gradient import run_reversibly
from diffsim.simulation.prepared.checks import check_names
from diffsim.simulation.prepared.compiled import Compiled
from diffsim.simulation.prepared.forward import run_forward
from diffsim.simulation.prepared.groups import Gradient
from diffsim.simulation.prepared.inputs import input_meaning
from diffsim.simulation.prepared.options import RunOptions
from diffsim.simulation.prepared.points import with_tangents
from diffsim.simulation.prepared.reading import checked_array, is_function, spread, whole_array
from diffsim.simulation.prepared.solution import Solution
from diffsim.stepping.declare.points import PointTable
from diffsim.stepping.ir.names import dot
from diffsim.typing import Array

Run = TypeVar("Run", bound="TapedRun")


def run_taped(compiled: Compiled, inputs: Mapping[str, Any], steps: int, options: RunOptions) -> Solution:
    """Solve forward as an operation on the tape.

    Raises:
        DerivativeError: an input that is not in `wrt` is differentiated for.
    """
    functions = {name: value for name, value in inputs.items() if is_function(value)}
    inputs = {name: _kept_or_array(compiled, name, value) for name, value in inputs.items() if name not in functions}
    run = TapedRun.of(compiled, tuple(inputs), steps, options, functions)
    others = ((n, core(inputs[n])) for n in run.names if n not in compiled.wrt)
    fixed = [n for n, value in others if not is_plain(value) and not value.trace.replayed]  # a recorded value alone is not differentiated
    if fixed:
        raise DerivativeError(
            f"the simulation was built for gradients with respect to {', '.join(compiled.wrt)}, but {', '.join(fixed)} is differentiated; "
            "add it to wrt=, or hold it constant with ds.stop_gradient"
        )
    cores = [core(inputs[n]) for n in run.names]
    cores = [c if getattr(c, "dtype", None) == compiled.dtype else astype(c, dtype=compiled.dtype) for c in cores]
    return run.solution([wrap(value) for value in apply(run, cores)])


def value_and_grad_taped(
    compiled: Compiled, loss: Callable[[Solution], Any], inputs: Mapping[str, Any], steps: int, options: RunOptions
) -> tuple[Any, dict[str, Any]]:
    """`Simulation.value_and_grad` as operations of an array program: the run, the loss, and both of their sweeps."""
    if options.watched:
        require_not_recording("a function that follows the sweep")
    chosen = {name: _chosen(compiled, name, inputs, steps) for name in compiled.wrt}
    both = value_and_grad(lambda chosen: loss(run_taped(compiled, {**inputs, **chosen}, steps, options)))
    value, gradient = both(chosen)
    return value, Gradient(gradient, compiled.groups) if compiled.groups.parts else gradient


def _chosen(compiled: Compiled, name: str, inputs: Mapping[str, Any], steps: int) -> Any:
    """An input of which there is a gradient, of the simulation's type."""
    if isinstance(value := inputs.get(name), DifferentiatedArray):
        return value.astype(compiled.dtype)
    return checked_array(compiled, name, value, steps) if name in inputs else np.zeros(compiled.input_shape(name, steps), compiled.dtype)


def _kept_or_array(compiled: Compiled, name: str, value: Any) -> Any:
    """An input as an array, or as a list, which may hold differentiated values."""
    if isinstance(value, DifferentiatedArray):
        return spread(compiled, name, value)
    if isinstance(value, (list, tuple)):
        return plain(f"input {name}", value, input_meaning(compiled, name))
    return whole_array(compiled, name, value)


@dataclass(frozen=True)
class TapedRun:
    """A run of a simulation as an operation on the tape.

    Attributes:
        names: the inputs, in the order of the arguments.
        outputs: the meaning of each value: ("final", state) or ("traces", state).
        points: places of sources and receivers in this run. `Simulation.move` may have changed them since.
        options: see `Simulation.run`.
        functions: inputs that are functions of coordinates, and no arguments.
    """

    compiled: Compiled
    names: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    steps: int
    points: Mapping[str, PointTable]
    options: RunOptions
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls: type[Run],
        compiled: Compiled,
        names: tuple[str, ...],
        steps: int,
        options: RunOptions,
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> Run:
        """A run with sources and receivers where they are now.

        Raises:
            ParameterError: an input has a name that is not known.
        """
        functions = functions or {}
        check_names("inputs", (*names, *functions), compiled.inputs, "inputs", compiled.equation)
        outputs = (*(("final", s) for s in compiled.step.states), *(("traces", s) for s in compiled.receivers))
        return cls(compiled, names, outputs, steps, dict(compiled.points), options, functions)

    def _named(self, args: Sequence[Array]) -> dict[str, Any]:
        return {**self.functions, **dict(zip(self.names, args, strict=True))}

    def _values(self, solution: Solution) -> tuple[Array, ...]:
        return tuple(getattr(solution, part)[name] for part, name in self.outputs)

    def solution(self, values: Sequence[Any]) -> Solution:
        """Values (or their cotangents) by name."""
        parts: dict[str, dict[str, Any]] = {"final": {}, "traces": {}}
        for (part, name), value in zip(self.outputs, values, strict=True):
            parts[part][name] = value
        return Solution(**parts, groups=self.compiled.groups)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        with self.compiled.placed(self.points):
            return self._values(run_forward(self.compiled, self._named(args), self.steps, self.options))

    def with_pullback(self, *args: Array) -> tuple[tuple[Array, ...], Callable[[Sequence[Array]], list[Array]]]:
        with self.compiled.placed(self.points):
            solution, pullback = run_reversibly(self.compiled, self._named(args), self.steps, self.options)

        def pull(cts: Sequence[Array]) -> list[Array]:
            bars = pullback(self.solution(cts))
            return [bars.get(name, np.zeros_like(a)) for name, a in zip(self.names, args, strict=True)]

        return self._values(solution), pull

    def bound(self, pulled: bool) -> Callable[..., Any]:
        """See `diffsim.ad.model.Model`."""
        return Direct(self, pulled)

    def is_current(self) -> bool:
        """True while sources and receivers are at the places of this run."""
        return all(table is self.compiled.points.get(name) for name, table in self.points.items())

    def tangent(self, differentiable: bool) -> TapedRun:
        compiled = self.compiled
        with compiled.turn:
            tangent = compiled.with_tangent(differentiable)
        order = tangent.traced.order
        names = (*self.names, *(dot(name, order) for name in self.names))
        outputs = (*self.outputs, *((part, dot(name, order)) for part, name in self.outputs))
        points = with_tangents(self.points, compiled.step.forcings, compiled.receivers, order)
        return TapedRun(tangent, names, outputs, self.steps, points, self.options, self.functions)
