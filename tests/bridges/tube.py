"""A simulation with inputs of every kind, for the tests of bridges."""

from __future__ import annotations

import numpy as np

import diffsim as ds

STEPS = 12


def tube(precision: str = "f64", wrt: tuple[str, ...] | None = None, cells: int = 9) -> ds.Simulation:
    """Sound between a piston and a wall: a parameter, initial states, a forcing and a series, recorded at two places."""
    wave = ds.solvers.Acoustic(
        ds.Grid((cells,), spacing=10.0),
        dt=2e-3,
        order=2,
        boundary=((ds.Dirichlet("piston"), "zero"),),
        series={"piston": ds.Variable(axes=())},
    )
    return ds.Simulation(wave, sources={"f": [[30.0]]}, receivers={"p": [[20.0], [55.0]]}, precision=precision, wrt=wrt)


def rod(precision: str = "f64") -> ds.Simulation:
    """Heat in a rod with two lamps, whose runs can be computed together."""
    heat = ds.solvers.Heat(ds.Grid((9,), spacing=10.0), dt=0.01)
    return ds.Simulation(heat, sources={"q": [[30.0], [44.0]]}, receivers={"T": [[20.0], [55.0]]}, precision=precision)


def inputs_of(simulation: ds.Simulation, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs whose gradients are of order 1."""
    rng = np.random.default_rng(seed)
    fields = {name: rng.standard_normal(simulation.input_shape(name, STEPS)) for name in simulation.inputs}
    scaled = {"c": lambda value: 2000 + 200 * value, "kappa": lambda value: 1000 + 100 * value}
    return {name: scaled.get(name, lambda value: value)(value).astype(simulation.dtype) for name, value in fields.items()}


def cotangents_of(solution: ds.Solution, seed: int = 1) -> ds.Solution:
    """Random cotangents of every part of a solution."""
    rng = np.random.default_rng(seed)
    parts = solution.final, solution.traces
    return ds.Solution(*({name: rng.standard_normal(value.shape).astype(value.dtype) for name, value in part.items()} for part in parts))
