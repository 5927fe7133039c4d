"""Several runs of one simulation side by side, computed by one kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.ad.arrays.array import Array as DifferentiatedArray
from diffsim.base.arguments import function, instance, mapping, real_array, whole
from diffsim.base.quantities import ANYTHING, Meaning, is_bare, places_on, plain
from diffsim.base.summary import Rows, Summary
from diffsim.checkpoint import Action, AnySchedule, Checkpoint, OnProgress
from diffsim.engine import Rebuilt
from diffsim.errors import DiffsimError, ParameterError, ShapeError
from diffsim.mesh.grid import Grid
from diffsim.numpy import asarray, broadcast_to, moveaxis, reshape
from diffsim.simulation.gradients.loss import Loss, value_and_cotangents
from diffsim.simulation.prepared.checks import check_names, check_steps, checked_cotangents, places
from diffsim.simulation.prepared.compiled import Compiled
from diffsim.simulation.prepared.forward import Watch
from diffsim.simulation.prepared.groups import Gradient
from diffsim.simulation.prepared.inputs import input_meaning, value_meaning
from diffsim.simulation.prepared.locks import Turn
from diffsim.simulation.prepared.options import Until, WatchAdjoint
from diffsim.simulation.prepared.points import Tables, point_tables, side_by_side
from diffsim.simulation.prepared.reading import is_function, spread, whole_array
from diffsim.simulation.prepared.solution import Pullback, Solution
from diffsim.simulation.prepared.traced import Traced
from diffsim.simulation.simulation import Simulation
from diffsim.stepping.declare.equation import Equation
from diffsim.stepping.declare.points import Places, Points, PointTable
from diffsim.stepping.derive.forward import source_points
from diffsim.stepping.trace.batched import Batched, why_not_batched
from diffsim.typing import Array

PARTS = ("cells", "weights", "starts")
MOST = 2**20
"""The most runs of a batch."""


class Batch(Rebuilt, Summary):
    """Several runs of one simulation side by side: shots of a survey, members of an ensemble.

    One kernel computes them all, so a small grid costs fewer launches and keeps all cores busy. Each run has the same bits as alone.

    An input has the shape that the simulation takes, and is then the same in all runs, or one axis of runs before it. Solutions have an
    axis of runs before the others: states (runs, cells), traces (runs, steps + 1, receivers). A gradient has the shape of its input; for
    an input that all runs share it is the sum over the runs. That of a state that is left out has an axis of runs.

    Args:
        simulation: one run. It stays as it is, and can be used.
        runs: number of runs.
        sources: forcing -> coordinates, shape (runs, sources, axes), or (sources, axes) for all runs, or `Points`. Left out: those of
            the simulation.
        receivers: state -> coordinates, likewise.

    Attributes:
        runs: number of runs.
        precision: "f32" or "f64", that of the simulation.
        wrt: the inputs that have gradients, those of the simulation.

    Raises:
        ParameterError: the equation's runs cannot be computed together: its grid has three dimensions, it has numbers among its states, or
            a stage that reads all cells, such as a solver or a sum.
        ShapeError: a source or receiver outside the grid, or coordinates for another number of runs.

    Example:
        import numpy as np

        import diffsim as ds

        # Which wave speed explains a survey of three shots?
        grid = ds.Grid((40, 60), spacing=10.0)
        one = ds.Simulation(
            ds.solvers.Acoustic(grid, dt=1.5e-3), sources={"f": [[50.0, 100.0]]}, receivers={"p": [[350.0, 300.0]]}, wrt=["c"]
        )
        shots = ds.Batch(one, 3, sources={"f": [[[50.0, x]] for x in (100.0, 300.0, 500.0)]})
        wavelet = np.sin(np.linspace(0.0, 6.0, 200))[:, None]
        measured = shots.run({"c": np.full(grid.shape, 2000.0), "f": wavelet}, steps=200).traces["p"]
        assert measured.shape == (3, 201, 1)
        guess = {"c": np.full(grid.shape, 1900.0), "f": wavelet}
        loss, gradient = shots.value_and_grad(lambda solution: ((solution.traces["p"] - measured) ** 2).sum(), guess, steps=200)
        assert loss > 0 and gradient["c"].shape == grid.shape
    """

    def __init__(
        self,
        simulation: Simulation,
        runs: int,
        sources: Mapping[str, Places] | None = None,
        receivers: Mapping[str, Places] | None = None,
    ) -> None:
        one = instance("simulation", simulation, Simulation, "a diffsim.Simulation", "build one for a single run")._compiled
        one.domain.require("a Batch", False)
        self.runs = whole("runs", runs, 1, MOST, "give the number of runs")
        refused = self.obstacle(simulation)
        if refused is not None:
            raise ParameterError(
                f"batch of {type(one.equation).__name__}, expected a step whose cells read only cells nearby, got {refused}; solve one run "
                "after another"
            )
        self._take(simulation, {name: [table] * self.runs for name, table in one.points.items()} | self._tables(one, sources, receivers))

    @staticmethod
    def obstacle(simulation: Simulation) -> str | None:
        """The reason why runs of a simulation cannot be computed together; None: they can."""
        return why_not_batched(simulation._step) if simulation._compiled.domain.alone else "a grid in domains"

    def _take(self, simulation: Simulation, points: Mapping[str, list[PointTable]]) -> None:
        one = simulation._compiled
        self._one, self._points = simulation, dict(points)
        self.precision, self.wrt = simulation.precision, simulation.wrt
        batched = Batched(one.grid, self.runs)
        parts = batched.map(one.traced.coefficients), batched.map(one.traced.initial), batched.step(one.step)
        self._all = Simulation._of(
            Compiled(
                _Together(one.equation, batched.grid),
                Traced(*parts, one.traced.order),
                {name: side_by_side(tables) for name, tables in points.items()},
                one.receivers,
                one.wrt,
                one.precision,
                Turn(),
                differentiable=one.stepper.adjoint is not None,
            )
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the simulation and the points. Kernels are compiled anew after loading."""
        return self._reduced(_loaded, lambda: (self._one, self.runs, self._points))

    def _summary(self) -> tuple[str, Rows]:
        head, rows = self._one._summary()
        return f"Batch of {self.runs} runs: {head}", rows

    def __repr__(self) -> str:
        return f"Batch({self._one!r}, runs={self.runs})"

    def move(self, sources: Mapping[str, Places] | None = None, receivers: Mapping[str, Places] | None = None) -> None:
        """Move sources and receivers without compiling anew; see the class for their shapes.

        Raises:
            ShapeError: a source or receiver is outside the grid. Nothing is moved.
            ParameterError: a forcing or state that the simulation was built without.
        """
        tables = self._tables(self._one._compiled, sources, receivers)
        with self._all._turn:
            self._all._compiled.move({name: side_by_side(each) for name, each in tables.items()})
            self._points |= tables

    @contextmanager
    def _placed(self, points: Mapping[str, PointTable]) -> Iterator[None]:
        """Move the sources and receivers of all runs to those of one run inside of the `with` block."""
        tables = {name: side_by_side([table] * self.runs) for name, table in points.items()}
        known = self._all._compiled.points
        same = all(np.array_equal(getattr(table, part), getattr(known[name], part)) for name, table in tables.items() for part in PARTS)
        with self._all._compiled.placed({} if same else tables):
            yield

    def run(
        self,
        inputs: Mapping[str, Any],
        steps: int,
        every: int = 0,
        watch: Watch | None = None,
        checkpoint: Checkpoint = "auto",
        until: Until | None = None,
    ) -> Solution:
        """Solve forward; see `Simulation.run`. States have an axis of runs, also in `watch` and `until`."""
        steps, inputs = check_steps(steps), self._named(inputs, steps)
        return self._apart(self._all.run(self._together(inputs, steps), steps, every, watch, checkpoint, until))

    def vjp(
        self,
        inputs: Mapping[str, npt.ArrayLike],
        steps: int,
        checkpoint: Checkpoint = "auto",
        on_action: Callable[[Action], None] | None = None,
        until: Until | None = None,
        every: int = 1,
        on_progress: OnProgress | None = None,
        watch: WatchAdjoint | None = None,
    ) -> tuple[Solution, Pullback]:
        """Solve forward, and prepare the reverse sweep; see `Simulation.vjp`."""
        steps, inputs = check_steps(steps), self._named(inputs, steps)
        joint_inputs = self._together(inputs, steps)
        shared = {name for name, value in inputs.items() if is_function(value) or np.ndim(value) <= len(self.input_shape(name, steps))}
        joint, pull = self._all.vjp(joint_inputs, steps, checkpoint, on_action, until, every, on_progress, watch)
        solution = self._apart(joint)
        parts = ({n: np.broadcast_to(v.dtype.type(0), v.shape) for n, v in part.items()} for part in _parts(solution))
        like = Solution(*parts, groups=solution.vectors)

        def pullback(cotangents: Solution) -> dict[str, Array]:
            bars = pull(self._joint(checked_cotangents(cotangents, like, partial(value_meaning, self._one._compiled, runs=True))))
            each = {name: self._input_bar(name, bar, name in shared) for name, bar in bars.items()}
            groups = self._one._groups
            return Gradient(each, groups, each.keys() - shared) if groups.parts else each

        return solution, pullback

    def value_and_grad(
        self,
        loss: Loss,
        inputs: Mapping[str, npt.ArrayLike],
        steps: int,
        checkpoint: Checkpoint = "auto",
        on_action: Callable[[Action], None] | None = None,
        until: Until | None = None,
        every: int = 1,
        on_progress: OnProgress | None = None,
        watch: WatchAdjoint | None = None,
    ) -> tuple[float, dict[str, Array]]:
        """Value of a loss of all runs and its gradient for every input in `wrt` of the simulation; see `Simulation.value_and_grad`."""
        function("loss", loss, "lambda solution: (solution.traces['p'] ** 2).sum()", optional=False)
        solution, pullback = self.vjp(inputs, steps, checkpoint, on_action, until, every, on_progress, watch)
        value, cotangents = value_and_cotangents(loss, solution)
        return value, pullback(cotangents)

    def jvp(self, inputs: Mapping[str, npt.ArrayLike], tangents: Mapping[str, npt.ArrayLike], steps: int) -> tuple[Solution, Solution]:
        """Solution and its derivative along `tangents` (inputs left out are fixed). Nothing is stored."""
        steps, inputs, tangents = check_steps(steps), self._named(inputs, steps), self._named(tangents, steps, "tangents", "tangent of")
        both = self._all.jvp(self._together(inputs, steps), self._together(tangents, steps, "tangents"), steps)
        return self._apart(both[0]), self._apart(both[1])

    def input_shape(self, name: str, steps: int) -> tuple[int, ...]:
        """The shape of an input, by name, of each of the runs; see `Simulation.input_shape`."""
        if name in self._one._step.forcings:
            return check_steps(steps), self._points[source_points(name)][0].count
        return self._one.input_shape(name, steps)

    def _meaning(self, name: str) -> Meaning:
        """The unit and dimensions of an input."""
        return input_meaning(self._one._compiled, name, runs=True)

    def schedule(self, steps: int, checkpoint: Checkpoint = "auto") -> AnySchedule:
        """The checkpointing schedule that `vjp` would use."""
        return self._all.schedule(steps, checkpoint)

    def _tables(
        self, one: Compiled, sources: Mapping[str, Places] | None, receivers: Mapping[str, Places] | None
    ) -> dict[str, list[PointTable]]:
        """The points of each run."""
        sources, receivers = (one.groups.each(places(*each)) for each in (("sources", sources), ("receivers", receivers)))
        check_names("sources", sources, one.step.forcings, "forcings with sources", one.equation)
        check_names("receivers", receivers, one.receivers, "states with receivers", one.equation)
        rows = {kind: self._rows(kind, named, one.grid) for kind, named in (("sources", sources), ("receivers", receivers))}
        each: list[Tables] = [
            point_tables(one.step, *({n: row[k] for n, row in rows[kind].items()} for kind in ("sources", "receivers")))
            for k in range(self.runs)
        ]
        return {name: [tables[name] for tables in each] for name in each[0]}

    def _rows(self, kind: str, named: Mapping[str, Places], grid: Grid) -> dict[str, list[Points]]:
        """The points of each run."""
        rows = {}
        for name, value in named.items():
            what, meaning = f"{kind} of {name}", places_on(grid.axes, grid.unit, runs=True)
            points = value.on(grid, what, runs=True) if isinstance(value, Points) else Points(real_array(what, value, float, meaning))
            shape = np.shape(points.places)
            if len(shape) == 3 and shape[0] != self.runs:
                raise ShapeError(
                    f"{kind} of {name} have shape {shape}, expected ({self.runs}, points, axes), or (points, axes) for "
                    "all runs; give a row of points for each run"
                )
            rows[name] = [points.of_run(run) for run in range(self.runs)]
        return rows

    def _named(self, inputs: Mapping[str, Any], steps: int, what: str = "inputs", one: str = "input") -> Mapping[str, Any]:
        """Inputs by the names of the fields: a vector's components in place of the vector."""
        groups = self._one._groups
        if not groups.parts:
            return mapping(what, inputs, "{'c': c}")
        cells = {part: len(self.input_shape(part, steps)) for parts in groups.parts.values() for part in parts if part in self._one.inputs}
        return groups.apart(one, mapping(what, inputs, "{'c': c}"), cells)

    def _together(self, inputs: Mapping[str, Any], steps: int, what: str = "inputs") -> dict[str, Any]:
        """Inputs of the simulation of all runs."""
        one = self._one
        check_names(what, inputs, one.inputs, "inputs", one.equation)
        return {name: self._spread(name, value, self.input_shape(name, steps), what) for name, value in inputs.items()}

    def _spread(self, name: str, value: Any, shape: tuple[int, ...], what: str) -> Any:
        """An input with an axis of runs, or as the simulation of all runs takes it."""
        if is_function(value):
            value = whole_array(self._one._compiled, name, value, self._one.dtype)
        elif isinstance(value, list | tuple) and any(map(is_function, value)):
            raise ParameterError(
                f"input {name} is a {type(value).__name__} of functions, expected one function, which holds for all runs; give one, or an "
                f"array of shape {(self.runs, *shape)} with the values of each run"
            )
        meaning = ANYTHING if is_bare(value) else self._meaning(name)
        if what == "tangents" and meaning is not ANYTHING:
            meaning = replace(meaning, difference=True)
        if not isinstance(value, DifferentiatedArray | list | tuple):
            value = real_array(f"input {name}", value, self._one.dtype, meaning)
        elif not isinstance(value, DifferentiatedArray):
            value = asarray(plain(f"input {name}", value, meaning))
        value, whole_shape = spread(self._one._compiled, name, value), (self.runs, *shape)
        series = name in self._one._step.series
        if value.shape != shape and (series or value.shape != whole_shape):
            several = "" if series else f", or {whole_shape} for one each run"
            raise ShapeError(f"input {name} has shape {value.shape}, expected {shape} for all runs{several}; give one of these")
        if series:
            return value
        value = broadcast_to(value, whole_shape)
        if name in self._one._step.forcings:  # the sources of one run after those of another
            return reshape(moveaxis(value, 0, 1), (shape[0], self.runs * shape[1]))
        return value

    def _input_bar(self, name: str, bar: Array, shared: bool) -> Array:
        """The cotangent of an input, in the shape of the input: the transpose of `_spread`."""
        if name in self._one._step.series:
            return bar
        if name in self._one._step.forcings:
            bar = np.moveaxis(bar.reshape(len(bar), self.runs, -1), 1, 0)
        return np.asarray(bar.sum(axis=0)) if shared else np.ascontiguousarray(bar)

    def _apart(self, solution: Solution) -> Solution:
        """A solution with an axis of runs before the others."""
        traces = {}
        for name, values in solution.traces.items():
            count = values.shape[1] // self.runs
            split = moveaxis(reshape(values, (values.shape[0], self.runs, count)), 1, 0)
            traces[name] = np.ascontiguousarray(split) if isinstance(split, np.ndarray) else split  # sums of it have the bits of one run
        return Solution(dict(solution.final), traces, groups=replace(self._one._groups, axis=1))

    def _joint(self, cotangents: Solution) -> Solution:
        """Cotangents of the simulation of all runs: the transpose of `_apart`."""
        traces = {}
        for name, values in cotangents.traces.items():
            traces[name] = np.moveaxis(values, 0, 1).reshape(values.shape[1], -1)
        return Solution(cotangents.final, traces)


