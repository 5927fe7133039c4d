"""Stretched axes: operators and points against closed forms, conservation, gradients, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ShapeError, StabilityError
from diffsim.expr import Symbol, diff, diff_centred, div, grad, interpolate, laplacian, muscl, weno5
from diffsim.solvers import Acoustic, Heat, LongWave
from diffsim.stepping.declare.points import point_table
from tests.steps.test_gradient import loss


def stretched_faces(cells: int) -> np.ndarray:
    """From 0 to 1; the smallest cells, in the middle, are about a third of the largest."""
    s = np.linspace(0, 1, cells + 1)
    return s + 0.5 * np.sin(2 * np.pi * s) / (2 * np.pi)


def grid_of(cells: int) -> ds.Grid:
    return ds.Grid.from_faces((stretched_faces(cells), np.linspace(0, 1, 6)))


class Once(ds.Equation):
    """A step that gives an expression of one field."""

    dt = 1.0

    def __init__(self, grid: ds.Grid, places: tuple[int, int], operator: Callable[[Symbol], Symbol]) -> None:
        """`places`: where the field and the result lie along axis 0."""
        self.grid, self.operator = grid, operator
        before, after = ((place, 0) for place in places)
        self.states = {"f": ds.Variable("zero", before), "g": ds.Variable("zero", after)}

    def step(self, f: Symbol, g: Symbol) -> dict[str, Symbol]:
        return {"f": f, "g": self.operator(f) + 0.0 * g}


OPERATORS: dict[str, tuple[Callable[[Symbol], Symbol], int, str]] = {
    "diff": (lambda f: diff(f, 0), 1, "slope"),
    "interpolate": (lambda f: interpolate(f, 0), 1, "value"),
    "diff_centred": (lambda f: diff_centred(f, 0), 0, "slope"),
    "laplacian": (laplacian, 0, "bend"),
    "div grad": (lambda f: div(grad(f)), 0, "bend"),
    "muscl, below": (lambda f: muscl(f, 0, lambda a, b: 0.5 * (a + b))[0], 1, "value"),
    "muscl, above": (lambda f: muscl(f, 0, lambda a, b: 0.5 * (a + b))[1], 1, "value"),
}
"""Operators along axis 0, whether their result lies elsewhere, and what it is."""
EXACT = {"value": lambda x: np.sin(3 * x), "slope": lambda x: 3 * np.cos(3 * x), "bend": lambda x: -9 * np.sin(3 * x)}


def error(name: str, place: int, cells: int) -> float:
    """Largest error of an operator of sin(3 z) away from the ends, where zero values outside are read."""
    operator, moves, what = OPERATORS[name]
    grid = grid_of(cells)
    equation = Once(grid, (place, abs(place - moves)), operator)
    along = np.ones(grid.shape)
    before = EXACT["value"](grid.coordinates(0, place))[:, None] * along
    final = ds.Simulation(equation).run({"f": before}, 1).final["g"]
    wanted = EXACT[what](grid.coordinates(0, abs(place - moves)))
    return float(np.abs(final[3:-3, 2] - wanted[3:-3]).max())


@pytest.mark.parametrize("place", [0, 1], ids=["centres", "faces"])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_of_second_order(name: str, place: int) -> None:
    assert np.log2(error(name, place, 40) / error(name, place, 80)) == pytest.approx(2, abs=0.35)


LINEAR = ("diff", "interpolate", "muscl, below", "muscl, above", "diff_centred")


@pytest.mark.parametrize("place", [0, 1], ids=["centres", "faces"])
@pytest.mark.parametrize("name", LINEAR)
def test_straight_lines_are_exact_where_cells_jump_in_size(name: str, place: int) -> None:
    faces = np.cumsum([0.0, 1, 1, 3, 0.5, 2, 2, 5, 1, 1, 0.25, 1])
    grid = ds.Grid.from_faces((faces, np.linspace(0, 1, 6)))
    operator, moves, what = OPERATORS[name]
    to = abs(place - moves)
    values = (2 + 3 * grid.coordinates(0, place))[:, None] * np.ones(grid.shape)
    final = ds.Simulation(Once(grid, (place, to), operator)).run({"f": values}, 1).final["g"]
    wanted = 2 + 3 * grid.coordinates(0, to) if what == "value" else np.full(grid.shape[0], 3.0)
    assert final[2:-2, 2] == pytest.approx(wanted[2:-2], rel=1e-13)


@pytest.mark.parametrize("place", [0, 1], ids=["centres", "faces"])
def test_parabolas_have_exact_centred_differences(place: int) -> None:
    faces = np.cumsum([0.0, 1, 1, 3, 0.5, 2, 2, 5, 1, 1, 0.25, 1])
    grid = ds.Grid.from_faces((faces, np.linspace(0, 1, 6)))
    x = grid.coordinates(0, place)
    solution = ds.Simulation(Once(grid, (place, place), lambda f: diff_centred(f, 0))).run({"f": (x**2)[:, None] * np.ones(grid.shape)}, 1)
    assert solution.final["g"][2:-2, 2] == pytest.approx(2 * x[2:-2], rel=1e-13)


def heat_error(cells: int) -> float:
    """The error of a cosine that decays between insulated walls, at a fixed time; steps follow the square of the cells."""
    grid = grid_of(cells)
    steps, time = 9 * cells**2 // 20, 0.05
    start = np.cos(np.pi * grid.coordinates(0))[:, None] * np.ones(grid.shape)
    run = ds.Simulation(Heat(grid, time / steps))
    final = run.run({"T": start, "kappa": np.ones(grid.shape)}, steps).final["T"]
    return float(np.abs(final - np.exp(-(np.pi**2) * time) * start).max())


def test_heat_is_of_second_order_walls_included() -> None:
    assert np.log2(heat_error(32) / heat_error(64)) == pytest.approx(2, abs=0.2)


def test_heat_is_conserved_and_a_source_gives_its_amount() -> None:
    grid, steps = grid_of(24), 40
    rng = np.random.default_rng(0)
    start, amplitudes = rng.uniform(size=grid.shape), rng.uniform(size=(steps, 2))
    run = ds.Simulation(Heat(grid, 1e-4), sources={"q": [[0.3, 0.4], [0.771, 0.55]]})
    final = run.run({"T": start, "kappa": np.ones(grid.shape), "q": amplitudes}, steps).final["T"]
    volumes = np.outer(grid.widths(0), grid.widths(1))
    assert ((final - start) * volumes).sum() == pytest.approx(1e-4 * amplitudes.sum(), rel=1e-11)


@pytest.mark.parametrize("place", [0, 1], ids=["centres", "faces"])
def test_points_lie_in_physical_coordinates(place: int) -> None:
    grid = grid_of(24)
    z, x = np.meshgrid(grid.coordinates(0, place), grid.coordinates(1), indexing="ij")
    points = np.random.default_rng(0).uniform(0.12, 0.88, (30, 2))
    points[0] = grid.coordinates(0, place)[7], grid.coordinates(1)[2]
    table = point_table(grid, (place, 0), points)
    assert table.gather(2 * z - 3 * x) == pytest.approx(2 * points[:, 0] - 3 * points[:, 1], rel=1e-13)
    assert table.starts[1] == 1  # a point at a value takes that value alone
    with pytest.raises(ShapeError, match=r"point 0 at \(1\.1, 0\.5\) lies outside the grid"):
        point_table(grid, (place, 0), [[1.1, 0.5]])


def test_gradients_are_certified() -> None:
    grid = grid_of(12)
    run = ds.Simulation(Heat(grid, 1e-3), sources={"q": [[0.31, 0.4]]}, receivers={"T": [[0.6, 0.52]]})
    rng = np.random.default_rng(0)
    inputs = {"T": rng.uniform(size=grid.shape), "kappa": rng.uniform(0.1, 0.5, grid.shape), "q": rng.uniform(size=(9, 1))}
    certificate = ds.certify(run, loss, inputs, 9)
    assert certificate.passed, str(certificate)


def test_waves_and_their_limit_of_stability() -> None:
    """A standing wave at the largest step that is taken; a larger one is refused."""
    grid = grid_of(40)
    limit = 1 / np.sqrt(sum(1 / h**2 for h in grid.smallest))
    start = np.cos(np.pi * grid.coordinates(0))[:, None] * np.ones(grid.shape)
    dt = 0.999 * limit
    inputs = {"c": np.ones(grid.shape), "p": start, "p_prev": np.cos(np.pi * dt) * start}
    final = ds.Simulation(Acoustic(grid, dt, 2, "mirror")).run(inputs, 400).final["p"]
    assert final == pytest.approx(np.cos(np.pi * 400 * dt) * start, abs=0.02)
    with pytest.raises(StabilityError, match=r"exceeds the stable"):
        ds.Simulation(Acoustic(grid, 1.001 * limit, 2, "mirror")).run(inputs, 1)


class Periodic(ds.Equation):
    dt = 1.0

    def __init__(self, rule: Any, inner: Any) -> None:
        self.grid, self.inner = grid_of(8), inner
        self.states = {"u": ds.Variable(rule)}

    def step(self, u: Symbol) -> dict[str, Symbol]:
        return {"u": diff(ds.stage(diff(u, 1), self.inner), 1)}


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "order": (
        lambda: ds.Simulation(Acoustic(grid_of(8), 1e-3, 4)),
        "laplacian of order 4 along axis 0, which is stretched, expected order 2",
    ),
    "order of diff": (lambda: ds.Simulation(Once(grid_of(8), (0, 1), lambda f: diff(f, 0, 4))), "diff of order 4 along axis 0"),
    "order of diff_centred": (lambda: ds.Simulation(Once(grid_of(8), (0, 0), lambda f: diff_centred(f, 0, 4))), "diff_centred of order 4"),
    "weno5": (lambda: ds.Simulation(Once(grid_of(8), (0, 1), lambda f: weno5(f, 0)[0])), "weno5 along axis 0, which is stretched"),
    "periodic": (lambda: ds.Simulation(Periodic("periodic", "zero")), "u is periodic along y, which is stretched, expected another rule"),
    "periodic stage": (lambda: ds.Simulation(Periodic("zero", "periodic")), "stage 0 is periodic along y"),
    "sponge": (
        lambda: Acoustic(grid_of(16), 1e-3, 2, sponge=2),
        "spacing of a grid that is stretched along y, expected the same everywhere",
    ),
    "long waves": (
        lambda: ds.Simulation(LongWave(grid_of(8), 1e-3)).run({"H": np.ones((8, 5))}, 1),
        "spacing of a grid that is stretched along y",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_needs_a_uniform_axis_says_so(what: str) -> None:
    function, message = REFUSED[what]
    with pytest.raises(ShapeError, match=message):
        function()


def test_an_axis_that_is_not_stretched_may_be_periodic_and_of_high_order() -> None:
    assert ds.Simulation(Periodic(("mirror", "periodic"), ("mirror", "periodic")))
    assert ds.Simulation(Once(grid_of(8), (0, 0), lambda f: diff_centred(f, 1, 8)))
