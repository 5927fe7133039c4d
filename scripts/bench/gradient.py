"""Whole gradients of a misfit for the wave speed: `python scripts/bench/gradient.py [--quick] [--out FILE.json]`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import Benchmark, Case, Figure, compare, in_turns, main, median, ratios, timed
from reference import threads_awake
from scene import AcousticScene

import diffsim
from diffsim.base.system import give_back_memory
from diffsim.checkpoint import Schedule, StoreAll

TOLERANCE = 1e-4
"""f32 round-off of both sweeps; measured 4e-6."""
N, SLOTS = 1024, 20
STORED_TARGET, SLOTS_TARGET, MEMORY_TARGET = 1.4, 1.0, 1.1


def cases(quick: bool) -> list[Case]:
    turns, steps = (3, 100) if quick else (9, 500)
    common = {"threads": 2, "steps": steps, "turns": turns}
    times = [common | {"order": order, "slots": slots} for slots in (0, SLOTS) for order in (8, 4)]
    return times + [common | {"order": 8, "slots": slots, "memory": True} for slots in (0, SLOTS)]


def measure(case: Case) -> list[Figure]:
    """Gradients in turns, everything stored (`slots` = 0) or checkpointed."""
    if case.get("memory"):
        return _memory(case)
    order, threads, steps, slots = (case[key] for key in ("order", "threads", "steps", "slots"))
    scene = AcousticScene(N, order, steps, threads)
    observed = np.zeros((steps + 1, scene.reference.receivers), np.float32)

    def our_gradient() -> np.ndarray:
        return _gradient(scene, observed, slots or StoreAll(steps))

    def their_gradient() -> np.ndarray:
        return scene.reference.gradient(scene.speed, scene.wavelet, observed, slots or None)

    def their_seconds() -> float:
        with threads_awake(threads):
            return timed(their_gradient)

    compare("gradient", our_gradient(), their_gradient(), TOLERANCE)
    seconds = in_turns({"ours": lambda: timed(our_gradient), "theirs": their_seconds}, case["turns"])
    ratio, spread = ratios(seconds["ours"], seconds["theirs"])
    target = None if order == 4 and not slots else SLOTS_TARGET if slots else STORED_TARGET
    name = f"gradient {N} x {N}, order {order}, {threads} threads, {steps} steps, {_kind(slots)}"
    return [Figure(name, median(seconds["ours"]), "s", median(seconds["theirs"]), ratio, spread, None, "most", target)]


def _gradient(scene: AcousticScene, observed: np.ndarray, checkpoint: int | Schedule) -> np.ndarray:
    solution, pullback = scene.simulation.vjp(scene.inputs, scene.steps, checkpoint=checkpoint)
    gradient: np.ndarray = pullback(diffsim.Solution(traces={"p": solution.traces["p"] - observed}))["c"]
    return gradient


def _memory(case: Case) -> list[Figure]:
    """Peak memory beyond the memory of the process before its fields, against the prediction."""
    order, threads, steps, slots = (case[key] for key in ("order", "threads", "steps", "slots"))
    scene = AcousticScene(N, order, steps, threads)
    simulation = scene.simulation
    few = {**scene.inputs, "f": scene.inputs["f"][:1]}
    simulation.vjp(few, 1, checkpoint=StoreAll(1))[1](diffsim.Solution(traces={}))  # compiles, and allocates the working state
    give_back_memory()  # else the run would use free memory again, which would not be counted
    schedule = simulation.schedule(steps, slots or StoreAll(steps))
    _forget_peak()
    before = _status("VmRSS") - simulation.allocated_bytes()
    _gradient(scene, np.zeros((steps + 1, scene.reference.receivers), np.float32), schedule)
    resident, predicted, allocated = _status("VmHWM") - before, simulation.predicted_bytes(schedule), simulation.allocated_bytes()
    planned = simulation.sizes(steps).peak(schedule)
    name = f"peak memory, order {order}, {steps} steps, {_kind(slots)}"
    return [
        Figure(f"{name}: allocated / predicted", allocated * 1e-6, "MB", None, allocated / predicted, bound="most", target=MEMORY_TARGET),
        Figure(f"{name}: resident / planned", resident * 1e-6, "MB", None, resident / planned, bound="most", target=MEMORY_TARGET),
    ]


def _kind(slots: int) -> str:
    return f"{slots} slots" if slots else "all stored"


def _status(key: str) -> int:
    """An amount of memory of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))


def _forget_peak() -> None:
    """Let VmHWM start anew from the resident memory."""
    Path("/proc/self/clear_refs").write_text("5")


BENCHMARK = Benchmark(Path(__file__), cases, measure)

if __name__ == "__main__":
    main(BENCHMARK)
