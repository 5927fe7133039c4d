"""Barotropic currents: an independent NumPy version, what is kept, closed forms of waves and boundary layers, and the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import spsolve

import diffsim as ds
from diffsim.errors import DivergenceError, ParameterError, SingularError, StabilityError
from diffsim.solvers import QuasiGeostrophic

Array = np.ndarray
SHAPE, TAU = (12, 10), 2 * np.pi
REST = {"wind": np.zeros(SHAPE), "beta": 0.0, "drag": 0.0, "nu": 0.0}
SIDES: dict[str, Any] = {
    "box": "periodic",
    "channel": ("slip", "periodic"),
    "basin": "slip",
    "rough basin": "no_slip",
    "mixed": (("no_slip", "slip"), ("slip", "no_slip")),
}


def words(sides: Any) -> tuple[tuple[str, str], ...]:
    pairs = sides if isinstance(sides, tuple) else (sides, sides)
    return tuple(pair if isinstance(pair, tuple) else (pair, pair) for pair in pairs)


def around(psi: Array, sides: Any, width: int = 3) -> Array:
    """Points beyond the coast: 0 on it, then those inside, with or without a change of sign; or the other end."""
    for axis, (low, high) in enumerate(words(sides)):
        line = np.moveaxis(psi, axis, 0)
        if low == "periodic":
            line = np.concatenate([line[-width:], line, line[:width]])
        else:
            sign = {"slip": -1.0, "no_slip": 1.0}
            coast = np.zeros_like(line[:1])
            line = np.concatenate([sign[low] * line[: width - 1][::-1], coast, line, coast, sign[high] * line[:-width:-1]])
        psi = np.moveaxis(line, 0, axis)
    return psi


def five_points(f: Array) -> Array:
    """The Laplacian at spacing 1, on an array that is smaller by a point at each end."""
    return f[2:, 1:-1] + f[:-2, 1:-1] + f[1:-1, 2:] + f[1:-1, :-2] - 4 * f[1:-1, 1:-1]


def arakawa(a: Array, b: Array) -> Array:
    """The Jacobian at spacing 1, term by term from equation 46 of Arakawa (1966), a and b with one point more at each end."""

    def at(f: Array, i: int, j: int) -> Array:  # i along x, j along y
        return f[1 + j : f.shape[0] - 1 + j, 1 + i : f.shape[1] - 1 + i]

    total = (at(b, 0, -1) + at(b, 1, -1) - at(b, 0, 1) - at(b, 1, 1)) * (at(a, 1, 0) - at(a, 0, 0))
    total += (at(b, -1, -1) + at(b, 0, -1) - at(b, -1, 1) - at(b, 0, 1)) * (at(a, 0, 0) - at(a, -1, 0))
    total += (at(b, 1, 0) + at(b, 1, 1) - at(b, -1, 0) - at(b, -1, 1)) * (at(a, 0, 1) - at(a, 0, 0))
    total += (at(b, 1, -1) + at(b, 1, 0) - at(b, -1, -1) - at(b, -1, 0)) * (at(a, 0, 0) - at(a, 0, -1))
    total += (at(b, 1, 0) - at(b, 0, 1)) * (at(a, 1, 1) - at(a, 0, 0)) + (at(b, 0, -1) - at(b, -1, 0)) * (at(a, 0, 0) - at(a, -1, -1))
    total += (at(b, 0, 1) - at(b, -1, 0)) * (at(a, -1, 1) - at(a, 0, 0)) + (at(b, 1, 0) - at(b, 0, -1)) * (at(a, 0, 0) - at(a, 1, -1))
    return -total / 12  # Arakawa's is that of (b, a)


def laplacian_matrix(shape: tuple[int, ...], sides: Any) -> sparse.csr_matrix:
    """The Laplacian of the points of a basin, with 0 on coasts."""
    lines = []
    for n, (low, _) in zip(shape, words(sides), strict=True):
        line = sparse.diags([1.0, -2.0, 1.0], [-1, 0, 1], (n, n)).tolil()
        if low == "periodic":
            line[0, -1] = line[-1, 0] = 1.0
        lines.append(line)
    return sparse.kronsum(lines[1], lines[0]).tocsr()


def poisson(right: Array, sides: Any) -> Array:
    """The stream function of a vorticity, by elimination; of mean 0 where no side is a coast."""
    matrix = laplacian_matrix(right.shape, sides).tolil()
    if all(low == "periodic" for low, _ in words(sides)):
        matrix[0] = 1.0
        right = right.copy()
        right.flat[0] = 0.0
    return spsolve(matrix.tocsc(), right.ravel()).reshape(right.shape)


def step(psi: Array, inputs: dict[str, Any], sides: Any, dt: float, biharmonic: bool) -> Array:
    def rate(psi: Array) -> Array:
        wide = around(psi, sides)
        zeta = five_points(wide)
        spread = -five_points(five_points(zeta)) if biharmonic else five_points(zeta)[1:-1, 1:-1]
        inner, slope = zeta[1:-1, 1:-1], 0.5 * (wide[3:-3, 4:-2] - wide[3:-3, 2:-4])
        jacobian = arakawa(wide[2:-2, 2:-2], inner)
        change = inputs["wind"] - jacobian - inputs["beta"] * slope - inputs["drag"] * inner[1:-1, 1:-1] + inputs["nu"] * spread
        return poisson(change, sides)

    first = rate(psi)
    second = rate(psi + 0.5 * dt * first)
    third = rate(psi + 0.5 * dt * second)
    return psi + dt / 6 * (first + 2 * second + 2 * third + rate(psi + dt * third))


def whirls(shape: tuple[int, int], sides: Any, seed: int = 0) -> Array:
    """A random stream function of a few wave lengths, of mean 0 in a box."""
    rng, total = np.random.default_rng(seed), np.zeros(shape)
    for wave in np.ndindex(2, 2):
        lines = []
        for n, k, (low, _) in zip(shape, wave, words(sides), strict=True):
            at = np.arange(n) + 1
            phase = rng.uniform(0, TAU)
            lines.append(np.sin(TAU * (k + 1) * at / n + phase) if low == "periodic" else np.sin(np.pi * (k + 1) * at / (n + 1)))
        total += rng.normal() * np.outer(*lines)
    return total


def run(sides: Any, inputs: dict[str, Any], steps: int, dt: float, viscosity: Any = "laplacian") -> Array:
    grid = ds.Grid(inputs["psi"].shape, 1.0)
    return ds.Simulation(QuasiGeostrophic(grid, dt, sides, viscosity), wrt=[], precision="f64").run(inputs, steps).final["psi"]


@pytest.mark.parametrize(
    ("name", "viscosity"),
    [("mixed", "laplacian"), ("channel", "biharmonic"), *(pytest.param(n, "laplacian", marks=pytest.mark.slow) for n in ("box", "basin"))],
)
def test_steps_are_those_of_an_independent_version(name: str, viscosity: Any) -> None:
    rng, sides = np.random.default_rng(1), SIDES[name]
    wind = rng.standard_normal(SHAPE)
    inputs = {"wind": 0.1 * (wind - wind.mean()), "beta": 0.3, "drag": 0.05, "nu": 0.02, "psi": whirls(SHAPE, sides)}
    expected = inputs["psi"]
    for _ in range(3):
        expected = step(expected, inputs, sides, 0.2, viscosity == "biharmonic")
    got = run(sides, inputs, 3, 0.2, viscosity)
    assert np.abs(got - expected).max() < 1e-12 * np.abs(expected).max()


def invariants(psi: Array, sides: Any) -> Array:
    """Energy and enstrophy."""
    zeta = five_points(around(psi, sides, 1) if words(sides)[0][0] == "periodic" else np.pad(psi, 1))
    return np.array([-0.5 * (psi * zeta).sum(), 0.5 * (zeta**2).sum()])


@pytest.mark.parametrize("sides", ["periodic", "slip"])
def test_the_jacobian_keeps_energy_and_enstrophy(sides: Any) -> None:
    """The changes are the error of the method in time, at least of fourth order in dt."""
    start = whirls(SHAPE, sides, 2)
    changes = []
    for dt in (0.4, 0.2):
        end = run(sides, REST | {"psi": start}, round(8 / dt), dt)
        changes.append(np.abs(invariants(end, sides) / invariants(start, sides) - 1).max())
        assert np.abs(end - start).max() > 0.1 * np.abs(start).max()  # it moves
    assert changes[1] < 1e-6 and changes[0] / changes[1] > 10, changes


@pytest.mark.slow
@pytest.mark.parametrize("sides", ["periodic", "slip"])
def test_energy_and_enstrophy_are_kept_over_10_000_steps(sides: Any) -> None:
    start = whirls((24, 24), sides, 2)
    end = run(sides, {"psi": start, "wind": np.zeros((24, 24)), "beta": 0.0, "drag": 0.0, "nu": 0.0}, 10_000, 0.03)
    assert np.abs(invariants(end, sides) / invariants(start, sides) - 1).max() < 1e-9


def test_energy_is_kept_between_rough_coasts_on_the_beta_plane() -> None:
    start = whirls(SHAPE, "no_slip", 3)
    changes = []
    for dt in (0.2, 0.1):
        end = run("no_slip", REST | {"psi": start, "beta": 0.3}, round(4 / dt), dt)
        changes.append(abs(-(end * five_points(np.pad(end, 1))).sum() / (-(start * five_points(np.pad(start, 1))).sum()) - 1))
    assert changes[1] < 1e-6 and changes[0] / changes[1] > 10, changes


def test_a_rossby_wave_has_its_dispersion_relation() -> None:
    """ω = -β k / (k² + l²) with the differences' k and k² + l². A single wave has no Jacobian, so it is exact to the order in time."""
    n, beta, dt, steps = 16, 0.5, 0.1, 60
    k, m = TAU * 2 / n, TAU * 1 / n
    y, x = np.arange(n)[:, None], np.arange(n)[None]
    omega = -beta * np.sin(k) / (4 * np.sin(k / 2) ** 2 + 4 * np.sin(m / 2) ** 2)
    inputs = {"psi": np.cos(k * x + m * y), "wind": np.zeros((n, n)), "beta": beta, "drag": 0.0, "nu": 0.0}
    assert np.abs(run("periodic", inputs, steps, dt) - np.cos(k * x + m * y - omega * dt * steps)).max() < 1e-6


