"""Discontinuous Galerkin advection and acoustics: against another form of the scheme, closed forms, and conservation laws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import DiffsimError, ParameterError, ShapeError, StabilityError
from diffsim.solvers import DGAcoustic, DGAdvection
from diffsim.solvers.dg.element import COURANT, reference_element
from tests.sampled import sampled
from tests.solvers.dg import plain

ORDERS = (1, 2, 3, 4)
ROUNDING = 1e-12
"""Largest rounding error of values of order 1 after some steps."""
MONOMIALS = 1e-10
"""The same where the reference has monomials of degree 4, which lose some digits."""


@pytest.mark.parametrize("order", ORDERS)
def test_the_matrices_of_an_element_are_exact_for_polynomials(order: int) -> None:
    element = reference_element(order)
    nodes = 0.5 * (np.polynomial.legendre.leggauss(order + 1)[0] + 1)
    centres = (np.arange(order + 1) + 0.5) / (order + 1)
    for k in range(order + 1):
        assert np.allclose(element.slope @ nodes**k, k * nodes ** max(k - 1, 0), atol=ROUNDING)
        assert np.allclose(element.to_nodes @ centres**k, nodes**k, atol=ROUNDING)
        assert np.allclose(element.to_centres @ nodes**k, centres**k, atol=ROUNDING)
        assert element.centre_weights @ centres**k == pytest.approx(1 / (k + 1), abs=ROUNDING)
        assert element.low @ nodes**k == pytest.approx(float(k == 0), abs=ROUNDING) and element.high @ nodes**k == pytest.approx(1.0)
    for k in range(2 * order + 2):
        assert element.weights @ nodes**k == pytest.approx(1 / (k + 1), abs=ROUNDING)


def advected(order: int, boundary: str) -> tuple[np.ndarray, np.ndarray]:
    """Two steps of the solver and of its other form, with winds of both signs that vary within elements."""
    rng, elements = np.random.default_rng(order), (2, 3)
    h = (0.7, 0.5)
    shape = tuple(n * (order + 1) for n in elements)
    u, wind_y, wind_x = rng.normal(size=(3, *shape))
    dt = 0.02
    rate = plain.advection_rate(plain.Mesh(elements, h, order), 0.1 * wind_y, 0.1 * wind_x, boundary == "periodic")
    expected = plain.step(rate, plain.step(rate, u, dt, order), dt, order)
    equation = DGAdvection(ds.Grid(shape, [w / (order + 1) for w in h]), dt, order, boundary)
    start = {"u": u, "wind_y": 0.1 * wind_y, "wind_x": 0.1 * wind_x}
    return ds.Simulation(equation, precision="f64").run(start, 2).final["u"], expected


def on_demand(*values: Any) -> Any:
    """A case that is not run at each change: kernels of many kinds take long to compile."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize(("order", "boundary"), [(1, "outflow"), (2, "periodic"), (3, "periodic"), (4, "outflow")])
def test_advection_is_its_weak_form(order: int, boundary: str) -> None:
    result, expected = advected(order, boundary)
    assert np.abs(result - expected).max() < MONOMIALS * np.abs(expected).max()


WALLED, OPEN = (("wall", "outflow"), "periodic"), ("outflow", ("outflow", "wall"))
SIDES: dict[Any, dict[str, str]] = {
    "periodic": dict.fromkeys(plain.FACES, "periodic"),
    WALLED: {"bottom": "wall", "top": "outflow", "left": "periodic", "right": "periodic"},
    OPEN: {"bottom": "outflow", "top": "outflow", "left": "outflow", "right": "wall"},
}


