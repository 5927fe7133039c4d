"""Time steps of the field, forward and gradient: `python scripts/bench/steps.py [--quick] [--out FILE.json]`.

The steps are those of `tests/steps`, in f32 on one thread; all figures are CPU times. A forward run is compared with the same step in
NumPy (in f64, as it is written; the ratio is NumPy's time over ours), and a gradient for which all states are stored with a forward run.
That ratio is of the cost of a further step: the difference of runs of two lengths, so set-up, checks and copies of inputs drop out, and
memory was touched before. A run of few fields stays in the cache and a gradient writes and reads all states, which is part of its cost. A
first gradient is measured in a process that finds no compiled kernels, then in one that finds those of another. Lines of generated source
say how long the adjoint is beside the step.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from common import Benchmark, Case, Figure, cpu_seconds, in_process, main, median, ratios

import diffsim
from diffsim.checkpoint import StoreAll
from tests.steps import STEPS
from tests.steps.step import Fields, Shape, Step

FIRST = 5.0
"""Seconds of CPU time that the first gradient takes at most, tracing and compilation included."""
KINDS: tuple[Literal["forward"], Literal["vjp"]] = ("forward", "vjp")
AGAIN = 1.5
"""The same in a process that finds the kernels of another."""
PLANE, SPACE = (256, 250), (40, 48, 60)
LENGTHS = (16, 64)
"""Steps of the runs whose difference is measured."""


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
        Figure(f"{step.name}: first gradient, second process", again["value"], "s", bound="most", target=AGAIN),
    ]


def _first(step: Step) -> list[Figure]:
    diffsim.init(precision="f32", threads=1)
    return [Figure("first gradient", cpu_seconds(lambda: _gradient(step.simulation("f32"), step, step.all_inputs())), "s")]


def _gradient(simulation: diffsim.Simulation, step: Step, inputs: dict[str, np.ndarray]) -> None:
    solution, pullback = simulation.vjp(inputs, step.steps, StoreAll(step.steps))
    pullback(solution)


def _lasting(step: Step, steps: int) -> Step:
    """The step with so many of them in a run; series are repeated."""

    def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
        series = step.equation(shape).series
        fields = step.inputs(rng, shape)
        return {name: np.resize(value, (steps, *value.shape[1:])) if name in series else value for name, value in fields.items()}

    return dataclasses.replace(step, steps=steps, inputs=inputs)


def _runs(step: Step, turns: int) -> list[Figure]:
    diffsim.init(precision="f32", threads=1)
    shape = PLANE if len(step.shape) == 2 else SPACE
    simulation, inputs = step.simulation("f32", shape), step.all_inputs(shape)
    contenders: dict[str, Callable[[], object]] = {"NumPy": lambda: step.by_numpy(inputs, simulation.equation)}
    for steps in LENGTHS:
        longer = _lasting(step, steps)
        single = {name: value.astype(np.float32) for name, value in longer.all_inputs(shape).items()}
        contenders[f"run {steps}"] = functools.partial(simulation.run, single, steps)
        contenders[f"gradient {steps}"] = functools.partial(_gradient, simulation, longer, single)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(turns + 1):
        for name, contender in contenders.items():
            if name != "NumPy":
                contender()  # so that each run finds its memory as the one before left it
            timing = cpu_seconds(contender)
            if turn:
                seconds[name].append(timing)
    numpy = [each / step.steps for each in seconds["NumPy"]]
    run, gradient = (_further(seconds, name) for name in ("run", "gradient"))
    forward, adjoint = (len(simulation.source(kind).splitlines()) for kind in KINDS)
    faster, spread = ratios(numpy, run)
    cost_ratio, between = ratios(gradient, run)
    return [
        Figure(f"{step.name}: run beside NumPy, {' x '.join(map(str, shape))}", median(run) * 1e3, "ms/step", None, faster, spread),
        Figure(f"{step.name}: gradient over run, all stored", cost_ratio, "", None, cost_ratio, between),
        Figure(f"{step.name}: lines of the adjoint, over those of the step", adjoint, "lines", None, adjoint / forward),
    ]


def _further(seconds: dict[str, list[float]], name: str) -> list[float]:
    """Seconds of a further step, one a turn."""
    short, long = LENGTHS
    return [(b - a) / (long - short) for a, b in zip(seconds[f"{name} {short}"], seconds[f"{name} {long}"], strict=True)]


BENCHMARK = Benchmark(Path(__file__), cases, measure)

if __name__ == "__main__":
    main(BENCHMARK)
