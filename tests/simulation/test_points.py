"""Sources and receivers between cells, in waves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import map_coordinates

import diffsim as ds
from diffsim.errors import ShapeError
from diffsim.expr import Symbol
from diffsim.solvers import Acoustic

DX, DT, STEPS, C = 10.0, 2e-3, 110, 2000.0
SHAPE = (54, 50)
TIME = DT * np.arange(STEPS) - 0.08
WAVELET = ((1 - 2 * (np.pi * 15 * TIME) ** 2) * np.exp(-((np.pi * 15 * TIME) ** 2)))[:, None]
"""A Ricker wavelet of 15 Hz: 13 cells a wavelength, five at three times that frequency."""


def shot(source: Any, receiver: Any, boundary: Any = "periodic", c: Any = C, shape: tuple[int, int] = SHAPE) -> np.ndarray:
    equation = Acoustic(ds.Grid(shape, DX), DT, 8, boundary)
    simulation = ds.Simulation(equation, sources={"f": source}, receivers={"p": receiver}, precision="f64")
    return simulation.run({"c": np.broadcast_to(c, shape), "f": WAVELET}, STEPS).traces["p"][:, 0]


def test_waves_of_a_source_between_cells_are_those_of_one_on_a_cell() -> None:
    """Everything shifted by a part of a cell, which changes nothing on a periodic grid; measured 6.8e-4 by sincs and 6.4e-2 by lines."""
    source, receiver, shift = np.array([[200.0, 250.0]]), np.array([[330.0, 160.0]]), np.array([3.7, 5.2])
    exact = shot(source, receiver)
    size = np.abs(exact).max()
    wide = np.abs(shot(ds.Points(source + shift, "sinc"), ds.Points(receiver + shift, "sinc")) - exact).max() / size
    thin = np.abs(shot(source + shift, receiver + shift) - exact).max() / size
    assert wide < 1e-3 and thin > 10 * wide


def test_a_dipole_is_the_difference_of_two_near_sources() -> None:
    place, way, e = np.array([[203.0, 251.0]]), np.array([0.8, 0.6]), 0.01
    receiver = [[330.0, 160.0]]
    trace = shot(ds.Points(place, "sinc", dipole=way), receiver)
    near = [shot(ds.Points(place + side * e * way, "sinc"), receiver) for side in (1, -1)]
    assert trace == pytest.approx((near[0] - near[1]) / (2 * e), abs=1e-5 * np.abs(trace).max())


@pytest.mark.parametrize("depth", [1.0, 4.0, 17.0])
def test_a_source_near_a_free_surface_and_its_image(depth: float) -> None:
    """The surface is half a cell above the first centres. A source of opposite sign above it does the same on twice the height."""
    shape, receiver = (27, 32), [[120.0, 170.0]]
    places = [[[side * depth - DX / 2 + (0 if side > 0 else 2 * 27 * DX), 250.0]] for side in (1, -1)]  # above is below the period
    trace = shot(ds.Points(places[0], "sinc"), receiver, ("odd_image", "periodic"), shape=shape)
    direct, image = (shot(ds.Points(place, "sinc"), receiver, shape=(2 * shape[0], shape[1])) for place in places)
    assert np.abs(trace - (direct - image)).max() < 1e-11 * np.abs(direct).max()
    assert np.abs(trace).max() > 0.01 * np.abs(direct).max()


def test_reciprocity() -> None:
    """Between cells, next to a free surface, in a random medium, with a dipole at one end."""
    c = np.random.default_rng(0).uniform(1500, 2500, SHAPE)
    a, b = ds.Points([[-2.2, 120.3]], "sinc"), ds.Points([[304.1, 333.3]], "sinc", dipole=(0.3, 1.0))
    there, back = shot(a, b, "odd_image", c), shot(b, a, "odd_image", c)
    assert np.abs(there - back).max() < 1e-12 * np.abs(there).max()


def test_runs_side_by_side_and_moved_have_the_bits_of_one_run() -> None:
    places, ways = np.array([[[203.0, 251.0]], [[311.0, 90.5]]]), np.array([[[1.0, 0.0]], [[0.6, 0.8]]])
    ear = ds.Points([[333.0, 160.0]], "sinc")
    one = ds.Simulation(
        Acoustic(ds.Grid(SHAPE, DX), DT, 4, "odd_image"), sources={"f": [[50.0, 50.0]]}, receivers={"p": ear}, precision="f64"
    )
    inputs = {"c": np.full(SHAPE, C), "f": WAVELET}
    both = ds.Batch(one, 2, sources={"f": ds.Points(places, "sinc", ways)}).run(inputs, STEPS).traces["p"]
    for run in range(2):
        one.move(sources={"f": ds.Points(places[run], "sinc", ways[run])})
        np.testing.assert_array_equal(one.run(inputs, STEPS).traces["p"], both[run])
    with pytest.raises(ds.errors.ShapeError, match=r"expected \(3, points, axes\)"):
        ds.Batch(one, 3, sources={"f": ds.Points(places, "sinc")})


def test_the_gradient_is_certified() -> None:
    """Next to a free surface, where the weights are folded."""
    grid = ds.Grid((15, 16), DX)
    simulation = ds.Simulation(
        Acoustic(grid, DT, 4, "odd_image"),
        sources={"f": ds.Points([[-3.0, 81.0], [52.0, 44.0]], "sinc", dipole=[[1.0, 0.0], [0.5, 0.5]])},
        receivers={"p": ds.Points([[22.0, 107.0], [3.0, 30.0]], "sinc")},
        precision="f64",
    )
    inputs = {"c": np.random.default_rng(1).uniform(1500, 2500, grid.shape), "f": np.random.default_rng(2).normal(size=(30, 2))}
    assert ds.certify(simulation, lambda found: (found.traces["p"] ** 2).sum(), inputs, steps=30, seed=3, directions=2).passed


class Currents(ds.Equation):
    """A current in some cells, with sources, beside a field in all."""

    def __init__(self, metal: np.ndarray) -> None:
        self.grid, self.dt = ds.Grid(metal.shape, spacing=1.0), 0.1
        self.states = {"e": ds.Variable("mirror"), "j": ds.Variable(region=metal)}
        self.forcings = ("f",)

    def step(self, e: Symbol, j: Symbol, f: Symbol) -> dict[str, Symbol]:
        return {"e": e - self.dt * j, "j": j + self.dt * f}


@pytest.mark.parametrize("number", range(12))
def test_sources_without_a_cell_of_the_region_are_refused(number: int) -> None:
    """Places and regions are drawn, weights are linear: at the start, where points move, and in a batch."""
    rng = np.random.default_rng(number)
    metal = rng.random(tuple(int(n) for n in rng.integers(4, 7, rng.integers(1, 3)))) < 0.3
    metal.flat[rng.integers(metal.size)] = True
    inside = np.argwhere(metal)[0].astype(float)
    place = np.where(rng.random(metal.ndim) < 0.5, rng.integers(0, metal.shape), rng.uniform(0, np.array(metal.shape) - 1)).astype(float)
    lost = map_coordinates(metal.astype(float), place[:, None], order=1)[0] == 0.0
    fits = ds.Simulation(Currents(metal), sources={"f": [inside]}, receivers={"j": [place], "e": [place]})
    ways: list[Callable[[], object]] = [
        partial(ds.Simulation, Currents(metal), sources={"f": [inside, place]}),
        partial(fits.move, sources={"f": [place]}),
        partial(ds.Batch, fits, 2, sources={"f": [[inside], [place]]}),
    ]
    for way in ways:
        with pytest.raises(ShapeError, match="region of j, where it would be lost, expected a place inside") if lost else nullcontext():
            way()
