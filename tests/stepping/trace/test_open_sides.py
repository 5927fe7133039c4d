"""Sides of an incompressible flow on the staggered grid, in all combinations: low sides as high sides, and no divergence in any cell."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import Binomial
from diffsim.errors import ParameterError, TraceError
from diffsim.expr import Components, Symbol, diff, div, grad, interpolate, laplacian
from tests.steps.test_gradient import loss

SHAPE, SPACING, STEPS = (6, 7), (0.5, 0.4), 4
SIDES = ("open", "inflow", "series", "still", "slip", "moving")
ROUND_OFF = 1e-12
NAMES = ("v_low", "v_high", "u_low", "u_high")
"""Velocities through the sides, or along them, that are inputs."""


def across(kind: str, name: str, low: str) -> Any:
    """The rule of the velocity through a side."""
    return {"open": ds.Open(low), "inflow": ds.Dirichlet(name), "series": ds.Dirichlet(name)}.get(kind, ds.Dirichlet(0.0))


def along(kind: str, speed: float) -> Any:
    """The rule of the velocity along a side."""
    return {"open": ds.Open(), "slip": ds.Neumann(0.0), "moving": ds.Dirichlet(speed)}.get(kind, ds.Dirichlet(0.0))


class Box(ds.Equation):
    """Flow in a box, v_t = -∇·(v vᵀ) + ν ∇²v - ∇p, ∇·v = 0.

    `sides`: low y, high y, low x, high x. `speeds`: of moving sides along y, and along x.
    """

    def __init__(self, sides: tuple[str, ...], speeds: tuple[float, float] = (0.7, -0.4)) -> None:
        self.grid, self.dt, self.sides, self.speeds = ds.Grid(SHAPE, SPACING), 0.02, sides, speeds
        y, x = sides[:2], sides[2:]
        rules_v = (tuple(across(k, n, "v_side") for k, n in zip(y, NAMES[:2], strict=True)), tuple(along(k, speeds[0]) for k in x))
        rules_u = (tuple(along(k, speeds[1]) for k in y), tuple(across(k, n, "u_side") for k, n in zip(x, NAMES[2:], strict=True)))
        self.states = {"v": ds.Variable(rules_v, (1, 0)), "u": ds.Variable(rules_u, (0, 1))}
        if y[0] == "open":
            self.states["v_side"] = ds.Variable(location=(1, 0))
        if x[0] == "open":
            self.states["u_side"] = ds.Variable(location=(0, 1))
        self.pressure = tuple(tuple(ds.Dirichlet(0.0) if k == "open" else ds.Neumann(0.0) for k in pair) for pair in (y, x))
        self.parameters = {"nu": ds.Variable(axes=())}
        self.series = {}
        for number, (kind, name) in enumerate(zip(sides, NAMES, strict=True)):
            other, speed = 1 - number // 2, speeds[number // 2]
            ends: list[Any] = ["mirror", "mirror"]
            ends[other] = tuple(ds.Neumann(0.0) if k == "open" else along(k, speed) for k in sides[2 * other : 2 * other + 2])
            if kind in ("inflow", "series"):  # beyond its ends it is what the velocity is there
                {"inflow": self.parameters, "series": self.series}[kind][name] = ds.Variable(tuple(ends), axes=(other,))

    def step(self, v: Symbol, u: Symbol, nu: Symbol) -> dict[str, Symbol]:
        def rate(now: Mapping[str, Symbol]) -> dict[str, Symbol]:
            v, u = now["v"], now["u"]
            edge = interpolate(v, 1) * interpolate(u, 0)
            return {
                "v": nu * laplacian(v) - diff(interpolate(v, 0) ** 2, 0) - diff(edge, 1),
                "u": nu * laplacian(u) - diff(interpolate(u, 1) ** 2, 1) - diff(edge, 0),
            }

        def project(now: Mapping[str, Symbol], dt: float) -> dict[str, Symbol]:
            p = ds.solve(laplacian, div((now["v"], now["u"])) / dt, self.pressure)
            p_y, p_x = grad(p)
            return {"v": now["v"] - dt * p_y, "u": now["u"] - dt * p_x}

        return ds.integrators.ssp_rk2(rate, {"v": v, "u": u}, self.dt, project=project)


def balanced(sides: tuple[str, ...]) -> bool:
    """True if as much can flow out as in."""
    return "open" in sides or not {"inflow", "series"} & set(sides)


def inputs(equation: Box, rng: np.random.Generator) -> dict[str, np.ndarray]:
    out: dict[str, Any] = {name: rng.uniform(-0.5, 0.5, SHAPE) for name in equation.states} | {"nu": 0.1}
    out |= {name: rng.uniform(0.2, 1.0, SHAPE[var.axes[0]]) for name, var in equation.parameters.items() if var.axes}
    out |= {name: rng.uniform(0.2, 1.0, (STEPS, SHAPE[var.axes[0]])) for name, var in equation.series.items()}
    for axis, (name, source) in enumerate(zip("vu", NAMES[1::2], strict=True)):  # initial values are kept, those on high sides too
        kind = equation.sides[2 * axis + 1]
        if kind != "open":
            on_side = out[source][0] if kind == "series" else out[source] if kind == "inflow" else 0.0
            np.moveaxis(out[name], axis, 0)[-1] = on_side
    return out


def faces(equation: Box, fields: Mapping[str, np.ndarray], step: int) -> tuple[np.ndarray, np.ndarray]:
    """Both velocities on all faces, low sides included, after a step."""
    out = []
    for axis, name in enumerate("vu"):
        kind, side = equation.sides[2 * axis], NAMES[2 * axis]
        values = np.moveaxis(np.asarray(fields[name], float), axis, 0)
        if kind == "open":
            low = np.moveaxis(np.asarray(fields[f"{name}_side"], float), axis, 0)[0]
        elif kind in ("inflow", "series"):
            low = np.asarray(fields[side])[step] if kind == "series" else np.asarray(fields[side])
        else:
            low = np.zeros(values.shape[1])
        out.append(np.moveaxis(np.concatenate([low[None], values]), 0, axis))
    return out[0], out[1]


def outflow(v: np.ndarray, u: np.ndarray) -> np.ndarray:
    return np.diff(v, axis=0) / SPACING[0] + np.diff(u, axis=1) / SPACING[1]


def mirrored(equation: Box, fields: Mapping[str, np.ndarray], axis: int) -> tuple[Box, dict[str, np.ndarray]]:
    """The same flow in a box whose axis points the other way."""
    sides = list(equation.sides)
    sides[2 * axis : 2 * axis + 2] = sides[2 * axis : 2 * axis + 2][::-1]
    speeds = [-speed if a == axis else speed for a, speed in enumerate(equation.speeds)]
    other, name = Box(tuple(sides), (speeds[0], speeds[1])), "vu"[axis]
    v, u = faces(equation, fields, 0)
    both = {"v": np.flip(v, axis), "u": np.flip(u, axis)}
    both[name] = -both[name]
    out: dict[str, Any] = {"nu": fields["nu"]}
    for a, n in enumerate("vu"):
        out[n] = np.delete(both[n], 0, axis=a)
        if f"{n}_side" in other.states:
            out[f"{n}_side"] = np.repeat(np.take(both[n], [0], axis=a), SHAPE[a], axis=a)
    low, high = NAMES[2 * axis], NAMES[2 * axis + 1]
    for a, b in ((low, high), (high, low)):
        if a in fields:
            out[b] = -np.asarray(fields[a])
    for n in NAMES[2 - 2 * axis : 4 - 2 * axis]:
        if n in fields:
            out[n] = np.flip(fields[n], -1)
    return other, out


def between(sides: tuple[str, ...]) -> set[tuple[int, str, frozenset[str]]]:
    """Each side with those at its two ends, on which its values depend. They are the same in a mirror image of the box."""
    ends = frozenset(sides[:2]), frozenset(sides[2:])
    return {(number // 2, kind, ends[1 - number // 2]) for number, kind in enumerate(sides)}


def covering(boxes: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Boxes that have each kind of side between each two others, one with the most that those before do not have after another."""
    out: list[tuple[str, ...]] = []
    there = {sides: between(sides) for sides in boxes}
    while any(there.values()):
        out.append(max(there, key=lambda sides: len(there[sides])))
        covered = there.pop(out[-1])
        there = {sides: seen - covered for sides, seen in there.items()}
    return out


