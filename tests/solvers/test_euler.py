"""Compressible flow: exact solutions of shock tubes, an independent program in NumPy, balances, symmetries, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import diffsim as ds
from diffsim.errors import ParameterError, StabilityError
from diffsim.solvers import Euler
from diffsim.typing import Array

GAMMA = 1.4
TUBES = {  # density, velocity and pressure on the left and on the right, the end, and the largest |v| + c (Toro, table 4.1)
    "Sod": ((1.0, 0.0, 1.0), (0.125, 0.0, 0.1), 0.2, 2.3),
    "two rarefactions": ((1.0, -2.0, 0.4), (1.0, 2.0, 0.4), 0.15, 2.8),
    "strong blast": ((1.0, 0.0, 1000.0), (1.0, 0.0, 0.01), 0.012, 60.0),
    "two shocks": ((5.99924, 19.5975, 460.894), (5.99242, -6.19633, 46.0950), 0.035, 45.0),
    "contact at rest": ((1.0, 0.0, 1.0), (0.125, 0.0, 1.0), 0.5, 3.4),
}


def riemann(left: tuple[float, ...], right: tuple[float, ...], speeds: Array, g: float = GAMMA) -> Array:
    """Density, velocity and pressure of the exact solution, along lines x / t (Toro 2009, chapter 4)."""
    (rho_l, u_l, p_l), (rho_r, u_r, p_r) = left, right
    c_l, c_r = np.sqrt(g * p_l / rho_l), np.sqrt(g * p_r / rho_r)

    def change(p: float, rho: float, before: float, c: float) -> float:
        if p > before:
            return (p - before) * np.sqrt(2 / (g + 1) / rho / (p + (g - 1) / (g + 1) * before))
        return 2 * c / (g - 1) * ((p / before) ** ((g - 1) / 2 / g) - 1)

    p = brentq(lambda p: change(p, rho_l, p_l, c_l) + change(p, rho_r, p_r, c_r) + u_r - u_l, 1e-10, 1e5, xtol=1e-14)
    u = 0.5 * (u_l + u_r) + 0.5 * (change(p, rho_r, p_r, c_r) - change(p, rho_l, p_l, c_l))
    out = np.zeros((3, len(speeds)))
    for k, x in enumerate(speeds):  # the right side is the mirror image of the left one
        sign, rho, v, q, c = (1.0, rho_l, u_l, p_l, c_l) if x < u else (-1.0, rho_r, u_r, p_r, c_r)
        y, v, contact = sign * x, sign * v, sign * u
        inner = c * (p / q) ** ((g - 1) / 2 / g)
        if p > q:
            ratio = (p / q + (g - 1) / (g + 1)) / ((g - 1) / (g + 1) * p / q + 1)
            shock = v - c * np.sqrt((g + 1) / 2 / g * p / q + (g - 1) / 2 / g)
            state = (rho, v, q) if y < shock else (rho * ratio, contact, p)
        elif y < v - c:
            state = rho, v, q
        elif y > contact - inner:
            state = rho * (p / q) ** (1 / g), contact, p
        else:
            part = 2 / (g + 1) + (g - 1) / (g + 1) / c * (v - y)
            state = rho * part ** (2 / (g - 1)), 2 / (g + 1) * (c + (g - 1) / 2 * v + y), q * part ** (2 * g / (g - 1))
        out[:, k] = state[0], sign * state[1], state[2]
    return out


def error(name: str, cells: int, method: str, scheme: str = "muscl") -> tuple[float, dict[str, Array]]:
    """The mean error of the density over the largest one, and the end of the run."""
    left, right, end, fastest = TUBES[name]
    steps = int(np.ceil(end * fastest * cells / 0.4))
    grid = ds.Grid((cells,), 1 / cells)
    x = grid.coordinates(0) - 0.5
    scale = 1.0, 1.0, max(left[2], right[2])
    gas = Euler(grid, end / steps, sides="open", method=method, scheme=scheme, scale=scale, fastest=fastest)  # type: ignore[arg-type]
    start = {field: np.where(x < 0, a, b) for field, a, b in zip(("rho", "u", "p"), left, right, strict=True)}
    final = ds.Simulation(gas, wrt=[]).run(start, steps).final
    exact = riemann(left, right, x / end)
    return float(np.abs(final["rho"] - exact[0]).mean() / exact[0].max()), dict(final)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("Sod", 8e-3),
        ("contact at rest", 1e-14),
        pytest.param("two rarefactions", 1.5e-2, marks=pytest.mark.slow),
        pytest.param("strong blast", 2.6e-2, marks=pytest.mark.slow),
        pytest.param("two shocks", 1.9e-2, marks=pytest.mark.slow),
    ],
)
def test_shock_tubes(name: str, limit: float) -> None:
    coarse, final = error(name, 100, "rk2")
    assert coarse < limit and final["rho"].min() > 0 and final["p"].min() > 0
    if limit > 1e-3:  # of first order at shocks, 2/3 at contacts
        assert error(name, 200, "rk2")[0] < 0.68 * coarse


@pytest.mark.slow
def test_first_order_is_positive_in_strong_waves() -> None:
    for name, limit in (("Sod", 2e-2), ("two rarefactions", 4e-2), ("strong blast", 4.4e-2), ("two shocks", 3.6e-2)):
        mean, final = error(name, 100, "euler")
        assert mean < limit and final["rho"].min() > 0 and final["p"].min() > 0


@pytest.mark.slow
def test_weno_is_sharper_and_positive_in_strong_waves() -> None:
    for name in ("Sod", "two rarefactions", "strong blast", "two shocks"):
        mean, final = error(name, 100, "rk3", "weno5")
        assert mean < error(name, 100, "rk2")[0] and final["rho"].min() > 0 and final["p"].min() > 0


def by_numpy(state: dict[str, Array], dt: float, spacing: tuple[float, ...], eps: float, steps: int) -> dict[str, Array]:
    """Steps of Heun's method in a box with walls, with loops over faces in place of expressions, for axes (y, x)."""

    def flux(left: Array, right: Array, n: int) -> Array:  # of (rho, v, u, p), n the velocity across
        fluxes, conserved, speeds = [], [], []
        for w in (left, right):
            kinetic = 0.5 * w[0] * (w[1] ** 2 + w[2] ** 2)
            q = np.array([w[0], w[0] * w[1], w[0] * w[2], w[3] / (GAMMA - 1) + kinetic])
            f = q * w[n]
            f[n] += w[3]
            f[3] += w[3] * w[n]
            fluxes.append(f), conserved.append(q), speeds.append(np.sqrt(GAMMA * w[3] / w[0]))
        a, b = np.sqrt(left[0]), np.sqrt(right[0])
        roe = (a * left[n] + b * right[n]) / (a + b)
        d = (a * speeds[0] ** 2 + b * speeds[1] ** 2) / (a + b) + 0.5 * a * b / (a + b) ** 2 * (right[n] - left[n]) ** 2
        low, high = min(left[n] - speeds[0], roe - np.sqrt(d)), max(right[n] + speeds[1], roe + np.sqrt(d))
        if low >= 0:
            return fluxes[0]
        if high <= 0:
            return fluxes[1]
        by_left, by_right = left[0] * (low - left[n]), right[0] * (high - right[n])
        contact = (right[3] - left[3] + by_left * left[n] - by_right * right[n]) / (by_left - by_right)
        side, outer = (0, low) if contact > 0 else (1, high)
        w, q = ((left, conserved[0]), (right, conserved[1]))[side]
        factor = w[0] * (outer - w[n]) / (outer - contact)
        star = factor * np.array([1.0, w[1], w[2], q[3] / w[0] + (contact - w[n]) * (contact + w[3] / (w[0] * (outer - w[n])))])
        star[n] = factor * contact
        return fluxes[side] + outer * (star - q)

    def rate(q: Array) -> Array:
        speed = q[1:3] / q[0]
        w = np.array([q[0], *speed, (GAMMA - 1) * (q[3] - 0.5 * q[0] * (speed**2).sum(axis=0))])
        out = np.zeros_like(q)
        for axis in (0, 1):
            line = np.moveaxis(w, 1 + axis, -1)  # (4, lines, cells)
            odd = np.ones(4)
            odd[1 + axis] = -1
            ghosts = [line[..., [1]] * odd[:, None, None], line[..., [0]] * odd[:, None, None]]
            ends = [line[..., [-1]] * odd[:, None, None], line[..., [-2]] * odd[:, None, None]]
            wide = np.concatenate([*ghosts, line, *ends], axis=-1)
            below, above = wide[..., 1:-1] - wide[..., :-2], wide[..., 2:] - wide[..., 1:-1]
            share = np.maximum((2 * below * above + eps**2) / (below**2 + above**2 + eps**2), 0.0)
            half = 0.25 * (below + above) * share
            for k in (0, 3):
                half[k] = np.clip(half[k], -0.8 * wide[k, :, 1:-1], 0.8 * wide[k, :, 1:-1])
            middle = wide[..., 1:-1]
            upper, lower = (middle + half)[..., :-1], (middle - half)[..., 1:]
            rows, faces = upper.shape[1:]
            through = np.array([[flux(upper[:, j, i], lower[:, j, i], 1 + axis) for i in range(faces)] for j in range(rows)])
            out -= np.moveaxis(np.moveaxis(np.diff(through, axis=1), -1, 0), -1, 1 + axis) / spacing[axis]
        return out

    speed = np.array([state["v"], state["u"]])
    energy = state["p"] / (GAMMA - 1) + 0.5 * state["rho"] * (speed**2).sum(axis=0)
    q = np.array([state["rho"], *(state["rho"] * speed), energy])
    for _ in range(steps):
        first = q + dt * rate(q)
        q = 0.5 * (q + first + dt * rate(first))
    speed = q[1:3] / q[0]
    return {"rho": q[0], "v": speed[0], "u": speed[1], "p": (GAMMA - 1) * (q[3] - 0.5 * q[0] * (speed**2).sum(axis=0))}


