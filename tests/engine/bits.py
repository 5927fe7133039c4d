"""Run kernels of each kind with an engine and write their results to a file. A process of its own, which names the engine.

Usage: DIFFSIM_ENGINE=quadrants python -m tests.engine.bits PRECISION FILE KIND [NAME...]; all names of a kind, where none are given.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Container, Iterator
from typing import Any

import numpy as np

import diffsim as ds
import diffsim.numpy as dnp
from tests.ad.userkernel import accepted
from tests.ad.userkernel.inputs import inputs_of
from tests.cases import CASES
from tests.kernels.run_all import everything, flat
from tests.steps import STEPS
from tests.steps.step import direction, weights
from tests.tile import programs
from tests.tile.agree import leaves, of_some, pulled_back, random_like, stacked
from tests.tile.programs.cases import tiles

Results = Iterator[tuple[str, list[np.ndarray]]]


def _of(simulation: ds.Simulation, inputs: dict[str, np.ndarray], steps: int) -> list[np.ndarray]:
    """Solution, gradient and tangent of a simulation."""
    rng = np.random.default_rng(3)
    solution, pullback = simulation.vjp(inputs, steps)
    gradient = pullback(weights(rng, solution))
    _, moved = simulation.jvp(inputs, direction(rng, inputs), steps)
    parts = (solution.final, solution.traces, gradient, moved.final, moved.traces)
    return [np.asarray(values) for fields in parts for values in fields.values()]


def cases(precision: str, names: Container[str]) -> Results:
    for case in CASES:
        if case.name in names:
            simulation = case.simulation(precision)
            yield case.name, _of(simulation, case.inputs(simulation, np.random.default_rng(3)), case.steps)


def steps(precision: str, names: Container[str]) -> Results:
    for step in STEPS:
        if step.name in names:
            yield step.name, _of(step.simulation(precision), step.all_inputs(), step.steps)


def arrays(precision: str, names: Container[str]) -> Results:
    """Scans, reductions and histograms of plain arrays."""
    for name, call in everything(precision.replace("f32", "f4").replace("f64", "f8"), "i4"):
        if name in names:
            yield name, flat(call())


def blocks(precision: str, names: Container[str]) -> Results:
    """Programs of tiles, products of matrices among them, and their cotangents."""
    for case in programs.CASES:
        if str(case) in names:
            parts = tiles(case)
            args = [stacked([part[k] for part in parts]) for k in range(len(parts[0]))]
            every = ds.tile.map(case.bind(dnp, ds))
            chosen = of_some(every, args, case.wrt)
            wanted = [args[k] for k in case.wrt]
            values = every(*copy.deepcopy(args))
            bars = pulled_back(chosen, wanted, random_like(values, np.random.default_rng(3)))
            yield str(case), [np.asarray(leaf) for leaf in (*leaves(values), *leaves(bars))]


def users(precision: str, names: Container[str]) -> Results:
    """Kernels of users and their derivatives by the engine."""
    for kernel in accepted.KERNELS:
        if kernel.__name__ in names:
            inputs = list(kernel.signature.convert(inputs_of(kernel)).values())
            outputs = kernel.evaluate(inputs)
            bars = kernel.pullback(inputs, outputs, [np.ones_like(output) for output in outputs])
            yield kernel.__name__, [*outputs, *(bar for bar in bars if bar is not None)]


KINDS: dict[str, Callable[[str, Container[str]], Results]] = {each.__name__: each for each in (cases, steps, arrays, blocks, users)}


class _All:
    def __contains__(self, name: str) -> bool:
        return True


def main() -> None:
    precision, file, kind, *names = sys.argv[1:]
    ds.init(arch="cpu", precision=precision)
    arrays: dict[str, Any] = {}
    for name, results in KINDS[kind](precision, names or _All()):
        arrays |= {f"{name}: {number}": values for number, values in enumerate(results)}
    np.savez(file, **arrays)


if __name__ == "__main__":
    main()
