"""A proof that the gradient of a scene is right: measured figures, each with its limit.

    dot product     <J v, w> = <v, Jᵀ w> for random v and w: tangent and adjoint of all time steps are transposes.
    jvp and vjp     the scene's own loss: its derivative along v by the tangent, and by the gradient.
    Taylor          |J(θ + h d) - J(θ)| falls as h, and |J(θ + h d) - J(θ) - h ∇J·d| as h². This is the one line that knows
                    nothing of derivatives but the gradient, so it would see a tangent and an adjoint that are wrong alike.
    checkpoints     the gradient by every schedule has the bits of the one for which all was stored.

All in f64. Where the arch has no f64, the first two lines and the last are measured in f32, with a limit to match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from diffsim.ad import vjp
from diffsim.certificate import Line, taylor
from diffsim.certificate.certify import MOST_REPEATED, SLOTS
from diffsim.certificate.measures import MISMATCH, equal_sums, products, random_weights, same_bits, slope_lines
from diffsim.checkpoint import AnySchedule, Binomial, Policy, StoreAll
from diffsim.engine import settings
from diffsim.errors import SceneError
from diffsim.scene.assemble import Problem, assemble
from diffsim.scene.domains import everywhere
from diffsim.scene.objective import Objective
from diffsim.scene.schema import Description
from diffsim.scene.truth import observe
from diffsim.typing import Array, IntArray

AWAY = 0.1
"""The gradient is checked at a random place this far from the start, in theta: the start itself may be special."""


def certify(scene: Description, on_line: Callable[[Line], None] | None = None) -> tuple[Line, ...]:
    """Measure every line of the certificate.

    Args:
        scene: the scene; its `certificate` says how many steps and directions.
        on_line: called with each line as soon as it is known.

    Raises:
        SceneError: the scene cannot be assembled, or `certificate.steps` are more than the run's.
    """
    lines = []
    for line in _measure(scene):
        lines.append(line)
        if on_line is not None:
            on_line(line)
    return tuple(lines)


def _measure(scene: Description) -> Iterator[Line]:
    run = scene.time.count
    steps = scene.certificate.steps or run
    if steps > run:
        raise SceneError(f"certificate.steps: expected at most the {run} steps of the run, found {steps}; lower it")
    shorter = scene.model_copy(update={"time": scene.time.model_copy(update={"steps": steps, "duration": None})})
    precision = "f32" if settings().arch == "vulkan" else "f64"
    problem = assemble(shorter.model_copy(update={"checkpoint": type(scene.checkpoint)()}), precision)
    check = _Check(problem, Objective(problem, observe(shorter, problem.setup)), np.random.default_rng(scene.seed), MISMATCH[precision])
    yield from check.dotproducts()
    yield from check.loss_both_ways()
    if precision == "f64":
        yield from check.taylor_tests(scene.certificate.directions)
    yield from check.checkpoints()


class _Check:
    """One scene under test, at a random place near its start."""

    def __init__(self, problem: Problem, objective: Objective, rng: np.random.Generator, limit: float) -> None:
        self.problem, self.objective, self.rng, self.limit = problem, objective, rng, limit
        bounds, start = problem.unknowns.bounds(), problem.theta
        self.theta = np.clip(start + AWAY * rng.standard_normal(start.size), bounds.lb, bounds.ub)

    def dotproducts(self) -> Iterator[Line]:
        """For each unknown, with random weights on every trace and every final state of the first shot."""
        setup = self.problem.setup
        inputs = next(setup.prepared(self.problem.inputs(self.problem.unknowns.split(self.theta))))
        for name in setup.simulation.wrt:
            v = self.rng.standard_normal(setup.simulation.input_shape(name, setup.steps))
            _, moved = setup.simulation.jvp(inputs, {name: v}, setup.steps)
            w = random_weights(moved, self.rng)
            _, pullback = setup.simulation.vjp(inputs, setup.steps)
            yield equal_sums(f"dot product, {name}", products(moved, w), pullback(w)[name].astype(float) * v, self.limit)

    def loss_both_ways(self) -> Iterator[Line]:
        """The derivative of the loss along random fields, by the tangent and by the gradient."""
        problem, setup = self.problem, self.problem.setup
        fields = problem.unknowns.split(self.theta)
        by_cell = self.objective.evaluate(self.theta).by_cell
        for name in fields:
            v = self.rng.standard_normal(fields[name].shape)
            forward = []
            for number, inputs in enumerate(setup.prepared(problem.inputs(fields))):
                solution, moved = setup.simulation.jvp(inputs, setup.shaped({name: v}), setup.steps)
                forward.append(products(moved, self.objective.seed(solution, number)[1]))
            penalty = self.objective.penalty(fields)[1].get(name)
            if penalty is not None:
                forward.append((penalty * v).ravel())
            yield equal_sums(f"jvp against vjp of the loss, {name}", np.concatenate(forward), by_cell[name].astype(float) * v, self.limit)

    def taylor_tests(self, directions: int) -> Iterator[Line]:
        """Along random directions, and along single variables where faults hide: at the edge, at a source or a receiver."""
        here = self.objective.evaluate(self.theta)
        value, gradient = here.value, here.gradient
        chosen = {f"random {k + 1}": self.rng.standard_normal(self.theta.size) for k in range(directions)}
        for label, direction in {**chosen, **self._localised(here.by_cell)}.items():
            found = taylor(self.objective.value, self.theta, value, float(gradient @ direction), direction)
            yield from slope_lines(label, found)

    def checkpoints(self) -> Iterator[Line]:
        """Every schedule against the one that stores all."""
        problem = self.problem
        steps, simulation = problem.setup.steps, problem.setup.simulation
        stored: AnySchedule = StoreAll(steps)
        if simulation.schedule(steps).recorded < steps:  # not enough memory here
            stored = simulation.schedule(steps)
        expected = self.objective.evaluate(self.theta, stored)
        reference = {**expected.by_cell, "value": np.array(expected.value)}
        for slots in SLOTS:
            if slots >= steps:  # as many as there are steps store all
                break
            schedule = Binomial(steps, slots)
            if schedule.advances > MOST_REPEATED * steps:
                continue
            found = self.objective.evaluate(self.theta, Policy(schedule=schedule, verify=False))  # the bits themselves are the proof here
            note = f"{schedule.advances / steps:.2f} forward steps a step; numbers that differ are counted"
            name = f"{slots} slot{'s' if slots > 1 else ''} against {_called(stored)}"
            yield same_bits(name, {**found.by_cell, "value": np.array(found.value)}, reference, note)

    def _localised(self, by_cell: Mapping[str, Array]) -> dict[str, Array]:
        """theta along single cells: the outermost free cell that the loss feels most, and the free one nearest to a source or receiver."""
        problem, setup = self.problem, self.problem.setup
        grid = setup.grid
        out: dict[str, Array] = {}
        points = np.concatenate([*setup.receivers.values(), *setup.shots[0].sources.values(), np.zeros((0, grid.ndim))])
        for name, free in problem.free.items():
            cells = np.argwhere(free)
            to_edge = np.minimum(cells, np.array(free.shape) - 1 - cells).min(axis=1)
            outermost = cells[to_edge == to_edge.min()]
            out[f"{name} near the edge"] = self._unit(name, outermost[np.argmax(np.abs(by_cell[name][tuple(outermost.T)]))])
            if len(points) and everywhere(setup.equation, name):
                position = (points[len(points) // 2] - np.array(grid.origin)) / np.array(grid.spacing)
                out[f"{name} at a source or receiver"] = self._unit(name, cells[np.argmin(np.sum((cells - position) ** 2, axis=1))])
        return out

    def _unit(self, name: str, cell: IntArray) -> Array:
        """The direction of theta that moves a cell most, of unit length."""
        problem = self.problem
        bars = {other: np.zeros(free.shape) for other, free in problem.free.items()}
        bars[name][tuple(cell)] = 1.0
        direction = vjp(problem.unknowns.split, self.theta)[1](bars)[0]
        return direction / np.linalg.norm(direction)


def _called(schedule: AnySchedule) -> str:
    return "all stored" if isinstance(schedule, StoreAll) else f"{schedule.slots} slots"