@pytest.mark.parametrize(("order", "boundary"), [on_demand(1, WALLED), (2, WALLED), on_demand(3, "periodic"), (4, OPEN)])
def test_acoustics_are_their_weak_form(order: int, boundary: Any) -> None:
    rng, elements, h, dt = np.random.default_rng(order), (2, 3), (0.7, 0.5), 0.01
    shape = tuple(n * (order + 1) for n in elements)
    fields = rng.normal(size=(3, *shape))
    c, rho = rng.uniform(1, 2, size=(2, *shape))
    mesh = plain.Mesh(elements, h, order)
    means = [{at: float(mesh.block(values, at).mean()) for at in np.ndindex(elements)} for values in (c, rho)]
    expected = plain.step(plain.acoustic_rate(mesh, *means, SIDES[boundary]), fields, dt, order)
    equation = DGAcoustic(ds.Grid(shape, [w / (order + 1) for w in h]), dt, order, boundary)
    start = dict(zip(("p", "vy", "vx"), fields, strict=True)) | {"c": c, "rho": rho}
    final = ds.Simulation(equation, precision="f64").run(start, 1).final
    for name, values in zip(("p", "vy", "vx"), expected, strict=True):
        assert np.abs(final[name] - values).max() < MONOMIALS * np.abs(expected).max(), name


@pytest.mark.slow
@pytest.mark.parametrize("axis", [0, 1])
def test_a_line_is_a_plane_that_does_not_vary_along_the_other_axis(axis: int) -> None:
    rng, dt, cells, wide = np.random.default_rng(5), 0.01, 12, 6
    p, v, c, rho = rng.uniform(1, 2, size=(4, cells))
    line = ds.Simulation(DGAcoustic(ds.Grid((cells,), 0.1), dt, 2, (("wall", "outflow"),)), precision="f64")
    on_line = line.run({"p": p, "vx": v, "c": c, "rho": rho}, 3).final
    shape = (cells, wide) if axis == 0 else (wide, cells)
    sides = [("wall", "outflow"), "periodic"] if axis == 0 else ["periodic", ("wall", "outflow")]
    plane = ds.Simulation(DGAcoustic(ds.Grid(shape, 0.1), dt, 2, sides), precision="f64")

    def spread(values: np.ndarray) -> np.ndarray:
        return np.broadcast_to(values[:, None] if axis == 0 else values, shape).copy()

    moved = ("vy", "vx")[axis]
    on_plane = plane.run({"p": spread(p), moved: spread(v), "c": spread(c), "rho": spread(rho)}, 3).final
    assert np.allclose(on_plane["p"], spread(on_line["p"]), atol=ROUNDING)
    assert np.allclose(on_plane[moved], spread(on_line["vx"]), atol=ROUNDING)
    assert np.abs(on_plane[("vx", "vy")[axis]]).max() < ROUNDING


def observed_order(error: Callable[[int, int], float], order: int, elements: tuple[int, int]) -> float:
    coarse, fine = (error(order, n) for n in elements)
    return math.log(coarse / fine) / math.log(elements[1] / elements[0])


def steps_for(duration: float, order: int, rate: float) -> int:
    """Time steps of 0.9 of the stable one, where waves of all axes cross `rate` elements in a second."""
    return math.ceil(duration * rate / (0.9 * COURANT[order]))


def root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def error_on_a_line(order: int, elements: int) -> float:
    """A wind that varies: with a = 1 / (1 + 0.5 sin(2 π x)) the flux a u moves unchanged in the coordinate
    s = x - 0.5 (cos(2 π x) - 1) / (2 π), at speed 1."""
    cells, duration = elements * (order + 1), 0.2
    grid = ds.Grid((cells,), 1 / cells, origin=0.5 / cells)
    x, k = grid.coordinates(0), 2 * np.pi
    wind, s = 1 / (1 + 0.5 * np.sin(k * x)), x - 0.5 * (np.cos(k * x) - 1) / k

    def exact(t: float) -> np.ndarray:
        return np.exp(np.sin(k * (s - t))) / wind

    steps = steps_for(duration, order, 2.0 * elements)
    simulation = ds.Simulation(DGAdvection(grid, duration / steps, order), precision="f64")
    return root_mean_square(simulation.run({"u": exact(0), "wind_x": wind}, steps).final["u"] - exact(duration))


