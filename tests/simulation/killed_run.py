"""A gradient that is killed in its reverse sweep, or goes on where another process was.

Usage: python -m tests.simulation.killed_run FOLDER SCHEDULE KILL_BELOW [LOSS]: prints digests of gradient and
solution, and how many steps were reversed.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import diffsim as ds
from diffsim.checkpoint import Advance, Binomial, MultiTier, Policy, Reverse
from tests.simulation import chaotic

STEPS = 400
SCHEDULES: dict[str, Any] = {
    "binomial": Binomial(STEPS, 4),
    "auto": "auto",
    "disk": MultiTier(STEPS, [("device", 2, 0, 0), ("disk", 8, 2.0, 1.0)]),
}


def main() -> None:
    folder, name, below = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    warnings.simplefilter("ignore")
    ds.init(arch="cpu", precision="f64")
    model, reversed_steps, advanced = chaotic.simulation(), 0, 0

    def watch(action: object) -> None:
        nonlocal reversed_steps, advanced
        if isinstance(action, Reverse):
            reversed_steps += action.stop - action.start
            if action.start < below:
                os.kill(os.getpid(), signal.SIGKILL)
        elif isinstance(action, Advance):
            advanced += action.stop - action.start

    policy = Policy(schedule=SCHEDULES[name], folder=folder, resume=1e-9)
    solution, pullback = model.vjp(chaotic.inputs(model, STEPS), STEPS, policy, watch)
    bars = chaotic.cotangents(solution)
    if len(sys.argv) > 4:
        bars = ds.Solution({k: 2 * v for k, v in bars.final.items()}, bars.traces)
    gradient = pullback(bars)
    digest = hashlib.blake2b(b"".join(gradient[n].tobytes() for n in sorted(gradient)), digest_size=12).hexdigest()
    traces = hashlib.blake2b(solution.traces["u"].tobytes() + solution.final["v"].tobytes(), digest_size=12).hexdigest()
    print(digest, traces, reversed_steps)


if __name__ == "__main__":
    main()
