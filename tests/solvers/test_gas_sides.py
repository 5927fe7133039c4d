"""Sides that gas flows through, and gravity: exact steady flows, waves that leave, gas at rest, gradients, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError, ShapeError, StabilityError
from diffsim.solvers import Euler
from diffsim.typing import Array

GAMMA = 1.4
ISENTROPIC = 1.2 * (1.1 / 1.3) ** (1 / GAMMA)  # density of gas that rested at 1.2 kg/m³ and 1.3 Pa, at 1.1 Pa
ENTHALPY = GAMMA / (GAMMA - 1) * (1.3 / 1.2 - 1.1 / ISENTROPIC)  # what it lost of it, J/kg
STEADY: dict[str, tuple[tuple[str, str], dict[str, float], tuple[float, float, float]]] = {
    # sides, what is given there, and density, velocity and pressure of the steady flow
    "reservoir": (("reservoir", "outflow"), {"rho_low_x": 1.2, "p_low_x": 1.3, "p_high_x": 1.1}, (ISENTROPIC, np.sqrt(2 * ENTHALPY), 1.1)),
    "supersonic": (("freestream", "outflow"), {"rho_low_x": 1.1, "u_low_x": 1.8, "p_low_x": 0.9, "p_high_x": 0.1}, (1.1, 1.8, 0.9)),
    "freestream": (("freestream", "freestream"), {}, (1.1, 0.4, 0.9)),
    "inflow": (("inflow", "freestream"), {"rho_low_x": 1.1, "u_low_x": 0.4}, (1.1, 0.4, 0.9)),
}


def simulated(sides: Any, dt: float, cells: int = 12, wrt: Any = (), **options: Any) -> ds.Simulation:
    return ds.Simulation(Euler(ds.Grid((cells,), 1 / cells), dt, sides=(sides,), **options), wrt=list(wrt), precision="f64")


@pytest.mark.slow
@pytest.mark.parametrize("name", STEADY)
def test_a_flow_from_elsewhere_becomes_that_of_its_sides(name: str) -> None:
    """From gas that moves at another speed; and its mirror image."""
    sides, stated, (rho, u, p) = STEADY[name]
    ends = ("low_x", "high_x")
    stated = stated | {f"{what}_{end}": value for end, word in zip(ends, sides, strict=True) if word == "freestream" for what, value in
                     zip(("rho", "u", "p"), (rho, u, p), strict=True)}  # fmt: skip
    start = {"rho": np.full(12, 1.0), "u": np.full(12, 0.9 * u), "p": np.full(12, 1.0)}
    flow = simulated(sides, 0.01, method="euler").run(start | stated, 4000).final
    for field, value in (("rho", rho), ("u", u), ("p", p)):
        assert np.allclose(flow[field], value, rtol=0, atol=1e-9), (field, flow[field] - value)
    if name == "inflow":
        turned = {}
        for key, value in stated.items():
            field, end = key.split("_", 1)
            turned[f"{field}_{ends[end == 'low_x']}"] = -value if field == "u" else value
        mirrored = simulated(sides[::-1], 0.01, method="euler").run(start | {"u": -start["u"]} | turned, 4000).final
        assert np.allclose(mirrored["u"], -flow["u"][::-1], rtol=0, atol=1e-13)
        assert np.allclose(mirrored["p"], flow["p"][::-1], rtol=0, atol=1e-13)


def test_gas_that_leaves_into_a_reservoir_keeps_its_entropy() -> None:
    """Hot gas beside a reservoir: what leaves has the density of the gas inside, not that of the reservoir, and then that enters."""
    pipe, hot = simulated(("reservoir", "outflow"), 0.01, method="euler"), {"rho": np.full(12, 0.3), "p": np.full(12, 2.0)}
    final = pipe.run(hot | {"rho_low_x": 1.2, "p_low_x": 1.3, "p_high_x": 1.3}, 20).final
    assert final["u"][0] < -0.3 and np.allclose(final["rho"], 0.3 * (final["p"] / 2) ** (1 / GAMMA), rtol=0.01)
    assert np.allclose(final["rho"], final["rho"][::-1], rtol=1e-12)  # as through the outflow at the other end
    assert pipe.run(hot | {"rho_low_x": 1.2, "p_low_x": 1.3, "p_high_x": 1.1}, 400).final["rho"][0] > 1.0


@pytest.mark.parametrize(
    ("sides", "options"),
    [("open", {}), pytest.param(("wall", "open"), {}, marks=pytest.mark.slow),
     pytest.param(("open", "open"), {"method": "rk3", "scheme": "weno5"}, marks=pytest.mark.slow)],
)  # fmt: skip
def test_a_pulse_leaves_no_pressure_behind_between_open_sides(sides: Any, options: Any) -> None:
    """A pulse of 1 % left 0.4 % of its size behind, and 1.1 % with a wall, where slopes next to open sides were limited ones."""
    cells, size = 60, 1e-2
    pulse = 1 + size * np.exp(-((((np.arange(cells) + 0.5) / cells - 0.5) / 0.07) ** 2))
    final = simulated(sides, 0.4 / cells / 1.4, cells, **options).run({"rho": 1.4 * pulse ** (1 / GAMMA), "p": pulse}, 1000).final
    assert np.abs(final["p"] - 1).max() < 1e-4 * size and np.abs(final["u"]).max() < 1e-4 * size


@pytest.mark.slow
def test_gas_of_another_temperature_enters_without_a_sound() -> None:
    gas = simulated(("inflow", "open"), 0.01, method="euler")
    final = gas.run({"rho": np.ones(12), "p": np.ones(12), "u": np.full(12, 0.3), "rho_low_x": 1.5, "u_low_x": 0.3}, 60).final
    assert final["rho"][0] > 1.4 and np.abs(final["p"] - 1).max() < 1e-13 and np.abs(final["u"] - 0.3).max() < 1e-13
    faster = gas.run({"rho": np.ones(12), "p": np.ones(12), "u": np.full(12, 0.3), "rho_low_x": 1.5, "u_low_x": 0.35}, 60).final
    wave = (1 + 0.2 * 0.05 / np.sqrt(GAMMA)) ** 7  # a weak compression
    assert np.allclose(faster["p"][:3], wave, rtol=0, atol=1e-3) and wave > 1.05
    still = simulated(("reservoir", "open"), 0.01, method="euler")
    final = still.run({"rho": np.ones(12), "p": np.ones(12), "rho_low_x": 1.5, "p_low_x": 1.0}, 60).final
    assert np.abs(final["u"]).max() < 1e-13


@pytest.mark.slow
def test_what_flows_in_is_what_is_given_while_the_flow_is_unsteady() -> None:
    gas = simulated(("inflow", "wall"), 0.01)
    start = {"rho": np.ones(12), "p": np.ones(12)}
    for steps in (1, 30):
        final = gas.run(start | {"rho_low_x": 1.1, "u_low_x": 0.2}, steps).final
        assert np.isclose(final["rho"].sum() / 12 - 1, 1.1 * 0.2 * 0.01 * steps, rtol=1e-12)


@pytest.mark.slow
def test_gas_leaves_no_faster_than_sound_where_the_pressure_outside_is_low() -> None:
    """A tube that is opened to a vacuum: at its end the fan of the exact solution is sonic, u = c = 2 c₀ / (γ + 1)."""
    sonic = 2 / (GAMMA + 1) * np.sqrt(GAMMA)
    cells, dt = 400, 0.4 / 400 / 1.4
    final = simulated(("wall", "outflow"), dt, cells).run({"rho": np.ones(cells), "p": np.ones(cells), "p_high_x": 1e-3}, 900).final
    left = cells - final["rho"].sum()
    exact = 900 * dt * cells * sonic * (2 / (GAMMA + 1)) ** (2 / (GAMMA - 1))  # ρ u of the sonic state
    assert np.isclose(left, exact, rtol=3e-3)


@pytest.mark.slow
def test_waves_leave_through_a_freestream_and_return_from_a_given_pressure() -> None:
    cells, size = 200, 1e-4
    x, c = (np.arange(cells) + 0.5) / cells, np.sqrt(GAMMA)
    pulse = 1 + size * np.exp(-(((x - 0.5) / 0.05) ** 2))
    start = {"rho": pulse ** (1 / GAMMA), "p": pulse}
    start["u"] = 0.2 + 2 / (GAMMA - 1) * (np.sqrt(GAMMA * pulse / start["rho"]) - c)  # to the right alone
    beyond = {"rho_high_x": 1.0, "u_high_x": 0.2, "p_high_x": 1.0}
    for word, stated, least, most in (("freestream", beyond, 0.0, 1e-7), ("open", {}, 0.0, 1e-5), ("outflow", {"p_high_x": 1.0}, 0.9, 1.0)):
        dt = 0.4 / cells / 1.7
        final = simulated(("open", word), dt, cells, negligible=0.1).run(start | stated, int(0.75 / dt)).final
        back = np.abs(0.5 * (final["p"] - 1 - c * (final["u"] - 0.2))).max() / size
        assert least <= back < most, (word, back)


def at_rest(cells: int, gravity: float) -> Array:
    """The pressure of a column of gas 2 m high, whose density is its pressure, that rises by the mean weight of neighbours."""
    half = gravity / cells
    return float(np.exp(half)) * ((1 + half) / (1 - half)) ** np.arange(cells)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sides", "method"),
    [
        (("wall", "outflow"), "euler"),
        (("wall", "wall"), "rk2"),
        (("wall", "open"), "rk3"),
        (("reservoir", "wall"), "euler"),
    ],
)
def test_gas_with_weight_stays_at_rest(sides: Any, method: Any) -> None:
    cells, g = 30, -1.0
    p = at_rest(cells, g)
    column = ds.Simulation(Euler(ds.Grid((cells,), 2 / cells), 0.015, sides=(sides,), method=method, gravity=(g,)), wrt=[], precision="f64")
    foot = p[0] * (1 - g / cells)  # on the side below
    stated = {"p_high_x": p[-1] * (1 + g / cells)} if sides[1] == "outflow" else {}
    stated |= {"p_low_x": foot, "rho_low_x": p[0]} if sides[0] == "reservoir" else {}
    final = column.run({"rho": p, "p": p} | stated, 300).final
    assert np.abs(final["u"]).max() < 1e-13 and np.abs(final["p"] - p).max() < 1e-13


@pytest.mark.slow
def test_a_smooth_atmosphere_is_at_rest_to_second_order_and_layers_of_gas_exactly() -> None:
    speeds = []
    for cells in (50, 100):
        grid = ds.Grid((cells,), 2 / cells)
        p = np.exp(-grid.coordinates(0))
        column = ds.Simulation(Euler(grid, 0.5 / cells, gravity=(-1.0,)), wrt=[], precision="f64")
        speeds.append(np.abs(column.run({"rho": p, "p": p}, 8 * cells).final["u"]).max())
    assert speeds[0] < 1e-4 and np.log2(speeds[0] / speeds[1]) > 1.9
    grid = ds.Grid((60,), 1 / 60)
    rho = np.where(grid.coordinates(0) < 0.5, 1.0, 0.25)
    p = 1.0 - np.cumsum(rho + np.append(0.0, rho[:-1])) / 120
    final = ds.Simulation(Euler(grid, 1e-3, gravity=(-1.0,)), wrt=[], precision="f64").run({"rho": rho, "p": p}, 500).final
    assert np.abs(final["u"]).max() < 1e-13 and np.allclose(final["rho"], rho, atol=1e-13)


@pytest.mark.slow
def test_energy_with_that_of_the_height_is_kept() -> None:
    grid, random = ds.Grid((12, 10), 0.1), np.random.default_rng(0)
    start = {name: low + 0.3 * random.random(grid.shape) for name, low in (("rho", 1.0), ("p", 2.0), ("u", -0.1), ("v", 0.1))}
    final = ds.Simulation(Euler(grid, 0.004, gravity=(-2.0, 0.5)), wrt=[], precision="f64").run(start, 50).final
    y, x = grid.coordinates(0)[:, None], grid.coordinates(1)

    def energy(gas: Any) -> Any:
        return (gas["p"] / 0.4 + gas["rho"] * (0.5 * (gas["u"] ** 2 + gas["v"] ** 2) + 2 * y - 0.5 * x)).sum()

    assert np.isclose(energy(final), energy(start), rtol=1e-13) and np.isclose(final["rho"].sum(), start["rho"].sum(), rtol=1e-14)
    assert not np.isclose(final["v"].sum(), start["v"].sum(), rtol=1e-2)


ALL = {"rho": 1.1, "u": 0.3, "v": 0.1, "p": 1.1}
CORNERS = {f"{name}_high_y": value for name, value in ALL.items()} | {"rho_low_x": 1.1, "u_low_x": 0.3, "v_low_x": 0.1, "p_high_x": 1.1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "sides", "stated", "options"),
    [
        ((9,), (("wall", "outflow"),), {"p_high_x": 1.0}, {"method": "euler", "relaxation": 0.5}),
        ((9,), (("reservoir", "outflow"),), {"rho_low_x": 1.3, "p_low_x": 1.5, "p_high_x": 1.0},
         {"method": "euler", "series": ("p_high_x",)}),
        ((16,), (("inflow", "freestream"),), {"rho_low_x": 1.1, "u_low_x": 0.3} | {f"{n}_high_x": ALL[n] for n in ("rho", "u", "p")},
         {"method": "rk3", "scheme": "weno5"}),
        ((16,), (("outflow", "inflow"),), {"rho_high_x": 1.1, "u_high_x": -0.3, "p_low_x": 0.4}, {}),
        ((9, 8), (("wall", "freestream"), ("inflow", "outflow")), CORNERS, {"gravity": (-1.0, 0.3)}),
    ],
)  # fmt: skip
def test_gradients_of_what_is_given_are_those_of_differences(shape: Any, sides: Any, stated: Any, options: Any) -> None:
    steps, random = 8, np.random.default_rng(1)
    gas = ds.Simulation(Euler(ds.Grid(shape, 0.1), 0.012 / len(shape), sides=sides, **options), wrt=[*stated], precision="f64")
    start = {name: 1 + 0.2 * random.random(shape) for name in ("rho", "p")}
    start |= {name: 0.1 * random.normal(size=shape) for name in ("v", "u")[-len(shape) :]}
    weights = {name: random.normal(size=shape) for name in start}
    values = {name: value * (1 + 0.02 * random.random(gas.input_shape(name, steps))) for name, value in stated.items()}
    ways = {name: random.normal(size=value.shape) for name, value in values.items()}

    def loss(solution: Any) -> Any:
        return sum((solution.final[name] * weight).sum() for name, weight in weights.items())

    def moved(name: str, step: float) -> float:
        return float(loss(gas.run(start | values | {name: values[name] + step * ways[name]}, steps)))

    _, gradient = gas.value_and_grad(loss, start | values, steps)
    for name, way in ways.items():  # each input by itself, so that none hides behind another
        slope = (gradient[name] * way).sum()
        near = [abs((moved(name, h) - moved(name, -h)) / (2 * h) / slope - 1) for h in (1e-5, 1e-6)]
        assert slope and min(near) < 1e-7, (name, near)


@pytest.mark.slow
def test_the_gradient_of_a_flow_from_a_reservoir_is_certified() -> None:
    gas = simulated(("reservoir", "outflow"), 0.01, 20, ("rho_low_x", "p_low_x", "p_high_x", "p"))
    start: dict[str, Any] = {"rho": np.ones(20), "p": np.ones(20), "u": np.full(20, 0.2), "rho_low_x": 1.2, "p_low_x": 1.3, "p_high_x": 0.9}
    report = ds.certify(gas, lambda solution: (solution.final["rho"] * solution.final["u"]).mean(), start, 40)
    assert report.passed, report


@pytest.mark.slow
def test_the_axes_are_alike_and_a_plane_flow_is_that_of_a_line() -> None:
    shape, random = (7, 9), np.random.default_rng(5)
    start = {name: 1 + 0.2 * random.random(shape) for name in ("rho", "p")} | {name: 0.1 * random.normal(size=shape) for name in "uv"}
    across = {"u": "v", "v": "u"}
    sides: Any = (("reservoir", "freestream"), ("inflow", "outflow"))
    spots = {"low_y": ("rho", "p"), "high_y": ("rho", "v", "u", "p"), "low_x": ("rho", "u", "v"), "high_x": ("p",)}
    stated = {f"{name}_{side}": ALL[name] * (1 + 0.1 * random.random(9 if side[-1] == "y" else 7)) for side, names in spots.items()
             for name in names}  # fmt: skip
    turned = {across.get(name, name): value.T for name, value in start.items()}
    for name, value in stated.items():
        state, end, axis = name.split("_")
        turned[f"{across.get(state, state)}_{end}_{'x' if axis == 'y' else 'y'}"] = value
    one = ds.Simulation(Euler(ds.Grid(shape, (0.1, 0.2)), 0.008, sides=sides, gravity=(-1.0, 0.5)), wrt=[]).run(start | stated, 8).final
    equation = Euler(ds.Grid(shape[::-1], (0.2, 0.1)), 0.008, sides=sides[::-1], gravity=(0.5, -1.0))
    other = ds.Simulation(equation, wrt=[]).run(turned, 8).final
    assert all(np.allclose(one[name], other[across.get(name, name)].T, rtol=0, atol=1e-13) for name in start)


def test_wrong_sides_are_refused() -> None:
    grid = ds.Grid((8,), 0.1)
    for options, words in (
        ({"gravity": (1.0, 2.0)}, "expected a number for each of 1 axes"),
        ({"gravity": (1.0,), "scheme": "weno5", "method": "rk3"}, 'expected "muscl"'),
        ({"series": ("p_low_x",), "sides": (("wall", "outflow"),)}, "p_high_x"),
        ({"series": ("p_low_x",)}, "no side has an input"),
        ({"sides": (("periodic", "inflow"),)}, "expected periodic for both sides"),
    ):
        with pytest.raises(ParameterError, match=words):
            Euler(grid, 0.01, **options)
    rest = {"rho": np.ones(8), "p": np.ones(8)}
    flow = simulated((("inflow", "outflow")), 0.01, 8, series=("p_high_x",))
    good = rest | {"rho_low_x": 1.0, "u_low_x": 0.2, "p_high_x": np.ones(2)}
    for change, error, words in (
        ({"rho_low_x": -1.0}, ParameterError, "rho_low_x has a value of -1"),
        ({"p_high_x": np.array([1.0, 0.0])}, ParameterError, "p_high_x has a value of 0 Pa"),
        ({"p_high_x": 1.0}, ShapeError, "input p_high_x"),
        ({"u_low_x": -0.2}, ParameterError, "u_low_x flows out of the grid at 0.2 m/s"),
        ({"u_low_x": 1.3}, ParameterError, "faster than sound.*take 'freestream'"),
    ):
        with pytest.raises(error, match=words):
            flow.run(good | change, 2)
    with pytest.raises(ParameterError, match="input u_low_x is missing"):
        flow.run({name: value for name, value in good.items() if name != "u_low_x"}, 2)
    fast = simulated(("freestream", "open"), 0.02, 8)
    with pytest.raises(StabilityError, match="waves of 21"):
        fast.run(rest | {"rho_low_x": 1.0, "u_low_x": 20.0, "p_low_x": 1.0}, 2)
    late = simulated(("freestream", "open"), 0.02, 8, series=("u_low_x",))
    with pytest.raises(StabilityError, match=r"waves of 21\.18 m/s at sides"):
        late.run(rest | {"rho_low_x": 1.0, "u_low_x": np.array([0.2, 20.0]), "p_low_x": 1.0}, 2)


@pytest.mark.parametrize("series", [("p_high_y",), ("rho_high_y", "p_high_y", "v_high_y")])
def test_series_are_compared_with_the_time_step_cell_by_cell(series: tuple[str, ...]) -> None:
    """Hot gas is as thin in one step and cell as dense in another: the largest pressure over the least density occurs nowhere."""
    duct = Euler(ds.Grid((4, 3), 0.1), 0.02, sides=(("wall", "freestream"), "periodic"), method="euler", series=series)
    gas, thin = ds.Simulation(duct, wrt=[], precision="f64"), np.array([0.1, 1.0, 10.0])
    stated = {"rho_high_y": thin, "p_high_y": thin, "u_high_y": np.zeros(3), "v_high_y": np.zeros(3)}
    inputs = {"rho": np.ones((4, 3)), "p": np.ones((4, 3))} | {name: np.array([one] * 2) if name in series else one
                                                          for name, one in stated.items()}  # fmt: skip
    gas._compiled.checked(inputs, 2)
    inputs["p_high_y"][1, 1] = 9.0
    with pytest.raises(StabilityError, match=r"waves of 3\.55 m/s at sides, dx = 0\.1 m, 2 axes"):
        gas._compiled.checked(inputs, 2)


@pytest.mark.parametrize("side", ["low_x", "high_x", "low_y", "high_y"])
@pytest.mark.parametrize("series", [("rho", "u", "v"), ("u", "v"), ("u",), ("v",), ("rho",)], ids="-".join)
@pytest.mark.parametrize("speed", [0.5, 1.6])
def test_an_inflow_by_series_is_refused_as_a_constant_one(side: str, series: tuple[str, ...], speed: float) -> None:
    """A flow too fast for the time step, and one faster than sound: the first step of a series meets the gas at the start."""
    shape, axis, high = (4, 3), "yx".index(side[-1]), side.startswith("high")
    sides: list[Any] = ["periodic", "periodic"]
    sides[axis] = ("outflow", "inflow") if high else ("inflow", "outflow")
    across = "vu"[axis]
    stated: dict[str, Any] = {f"{name}_{side}": np.full(shape[1 - axis], 1.0 if name == "rho" else 0.0) for name in ("rho", "u", "v")}
    stated[f"{across}_{side}"][1] = -speed if high else speed
    stated[f"p_{'low' if high else 'high'}_{side[-1]}"] = np.ones(shape[1 - axis])
    start = {"rho": np.ones(shape), "p": np.ones(shape), "u": np.zeros(shape), "v": np.zeros(shape)}
    timed = [f"{name}_{side}" for name in series]

    def refusal(check: Any) -> tuple[type[Exception], str]:
        with pytest.raises((ParameterError, StabilityError)) as caught:
            check()
        return caught.type, str(caught.value).replace(" at sides", "")

    def duct(names: list[str]) -> Euler:
        return Euler(ds.Grid(shape, 0.1), 0.019, sides=tuple(sides), method="euler", series=tuple(names))

    constant = {name: np.broadcast_to(np.expand_dims(value, axis), shape) for name, value in stated.items()}
    expected = refusal(lambda: duct([]).check_start(constant, start))
    assert expected[0] is (ParameterError if speed > 1.2 else StabilityError)
    equation, rest = duct(timed), {name: value for name, value in constant.items() if name not in timed}

    def run() -> None:  # as a simulation does
        equation.check_series(rest | start, {name: np.array([stated[name], 0.5 * stated[name]]) for name in timed})
        equation.check_start(rest, start)

    assert refusal(run) == expected


def test_a_relaxed_outflow_lets_waves_leave_and_holds_the_mean_pressure() -> None:
    """The pulse that comes back is the integral of a short one over the length of relaxation, by dA/dt = -(c - u) / L (A + what leaves)."""
    cells, width, length, u = 200, 0.05, 1.0, 0.2
    grid = ds.Grid((cells,), 1 / cells)
    pulse = 1 + 1e-4 * np.exp(-(((grid.coordinates(0) - 0.5) / width) ** 2))
    sound = np.sqrt(1.4 * pulse ** (1 - 1 / 1.4))
    start = {"rho": pulse ** (1 / 1.4), "p": pulse, "u": u + 5 * (sound - np.sqrt(1.4)), "p_high_x": 1.0}
    tube = ds.Simulation(
        Euler(grid, 0.23 / cells, sides=(("open", "outflow"),), negligible=0.1, relaxation=length), wrt=[], precision="f64"
    )
    final = tube.run(start, 650).final
    c, back = np.sqrt(1.4), np.abs(final["p"] - 1 - np.sqrt(1.4) * (final["u"] - u)).max() / 2e-4
    assert back == pytest.approx((c - u) / (c + u) * np.sqrt(np.pi) * width / length, rel=0.08)
    held = tube.run({"rho": np.ones(cells), "p": np.full(cells, 1.0), "p_high_x": 1.01}, 8 * cells).final["p"]
    assert held[-1] == pytest.approx(1.01 - 0.01 * np.exp(-c * 8 * 0.23 / length), abs=1e-4)


def test_a_relaxation_is_compared_with_cells_across_outflows_alone() -> None:
    grid, along_x = ds.Grid((10, 10), (0.5, 0.1)), ("wall", ("open", "outflow"))
    Euler(grid, 0.01, sides=along_x, relaxation=0.2)
    with pytest.raises(ParameterError, match=r"relaxation = 0\.2 m, expected a cell or more, 0\.5 m"):
        Euler(grid, 0.01, sides=along_x[::-1], relaxation=0.2)


@pytest.mark.parametrize(
    ("length", "sides", "expected"), [(0.01, "outflow", "a cell or more, 0.1 m"), (1.0, "open", "a side that is an 'outflow'")]
)
def test_a_relaxation_that_does_nothing_is_refused(length: float, sides: Any, expected: str) -> None:
    with pytest.raises(ParameterError, match=f"relaxation = .* expected {expected}"):
        Euler(ds.Grid((10,), 0.1), 0.01, sides=sides, relaxation=length)
