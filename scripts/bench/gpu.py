"""diffsim on a GPU: `python scripts/bench/gpu.py [--arch cuda|vulkan] [--quick] [--out FILE.json]`.

The speed of a step is compared with the bandwidth that a copy reaches: the least that a step of acoustics moves is three values read and
one written for each cell. All times are by the clock, and wait for the device at both ends. A dispatch is a kernel that the device starts;
one launch of diffsim's has those of several steps. Vulkan has f32 alone.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from common import HEADER, Figure, machine, median, row
from scene import DT, DX, receivers_of, speed_of, wavelet_of

import diffsim as ds
from diffsim.checkpoint import StoreAll
from diffsim.engine import backend, clock, language, shared_kernel
from diffsim.stepping.source.device import UNROLL

BANDWIDTH_TARGET = 0.75
VALUES_A_CELL = 4
"""Traffic of a step of acoustics: the pressure, the one before and the coefficient are read, and the next pressure is written."""
SLOTS = 20
COPY = """
@ti.kernel
def copy(source: Values, target: Values):
    for i in source:
        target[i] = source[i]
"""


def seconds(call: Callable[[], object], turns: int) -> float:
    """Median time of a call, after one to warm up."""
    durations = []
    for turn in range(turns + 1):
        begin = clock()
        call()
        if turn:
            durations.append(clock() - begin)
    return median(durations)


def bandwidth(values: int, turns: int) -> float:
    """Bytes per second that a copy of `values` f32 reads and writes."""
    source, target = (backend().memory.allocate((values,), np.float32, flat=True).data for _ in range(2))
    copy = shared_kernel(COPY, "copy", None, lambda: {"Values": language().types.ndarray(dtype=language().f32, ndim=1)})

    def copies() -> None:
        for _ in range(10):
            copy(source, target)

    return 10 * 2 * 4 * values / seconds(copies, turns)


def acoustic(n: int, order: int, precision: str, steps: int) -> tuple[ds.Simulation, dict[str, np.ndarray]]:
    at, first, step, count = receivers_of(n)
    receivers = [(at * DX, (first + step * r) * DX) for r in range(count)]
    equation = ds.solvers.Acoustic(ds.Grid((n, n), DX), DT, order=order)  # type: ignore[arg-type]
    sources = {"f": [(n // 2 * DX, n // 2 * DX)]}
    simulation = ds.Simulation(equation, sources=sources, receivers={"p": receivers}, wrt=["c"], precision=precision)  # type: ignore[arg-type]
    return simulation, {"c": speed_of(n), "f": wavelet_of(steps)[:, None]}


def loop_seconds(simulation: ds.Simulation, inputs: dict[str, np.ndarray], steps: int, turns: int) -> float:
    """Time of the steps alone, without checks, coefficients and copies."""
    compiled = simulation._compiled
    fields = compiled.checked(inputs, steps)
    durations = []
    for turn in range(turns + 1):
        compiled.start(fields, steps)
        begin = clock()
        compiled.stepper.advance(0, steps)
        if turn:
            durations.append(clock() - begin)
    return median(durations)


def forward(n: int, precision: str, steps: int, turns: int, copied: float, target: float | None) -> list[Figure]:
    """The time loop: microseconds a step, and its share of the bandwidth of a copy."""
    simulation, inputs = acoustic(n, 8, precision, steps)
    each = loop_seconds(simulation, inputs, steps, turns) / steps
    moved = VALUES_A_CELL * np.dtype(precision.replace("f", "float")).itemsize * n * n / each
    name = f"forward {n} x {n}, order 8, {precision}, {steps} steps"
    return [
        Figure(name, each * 1e6, "us/step"),
        Figure(f"{name}: of a copy's bandwidth", moved * 1e-9, "GB/s", copied * 1e-9, moved / copied, target=target),
    ]


def gradient(n: int, precision: str, steps: int, turns: int) -> list[Figure]:
    """Whole gradients over whole forward runs."""
    simulation, inputs = acoustic(n, 8, precision, steps)
    run = seconds(lambda: simulation.run(inputs, steps), turns)
    out = []
    for kind, checkpoint in (("all stored", StoreAll(steps)), (f"{min(SLOTS, steps)} slots", min(SLOTS, steps))):

        def whole(checkpoint: Any = checkpoint) -> None:
            solution, pullback = simulation.vjp(inputs, steps, checkpoint=checkpoint)
            pullback(ds.Solution(traces={"p": solution.traces["p"]}))

        duration = seconds(whole, turns)
        name = f"gradient {n} x {n}, order 8, {precision}, {steps} steps, {kind}: times the forward run"
        out.append(Figure(name, duration, "s", run, duration / run, bound="most"))
    return out


def dispatches() -> list[Figure]:
    """Kernels that the device starts for each step of a forward run, without those that follow the last step of a launch."""
    n, spacing = 16, 10.0
    grid, centre = ds.Grid((n, n), spacing), [(80.0, 80.0)]
    cases = {
        "acoustic": ds.Simulation(ds.solvers.Acoustic(grid, DT), sources={"f": centre}, receivers={"p": centre}),
        "heat": ds.Simulation(ds.solvers.Heat(grid, 1.0), receivers={"T": centre}),
        "long wave": ds.Simulation(ds.solvers.LongWave(grid, 1.0), receivers={"eta": centre}),
    }
    out = []
    for name, simulation in cases.items():
        stepper = simulation._compiled.stepper
        lines = stepper.launcher.source_of(stepper.forward).source.splitlines()
        out.append(Figure(f"dispatches of a step, {name}", sum(line.startswith("    for ") for line in lines) / UNROLL, "a step"))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure diffsim on a GPU.")
    parser.add_argument("--arch", choices=("cuda", "vulkan"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="one small size, few steps, one turn")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="also write the figures to this file")
    options = parser.parse_args()
    ds.init(arch=options.arch)
    about = {**machine(), "arch": options.arch, "device": device(options.arch)}
    for key, value in about.items():
        print(f"{key:10s} {value}")
    print("\n" + HEADER.replace(f"{'C':>9s}", f"{'beside':>9s}"), flush=True)
    figures: list[Figure] = []

    def add(found: list[Figure]) -> None:
        for figure in found:
            print(row(figure), flush=True)
        figures.extend(found)

    turns = 1 if options.quick else 5
    large, middle, small = (32, 32, 32) if options.quick else (4096, 1024, 64)
    copied = bandwidth(2**16 if options.quick else 2**28, turns)
    add([Figure("copy of f32, read and written", copied * 1e-9, "GB/s"), *dispatches()])
    for precision in ("f32",) if options.arch == "vulkan" else ("f32", "f64"):
        target = BANDWIDTH_TARGET if precision == "f32" and not options.quick else None
        steps = 8 if options.quick else 500
        add(forward(large, precision, steps, turns, copied, target))
        if not options.quick:
            add(forward(middle, precision, 2000, turns, copied, None))
            add(forward(small, precision, 10_000, turns, copied, None))
        add(gradient(middle, precision, steps, turns))
    if options.out:
        text = json.dumps({"machine": about, "quick": options.quick, "figures": [asdict(f) for f in figures]}, indent=1)
        options.out.write_text(text + "\n")


def device(arch: str) -> str:
    """The name of the GPU, as NVIDIA's tool gives it."""
    if arch != "cuda" or shutil.which("nvidia-smi") is None:
        return f"{arch} on {platform.machine()}"
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
