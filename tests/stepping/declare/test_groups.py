"""Vectors and symmetric tensors: their fields, and steps written with them against those written by hand."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import DiffsimError, ParameterError, ShapeError, TraceError
from diffsim.expr import Components, curl, diagonal, diff, div, grad, interpolate, interpolate_to, laplacian, strain
from tests.sampled import sampled

GRID = ds.Grid((9, 11), spacing=(2.0, 3.0))
EVEN = {"rho": ds.Variable("mirror"), "lam": ds.Variable("mirror"), "mu": ds.Variable("mirror")}


class Grouped(ds.Equation):
    """Elastic waves by Virieux (1986), with forces and moments."""

    def __init__(self, grid: ds.Grid, dt: float, axes: str) -> None:
        self.grid, self.dt = grid, dt
        v, tau = ds.Vector(axes, unit="m/s"), ds.SymmetricTensor(axes, "periodic", unit="Pa")
        self.states, self.parameters, self.forcings = {"v": v, "tau": tau}, EVEN, {"f": v, "m": tau}

    def step(self, v: Any, tau: Any, rho: Any, lam: Any, mu: Any, f: Any, m: Any) -> dict[str, Any]:
        v = ds.stage(v + self.dt / interpolate_to(rho, v) * div(tau), boundary=v)
        rate = diagonal(lam * div(v)) + 2 * interpolate_to(mu, tau) * strain(v)
        return {"v": v + self.dt * f, "tau": tau + self.dt * (rate - m)}


class ByHand(ds.Equation):
    """The same in two dimensions, with each component by its name."""

    forcings = ("fz", "fx", "mzz", "mxz", "mxx")

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt, self.parameters = grid, dt, EVEN
        self.states = {"vz": ds.Variable("zero", (1, 0)), "vx": ds.Variable("zero", (0, 1)), "tau_zz": ds.Variable("periodic")}
        self.states |= {"tau_xz": ds.Variable("periodic", (1, 1)), "tau_xx": ds.Variable("periodic")}

    def step(self, vz: Any, vx: Any, tau_zz: Any, tau_xz: Any, tau_xx: Any, rho: Any, lam: Any, mu: Any, **f: Any) -> dict[str, Any]:
        vz = ds.stage(vz + self.dt / interpolate(rho, 0) * (diff(tau_zz, 0) + diff(tau_xz, 1)), boundary=vz)
        vx = ds.stage(vx + self.dt / interpolate(rho, 1) * (diff(tau_xz, 0) + diff(tau_xx, 1)), boundary=vx)
        grown = lam * (diff(vz, 0) + diff(vx, 1))
        shear = 2 * interpolate(interpolate(mu, 0), 1) * (0.5 * (diff(vz, 1) + diff(vx, 0)))
        return {
            "vz": vz + self.dt * f["fz"],
            "vx": vx + self.dt * f["fx"],
            "tau_zz": tau_zz + self.dt * (grown + 2 * mu * diff(vz, 0) - f["mzz"]),
            "tau_xz": tau_xz + self.dt * (shear - f["mxz"]),
            "tau_xx": tau_xx + self.dt * (grown + 2 * mu * diff(vx, 1) - f["mxx"]),
        }


def inputs(equation: ds.Equation, steps: int) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    shape = equation.grid.shape
    fields: dict[str, Any] = {name: rng.uniform(1.0, 2.0, shape) for name in equation.parameters}
    fields |= {name: rng.standard_normal(shape) for name in equation.states}
    return fields | {name: rng.standard_normal((steps, 1)) for name in equation.forcings}


def simulation(equation: ds.Equation) -> ds.Simulation:
    middle = [[float(equation.grid.coordinates(axis)[4]) for axis in range(equation.grid.ndim)]]
    points = dict.fromkeys(equation.forcings, middle)
    return ds.Simulation(equation, sources=points, receivers={"vx": middle, "tau_xz": middle}, precision="f64")


def loss(found: ds.Solution) -> Any:
    return sum((values**2).sum() for part in (found.final, found.traces) for _, values in sorted(part.items()))


def test_components_are_fields() -> None:
    states = Grouped(GRID, 0.1, "zx").states
    assert list(states) == ["vz", "vx", "tau_zz", "tau_xz", "tau_xx"]
    assert [one.location for one in states.values()] == [(1, 0), (0, 1), (0, 0), (1, 1), (0, 0)]
    assert [one.unit for one in states.values()] == ["m/s"] * 2 + ["Pa"] * 3
    assert [one.boundary for one in states.values()] == ["zero"] * 2 + ["periodic"] * 3
    assert Grouped(GRID, 0.1, "zx").forcings == ByHand.forcings
    solid = Grouped(ds.Grid((4, 5, 6), 1.0), 0.1, "zyx").states
    assert list(solid)[3:] == ["tau_zz", "tau_yz", "tau_xz", "tau_yy", "tau_xy", "tau_xx"]
    assert solid["tau_xz"].location == (1, 0, 1) and solid["vy"].location == (0, 1, 0)


def test_locations_boundaries_and_regions_of_each_component() -> None:
    here = np.arange(5) < 2
    edges = ds.Vector("yx", {"z": "mirror", "x": ds.Dirichlet(1.0)}, "edges", components="zx", region={"z": None, "x": here}).fields("E1")
    assert {name: one.location for name, one in edges.items()} == {"E1z": (1, 1), "E1x": (1, 0)}
    assert edges["E1z"].boundary == "mirror" and edges["E1x"].boundary == ds.Dirichlet(1.0)
    assert edges["E1z"].region is None and (edges["E1x"].region == here).all()
    centred = ds.SymmetricTensor("zx", location="centres").fields("s") | ds.Vector("zx", location="centres").fields("flow")
    assert {name: one.location for name, one in centred.items()} == dict.fromkeys(("szz", "sxz", "sxx", "flow_z", "flow_x"), (0, 0))


def test_a_step_with_groups_has_the_bits_of_one_by_hand() -> None:
    steps, runs = 5, []
    for equation in (Grouped(GRID, 0.1, "zx"), ByHand(GRID, 0.1)):
        run = simulation(equation)
        value, gradient = run.value_and_grad(loss, inputs(equation, steps), steps)
        runs.append((value, run.run(inputs(equation, steps), steps).final, gradient))
    (value, final, gradient), (by_hand, its_final, its_gradient) = runs
    assert value == by_hand and final.keys() == its_final.keys() and gradient.keys() == its_gradient.keys()
    assert all((final[name] == its_final[name]).all() for name in final)
    assert all((gradient[name] == its_gradient[name]).all() for name in gradient)


@pytest.mark.parametrize(("axes", "shape"), sampled([("zx", (9, 11)), ("zyx", (5, 6, 7))]))
def test_its_gradient_is_certified_in_two_and_three_dimensions(axes: str, shape: tuple[int, ...]) -> None:
    equation = Grouped(ds.Grid(shape, 2.0), 0.1, axes)
    assert ds.certify(simulation(equation), loss, inputs(equation, 3), steps=3, seed=1).passed


def test_curl_by_letters_is_that_of_a_tuple() -> None:
    class Curls(ds.Equation):
        def __init__(self, axes: str) -> None:
            self.grid, self.dt = ds.Grid((5, 6, 7)[: len(axes)], 1.0), 0.1
            self.states = {"E": ds.Vector(axes, location="edges", components="zyx"), "H": ds.Vector(axes, components="zyx")}

        def step(self, E: Any, H: Any) -> dict[str, Any]:
            whirl = curl(E)
            if self.grid.ndim == 3:
                assert [part.node for part in whirl] == [part.node for part in curl(tuple(E))]
            else:
                assert [whirl["y"].node, whirl["x"].node] == [part.node for part in curl(E["z"])]
                assert whirl["z"].node is curl((E["y"], E["x"])).node
            return {"E": E, "H": H - self.dt * whirl}

    for axes in ("yx", "zyx"):
        ds.Simulation(Curls(axes))


def test_groups_meet_parts_of_the_package() -> None:
    """Class attributes, coefficients, `**others`, integrators, batches, and copies in other processes."""

    class Mixed(ds.Equation):
        grid, dt = ds.Grid((8, 8), 1.0), 0.1
        states = {"u": ds.Vector("yx", "periodic"), "c": ds.Variable("periodic")}  # noqa: RUF012
        parameters = {"k": ds.Vector("yx", "periodic", "centres")}  # noqa: RUF012

        def coefficients(self, k: Any) -> dict[str, Any]:
            return {"k": k.each(lambda i: interpolate(k[i], "yx".index(i)))}

        def step(self, u: Any, **others: Any) -> dict[str, Any]:
            assert list(others) == ["c", "k"] and isinstance(others["k"], Components) and isinstance(u, Components)

            def rate(now: Any) -> Any:
                return {"u": others["k"] * u.each(lambda i: laplacian(now["u"][i])) + grad(now["c"]), "c": div(now["u"])}

            return ds.integrators.ssp_rk2(rate, {"u": u, "c": others["c"]}, self.dt)

    run = ds.Simulation(Mixed(), precision="f64")
    start = {name: np.random.default_rng(1).random((8, 8)) for name in ("uy", "ux", "c", "ky", "kx")}
    alone = run.run(start, 4).final
    both = ds.Batch(run, 2).run(start | {"c": np.stack([start["c"], 2 * start["c"]])}, 4).final
    assert all((both[name][0] == alone[name]).all() for name in alone)
    sent = pickle.loads(pickle.dumps(Grouped(GRID, 0.1, "zx")))
    assert list(sent.groups) == ["v", "tau", "f", "m"] and list(sent.states) == list(Grouped(GRID, 0.1, "zx").states)


def stepped(function: Any, **states: Any) -> ds.Simulation:
    """The simulation of an equation whose step is a function of `v`, `tau` and `p`."""

    class Stepped(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt = GRID, 0.1
            self.states = {"v": ds.Vector("zx"), "tau": ds.SymmetricTensor("zx"), "p": ds.Variable()}

        def step(self, v: Any, tau: Any, p: Any) -> dict[str, Any]:
            return {"v": v, "tau": tau, "p": p} | function(v, tau, p)

    return ds.Simulation(Stepped())


WRONG = {
    "unknown component": (lambda v, tau, p: {"p": v["y"]}, r"component 'y' of v, expected one of z, x; write it like v\[\"z\"\]"),
    "wrong axis": (lambda v, tau, p: {"p": tau[0, 2]}, r"component 0, 2 of tau, expected one of zz, xz, xx; write it like tau"),
    "mixed locations": (lambda v, tau, p: {"v": v + p}, "different places of the cell"),
    "mixed kinds": (lambda v, tau, p: {"v": v + tau}, "components z, x meets one of zz, xz, xx, expected the same; take the comp"),
    "no component": (lambda v, tau, p: {"v": p}, r"step\(\) gave a Symbol for v, expected components z, x; give all of them"),
    "other components": (lambda v, tau, p: {"v": tau}, r"step\(\) gave components zz, xz, xx for v, expected components z, x"),
    "twice": (lambda v, tau, p: {"vx": v["x"]}, r"step\(\) gave vx twice, alone and in"),
    "an operator of one field": (
        lambda v, tau, p: {"v": laplacian(v)},
        r"laplacian\(\) of a vector or a tensor, expected one.*v\['x'\]",
    ),
    "an assignment": (lambda v, tau, p: {"p": v.__setitem__("x", p)}, "an assignment to a component, expected a new group"),
    "places of another group": (
        lambda v, tau, p: {"p": interpolate_to(v, tau)["z"]},
        r"interpolate_to\(\) of components z, x the places of zz, xz, xx, expected the same; take the components",
    ),
    "places of no group": (lambda v, tau, p: {"p": interpolate_to(p, p)}, r"interpolate_to\(\) the places of a Symbol, expected a vector"),
}


class Moved(ds.Equation):
    """Velocities at centres go to faces and back, and those on faces to the place of a field."""

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 1.0
        self.states = {"v": ds.Vector("zx", "periodic"), "c": ds.Vector("zx", "periodic", location="centres"), "p": ds.Variable("periodic")}

    def step(self, v: Any, c: Any, p: Any) -> dict[str, Any]:
        energy = sum(part**2 for part in interpolate_to(v, p))
        return {"v": interpolate_to(c, v), "c": interpolate_to(v, c), "p": p + energy + interpolate_to(grad(p), p)[1]}


def test_a_vector_goes_to_the_places_of_another_and_to_that_of_a_field() -> None:
    simulation, rng = ds.Simulation(Moved(GRID), precision="f64"), np.random.default_rng(0)
    start = {name: rng.standard_normal((2, *GRID.shape)) for name in "vc"} | {"p": rng.standard_normal(GRID.shape)}
    v, c, p = (start[name] for name in "vcp")
    final = simulation.run(start, 1).final
    at_centres = np.stack([0.5 * (v[k] + np.roll(v[k], 1, k)) for k in range(2)])
    np.testing.assert_allclose(final["v"], [0.5 * (c[k] + np.roll(c[k], -1, k)) for k in range(2)], rtol=1e-14)
    np.testing.assert_allclose(final["c"], at_centres, rtol=1e-14)
    slope = (np.roll(p, -1, 1) - np.roll(p, 1, 1)) / (2 * GRID.spacing[1])
    np.testing.assert_allclose(final["p"], p + (at_centres**2).sum(axis=0) + slope, rtol=1e-12, atol=1e-14)
    assert ds.certify(simulation, lambda end: (end.final["p"] ** 2).sum() + (end.final["v"] ** 3).sum(), start, 2, seed=0).passed


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_step_is_refused(name: str) -> None:
    function, message = WRONG[name]
    with pytest.raises((ShapeError, TraceError), match=message):
        stepped(function)


@pytest.mark.parametrize(
    ("declare", "error", "message"),
    [
        (lambda: ds.Vector("zz"), ShapeError, "axes = 'zz', expected a letter for each, no two the same; write it like 'zx'"),
        (lambda: ds.Vector(2), ShapeError, "axes = 2, expected a letter for each"),
        (lambda: ds.Vector("zx", location="corners"), ParameterError, "location.*corners.*faces"),
        (lambda: ds.SymmetricTensor("zx", location="faces"), ParameterError, "location.*faces.*edges"),
        (lambda: ds.Vector("zx", {"z": "zero"}), ShapeError, "boundary of z, expected z, x; give one for each"),
        (lambda: ds.SymmetricTensor("zx", "nowhere"), ParameterError, "nowhere"),
    ],
)
def test_a_wrong_declaration_is_refused(declare: Any, error: type[DiffsimError], message: str) -> None:
    with pytest.raises(error, match=message):
        declare()


def test_a_group_that_is_put_in_later_is_refused_with_what_to_write() -> None:
    late = ByHand(GRID, 0.1)
    late.states["w"] = ds.Vector("zx")  # type: ignore[index]
    with pytest.raises(ParameterError, match=r"w of ByHand is a Vector that was put into states later.*self.states = \{..., 'w'"):
        ds.Simulation(late)
    with pytest.raises(ShapeError, match=r"location|axes|axis"):  # three letters on a grid of two axes
        ds.Simulation(Grouped(GRID, 0.1, "zyx"))
