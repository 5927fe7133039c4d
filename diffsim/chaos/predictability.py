"""How far ahead a state, and a plain gradient, of a chaotic system can be trusted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from diffsim.ad import jvp
from diffsim.base.arguments import number, whole
from diffsim.chaos.ensembles import Ensemble
from diffsim.chaos.sensitivity import Average, Sensitivity, checked, named
from diffsim.chaos.shadowing import with_all_receivers
from diffsim.checkpoint import ChaosWarning
from diffsim.simulation import Batch, Simulation, Solution
from diffsim.typing import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Predictability:
    """The growth of small changes in a chaotic system, by the time since they began.

    Attributes:
        times: times, s, shape (steps + 1,).
        error: the distance of two runs that begin close to each other, relative to that of two runs that have nothing in common; it
            grows to about 1.
        cotangent: the size of a cotangent by the time before the last step, relative to that at the last.
        gradient: the plain gradient of the average from time 0 on, its mean over the members.
        noise: its standard deviation over the members.
    """

    times: Array
    error: Array
    cotangent: Array
    gradient: Array
    noise: Array

    @property
    def horizon(self) -> float:
        """The end of the longest stretch of time in which the plain gradient of one run is worth more than its noise, s; 0 if there is
        none."""
        worth = np.concatenate([[False], np.abs(self.gradient[1:]) >= self.noise[1:], [False]])
        begins, ends = (np.flatnonzero(np.diff(worth.astype(int)) == sign) for sign in (1, -1))
        return float(self.times[ends[np.argmax(ends - begins)]]) if begins.size else 0.0

    def __str__(self) -> str:
        doublings = np.log2(self.cotangent[-1])
        each = f"{self.times[-1] / doublings:.3g} s" if doublings > 1 else "no time within the run"
        return f"a plain gradient is worth more than its noise up to {self.horizon:.3g} s; a cotangent doubles in {each}"

    def draw(self) -> Figure:
        """The growth of errors and of the cotangent, and the plain gradient beside its noise."""
        from diffsim.plot.style import ANSWER, FAINT, START, dress, new_figure

        figure = new_figure(3.6)
        left, right = figure.subplots(1, 2)
        left.semilogy(self.times, self.error, color=ANSWER, label="distance of two runs")
        left.semilogy(self.times, self.cotangent, color=START, label="size of the cotangent, backwards")
        right.semilogy(self.times[1:], np.abs(self.gradient[1:]), color=ANSWER, label="plain gradient, mean of the members")
        right.semilogy(self.times[1:], self.noise[1:], color=START, label="its noise, one member")
        right.axvline(self.horizon, color=FAINT, linewidth=0.8, label="horizon")
        for axes, title in ((left, "growth of small changes"), (right, "gradient of the average from 0 on")):
            dress(axes, title, "time (s)", grid=True)
            axes.legend(fontsize="small", frameon=False)
        return figure


def predictability(
    simulation: Simulation,
    inputs: Mapping[str, Any],
    average: Average,
    wrt: str,
    steps: int,
    members: int = 64,
    settle: int | None = None,
    spread: float = 0.3,
    change: float = 1e-6,
    along: Any = None,
) -> Predictability:
    """The time up to which a plain gradient of an average is worth more than its noise, and the growth of small changes.

    Runs from several states are differentiated along the parameter. The averages of all differ little, but their plain gradients soon do:
    their standard deviation is the noise of one.

    Args:
        simulation: the system.
        inputs: initial states, and parameters.
        average: see `shadowing`.
        wrt: the name of a parameter.
        steps: steps of the longest average.
        members: number of states; 64 or more, since the horizon is where a mean and a deviation over them are equal.
        settle: steps before, in which the members become independent of each other; None: as many as `steps`.
        spread: standard deviation of the random part of an initial state, relative to that of the state over `settle` steps.
        change: distance of two runs at the beginning, relative to that of states.
        along: the direction in which a parameter that is a field changes, an array of its shape; None: by 1 in each entry.

    Returns:
        The growth by time, with the horizon, and a figure of it (`draw`).

    Raises:
        ParameterError: a number out of range, a system whose runs cannot be computed together (see `Batch`), or states on faces.
        DivergenceError: a run, or a tangent within `steps`, is no longer finite.

    Reference: Lea, Allen and Haine (2000), Sensitivity analysis of the climate of a chaotic system, Tellus A 52, 523-532,
        doi:10.3402/tellusa.v52i5.12283.

    Example:
        import diffsim as ds

        system = ds.Simulation(ds.solvers.Lorenz63(dt=0.01), precision="f64")
        start = {"x": 1.0, "y": 2.0, "z": 20.0, "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
        result = ds.chaos.predictability(system, start, lambda now: now["z"][:, 0], wrt="rho", steps=1500)
        assert 0.5 < result.horizon < 8 and result.error[0] < 1e-5 and result.noise[-1] > 10
        result.draw().savefig("predictability.png")
    """
    change = number("change", change, "a number above 0", lambda value: value > 0, "give the distance of two runs at the beginning")
    average = named(average)
    ensemble, batch, steps = _settled(simulation, inputs, steps, members, settle, spread)
    vectors, dt = ensemble.vectors, simulation.equation.dt
    slopes, states = _slopes(ensemble, batch, average, wrt, along, steps)
    moved = batch.run(ensemble.inputs(2**0.5 * change * ensemble.directions()), steps).traces
    distance = np.linalg.norm(vectors.joined(moved, 2) - states, axis=2)
    sums = np.cumsum(0.5 * (slopes[:, 1:] + slopes[:, :-1]), axis=1) / np.arange(1, steps + 1)
    plain = np.column_stack([slopes[:, 0], sums])
    return Predictability(
        dt * np.arange(steps + 1),
        _middle(distance) / (np.sqrt(2) * float(np.linalg.norm(states.std(axis=(0, 1))))),
        _cotangent(ensemble, batch, steps),
        plain.mean(axis=0),
        plain.std(axis=0, ddof=1),
    )


def ensemble_gradient(
    simulation: Simulation,
    inputs: Mapping[str, Any],
    average: Average,
    wrt: str,
    steps: int,
    members: int = 16,
    settle: int | None = None,
    spread: float = 0.3,
    along: Any = None,
) -> Sensitivity:
    """The mean of the plain gradients of many short averages.

    Short averages have a gradient with little noise and a large bias, long ones the opposite, and the noise grows exponentially: where the
    exponents are large, no number of members is enough. `predictability` shows this for a system; `shadowing` has neither.

    Args:
        simulation: the system.
        inputs: initial states, and parameters.
        average: see `shadowing`.
        wrt: the name of a parameter.
        steps: steps of each average.
        members: number of averages.
        settle, spread, along: see `predictability`.

    Returns:
        The mean of the gradients, and the average, with their standard errors.

    Raises:
        ParameterError: a number out of range, a system whose runs cannot be computed together (see `Batch`), or states on faces.
        DivergenceError: a run, or a tangent within `steps`, is no longer finite.

    Reference: Lea, Allen and Haine (2000), Sensitivity analysis of the climate of a chaotic system, Tellus A 52, 523-532,
        doi:10.3402/tellusa.v52i5.12283.

    Example:
        import diffsim as ds

        system = ds.Simulation(ds.solvers.Lorenz63(dt=0.01), precision="f64")
        start = {"x": 1.0, "y": 2.0, "z": 20.0, "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
        height = lambda now: now["z"][:, 0]
        short = ds.chaos.ensemble_gradient(system, start, height, wrt="rho", steps=50, members=64)
        long = ds.chaos.ensemble_gradient(system, start, height, wrt="rho", steps=2000, members=64)
        assert short.error < 0.1 and short.value < 0.6  # the slope of long averages is 1.0
        assert long.error > 100 * short.error
    """
    average = named(average)
    ensemble, batch, steps = _settled(simulation, inputs, steps, members, settle, spread)
    slopes, states = _slopes(ensemble, batch, average, wrt, along, steps)
    each = np.trapezoid(slopes, axis=1) / steps
    values = [np.asarray(average(ensemble.vectors.apart(one)), dtype=float) for one in states]
    means = np.trapezoid(values, axis=1) / steps
    error, mean_error = (float(part.std(ddof=1) / ensemble.members**0.5) for part in (each, means))
    return Sensitivity(float(each.mean()), error, float(means.mean()), mean_error)


def _settled(
    simulation: Simulation, inputs: Mapping[str, Any], steps: int, members: int, settle: int | None, spread: float
) -> tuple[Ensemble, Batch, int]:
    """An ensemble on the attractor, and the batch of its members."""
    steps = whole("steps", steps, 1, remedy="give the steps")
    recorded = with_all_receivers(simulation, of_states=True)
    ensemble = Ensemble(recorded, inputs, members, steps if settle is None else settle, spread)
    batch = Batch(recorded, ensemble.members)
    ensemble.settle_down(batch)
    return ensemble, batch, steps


def _slopes(ensemble: Ensemble, batch: Batch, average: Average, wrt: str, along: Any, steps: int) -> tuple[Array, Array]:
    """The derivative of the quantity along the parameter, shape (members, times), and the states, (members, times, size)."""
    vectors = ensemble.vectors
    direction = np.stack([vectors.direction(wrt, along)] * ensemble.members)
    primal, changed = batch.jvp(ensemble.inputs(), {wrt: direction}, steps)
    states, tangents = vectors.joined(primal.traces, 2), vectors.joined(changed.traces, 2)
    slopes = np.empty(states.shape[:2])
    for k, (each, moved) in enumerate(zip(states, tangents, strict=True)):
        values, changes = jvp(average, (vectors.apart(each),), (vectors.apart(moved),))
        checked(np.asarray(values, dtype=float), steps + 1)
        slopes[k] = changes
    return slopes, states


def _cotangent(ensemble: Ensemble, batch: Batch, steps: int) -> Array:
    """The size of a random cotangent by the time before the last step."""
    vectors, sizes = ensemble.vectors, np.empty((ensemble.members, steps + 1))

    def watch(step: int, cotangents: Mapping[str, Array]) -> None:
        sizes[:, steps - step] = np.linalg.norm(vectors.joined(cotangents, 1) * ensemble.sizes, axis=1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChaosWarning)  # the growth is what is asked for
        _, pullback = batch.vjp(ensemble.inputs(), steps, watch=watch)
        pullback(Solution(final=vectors.apart(ensemble.directions() / np.where(ensemble.sizes > 0, ensemble.sizes, 1.0) ** 2)))
    return _middle(sizes / sizes[:, :1])


def _middle(values: Array) -> Array:
    """The geometric mean over the members."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(np.log(values).mean(axis=0)))
