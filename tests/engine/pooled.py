"""Gives objects of every kind to forked workers of pools, and prints for each object and way the result. Run as a script."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing.pool import Pool
from typing import Any

import numpy as np
import taichi as ti

import diffsim as ds
import diffsim.numpy as dn

LIMIT = 20.0
GRID = ds.Grid((20,), 0.05)
INPUTS = {"kappa": np.full(20, 8e-3), "T": np.arange(20.0)}


@ds.kernel(reads=("x",), writes={"y": "x"})
def doubled(x: ti.types.ndarray(dtype=ti.f64, ndim=1), y: ti.types.ndarray(dtype=ti.f64, ndim=1)):  # type: ignore
    for i in range(x.shape[0]):
        y[i] = 2.0 * x[i]


def halved(tile: Any) -> Any:
    return 0.5 * tile


def heat() -> ds.Simulation:
    return ds.Simulation(ds.solvers.Heat(GRID, dt=0.1), receivers={"T": [[0.5]]}, wrt=["kappa"])


def loss(simulation: ds.Simulation, kappa: Any) -> Any:
    return dn.sum(simulation.run({"kappa": kappa, "T": INPUTS["T"]}, 5).traces["T"] ** 2)


class Held:
    """An object of a user, with a simulation inside."""

    def __init__(self, simulation: ds.Simulation) -> None:
        self.simulation = simulation


def run(thing: Any) -> Any:
    return thing.run(INPUTS, 5)


CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "simulation": (heat, run),
    "repr": (heat, repr),
    "attribute": (heat, lambda s: s.precision),
    "method": (lambda: heat().run, lambda f: f(INPUTS, 5)),
    "tangent": (lambda: heat().tangent(), run),
    "batch": (lambda: ds.Batch(heat(), 2), run),
    "batch of it": (heat, lambda s: ds.Batch(s, 2)),
    "held": (lambda: Held(heat()), lambda held: run(held.simulation)),
    "in a list": (lambda: [heat(), {"second": heat()}], lambda both: run(both[1]["second"])),
    "partial": (lambda: partial(loss, heat()), lambda f: f(INPUTS["kappa"])),
    "gradient": (lambda: ds.grad(partial(loss, heat())), lambda f: f(INPUTS["kappa"])),
    "plan": (heat, lambda s: ds.plan(s, steps=5)),
    "equation": (lambda: ds.solvers.Heat(GRID, dt=0.1), ds.Simulation),
    "tiles": (lambda: halved, lambda f: ds.tile.map(f)(np.ones((4, 2, 2)))),
    "kernel": (lambda: doubled, lambda k: k(np.ones(3))),
    "scene": (lambda: ds.Scene.load("heat_mri"), lambda scene: scene.problem()),
    "again": (heat, lambda s: s),
}


def use(name: str, thing: Any) -> Any:
    return CASES[name][1](thing)


def mapped(pool: Pool, name: str, thing: Any) -> Any:
    return pool.starmap_async(use, [(name, thing)]).get(LIMIT)[0]


def applied(pool: Pool, name: str, thing: Any) -> Any:
    return pool.apply_async(use, (name, thing)).get(LIMIT)


def imapped(pool: Pool, name: str, thing: Any) -> Any:
    return pool.imap(partial(use, name), [thing]).next(LIMIT)


def executed(name: str, thing: Any) -> Any:
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(use, name, thing).result(LIMIT)


def outcome(call: Callable[[], Any]) -> str:
    try:
        result = call()
    except Exception as error:  # its message is the result
        return f"{type(error).__name__}: {error}"
    return (
        f"{type(result).__name__} in {len(run(result).traces['T']) - 1} steps"
        if isinstance(result, ds.Simulation)
        else type(result).__name__
    )


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")  # Python warns of forks beside threads
    ds.init(threads=1)
    heat().run(INPUTS, 5)
    for name in names or CASES:
        thing = CASES[name][0]()
        with multiprocessing.get_context("fork").Pool(1) as pool:
            ways = {way.__name__: outcome(partial(way, pool, name, thing)) for way in (mapped, applied, imapped)}
        print(json.dumps({name: ways | {"executed": outcome(partial(executed, name, thing))}}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
