"""A state and several tangents of it, as vectors, advanced together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from diffsim.ad import jit
from diffsim.base.arguments import instance, mapping, real_array
from diffsim.base.messages import shown
from diffsim.errors import DivergenceError, ParameterError
from diffsim.simulation import Batch, Simulation, Solution
from diffsim.simulation.prepared.checks import by_component, check_input, check_names
from diffsim.simulation.prepared.reading import whole_array
from diffsim.typing import Array

PARTS = ("final", "traces")
"""Those of a solution."""


class Vectors:
    """The states of a simulation as one vector, of the cells in which they exist.

    Args:
        simulation: the simulation.
        inputs: its inputs: the initial states, and parameters.

    Attributes:
        state: the initial state, shape (size,).
        fixed: the other inputs.
        values: the parameters, as arrays.
    """

    def __init__(self, simulation: Simulation, inputs: Mapping[str, Any]) -> None:
        instance("simulation", simulation, Simulation, "a diffsim.Simulation", "build one of the system")
        inputs = simulation._apart(mapping("inputs", inputs, "{'x': x, 'rho': 28.0}"))
        self.equation = simulation.equation
        self.names = tuple(self.equation.states)
        self.shapes = {name: simulation.input_shape(name, 1) for name in self.names}
        regions = {name: variable.region for name, variable in simulation.equation.states.items()}
        self._cells = {name: slice(None) if region is None else np.flatnonzero(region) for name, region in regions.items()}
        check_names("inputs", inputs, simulation.inputs, "inputs", simulation.equation)
        wanted = (*self.names, *simulation.equation.parameters)
        missing = [name for name in wanted if name not in inputs]
        if missing:
            raise ParameterError(f"inputs without {missing[0]}, expected all states and parameters, {', '.join(wanted)}; give it")
        self.dtype = simulation.dtype
        states = {name: whole_array(simulation._compiled, name, inputs[name], self.dtype) for name in self.names}
        for name, value in states.items():
            states[name] = value if value.ndim else np.broadcast_to(value, self.shapes[name])  # a number holds in all cells
            check_input(name, states[name], self.shapes[name], "cell")
        self.values = {name: whole_array(simulation._compiled, name, inputs[name], self.dtype) for name in simulation.equation.parameters}
        for name, value in self.values.items():
            check_input(name, value, simulation.input_shape(name, 1), "cell")
        self.state = self.joined(states)
        self.fixed = {name: value for name, value in inputs.items() if name not in self.names}

    def direction(self, wrt: str, along: Any) -> Array:
        """The direction in which the parameter `wrt` changes, of its shape: `along`, or 1 in each entry.

        Raises:
            ParameterError: `wrt` is no parameter, or the direction is 0.
            ShapeError: `along` has another shape.
        """
        if not isinstance(wrt, str) or wrt not in self.values:
            remedy = by_component([wrt] if isinstance(wrt, str) else [], self.equation) or "take one"
            raise ParameterError(f"wrt = {shown(wrt)}, expected one of the parameters among inputs, {', '.join(self.values)}; {remedy}")
        shape = self.values[wrt].shape
        if along is None:
            return np.ones(shape, self.dtype)
        direction = real_array("along", along, self.dtype)
        check_input("along", direction, shape, f"entry of {wrt}")
        if not direction.any():
            raise ParameterError(f"along is 0 everywhere, expected the direction in which {wrt} changes; give that")
        return direction

    def parameters(self, wrt: Sequence[str]) -> None:
        """Raise unless all `wrt` are inputs that are no states."""
        for name in wrt:
            if name not in self.fixed:
                remedy = by_component([name], self.equation) or "take some of these"
                raise ParameterError(f"wrt names {shown(name)}, expected parameters among inputs, {', '.join(self.fixed)}; {remedy}")

    @cached_property
    def size(self) -> int:
        return sum(self._sizes())

    @cached_property
    def _places(self) -> dict[str, slice]:
        """Where each state is in a vector."""
        ends = np.cumsum(self._sizes()).tolist()
        return {name: slice(begin, end) for name, begin, end in zip(self.names, [0, *ends], ends, strict=False)}

    def _sizes(self) -> list[int]:
        """How many values each state has."""
        cells = {name: int(np.prod(shape)) for name, shape in self.shapes.items()}
        return [cells[name] if isinstance(chosen, slice) else len(chosen) for name, chosen in self._cells.items()]

    def joined(self, states: Mapping[str, Any], leading: int = 0) -> Array:
        """States by name as vectors, behind `leading` axes."""
        arrays = [np.asarray(states[name]) for name in self.names]
        flat = {name: each.reshape(*each.shape[:leading], -1) for name, each in zip(self.names, arrays, strict=True)}
        return np.concatenate([flat[name][..., cells] for name, cells in self._cells.items()], axis=-1, dtype=self.dtype)

    def apart(self, vectors: Array) -> dict[str, Array]:
        """Vectors, along the last axis, as states by name."""
        return {name: self._placed(name, vectors[..., place]) for name, place in self._places.items()}

    def _placed(self, name: str, part: Array) -> Array:
        """A state from its values in the cells in which it exists."""
        shape, cells = (*part.shape[:-1], *self.shapes[name]), self._cells[name]
        if isinstance(cells, slice):
            return part.reshape(shape)
        whole: Array = np.zeros((*part.shape[:-1], int(np.prod(self.shapes[name]))), part.dtype)
        whole[..., cells] = part
        return whole.reshape(shape)


class Runs:
    """Several runs of a system, in one where `Batch` can, else one after another.

    Args:
        simulation: the system.
        count: number of runs.
    """

    def __init__(self, simulation: Simulation, count: int) -> None:
        self._one, self.count = simulation, count
        self._batch = Batch(simulation, count) if Batch.obstacle(simulation) is None else None

    def run(self, fixed: Mapping[str, Any], each: Mapping[str, Array], steps: int) -> Solution:
        """The solution, with an axis for the runs before the others, where `each` has an entry for each run."""
        if self._batch is not None:
            return self._batch.run({**fixed, **each}, steps)
        runs = [self._one.run({**fixed, **{name: value[k] for name, value in each.items()}}, steps) for k in range(self.count)]
        return Solution(
            *({name: np.stack([getattr(run, part)[name] for run in runs]) for name in getattr(runs[0], part)} for part in PARTS)
        )


class Tangents:
    """Runs of a system together with several of its tangents.

    Args:
        simulation: the system.
        inputs: initial states, and parameters.
        count: number of tangents.
        wrt: a parameter along which the last tangent moves too; None: none.
        along: the direction in which the parameter moves, see `Vectors.direction`.
        recorded: whether there is a receiver for each state at each cell, whose traces are wanted.
    """

    def __init__(
        self,
        simulation: Simulation,
        inputs: Mapping[str, Any],
        count: int,
        wrt: str | None = None,
        along: Any = None,
        recorded: bool = False,
    ) -> None:
        self.vectors, self.count, self._one = Vectors(simulation, inputs), count, simulation
        self._recording = recorded
        self._batch = Batch(simulation, count) if Batch.obstacle(simulation) is None else None
        if self._batch is not None:
            self._replayed = jit(self._batch.jvp)
        self._forced: dict[str, Array] = {}
        if wrt is not None:
            direction = self.vectors.direction(wrt, along)
            self._forced[wrt] = np.stack([*[np.zeros_like(direction)] * (count - 1), direction])

    def advance(self, state: Array, tangents: Array, steps: int) -> tuple[Array, Array, Array, Array]:
        """Run some steps: the state and the tangents after them, shapes (size,) and (size, count), and, if recorded, both at all times,
        shapes (steps + 1, size) and (count, steps + 1, size)."""
        inputs = {**self.vectors.fixed, **self.vectors.apart(state)}
        moved = {**self._forced, **self.vectors.apart(np.ascontiguousarray(tangents.T))}
        try:
            primal, along = self._moved(inputs, moved, steps)
        except DivergenceError:
            self._one.run(inputs, steps)  # raises it where the state itself diverges
            raise DivergenceError(
                f"tangents overflow within {steps} steps, expected laps or segments in which they stay finite; take fewer steps for each"
            ) from None
        final, ends = self.vectors.joined(primal.final), self.vectors.joined(along.final, 1)
        if not self._recording:
            return final, ends.T, np.empty(0), np.empty(0)
        return final, ends.T, self.vectors.joined(primal.traces, 1), self.vectors.joined(along.traces, 2)

    def _moved(self, inputs: Mapping[str, Any], moved: Mapping[str, Array], steps: int) -> tuple[Solution, Solution]:
        """The solution, and those of the tangents with an axis for these before the others."""
        if self._batch is not None:
            primal, along = self._replayed(inputs, moved, steps)
            return Solution(*({name: each[0] for name, each in part.items()} for part in (primal.final, primal.traces))), along
        runs = [self._one.jvp(inputs, {name: each[k] for name, each in moved.items()}, steps) for k in range(self.count)]
        stacked = ({n: np.stack([getattr(each, part)[n] for _, each in runs]) for n in getattr(runs[0][0], part)} for part in PARTS)
        return runs[0][0], Solution(*stacked)