def error_of_a_sound(order: int, elements: int) -> float:
    """A standing wave between walls, on a line."""
    cells, duration, c, rho, k = elements * (order + 1), 0.15, 2.0, 1.5, 2 * np.pi
    grid = ds.Grid((cells,), 1 / cells, origin=0.5 / cells)
    x, steps = grid.coordinates(0), steps_for(duration, order, 2.0 * elements)
    simulation = ds.Simulation(DGAcoustic(grid, duration / steps, order, "wall"), precision="f64")
    start = {"p": np.cos(k * x), "c": np.full(cells, c), "rho": np.full(cells, rho)}
    final = simulation.run(start, steps).final
    exact = np.cos(k * x) * np.cos(k * c * duration), np.sin(k * x) * np.sin(k * c * duration) / (rho * c)
    return root_mean_square(np.stack([final["p"] - exact[0], (final["vx"] - exact[1]) * rho * c]))


def error_on_a_plane(order: int, elements: int) -> float:
    """A wave that a slanting wind carries."""
    cells, duration, k = elements * (order + 1), 0.1, 2 * np.pi
    grid = ds.Grid((cells, cells), 1 / cells, origin=0.5 / cells)
    y, x = grid.coordinates(0)[:, None], grid.coordinates(1)[None, :]
    steps = steps_for(duration, order, 1.5 * elements)

    def exact(t: float) -> np.ndarray:
        return np.sin(k * (x - t)) * np.cos(k * (y - 0.5 * t))

    simulation = ds.Simulation(DGAdvection(grid, duration / steps, order), precision="f64")
    start = {"u": exact(0), "wind_x": np.ones(grid.shape), "wind_y": np.full(grid.shape, 0.5)}
    return root_mean_square(simulation.run(start, steps).final["u"] - exact(duration))


def error_of_a_plane_sound(order: int, elements: int) -> float:
    """A standing wave in a periodic box."""
    cells, duration, k = elements * (order + 1), 0.1, 2 * np.pi
    grid = ds.Grid((cells, cells), 1 / cells, origin=0.5 / cells)
    y, x = grid.coordinates(0)[:, None], grid.coordinates(1)[None, :]
    steps, pattern = steps_for(duration, order, 2.0 * elements), np.sin(k * x) * np.cos(k * y)
    simulation = ds.Simulation(DGAcoustic(grid, duration / steps, order, "periodic"), precision="f64")
    final = simulation.run({"p": pattern, "c": np.ones(grid.shape), "rho": np.ones(grid.shape)}, steps).final
    w = math.sqrt(2) * k
    exact = {
        "p": pattern * np.cos(w * duration),
        "vx": -k / w * np.cos(k * x) * np.cos(k * y) * np.sin(w * duration),
        "vy": k / w * np.sin(k * x) * np.sin(k * y) * np.sin(w * duration),
    }
    return root_mean_square(np.stack([final[name] - values for name, values in exact.items()]))


LINES = {"advection": error_on_a_line, "acoustics": error_of_a_sound}
PLANES = {"advection": error_on_a_plane, "acoustics": error_of_a_plane_sound}


def each_order(cases: dict[str, Callable[[int, int], float]], quick: set[tuple[str, int]]) -> list[Any]:
    """All equations and orders; those that are not quick are run on demand."""
    return [pytest.param(e, p, marks=() if (e, p) in quick else pytest.mark.slow) for e in cases for p in ORDERS]


@pytest.mark.parametrize(("equation", "order"), each_order(LINES, {("advection", 3), ("acoustics", 2)}))
def test_errors_fall_with_order_p_plus_1_on_a_line(equation: str, order: int) -> None:
    assert observed_order(LINES[equation], order, (16, 32)) == pytest.approx(order + 1, abs=0.2)


@pytest.mark.parametrize(("equation", "order"), each_order(PLANES, {("acoustics", 4)}))
def test_errors_fall_with_order_p_plus_1_on_a_plane(equation: str, order: int) -> None:
    """Over a factor of four: where errors of phase and of amplitude have opposite signs, the order between two grids swings."""
    assert observed_order(PLANES[equation], order, (8, 32) if order == 1 else (4, 16)) == pytest.approx(order + 1, abs=0.2)


# laws


