"""Options of an incompressible flow: scalars and buoyancy, viscosity that varies, outflows, velocities on sides and series of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import DivergenceError, ParameterError, StabilityError
from diffsim.solvers import NavierStokes, navier_stokes
from tests.solvers.test_navier_stokes import TAU, box, run

Fields = dict[str, Any]


def drifting(n: int, order: Any) -> float:
    """The error of a scalar between vortices of Taylor and Green that drift, s = 1 + ψ exp(-2 κ t), after 0.5 s."""
    grid, end, (along, up), nu, kappa = ds.Grid((n, n), TAU / n), 0.5, (0.7, -0.4), 0.02, 0.05
    centre, face = grid.coordinates(0), grid.coordinates(0, 1)

    def u(y: np.ndarray, x: np.ndarray, t: float) -> np.ndarray:
        return along + np.cos(y - up * t)[:, None] * np.sin(x - along * t) * np.exp(-2 * nu * t)

    def v(y: np.ndarray, x: np.ndarray, t: float) -> np.ndarray:
        return up - np.sin(y - up * t)[:, None] * np.cos(x - along * t) * np.exp(-2 * nu * t)

    def s(t: float) -> np.ndarray:
        return 1 + np.sin(centre - up * t)[:, None] * np.sin(centre - along * t) * np.exp(-2 * kappa * t)

    start = {"nu": nu, "kappa_s": kappa, "u": u(centre, face, 0.0), "v": v(face, centre, 0.0), "s": s(0.0)}
    final = run(NavierStokes(grid, 0.01, order=order, method="rk4", scalars=("s",)), start, round(end / 0.01))
    assert np.abs(final["u"] - u(centre, face, end)).max() < 0.02
    assert final["s"].sum() == pytest.approx(start["s"].sum(), rel=1e-12)
    return float(np.abs(final["s"] - s(end)).max())


@pytest.mark.slow
@pytest.mark.parametrize(("order", "n"), [(2, 12), (4, 24), (6, 12)])
def test_a_scalar_in_vortices_is_of_the_order_of_the_differences(order: Any, n: int) -> None:
    """With order 4 the drift is of sixth order, and its error is the larger one on coarse grids."""
    assert np.log2(drifting(n, order) / drifting(2 * n, order)) == pytest.approx(order, abs=0.2)


def test_heat_stays_between_walls_and_only_its_share_with_weight_moves_the_fluid() -> None:
    """Sums to round-off; a layer of warm fluid above cold fluid rests; without viscosity and diffusion the square of a scalar stays too."""
    grid = ds.Grid((10, 14), 0.1)
    rng = np.random.default_rng(4)
    heated = NavierStokes(grid, 5e-3, ("no_slip", ("slip", "no_slip")), scalars=("T", "c"), gravity=(-9.81, 2.0))
    flow = ds.Simulation(heated, wrt=[], precision="f64")
    start: Fields = {
        "nu": 0.0,
        "kappa_T": 0.0,
        "kappa_c": 0.0,
        "beta_T": 0.5,
        "beta_c": 0.0,
        "T": rng.random((10, 14)),
        "c": rng.random((10, 14)),
    }
    final = flow.run(start, 100).final
    for name in "Tc":
        assert final[name].sum() == pytest.approx(start[name].sum(), rel=1e-12)
        assert (final[name] ** 2).sum() == pytest.approx((start[name] ** 2).sum(), rel=1e-5)
        assert np.abs(final[name] - start[name]).max() > 0.2, name
    early = flow.run(start, 5).final  # what is warm moves against gravity
    assert 9.81 * (early["T"] * early["v"]).sum() - 2.0 * (early["T"] * early["u"]).sum() > 0.01
    y, x = np.meshgrid(grid.coordinates(0), grid.coordinates(1), indexing="ij")
    rest = flow.run(start | {"T": 9.81 * y - 2.0 * x}, 50).final  # it varies along gravity alone: its weight is a gradient
    assert max(np.abs(rest[name]).max() for name in "uv") < 1e-13


def convection(n: int, rayleigh: float, end: float = 0.4) -> tuple[float, float, float]:
    """The differentially heated square: mean Nusselt number, largest u on x = 1/2 and largest v on y = 1/2."""
    h, prandtl, fastest = 1 / n, 0.71, {1e3: 4.0, 1e4: 20.0}[rayleigh]
    dt = min(0.9 * 2.51 * h * h / 8, 0.6 * h / fastest)
    walls = (ds.Neumann(0.0), (ds.Dirichlet("hot"), ds.Dirichlet("cold")))
    square = NavierStokes(ds.Grid((n, n), h), dt, "no_slip", scalars={"T": walls}, gravity=(-1.0, 0.0))
    start = {"nu": prandtl, "kappa_T": 1.0, "beta_T": rayleigh * prandtl, "hot": np.full(n, 0.5), "cold": np.full(n, -0.5)}
    x = (np.arange(n) + 0.5) / n
    final = run(square, start | {"T": np.tile(0.5 - x, (n, 1))}, round(end / dt))
    T, u, v = final["T"], final["u"], final["v"]
    fluxes = u[:, :-1] * (T[:, 1:] + T[:, :-1]) / 2 - np.diff(T, axis=1) / h
    ends = 2 / h * (0.5 - T[:, 0]).mean(), 2 / h * (T[:, -1] + 0.5).mean()
    assert np.ptp([*fluxes.mean(axis=0), *ends]) < 1e-5  # steady: as much heat through each column

    def highest(line: np.ndarray) -> float:  # by the parabola through three values
        i = int(line.argmax())
        below, at, above = line[i - 1 : i + 2]
        return float(at - (above - below) ** 2 / (8 * (above - 2 * at + below)))

    return float(fluxes.mean()), highest(u[:, n // 2 - 1]), highest(v[n // 2 - 1])


@pytest.mark.slow
def test_convection_in_a_square_is_that_of_de_vahl_davis() -> None:
    """De Vahl Davis (1983), Int. J. Numer. Methods Fluids 3, 249-264, doi:10.1002/fld.1650030305, extrapolated over the size of cells."""
    for rayleigh, published in ((1e3, (1.118, 3.649, 3.697)), (1e4, (2.243, 16.178, 19.617))):
        coarse, fine = (np.array(convection(n, rayleigh)) for n in (20, 40))
        np.testing.assert_allclose(fine, published, rtol=8e-3)
        np.testing.assert_allclose((4 * fine - coarse) / 3, published, rtol=3e-3)


def test_layers_of_two_viscosities_slide_exactly() -> None:
    """The shear stress is the same in both layers. The layers lie across y, where they meet on a face."""
    n, low, high = 12, 0.2, 1.0
    grid = ds.Grid((n, 4), (1 / n, 0.25), origin=(0.5 / n, 0.125))
    y = grid.coordinates(0)
    layers = NavierStokes(grid, 1.5e-3, (("no_slip", "moving"), "periodic"), viscosity="field")
    nu = np.where(y < 1 / 3, low, high)[:, None] * np.ones(4)
    final = run(layers, {"nu": nu, "u_high_y": 1.0}, 3000)
    stress = 1 / (1 / (3 * low) + 2 / (3 * high))
    exact = np.where(y < 1 / 3, stress * y / low, 1 - stress * (1 - y) / high)
    np.testing.assert_allclose(final["u"], np.repeat(exact[:, None], 4, 1), atol=1e-9)
    assert not final["v"].any()


def eddies(u: np.ndarray, v: np.ndarray, nu: float, constant: float, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Friction by Smagorinsky's viscosity in a periodic box, by shifts of whole arrays. Axes are (y, x)."""

    def up(f: np.ndarray, axis: int) -> np.ndarray:
        return np.roll(f, -1, axis)

    def down(f: np.ndarray, axis: int) -> np.ndarray:
        return np.roll(f, 1, axis)

    u_x, v_y = (u - down(u, 1)) / h, (v - down(v, 0)) / h
    shear = (up(u, 0) - u) / h + (up(v, 1) - v) / h  # on the upper corners of cells
    square = shear**2
    around = 0.25 * (square + down(square, 0) + down(square, 1) + down(down(square, 0), 1))
    total = nu + (constant * h) ** 2 * np.sqrt(2 * u_x**2 + 2 * v_y**2 + around)
    corner = 0.25 * (total + up(total, 0) + up(total, 1) + up(up(total, 0), 1)) * shear
    return (
        (up(2 * total * u_x, 1) - 2 * total * u_x + corner - down(corner, 0)) / h,
        (up(2 * total * v_y, 0) - 2 * total * v_y + corner - down(corner, 1)) / h,
    )