class _Together(Equation):
    """The equation of all runs, as far as a simulation reads it, which has its expressions already.

    Attributes:
        checks_of: the class whose checks are those of each run.
    """

    def __init__(self, one: Equation, grid: Any) -> None:
        self.checks_of = type(one)
        self._one, self.grid, self.dt = one, grid, one.dt
        self.states, self.parameters, self.initials, self.series = one.states, one.parameters, one.initials, one.series
        self.forcings, self.profiles, self.unstable = one.forcings, one.profiles, one.unstable

    def step(self, **fields: Any) -> dict[str, Any]:
        raise NotImplementedError("the runs of a batch have the step of one run")

    def check(self, parameters: Mapping[str, Array]) -> None:
        for own in self._unlike(parameters):
            self._one.check(own)

    def check_series(self, parameters: Mapping[str, Array], series: Mapping[str, Array]) -> None:
        for own in self._unlike(parameters):
            self._one.check_series(own, series)  # which all runs share

    def _unlike(self, parameters: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
        """Parameters of each run; of one if they are those of all."""
        alike = all(value.strides[0] == 0 for value in parameters.values())
        for k in range(1 if alike else self.grid.shape[0]):
            yield {name: value[k] for name, value in parameters.items()}

    def check_start(self, parameters: Mapping[str, Array], states: Mapping[str, Array]) -> None:
        for k, own in enumerate(self._each(parameters, states)):
            with _of_run(k):
                self._one.check_start(*own)

    def check_end(self, parameters: Mapping[str, Array], final: Mapping[str, Array]) -> None:
        for k, own in enumerate(self._each(parameters, final)):
            with _of_run(k):
                self._one.check_end(*own)

    def _each(self, *fields: Mapping[str, Array]) -> Iterator[tuple[dict[str, Array], ...]]:
        """Fields of each run."""
        for k in range(self.grid.shape[0]):
            yield tuple({name: value[k] for name, value in each.items()} for each in fields)


@contextmanager
def _of_run(number: int) -> Iterator[None]:
    """Prefix the message of an error with the number of the run."""
    try:
        yield
    except DiffsimError as error:
        error.args = (f"run {number}: {error.args[0]}", *error.args[1:])
        raise


def _parts(solution: Solution) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
    return solution.final, solution.traces


def _loaded(simulation: Simulation, runs: int, points: Mapping[str, list[PointTable]]) -> Batch:
    batch = Batch.__new__(Batch)
    batch.runs = runs
    batch._take(simulation, points)
    return batch
