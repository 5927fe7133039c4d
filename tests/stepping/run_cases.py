"""Run cases on a given arch and print, as JSON, a digest and the error against NumPy of each. A process of its own: Taichi is initialised
once.

Usage: python -m tests.stepping.run_cases ARCH THREADS PRECISION NAME...

THREADS is "-" for a GPU, or "wide" to have the source of wide grids on the small ones of the cases.
"""

from __future__ import annotations

import hashlib
import json
import sys

import numpy as np

import diffsim as ds
from diffsim.stepping.source import device
from tests.cases import CASES, Case
from tests.reference import Reference


def outputs(case: Case, precision: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Solution and gradient by the kernels, and by NumPy in f64."""
    rng = np.random.default_rng(3)
    simulation = case.simulation(precision)
    inputs = case.inputs(simulation, rng)
    solution, pullback = simulation.vjp(inputs, case.steps)
    weights = ds.Solution(
        {k: rng.normal(size=v.shape) for k, v in solution.final.items()}, {k: rng.normal(size=v.shape) for k, v in solution.traces.items()}
    )
    gradient = pullback(weights)
    reference = Reference(simulation)
    expected = reference.forward(inputs, case.steps)
    names = [f"final {k}" for k in solution.final] + [f"traces {k}" for k in solution.traces] + [f"gradient {k}" for k in gradient]
    expected_gradient = reference.adjoint(weights)
    computed = [*solution.final.values(), *solution.traces.values(), *gradient.values()]
    wanted = [*expected.final.values(), *expected.traces.values(), *(expected_gradient[k] for k in gradient)]
    return dict(zip(names, computed, strict=True)), dict(zip(names, wanted, strict=True))


def main() -> None:
    arch, threads, precision, *names = sys.argv[1:]
    if threads == "wide":
        device.WIDE = 1
    ds.init(arch=arch, threads=int(threads) if threads.isdecimal() else None, precision=precision)
    report = {}
    for case in CASES:
        if case.name in names or not names:
            computed, wanted = outputs(case, precision)
            digest = hashlib.sha256(b"".join(v.tobytes() for v in computed.values())).hexdigest()
            error = max(float(np.abs(computed[k] - wanted[k]).max() / max(np.abs(wanted[k]).max(), 1e-30)) for k in computed)
            report[case.name] = digest, error
    print("RESULT " + json.dumps(report))


if __name__ == "__main__":
    main()