def test_the_gradient_of_a_late_transport_for_the_wind_and_the_numbers() -> None:
    shape, rng = (15, 15), np.random.default_rng(4)
    y = np.arange(1, 16)[:, None] / 16
    inputs: dict[str, Any] = {
        "psi": 0.1 * whirls(shape, "slip"),
        "wind": -0.02 * np.sin(TAU * y) * np.ones((1, 15)),
        "beta": 0.3,
        "drag": 0.02,
        "nu": 0.05,
    }
    sea = ds.Simulation(QuasiGeostrophic(ds.Grid(shape, 1.0), 0.5, (("slip", "no_slip"), "slip")), precision="f64")

    def transport(solution: Any) -> Any:
        return (solution.final["psi"][3:7, :5] ** 2).mean()

    value, gradient = sea.value_and_grad(transport, inputs, steps=80)
    for name in ("wind", "psi", "beta", "drag", "nu"):
        size = 1e-4 * np.abs(inputs[name]).max()
        way = rng.standard_normal(np.shape(inputs[name])) * size
        ends = [float(transport(sea.run(inputs | {name: inputs[name] + sign * way}, 80))) for sign in (-1, 1)]
        slope = (gradient[name] * way).sum()
        assert abs(0.5 * (ends[1] - ends[0]) - slope) < 1e-6 * abs(slope), name
    few = sea.value_and_grad(transport, inputs, steps=80, checkpoint=5)
    assert few[0] == value > 0 and all(np.array_equal(few[1][name], gradient[name]) for name in gradient)
    way = {name: rng.standard_normal(np.shape(inputs[name])) * np.abs(inputs[name]).max() for name in inputs}
    solution, moved = sea.jvp(inputs, way, 80)
    pushed = 2 * (solution.final["psi"] * moved.final["psi"])[3:7, :5].mean()
    assert abs(pushed - sum((gradient[name] * way[name]).sum() for name in way)) < 1e-11 * abs(pushed)


