"""Several steps in one sweep: which programs, the same bits as step by step, also with workers that abandon launches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.base.system import usable_cores
from diffsim.checkpoint import Binomial, StoreAll
from diffsim.solvers import Acoustic, Elastic, Euler, Heat, ShallowWater
from diffsim.stepping.derive import programs
from diffsim.stepping.ir.program import Program
from diffsim.stepping.run import pace
from diffsim.stepping.source import barrier, wavefront
from diffsim.stepping.source.wavefront import Wavefront
from tests.sampled import sampled
from tests.stepping.derive import test_overwritten
from tests.stepping.drawn_fluxes import Fluxes
from tests.steps import STEPS as STEPS_OF_THE_FIELD
from tests.steps.step import weights

THREADS = min(2, usable_cores())
STEPS = 15  # 8 together, then 4, then 2, and the last one alone
SIDES: dict[str, Any] = {
    "zero": "zero",
    "mirror": "mirror",
    "values": (ds.Dirichlet(1.0), "mirror"),
    "extrapolate": ("extrapolate", "zero"),
    "periodic": "periodic",
}


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing fits into the cache, so steps are computed together wherever they can be."""
    monkeypatch.setattr(Wavefront, "pays", lambda *_: True)


def acoustic(shape: tuple[int, ...], boundary: Any = "zero", order: int = 4, **others: Any) -> ds.Simulation:
    middle = [0.5 * n for n in shape]
    between = [[row + 0.5, *middle[1:]] for row in range(shape[0] - 1)]  # wherever a sweep begins or ends, on both sides of it
    points = [*between, [0.3 * (n - 1) for n in shape], [0.9 * (n - 1) for n in shape], [0.0 for n in shape], [2.5, *middle[1:]]]
    return ds.Simulation(
        Acoustic(ds.Grid(shape, 1.0), 0.1, order=order, boundary=boundary, sponge_speed=2.0, **others),
        sources={"f": [middle, *points[-4:-2]]},
        receivers={"p": points},
    )


TALL_PLATE = (165, 17)
SIMULATIONS = {
    **{f"acoustic {name}": lambda boundary=boundary: acoustic((163, 20), boundary) for name, boundary in SIDES.items()},
    "acoustic order 8": lambda: acoustic((164, 24), order=8),
    "acoustic sponge": lambda: acoustic((165, 40), sponge=8),
    "acoustic sincs": lambda: sincs((163, 20)),
    "acoustic 3-D": lambda: acoustic((51, 9, 10), ("mirror", "zero", "mirror")),
    **{f"heat {name}": lambda boundary=boundary: heat(TALL_PLATE, boundary) for name, boundary in SIDES.items()},
    "acoustic 3-D, rows joined": lambda: acoustic((53, 9, 10), ("periodic", "zero", "mirror")),
    "heat 3-D": lambda: heat((51, 9, 10), ("mirror", "zero", "mirror")),
}


def sincs(shape: tuple[int, int]) -> ds.Simulation:
    """Receivers of eight rows, and dipoles, also where a sweep ends."""
    middle = 0.5 * shape[1]
    places = [[row + 0.3, middle] for row in range(5, shape[0] - 6, 3)]
    return ds.Simulation(
        Acoustic(ds.Grid(shape, 1.0), 0.1, order=4, boundary="mirror"),
        sources={"f": ds.Points([[0.5 * shape[0], middle]], "sinc")},
        receivers={"p": ds.Points(places, "sinc", dipole=(1.0, 0.5))},
    )


def heat(shape: tuple[int, ...], boundary: Any) -> ds.Simulation:
    places = [[3.0, *(4.0 for _ in shape[1:])], [0.37 * shape[0] + 0.5, *(7.25 for _ in shape[1:])]]
    return ds.Simulation(Heat(ds.Grid(shape, 1.0), 0.1, boundary=boundary), receivers={"T": places})


