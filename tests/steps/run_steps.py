"""Run steps and their gradients on a given arch and write all numbers to a file. A process of its own: Taichi is initialised once.

Usage: python -m tests.steps.run_steps ARCH THREADS PRECISION FILE NAME...
"""

from __future__ import annotations

import sys

import numpy as np

import diffsim as ds
from tests.steps import STEPS
from tests.steps.step import Fields, Step, weights


def numbers(step: Step, precision: str = "f64", checkpoint: object = "auto") -> Fields:
    """Solution and gradient of a loss with random weights."""
    solution, pullback = step.simulation(precision).vjp(step.all_inputs(), step.steps, checkpoint)  # type: ignore[arg-type]
    gradient = pullback(weights(np.random.default_rng(3), solution))
    parts = {"final": solution.final, "traces": solution.traces, "gradient": gradient}
    return {f"{step.name}: {part} {name}": values for part, fields in parts.items() for name, values in fields.items()}


def main() -> None:
    arch, threads, precision, file, *names = sys.argv[1:]
    ds.init(arch=arch, threads=int(threads) if threads != "-" else None, precision=precision)
    arrays: Fields = {}
    for step in STEPS:
        if step.name in names:
            arrays |= numbers(step, precision)
    np.savez(file, **arrays)


if __name__ == "__main__":
    main()
