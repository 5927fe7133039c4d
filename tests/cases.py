"""Every equation that the tests run, with inputs: to test a new solver, add a line to `CASES`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import (
    arccos,
    arcsin,
    arctan,
    arctan2,
    clip,
    cosh,
    diff,
    diff_centred,
    div,
    exp,
    floor,
    grad,
    interpolate,
    laplacian,
    maximum,
    mean,
    muscl,
    sign,
    sinh,
    tan,
    tanh,
    where,
)
from diffsim.expr import max as max_of
from diffsim.expr import min as least
from diffsim.expr import sum as sum_of
from diffsim.solvers import Acoustic, Advection, Heat, LongWave, Maxwell, ViscoAcoustic


class StaggeredAcoustic(ds.Equation):
    """Pressure and velocity on a staggered grid, the velocity stored before the pressure is advanced: p_t = -c² div u, u_t = -grad p."""

    forcings = ("f",)

    def __init__(self, grid: ds.Grid, dt: float, order: int, boundary: str) -> None:
        self.grid, self.dt, self.order, self.boundary = grid, dt, order, boundary
        face = boundary if boundary == "periodic" else "zero"
        self.states = {"p": ds.Variable(boundary)}
        for axis in range(grid.ndim):
            self.states[f"u{axis}"] = ds.Variable(face, location=tuple(int(a == axis) for a in range(grid.ndim)))
        self.parameters = {"c": ds.Variable(boundary if boundary == "periodic" else "mirror")}

    def coefficients(self, c: Any) -> dict[str, Any]:
        return {"k": c * c}

    def step(self, p: Any, k: Any, f: Any, **u: Any) -> dict[str, Any]:
        face = self.boundary if self.boundary == "periodic" else "zero"
        moved = [ds.stage(u[f"u{axis}"] - self.dt * diff(p, axis, self.order), face) for axis in range(self.grid.ndim)]
        return {"p": p - self.dt * k * (div(moved, self.order) - f)} | {f"u{axis}": m for axis, m in enumerate(moved)}


class Nonlinear(ds.Equation):
    """Two coupled fields with advection, a limiter, products read at neighbours, a stored stage, and a state two steps back."""

    def __init__(self, grid: ds.Grid, dt: float, boundary: Any) -> None:
        self.grid, self.dt, self.boundary = grid, dt, boundary
        self.states = {name: ds.Variable(boundary) for name in ("a", "b", "a_1", "a_2")}
        self.parameters = {"k": ds.Variable("mirror"), "r": ds.Variable("mirror")}
        self.coefficient_boundaries = {"k": "mirror", "r": "mirror"}
        n = grid.shape[-1]
        self.profiles = {"w": ds.Profile(grid.ndim - 1, np.linspace(0.5, 1.5, n)), "w0": ds.Profile(0, np.linspace(1, 2, grid.shape[0]))}

    def coefficients(self, k: Any, r: Any) -> dict[str, Any]:
        return {"k": k, "r": r * interpolate(interpolate(k, 0), 0)}

    def step(self, a: Any, b: Any, a_1: Any, a_2: Any, k: Any, r: Any, w: Any, w0: Any) -> dict[str, Any]:
        slope = diff_centred(a, -1, 4)
        limited = where(b > 0.1, slope * b, maximum(slope, 0.3 * b))
        middle = ds.stage(a + self.dt * (k * laplacian(a * b, 4) - limited + 0.1 * w * a_2), self.boundary)
        flux = interpolate(k, 0) * diff(middle, 0)
        b_next = b + self.dt * (diff(flux, 0) + tanh(middle) * r * w0 - b * b * (a_1 - a_2) / (1.5 + a * a))
        return {"a": middle + 0.2 * self.dt * a_1, "b": b_next, "a_1": a, "a_2": a_1}


class Oddities(ds.Equation):
    """Steps that once went wrong: a force on a stored state, a division by a field that is 0 outside, a product with the oldest level."""

    forcings = ("g",)

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {
            "x": ds.Variable("zero"),
            "x_dot": ds.Variable("zero"),
            "x_bar": ds.Variable("zero"),
            "u": ds.Variable("zero", (0, 1)),
        }
        self.parameters = {"r": ds.Variable("zero"), "k": ds.Variable("zero")}
        self.profiles = {"w": ds.Profile(0, np.linspace(0, 1, grid.shape[0]))}

    def step(self, x: Any, x_dot: Any, x_bar: Any, u: Any, r: Any, k: Any, g: Any, w: Any) -> dict[str, Any]:
        fast = ds.stage(u - self.dt * diff(x, 1), "zero")
        push = laplacian(x) / r + k.shifted(0, 1) * x_bar + diff(fast, 1) * exp(-w)
        return {"x": x + self.dt * x_dot, "x_dot": x_dot + self.dt * push, "x_bar": x, "u": fast + 0.3 * g}


class Fluxes(ds.Equation):
    """Stored stages whose adjoints are products that are read at neighbours: of a stage's cotangent, and with a stage's value."""

    def __init__(self, grid: ds.Grid, boundary: str) -> None:
        self.grid, self.dt, self.boundary = grid, 1.0, boundary
        self.states = {"u": ds.Variable(boundary), "v": ds.Variable(boundary)}
        self.parameters = {"k": ds.Variable(boundary)}

    def step(self, u: Any, v: Any, k: Any) -> dict[str, Any]:
        flux = ds.stage(k * laplacian(v), self.boundary)
        square = ds.stage(u * u * k, self.boundary)
        return {"u": 0.9 * u + 0.05 * flux + 0.01 * laplacian(flux), "v": v + 0.02 * square * laplacian(k)}


class Overwritten(ds.Equation):
    """A step that may write over its oldest level, and whose adjoint needs that level at neighbours."""

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 1.0
        self.states = {"p": ds.Variable("zero"), "q": ds.Variable("zero")}
        self.parameters = {"k": ds.Variable("zero")}

    def step(self, p: Any, q: Any, k: Any) -> dict[str, Any]:
        return {"p": 1.2 * p - 0.5 * q + 0.1 * laplacian(p) + 0.1 * k.shifted(0, 1) * q, "q": p}


class Sided(ds.Equation):
    """Fields at the centre and on faces, each with rules of its own, read two cells away along all axes, beside products of neighbours."""

    def __init__(self, grid: ds.Grid, boundary: Sequence[Any], dt: float = 0.1) -> None:
        self.grid, self.dt = grid, dt
        first, last = (tuple(int(a == axis % grid.ndim) for a in range(grid.ndim)) for axis in (0, -1))
        places = (None, first, last)
        self.states = {name: ds.Variable(rule, at) for name, rule, at in zip("auv", boundary, places, strict=True)}
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, a: Any, u: Any, v: Any, k: Any) -> dict[str, Any]:
        def around(f: Any) -> Any:
            return sum(f.shifted(axis, 2) * f + f.shifted(axis, 1) + f.shifted(axis, -2) for axis in range(f.ndim)) / (3 * f.ndim)

        square = ds.stage(0.3 * u * u + 0.1 * around(u), boundary=u)
        flux = diff(u, 0) + diff(v, -1)
        return {
            "a": 0.7 * a + 0.1 * around(a) + 0.05 * k * flux * a.shifted(0, -2),
            "u": 0.7 * u + 0.1 * around(square) + 0.05 * diff(a, 0) * square.shifted(-1, 1),
            "v": 0.7 * v + 0.1 * around(v) + 0.05 * interpolate(k * a, -1) * v.shifted(0, 1),
        }


class Walled(ds.Equation):
    """A field at the centre and one on faces between walls, with few operations: what lies outside is most of it."""

    def __init__(self, grid: ds.Grid, boundary: Sequence[Any]) -> None:
        self.grid, self.dt = grid, 0.1
        self.states = {"a": ds.Variable(boundary[0]), "u": ds.Variable(boundary[1], (0,) * (grid.ndim - 1) + (1,))}

    def step(self, a: Any, u: Any) -> dict[str, Any]:
        corner = a.shifted(0, 1).shifted(-1, -1) + a.shifted(0, -1).shifted(1, 1)
        return {"a": 0.8 * a + 0.02 * laplacian(a) + 0.05 * corner + 0.05 * a * diff(u, -1), "u": 0.9 * u + 0.02 * laplacian(u)}


class Functions(ds.Equation):
    """Functions, remainders and joined conditions, with numbers and neighbours among their arguments."""

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 1.0
        self.states = {"a": ds.Variable("periodic"), "b": ds.Variable("mirror")}

    def step(self, a: Any, b: Any) -> dict[str, Any]:
        small, ahead = tanh(a), b.shifted(-1, 1)
        angles = arctan2(a, ahead) + arctan2(0.3, b) - arctan2(a.shifted(-1, -1), 0.2) + arctan(b)
        curves = tan(0.5 * small) + sinh(small) - cosh(ahead) + arcsin(0.9 * small) * arccos(0.9 * tanh(b))
        jumps = floor(2 * a) * b + sign(a) * ahead + clip(a, -0.5, ahead)
        rests = a % 0.7 + b % (small - 1.5) - 1.0 % (0.4 + b * b)
        mask = ((a > 0) & ~(ahead < 0.2)) | (a.shifted(0, -1) <= -0.3) & True
        branches = where(mask, angles + curves, jumps + rests)
        return {"a": 0.7 * a + 0.05 * branches, "b": 0.6 * b - 0.05 * branches.shifted(-1, 1) + 0.02 * where(~mask, angles, rests)}


class Stretched(ds.Equation):
    """Every operator that knows stretched axes, at centres and at faces, with a stage."""

    forcings = ("f",)

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 0.005
        self.states = {
            "a": ds.Variable("mirror"),
            "u": ds.Variable(("mirror",) * (grid.ndim - 1) + ("zero",), (0,) * (grid.ndim - 1) + (1,)),
        }
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, a: Any, u: Any, k: Any, f: Any) -> dict[str, Any]:
        pushed = ds.stage(u + self.dt * (interpolate(k, -1) * diff(a, -1) - u * diff_centred(u, -1) + laplacian(u)), boundary=u)
        below, above = muscl(pushed, -1)
        flux = interpolate(pushed, -1) * a + 0.1 * below * above
        rate = diff_centred(flux, 0) + 0.2 * div(grad(a)) + k * laplacian(a) - muscl(a, 0)[0].shifted(0, -1).across(0) + f
        return {"a": a + self.dt * rate, "u": pushed}


class Driven(ds.Equation):
    """A step with numbers: given ones, series of them and of rows, the time, and sums and largest values of products and of a state."""

    forcings = ("q",)

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 0.02
        last = grid.ndim - 1
        self.states = {"a": ds.Variable("mirror"), "b": ds.Variable("periodic")}
        self.parameters = {"k": ds.Variable(axes=()), "w": ds.Variable("mirror", axes=(0,)), "c": ds.Variable("mirror")}
        along = {"s": ds.Variable(ds.Dirichlet(0.3), axes=(last,)), "r": ds.Variable("zero", axes=(0,))}
        self.series = {"u": ds.Variable(), **along}
        if grid.ndim > 2:
            self.series |= {"m": ds.Variable("mirror", location=(0, 1, 0), axes=(1, 2)), "every": ds.Variable("periodic", axes=(0, 1, 2))}
        self.coefficient_boundaries = {"c": "mirror"}

    def coefficients(self, k: Any, w: Any, c: Any) -> dict[str, Any]:
        return {"k": k * k, "w": w * w.shifted(0, 1) + k, "c": c + w}

    def step(self, a: Any, b: Any, k: Any, w: Any, c: Any, u: Any, q: Any, t: Any, n: Any, **series: Any) -> dict[str, Any]:
        flux = [interpolate(c, axis) * (1 + 0.1 * u) * diff(a * a, axis) for axis in range(a.ndim)]
        average, largest, total = mean(a * c), max_of(a * b), sum_of(b)
        rate = k * sum(diff(f, axis) for axis, f in enumerate(flux)) + u * w + 0.1 * average * a.shifted(0, 1) + largest * b + q
        for name, values in series.items():
            moved = values.shifted(-1, 1).shifted(0, -1)
            rate = rate + (diff(moved * interpolate(a, 1), 1) if name == "m" else moved * a * a - values)
        push = 0.3 * total / (1 + total * total) + where(u > 0, t, n) - 0.1 * least(a) * b.shifted(-1, 2) + 0.2 * laplacian(b)
        return {"a": a + self.dt * rate, "b": b + self.dt * push}


class Loop(ds.Equation):
    """A loop over two fields in a step, with a stage and a number of all cells in each lap, and fields and numbers from around it."""

    def __init__(self, grid: ds.Grid, count: int) -> None:
        self.grid, self.dt, self.count = grid, 0.05, count
        self.states = {"a": ds.Variable("mirror"), "b": ds.Variable("periodic")}
        self.parameters = {"k": ds.Variable("mirror"), "c": ds.Variable(axes=())}
        self.series = {"u": ds.Variable()}

    def step(self, a: Any, b: Any, k: Any, c: Any, u: Any) -> dict[str, Any]:
        around = ds.stage(k * b, "mirror")

        def lap(x: Any, y: Any) -> tuple[Any, Any]:
            flux = ds.stage(interpolate(k, 0) * diff(x * x, 0), "zero")
            x_next = x + self.dt * (diff(flux, 0) + c * laplacian(y) + u * around.shifted(0, 1))
            return x_next, 0.9 * y + self.dt * x * y.shifted(-1, 1) + 0.01 * around * x.shifted(0, -1) + 0.02 * mean(x * y)

        x, y = ds.repeat(self.count, lap, a, ds.stage(a * b, "zero"))
        return {"a": 0.5 * x + 0.1 * y.shifted(0, 1), "b": b + 0.1 * y * x}


class Regions(ds.Equation):
    """A wave with states that exist in a corner, at both ends of an axis, and in a block, read at neighbours and multiplied."""

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 0.05
        rows, columns = np.indices(grid.shape)[-2:]
        corner, ends = (rows < 4) & (columns < 7), (columns < 3) | (columns > grid.shape[-1] - 4)
        block = (abs(rows - 6) < 3) & (abs(columns - 9) < 5)
        self.states = {
            "a": ds.Variable("mirror"),
            "p": ds.Variable("zero", region=ends),
            "p_prev": ds.Variable("zero", region=ends),
            "q": ds.Variable("mirror", region=corner),
            "r": ds.Variable("zero", region=block),
        }
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, a: Any, p: Any, p_prev: Any, q: Any, r: Any, k: Any) -> dict[str, Any]:
        p_next = 1.6 * p - 0.7 * p_prev + self.dt * (k * laplacian(a) + p.shifted(0, 1) * q)
        q_next = 0.8 * q + self.dt * (a * a.shifted(1, 1) + k * r.shifted(1, -1))
        r_next = 0.9 * r + self.dt * k * ds.stage(a * q, "zero").shifted(0, -1)
        push = laplacian(a) + diff(interpolate(p_next, 1), 1) + q_next.shifted(0, -1) - r.shifted(1, 2) * a
        return {"a": a + self.dt * push, "p": p_next, "p_prev": p, "q": q_next, "r": r_next}


@dataclass(frozen=True)
class Case:
    """A simulation to test. `scale`: inputs whose values are not of order 1, as (middle, spread)."""

    name: str
    equation: Callable[[], ds.Equation]
    steps: int
    sources: dict[str, list[list[float]]]
    receivers: dict[str, list[list[float]]]
    scale: dict[str, tuple[float, float]]
    wrt: tuple[str, ...] | None = None

    def simulation(self, precision: str = "f64") -> ds.Simulation:
        return ds.Simulation(self.equation(), sources=self.sources, receivers=self.receivers, wrt=self.wrt, precision=precision)

    def inputs(self, simulation: ds.Simulation, rng: np.random.Generator) -> dict[str, np.ndarray]:
        out = {}
        for name in simulation.inputs:
            middle, spread = self.scale.get(name, (0.0, 1.0))
            shape = simulation.input_shape(name, self.steps)
            out[name] = middle + spread * rng.uniform(-1, 1, shape)
            if name == "H":
                out[name] = np.where(rng.uniform(size=shape) < 0.2, 0.0, out[name])  # islands
        return out


def _acoustic(name: str, shape: tuple[int, ...], order: int, boundary: Any, sponge: int = 0) -> Case:
    points = [[10.0 * (0.37 + k) for k in range(len(shape))], [30.0] * len(shape)]
    return Case(
        f"acoustic {name}",
        lambda: Acoustic(ds.Grid(shape, 10.0), 1e-3, order, boundary, sponge),
        24,
        {"f": points},
        {"p": [[0.0] * len(shape), [41.3] * len(shape)]},
        {"c": (2000.0, 500.0)},
    )


CASES = [
    _acoustic("2-D order 8 zero", (17, 35), 8, "zero"),
    _acoustic("2-D order 2 mirror sponge", (18, 21), 2, "mirror", 4),
    _acoustic("2-D order 4 periodic", (15, 16), 4, "periodic"),
    _acoustic("2-D mixed", (16, 13), 6, ("mirror", "periodic")),
    _acoustic("1-D", (37,), 8, "mirror"),
    _acoustic("3-D", (9, 11, 13), 4, ("mirror", "zero", "periodic")),
    Case(
        "visco acoustic 2-D",
        lambda: ViscoAcoustic(
            ds.Grid((15, 19), 10.0), 1e-3, 2, (("odd_image", "zero"), "mirror"), "given", 25.0, ((0, 3), (4, 3)), 2500.0, 25.0
        ),
        16,
        {"q": [[22.0, 83.0]]},
        {"p": [[0.0, 0.0], [41.3, 97.5]]},
        {"c": (2000.0, 500.0), "rho": (2.0, 1.0), "Q": (40.0, 20.0)},
    ),
    Case(
        "heat 2-D",
        lambda: Heat(ds.Grid((14, 19), 0.5), 0.1),
        24,
        {"q": [[1.0, 2.0], [3.3, 4.7]]},
        {"T": [[0.0, 0.0], [2.2, 3.1]]},
        {"kappa": (0.3, 0.1)},
    ),
    Case("heat 1-D cold ends", lambda: Heat(ds.Grid((23,), 0.5), 0.1, "zero"), 24, {}, {"T": [[2.2]]}, {"kappa": (0.3, 0.1)}),
    Case("heat 3-D periodic", lambda: Heat(ds.Grid((6, 7, 9), 0.5), 0.1, "periodic"), 12, {}, {}, {"kappa": (0.2, 0.1)}),
    Case(
        "long wave on the sphere",
        lambda: LongWave(ds.Grid((16, 22), 0.01, (48.0, 234.0), ("lat", "lon")), 2.0, "sphere", sponge=4),
        24,
        {},
        {"eta": [[48.03, 234.05], [48.111, 234.107]]},
        {"H": (500.0, 400.0)},
    ),
    Case(
        "long wave, start only",
        lambda: LongWave(ds.Grid((16, 22), 500.0), 2.0),
        24,
        {},
        {"eta": [[510.0, 700.0]]},
        {"H": (500.0, 400.0)},
        ("eta0",),
    ),
    Case(
        "staggered acoustic 2-D",
        lambda: StaggeredAcoustic(ds.Grid((14, 18), 1.0), 0.2, 4, "zero"),
        24,
        {"f": [[3.3, 4.4]]},
        {"p": [[3.0, 5.0]], "u1": [[6.1, 7.2]]},
        {"c": (1.0, 0.3)},
    ),
    Case(
        "staggered acoustic 2-D mirror",
        lambda: StaggeredAcoustic(ds.Grid((14, 18), 1.0), 0.2, 2, "mirror"),
        24,
        {"f": [[3.3, 4.4]]},
        {"p": [[3.0, 5.0]]},
        {"c": (1.0, 0.3)},
    ),
    Case(
        "staggered acoustic 1-D periodic", lambda: StaggeredAcoustic(ds.Grid((18,), 1.0), 0.2, 4, "periodic"), 24, {}, {}, {"c": (1.0, 0.3)}
    ),
    Case(
        "oddities",
        lambda: Oddities(ds.Grid((11, 14), 1.0), 0.1),
        16,
        {"g": [[3.0, 4.5], [2.2, 7.7]]},
        {"u": [[3.0, 5.0]], "x": [[1.0, 2.0]]},
        {"r": (2.0, 0.5), "k": (0.5, 0.3)},
    ),
    *(
        Case(f"fluxes {boundary}", lambda boundary=boundary: Fluxes(ds.Grid((9, 21), 1.0), boundary), 12, {}, {}, {"k": (0.5, 0.3)})
        for boundary in ("zero", "mirror", "periodic")
    ),
    Case(
        "stretched",
        lambda: Stretched(ds.Grid.from_faces((np.linspace(1, 3, 12) ** 2, np.geomspace(2, 9, 21)))),
        8,
        {"f": [[1.3, 4.1], [8.2, 2.2]]},
        {"a": [[6.0, 8.4]], "u": [[2.0, 3.3]]},
        {"k": (0.3, 0.1)},
    ),
    Case("stretched 1-D", lambda: Stretched(ds.Grid.from_faces((np.geomspace(1, 9, 24),))), 8, {}, {"u": [[3.3]]}, {"k": (0.3, 0.1)}),
    Case("functions", lambda: Functions(ds.Grid((9, 21), 1.0)), 4, {}, {"b": [[3.0, 5.2]]}, {}),
    Case("overwritten", lambda: Overwritten(ds.Grid((9, 12), 1.0)), 12, {}, {}, {"k": (0.5, 0.3)}),
    *(
        Case(
            f"nonlinear {boundary}",
            lambda boundary=boundary: Nonlinear(ds.Grid((13, 18), 1.0), 0.02, boundary),
            20,
            {},
            {"b": [[3.0, 5.2]]},
            {"k": (0.5, 0.3), "r": (0.5, 0.3)},
        )
        for boundary in ("zero", "mirror", "periodic")
    ),
]

WALLS = (ds.Robin(1.0, 0.5, 0.3), ds.Dirichlet(0.4)), (ds.Neumann(-0.2), ds.OddImage()), (ds.Outflow(0.4), ds.Extrapolate(2))
"""A pair of rules along an axis; in the cases, each axis of each field has another one."""
CASES += [
    Case(
        f"sides {len(shape)}-D",
        lambda shape=shape: Sided(ds.Grid(shape, 0.7), [tuple(WALLS[(f + a) % 3] for a in range(len(shape))) for f in range(3)]),
        10,
        {},
        {"a": [[1.1] * len(shape)]},
        {"k": (0.5, 0.3)},
    )
    for shape in ((19,), (11, 18), (9, 10, 13))
]
CASES.append(
    Case(
        "walls 3-D",
        lambda: Walled(ds.Grid((7, 6, 13), 0.7), [tuple(WALLS[(f + a) % 3] for a in range(3)) for f in range(2)]),
        8,
        {},
        {"a": [[1.1] * 3]},
        {},
    )
)

CASES += [
    Case(f"numbers {len(shape)}-D", lambda shape=shape: Driven(ds.Grid(shape, 1.0)), 7, {"q": [[2.2] * len(shape)]}, {}, {})
    for shape in ((11, 18), (5, 7, 13))
]
CASES += [
    Case(f"loop {len(shape)}-D", lambda shape=shape: Loop(ds.Grid(shape, 1.0), len(shape)), 5, {}, {"a": [[1.1] * len(shape)]}, {})
    for shape in ((11, 18),)
]

CASES += [Case("regions 2-D", lambda: Regions(ds.Grid((14, 37), 1.0)), 7, {}, {"a": [[1.1, 2.0]], "q": [[2.5, 3.0]]}, {})]

CASES += [
    Case(
        "light with a metal",
        lambda: Maxwell(ds.Grid((13, 19), 0.1), 0.05, "TE", layer=(3, (0, 4)), poles=("drude",)),
        12,
        {"Jx": [[0.52, 0.7]]},
        {"Hz": [[0.6, 1.1]]},
        {"eps": (2.0, 0.5), "wp1": (3.0, 1.0), "gamma1": (0.3, 0.1)},
    )
]

CASES.append(
    Case(
        "advection with an inlet",
        lambda: Advection(ds.Grid((21,), 1.0), 0.2, (("inflow", "outflow"),), "muscl", diffusive=True),
        6,
        {"q": [[2.2]]},
        {"c": [[5.2]]},
        {"u": (0.5, 0.3), "u_low": (0.5, 0.3), "inflow": (1.0, 0.5), "kappa": (0.2, 0.1)},
    )
)

CONTRACT = (
    "acoustic 2-D mixed",
    "acoustic 1-D",
    "heat 2-D",
    "long wave on the sphere",
    "staggered acoustic 2-D",
    "fluxes zero",
    "functions",
    "sides 2-D",
    "numbers 2-D",
    "loop 2-D",
    "regions 2-D",
)
LONG = ("numbers 3-D", "sides 3-D")
"""They take most of the time, and what they have others have in fewer dimensions, or apart."""
MARKED = [
    pytest.param(case, marks=pytest.mark.gradients if case.name in CONTRACT else pytest.mark.slow if case.name in LONG else ())
    for case in CASES
]
"""All cases; those of every kind of kernel are marked, to be run with registers of every width."""
SOME = [
    *(pytest.param(case, marks=pytest.mark.gradients) for case in CASES if case.name in CONTRACT),
    *(pytest.param(case, marks=pytest.mark.slow) for case in CASES if case.name not in CONTRACT),
]
"""Those of every kind of kernel, marked as above; the rest are slow tests."""
