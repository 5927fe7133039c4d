"""A substance in a flow: orders, amounts, the disc of Zalesak, an independent NumPy version, sides, and the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError, StabilityError
from diffsim.solvers import Advection

TAU = 2 * np.pi
RIVER = ("periodic", ("inflow", "outflow"))


def river(scheme: Any, shape: tuple[int, ...]) -> ds.Simulation:
    equation = Advection(ds.Grid(shape, 1.0), 0.2, RIVER[-len(shape) :], scheme, diffusive=True, inflow_series=True)
    return ds.Simulation(equation, receivers={"c": [[3.0] * len(shape)]}, precision="f64")


@pytest.fixture(scope="module")
def carried() -> ds.Simulation:
    return river("muscl", (7, 12))


@pytest.mark.parametrize(("scheme", "order", "error"), [("weno5", 5, 1.5e-8), ("muscl", 2, 8.2e-4)])
def test_the_mean_error_of_a_sine_wave_falls_by_the_order(scheme: Any, order: int, error: float) -> None:
    """Means of cells, carried by a quarter of their ring. Time steps fall with the spacing to the 5/3 for the fifth order."""
    errors = []
    for n in (32, 64, 128):
        grid, steps = ds.Grid((n,), 1 / n, 0.5 / n), int(np.ceil(0.5 * n * (n / 16) ** (2 / 3)))
        simulation = ds.Simulation(Advection(grid, 0.25 / steps, scheme=scheme), wrt=[], precision="f64")
        wave, later = (np.sinc(1 / n) * np.sin(TAU * (grid.coordinates(0) - way)) for way in (0.0, 0.25))
        errors.append(np.abs(simulation.run({"u": np.ones(n), "c": wave}, steps).final["c"] - later).mean())
    assert np.log2(errors[0] / errors[2]) / 2 == pytest.approx(order, abs=0.2)
    assert errors[2] < error


def at_faces(c: np.ndarray, axis: int, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """WENO-Z by NumPy in a periodic box, as the cell below and the cell above see it: by the polynomials through the cells themselves."""

    def one(cells: list[np.ndarray]) -> np.ndarray:
        total, weights = 0.0, 0.0
        rough, values = [], []
        for k in range(3):
            p, q, r = cells[k : k + 3]
            a, b = 0.5 * (p - 2 * q + r), 0.5 * (r - p)  # q - a/12 + b x + a x² has these means
            rough.append((b + 2 * a * (1 - k)) ** 2 + 13 / 3 * a**2)  # ∫ f'² + f''² over the middle of the five
            at = 1.5 - k
            values.append(q - a / 12 + b * at + a * at**2)
        for k, ideal in enumerate((0.1, 0.6, 0.3)):
            weight = ideal * (1 + ((rough[0] - rough[2]) / (rough[k] + eps)) ** 2)
            total, weights = total + weight * values[k], weights + weight
        return np.asarray(total / weights)

    cells = [np.roll(c, -k, axis) for k in range(-2, 4)]
    return one(cells[:5]), one(cells[:0:-1])


def test_steps_are_those_of_a_program_in_numpy() -> None:
    rng = np.random.default_rng(0)
    c, v, u = rng.uniform(0, 1, (9, 13)), *rng.normal(size=(2, 9, 13))
    simulation = ds.Simulation(Advection(ds.Grid((9, 13), 0.5), 0.05), wrt=[], precision="f64")
    final = simulation.run({"c": c, "v": v, "u": u}, 2).final["c"]

    def rate(c: np.ndarray) -> np.ndarray:
        total = np.zeros_like(c)
        for axis, velocity in enumerate((v, u)):
            below, above = at_faces(c, axis, 1e-6)
            flux = np.where(velocity > 0, below, above) * velocity
            total -= (flux - np.roll(flux, 1, axis)) / 0.5
        return total

    for _ in range(2):
        first = c + 0.05 * rate(c)
        second = 0.75 * c + 0.25 * (first + 0.05 * rate(first))
        c = c / 3 + 2 / 3 * (second + 0.05 * rate(second))
    np.testing.assert_allclose(final, c, atol=1e-12)


def test_a_uniform_substance_stays_and_amounts_change_by_what_crosses_the_sides(carried: ds.Simulation) -> None:
    inputs = {name: np.zeros(carried.input_shape(name, 30)) for name in carried.inputs}
    inputs |= {"u": np.full((7, 12), 0.8), "u_low": np.full(7, 0.8), "v": np.full((7, 12), 0.3)}
    everywhere = {"c": np.ones((7, 12)), "kappa": np.full((7, 12), 0.1)}
    uniform = carried.run(inputs | everywhere | {"inflow": np.ones((30, 7))}, 30).final["c"]
    np.testing.assert_allclose(uniform, 1.0, atol=1e-13)
    inputs["inflow"][:6] = np.linspace(0.5, 1.5, 7)  # it has not reached the outflow after 20 steps
    amount = carried.run(inputs | {"inflow": inputs["inflow"][:20]}, 20).final["c"].sum()
    assert amount == pytest.approx(0.2 * 0.8 * inputs["inflow"].sum(), rel=1e-5)  # but for what has passed the outflow


def test_an_inflow_on_the_high_side_is_the_mirror_image() -> None:
    finals = []
    for sides, speed in ((("inflow", "outflow"), 0.7), (("outflow", "inflow"), -0.7)):
        simulation = ds.Simulation(Advection(ds.Grid((12,), 1.0), 0.5, (sides,), "muscl"), wrt=[], precision="f64")
        inputs = {"u": np.full(12, speed), "u_low": speed, "c": np.zeros(12), "inflow": 1.5}
        finals.append(simulation.run(inputs, 9).final["c"])
        out = simulation.run(inputs | {"u": np.full(12, -speed), "u_low": -speed, "c": np.ones(12)}, 9).final["c"]
        np.testing.assert_allclose(out, 1.0, atol=1e-3)  # the flow is turned round: through an inlet the substance leaves
    np.testing.assert_allclose(finals[1], finals[0][::-1], atol=1e-14)
    assert finals[0].sum() == pytest.approx(9 * 0.5 * 0.7 * 1.5, rel=1e-5) and finals[0].max() < 1.501


def test_nothing_crosses_a_wall() -> None:
    grid = ds.Grid((8, 9), 1.0, 0.5)
    y, x = grid.coordinates(0)[:, None], grid.coordinates(1)[None]
    ys, xs = y + 0.5, x + 0.5  # the upper faces; the flow is that of the stream function sin(πy/8) sin(πx/9)
    stream = lambda y, x: np.sin(np.pi * y / 8) * np.sin(np.pi * x / 9)  # noqa: E731
    flow = {"u": stream(ys, xs) - stream(ys - 1, xs), "v": stream(ys, xs - 1) - stream(ys, xs)}
    flow["u"][:, -1], flow["v"][-1] = 0.0, 0.0
    simulation = ds.Simulation(Advection(grid, 0.5, "wall", "muscl"), wrt=[], precision="f64")
    c = np.exp(-((y - 3) ** 2 + (x - 3) ** 2))
    final = simulation.run(flow | {"c": c}, 40).final["c"]
    assert final.sum() == pytest.approx(c.sum(), rel=1e-13) and np.abs(final - c).max() > 0.1
    np.testing.assert_allclose(simulation.run(flow | {"c": np.ones((8, 9))}, 40).final["c"], 1.0, atol=1e-13)
    with pytest.raises(ParameterError, match="u is 1 m/s on the wall high_x, expected 0"):
        simulation.run({"u": np.ones((8, 9)), "v": np.zeros((8, 9)), "c": c}, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "error", "beyond"), [("weno5", 0.29, 0.01), ("muscl", 0.57, 0.001)])
def test_the_disc_of_zalesak_after_one_turn(scheme: Any, error: float, beyond: float) -> None:
    """Zalesak (1979), J. Comput. Phys. 31, 335-362, doi:10.1016/0021-9991(79)90051-2: 100² cells, a radius of 15 and a slot of 5 x 25."""
    grid, steps = ds.Grid((100, 100), 1.0, 0.5), 1256
    y, x = grid.coordinates(0)[:, None], grid.coordinates(1)[None]
    disc = (((x - 50) ** 2 + (y - 75) ** 2 < 15**2) & ~((abs(x - 50) < 2.5) & (y < 85))).astype(float)
    u, v = (np.broadcast_to(TAU / 628 * speed, (100, 100)) for speed in (50 - y, x - 50))
    simulation = ds.Simulation(Advection(grid, 628 / steps, "outflow", scheme), wrt=[], precision="f64")
    final = simulation.run({"c": disc, "u": u, "v": v, "u_low": u[:, 0], "v_low": v[0]}, steps).final["c"]
    assert np.abs(final - disc).sum() / disc.sum() < error
    assert final.min() > -beyond and final.max() < 1 + beyond
    assert final.sum() == pytest.approx(disc.sum(), rel=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "shape"), [("weno5", (15,)), ("muscl", (7, 12)), ("weno5", (7, 12))], ids=str)
def test_the_gradient_is_that_of_differences(carried: ds.Simulation, scheme: Any, shape: tuple[int, ...]) -> None:
    carried = carried if scheme == "muscl" else river(scheme, shape)
    rng = np.random.default_rng(2)
    inputs = {name: rng.uniform(0.3, 0.6, carried.input_shape(name, 5)) for name in carried.inputs}
    inputs["u"][..., 4:6] -= 1.0  # both ways
    weights = rng.normal(size=shape)

    def loss(found: ds.Solution) -> Any:
        return (weights * found.final["c"] ** 2).sum() + (found.traces["c"] ** 2).sum()

    assert ds.certify(carried, loss, inputs, 5, seed=1).passed
    _, gradient = carried.value_and_grad(loss, inputs, 5)
    for name, start in inputs.items():
        way, step = rng.normal(size=np.shape(start)), 2e-7  # below the thousandth of the scale
        low, high = (float(loss(carried.run(inputs | {name: start + sign * step * way}, 5))) for sign in (-1, 1))
        assert float((gradient[name] * way).sum()) == pytest.approx((high - low) / (2 * step), rel=2e-6), name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheme": "upwind"}, "scheme = 'upwind' is unknown; choose one of weno5, muscl"),
        ({"sides": ("wall", ("periodic", "wall"))}, "expected periodic for both sides or none"),
        ({"scale": 0.0}, "scale = 0.0, expected a positive finite number"),
        ({"grid": ds.Grid.from_faces(([0.0, 1.0, 3.0, 6.0],)), "sides": "wall"}, 'expected cells of one size; take "muscl"'),
    ],
)
def test_wrong_arguments_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Advection(**({"grid": ds.Grid((6, 6), 1.0), "dt": 0.1} | options))


def test_the_time_step_is_checked() -> None:
    line = ds.Simulation(Advection(ds.Grid((12,), 0.5), 0.3, diffusive=True), wrt=[], precision="f64")
    inputs = {"u": np.full(12, 2.5), "c": np.ones(12), "kappa": np.zeros(12)}
    with pytest.raises(StabilityError, match=r"exceeds the stable 0.286 s for weno5 and a largest Σ .v./dx of 5 /s"):
        line.run(inputs, 1)
    with pytest.raises(StabilityError, match="kappa_max = 1 m²/s"):
        line.run(inputs | {"u": np.ones(12), "kappa": np.ones(12)}, 1)
    with pytest.raises(ParameterError, match="diffusivity kappa has a value of -1"):
        line.run(inputs | {"u": np.ones(12), "kappa": -np.ones(12)}, 1)
