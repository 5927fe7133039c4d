"""Differentiates every refused kernel all the same, each in a process of its own, and prints what came of it as JSON.

Run as a script. It forks before Taichi is started, so that a case costs no new import.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys

from diffsim import runtime
from diffsim.ad.userkernel.check import compare
from diffsim.errors import DivergenceError, KernelError
from tests.ad.userkernel import refused
from tests.ad.userkernel.inputs import inputs_of

SECONDS = 60


def outcome(kernel) -> str:
    """What differentiating a kernel comes to when its findings are thrown away."""
    runtime.init(arch="cpu", precision="f64", threads=1)
    kernel.report.findings.clear()
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


def main() -> None:
    """Fork, run, collect."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    found = {}
    for kernel in refused.KERNELS:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(SECONDS)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.write(writing, outcome(kernel).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        found[kernel.__name__] = "crash" if os.WIFSIGNALED(status) else said
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
