"""Bodies in a flow: exact flows between walls that lie anywhere, orders, forces, the channel of Schäfer and Turek, and gradients."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.errors import ParameterError
from diffsim.solvers import NavierStokes, bodies
from tests.sampled import sampled

Fields = dict[str, Any]


@pytest.mark.parametrize(("method", "reach"), sampled([("rk2", 2.0), ("rk3", 2.51), ("rk4", 2.78)]))
def test_flow_between_walls_anywhere_between_cells_is_exact(method: Any, reach: float) -> None:
    """Second differences up to the wall are exact for parabolas. The force on both walls is the one that drives the flow, through every
    method and stage; the time step is 0.98 of the stable one."""
    n, nu, force, speed, low, high = 12, 0.5, 2.0, 0.3, 0.137, 0.871
    grid = ds.Grid((n, 4), (1 / n, 0.2), origin=(0.5 / n, 0.1))
    y = grid.coordinates(0)[:, None] * np.ones(4)
    dt = 0.98 * reach / (nu * (4 * n**2 + 4 / 0.2**2))
    channel = NavierStokes(grid, dt, ("slip", "periodic"), method=method, forced=True, bodies="moving")
    inside, zero = (y > low) & (y < high), np.zeros(grid.shape)
    wall = np.where(y > 0.5, speed, 0.0)
    inputs = {"nu": nu, "fx": np.full(grid.shape, force), "fy": zero, "phi": np.minimum(y - low, high - y), "u_wall": wall, "v_wall": zero}
    final = ds.Simulation(channel, wrt=[], precision="f64").run(inputs, 1500).final
    exact = force / (2 * nu) * (y - low) * (high - y) + speed * (y - low) / (high - low)
    np.testing.assert_allclose(final["u"], np.where(inside, exact, wall), atol=1e-12)
    assert not final["v"].any()
    assert final["force_x"] == pytest.approx(force * 0.8, rel=1e-10) and final["force_y"] == 0.0


def turning(n: int) -> tuple[float, float, float]:
    """Errors of the flow between a hot cylinder that turns and a cold one around it: root mean square, largest, and the largest of T."""
    inner, outer, (cy, cx), h = 0.31, 0.83, (-0.021, 0.013), 2 / n
    grid = ds.Grid((n, n), h, origin=-1 + h / 2)

    def polar(place_y: int, place_x: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        y, x = np.meshgrid(grid.coordinates(0, place_y) - cy, grid.coordinates(1, place_x) - cx, indexing="ij")
        return y, x, np.hypot(y, x)

    slope, turn = -(inner**2) / (outer**2 - inner**2), inner**2 * outer**2 / (outer**2 - inner**2)  # v = slope r + turn / r
    _, _, r = polar(0, 0)
    inputs: Fields = {"nu": 1.0, "phi": np.minimum(r - inner, outer - r)}
    exact = {}
    for name, places, sign in (("u", (0, 1), -1.0), ("v", (1, 0), 1.0)):
        y, x, r = polar(*places)
        arm = sign * (y if name == "u" else x)
        inputs[f"{name}_wall"] = np.where(r < 0.5 * (inner + outer), arm, 0.0)
        exact[name] = np.where(r < inner, arm, np.where(r < outer, arm * (slope + turn / r**2), 0.0))
    _, _, r = polar(0, 0)
    warm = np.where(r < inner, 1.0, np.where(r < outer, np.log(outer / r) / np.log(outer / inner), 0.0))
    inputs |= {"kappa_T": 1.0, "T": np.full(grid.shape, 300.0), "T_wall": np.where(r < 0.5 * (inner + outer), 301.0, 300.0)}
    annulus = NavierStokes(grid, 0.22 * h**2, "slip", method="rk2", bodies="moving", scalars=("T",))
    final = ds.Simulation(annulus, wrt=[], precision="f64").run(inputs, int(0.2 / annulus.dt)).final
    errors = np.stack([final[name] - exact[name] for name in exact])
    return float(np.sqrt((errors**2).mean())), float(np.abs(errors).max()), float(np.abs(final["T"] - 300 - warm).max())


def test_couette_flow_between_cylinders_is_of_second_order() -> None:
    """And so is the temperature, which a flow in circles leaves as it is."""
    coarse, fine = turning(20), turning(40)
    assert np.log2(coarse[0] / fine[0]) > 1.8 and fine[0] < 2e-4
    assert np.log2(coarse[1] / fine[1]) > 1.2 and fine[1] < 1.5e-3  # 0.5 % of the speed of the wall, at one place beside it
    assert np.log2(coarse[2] / fine[2]) > 1.7 and fine[2] < 2e-3


def test_heat_from_a_wall_anywhere_between_cells_is_exact() -> None:
    """Through a layer whose other side is cold. Its lift is in the pressure, but for that of the fluid beside a velocity
    inside, which is in the force; that of the body is not."""
    n, kappa, low = 8, 0.5, 0.137
    grid = ds.Grid((n, 4), (1 / n, 0.2), origin=(0.5 / n, 0.1))
    y = grid.coordinates(0)[:, None] * np.ones(4)
    cold = {"T": ((ds.Neumann(0.0), ds.Dirichlet(20.0)), "periodic")}
    layer = NavierStokes(grid, 0.01, (("slip", "no_slip"), "periodic"), method="rk2", bodies="fixed", scalars=cold, gravity=(-9.81, 0.0))
    inputs: Fields = {
        "nu": 0.1,
        "beta_T": 0.1,
        "kappa_T": kappa,
        "phi": y - low,
        "T_wall": np.full(grid.shape, 23.0),
        "T": np.full(grid.shape, 20.0),
    }
    final = ds.Simulation(layer, wrt=[], precision="f64").run(inputs, 800).final
    np.testing.assert_allclose(final["T"], np.minimum(20 + 3 * (1 - y) / (1 - low), 23), atol=1e-11)
    assert final["heat_T"] == pytest.approx(kappa * 3 / (1 - low) * 0.8, rel=1e-10) and abs(final["u"]).max() < 1e-12
    lift, fluid = 0.981 * final["T"][:2].mean() * 0.8 / n, 0.5 + 1 - low * n
    assert final["force_y"] == pytest.approx(fluid * lift, rel=1e-9)


def channel(cells: int, sides: Any = "no_slip") -> tuple[ds.Simulation, Fields]:
    """The channel 2D-1 of Schäfer and Turek, with a cell of 0.41 m / cells: simulation, and inputs."""
    h, nu, top = 0.41 / cells, 1e-3, 0.3
    grid = ds.Grid((cells, round(2.2 / h)), h, origin=h / 2)
    equation = NavierStokes(grid, 0.25 * h / top, (sides, ("inflow", "open")), bodies="fixed")
    y = h * np.arange(cells + 1)
    inflow = np.diff(4 * top / 0.41**2 * (0.41 * y**2 / 2 - y**3 / 3)) / h  # means over cells
    place = [[0.2, 0.2]]
    simulation = ds.Simulation(equation, receivers={"force_x": place, "force_y": place}, wrt=[], precision="f64")
    start = np.repeat(inflow[:, None], grid.shape[1], 1)
    return simulation, {"nu": nu, "inflow": inflow, "u": start, "phi": bodies.cylinder(grid, (0.2, 0.2), 0.05)}


@pytest.mark.slow
def test_drag_and_lift_of_the_cylinder_of_schaefer_and_turek() -> None:
    """10 and 20 cells across the cylinder. Schäfer and Turek (1996), Notes Numer. Fluid Mech. 52, 547-566: drag 5.57 to 5.59, lift 0.0104
    to 0.0110, difference of pressure 0.1172 to 0.1176."""
    drags = []
    for cells, steps in ((41, 1200), (82, 2400)):
        simulation, inputs = channel(cells)
        solution = simulation.run(inputs, steps)
        drag, lift = (500 * solution.traces[f"force_{axis}"][:, 0] for axis in "xy")
        balance = bodies.momentum_balance(simulation.equation.grid, solution.final, 1e-3, (0.1, 0.1), (0.3, 0.3))
        assert 500 * balance["force_x"] == pytest.approx(drag[-1], rel=1e-5)
        assert 500 * balance["force_y"] == pytest.approx(lift[-1], abs=1e-4)
        drags.append(drag[-1])
    assert drags[1] == pytest.approx(5.58, abs=0.015) and lift[-1] == pytest.approx(0.0106, abs=4e-4)
    assert abs(drags[0] - 5.5795) / abs(drags[1] - 5.5795) > 3


def require_gradient(
    simulation: ds.Simulation, loss: Any, inputs: Fields, steps: int, rng: np.random.Generator, **tolerance: float
) -> None:
    """Compare the gradient with differences along a random direction for each input, and its bits with those from two kept states."""
    _, gradient = simulation.value_and_grad(loss, inputs, steps)
    kept = simulation.value_and_grad(loss, inputs, steps, checkpoint=2)[1]
    for name, start in inputs.items():
        assert np.array_equal(gradient[name], kept[name])
        way, step = rng.normal(size=np.shape(start)), 1e-7 if name == "phi" else 1e-6
        low, high = (float(loss(simulation.run(inputs | {name: start + sign * step * way}, steps))) for sign in (-1, 1))
        assert float((gradient[name] * way).sum()) == pytest.approx((high - low) / (2 * step), **tolerance), name


def test_forces_are_those_of_momentum_and_gradients_those_of_differences() -> None:
    """A cylinder in a short channel: along distance, viscosity, inflow and velocities; bit for bit over schedules."""
    grid = ds.Grid((12, 16), 0.1, origin=0.05)
    equation = NavierStokes(grid, 0.02, ("no_slip", ("inflow", "open")), method="rk2", bodies="fixed")
    simulation = ds.Simulation(equation, receivers={"force_x": [[0.5, 0.5]]}, precision="f64")
    rng, steps = np.random.default_rng(2), 6
    inputs: Fields = {"nu": 0.05, "inflow": rng.uniform(0.3, 0.6, 12), "phi": bodies.cylinder(grid, (0.61, 0.73), 0.23)}
    rest = simulation.run(inputs, 1200)
    balance = bodies.momentum_balance(grid, rest.final, 0.05, (0.2, 0.3), (1.0, 1.2))
    for axis in "xy":
        assert rest.final[f"force_{axis}"] == pytest.approx(balance[f"force_{axis}"], abs=1e-5 * abs(float(rest.final["force_x"])))
    assert rest.final["force_x"] > 1 and abs(rest.final["force_y"]) > 0.01
    assert rest.traces["force_x"][-1, 0] == rest.final["force_x"]

    inputs |= {name: rng.uniform(-0.5, 0.5, grid.shape) for name in "uv"}
    weights = rng.normal(size=(2, *grid.shape))

    def loss(found: ds.Solution) -> Any:
        ends = (weights[0] * found.final["u"] ** 2 + weights[1] * found.final["v"]).sum()
        return ends + found.final["force_x"] + 2 * found.final["force_y"] + (found.traces["force_x"][1:] ** 2).sum()

    require_gradient(simulation, loss, inputs, steps, rng, rel=1e-6)


def test_heat_is_that_which_the_flow_takes_along_and_gradients_those_of_differences() -> None:
    """A hot cylinder between cold walls. A temperature that is everywhere the same stays so, to rounding of its value."""
    grid = ds.Grid((10, 14), 0.1, origin=0.05)
    walls = (ds.Dirichlet(0.0), (ds.Dirichlet("T_in"), ds.Neumann(0.0)))
    sides: Any = ("no_slip", ("inflow", "open"))
    equation = NavierStokes(grid, 0.02, sides, method="rk2", bodies="fixed", scalars={"T": walls}, gravity=(-1.0, 0.0))
    simulation = ds.Simulation(equation, receivers={"heat_T": [[0.5, 0.5]]}, precision="f64")
    rng, steps = np.random.default_rng(2), 5
    inputs: Fields = {"nu": 0.05, "inflow": rng.uniform(0.3, 0.6, 10), "phi": bodies.cylinder(grid, (0.512, 0.633), 0.2)}
    inputs |= {"kappa_T": 0.04, "beta_T": 0.3, "T_wall": rng.uniform(0.8, 1.2, grid.shape), "T_in": rng.uniform(-0.1, 0.1, 10)}
    rest = simulation.run(inputs, 1500).final
    assert bodies.heat_balance(grid, rest, 0.04, (0.2, 0.2), (0.8, 1.0)) == pytest.approx(rest["heat_T"], rel=3e-4)  # of 4 cells across
    assert 0.2 < rest["heat_T"] < 2 and abs(rest["force_y"]) > 1e-3

    inputs |= {name: rng.uniform(-0.5, 0.5, grid.shape) for name in "uvT"}
    weights = rng.normal(size=grid.shape)

    def loss(found: ds.Solution) -> Any:
        heat = found.final["heat_T"] + (found.traces["heat_T"][1:] ** 2).sum()
        return (weights * found.final["T"] ** 2).sum() + heat + found.final["force_y"]

    require_gradient(simulation, loss, inputs, steps, rng, rel=2e-6, abs=1e-8)

    still = inputs | {"T": 0 * weights, "T_wall": 0 * weights, "T_in": np.zeros(10)}
    stirred = simulation.run(still, 20).final
    assert not stirred["T"].any() and stirred["heat_T"] == 0.0 and abs(stirred["u"]).max() > 0.1


def ring(n: int) -> tuple[float, float]:
    """The largest error of the temperature around a cylinder that gives off heat, in fluid at rest, and the error of its circumference."""
    radius, flux, kappa, (cy, cx), h = 0.31, 1.7, 0.5, (0.013, -0.021), 2 / n
    grid = ds.Grid((n, n), h, origin=-1 + h / 2)

    def exact(y: Any, x: Any) -> Any:
        return -flux * radius / kappa * np.log(np.hypot(y - cy, x - cx) / 1.5)

    sides = {"T": tuple((ds.Dirichlet(f"T_low_{axis}"), ds.Dirichlet(f"T_high_{axis}")) for axis in "yx")}
    room = NavierStokes(grid, 0.2 * h * h / kappa, "no_slip", method="rk2", bodies="fixed", scalars=sides, fluxes=("T",))
    at, phi = grid.coordinates(0), bodies.cylinder(grid, (cy, cx), radius)
    warm = np.where(phi > 0, exact(at[:, None], at), 0.0)
    inputs: Fields = {"nu": 0.1, "kappa_T": kappa, "phi": phi, "T_flux": flux, "T": warm}
    inputs |= {"T_low_y": exact(-1, at), "T_high_y": exact(1, at), "T_low_x": exact(at, -1), "T_high_x": exact(at, 1)}
    final = ds.Simulation(room, wrt=[], precision="f64").run(inputs, round(1 / room.dt)).final
    return float(np.abs(np.where(phi > 0, final["T"] - warm, 0)).max()), abs(float(final["heat_T"]) / (2 * np.pi * radius * flux) - 1)


@pytest.mark.slow
def test_a_flux_through_the_surface_of_a_body_is_of_second_order() -> None:
    """-q a / κ log(r) around a cylinder; the temperature rises by 1.7 from the corners to the cylinder."""
    coarse, fine = ring(16), ring(48)
    assert np.log(coarse[0] / fine[0]) / np.log(3) > 1.7 and fine[0] < 3e-3 and fine[1] < 1e-3


def flux_in_channel(wrt: list[str]) -> tuple[ds.Simulation, Fields]:
    """A cylinder of 4 cells across that gives off heat, in a short channel."""
    grid = ds.Grid((10, 14), 0.1, origin=0.05)
    walls = (ds.Dirichlet(0.0), (ds.Dirichlet("T_in"), ds.Neumann(0.0)))
    sides: Any = ("no_slip", ("inflow", "open"))
    equation = NavierStokes(grid, 0.02, sides, method="rk2", bodies="fixed", scalars={"T": walls}, gravity=(-1.0, 0.0), fluxes=("T",))
    inflow = np.random.default_rng(2).uniform(0.3, 0.6, 10)
    inputs: Fields = {"nu": 0.05, "inflow": inflow, "phi": bodies.cylinder(grid, (0.512, 0.633), 0.2)}
    return ds.Simulation(equation, precision="f64", wrt=wrt), inputs | {"kappa_T": 0.04, "beta_T": 0.1, "T_in": np.zeros(10), "T_flux": 0.5}


def test_heat_by_a_flux_is_that_which_the_flow_takes_along() -> None:
    """One number is the flux of all cells."""
    simulation, inputs = flux_in_channel([])
    rest = simulation.run(inputs, 400).final
    grid = simulation.equation.grid
    assert bodies.heat_balance(grid, rest, 0.04, (0.2, 0.2), (0.8, 1.0)) == pytest.approx(rest["heat_T"], rel=0.01)
    assert rest["heat_T"] == pytest.approx(0.5 * 2 * np.pi * 0.2, rel=0.02)


@pytest.mark.slow
def test_gradients_of_a_flux_are_those_of_differences() -> None:
    """Along the flux, a number, and the radius."""
    simulation, inputs = flux_in_channel(["phi", "T_flux"])

    def warmth(flux: Any, radius: Any) -> Any:
        phi = bodies.cylinder(simulation.equation.grid, (0.512, 0.633), radius)
        return (simulation.run(inputs | {"phi": phi, "T_flux": flux}, 5).final["T"] ** 2).sum()

    _, slopes = ds.value_and_grad(warmth, argnums=(0, 1))(np.array(0.5), np.array(0.2))
    for k, step in enumerate((1e-6, 1e-7)):
        ends = [float(warmth(0.5 + sign * step * (k == 0), 0.2 + sign * step * (k == 1))) for sign in (-1, 1)]
        assert slopes[k] == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-5)


def test_the_force_on_a_hot_body_is_that_of_the_fluid() -> None:
    """It does not depend on T_wall deep inside, where no fluid is. In fluid of one temperature it is that of Archimedes, -β g T times the
    area, to 1 or 2 % with 6 to 10 cells across."""
    n, g, beta, warm = 16, -9.81, 0.1, 0.7
    grid = ds.Grid((n, n), (1 / n, 1.5 / n), origin=(0.5 / n, 0.75 / n))
    box, cylinder = bodies.box(grid, (0.51, 0.72), (0.383, 0.677)), bodies.cylinder(grid, (0.5, 0.72), 0.3)
    room = NavierStokes(grid, 0.01, "slip", method="rk2", bodies="fixed", scalars=("T",), gravity=(g, 0.0))
    flow = ds.Simulation(room, wrt=[], precision="f64")
    still: Fields = {"nu": 0.05, "kappa_T": 0.05, "beta_T": beta}
    for phi, area in ((box, 0.383 * 0.677), (cylinder, np.pi * 0.09)):
        forces = []
        for deep in (0.0, 5.0):
            hot = still | {"phi": phi, "T_wall": np.where(phi < -0.14, deep, warm)}
            rest = flow.run(hot | {"T": np.full(grid.shape, warm)}, 20).final
            assert rest["force_y"] == pytest.approx(beta * g * warm * area, rel=0.02) and abs(rest["force_x"]) < 1e-5
            stirred = flow.run(hot | {"T": np.zeros(grid.shape)}, 20).final
            forces.append(float(stirred["force_y"]))
        assert forces[0] == pytest.approx(forces[1], rel=1e-9) and stirred["heat_T"] > 0.2 and abs(forces[0]) > 1e-3


SHAPES = {
    "cylinder": lambda grid, s: bodies.cylinder(grid, (0.5, 0.4 + s), 0.2 + s),
    "ellipse": lambda grid, s: bodies.ellipse(grid, (0.5, 0.7), (0.1 + s, 0.3), 0.3 + s),
    "box": lambda grid, s: bodies.box(grid, (0.5, 0.7), (0.2, 0.5 + s), 0.2 + s),
    "polygon": lambda grid, s: bodies.polygon(grid, dnp.array([[0.2, 0.3], [0.3, 1.1], [0.8, 0.6]]) + s),
    "naca": lambda grid, s: bodies.naca(grid, "2412", (0.5, 0.2), 0.9 + s, 0.1 + s),
}


@pytest.mark.parametrize("name", SHAPES)
def test_outlines_have_distances_and_derivatives(name: str) -> None:
    """Differences of a distance along the grid are at most 1, and 1 along its own direction; its derivative is that of differences."""
    grid = ds.Grid((100, 140), 0.01, origin=0.005)
    phi = np.asarray(SHAPES[name](grid, 0.0))
    slopes = np.hypot(*np.gradient(phi, 0.01))
    beside = np.abs(phi) < 0.01
    assert beside.sum() > 80 and np.median(slopes[beside]) == pytest.approx(1.0, abs=0.03)
    assert phi[0].min() > 0 and phi.min() < -0.04
    weights = np.random.default_rng(0).normal(size=grid.shape)

    def summed(s: Any) -> Any:
        return (weights * SHAPES[name](grid, s)).sum()

    _, slope = ds.value_and_grad(summed)(1e-3)
    assert slope == pytest.approx((summed(1e-3 + 1e-7) - summed(1e-3 - 1e-7)) / 2e-7, rel=1e-4)


def test_areas_are_those_of_formulas() -> None:
    grid = ds.Grid((100, 140), 0.01, origin=0.005)
    areas = {name: float((np.asarray(shape(grid, 0.0)) < 0).sum()) * 1e-4 for name, shape in SHAPES.items()}
    thickness = 0.12 * 5 * 2 * (0.2969 / 1.5 - 0.126 / 2 - 0.3516 / 3 + 0.2843 / 4 - 0.1036 / 5) * 0.9**2
    exact = {"cylinder": np.pi * 0.04, "ellipse": np.pi * 0.03, "box": 0.1, "polygon": 0.225, "naca": thickness}
    for name, area in exact.items():
        assert areas[name] == pytest.approx(area, rel=0.02), name


EIGHT = ds.Grid((8, 8), 0.1, origin=0.05)
BESIDE = r"expected one that lies between 0\.1 and 0\.6 m along axis "
CORNERS = r"corners .*, expected two numbers each, the coordinates \(y, x\); give those"
NO_RECTANGLES: list[tuple[Any, Any, str]] = [
    ((0.0, 0.2), (0.5, 0.5), BESIDE + "0; shrink it, or take the states force_x, force_y and heat_T"),
    ((0.2, 0.2), (0.7, 0.5), BESIDE + "0"),
    ((0.2, -3.0), (0.5, 0.5), BESIDE + "1"),
    ((0.2, 0.2), (0.5, 0.8), BESIDE + "1"),
    ((0.2, 0.2, 0.2), (0.5, 0.5, 0.5), CORNERS),
    ((0.2, 0.2), (0.5,), CORNERS),
    ((0.2, np.nan), (0.5, 0.5), CORNERS),
]


def test_the_largest_rectangle_has_the_cells_that_its_message_says() -> None:
    """A field that rises along x. A rectangle beyond a side was cut without a word, here to 4 cells of 7."""
    fields = {"u": np.zeros((8, 8)), "v": np.zeros((8, 8)), "T": np.tile(EIGHT.coordinates(1) ** 2, (8, 1))}
    assert bodies.heat_balance(EIGHT, fields, 0.5, (0.1, 0.1), (0.6, 0.6)) == pytest.approx(-0.5 * 2 * 0.25)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: NavierStokes(ds.Grid((8, 8, 8), 0.1), 0.1, bodies="fixed"),
            "bodies = 'fixed' with 3 axes and order = 2, expected two axes",
        ),
        (lambda: NavierStokes(ds.Grid((8, 8), 0.1), 0.1, order=4, bodies="fixed"), "with 2 axes and order = 4, expected two axes"),
        (
            lambda: NavierStokes(ds.Grid((8, 8), 0.1), 0.1, bodies=cast("Any", "some")),
            "bodies = 'some' is unknown; choose one of none, fixed, moving",
        ),
        (
            lambda: NavierStokes(ds.Grid((8, 8), 0.1), 0.1, bodies="fixed", scalars=("T",), fluxes=("S",)),
            r"fluxes = \('S',\) with scalars = \('T',\), bodies = 'fixed' and bodies_method = 'sharp', expected names of scalars",
        ),
        (
            lambda: NavierStokes(ds.Grid((8, 8), 0.1), 0.1, bodies="fixed", scalars=("T",), fluxes=("T",), bodies_method="penalised"),
            "bodies_method = 'penalised', expected names of scalars, and bodies that are sharp",
        ),
        (lambda: bodies.naca(ds.Grid((8, 8), 0.1), "1200", (0, 0), 1.0), "digits = '1200', expected four, the last two not 00"),
        (lambda: bodies.polygon(ds.Grid((8, 8), 0.1), [[0, 0], [1, 1]]), r"corners of shape \(2, 2\), expected \(3 or more, 2\)"),
        (lambda: bodies.cylinder(ds.Grid((8,), 0.1), (0.3, 0.3), 1.0), "grid of 1 axes, expected 2"),
        (
            lambda: bodies.momentum_balance(ds.Grid((8, 8), 0.1), {}, 0.1, (0.2, 0.2), (0.3, 0.6)),
            "expected two cells or more along each axis; widen it",
        ),
        *((lambda low=low, high=high: bodies.heat_balance(EIGHT, {}, 0.1, low, high), message) for low, high, message in NO_RECTANGLES),
        (
            lambda: bodies.heat_balance(ds.Grid((8, 8, 8), 0.1), {}, 0.1, (0.2, 0.2), (0.6, 0.6)),
            r"grid of 3 axes, expected 2, \(y, x\); take one",
        ),
        (
            lambda: bodies.heat_balance(ds.Grid((8, 8), 0.1), {"u": 0, "v": 0}, 0.1, (0.2, 0.2), (0.6, 0.6)),
            "final without T, expected v, u, T of a NavierStokes; it has u, v. Give",
        ),
        (
            lambda: bodies.momentum_balance(ds.Grid((8, 8), 0.1), {"u": 0, "v": 0}, 0.1, (0.2, 0.2), (0.6, 0.6)),
            "final without p, expected v, u, p",
        ),
    ],
)
def test_wrong_arguments_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


def test_balances_of_rectangles_that_cut_a_body_are_refused() -> None:
    """Each of their four sides may cut it. One that has the body inside, or beside it, passes."""
    grid = ds.Grid((12, 20), spacing=0.1, origin=0.05)
    still = dict.fromkeys(("u", "v", "p", "T"), np.zeros(grid.shape))
    phi = bodies.cylinder(grid, (0.6, 0.8), 0.2)
    for balance in (bodies.momentum_balance, bodies.heat_balance):
        for low, high in (((0.2, 0.4), (1.0, 1.2)), ((0.2, 1.2), (1.0, 1.6))):
            balance(grid, still, 0.1, low, high, phi=phi)
        for low, high in (((0.2, 0.8), (1.0, 1.6)), ((0.2, 0.3), (1.0, 0.8)), ((0.6, 0.4), (1.0, 1.2)), ((0.2, 0.4), (0.6, 1.2))):
            with pytest.raises(ParameterError, match=r"a rectangle from .* cuts a body, expected sides in the fluid"):
                balance(grid, still, 0.1, low, high, phi=phi)


def test_a_body_that_no_cell_sees_is_refused() -> None:
    grid = ds.Grid((12, 20), spacing=0.1, origin=0.05)
    flow = ds.Simulation(NavierStokes(grid, 0.01, ("slip", ("inflow", "open")), method="rk2", bodies="fixed"), wrt=[], precision="f64")
    inputs = {"nu": 0.02, "inflow": np.ones(12), "u": np.ones(grid.shape)}
    with pytest.raises(ParameterError, match="phi has no cell below 0"):
        flow.run({**inputs, "phi": bodies.cylinder(grid, (0.6, 0.7), 0.02)}, 1)


CROSSED = [("inflow", "open"), ("outflow", "inflow"), ("velocity", "outflow"), ("open", "velocity")]


@pytest.mark.parametrize("method", ["sharp", "penalised"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("pair", CROSSED)
def test_outlines_that_shut_a_flow_out_are_refused(pair: Any, axis: int, method: Any) -> None:
    """Distances of the wrong sign, masks and walls over a whole side, along both axes; those that leave a cell of a side open pass."""
    grid = ds.Grid((12, 14), spacing=0.1, origin=0.05)
    sides: Any = tuple(pair if k == axis else "slip" for k in (0, 1))
    flow = NavierStokes(grid, 0.01, sides, bodies="fixed", bodies_method=method)
    phi, place = bodies.cylinder(grid, (0.6, 0.7), 0.23), 0.1 * (np.indices(grid.shape)[axis] + 0.5)
    length = 0.1 * grid.shape[axis]

    def check(distance: np.ndarray) -> None:
        flow.check({name: distance if name == "phi" else np.full((), 0.02) for name in ("phi", "nu")} | rest)

    rest = {name: np.zeros(12) for name in flow.parameters if name not in ("phi", "nu")}
    for right in (phi, place - 0.03, place - 0.05, np.minimum(phi, place - 0.05)):
        check(np.minimum(right, phi))
    if method == "sharp":  # which reads quotients of distances alone
        check(100 * phi)
    for name, covered in ((pair[0], place - 0.13), (pair[1], length - 0.13 - place)):
        with pytest.raises(
            ParameterError, match=rf"phi is below 0 along the whole side .* \({name}\), expected fluid there; change the sign"
        ):
            check(np.minimum(covered, phi))
        hole = np.array(covered)
        hole[5, 5] = 0.1
        hole[(0, 5) if axis == 0 else (5, 0)] = hole[(-1, 5) if axis == 0 else (5, -1)] = 0.01
        check(hole)
    with pytest.raises(ParameterError, match=r"along the whole side .* change the sign: phi is negative inside of the body"):
        check(-phi)
    with pytest.raises(ParameterError, match=r"phi has no cell above 0, its largest is .*, expected fluid"):
        check(-np.abs(phi))
    for low, high in ((-1.0, 1.0), (-0.05, 0.05), (-1.0, 2.0)):
        with pytest.raises(ParameterError, match=f"phi has only the values {low:.4g} and {high:.4g}, expected a signed distance in metres"):
            check(np.where(phi < 0, low, high))


@pytest.mark.slow
def test_a_certificate_of_a_symmetric_flow_does_not_judge_by_rounding() -> None:
    """The lift is rounding there, and has the unit of the drag."""
    grid = ds.Grid((12, 20), spacing=0.1, origin=0.05)
    flow = ds.Simulation(NavierStokes(grid, 0.01, ("slip", ("inflow", "open")), method="rk2", bodies="fixed"), precision="f64", wrt=["nu"])
    inputs = {"nu": 0.02, "inflow": np.ones(12), "u": np.ones(grid.shape), "phi": bodies.cylinder(grid, (0.6, 0.7), 0.27)}
    report = ds.certify(flow, lambda solution: solution.final["force_x"], inputs, 8, directions=1)
    assert report.passed, str(report)


@pytest.mark.parametrize("half_axes", [(0.1, 0.15), (0.15, 0.1), (0.3, 0.05)])
def test_an_ellipse_is_no_deeper_than_its_shorter_half_axis(half_axes: tuple[float, float]) -> None:
    grid = ds.Grid((21, 21), spacing=0.05)
    phi = bodies.ellipse(grid, (0.5, 0.5), half_axes)
    assert phi.min() >= -min(half_axes) and phi[10, 10] < -0.5 * min(half_axes)


RIGHT: dict[str, dict[str, Any]] = {
    "cylinder": {"centre": (0.5, 0.7), "radius": 0.2},
    "ellipse": {"centre": (0.5, 0.7), "half_axes": (0.1, 0.3), "angle": 0.3},
    "box": {"centre": (0.5, 0.7), "lengths": (0.2, 0.5), "angle": 0.2},
    "naca": {"nose": (0.5, 0.2), "chord": 0.9, "angle": 0.1},
    "polygon": {"corners": ((0.2, 0.3), (0.3, 1.1), (0.8, 0.6))},
}
LENGTHS = ("radius", "half_axes", "lengths", "chord")


@pytest.mark.parametrize(("shape", "name"), [(shape, name) for shape, arguments in RIGHT.items() for name in arguments])
def test_places_and_lengths_of_bodies_are_checked(shape: str, name: str) -> None:
    """Each argument of each body: values that are not finite or no numbers, another number of them, lengths of 0 and below."""
    grid, right, digits = ds.Grid((20, 28), 0.05), RIGHT[shape], {"digits": "2412"} if shape == "naca" else {}
    value = np.array(right[name])
    wrong: list[Any] = [value[..., None], value[None], np.full(value.shape, "a"), value + 1j, value > 0]
    if value.ndim:
        wrong += [
            value[0],
            value[:-1],
            0.3,
            [[0.1, 0.2], *value.tolist()[1:]][: len(value)] if value.ndim == 1 else value[:, :1],
            *([np.append(value, 0.1)] if value.ndim == 1 else []),
        ]
    for bad in (np.nan, np.inf, *((0.0, -0.2) if name in LENGTHS else ())):
        for place in np.ndindex(value.shape):
            one = value.copy()
            one[place] = bad
            wrong += [one, one.tolist()]
    outline = getattr(bodies, shape)
    for one in wrong:
        with pytest.raises(ParameterError, match=rf"{name} .*expected"):
            outline(grid, **digits, **right | {name: one})
    phi = outline(grid, **digits, **right)
    assert np.array_equal(outline(grid, **digits, **right | {name: value}), phi)

    def summed(one: Any) -> Any:
        return (outline(grid, **digits, **right | {name: one}) * np.arange(28.0)).sum()

    recorded = ds.jit(ds.value_and_grad(summed))
    for scale in (1.0, 1.1):  # the second replays the first
        np.testing.assert_allclose(recorded(scale * value)[1], ds.grad(summed)(scale * value), rtol=1e-12)


@pytest.mark.parametrize("digits", ["2012", "0412", "2400", "12", 2412])
def test_digits_of_aerofoils_are_checked(digits: Any) -> None:
    with pytest.raises(ParameterError, match="digits = "):
        bodies.naca(ds.Grid((20, 40), 0.05), digits, (0.5, 0.3), 1.0)


OUTLINES = {
    "cylinder": lambda grid, y, x: bodies.cylinder(grid, (y, x), 0.2),
    "ellipse": lambda grid, y, x: bodies.ellipse(grid, (y, x), (0.2, 0.1), angle=0.3),
    "box": lambda grid, y, x: bodies.box(grid, (y, x), (0.2, 0.4), angle=0.3),
    "polygon": lambda grid, y, x: bodies.polygon(grid, [[y - 0.1, x], [y + 0.1, x - 0.1], [y, x + 0.2]]),
    "naca": lambda grid, y, x: bodies.naca(grid, "2412", (y, x - 0.2), 0.4),
}


@pytest.mark.parametrize("name", OUTLINES)
@pytest.mark.parametrize("place", [(0.5, 3.5), (3.0, 0.5), (-0.6, 1.0), (0.5, -0.7), (3.0, 3.5)])
def test_a_body_beside_the_grid_is_refused(name: str, place: tuple[float, float]) -> None:
    """A centre as (x, y) may lie outside of the grid: the flow passed as if there were no body."""
    grid = ds.Grid((20, 60), spacing=0.05, origin=0.025)
    with pytest.raises(
        ParameterError, match=r"(centre|corners|nose) = .*expected a body on the grid, at least in part, y from 0\.025 to 0\.975 and x from"
    ):
        OUTLINES[name](grid, *place)
    for inside in ((0.5, 1.5), (0.0, 1.5), (1.0, 0.0), (0.97, 2.98)):
        assert np.isfinite(OUTLINES[name](grid, *inside)).all()
    assert bodies.cylinder(grid, (0.5, 1.5), 1e-3).min() > 0  # between centres of cells
