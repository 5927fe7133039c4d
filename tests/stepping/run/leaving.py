"""Run a gradient with workers that leave their launches, and print how many launches were left, and a digest of the bits.

Usage: python -m tests.stepping.run.leaving THREADS PATIENCE STRIKES: looks at a gate before a worker leaves, and left launches in a row
before one worker goes on alone. There may be more threads than cores.
"""

from __future__ import annotations

import hashlib
import json
import sys

import numpy as np

import diffsim as ds
from diffsim.checkpoint import Binomial
from diffsim.engine import session
from diffsim.stepping.derive import programs
from diffsim.stepping.run import pace
from diffsim.stepping.source import barrier
from tests.cases import CASES

CASE = "staggered acoustic 2-D mirror"
SLOTS = 3


def main(threads: int, patience: int, strikes: int) -> None:
    session.usable_cores = lambda: threads  # type: ignore[attr-defined]
    barrier.PATIENCE, pace.STRIKES = patience, strikes
    programs.LARGE = 0  # states are overwritten, as on large grids
    ds.init(threads=threads, precision="f64")
    launches = {False: 0, True: 0}
    note = pace.Pace.note

    def counted(self: pace.Pace, steps: int, seconds: float, left: bool = False) -> None:
        launches[left] += 1
        note(self, steps, seconds, left)

    pace.Pace.note = counted  # type: ignore[method-assign]
    case = next(case for case in CASES if case.name == CASE)
    simulation = case.simulation()
    rng = np.random.default_rng(0)
    solution, pullback = simulation.vjp(case.inputs(simulation, rng), case.steps, Binomial(case.steps, SLOTS))
    gradient = pullback(ds.Solution(traces={name: rng.normal(size=trace.shape) for name, trace in solution.traces.items()}))
    digest = hashlib.sha256()
    for arrays in (solution.final, solution.traces, gradient):
        for values in arrays.values():
            digest.update(values.tobytes())
    print(json.dumps({"left": launches[True], "whole": launches[False], "digest": digest.hexdigest()}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