def test_eddies_have_the_viscosity_of_smagorinsky() -> None:
    """Energy falls by what friction takes: the change of a short step, in which flow and pressure only move energy about."""
    grid, nu, constant, dt = box(12), 0.01, 0.2, 1e-6
    stream = np.random.default_rng(7).normal(size=(12, 12))
    h = grid.spacing[0]
    u, v = (stream - np.roll(stream, 1, 0)) / h, -(stream - np.roll(stream, 1, 1)) / h  # without divergence
    weights = np.random.default_rng(8).normal(size=(12, 12))
    test_u, test_v = (weights - np.roll(weights, 1, 0)) / h, -(weights - np.roll(weights, 1, 1)) / h
    mixed, plain = (
        run(NavierStokes(grid, dt, method="rk2", viscosity=kind), {"nu": nu if kind == "smagorinsky" else 0.0, "u": u, "v": v} | more, 1)
        for kind, more in (("smagorinsky", {"C_s": constant}), ("constant", {}))
    )
    friction = eddies(u, v, nu, constant, h)
    for a, b in ((u, v), (test_u, test_v)):  # fields without divergence do not see the pressure
        measured = ((mixed["u"] - plain["u"]) * a + (mixed["v"] - plain["v"]) * b).sum() / dt
        assert measured == pytest.approx((friction[0] * a + friction[1] * b).sum(), rel=1e-4)


