"""Steps in one sweep over bands of rows of planes: the same bits as step by step, whatever lies at the edges of bands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.base.system import usable_cores
from diffsim.solvers import Acoustic, Elastic, Heat, Maxwell
from diffsim.stepping.source import wavefront
from diffsim.stepping.source.wavefront import Wavefront
from tests.stepping.derive import test_overwritten
from tests.stepping.source.test_wavefront import found, together_and_alone

THREADS = min(2, usable_cores())
SHAPE = (67, 27, 9)
"""Slabs that have room for sweeps of four steps on two threads, and bands that do not fill planes."""


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing fits into a cache, so planes are cut wherever they can be, into bands as narrow as they can be."""
    monkeypatch.setattr(Wavefront, "pays", lambda *_: True)
    monkeypatch.setattr(Wavefront, "_room", lambda *_: 1)
    monkeypatch.setattr(wavefront, "LEAST_BAND", 1)


def everywhere(seed: int = 0, count: int = 60, on_faces: bool = False) -> list[list[float]]:
    """Points at and between the values of a field, some of them at sides, so that each band has some at its edges."""
    random = np.random.default_rng(seed)
    last = np.array(SHAPE) - 1.0 - on_faces
    points = random.uniform(0, 1, (count, 3)) * last
    points[: count // 3] = np.round(points[: count // 3])
    points[0], points[1] = 0.0, last
    points[2:5, 1], points[5:8, 1] = 0.0, last[1]
    return (points + 0.5 * on_faces).tolist()


def acoustic(boundary: Any = "zero", order: int = 4, **others: Any) -> ds.Simulation:
    equation = Acoustic(ds.Grid(SHAPE, 1.0), 0.1, order=order, boundary=boundary, sponge_speed=2.0, **others)
    return ds.Simulation(equation, sources={"f": everywhere(seed=1, count=30)}, receivers={"p": everywhere()})


def sincs() -> ds.Simulation:
    inside = [[20 + 0.7 * x, 5 + 0.6 * x, 4.3] for x in range(28)]
    grid = ds.Grid((67, 27, 12), 1.0)
    return ds.Simulation(Acoustic(grid, 0.1, order=8), sources={"f": [[30.0, 13.0, 5.0]]}, receivers={"p": ds.Points(inside, "sinc")})


def elastic() -> ds.Simulation:
    equation = Elastic(ds.Grid(SHAPE, 1.0), 0.1, 4, layer=((3, 3), (4, 3), (0, 2)), layer_speed=2.0, layer_frequency=0.1)
    sources, receivers = everywhere(1, 9, on_faces=True), everywhere(0, 20, on_faces=True)
    return ds.Simulation(equation, sources={"fy": sources}, receivers={"vy": receivers}, wrt=["vs", "rho"])


def maxwell() -> ds.Simulation:
    equation = Maxwell(ds.Grid(SHAPE, 1.0), 0.2)
    (forcing, *_), (state, *_) = equation.forcings, equation.states
    sources, receivers = everywhere(1, 9, on_faces=True), everywhere(0, 20, on_faces=True)
    return ds.Simulation(equation, sources={forcing: sources}, receivers={state: receivers}, wrt=["eps"])


def heat(boundary: Any) -> ds.Simulation:
    return ds.Simulation(Heat(ds.Grid(SHAPE, 1.0), 0.05, boundary=boundary), receivers={"T": everywhere()})


SIMULATIONS: dict[str, Callable[[], ds.Simulation]] = {
    "acoustic": acoustic,
    "acoustic order 8, sponge": lambda: acoustic(order=8, sponge=3),
    "acoustic mirror": lambda: acoustic(("zero", "mirror", "mirror")),
    "acoustic values": lambda: acoustic(("zero", (ds.Dirichlet(1.0), "extrapolate"), "zero")),
    "acoustic sincs": sincs,
    "elastic with a layer": elastic,
    "maxwell": maxwell,
    "heat extrapolate": lambda: heat(("mirror", ("extrapolate", ds.Dirichlet(2.0)), "mirror")),
}


def ran(simulation: ds.Simulation) -> dict[str, Any]:
    """The solution of random inputs, after a sweep of eight steps and one alone."""
    random, steps = np.random.default_rng(0), 9
    inputs = {name: random.uniform(0.5, 1.5, simulation.input_shape(name, steps)) for name in simulation.inputs}
    solution = simulation.run(inputs, steps)
    return {**solution.final, **{f"traces {name}": values for name, values in solution.traces.items()}}


def require_same_bits(name: str, threads: int, results: Callable[[ds.Simulation], dict[str, Any]]) -> None:
    ds.init(precision="f64", threads=threads)
    simulations: list[ds.Simulation] = []

    def simulation() -> ds.Simulation:
        simulations.append(SIMULATIONS[name]())
        return simulations[-1]

    assert "forward" in together_and_alone(simulation, results)
    launcher = simulations[0]._compiled.stepper.launcher
    way = launcher._wavefronts["forward", threads][0]
    assert way.bands is not None and way.bands.count(launcher.layout) > 2


def test_a_run_in_bands_has_the_same_bits() -> None:
    require_same_bits("acoustic values", 1, ran)


@pytest.mark.slow
@pytest.mark.parametrize("threads", sorted({1, THREADS}))
@pytest.mark.parametrize("name", SIMULATIONS)
def test_gradients_in_bands_have_the_same_bits(name: str, threads: int) -> None:
    """With the steps of a search: those that advance alone, and those that keep what the adjoint reads."""
    results = test_overwritten.found if name.startswith("elastic") else found  # a solid is no array of random numbers
    require_same_bits(name, threads, partial(results, checkpoint=3))


def test_an_axis_whose_ends_are_joined_is_not_cut() -> None:
    ds.init(precision="f64", threads=1)
    for boundary, cut in (("mirror", True), ("periodic", False)):
        simulation = ds.Simulation(Heat(ds.Grid((40, 24, 9), 1.0), 0.05, boundary=("mirror", boundary, "mirror")))
        stepper = simulation._compiled.stepper
        ways = stepper.launcher._wavefronts_of(stepper.forward, 1)
        assert [way.steps for way in ways if way.bands is None]
        assert any(way.bands is not None for way in ways) == cut


def test_fields_of_a_small_region() -> None:
    """They have fewer bytes than the grid has rows."""
    ds.init(precision="f64", threads=1)
    inside = np.zeros((64, 64, 64), bool)
    inside[3, 4, 5] = True

    class Decay(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt, self.states = ds.Grid(inside.shape, 1.0), 1.0, {"q": ds.Variable("zero", region=inside)}

        def step(self, q: Any) -> dict[str, Any]:
            return {"q": 0.5 * q}

    assert ds.Simulation(Decay()).run({"q": np.ones(inside.shape)}, 9).final["q"].sum() == 0.5**9
