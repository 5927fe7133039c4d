"""A proof that the gradient of a simulation's loss is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import instance, mapping, real_array, whole
from diffsim.base.messages import shown
from diffsim.base.quantities import ANYTHING
from diffsim.certificate.directions import Bounds, Chooser, Directions, Moves, Scale, of_components
from diffsim.certificate.engine import Direction, Sums, measure, repeatable
from diffsim.certificate.line import Certificate
from diffsim.certificate.measures import MISMATCH, products, random_weights, reached, scaled
from diffsim.certificate.path import EPS, Path, finest_step
from diffsim.checkpoint import Checkpoint
from diffsim.errors import ParameterError
from diffsim.simulation import Batch, Simulation, Solution
from diffsim.simulation.gradients.loss import Loss, value_and_cotangents
from diffsim.simulation.prepared.reading import checked_array, is_function
from diffsim.typing import Array


def certify(
    simulation: Simulation | Batch,
    loss: Loss,
    inputs: Mapping[str, npt.ArrayLike],
    steps: int,
    seed: int = 0,
    directions: Directions = 3,
    scale: Scale = None,
    bounds: Bounds = None,
) -> Certificate:
    """Measure whether the gradient of a loss through a simulation is right.

        dot product     <J v, w> = <v, Jᵀ w> for random v and w, input by input
        jvp and vjp     the derivative of the loss along v by the tangent, and by the gradient
        Taylor          |L(x + h d) - L(x)| falls as h, and |L(x + h d) - L(x) - h ∇L·d| as h²
        checkpoints     the gradient by every schedule has the bits of the one for which all was stored

    If a function in a step has a reverse rule only, there are no tangents: in f64 a direction that changes one input alone judges in place
    of the first two lines of this input.

    A line passes, fails, or cannot judge, and then gives the reason and a remedy. docs/certificate.md explains each line.

    Args:
        simulation: in f64; or a `Batch` of one, whose loss is of the solution of all runs.
        loss: solution -> a number, or (value, cotangents); see `Simulation.value_and_grad`.
        inputs: where.
        steps: time steps.
        seed: of all random numbers.
        directions: of the Taylor test: how many random ones, or one's own, as a mapping from inputs to their changes, or a list of such
            mappings. Beside random ones stands a single cell of each input, at the edge of the grid; one's own stand alone.
        scale: typical size of a change, > 0, in the unit of each input: a number, or by name; steps of the Taylor test are no longer.
            Inputs without one are changed by a tenth of each entry, so that entries that are 0 stay 0; by 1 if all are 0.
        bounds: input -> (least, greatest value), None where there is none; no change leaves them.

    Raises:
        ParameterError: the simulation is in f32, where slopes drown in round-off; or an argument is not as it should be.
        ShapeError: an array does not fit its input.

    Returns:
        The certificate: its lines in order, each with the measured value and its limit, and `passed`. If a run fails, for example because
        it blows up, its line names the error.

    Example:
        import numpy as np

        import diffsim as ds

        grid = ds.Grid((20,), spacing=0.05)
        rod = ds.Simulation(ds.solvers.Heat(grid, dt=0.1), precision="f64")
        inputs = {"kappa": np.full(20, 5e-3), "T": np.cos(np.pi * grid.coordinates(0)) + 2.0}
        report = ds.certify(rod, lambda found: 0.5 * (found.final["T"] ** 2).sum(), inputs, steps=10)
        assert report.passed, report
    """
    instance("simulation", simulation, (Simulation, Batch), "a simulation", "build it with diffsim.Simulation(equation)")
    if simulation.precision != "f64":
        raise ParameterError(
            "precision = 'f32', expected a simulation in f64, because in f32 the slopes drown in round-off; build it with "
            "diffsim.Simulation(..., precision='f64')"
        )
    steps, seed = whole("steps", steps, 1), whole("seed", seed, 0)
    arrays = mapping("inputs", inputs, '{"c": c, "f": f}')
    one = simulation._one if isinstance(simulation, Batch) else simulation
    meanings = {name: simulation._meaning(name) for name in one.inputs}

    def array(name: str, value: Any) -> Array:
        if is_function(value) and name in one.inputs:
            return checked_array(one._compiled, name, value, steps).astype(float)
        return real_array(f"inputs[{name!r}]", value, float, meanings.get(name, ANYTHING))

    arrays = simulation._named(arrays, steps) if isinstance(simulation, Batch) else simulation._apart(arrays)
    directions, scale, bounds = of_components(one._groups, directions, scale, bounds)
    point = {name: array(name, value) for name, value in arrays.items()}
    for name in simulation.wrt:  # initial fields that are left out are zero
        point.setdefault(name, np.zeros(simulation.input_shape(name, steps)))
    chooser = Chooser({name: point[name] for name in simulation.wrt}, scale, bounds, np.random.default_rng(seed), meanings)
    return Certificate(tuple(measure(_Checked(simulation, loss, point, steps, chooser, directions))))


class _Checked:
    """A simulation and a loss at a point."""

    differences = True
    limit = MISMATCH["f64"]

    def __init__(
        self,
        simulation: Simulation | Batch,
        loss: Loss,
        point: dict[str, Array],
        steps: int,
        chooser: Chooser,
        directions: Directions,
    ) -> None:
        self.simulation, self.loss, self.point, self.steps, self.chooser = simulation, loss, point, steps, chooser
        self.own: list[Moves] = []
        self.count = 0
        if isinstance(directions, (int, np.integer)) and not isinstance(directions, bool):
            self.count = int(directions)
        elif isinstance(directions, (Mapping, list, tuple)):
            several = [directions] if isinstance(directions, Mapping) else directions
            self.own = [chooser.own(moves, f"directions[{k}]") for k, moves in enumerate(several)]
        else:
            raise ParameterError(
                f"directions = {shown(directions)}, expected how many, or a mapping from inputs to changes, or a list of these; "
                f"write it like {{{shown(next(iter(simulation.wrt)))}: change}}"
            )
        if not self.own and self.count < 1:
            raise ParameterError(f"directions = {shown(directions)}, expected at least 1; without one, nothing is tested")

    def gradient(self, checkpoint: Checkpoint) -> dict[str, Array]:
        value, gradient = self.simulation.value_and_grad(self.loss, self.point, self.steps, checkpoint)
        return {**gradient, "value": np.array(value)}

    def start(self, gradient: Mapping[str, Array]) -> None:
        self.value, self.stored = float(gradient["value"]), gradient

    def sums(self) -> Iterator[Sums]:
        for name in self.simulation.wrt:
            pair = _Pair(self, name)
            yield Sums(f"dot product, {name}", name, repeatable(self.chooser.rng, pair.transposes))
            yield Sums(f"jvp against vjp of the loss, {name}", name, pair.of_loss)

    def lines(self) -> Iterator[Direction]:
        for k, moves in enumerate(self.own):
            yield self._direction(f"directions[{k}]", moves)
        for k in range(self.count):
            yield self._direction(f"random {k + 1}", self.chooser.anywhere())
        if self.count:
            for name in self.simulation.wrt:
                yield self._direction(f"{name} at the edge", self.chooser.at_edge(name, self.stored[name]), needed=False)

    def alone(self, name: str) -> Direction:
        return self._direction(f"{name} alone", self.chooser.one(name))

    def _direction(self, label: str, moves: Moves, needed: bool = True) -> Direction:
        parts = [(self.stored[name] * field).ravel() for name, field in moves.fields.items()]
        slope = sum(float(part.sum()) for part in parts)
        size = max(abs(slope), float(np.linalg.norm(np.concatenate(parts))))
        rounding = EPS * float(np.linalg.norm(np.concatenate([(self.stored[n] * self.point[n]).ravel() for n in moves.fields])))
        path = Path(lambda h: self._along(h, moves), self.value, slope, size, 1.0, moves.back, rounding)
        path.elsewhere = lambda h: self._slope_at(h, moves)
        names = list(moves.fields)
        path.finest = finest_step(*(np.concatenate([np.ravel(of[n]) for n in names]) for of in (self.point, moves.fields)))
        return Direction(label, tuple(moves.fields), path, needed)

    def _slope_at(self, h: float, moves: Moves) -> float:
        gradient = self.simulation.value_and_grad(self.loss, self._there(h, moves), self.steps)[1]
        return sum(float((gradient[name] * move).sum()) for name, move in moves.fields.items())

    def _there(self, h: float, moves: Moves) -> dict[str, Array]:
        return self.point | {name: self.point[name] + h * move for name, move in moves.fields.items()}

    def _along(self, h: float, moves: Moves) -> float:
        there = self._there(h, moves)
        return value_and_cotangents(self.loss, self.simulation.run(there, self.steps))[0]


class _Pair:
    """The two comparisons of tangent and adjoint for one input, along the same random change."""

    def __init__(self, checked: _Checked, name: str) -> None:
        self.checked, self.name = checked, name
        self.v = checked.chooser.random(name)
        self._tangents: dict[float, tuple[Solution, Solution]] = {}

    def transposes(self, factor: float) -> tuple[Array, Array, bool]:
        checked, (_, moved) = self.checked, self._tangent(1.0)
        weights = random_weights(moved, checked.chooser.rng, checked.simulation)
        _, pullback = checked.simulation.vjp(checked.point, checked.steps)
        backward = pullback(scaled(weights, factor))[self.name] / factor
        return products(self._tangent(factor)[1], weights) / factor, backward * self.v, True

    def of_loss(self, factor: float) -> tuple[Array, Array, bool]:
        solution, moved = self._tangent(factor)
        bars = value_and_cotangents(self.checked.loss, solution)[1]
        return products(moved, bars) / factor, self.checked.stored[self.name] * self.v, reached(moved, bars)

    def _tangent(self, factor: float) -> tuple[Solution, Solution]:
        if factor not in self._tangents:
            self._tangents[factor] = self.checked.simulation.jvp(self.checked.point, {self.name: factor * self.v}, self.checked.steps)
        return self._tangents[factor]