def integral(q: np.ndarray, grid: ds.Grid, order: int) -> float:
    """∫ q² over the grid: the squares at the Gauss-Legendre nodes, where the quadrature is exact for them."""
    element, n = reference_element(order), order + 1
    blocks = q.reshape(q.shape[0] // n, n, -1, n)
    nodes = np.einsum("ij,ajbk,lk->aibl", element.to_nodes, blocks, element.to_nodes)
    volume = n**2 * grid.spacing[0] * grid.spacing[1]
    return volume * float(np.einsum("aibl,i,l->", nodes**2, element.weights, element.weights))


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 4])
def test_the_mass_stays(order: int) -> None:
    rng, shape = np.random.default_rng(7), (3 * (order + 1), 4 * (order + 1))
    equation = DGAdvection(ds.Grid(shape, (0.1, 0.2)), 0.01, order)
    start = {"u": rng.uniform(size=shape), "wind_y": rng.normal(size=shape) * 0.1, "wind_x": rng.normal(size=shape) * 0.1}
    u = ds.Simulation(equation, precision="f64").run(start, 50).final["u"]
    assert (equation.weights() * u).sum() == pytest.approx((equation.weights() * start["u"]).sum(), rel=1e-13)
    assert np.abs(u - start["u"]).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 3])
def test_walls_keep_the_volume_and_no_energy_arises(order: int) -> None:
    """∫ p / (ρ c²) changes by the flow through the sides alone; ½ ∫ p² / (ρ c²) + ρ v² falls by the jumps between elements."""
    rng, n = np.random.default_rng(8), order + 1
    shape = (3 * n, 4 * n)
    grid = ds.Grid(shape, 1 / n)
    c, rho = (np.kron(rng.uniform(0.5, 1.0, size=(3, 4)), np.ones((n, n))) for _ in range(2))
    equation = DGAcoustic(grid, 0.98 * COURANT[order] / 2, order, "wall")
    fields = dict(zip(("p", "vy", "vx"), rng.normal(size=(3, *shape)), strict=True))
    simulation = ds.Simulation(equation, precision="f64")

    def energy(state: dict[str, np.ndarray]) -> float:  # rho and c are numbers in each element
        scaled = state["p"] / np.sqrt(rho * c**2), np.sqrt(rho) * state["vy"], np.sqrt(rho) * state["vx"]
        return 0.5 * sum(integral(each, grid, order) for each in scaled)

    energies, state = [energy(fields)], fields
    for _ in range(25):
        state = dict(simulation.run({**state, "c": c, "rho": rho}, 4).final)
        energies.append(energy(state))
    assert np.all(np.diff(energies) <= 0) and energies[-1] < 0.9 * energies[0]
    volume = equation.weights() / (rho * c**2)
    assert (volume * state["p"]).sum() == pytest.approx((volume * fields["p"]).sum(), rel=1e-12)


def test_a_pulse_is_reflected_by_the_impedances_and_leaves_through_an_open_side() -> None:
    cells, order = 240, 3
    grid = ds.Grid((cells,), 1 / cells, origin=0.5 / cells)
    x = grid.coordinates(0)
    c, rho = np.where(x < 0.5, 1.0, 2.0), np.where(x < 0.5, 1.0, 1.5)
    pulse = np.exp(-(((x - 0.3) / 0.03) ** 2))
    simulation = ds.Simulation(DGAcoustic(grid, 0.9 * COURANT[order] * 4 / cells / 2, order, "outflow"), precision="f64")
    steps = round(0.4 / simulation.equation.dt)
    start = {"p": pulse, "vx": pulse, "c": c, "rho": rho}  # to the right
    p = simulation.run(start, steps).final["p"]
    reflection = (3.0 - 1.0) / (3.0 + 1.0)
    assert p[x < 0.5].max() == pytest.approx(reflection, abs=2e-3) and p[x > 0.5].max() == pytest.approx(1 + reflection, abs=2e-3)
    assert np.abs(simulation.run(start, 3 * steps).final["p"]).max() < 1e-6


# gradients