def test_wrong_arguments_and_steps_are_refused() -> None:
    grid = ds.Grid(SHAPE, 1.0)
    with pytest.raises(ParameterError, match="expected two, y and x"):
        QuasiGeostrophic(ds.Grid((8,), 1.0), 0.1)
    inputs = REST | {"psi": np.zeros(SHAPE)}
    box = ds.Simulation(QuasiGeostrophic(grid, 1.0, "periodic"), wrt=[], precision="f64")
    with pytest.raises(SingularError, match=r"wind has a mean of 1 1/s², expected 0 where all sides are periodic; subtract the mean"):
        box.run(inputs | {"wind": np.ones(SHAPE)}, 1)
    series = np.zeros((3, *SHAPE))
    series[2] += 0.5
    stormy = ds.Simulation(QuasiGeostrophic(grid, 1.0, "periodic", weather="series"), wrt=[], precision="f64")
    with pytest.raises(SingularError, match=r"wind has a mean of 0.5 1/s² in step 2, expected 0"):
        stormy.run(inputs | {"wind": series}, 3)
    series[:, 2, 3] = (0.0, np.nan, np.nan)
    with pytest.raises(ParameterError, match="input wind has 2 values that are not finite, the first in step 1, expected none"):
        stormy.run(inputs | {"wind": series}, 3)
    storm = np.random.default_rng(0).normal(size=SHAPE)
    with pytest.raises(DivergenceError, match=r"dt = 1 s is stable while \|v\| <= 1.7 m/s along each axis; lower dt"):
        box.run(inputs | {"wind": 1e3 * (storm - storm.mean())}, 100)
    flat = QuasiGeostrophic(ds.Grid((200, 16), 1.0), 0.9, ("slip", "periodic"))  # waves along the short axis are the slowest to turn
    wave = 1e-3 * np.sin(2 * np.pi * np.arange(16) / 16) * np.sin(np.pi * np.arange(1, 201) / 201)[:, None]
    numbers = {"wind": np.zeros((200, 16)), "beta": 1.0, "drag": 0.0, "nu": 0.0, "psi": wave}
    final = ds.Simulation(flat, wrt=[], precision="f64").run(numbers, 500).final["psi"]
    assert np.abs(final).max() < 1e-3
    for name, value, error in (
        ("nu", -1.0, ParameterError),
        ("nu", 1.0, StabilityError),
        ("drag", 3.0, StabilityError),
        ("beta", 9.0, StabilityError),
    ):
        with pytest.raises(error, match=name):
            box.run(inputs | {name: value}, 1)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [(), (1.0, 2.0)])