CASES = covering(sides for sides in itertools.product(SIDES, repeat=4) if balanced(sides))


@pytest.mark.parametrize("sides", CASES, ids="-".join)
def test_low_sides_are_as_high_sides_and_no_cell_has_divergence(sides: tuple[str, ...]) -> None:
    """Each box beside the one before, of which it is the mirror image: all four are compared in three steps.

    A series is the same in all steps: a state has it on a high side from the end of a step on, on a low side from the beginning.
    """

    def flow(equation: Box, point: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        final = ds.Simulation(equation, precision="f64").run(point, STEPS).final
        v, u = faces(equation, {**point, **final}, STEPS - 1)
        assert np.abs(outflow(v, u)).max() < ROUND_OFF, np.abs(outflow(v, u)).max(axis=0)
        return v, u

    equation = Box(sides)
    point = inputs(equation, np.random.default_rng(0))
    point |= {name: np.tile(point[name][0], (STEPS, 1)) for name in equation.series}
    before = flow(equation, point)
    for axis in (0, 1, 0):
        equation, point = mirrored(equation, point, axis)
        after = flow(equation, point)
        for number, (values, wanted) in enumerate(zip(after, before, strict=True)):
            assert np.abs((-1.0 if number == axis else 1.0) * np.flip(values, axis) - wanted).max() < ROUND_OFF
        before = after


GRADIENTS = [("still", "open", "open", "series"), ("inflow", "slip", "open", "open"), ("open", "moving", "inflow", "still")]


@pytest.mark.gradients
@pytest.mark.parametrize("sides", GRADIENTS, ids="-".join)
def test_gradients_are_certified(sides: tuple[str, ...]) -> None:
    """For the velocities inside and on open low sides, for profiles and series."""
    equation = Box(sides)
    simulation, point = ds.Simulation(equation, precision="f64"), inputs(equation, np.random.default_rng(1))
    certificate = ds.certify(simulation, loss, point, STEPS)
    assert certificate.verdict == "pass", str(certificate)
    _, gradient = simulation.value_and_grad(lambda found: (found.final["u"] ** 3).sum(), point, STEPS, Binomial(STEPS, 2))
    side = "u_side" if "u_side" in point else "v_side"
    on_side = np.moveaxis(gradient[side], 1 if side == "u_side" else 0, 0)
    assert np.abs(on_side[0]).min() > 0 and not on_side[1:].any()  # the entries at the first cell are the values on the side


def test_vectors_have_open_low_sides() -> None:
    class Outlets(ds.Equation):
        def __init__(self, low: bool) -> None:
            ends = (ds.Open("vx_low"), ds.Dirichlet("push")) if low else (ds.Dirichlet("push"), ds.Open())
            self.grid, self.dt = ds.Grid((5, 6), 1.0), 1.0
            self.states = {"v": ds.Vector("yx", (ds.Dirichlet(0.0), ends))} | ({"vx_low": ds.Variable(location=(0, 1))} if low else {})
            self.series = {"push": ds.Variable(axes=())}
            self.ends = (ds.Dirichlet(0.0), "mirror") if low else ("mirror", ds.Dirichlet(0.0))

        def step(self, v: Components) -> dict[str, Any]:
            star = ds.stage(v + 0.1 * v.each(lambda a: laplacian(v[a])), boundary=v)
            return {"v": star - grad(ds.solve(laplacian, div(star), ("mirror", self.ends)))}

    push = np.full(3, 0.8)
    left, right = (
        ds.Simulation(Outlets(low), precision="f64").run({"push": sign * push}, 3).final for low, sign in ((True, -1.0), (False, 1.0))
    )
    turned = {name: -values[::-1, ::-1] for name, values in left.items()}  # by half a turn
    np.testing.assert_allclose(turned["vx_low"][:, -1], right["vx"][:, -1], rtol=0, atol=ROUND_OFF)
    np.testing.assert_allclose(turned["vx"][:, 1:], right["vx"][:, :-1], rtol=0, atol=ROUND_OFF)
    np.testing.assert_allclose(turned["vy"][1:], right["vy"][:-1], rtol=0, atol=ROUND_OFF)
    assert right["vx"][:, -1].min() > 0.1


@pytest.mark.parametrize(
    ("rule", "states", "error", "message"),
    [
        (ds.Open(), {}, ParameterError, r"expected the state with the values on that side.*Open\('vx_low'\)"),
        (ds.Open("w"), {}, TraceError, r"names w, expected a state at \(1,\); declare it"),
        (ds.Open("w"), {"w": ds.Variable()}, TraceError, r"names w, expected a state at \(1,\)"),
        (ds.Open("u"), {}, TraceError, "which has the values of another side"),
    ],
)
def test_what_is_refused(rule: Any, states: dict[str, ds.Variable], error: type[Exception], message: str) -> None:
    class Line(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt = ds.Grid((6,), 1.0), 0.1
            self.states = {"u": ds.Variable(((rule, "mirror"),), (1,)), **states}

        def step(self, u: Symbol) -> dict[str, Symbol]:
            return {"u": u + self.dt * laplacian(u)}

    with pytest.raises(error, match=message):
        ds.Simulation(Line())


def test_a_solution_has_no_values_on_an_open_low_side() -> None:
    class Implicit(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt = ds.Grid((6,), 1.0), 0.1
            self.states = {"u": ds.Variable(((ds.Open("w"), "mirror"),), (1,)), "w": ds.Variable(location=(1,))}

        def step(self, u: Symbol) -> dict[str, Symbol]:
            return {"u": ds.solve(lambda x: x - self.dt * laplacian(x), u, boundary=u)}

    with pytest.raises(TraceError, match="neither a state nor a stage has Open"):
        ds.Simulation(Implicit())


def test_a_name_of_a_state_is_a_name() -> None:
    with pytest.raises(ParameterError, match="expected the name of a state"):
        ds.Open("on the side")