CASES = {
    "advection": lambda: DGAdvection(ds.Grid((8, 12), 0.25), 0.02, 3, ("outflow", "periodic")),
    "acoustics": lambda: DGAcoustic(ds.Grid((6, 9), 0.25), 0.02, 2, ("periodic", ("wall", "outflow"))),
    "advection on a line": lambda: DGAdvection(ds.Grid((10,), 0.25), 0.02, 1),
    "acoustics on a line": lambda: DGAcoustic(ds.Grid((15,), 0.25), 0.02, 4, "outflow"),
}


def random_inputs(simulation: ds.Simulation, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {name: rng.uniform(0.5, 1.0, size=simulation.grid.shape) for name in simulation.inputs}


@pytest.mark.parametrize("name", sampled(CASES, gate=["advection on a line"]))
def test_the_gradient_is_certified(name: str) -> None:
    simulation, rng = ds.Simulation(CASES[name](), precision="f64"), np.random.default_rng(11)
    first = next(iter(simulation.equation.states))
    report = ds.certify(
        simulation, lambda solution: 0.5 * (solution.final[first] ** 2).sum(), random_inputs(simulation, rng), steps=12, seed=1
    )
    assert report.passed, report


@pytest.mark.slow
def test_f32_follows_f64() -> None:
    equation, rng = CASES["acoustics"](), np.random.default_rng(12)
    inputs = random_inputs(ds.Simulation(equation), rng)
    single, double = (ds.Simulation(CASES["acoustics"](), precision=each).run(inputs, 10).final["p"] for each in ("f32", "f64"))
    assert single.dtype == np.float32 and np.abs(single - double).max() < 1e-5


# refusals


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (
            lambda: DGAdvection(ds.Grid((10, 8), 1.0), 0.1, 3),
            ShapeError,
            r"10 cells along y, expected a multiple of order .* 8 or 12",
        ),
        (lambda: DGAdvection(ds.Grid((4, 4, 4), 1.0), 0.1, 3), ParameterError, "3 axes, expected 1 or 2"),
        (lambda: DGAcoustic(ds.Grid((12,), 1.0), 0.1, 5), ParameterError, "order = 5"),
        (lambda: DGAdvection(ds.Grid((12,), 1.0), 0.1, 2, "wall"), ParameterError, "'wall'"),
        (lambda: DGAcoustic(ds.Grid((12,), 1.0), 0.1, 2, (("periodic", "wall"),)), ParameterError, "on both sides"),
        (lambda: DGAcoustic(ds.Grid((12,), 1.0), 0.1, 2, ("wall", "wall")), ShapeError, "expected a rule, or 1 of them"),
        (lambda: DGAcoustic(ds.Grid.from_faces(([0.0, 1.0, 3.0, 4.0, 5.0],)), 0.1, 1), ShapeError, "stretched"),
    ],
)
def test_refused_arguments(make: Callable[[], ds.Equation], kind: type[DiffsimError], text: str) -> None:
    with pytest.raises(kind, match=text):
        make()


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_limit_of_dt_is_stable_and_a_larger_dt_is_refused(order: int) -> None:
    """White noise grows within 300 steps if the limit is too large by some per cent."""
    cells = 4 * (order + 1)
    grid, rng = ds.Grid((cells, cells), 1 / (order + 1)), np.random.default_rng(13)
    start = {"p": rng.normal(size=grid.shape), "c": np.ones(grid.shape), "rho": np.ones(grid.shape)}
    limit = COURANT[order] / 2
    with pytest.raises(StabilityError, match=f"exceeds the stable {limit:.4g} s for c_max = 1 m/s, elements of 1 m, order {order}"):
        ds.Simulation(DGAcoustic(grid, 1.01 * limit, order, "periodic")).run(start, 1)
    final = ds.Simulation(DGAcoustic(grid, 0.999 * limit, order, "periodic"), precision="f64").run(start, 300).final["p"]
    assert integral(final, grid, order) < integral(start["p"], grid, order)
    wind = {"u": start["p"], "wind_y": np.ones(grid.shape), "wind_x": -np.ones(grid.shape)}
    with pytest.raises(StabilityError, match=f"exceeds the stable {limit:.4g} s"):
        ds.Simulation(DGAdvection(grid, 1.01 * limit, order)).run(wind, 1)
