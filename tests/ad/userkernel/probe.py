"""Differentiates every refused kernel all the same, each in a process of its own, and prints what came of it as JSON.

Run as a script. It forks before Taichi is started, so that a case costs no new import.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys

from diffsim import engine
from diffsim.ad.userkernel.check import compare
from diffsim.errors import DivergenceError, KernelError
from tests.ad.userkernel import refused
from tests.ad.userkernel.inputs import inputs_of

SECONDS = 60


def outcome(kernel) -> str:
    """The outcome of differentiating a kernel without its findings."""
    engine.init(arch="cpu", precision="f64", threads=1)
    kernel.findings.clear()
    inputs = inputs_of(kernel)
    bars = [1.0] * len(kernel.signature.outputs)
    try:
        outputs = kernel.evaluate(inputs)
        kernel.pullback(inputs, outputs, [bar * (o * 0 + 1) for bar, o in zip(bars, outputs, strict=True)])
    except DivergenceError:
        return "wrong"
    except KernelError:
        return "raises"
    return "right" if compare(kernel, inputs, 3, 0, None).passed else "wrong"


def start(kernel) -> tuple[str, int, int]:
    """Fork a process for a kernel: its name, process and pipe."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(writing, outcome(kernel).encode())
        os._exit(0)
    os.close(writing)
    return kernel.__name__, child, reading


def main() -> None:
    """Two at a time."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    outcomes = {}
    for first in range(0, len(refused.KERNELS), 2):
        for name, child, reading in [start(kernel) for kernel in refused.KERNELS[first : first + 2]]:
            with os.fdopen(reading) as pipe:
                said = pipe.read()
            _, status = os.waitpid(child, 0)
            outcomes[name] = "crash" if os.WIFSIGNALED(status) else said
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
