"""The certificate of a scene's gradient, for its loss, unknowns and shots, at a random place near the start.

Everything is measured in f64. If the arch has no f64, dot products and checkpoints are measured in f32, with a matching limit, and slopes
are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from diffsim.ad import vjp
from diffsim.certificate import Certificate, Line
from diffsim.certificate.engine import Direction, Sums, measure, repeatable
from diffsim.certificate.measures import MISMATCH, products, random_weights, reached, scaled
from diffsim.certificate.path import EPS, Path, finest_step
from diffsim.checkpoint import Checkpoint
from diffsim.engine import backend
from diffsim.errors import SceneError
from diffsim.records.checks import OUTSIDE
from diffsim.scene.schema.parts import DataFile, Sampled
from diffsim.scene.schema.schema import Description
from diffsim.scene.search.assemble import Problem, assemble
from diffsim.scene.search.objective import Objective
from diffsim.scene.setup.resolved import resolved
from diffsim.scene.shots.truth import observe
from diffsim.scene.words.model import Model
from diffsim.typing import Array, IntArray

AWAY = 0.1
"""Distance in theta from the start to the random place at which the gradient is checked. The start itself may be special."""


def certify(scene: Description, on_line: Callable[[Line], None] | None = None) -> Certificate:
    """Measure every line of the certificate.

    Args:
        scene: the scene. Its `certificate` sets the numbers of steps and directions.
        on_line: called with each line as soon as it is known.

    Raises:
        SceneError: the scene cannot be assembled, or `certificate.steps` are more than the run's.
    """
    lines = []
    for line in measure(_checked(scene)):
        lines.append(line)
        if on_line is not None:
            on_line(line)
    return Certificate(tuple(lines))


def _checked(scene: Description) -> _Checked:
    scene = resolved(scene).scene
    run = scene.time.count
    steps = scene.certificate.steps or run
    if steps > run:
        raise SceneError(f"certificate.steps: expected at most the {run} steps of the run, found {steps}; lower it")
    shorter = _taking_parts(scene).model_copy(update={"time": scene.time.model_copy(update={"steps": steps, "duration": None})})
    precision = "f64" if "f64" in backend().precisions else "f32"
    data = assemble(scene, precision).setup.data if scene.data and steps < run else None  # checked against the whole run
    problem = assemble(shorter.model_copy(update={"checkpoint": type(scene.checkpoint)()}), precision, data=data)
    objective = Objective(problem, observe(shorter, problem.setup))
    return _Checked(problem, objective, np.random.default_rng(scene.seed), precision, scene.certificate.directions)


def _taking_parts(part: Any) -> Any:
    """A scene, or a part of one, whose series and wavelets may be longer than the run, since the run is shortened on purpose."""
    if isinstance(part, (DataFile, Sampled)):
        return part.model_copy(update={"allow": (*part.allow, OUTSIDE)})
    if isinstance(part, Mapping):
        return {key: _taking_parts(value) for key, value in part.items()}
    if isinstance(part, Model):
        parts = {name: getattr(part, name) for name in type(part).model_fields if name in part.model_fields_set}
        return part.model_copy(update={name: _taking_parts(value) for name, value in parts.items()})
    return part


class _Checked:
    """One scene under test, at a random place near its start."""

    def __init__(self, problem: Problem, objective: Objective, rng: np.random.Generator, precision: str, directions: int) -> None:
        self.problem, self.objective, self.rng, self.directions = problem, objective, rng, directions
        self.simulation, self.steps = problem.setup.simulation, problem.setup.steps
        self.limit, self.differences = MISMATCH[precision], precision == "f64"
        bounds, start = problem.unknowns.bounds(), problem.theta
        self.low, self.high = bounds.lb, bounds.ub
        self.theta = _inside(start + AWAY * rng.standard_normal(start.size), self.low, self.high)
        self.fields = problem.unknowns.split(self.theta)

    def gradient(self, checkpoint: Checkpoint) -> dict[str, Array]:
        evaluation = self.objective.evaluate(self.theta, checkpoint)
        return {**evaluation.by_cell, THETA: evaluation.gradient, "value": np.array(evaluation.value)}

    def start(self, gradient: Mapping[str, Array]) -> None:
        self.value, self.by_theta, self.by_cell = float(gradient["value"]), gradient[THETA], gradient

    def sums(self) -> Iterator[Sums]:
        """Dot products with random weights on every trace and every final state of the first shot, and the loss of all shots."""
        for name in self.simulation.wrt:
            yield Sums(f"dot product, {name}", name, repeatable(self.rng, lambda factor, n=name: self._transposes(n, factor)))  # type: ignore[misc]
        for name in self.fields:
            yield Sums(f"jvp against vjp of the loss, {name}", name, repeatable(self.rng, lambda factor, n=name: self._of_loss(n, factor)))  # type: ignore[misc]

    def lines(self) -> Iterator[Direction]:
        """Random directions, and single variables where faults are likely: at the edge, at a source or a receiver."""
        for k in range(self.directions):
            yield self._direction(f"random {k + 1}", tuple(self.fields), self.rng.standard_normal(self.theta.size))
        for label, (name, direction) in self._localised().items():
            yield replace(self._direction(label, (name,), direction), needed=False)

    def alone(self, name: str) -> Direction | None:
        if name not in self.fields:
            return None
        direction, part = np.zeros(self.theta.size), self.problem.unknowns.slices[name]
        direction[part] = self.rng.standard_normal(direction[part].size)
        return self._direction(f"{name} alone", (name,), direction)

    def _transposes(self, name: str, factor: float) -> tuple[Array, Array, bool]:
        inputs = next(self.problem.setup.prepared(self.problem.inputs(self.fields)))
        v = self.rng.standard_normal(self.simulation.input_shape(name, self.steps))
        _, moved = self.simulation.jvp(inputs, {name: v}, self.steps)
        w = random_weights(moved, self.rng, self.simulation)
        if factor != 1:
            _, moved = self.simulation.jvp(inputs, {name: factor * v}, self.steps)
        _, pullback = self.simulation.vjp(inputs, self.steps)
        return products(moved, w) / factor, pullback(scaled(w, factor))[name].astype(float) / factor * v, True

    def _of_loss(self, name: str, factor: float) -> tuple[Array, Array, bool]:
        setup = self.problem.setup
        v = self.rng.standard_normal(self.fields[name].shape)
        forward, arrives = [], False
        for number, inputs in enumerate(setup.prepared(self.problem.inputs(self.fields))):
            solution, moved = self.simulation.jvp(inputs, setup.of_shot({name: factor * v}, number), setup.steps)
            seed = self.objective.misfits.seed(solution, self.fields, number)
            forward.append(products(moved, seed.bars) / factor)
            arrives = arrives or reached(moved, seed.bars)
            if name in seed.fields:
                forward.append((seed.fields[name] * v).ravel())
        penalty = self.objective.penalty(self.fields)[1].get(name)
        if penalty is not None:
            forward.append((penalty * v).ravel())
        return np.concatenate(forward), self.by_cell[name].astype(float) * v, arrives

    def _direction(self, label: str, of: tuple[str, ...], direction: Array) -> Direction:
        """A line in theta along a direction. No variable moves further than to the nearer of its bounds."""
        room = np.minimum(self.theta - self.low, self.high - self.theta)
        direction = np.clip(direction, -room, room)
        slope, parts = float(self.by_theta @ direction), self.by_theta * direction
        rounding = EPS * float(np.linalg.norm(self.by_theta * self.theta))
        longest = float(np.max(np.abs(direction), initial=0.0)) or 1.0
        size = max(abs(slope), float(np.linalg.norm(parts)))
        path = Path(lambda h: self.objective.value(self.theta + h * direction), self.value, slope, size, 1 / longest, True, rounding)
        path.elsewhere = lambda h: float(self.objective.evaluate(self.theta + h * direction).gradient @ direction)
        path.finest = finest_step(self.theta, direction)
        return Direction(label, of, path)

    def _localised(self) -> dict[str, tuple[str, Array]]:
        """Directions of single cells: the outermost free cell with the largest gradient, and the free cell nearest to a source or
        receiver."""
        problem, setup = self.problem, self.problem.setup
        grid = setup.grid
        out: dict[str, tuple[str, Array]] = {}
        points = np.concatenate([*setup.receivers.values(), *setup.shots[0].sources.values(), np.zeros((0, grid.ndim))])
        for name, free in problem.free.items():
            cells = np.argwhere(free)
            to_edge = np.minimum(cells, np.array(free.shape) - 1 - cells).min(axis=1)
            outermost = cells[to_edge == to_edge.min()]
            cell = outermost[np.argmax(np.abs(self.by_cell[name][tuple(outermost.T)]))]
            out[f"{name} near the edge"] = name, self._unit(name, cell)
            if len(points) and setup.everywhere(name):
                position = (points[len(points) // 2] - np.array(grid.origin)) / np.array(grid.spacing)
                nearest = cells[np.argmin(np.sum((cells - position) ** 2, axis=1))]
                out[f"{name} at a source or receiver"] = name, self._unit(name, nearest)
        return out

    def _unit(self, name: str, cell: IntArray) -> Array:
        """The direction of theta that moves a cell most, of unit length."""
        problem = self.problem
        bars = {other: np.zeros(free.shape) for other, free in problem.free.items()}
        bars[name][tuple(cell)] = 1.0
        direction = vjp(problem.unknowns.split, self.theta)[1](bars)[0]
        return direction / np.linalg.norm(direction)


THETA = "gradient by theta"
"""Key of this gradient among the gradients by cell. No unknown can have this name."""


def _inside(theta: Array, low: Array, high: Array) -> Array:
    """Mirror values beyond a bound at the bound, so that hardly any variable lies at its bound."""
    mirrored = np.where(theta < low, 2 * low - theta, np.where(theta > high, 2 * high - theta, theta))
    return np.clip(mirrored, low, high)