def found(simulation: ds.Simulation, checkpoint: Any) -> dict[str, Any]:
    """Solution and gradient of random inputs with random cotangents."""
    random = np.random.default_rng(0)
    inputs = {name: random.uniform(0.5, 1.5, simulation.input_shape(name, STEPS)) for name in simulation.inputs}
    solution, pullback = simulation.vjp(inputs, STEPS, checkpoint=checkpoint)
    seeds = ds.Solution(
        final={name: random.standard_normal(values.shape) for name, values in solution.final.items()},
        traces={name: random.standard_normal(values.shape) for name, values in solution.traces.items()},
    )
    gradient = pullback(seeds)
    return {f"{kind} {name}": values for kind in ("final", "traces") for name, values in getattr(solution, kind).items()} | {
        f"gradient {name}": values for name, values in gradient.items()
    }


def kinds(simulation: Any) -> set[str]:
    """The programs whose steps were computed together."""
    made = simulation._all if isinstance(simulation, ds.Batch) else simulation
    return {name for (name, _), each in made._compiled.stepper.launcher._wavefronts.items() if each}


def require_equal(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys()
    for key, values in ours.items():
        assert np.abs(values).max() > 0, key
        np.testing.assert_array_equal(values, theirs[key], err_msg=key)


def together_and_alone(simulation: Callable[[], Any], run: Callable[[Any], dict[str, Any]]) -> set[str]:
    """Compare the bits of steps together and alone. Returns the programs whose steps were computed together."""
    together = simulation()
    ours = run(together)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Wavefront, "of", lambda *_: None)
        alone = simulation()
        require_equal(ours, run(alone))
        assert not kinds(alone)
    return kinds(together)


IN_GATE = ("acoustic values", "heat 3-D", "heat periodic")


