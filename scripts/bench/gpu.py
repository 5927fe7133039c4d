"""diffsim on a GPU: `python scripts/bench/gpu.py [--arch cuda|vulkan] [--quick] [--only NAME ...] [--out FILE.json]`.

The speed of a step is compared with the bandwidth that a copy reaches. The bytes of a step are the least that its loops move: each reads
every field that it needs once for each cell, and writes its own. All times are by the clock, and wait for the device at both ends. A
dispatch is a kernel that the device starts; one launch of diffsim's has those of several steps. Vulkan has f32 alone.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import HEADER, Figure, machine, median, row
from scene import DT, DX, wavelet_of

import diffsim as ds
from diffsim.checkpoint import StoreAll
from diffsim.engine import backend, clock, language, shared_kernel
from diffsim.stepping.ir.program import Program
from diffsim.stepping.source.device import unrolled

BANDWIDTH_TARGET = 0.6
SLOTS, STORED = 20, 40
COPY = """
@ti.kernel
def copy(source: Values, target: Values):
    for i in source:
        target[i] = source[i]
"""


@dataclass(frozen=True)
class Model:
    """A solver to measure, in two or three dimensions.

    Attributes:
        name: in the table.
        equation: the equation on a grid of `DX` cells.
        medium: parameter -> its mean; it varies by 10 %.
        state: that starts from random numbers, and is recorded at receivers.
        forcing: at a point in the middle; "": none.
        wrt: parameters that a gradient is for.
        space: whether it is measured in three dimensions too.
    """

    name: str
    equation: Callable[[ds.Grid], ds.Equation]
    medium: dict[str, float]
    state: str
    forcing: str
    wrt: tuple[str, ...]
    space: bool = True

    def simulation(self, shape: tuple[int, ...], precision: str) -> tuple[ds.Simulation, dict[str, np.ndarray]]:
        """The simulation, and its inputs but for the amplitudes of the source."""
        rng, kind = np.random.default_rng(0), np.dtype(precision.replace("f", "float"))
        equation = self.equation(ds.Grid(shape, DX))
        where = equation.states[self.state].location or (0,) * len(shape)
        middle = [(n // 2 + 0.5 * moved) * DX for n, moved in zip(shape, where, strict=True)]
        simulation = ds.Simulation(
            equation,
            sources={self.forcing: [tuple(middle)]} if self.forcing else {},
            receivers={self.state: [(*middle[:-1], middle[-1] % DX + (2 + 4 * r) * DX) for r in range(shape[-1] // 4 - 1)]},
            wrt=list(self.wrt),
            precision=precision,  # type: ignore[arg-type]
        )
        inputs = {name: (mean * rng.uniform(0.9, 1.1, shape)).astype(kind) for name, mean in self.medium.items()}
        return simulation, {**inputs, self.state: (1e-3 * rng.standard_normal(shape)).astype(kind)}

    def driven(self, inputs: dict[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
        """The inputs of so many steps."""
        return {**inputs, self.forcing: wavelet_of(steps)[:, None]} if self.forcing else inputs


ELASTIC = {"vp": 2500.0, "vs": 1400.0, "rho": 2200.0}
MODELS = (
    Model("acoustic", lambda grid: ds.solvers.Acoustic(grid, DT, order=8), {"c": 2500.0}, "p", "f", ("c",)),
    Model("elastic", lambda grid: ds.solvers.Elastic(grid, DT), ELASTIC, "vy", "fy", ("vp", "vs")),
    Model("Maxwell", lambda grid: ds.solvers.Maxwell(grid, 0.4 * DX), {"eps": 2.0}, "Ez", "Jz", ("eps",)),
    Model("heat", lambda grid: ds.solvers.Heat(grid, 10.0), {"kappa": 1.0}, "T", "", ("kappa",)),
    Model("shallow water", lambda grid: ds.solvers.ShallowWater(grid, 0.1), {"z": -20.0}, "eta", "", ("z",), space=False),
)
ACOUSTIC = MODELS[0]


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


def values_moved(program: Program) -> int:
    """Values for each cell that a step moves at least."""
    moved = 0
    for nest in program.nests:
        read = program.reads(nest.roots or [assign.node for assign in nest.assigns])
        places = {program.places[name] for name in read if name in program.places}
        places |= {assign.target for assign in nest.assigns if assign.accumulate}
        moved += len({(place.array, place.level) for place in places}) + len(nest.assigns)
    return moved


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


def titled(model: Model, shape: tuple[int, ...], precision: str) -> str:
    return f"{model.name} {' x '.join(map(str, shape))} {precision}"


def forward(
    model: Model, shape: tuple[int, ...], precision: str, steps: int, turns: int, copied: float, aims: bool = False
) -> list[Figure]:
    """The time loop: microseconds a step, and its share of the bandwidth of a copy, which has a target if `aims`."""
    began = clock()
    simulation, inputs = model.simulation(shape, precision)
    simulation.run(model.driven(inputs, 1), 1)
    first = clock() - began
    each = loop_seconds(simulation, model.driven(inputs, steps), steps, turns) / steps
    values = values_moved(simulation._compiled.stepper.forward)
    moved = values * math.prod(shape) * np.dtype(precision.replace("f", "float")).itemsize / each
    name = titled(model, shape, precision)
    return [
        Figure(f"{name}: first run", first, "s"),
        Figure(f"{name}: step", each * 1e6, "us"),
        Figure(
            f"{name}: of a copy, {values} values",
            moved * 1e-9,
            "GB/s",
            copied * 1e-9,
            moved / copied,
            target=BANDWIDTH_TARGET if aims else None,
        ),
    ]


def speed(name: str, moved: float, copied: float) -> Figure:
    """Bytes a second beside those of a copy."""
    return Figure(name, moved * 1e-9, "GB/s", copied * 1e-9, moved / copied)


def gradient(model: Model, shape: tuple[int, ...], precision: str, steps: int, turns: int, copied: float) -> list[Figure]:
    """Whole gradients over whole forward runs, and the bandwidth of their steps: those of the run, those repeated and the reverse ones.

    A further step is that of the longest gradient beyond the one in between, without what a call costs.
    """
    simulation, inputs = model.simulation(shape, precision)
    name, itemsize = titled(model, shape, precision), np.dtype(precision.replace("f", "float")).itemsize
    out, whole = [], []
    for kind, count, checkpoint in (
        (f"{STORED} steps, all stored", STORED, StoreAll(STORED)),
        (f"{steps} steps, {SLOTS} slots", steps, SLOTS),
        (f"{5 * steps} steps, {SLOTS} slots", 5 * steps, SLOTS),
    ):
        fields, done = model.driven(inputs, count), {}

        def gradients(fields: Any = fields, count: int = count, checkpoint: Any = checkpoint, done: Any = done) -> None:
            solution, pullback = simulation.vjp(fields, count, checkpoint=checkpoint)
            pullback(ds.Solution(traces={model.state: solution.traces[model.state]}))
            done.update(simulation.last_sweep.steps)

        run = seconds(lambda fields=fields, count=count: simulation.run(fields, count), turns)  # type: ignore[misc]
        duration = seconds(gradients, turns)
        stepper = simulation._compiled.stepper
        pair = stepper.with_residuals
        values = done.get("advance", 0) * values_moved(stepper.forward)
        values += done.get("record", 0) * values_moved(pair.forward if pair else stepper.forward)
        values += done.get("reverse", 0) * values_moved(pair.adjoint if pair else stepper.adjoint.program)
        moved = values * math.prod(shape) * itemsize
        whole.append((duration, moved))
        out.append(Figure(f"{name}: gradient of {kind}, over the run", duration, "s", run, duration / run, bound="most"))
        out.append(speed(f"{name}: gradient of {kind}, of a copy", moved / duration, copied))
    (short, less), (long, more) = whole[1:]
    out.append(Figure(f"{name}: a further step of a gradient, {SLOTS} slots", (long - short) / (4 * steps) * 1e6, "us"))
    out.append(speed(f"{name}: of a copy", (more - less) / (long - short), copied))
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
        out.append(
            Figure(
                f"dispatches of a step, {name}", sum(line.startswith("    for ") for line in lines) / unrolled(stepper.forward), "a step"
            )
        )
    return out


def measured(quick: bool, precisions: Iterable[str], models: Iterable[Model]) -> Iterator[Figure]:
    """All figures, one after the other."""
    turns = 1 if quick else 3
    copied = bandwidth(2**16 if quick else 2**28, turns)
    yield Figure("copy of f32, read and written", copied * 1e-9, "GB/s")
    yield from dispatches()
    plane, space, middle, steps = ((32, 32), (16, 16, 16), (32, 32), 8) if quick else ((4096, 4096), (256, 256, 256), (2048, 2048), 200)
    for precision in precisions:
        for model in models:
            for shape in (plane, space) if model.space else (plane,):
                yield from forward(model, shape, precision, steps, turns, copied, precision == "f32" and not quick)
            yield from gradient(model, middle, precision, steps, turns, copied)
            if model.space:
                yield from gradient(model, space, precision, steps, turns, copied)
        if not quick and ACOUSTIC in models:
            yield from forward(ACOUSTIC, (64, 64), precision, 10_000, turns, copied)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure diffsim on a GPU.")
    parser.add_argument("--arch", choices=("cuda", "vulkan"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="small grids, few steps, one turn")
    parser.add_argument("--only", nargs="*", choices=[model.name for model in MODELS], default=[model.name for model in MODELS])
    parser.add_argument("--precisions", nargs="*", choices=("f32", "f64"), help="f32 alone for Vulkan, else both")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="also write the figures to this file")
    options = parser.parse_args()
    ds.init(arch=options.arch)
    about = {**machine(), "arch": options.arch, "device": device(options.arch)}
    for key, value in about.items():
        print(f"{key:10s} {value}")
    print("\n" + HEADER.replace(f"{'C':>9s}", f"{'beside':>9s}"), flush=True)
    precisions = options.precisions or (["f32"] if options.arch == "vulkan" else ["f32", "f64"])
    figures: list[Figure] = []
    for figure in measured(options.quick, precisions, [model for model in MODELS if model.name in options.only]):
        print(row(figure), flush=True)
        figures.append(figure)
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
