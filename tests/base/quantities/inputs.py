"""The inputs of the library that take arrays or numbers, each with its unit and dimensions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import diffsim as ds
from diffsim.expr import diff, laplacian
from diffsim.losses import HuberMisfit, L2Misfit, Tikhonov
from diffsim.records import ZeroPhaseFilter
from tests.base.quantities.members import Target

ds.init(arch="cpu", precision="f64")  # as for all tests
SIDE, STEPS, DT = 5, 4, 0.25
ONCE = {"": (1.0, 0.0)}
METRES = {"m": (1.0, 0.0), "km": (1e3, 0.0), "cm": (1e-2, 0.0)}
SECONDS = {"s": (1.0, 0.0), "ms": (1e-3, 0.0)}
KELVIN = {"K": (1.0, 0.0), "°C": (1.0, 273.15)}
DIFFERENCES = {"K": (1.0, 0.0), "°C": (1.0, 0.0)}
DIFFUSIVITY = {"m²/s": (1.0, 0.0), "mm²/s": (1e-6, 0.0)}


class Soil(ds.Equation):
    """Heat and the flux of water through it: with fields on faces, of one axis, of time, and a number."""

    forcings = ("q",)

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, DT
        self.states = {"T": ds.Variable("mirror", unit="K"), "v": ds.Variable("zero", (0, 1), unit="m/s")}
        self.parameters = {
            "kappa": ds.Variable("mirror", unit="m²/s"),
            "wind": ds.Variable("zero", (0, 1), unit="m/s"),
            "decay": ds.Variable(axes=(1,), unit="1/s"),
            "share": ds.Variable(axes=()),
        }
        self.series = {"sun": ds.Variable(axes=(1,), unit="K/s"), "lamp": ds.Variable(axes=(), unit="K/s")}

    def step(self, T: Any, v: Any, kappa: Any, wind: Any, decay: Any, share: Any, sun: Any, lamp: Any, q: Any) -> dict[str, Any]:
        v = 0.5 * v + wind - 0.1 * diff(T, 1)
        slope = self.dt * (kappa * laplacian(T) - decay * T - 0.1 * diff(v, 1) + share * sun + lamp + q)
        return {"T": T + slope, "v": v}


@cache
def grid() -> ds.Grid:
    return ds.Grid((SIDE, SIDE), spacing=(10.0, 20.0), origin=(5.0, -20.0), axes=("z", "x"))


@cache
def soil() -> ds.Simulation:
    return ds.Simulation(Soil(grid()), sources={"q": [[15.0, 0.0], [25.0, 20.0]]}, receivers={"T": [[25.0, 10.0], [40.0, 55.0]]})


@cache
def pair() -> ds.Batch:
    return ds.Batch(soil(), 2)


@cache
def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    values = {name: rng.uniform(0.5, 1.5, soil().input_shape(name, STEPS)) for name in soil().inputs}
    return values | {"T": 280 + 10 * values["T"]}


def traces(solution: ds.Solution) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in (*solution.traces.values(), *solution.final.values())])


def run(name: str) -> Callable[[Any], Any]:
    return lambda value: traces(soil().run(inputs() | {name: value}, STEPS))


def gradients(name: str) -> Callable[[Any], Any]:
    def take(value: Any) -> Any:
        _, gradient = soil().value_and_grad(lambda solution: (solution.traces["T"] ** 2).sum(), inputs() | {name: value}, STEPS)
        return np.concatenate([np.ravel(gradient[each]) for each in soil().wrt])

    return take


def recorded(value: Any) -> Any:
    def loss(kappa: Any) -> Any:
        return (soil().run(inputs() | {"T": value, "kappa": kappa}, STEPS).final["T"] ** 2).sum()

    return ds.grad(loss)(inputs()["kappa"])


def tangent(name: str) -> Callable[[Any], Any]:
    return lambda value: traces(soil().jvp(inputs(), {name: value}, STEPS)[1])


def pulled(part: str, name: str) -> Callable[[Any], Any]:
    def take(value: Any) -> Any:
        _, pullback = soil().vjp(inputs(), STEPS)
        return pullback(ds.Solution(**{part: {name: value}}))["kappa"]

    return take


def batched(name: str) -> Callable[[Any], Any]:
    return lambda value: traces(pair().run(inputs() | {name: value}, STEPS))


def placed(kind: str, plain: bool = True) -> Callable[[Any], Any]:
    def take(value: Any) -> Any:
        soil().move(**{kind: {"q" if kind == "sources" else "T": value if plain else ds.Points(value)}})
        try:
            return traces(soil().run(inputs(), STEPS))
        finally:
            soil().move({"q": [[15.0, 0.0], [25.0, 20.0]]}, {"T": [[25.0, 10.0], [40.0, 55.0]]})

    return take


def _sources_of_runs(value: Any) -> Any:
    pair().move({"q": value})
    try:
        return traces(pair().run(inputs(), STEPS))
    finally:
        pair().move({"q": [[15.0, 0.0], [25.0, 20.0]]})


def _dataset(value: Any) -> Any:
    return soil().to_xarray(inputs={"kappa": value})["input_kappa"].values


def _misfit(value: Any = None, **options: Any) -> float:
    data = np.arange(15.0).reshape(5, 3) ** 2 if value is None else value
    return float(L2Misfit(data, unit="K", **options)(np.full((5, 3), 2.0)))


def through_torch(value: Any) -> Any:
    from diffsim.torch import run

    return run(soil(), inputs() | {"kappa": value}, STEPS).final["T"].numpy()


def through_jax(value: Any) -> Any:
    import jax

    from diffsim.jax import run

    with jax.enable_x64(True):
        return np.asarray(run(soil(), inputs() | {"kappa": value}, STEPS).final["T"])


def targets() -> list[Target]:
    """All inputs."""
    z, x, faces = grid().coordinates(0), grid().coordinates(1), grid().coordinates(1, 1)
    at, on_faces, plain, rng = {"z": z, "x": x}, {"z": z, "x": faces}, inputs(), np.random.default_rng(1)
    t, samples = {"time": DT * np.arange(STEPS)}, {"time": DT * np.arange(STEPS + 1)}
    rates, none = {"1/s": (1.0, 0.0), "1/min": (1 / 60, 0.0)}, ("z", "x")
    speeds, powers = {"m/s": (1.0, 0.0), "km/s": (1e3, 0.0)}, {"K/s": (1.0, 0.0), "K/min": (1 / 60, 0.0)}
    both, places = np.stack([plain["kappa"], 2 * plain["kappa"]]), np.array([[15.0, 20.0], [25.0, 0.0], [30.0, 40.0]])
    return [
        Target("grid spacing", 12.5, "m", METRES, (), {}, lambda v: ds.Grid((3, 4), v).spacing),
        Target("grid spacing", np.array([10.0, 20.0]), "m", METRES, (), {}, lambda v: ds.Grid((3, 4), v).spacing),
        Target("grid origin", np.array([10.0, 20.0]), "m", METRES, (), {}, lambda v: ds.Grid((3, 4), 1.0, v).origin),
        Target("grid faces", np.array([1.0, 2.0, 4.0]), "m", METRES, ("x",), {}, lambda v: ds.Grid.from_faces((v,)).coordinates(0)),
        Target("dt", 0.01, "s", SECONDS, (), {}, lambda v: ds.solvers.Heat(grid(), v).dt),
        Target("layer_speed", 3e3, "m/s", speeds, (), {}, lambda v: _layer(layer_speed=v)),
        Target("layer_frequency", 20.0, "Hz", {"Hz": (1.0, 0.0), "kHz": (1e3, 0.0)}, (), {}, lambda v: _layer(layer_frequency=v)),
        Target(
            "sponge_speed",
            3e3,
            "m/s",
            speeds,
            (),
            {},
            lambda v: ds.solvers.Acoustic(grid(), 1e-3, sponge=2, sponge_speed=v).profiles["damp0"].values,
        ),
        Target("lowpass", 10.0, "Hz", {"Hz": (1.0, 0.0), "kHz": (1e3, 0.0)}, (), {}, lambda v: ZeroPhaseFilter(0.01, 20, lowpass=v).gain),
        Target("input kappa", plain["kappa"], "m²/s", DIFFUSIVITY, none, at, run("kappa")),
        Target("input kappa", plain["kappa"], "m²/s", DIFFUSIVITY, none, at, gradients("kappa")),
        Target("input kappa", plain["kappa"], "m²/s", DIFFUSIVITY, none, at, through_torch),
        Target("input kappa", plain["kappa"], "m²/s", DIFFUSIVITY, none, at, through_jax),
        Target("input T", plain["T"], "K", KELVIN, none, at, run("T")),
        Target("input T", plain["T"], "K", KELVIN, none, at, recorded),
        Target("input wind", plain["wind"], "m/s", speeds, none, on_faces, run("wind")),
        Target("input decay", plain["decay"], "1/s", rates, ("x",), {"x": x}, run("decay")),
        Target("input share", 0.75, "", ONCE | {"%": (0.01, 0.0)}, (), {}, run("share")),
        Target("input sun", plain["sun"], "K/s", powers, ("time", "x"), t | {"x": x}, run("sun")),
        Target("input lamp", plain["lamp"], "K/s", powers, ("time",), t, gradients("lamp")),
        Target("input q", plain["q"], "", ONCE, ("time", "source"), t, run("q")),
        Target("input T dot", rng.normal(size=(SIDE, SIDE)), "K", DIFFERENCES, none, at, tangent("T")),
        Target("cotangent of final T", rng.normal(size=(SIDE, SIDE)), "", ONCE, none, at, pulled("final", "T")),
        Target("cotangent of traces T", rng.normal(size=(STEPS + 1, 2)), "", ONCE, ("time", "receiver"), samples, pulled("traces", "T")),
        Target("input kappa", both, "m²/s", DIFFUSIVITY, ("run", "z", "x"), at, batched("kappa")),
        Target("input kappa", plain["kappa"], "m²/s", DIFFUSIVITY, none, at, batched("kappa")),
        Target("source of q", places[:2], "m", METRES, ("source", "axis"), {}, placed("sources")),
        Target("receiver of T", places[:2], "m", METRES, ("receiver", "axis"), {}, placed("receivers")),
        Target("receiver of T", places[:2], "m", METRES, ("receiver", "axis"), {}, placed("receivers", plain=False)),
        Target("sources of q", np.stack([places[:2], places[1:]]), "m", METRES, ("run", "source", "axis"), {}, _sources_of_runs),
        Target("kappa", plain["kappa"], "m²/s", DIFFUSIVITY, none, at, _dataset),
        Target("spacing", np.array([2.0, 3.0]), "m", METRES, (), {}, lambda v: Tikhonov(1.0, v, order=1)(plain["kappa"])),
        Target("data", rng.uniform(1, 2, (5, 3)), "K", {"K": (1.0, 0.0), "mK": (1e-3, 0.0)}, ("time", "receiver"), {}, _misfit),
        Target("weight", rng.uniform(1, 2, (5, 3)), "K**-2", {"1/K**2": (1.0, 0.0)}, ("time", "receiver"), {}, lambda v: _misfit(weight=v)),
        Target(
            "delta", 0.5, "K", {"K": (1.0, 0.0), "mK": (1e-3, 0.0)}, (), {}, lambda v: HuberMisfit(np.ones(3), v, unit="K")(np.zeros(3))
        ),
        Target(
            "x0", np.array([1.0, 2.0]), "", ONCE, (), {}, lambda v: ds.optimize.minimise(lambda x: ((x**2).sum(), 2 * x), v, iterations=1).x
        ),
        Target("bounds", np.array([1.0, 2.0]), "", ONCE, (), {}, _bounded),
        Target("values", plain["T"], "K", KELVIN, none, at, _drawn),
    ]


def _layer(**options: Any) -> Any:
    wave = ds.solvers.Acoustic(grid(), 1e-3, order=2, layer=2, **{"layer_speed": 3e3, "layer_frequency": 20.0} | options)
    return [wave.layer.speed, wave.layer.frequency]


def _bounded(value: Any) -> Any:
    from diffsim.optimize.method import make_box

    return make_box([(value[0], None), (value[1], 9.0)], 2).lower


def _drawn(value: Any) -> Any:
    from diffsim.plot.given import over_grid

    return over_grid("values", value, grid(), "K")[""]