def some(names: Iterable[str], first: Container[str]) -> list[Any]:
    """Names as parameters: the first ones, and the rest as slow tests."""
    return [pytest.param(name, marks=() if name in first else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", some(SIMULATIONS, IN_GATE))
def test_steps_together_have_the_same_bits(name: str) -> None:
    ds.init(precision="f64", threads=THREADS)
    programs = together_and_alone(SIMULATIONS[name], partial(found, checkpoint=3))
    assert {"forward", "adjoint"} <= programs


@pytest.mark.parametrize("checkpoint", [pytest.param(StoreAll(STEPS), id="stored", marks=pytest.mark.slow), pytest.param(3, id="3 slots")])
@pytest.mark.parametrize("name", some(SIMULATIONS, ("heat extrapolate",)))
def test_on_one_thread(name: str, checkpoint: Any) -> None:
    ds.init(precision="f64", threads=1)
    assert together_and_alone(SIMULATIONS[name], partial(found, checkpoint=checkpoint))


def elastic() -> ds.Simulation:
    places = [[row + 0.5, 3.0] for row in range(0, 200, 7)]
    return ds.Simulation(Elastic(ds.Grid((201, 9), 1.0), 0.2), sources={"fy": places}, receivers={"vy": places}, wrt=["vs", "rho"])


@pytest.mark.parametrize("threads", [1, THREADS])
def test_steps_that_overwrite_states_have_the_same_bits(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources are added in a stage of their own, after which the next step overwrites what receivers read."""
    ds.init(precision="f64", threads=threads)
    monkeypatch.setattr(programs, "LARGE", 0)
    found_together = together_and_alone(elastic, partial(test_overwritten.found, checkpoint=3))
    assert {"forward", "adjoint"} <= found_together


TALL = {step.name: step for step in STEPS_OF_THE_FIELD if len(step.shape) > 1}


@pytest.mark.parametrize("name", some(TALL, ("elastic",)))
def test_steps_with_stages(name: str) -> None:
    """Those whose programs have several nests; on some, steps cannot be computed together."""
    ds.init(precision="f64", threads=THREADS)
    step = TALL[name]
    shape = (185, *step.shape[1:])

    def run(simulation: ds.Simulation) -> dict[str, Any]:
        solution, pullback = simulation.vjp(step.all_inputs(shape), step.steps, Binomial(step.steps, min(3, step.steps)))
        return solution.final | {f"gradient {key}": value for key, value in pullback(weights(np.random.default_rng(1), solution)).items()}

    programs = together_and_alone(lambda: step.simulation(shape=shape), run)
    assert programs or name in ALONE


ALONE = {
    "shallow water, HLL, wetting and drying": "few nests",
    "Swift-Hohenberg": "the host computes",
    "Peaceman-Rachford": "lines are solved",
    "Navier-Stokes, projection": "a system is solved",
    "Burgers, adaptive time steps": "totals",
}
"""Steps that are computed one at a time, and why."""


def shallow(threads: int, **options: Any) -> tuple[ds.Simulation, dict[str, Any]]:
    """A wave runs over dry and wet land, past gauges at the ends of sweeps."""
    shape, random = (90 * threads, 13), np.random.default_rng(0)
    equation = ShallowWater(ds.Grid(shape, 1.0), 0.02, fastest=12.0, method="rk2", **options)
    places = [[row + 0.5, 6.0] for row in range(0, shape[0] - 1, 3)]
    simulation = ds.Simulation(equation, receivers={"eta": places, "qx": places[::2]})
    inputs = {"z": random.uniform(-2.0, 0.2, shape), "eta": random.uniform(-0.1, 0.3, shape), "manning": random.uniform(0.02, 0.04, shape)}
    return simulation, {name: values for name, values in inputs.items() if name in simulation.inputs}


def gas(threads: int) -> tuple[ds.Simulation, dict[str, Any]]:
    shape, random = (110 * threads, 11), np.random.default_rng(1)
    simulation = ds.Simulation(
        Euler(ds.Grid(shape, 1.0), 0.08, sides=("outflow", "wall")), receivers={"rho": [[row, 5.0] for row in range(99)]}
    )
    values = {name: random.uniform(0.8, 1.2, simulation.input_shape(name, 5)) for name in simulation.inputs}
    return simulation, values


LONG: dict[str, Callable[[int], tuple[ds.Simulation, dict[str, Any]]]] = {
    "shallow water": shallow,
    "shallow water, friction and open sides": partial(shallow, drag="manning", sides=(("open", "wall"), "open")),
    "shallow water, sides joined": partial(shallow, sides=("periodic", "wall")),
    "gas": gas,
}


@pytest.mark.parametrize("threads", sampled(sorted({1, THREADS}), gate=[THREADS]))
@pytest.mark.parametrize("name", some(LONG, ("shallow water, friction and open sides",)))
def test_nests_of_one_step_in_turn(name: str, threads: int) -> None:
    """Kept values go on where the rows before ended, receivers are read before a later nest overwrites their rows."""
    ds.init(precision="f64", threads=threads)
    _, inputs = LONG[name](threads)

    def run(simulation: ds.Simulation) -> dict[str, Any]:
        solution, pullback = simulation.vjp(inputs, 5, StoreAll(5))
        gradient = pullback(weights(np.random.default_rng(1), solution))
        return solution.final | solution.traces | {f"gradient {key}": value for key, value in gradient.items()}

    assert {"forward_with_residuals", "adjoint_with_residuals"} <= together_and_alone(lambda: LONG[name](threads)[0], run)


@pytest.mark.parametrize("name", some(SIMULATIONS, ("acoustic sincs",)))
def test_single_steps_have_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With sources and receivers, which a sweep adds and reads row by row."""
    monkeypatch.setattr(wavefront, "MANY", 1)
    monkeypatch.setattr(wavefront, "TOGETHER", (1,))
    ds.init(precision="f64", threads=THREADS)
    assert {"forward", "adjoint"} <= together_and_alone(SIMULATIONS[name], partial(found, checkpoint=3))


SWEPT = (9, 17)
"""Drawn steps of which forward steps and adjoints are swept, with sides and joined: others have few nests or short grids."""


@pytest.mark.parametrize("number", sampled(range(40), gate=SWEPT[1:]))
def test_nests_of_drawn_steps_in_turn(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep of four rows at a time, with limiters, stages, kept values, cells outside and beds that rise above the water."""
    monkeypatch.setattr(wavefront, "MANY", 2)
    monkeypatch.setattr(wavefront, "BLOCK", 4)
    ds.init(precision=("f64", "f32")[number % 2], threads=1)  # type: ignore[arg-type]
    swept = swept_alike(Fluxes(number, ndim=2, most=60, alone=True))
    assert number not in SWEPT or len(swept) == 2


class PartlyJoined(Fluxes):
    """A drawn step on a tall grid. Along its first axis the sides are joined for the depth, and not for the momentum."""

    def __init__(self, number: int) -> None:
        super().__init__(number, ndim=2, most=20, alone=True)
        self.grid = ds.Grid((260 + number % 5, 9 + number % 3), 1.0)

    def _sides(self, generator: np.random.Generator, sides: bool) -> tuple[Any, Any]:
        of_h, of_q = super()._sides(generator, sides)
        return ("periodic", of_h[1]), ("mirror", of_q[1])


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_workers_sweep_drawn_steps_with_sides_joined(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last worker computes both sides, each by its own rule, and kept values begin anew there."""
    monkeypatch.setattr(wavefront, "MANY", 2)
    ds.init(precision="f64", threads=THREADS)
    swept = swept_alike(PartlyJoined(number))
    assert number != 9 or {"forward_with_residuals", "adjoint_with_residuals"} <= swept


def swept_alike(equation: Fluxes) -> set[str]:
    """Compare the bits of nests in turn with those of one nest after the other. Returns the programs that were swept."""

    def run(simulation: ds.Simulation) -> dict[str, Any]:
        solution, pullback = simulation.vjp(equation.inputs(), 3, StoreAll(3))
        gradient = pullback(weights(np.random.default_rng(1), solution))
        results = solution.final | {f"gradient {key}": value for key, value in gradient.items()}
        return {key: values for key, values in results.items() if np.any(values)}  # some steps read no bed

    return together_and_alone(lambda: ds.Simulation(equation), run)


@pytest.mark.skipif(THREADS < 2, reason="one worker waits for none")
def test_workers_leave_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ds.init(precision="f64", threads=THREADS)
    left = 0
    note = pace.Pace.note

    def counted(self: pace.Pace, steps: int, seconds: float, leaves: bool = False) -> None:
        nonlocal left
        left += leaves
        note(self, steps, seconds, leaves)

    whole = found(SIMULATIONS["heat mirror"](), 3)
    monkeypatch.setattr(pace.Pace, "note", counted)
    monkeypatch.setattr(barrier, "PATIENCE", 1)
    require_equal(found(SIMULATIONS["heat mirror"](), 3), whole)
    assert left > 0


@pytest.mark.parametrize("steps", sampled([1, 7, 9]))
def test_slow_steps_are_computed_together_too(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a launch has time for fewer steps, it takes eight; here four are left after that."""
    ds.init(precision="f64", threads=1)
    simulation = SIMULATIONS["heat zero"]()
    compiled = simulation._compiled
    compiled.start(compiled.checked({"kappa": np.ones(TALL_PLATE), "T": np.ones(TALL_PLATE)}, 12), 12)
    launched = []
    kernel = compiled.stepper.launcher._kernel

    def watched(program: Any, workers: int, found: Wavefront | None = None) -> Any:
        launched.append(found)
        return kernel(program, workers, found)

    monkeypatch.setattr(compiled.stepper.launcher, "_kernel", watched)
    monkeypatch.setattr(pace.Pace, "steps", lambda self: steps)
    compiled.stepper.advance(0, 12)
    assert [each.steps for each in launched] == [8, 4]


def test_the_pace_ignores_the_rest_of_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that ends a sweep which another one began did not do these steps."""
    ds.init(precision="f64", threads=THREADS)
    noted = []
    monkeypatch.setattr(barrier, "PATIENCE", 1)
    monkeypatch.setattr(pace.Pace, "note", lambda self, steps, seconds, left=False: noted.append((steps, left)))
    simulation = SIMULATIONS["heat zero"]()
    simulation.run({"kappa": np.ones(TALL_PLATE), "T": np.ones(TALL_PLATE)}, 40)
    assert sum(steps for steps, _ in noted) <= 40
    assert all(steps > 0 or left for steps, left in noted)


class Chained(ds.Equation):
    """A state of one level that its own nest reads at its own cell, so it looks as if it were overwritten in place, and a stage."""

    dt = 0.1
    forcings = ()

    def __init__(self, shape: tuple[int, int]) -> None:
        self.grid = ds.Grid(shape, 1.0)
        self.states = {"u": ds.Variable("mirror"), "v": ds.Variable("mirror")}

    def step(self, u: Any, v: Any) -> dict[str, Any]:
        v = ds.stage(v + 0.1 * (u.shifted(0, 1) - 2 * u + u.shifted(0, -1)))
        return {"u": u - 0.1 * (v.shifted(0, 1) - 2 * v + v.shifted(0, -1)), "v": v}


def test_states_of_one_level_keep_their_receivers() -> None:
    ds.init(precision="f64", threads=THREADS)
    programs = together_and_alone(
        lambda: ds.Simulation(Chained((201, 9)), receivers={"v": [[3.0, 4.0], [100.5, 2.0]]}), partial(found, checkpoint=3)
    )
    assert "forward" in programs


def test_receivers_that_move_are_read_where_they_are() -> None:
    """From one row to eight rows, which takes another wavefront."""
    ds.init(precision="f64", threads=THREADS)
    shape = (163, 20)
    inputs = {"c": np.full(shape, 2.0), "p": np.random.default_rng(0).standard_normal(shape)}

    def moved() -> ds.Simulation:
        simulation = ds.Simulation(Acoustic(ds.Grid(shape, 1.0), 0.1, order=4), receivers={"p": [[80.0, 10.0]]})
        simulation.run(inputs, STEPS)
        simulation.move(receivers={"p": ds.Points([[80.4, 10.0]], "sinc")})
        return simulation

    def run(simulation: ds.Simulation) -> dict[str, Any]:
        return {"p": simulation.run(inputs, STEPS).traces["p"]}

    assert "forward" in together_and_alone(moved, run)


def test_a_batch() -> None:
    ds.init(precision="f64", threads=1)
    shape, random = (9, 40), np.random.default_rng(0)
    inputs = {"c": np.full(shape, 2.0), "p": random.standard_normal((24, *shape))}

    def batch() -> Any:
        return ds.Batch(ds.Simulation(Acoustic(ds.Grid(shape, 1.0), 0.1, order=4), receivers={"p": [[3.5, 10.5], [8.0, 3.0]]}), 24)

    def run(made: Any) -> dict[str, Any]:
        return {"p": made.run(inputs, STEPS).traces["p"]}

    assert "forward" in together_and_alone(batch, run)


def test_a_grid_in_the_cache_is_computed_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    ds.init(precision="f32", threads=1)
    stepper = acoustic((128, 512))._stepper
    fields = stepper.launcher.fields
    adjoint = dataclasses.replace(stepper.forward, direction=-1)
    found = Wavefront.of(stepper.forward, fields, 1, 2, 1)
    assert found is not None

    def answers(program: Program, cached: str) -> list[bool]:
        """For caches in which rows between the stages do not fit; they fit and the fields do not; all fits."""
        out = []
        for cache in (64 << 10, 400 << 10, 4 << 20):
            for name in ("last_cache_bytes", "core_cache_bytes"):
                monkeypatch.setattr(wavefront, name, lambda cache=cache if name == cached else 1 << 30: cache)
            out.append(found.pays(program, fields, 1))
        return out

    assert answers(stepper.forward, "last_cache_bytes") == answers(adjoint, "last_cache_bytes") == [False, True, False]
    assert answers(stepper.forward, "core_cache_bytes") == [False, True, False]
    assert answers(adjoint, "core_cache_bytes") == [False, False, False]  # residuals come from memory