def kovasznay(n: int) -> float:
    """The error behind a grid of wires at Re = 40, with all velocities given where fluid enters and leaves."""
    reynolds = 40.0
    decay = reynolds / 2 - np.sqrt(reynolds**2 / 4 + TAU**2)
    grid = ds.Grid((n, 3 * n // 2), 1 / n, origin=(0.5 / n, -0.5 + 0.5 / n))
    (yc, xc), (yf, xf) = ((grid.coordinates(0, place), grid.coordinates(1, place)) for place in (0, 1))

    def u(x: Any) -> np.ndarray:
        return np.asarray(1 - np.exp(decay * x) * np.cos(TAU * yc)[:, None])

    def v(x: Any) -> np.ndarray:
        return np.asarray(decay / TAU * np.exp(decay * x) * np.sin(TAU * yf)[:, None])

    inputs = {f"u_{side}_x": u(x)[:, 0] for side, x in (("low", -0.5), ("high", 1.0))}
    inputs |= {f"v_{side}_x": v(x)[:, 0] for side, x in (("low", -0.5), ("high", 1.0))}
    flow = NavierStokes(grid, 0.25 / n, ("periodic", ("velocity", "velocity")))
    final = run(flow, inputs | {"nu": 1 / reynolds, "u": np.ones(grid.shape)}, 16 * n)
    return float(np.sqrt(((final["u"] - u(xf)) ** 2).mean() + ((final["v"] - v(xc)) ** 2).mean()))


def test_the_flow_of_kovasznay_is_of_second_order() -> None:
    coarse, fine = kovasznay(12), kovasznay(24)
    assert np.log2(coarse / fine) == pytest.approx(2.0, abs=0.2) and fine < 4e-3


def test_energy_leaves_through_an_outflow_and_none_comes_in() -> None:
    """Without viscosity it changes by ½ max(uₙ, 0) |v|² through both ends of a channel, and by nothing else, cell by cell."""
    grid, dt = ds.Grid((8, 12), (0.25, 0.2)), 1e-6
    rng = np.random.default_rng(1)
    flow = ds.Simulation(NavierStokes(grid, dt, ("slip", ("outflow", "outflow"))), wrt=[], precision="f64")
    start = flow.run({"nu": 0.0} | {name: rng.normal(size=grid.shape) for name in ("u", "v", "u_low")}, 1).final
    final = flow.run({"nu": 0.0} | {name: start[name] for name in ("u", "v", "u_low")}, 1).final

    def energy(at: Mapping[str, Any]) -> float:  # a face on a free side has half a cell
        u = np.concatenate([at["u_low"][:, :1], at["u"]], axis=1) ** 2
        return 0.5 * float(u.sum() - 0.5 * (u[:, 0] + u[:, -1]).sum() + (at["v"] ** 2).sum()) * 0.25 * 0.2

    leaving = 0.0
    for outward, v in ((-start["u_low"][:, 0], start["v"][:, 0]), (start["u"][:, -1], start["v"][:, -1])):
        out = np.maximum(outward, 0.0)
        assert 0 < (out > 0).sum() < 8
        leaving += 0.5 * 0.25 * float((out * outward**2).sum() + (0.5 * (out[1:] + out[:-1]) * v[:-1] ** 2).sum())
    assert (energy(start) - energy(final)) / dt == pytest.approx(leaving, rel=1e-5)


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "scalars": (
        (("no_slip", "moving"), ("inflow", "outflow")),
        {"scalars": ("T", "c"), "gravity": (-1.0, 0.3), "series": ("inflow", "T_low_x")},
    ),
    "layers": ((("slip", "no_slip"), ("outflow", "velocity")), {"viscosity": "field"}),
    "eddies": (
        (("outflow", "no_slip"), "periodic"),
        {"viscosity": "smagorinsky", "scalars": {"s": (("mirror", ds.Dirichlet("top")), "periodic")}},
    ),
    "implicit": (
        (("no_slip", "moving"), ("inflow", "outflow")),
        {"method": "imex2", "scalars": ("T",), "gravity": (-1.0, 0.3), "series": ("u_high_y",)},
    ),
    "space": (("slip", "periodic", ("inflow", "outflow")), {"scalars": ("T",), "gravity": (-1.0, 0.0, 0.0)}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_certified(case: str) -> None:
    """For all inputs, and a loss of all states but the pressure, of which only implicit steps read the value before."""
    sides, options = CASES[case]
    equation = NavierStokes(ds.Grid((8, 11) if len(sides) == 2 else (5, 6, 7), 0.5), 0.05, sides, **({"method": "rk2"} | options))
    names = [name for name in (*equation.parameters, *equation.series, *equation.states) if name != "p" or equation.implicit]
    flow, rng, steps = ds.Simulation(equation, wrt=names, precision="f64"), np.random.default_rng(3), 6
    inputs = {name: rng.uniform(0.3, 0.6, flow.input_shape(name, steps)) for name in flow.inputs}
    inputs |= {name: 0.1 * inputs[name] for name in inputs if name.startswith(("nu", "kappa"))}
    if case == "scalars":  # as much leaves as flows in at last
        assert flow.run(inputs, steps).final["u"][:, -1].sum() == pytest.approx(inputs["inflow"][-1].sum(), rel=1e-12)
    ends = [name for name in equation.states if name != "p"]
    report = ds.certify(flow, lambda found: sum((found.final[name] ** 2).sum() for name in ends), inputs, steps, directions=1)
    assert report.passed, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rk3", "rk4"])
def test_waves_grow_in_an_inlet_that_is_beyond_its_limit(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of the message is where they begin to: at 0.9 of it a wave decays, at 1.15 of it it grows."""
    grid, nu = ds.Grid((4, 60), 0.1), 0.002
    start = {"nu": nu, "inflow": np.ones(4), "u": np.ones(grid.shape)}
    wave = np.cos(0.5 * np.pi * np.arange(60)) * np.sin(np.pi * np.arange(4) / 4 + np.pi / 8)[:, None]
    with pytest.raises(StabilityError, match=r"the stable .* for inflow of 1 m/s, nu = 0.002 m²/s, dx = 0.1 m; lower dt") as raised:
        ds.Simulation(NavierStokes(grid, 1.0, ("slip", ("inflow", "outflow")), method=method), wrt=[]).run(start, 1)
    limit = raised.value.limit
    assert limit is not None
    monkeypatch.setattr(navier_stokes, "check_flow", lambda *_: None)
    for share, grows in ((0.9, False), (1.15, True)):
        flow = NavierStokes(grid, share * limit, ("slip", ("inflow", "outflow")), method=method)
        early, late = (float(np.abs(run(flow, start | {"v": 1e-6 * wave}, steps)["v"]).max()) for steps in (4, 12))
        assert (late > early) == grows and (late < 0.5 * early) != grows, (share, early, late)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scalars": ("u",)}, "scalars name 'u', expected names other than u; rename it"),
        ({"scalars": ("two words",)}, "scalars name 'two words', expected names of letters"),
        ({"scalars": "smoke"}, "scalars = 'smoke', expected"),
        ({"scalars": {"T": "mirror"}}, "scalar T and sides along y = .* expected both periodic there, or none"),
        ({"scalars": {"T": ds.Dirichlet("hot")}, "sides": "slip"}, "hot of scalar T is the value of sides of two axes"),
        ({"gravity": (1.0,), "scalars": ("T",)}, "gravity = .* expected a number for each of 2 axes"),
        ({"gravity": -9.81, "scalars": ("T",)}, "gravity = -9.81 and 1 scalars, expected a number for each of 2 axes"),
        ({"gravity": (1.0, 0.0)}, "0 scalars, expected a number for each of 2 axes, and a scalar"),
        ({"viscosity": "field", "order": 4}, "viscosity = 'field' with order = 4, expected order 2 and uniform cells"),
        ({"viscosity": "les"}, "viscosity = 'les' is unknown; choose one of constant, field, smagorinsky"),
        ({"series": ("inflow",)}, "series names inflow and no side has an input"),
        ({"bodies": "fixed", "viscosity": "field"}, "bodies = 'fixed' with viscosity = 'field', expected a constant viscosity"),
        ({"bodies": "fixed", "scalars": ("T", "heat_T")}, "scalars name 'heat_T', expected names other than heat_T; rename it"),
        *(
            ({"bodies": "fixed", "scalars": (name,)}, f"scalars name '{name}', expected names other than {name}; rename it")
            for name in ("force_x", "force_y", "phi", "v_wall", "u_film", "centre_grip", "v_beside_low_0")
        ),
    ],
)
def test_wrong_arguments_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        NavierStokes(**({"grid": box(6), "dt": 0.1} | options))


def test_steps_beyond_the_limit_of_a_diffusivity_are_refused() -> None:
    flow = ds.Simulation(NavierStokes(box(8), 0.5, scalars=("T",)), wrt=[], precision="f64")
    with pytest.raises(StabilityError, match=r"exceeds the stable 0.1935 s for kappa_T = 1 m²/s"):
        flow.run({"nu": 0.0, "kappa_T": 1.0}, 1)
    with pytest.raises(ParameterError, match="kappa_T has a value of -1"):
        flow.run({"nu": 0.0, "kappa_T": -1.0}, 1)


@pytest.mark.parametrize(
    ("sides", "name", "series"),
    [
        (("slip", ("velocity", "outflow")), "v_low_x", ()),
        (("no_slip", ("inflow", "outflow")), "inflow", ("inflow",)),
        (("slip", ("velocity", "outflow")), "v_low_x", ("v_low_x",)),
    ],
)
def test_a_side_that_is_too_fast_for_the_time_step_is_refused_at_the_start(sides: Any, name: str, series: tuple[str, ...]) -> None:
    flow = ds.Simulation(NavierStokes(ds.Grid((8, 8), 0.1), 0.1, sides, series=series), wrt=[])
    inputs = {each: np.zeros(flow.input_shape(each, 3)) for each in flow.inputs if each not in flow.equation.states} | {"nu": 1e-3}
    inputs[name] = inputs[name] + 0.5  # half a cell a step
    flow._compiled.checked(inputs, 3)
    late = np.array(inputs[name])
    late[-1 if series else ...] = 5.0
    with pytest.raises(StabilityError, match=f"for {name} of 5 m/s, nu = 0.001 m²/s, dx = 0.1 m; lower dt"):
        flow.run(inputs | {name: late}, 3)


def test_a_lid_may_move_faster_than_a_flow_through_the_grid() -> None:
    """It brings no fluid in, so it is no uniform flow: a cavity whose lid moves 2.6 cells a step is stable."""
    flow = ds.Simulation(NavierStokes(ds.Grid((16, 16), 1 / 16), 2.6 / 16, (("no_slip", "moving"), "no_slip"), method="rk3"), wrt=[])
    final = flow.run({"nu": 1e-3, "u_high_y": np.ones(flow.input_shape("u_high_y", 1))}, 100).final
    assert 0.3 < final["u"].max() < 0.6 and final["u"].min() > -0.3


def test_series_that_no_side_has_are_refused_by_name() -> None:
    with pytest.raises(ParameterError, match="series names u_wall and no side has an input"):
        NavierStokes(ds.Grid((8, 8), 0.1), 0.1, "no_slip", series=("u_wall",))


def test_a_flow_that_became_too_fast_says_for_which_speed_dt_is_stable() -> None:
    """A force drives it to many cells a step."""
    driven = ds.Simulation(NavierStokes(box(8), 0.1, forced=True, order=4), wrt=[], precision="f64")
    rng = np.random.default_rng(0)
    push = {name: 1e3 * rng.normal(size=(8, 8)) for name in ("fx", "fy")}
    with pytest.raises(DivergenceError, match=r"dt = 0.1 s is stable while Σ \|v\|/dx <= 14.83 1/s, along one axis .* lower dt$"):
        driven.run({"nu": 0.0} | push, 300)


def test_advice_for_a_flow_that_became_too_fast_fits_the_method() -> None:
    """That of "rk3" is for "rk2", which needs viscosity; "imex2" is there for long steps, which "rk3" does not allow."""
    messages = {method: NavierStokes(ds.Grid((6, 7), 1.0), 0.1, method=method).unstable for method in ("rk2", "rk3", "rk4", "imex2")}
    assert 'or take "rk3", which needs no viscosity' in messages["rk2"]
    assert all("rk3" not in messages[method] and "lower dt" in messages[method] for method in ("rk3", "rk4", "imex2"))


@pytest.mark.parametrize("method", ["rk2", "rk3"])
def test_open_sides_that_vortices_may_not_pass_are_named_where_a_flow_diverged(method: Any) -> None:
    flow = NavierStokes(box(8), 0.1, ("slip", ("inflow", "open")), method=method)
    assert flow.unstable.endswith(""", or take "outflow", which vortices may pass, for the "open" side 'high_x'""")
    assert "outflow" not in NavierStokes(box(8), 0.1, ("slip", ("inflow", "outflow")), method=method).unstable


def test_names_that_walls_take_are_those_that_a_flow_with_bodies_declares() -> None:
    """A field more of the walls, and a scalar could be named like it."""
    flow = NavierStokes(box(6), 0.1, bodies="moving")
    plain = NavierStokes(box(6), 0.1)
    assert {*flow.states, *flow.parameters} - {*plain.states, *plain.parameters} <= flow._names_of_bodies()
    scalar = NavierStokes(box(6), 0.1, bodies="fixed", scalars=("T",), gravity=(-1.0, 0.5))
    fields = ds.Simulation(scalar, wrt=[])._compiled.coefficients.traced.outputs
    assert {name for name in fields if name not in scalar.parameters} <= scalar._names_of_bodies()


@pytest.mark.parametrize("way", ["sharp", "penalised"])
def test_names_that_bodies_take_are_free_without_them(way: Any) -> None:
    taken = NavierStokes(box(8), 0.1, bodies="fixed", bodies_method=way)._names_of_bodies()
    assert {"phi", "force_x", "u_wall"} <= taken
    assert taken <= {*NavierStokes(box(8), 0.1, scalars=tuple(sorted(taken))).states}