def test_a_wind_that_changes_in_time(layers: tuple[float, ...]) -> None:
    """Each step adds its own wind, and a run is that of single steps. That of two layers is certified."""
    rng, grid = np.random.default_rng(4), ds.Grid((6, 7), 1.0)
    options: dict[str, Any] = {"layers": layers, "gravities": (1.0,), "f0": 1.0} if layers else {}
    names = ("psi1", "psi2") if layers else ("psi",)
    wind = rng.standard_normal((5, 6, 7))
    known = {"beta": 0.3, "drag": 0.1, "nu": 0.05}
    state = {name: 0.1 * rng.standard_normal((6, 7)) for name in names}
    gyre = ds.Simulation(QuasiGeostrophic(grid, 0.1, weather="series", **options), wrt=["wind"] if layers else [], precision="f64")
    last = gyre.run(known | state | {"wind": wind}, 5).final
    now = dict(state)
    for each in wind:
        now = dict(gyre.run(known | now | {"wind": each[None]}, 1).final)
    assert all(np.abs(last[name] - now[name]).max() < 1e-13 * np.abs(now[name]).max() for name in names)
    rest = {name: np.zeros((6, 7)) for name in names} | {"beta": 0.0, "drag": 0.0, "nu": 0.0}
    wide = np.pad(gyre.run(rest | {"wind": 1e-6 * wind}, 5).final[names[0]], 1)
    if not layers:
        spin = wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2] - 4 * wide[1:-1, 1:-1]
        assert np.abs(spin - 1e-7 * wind.sum(axis=0)).max() < 1e-11  # each step adds dt F to the vorticity, but for squares of it
    else:
        report = ds.certify(gyre, lambda found: (found.final["psi2"] ** 3).sum(), known | state | {"wind": wind}, 5, directions=1)
        assert report.passed, str(report)
    with pytest.raises(ParameterError, match="weather = 'storm'"):
        QuasiGeostrophic(grid, 0.1, weather="storm")  # type: ignore[arg-type]
