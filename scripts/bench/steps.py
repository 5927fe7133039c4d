"""Time steps of the field, forward and gradient: `python scripts/bench/steps.py [--quick] [--out FILE.json]`.

The steps are those of `tests/steps`, in f32 on one thread; all figures are CPU times. A forward run is compared with the same step in
NumPy (in f64, as it is written; the ratio is NumPy's time over ours), a gradient for which all states are stored with a forward run, and
a first gradient is measured in a process that finds no compiled kernels, then in one that finds those of another. Lines of generated
source say how long the adjoint is beside the step.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from common import Benchmark, Case, Figure, in_process, main, ratios

import diffsim
from diffsim.checkpoint import StoreAll
from tests.steps import STEPS
from tests.steps.step import Step

FIRST = 5.0
"""Seconds of CPU time that the first gradient takes at most, tracing and compilation included."""
KINDS: tuple[Literal["forward"], Literal["vjp"]] = ("forward", "vjp")
PLANE, SPACE = (256, 250), (40, 48, 60)


def cases(quick: bool) -> list[Case]:
    return [{"name": step.name, "turns": 3 if quick else 9} for step in STEPS]


def measure(case: Case) -> list[Figure]:
    """The first calls in processes of their own, then runs in turns in this one."""
    step = next(step for step in STEPS if step.name == case["name"])
    if "turns" not in case:
        return _first(step)
    script, what = Path(__file__), {"name": step.name}
    (fresh,) = in_process(script, what, TI_OFFLINE_CACHE="0")
    with tempfile.TemporaryDirectory(prefix="diffsim-bench-") as cache:
        again = [in_process(script, what, TI_OFFLINE_CACHE_FILE_PATH=cache)[0] for _ in range(2)][1]
    return [
        *_runs(step, case["turns"]),
        Figure(f"{step.name}: first gradient", fresh["value"], "s", bound="most", target=FIRST),
        Figure(f"{step.name}: first gradient, second process", again["value"], "s"),
    ]


def _first(step: Step) -> list[Figure]:
    diffsim.init(precision="f32", threads=1)
    return [Figure("first gradient", _seconds(lambda: _gradient(step.simulation("f32"), step, step.all_inputs())), "s")]


def _gradient(simulation: diffsim.Simulation, step: Step, inputs: dict[str, np.ndarray]) -> None:
    solution, pullback = simulation.vjp(inputs, step.steps, StoreAll(step.steps))
    pullback(solution)


def _runs(step: Step, turns: int) -> list[Figure]:
    diffsim.init(precision="f32", threads=1)
    shape = PLANE if len(step.shape) == 2 else SPACE
    simulation, inputs = step.simulation("f32", shape), step.all_inputs(shape)
    single = {name: value.astype(np.float32) for name, value in inputs.items()}
    contenders: dict[str, Callable[[], object]] = {
        "run": lambda: simulation.run(single, step.steps),
        "gradient": lambda: _gradient(simulation, step, single),
        "NumPy": lambda: step.by_numpy(inputs, simulation.equation),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(turns + 1):
        for name, contender in contenders.items():
            found = _seconds(contender)
            if turn:
                seconds[name].append(found)
    forward, adjoint = (len(simulation.source(kind).splitlines()) for kind in KINDS)
    least = min(seconds["run"]) / step.steps * 1e3
    faster, spread = ratios(seconds["NumPy"], seconds["run"])
    cost_ratio, between = ratios(seconds["gradient"], seconds["run"])
    return [
        Figure(f"{step.name}: run beside NumPy, {' x '.join(map(str, shape))}", least, "ms/step", None, faster, spread),
        Figure(f"{step.name}: gradient over run, all stored", cost_ratio, "", None, cost_ratio, between),
        Figure(f"{step.name}: lines of the adjoint, over those of the step", adjoint, "lines", None, adjoint / forward),
    ]


def _seconds(function: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    begin = time.process_time()
    function()
    return time.process_time() - begin


BENCHMARK = Benchmark(Path(__file__), cases, measure)

if __name__ == "__main__":
    main(BENCHMARK)
