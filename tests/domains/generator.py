"""Cases of simulations in domains: an equation, a grid, cuts, points at every distance from a cut, and schedules."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import diffsim as ds
from diffsim import expr
from diffsim.domains import Domains
from diffsim.stepping.trace.stages import stage
from tests.domains.results import results

TOP_FREE = ("odd_image", "zero")


@dataclass(frozen=True)
class DomainCase:
    """A simulation, and cuts of its grid.

    Attributes:
        name: of the case.
        equation: makes the equation.
        cuts: boxes along each axis, one for each way to cut; all have the same number of ranks.
        forced: the forcing with sources; "" for none.
        seen: the state with receivers.
        scale: input -> (middle, spread); others are between -1 and 1.
        fields: input -> its array, from the grid, in place of random numbers.
        functions: input -> a function of coordinates; one process has its values as an array.
        mapped: inputs that domains read from a file which is mapped into memory.
        wrt: inputs that have gradients.
        precision: of the simulation.
        steps: time steps.
        between: steps between exchanges.
        checkpoints: schedules of its gradients.
        derivatives: whether tangents and products with the Hessian are computed too.
        together: whether ranks compute steps together (in wavefronts) wherever that can be, on the smallest grids too.
        points: places of sources and receivers; none: those of `around_cuts`.
    """

    name: str
    equation: Callable[[], ds.Equation]
    cuts: tuple[tuple[int, ...], ...]
    forced: str = ""
    seen: str = "p"
    scale: tuple[tuple[str, float, float], ...] = ()
    fields: tuple[tuple[str, Callable[[ds.Grid], np.ndarray]], ...] = ()
    functions: tuple[tuple[str, Callable[..., np.ndarray]], ...] = ()
    mapped: tuple[str, ...] = ()
    wrt: tuple[str, ...] | None = None
    precision: str = "f32"
    steps: int = 13
    between: int = 2
    checkpoints: tuple[Any, ...] = ("auto", 3)
    derivatives: bool = False
    together: bool = False
    points: tuple[tuple[float, ...], ...] = ()

    @property
    def ranks(self) -> int:
        return int(np.prod(self.cuts[0]))

    def results(self, parts: tuple[int, ...] | None) -> dict[str, np.ndarray]:
        """All results, of one process or of domains."""
        equation = self.equation()
        sources, receivers = ([*self.points] or around_cuts(equation.grid, self.cuts, share) for share in (0.3, 0.6))
        simulation = ds.Simulation(
            equation,
            sources={self.forced: sources} if self.forced else {},
            receivers={self.seen: receivers},
            wrt=self.wrt,
            precision=self.precision,
            domains=None if parts is None else Domains(parts, self.between),
        )
        inputs: dict[str, Any] = self.inputs(simulation)
        with tempfile.TemporaryDirectory() as folder:
            if parts is not None:
                inputs |= dict(self.functions) | {name: mapped(inputs[name], Path(folder) / f"{name}.npy") for name in self.mapped}
            return results(simulation, inputs, self.steps, self.checkpoints, tangents=self.derivatives, curvature=self.derivatives)

    def inputs(self, simulation: ds.Simulation) -> dict[str, np.ndarray]:
        rng, arrays = np.random.default_rng(zlib.crc32(self.name.encode())), dict(self.fields)
        grid = simulation.grid
        places = np.meshgrid(*(grid.coordinates(axis) for axis in range(grid.ndim)), indexing="ij")
        arrays |= {name: lambda grid, function=function: function(*places) for name, function in self.functions}
        scale = {name: (middle, spread) for name, middle, spread in self.scale}
        inputs = {}
        for name in simulation.inputs:
            middle, spread = scale.get(name, (0.0, 1.0))
            shape = simulation.input_shape(name, self.steps)
            values = arrays[name](simulation.grid) if name in arrays else middle + spread * rng.uniform(-1, 1, shape)
            inputs[name] = values.astype(simulation.dtype)
        return inputs


def mapped(values: np.ndarray, path: Path) -> np.ndarray:
    """An array in f64 in a file that is mapped into memory."""
    np.save(path, values.astype(np.float64))
    out: np.ndarray = np.load(path, mmap_mode="r")
    return out


def around_cuts(grid: ds.Grid, cuts: tuple[tuple[int, ...], ...], between: float) -> list[list[float]]:
    """Points from four cells below to four above the cuts of each axis, on a diagonal, and in the second and the last cell but one."""
    points = [[grid.coordinates(axis)[end] for axis in range(grid.ndim)] for end in (1, -2)]
    for parts in cuts:
        for axis, count in enumerate(parts):
            for cut in range(1, count):
                for distance in range(-4, 5):
                    cells = [grid.shape[other] // 3 + distance % 3 for other in range(grid.ndim)]
                    cells[axis] = grid.shape[axis] * cut // count + distance
                    inside = [min(max(cell, 1), n - 3) for cell, n in zip(cells, grid.shape, strict=True)]
                    places = [grid.coordinates(other) for other in range(grid.ndim)]
                    points.append([at[c] + between * (at[c + 1] - at[c]) for at, c in zip(places, inside, strict=True)])
    return points


def beach(grid: ds.Grid) -> np.ndarray:
    """A bed that rises above the water, with a hill."""
    y, x = np.meshgrid(*(np.linspace(0, 1, n) for n in grid.shape), indexing="ij")
    return 3.0 * x - 2.0 + 1.5 * np.exp(-30 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))


def wave(grid: ds.Grid) -> np.ndarray:
    """A surface that runs up the beach."""
    y, x = np.meshgrid(*(np.linspace(0, 1, n) for n in grid.shape), indexing="ij")
    return 0.4 * np.cos(9 * x + 4 * y)


def acoustic(shape: tuple[int, ...], order: int, **options: Any) -> Callable[[], ds.Equation]:
    return lambda: ds.solvers.Acoustic(ds.Grid(shape, 10.0), 5e-4, order, **options)


class Mixed(ds.Equation):
    """Diffusion and decay by the range, the mean and the sum of all cells, which derivatives of all orders see."""

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 0.05
        self.states = {"q": ds.Variable((ds.Dirichlet(0.4), ds.Neumann(0.2)))}
        self.parameters = {"k": ds.Variable()}
        self.forcings = ("f",)

    def step(self, q: Any, k: Any, f: Any) -> dict[str, Any]:
        extent, mean, energy = expr.max(q) - expr.min(q), expr.mean(k * q), expr.sum(q * q + 0.01 * expr.laplacian(q, 4) ** 2)
        flux = expr.interpolate(mean * k * q, 0)  # a number that is read at neighbours
        change = k * expr.laplacian(q, 2) / (1.0 + extent) + expr.div([flux, 0.0 * expr.diff(q, 1)]) + mean - q / energy
        return {"q": q + self.dt * (change + f)}


class Adaptive(ds.Equation):
    """Nonlinear diffusion with time steps as long as its largest coefficient allows, until an end. The time is a state, a number."""

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 1.0
        self.states = {"q": ds.Variable("mirror"), "time": ds.Variable(axes=())}
        self.parameters = {"end": ds.Variable(axes=())}

    def step(self, q: Any, time: Any, end: Any) -> dict[str, Any]:
        k = 0.1 * (1.0 + q * q)
        dt = expr.minimum(0.1 * min(self.grid.spacing) ** 2 / expr.max(k), end - time)
        return {"q": q + dt * k * expr.laplacian((1.0 + time) * q, 2), "time": time + dt}


class Driven(ds.Equation):
    """Diffusion driven by a coefficient and by series, which are read farther away than the state."""

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 0.02
        self.states = {"q": ds.Variable("mirror")}
        self.parameters = {"k": ds.Variable("mirror")}
        self.series = {"wind": ds.Variable("mirror"), "tide": ds.Variable("mirror", axes=(0,))}

    def step(self, q: Any, k: Any, wind: Any, tide: Any) -> dict[str, Any]:
        push = expr.laplacian(k, 8) + expr.laplacian(wind, 6) + tide * expr.laplacian(k, 2)
        return {"q": q + self.dt * (k * expr.laplacian(q, 2) + 0.1 * push)}


class Staged(ds.Equation):
    """A field that is driven by a stage of a coefficient, or of a series, which is read farther away than the field."""

    def __init__(self, grid: ds.Grid, push: Callable[[Any, Any], Any]) -> None:
        self.grid, self.dt, self._push = grid, 0.1, push
        self.states = {"q": ds.Variable("mirror")}
        self.parameters = {"k": ds.Variable("mirror")}
        self.series = {"wind": ds.Variable("mirror", axes=(0, 1))}

    def step(self, q: Any, k: Any, wind: Any) -> dict[str, Any]:
        staged = {
            "k": stage(k * k, boundary="mirror"),
            "wind": stage(wind * wind, boundary="mirror"),
            "1": stage(0.0 * k + 1.0, boundary="zero"),
        }
        return {"q": q + self._push(q, staged) + 0.001 * wind * k}


def staged_far(name: str, order: int) -> Callable[[], ds.Equation]:
    return lambda: Staged(ds.Grid((40, 11), 1.0), lambda q, at: 0.1 * expr.laplacian(q, 2) + 0.02 * expr.laplacian(at[name], order))


class Summed(ds.Equation):
    """A field that moves towards its mean, and is scaled by its largest value."""

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 0.05
        self.states = {"q": ds.Variable("zero")}

    def step(self, q: Any) -> dict[str, Any]:
        return {"q": q + self.dt * (expr.mean(q * q) - q / expr.max(q))}


SPEED = (("c", 2500.0, 500.0),)
QUICK = [
    DomainCase(
        "heat with all derivatives",
        lambda: ds.solvers.Heat(ds.Grid((13, 17), 0.5), 0.1, boundary=((ds.Dirichlet(0.4), ds.Neumann(0.2)), "mirror")),
        ((2, 1),),
        "q",
        "T",
        scale=(("kappa", 0.3, 0.1),),
        functions=(("T", lambda y, x: np.sin(y * x) + 0.1 * y),),
        mapped=("kappa",),
        precision="f64",
        between=1,
        derivatives=True,
    ),
    DomainCase(
        "acoustic of order 2 on 4 ranks",
        acoustic((15, 19), 2),
        ((2, 2),),
        "f",
        scale=SPEED,
        functions=(("c", lambda z, x: 2000.0 + 2.0 * z + 100.0 * np.sin(x)),),
        mapped=("p",),
        together=True,
    ),
    DomainCase("sums of all cells", lambda: Summed(ds.Grid((13, 19), 0.5)), ((2, 1),), seen="q", steps=5, checkpoints=(2,)),
    DomainCase(
        "a stage of a coefficient that is read at neighbours",
        lambda: Staged(ds.Grid((22, 7), 1.0), lambda q, staged: 0.01 * expr.laplacian(staged["k"], 2) * q),
        ((2, 1),),
        seen="q",
        scale=(("k", 2.0, 1.0),),
        wrt=("k",),
        precision="f64",
        steps=5,
        between=1,
        checkpoints=("auto",),
    ),
]
"""Cases of the gate."""
ELASTIC = (("vp", 3000.0, 300.0), ("vs", 1500.0, 200.0), ("rho", 2200.0, 200.0))
DEEP = [
    DomainCase(
        "some steps of acoustic order 4",
        acoustic((83, 21), 4, layer=((0, 5), (5, 5)), boundary=(TOP_FREE, "zero"), layer_speed=2500.0, layer_frequency=25.0),
        ((2, 1),),
        "f",
        scale=SPEED,
        between=4,
        together=True,
    ),
    DomainCase(
        "some steps of acoustic 3-D",
        acoustic((41, 18, 21), 2, layer=3, layer_speed=2500.0, layer_frequency=25.0),
        ((3, 1, 1),),
        "f",
        scale=SPEED,
        between=5,
        together=True,
    ),
    DomainCase(
        "some steps of acoustic order 8 in 3-D",
        acoustic((61, 18, 19), 8, layer=4, layer_speed=2500.0, layer_frequency=25.0),
        ((2, 1, 1),),
        "f",
        scale=SPEED,
        steps=7,
        between=3,
        together=True,
    ),
    DomainCase(
        "a box inside of its layer, whose arrays lie otherwise in memory",
        acoustic((50, 50, 50), 8, layer=((20, 0), 8, 8), layer_speed=2500.0, layer_frequency=25.0),
        ((2, 1, 1),),
        "f",
        scale=SPEED,
        steps=5,
        between=1,
    ),
    DomainCase(
        "some steps of elastic with a free surface",
        lambda: ds.solvers.Elastic(
            ds.Grid((67, 21), 10.0), 1e-3, 4, layer=((0, 5), (5, 5)), layer_speed=3000.0, layer_frequency=25.0, surface=True
        ),
        ((2, 1),),
        seen="vx",
        scale=ELASTIC,
        between=4,
        together=True,
    ),
    DomainCase(
        "some steps of elastic 3-D",
        lambda: ds.solvers.Elastic(ds.Grid((41, 22, 19), 10.0), 1e-3, 4, layer=4, layer_speed=3000.0, layer_frequency=25.0),
        ((2, 1, 1),),
        seen="vx",
        scale=ELASTIC,
        between=2,
        together=True,
    ),
    DomainCase(
        "some steps of Maxwell on 4 ranks",
        lambda: ds.solvers.Maxwell(ds.Grid((62, 28), 0.1), 0.05, "TE", layer=5),
        ((4, 1), (2, 2)),
        "Jx",
        "Hz",
        scale=(("eps", 2.0, 0.5),),
        between=5,
        together=True,
    ),
    DomainCase(
        "some steps of heat with all derivatives",
        lambda: ds.solvers.Heat(ds.Grid((43, 17), 0.5), 0.1, boundary=((ds.Dirichlet(0.4), ds.Neumann(0.2)), "mirror")),
        ((2, 1),),
        "q",
        "T",
        scale=(("kappa", 0.3, 0.1),),
        precision="f64",
        steps=20,
        between=8,
        derivatives=True,
        together=True,
    ),
    DomainCase(
        "some steps of long waves on the sphere",
        lambda: ds.solvers.LongWave(ds.Grid((49, 26), 0.01, (48.0, 234.0), ("lat", "lon")), 2.0, "sphere", sponge=4),
        ((3, 1),),
        seen="eta",
        scale=(("H", 500.0, 400.0),),
        between=4,
        derivatives=True,
        together=True,
    ),
]
"""Cases of the night in which windows get narrower from step to step, also where steps are computed together."""
NIGHTLY = [
    DomainCase(
        "numbers of all cells",
        lambda: Mixed(ds.Grid((19, 21), 0.5)),
        ((2, 1),),
        "f",
        "q",
        scale=(("k", 0.3, 0.1),),
        derivatives=True,
    ),
    DomainCase(
        "coefficients and series that are read far away",
        lambda: Driven(ds.Grid((24, 25), 0.5)),
        ((2, 1), (1, 2)),
        seen="q",
        scale=(("k", 0.3, 0.1),),
        wrt=("k", "q"),
        between=1,
    ),
    *(
        DomainCase(
            f"a stage of {name} that is read farther away than the state",
            staged_far(name, order),
            ((2, 1),),
            seen="q",
            scale=(("k", 2.0, 1.0),),
            wrt=("k", "q"),
            precision="f64",
            steps=7,
            between=3,
        )
        for name, order in (("k", 4), ("wind", 6), ("1", 8))
    ),
    DomainCase("sums in 3-D", lambda: Summed(ds.Grid((10, 7, 37), 0.5)), ((3, 1, 1),), seen="q", precision="f64", derivatives=True),
    DomainCase(
        "adaptive steps",
        lambda: Adaptive(ds.Grid((17, 23), 0.5)),
        ((3, 1),),
        seen="q",
        scale=(("end", 1.5, 0.0), ("time", 0.0, 0.0)),
        steps=17,
        derivatives=True,
    ),
    DomainCase(
        "acoustic with C-PML and a free surface",
        acoustic((17, 29), 4, boundary=(TOP_FREE, "zero"), layer=((0, 3), (5, 5)), layer_speed=2500.0, layer_frequency=25.0),
        ((1, 2),),
        "f",
        scale=SPEED,
    ),
    DomainCase(
        "acoustic order 8 with C-PML and a free surface",
        acoustic((29, 37), 8, boundary=(TOP_FREE, "zero"), layer=((0, 6), (6, 6)), layer_speed=2500.0, layer_frequency=25.0),
        ((1, 2), (2, 1)),
        "f",
        scale=SPEED,
    ),
    DomainCase(
        "shallow water with wetting",
        lambda: ds.solvers.ShallowWater(ds.Grid((24, 26), 1.0), 0.02, fastest=8.0),
        ((1, 2),),
        seen="eta",
        scale=(("qx", 0.0, 0.1), ("qy", 0.0, 0.1)),
        fields=(("z", beach), ("eta", wave)),
        precision="f64",
        steps=6,
        between=1,
    ),
    *(
        DomainCase(f"acoustic order {order} on {n} ranks", acoustic((n * order // 2 * 3 + 5, 23), order), ((n, 1),), "f", scale=SPEED)
        for order, n in ((2, 2), (2, 3), (4, 4), (6, 2), (8, 3), (2, 6), (2, 8))
    ),
    DomainCase("acoustic 1-D of prime size", acoustic((97,), 4), ((8,),), "f", scale=SPEED, between=1, derivatives=True),
    DomainCase(
        "acoustic 3-D",
        acoustic((13, 14, 17), 2, layer=3, layer_speed=2500.0, layer_frequency=25.0),
        ((2, 2, 2), (1, 2, 4)),
        "f",
        scale=SPEED,
        between=1,
    ),
    DomainCase(
        "acoustic 3-D order 8 with a free surface",
        acoustic((19, 18, 23), 8, boundary=(TOP_FREE, "zero", "zero"), layer=((0, 4), 4, 4), layer_speed=2500.0, layer_frequency=25.0),
        ((1, 1, 2), (2, 1, 1), (1, 2, 1)),
        "f",
        scale=SPEED,
        steps=7,
    ),
    DomainCase(
        "acoustic in f64 with all derivatives",
        acoustic((31, 29), 4),
        ((3, 2), (2, 3), (6, 1)),
        "f",
        scale=SPEED,
        precision="f64",
        between=1,
        derivatives=True,
    ),
    DomainCase(
        "elastic with C-PML and a free surface",
        lambda: ds.solvers.Elastic(
            ds.Grid((26, 31), 10.0), 1e-3, 4, layer=((0, 5), (5, 5)), layer_speed=3000.0, layer_frequency=25.0, surface=True
        ),
        ((1, 2), (2, 1)),
        seen="vx",
        scale=(("vp", 3000.0, 300.0), ("vs", 1500.0, 200.0), ("rho", 2200.0, 200.0)),
    ),
    DomainCase(
        "elastic 3-D",
        lambda: ds.solvers.Elastic(ds.Grid((14, 13, 15), 10.0), 1e-3, 2),
        ((2, 1, 2), (1, 2, 2)),
        seen="vx",
        scale=(("vp", 3000.0, 300.0), ("vs", 1500.0, 200.0), ("rho", 2200.0, 200.0)),
        steps=7,
        between=1,
    ),
    DomainCase(
        "Maxwell with a layer",
        lambda: ds.solvers.Maxwell(ds.Grid((26, 28), 0.1), 0.05, "TE", layer=5),
        ((2, 2), (4, 1), (1, 4)),
        "Jx",
        "Hz",
        scale=(("eps", 2.0, 0.5),),
    ),
    DomainCase(
        "heat 3-D",
        lambda: ds.solvers.Heat(ds.Grid((9, 11, 13), 0.5), 0.05, "zero"),
        ((2, 2, 2), (2, 1, 4), (1, 1, 8)),
        "q",
        "T",
        scale=(("kappa", 0.3, 0.1),),
        between=1,
    ),
    DomainCase(
        "long waves on the sphere",
        lambda: ds.solvers.LongWave(ds.Grid((19, 26), 0.01, (48.0, 234.0), ("lat", "lon")), 2.0, "sphere", sponge=4),
        ((3, 2), (2, 3), (1, 6)),
        seen="eta",
        scale=(("H", 500.0, 400.0),),
        between=1,
        derivatives=True,
    ),
    DomainCase(
        "gas between sides that it flows through",
        lambda: ds.solvers.Euler(
            ds.Grid((26, 24), 1.0),
            0.05,
            sides=(("reservoir", "freestream"), ("inflow", "outflow")),
            method="euler",
            gravity=(-0.01, 0.0),
        ),
        ((1, 2), (2, 1)),
        seen="p",
        scale=(
            *((name, 1.0, 0.1) for name in ("rho", "p", "rho_low_y", "p_low_y", "rho_high_y", "p_high_y", "rho_low_x", "p_high_x")),
            *((name, 0.1, 0.1) for name in ("u", "v", "u_low_x", "v_low_x", "u_high_y", "v_high_y")),
        ),
        steps=6,
        between=1,
    ),
    DomainCase(
        "shallow water with friction",
        lambda: ds.solvers.ShallowWater(ds.Grid((26, 41), 1.0), 0.02, drag="manning", fastest=8.0),
        ((1, 2),),
        seen="eta",
        scale=(("qx", 0.0, 0.1), ("qy", 0.0, 0.1), ("manning", 0.05, 0.02)),
        fields=(("z", beach), ("eta", wave)),
        steps=9,
        between=1,
    ),
]
"""Cases of the night."""
