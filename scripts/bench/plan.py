"""Gradients as they were planned and as they were: peak memory and time, at sizes that need checkpoints.

Usage: python scripts/bench/plan.py [--only NAME] [--steps N] [--repeat N] [--threads N]

budget     512 x 512 in f32, 100 000 steps in 256 MB, of which all states would take 20 times as much and more
slots      1024 x 1024 in f32, 10 000 steps with 25 states: time over that of its steps, each as long as when it is run alone
million    a small system for a million steps with 50 states
disk       512 x 512 in f32, 5000 steps, 10 states in memory and 100 on disk
spilling   the same, with states that go to disk and come back while steps run
undone     1024 x 1024 in f32, 1500 steps run backwards, with 10 states and the cells of the absorbing edges

Each is run in a process of its own. `--steps` shortens them. With one thread steps do not wait for one another, so that other processes
on the machine do not change the comparison.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import diffsim as ds
from diffsim.checkpoint import Measured, Plan, Policy, Resident, simulate
from diffsim.simulation import plan_for
from diffsim.solvers import Acoustic, Heat

MEMORY_TARGET, RATIO_TARGET, SCHEDULE_TARGET = 0.05, 1.10, 0.05


@dataclass(frozen=True)
class Case:
    """A gradient.

    Attributes:
        cells: along each axis.
        steps: as the target has it.
        policy: from a folder for files.
        heat: diffusion instead of waves.
        disk: states on disk at most, 0 for none.
    """

    cells: tuple[int, ...]
    steps: int
    policy: Callable[[Path], Policy]
    heat: bool = False
    disk: int = 0


CASES = {
    "budget": Case((512, 512), 100_000, lambda folder: Policy(memory="256 MB", folder=folder)),
    "slots": Case((1024, 1024), 10_000, lambda folder: Policy(slots=25, folder=folder)),
    "million": Case((32,), 1_000_000, lambda folder: Policy(slots=50, folder=folder), heat=True),
    "disk": Case((512, 512), 5_000, lambda folder: Policy(slots=10, schedule="multi_tier", folder=folder), disk=100),
    "undone": Case((1024, 1024), 1_500, lambda folder: Policy(slots=10, schedule="reversible", folder=folder)),
    "spilling": Case((512, 512), 5_000, lambda folder: Policy(slots=10, schedule="spilling", folder=folder), disk=100),
}


def simulation_of(case: Case, steps: int) -> tuple[ds.Simulation, dict[str, np.ndarray]]:
    """A simulation with a source and a receiver, and its inputs."""
    grid = ds.Grid(case.cells, 10.0)
    point = [[5.0 * n for n in case.cells]]
    pulse = np.exp(-(((np.arange(steps) - 40) / 12) ** 2)).astype(np.float32)[:, None]
    if case.heat:
        simulation = ds.Simulation(Heat(grid, 10.0), sources={"q": point}, receivers={"T": point}, wrt=["kappa"])
        return simulation, {"kappa": np.full(case.cells, 1.0, np.float32), "q": pulse}
    simulation = ds.Simulation(Acoustic(grid, 1e-3, order=8, sponge=20), sources={"f": point}, receivers={"p": point}, wrt=["c"])
    return simulation, {"c": np.full(case.cells, 2000.0, np.float32), "f": pulse}


def measure(name: str, steps: int | None, repeat: int, threads: int | None) -> dict[str, Any]:
    """The predicted and the measured cost."""
    case = CASES[name]
    steps = steps or case.steps
    ds.init(arch="cpu", precision="f32", threads=threads)
    simulation, inputs = simulation_of(case, steps)
    with tempfile.TemporaryDirectory() as folder:
        policy = case.policy(Path(folder))
        if case.disk:
            policy = replace(policy, disk=simulation.sizes(steps).on_disk(case.disk))
        plan = plan_for(simulation, policy, steps, inputs)
        print(plan, file=sys.stderr)
        peaks, seconds, spent = [], [], []
        for _ in range(repeat):
            resident, began = Resident(), time.perf_counter()
            spent.append(_gradient(simulation, inputs, steps, plan))
            seconds.append(time.perf_counter() - began)
            peaks.append(resident.peak)
    best = int(np.argmin(seconds))
    chosen, tiers = plan.chosen, plan.schedule.all_tiers
    busiest = simulate(plan.schedule, steps).peak_slots
    print(plan.compare(Measured(seconds[best], max(peaks))), file=sys.stderr)
    return {
        "case": name,
        "steps": steps,
        "schedule": repr(plan.schedule),
        "states kept at most, of those allowed": ", ".join(f"{n} of {t.slots} ({t.name})" for n, t in zip(busiest, tiers, strict=True)),
        "all states over the peak": steps * simulation._stepper.storage.state_bytes() / chosen.peak,
        "peak predicted, MB": chosen.peak / 1e6,
        "peak over prediction": max(peaks) / chosen.peak,
        "seconds predicted": chosen.seconds,
        "seconds": seconds[best],
        "seconds over prediction": seconds[best] / (chosen.seconds or 1.0),
        "median seconds over prediction": median(seconds) / (chosen.seconds or 1.0),
        "seconds over those of the steps alone": seconds[best] / _steps_alone(plan),
        "share of schedule, guards and copies": 1 - spent[best] / seconds[best],
    }


def _gradient(simulation: ds.Simulation, inputs: dict[str, np.ndarray], steps: int, plan: Plan) -> float:
    """Run it; returns the seconds that were spent in steps."""
    from diffsim.simulation.prepared import reversal

    sweeps = []

    class Sweep(reversal.Sweep):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            sweeps.append(self)

    right, reversal.Sweep = reversal.Sweep, Sweep  # type: ignore[misc]
    try:
        solution, pullback = simulation.vjp(inputs, steps, plan)
        pullback(ds.Solution(traces=solution.traces))
    finally:
        reversal.Sweep = right  # type: ignore[misc]
    clock = sweeps[-1].clock
    return sum((clock.step_seconds(kind) or 0.0) * done for kind, done in clock.done.items() if done)


def _steps_alone(plan: Plan) -> float:
    """Seconds of the steps of a plan, and of its copies to disk as they are counted on, each as measured alone."""
    costs, schedule = plan.costs, plan.schedule
    assert costs is not None
    reverse = costs.reverse_recorded if schedule.all_recorded == plan.steps else costs.reverse
    forward = schedule.advances_of(plan.steps) * costs.advance + schedule.all_recorded * costs.record
    return forward + schedule.undone * (costs.undo or 0.0) + plan.steps * reverse + schedule.waits * costs.advance


def main() -> None:
    """Run the cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(CASES))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--case", choices=sorted(CASES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case, options.steps, options.repeat, options.threads)))
        return
    for name in [options.only] if options.only else CASES:
        arguments = ["--case", name, "--repeat", str(options.repeat)]
        for option in ("steps", "threads"):
            if getattr(options, option):
                arguments += [f"--{option}", str(getattr(options, option))]
        done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"{name} ended with {done.returncode}")
        for key, value in json.loads(done.stdout.splitlines()[-1]).items():
            print(f"{key:42s} {value:.4g}" if isinstance(value, float) else f"{key:42s} {value}")
        print(
            f"targets: peak within {MEMORY_TARGET:.0%}; time of slots and disk at most {RATIO_TARGET:g} x; share {SCHEDULE_TARGET:.0%}\n",
            flush=True,
        )


if __name__ == "__main__":
    main()