def rough(shape: tuple[int, ...], seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    names = ("w", "v", "u")[-len(shape) :]
    return {"rho": 1 + random.random(shape), "p": 1 + random.random(shape)} | {name: 0.8 * random.normal(size=shape) for name in names}


def test_steps_in_a_box_are_those_of_a_program_in_numpy_and_keep_mass_and_energy() -> None:
    grid = ds.Grid((7, 9), (0.2, 0.1))
    start = rough(grid.shape, 3)
    final = ds.Simulation(Euler(grid, 0.005, negligible=0.01), wrt=[]).run(start, 6).final
    for name, values in by_numpy(start, 0.005, (0.2, 0.1), 0.01, 6).items():
        assert np.allclose(final[name], values, rtol=0, atol=1e-13), name

    def amounts(state: Any) -> tuple[float, float]:
        kinetic = 0.5 * state["rho"] * (state["u"] ** 2 + state["v"] ** 2)
        return state["rho"].sum(), (state["p"] / (GAMMA - 1) + kinetic).sum()

    assert np.allclose(amounts(final), amounts(start), rtol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rk2", "rk3"])
def test_a_vortex_that_is_carried_is_of_second_order(method: str) -> None:
    """The isentropic vortex (Yee, Sandham and Djomehri 1999) after it crossed a periodic box."""
    errors = []
    for n in (32, 64):
        grid = ds.Grid((n, n), 10 / n)
        y, x = np.meshgrid(grid.coordinates(0) - 5, grid.coordinates(1) - 5, indexing="ij")
        swirl = 1.0 / (2 * np.pi) * np.exp(0.5 * (1 - x**2 - y**2))
        hot = 1 - 0.5 * (GAMMA - 1) / GAMMA * swirl**2 * 1.0
        start = {"rho": hot ** (1 / (GAMMA - 1)), "p": hot ** (GAMMA / (GAMMA - 1)), "u": 1 - swirl * y, "v": 1 + swirl * x}
        steps = 25 * n
        gas = Euler(grid, 10 / steps, sides="periodic", method=method, negligible=1.0)  # type: ignore[arg-type]
        final = ds.Simulation(gas, wrt=[]).run(start, steps).final
        errors.append(np.abs(final["rho"] - start["rho"]).mean())
    assert np.log2(errors[0] / errors[1]) > 1.8


@pytest.mark.slow
def test_the_axes_are_alike_and_three_are_as_two() -> None:
    start = rough((6, 8), 5)
    turned = {"rho": start["rho"].T, "p": start["p"].T, "u": start["v"].T, "v": start["u"].T}
    sides = (("wall", "open"), "periodic")
    one = ds.Simulation(Euler(ds.Grid((6, 8), (0.1, 0.2)), 0.004, sides=sides), wrt=[]).run(start, 5).final  # type: ignore[arg-type]
    other = ds.Simulation(Euler(ds.Grid((8, 6), (0.2, 0.1)), 0.004, sides=sides[::-1]), wrt=[]).run(turned, 5).final  # type: ignore[arg-type]
    for name, turned_name in (("rho", "rho"), ("p", "p"), ("u", "v"), ("v", "u")):
        assert np.allclose(one[name], other[turned_name].T, rtol=0, atol=1e-13)
    layers = {name: np.repeat(value[None], 3, 0) for name, value in start.items()}
    grid = ds.Grid((3, 6, 8), (0.3, 0.1, 0.2))
    solid = ds.Simulation(Euler(grid, 0.004, sides=("wall", *sides)), wrt=[]).run(layers, 5).final  # type: ignore[arg-type]
    assert all(np.allclose(solid[name], value[None], rtol=0, atol=1e-13) for name, value in one.items()) and not solid["w"].any()


@pytest.mark.parametrize(
    ("shape", "sides", "method", "scheme"),
    [
        ((24,), (("wall", "open"),), "rk2", "muscl"),
        pytest.param((24,), (("wall", "open"),), "rk3", "weno5", marks=pytest.mark.slow),
        pytest.param((8, 9), (("wall", "open"), "periodic"), "rk2", "muscl", marks=pytest.mark.slow),
        pytest.param((8, 9), "open", "rk3", "muscl", marks=pytest.mark.slow),
        pytest.param((4, 5, 6), "wall", "euler", "muscl", marks=pytest.mark.slow),
    ],
)
def test_the_gradient_is_that_of_differences(shape: tuple[int, ...], sides: Any, method: Any, scheme: Any) -> None:
    grid = ds.Grid(shape, 0.1)
    equation = Euler(grid, 0.006 / len(shape), sides=sides, method=method, scheme=scheme)
    gas, start, random = ds.Simulation(equation), rough(shape, 1), np.random.default_rng(2)
    weights = {name: random.normal(size=shape) for name in start}

    def loss(solution: Any) -> Any:
        return sum((solution.final[name] * weight).sum() for name, weight in weights.items())

    _, gradient = gas.value_and_grad(loss, start, 8)
    directions = {name: random.normal(size=shape) for name in start}
    slope = sum((gradient[name] * direction).sum() for name, direction in directions.items())

    def moved(step: float) -> float:
        return float(loss(gas.run({name: value + step * directions[name] for name, value in start.items()}, 8)))

    slopes = [(moved(h) - moved(-h)) / (2 * h) for h in (1e-5, 1e-6)]
    assert min(abs(each - slope) for each in slopes) < 2e-8 * abs(slope)


@pytest.mark.slow
def test_the_gradient_is_certified_where_gas_is_at_rest_and_at_a_shock() -> None:
    grid = ds.Grid((40,), 0.025)
    gas = ds.Simulation(Euler(grid, 0.004), receivers={"p": [[0.8]]}, precision="f64")
    start = {"rho": np.where(grid.coordinates(0) < 0.5, 1.0, 0.125), "p": np.where(grid.coordinates(0) < 0.5, 1.0, 0.1)}
    certificate = ds.certify(gas, lambda solution: (solution.traces["p"] ** 2).mean(), start | {"u": np.zeros(40)}, 60)
    assert certificate.passed, certificate


def test_wrong_arguments_and_gases_are_refused() -> None:
    grid = ds.Grid((8,), 0.1)
    for wrong, words in (
        ({"gamma": 1.0}, "gamma"),
        ({"sides": "inlet"}, "sides"),
        ({"sides": ("freestream", "open")}, r"one word, or 1 entry .* two sides of an axis as one entry: \(\(low, high\),\)"),
        ({"method": "rk4"}, "method"),
        ({"scheme": "weno5"}, 'expected "rk3"'),
        ({"scale": (1.0, 1.0)}, "three numbers"),
        ({"fastest": 0.0}, "fastest"),
    ):
        with pytest.raises(ParameterError, match=words):
            Euler(grid, 0.01, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="one size"):
        Euler(ds.Grid.from_faces((np.geomspace(0.01, 1.0, 9),)), 0.01)
    gas = ds.Simulation(Euler(grid, 0.01), wrt=[])
    with pytest.raises(ParameterError, match="input rho is missing or 0 everywhere"):
        gas.run({"p": np.ones(8)}, 1)
    with pytest.raises(ParameterError, match="initial p has a value of -1"):
        gas.run({"rho": np.ones(8), "p": -np.ones(8)}, 1)
    with pytest.raises(StabilityError, match="waves of 11"):
        gas.run({"rho": np.ones(8), "p": np.ones(8), "u": np.full(8, 10.0)}, 1)
    batch = ds.Batch(gas, 2)
    with pytest.raises(ParameterError, match="initial p"):
        batch.run({"rho": np.ones((2, 8)), "p": np.array([np.ones(8), -np.ones(8)])}, 1)
