"""Forward acoustics: `python scripts/bench/acoustic.py [--quick] [--out FILE.json]`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import NARROW, Benchmark, Case, Figure, compare, in_turns, main, median, narrow, ratios, registers, timed
from reference import threads_awake
from scene import AcousticScene

from diffsim.engine import compiled_register_bytes

TOLERANCE = 1e-3
"""f32 round-off of some hundred steps in another order of summation; measured 1.4e-4."""
ARRIVED = 1e-3
"""Share of the largest pressure: traces below it are compared relative to it. A wave that has not yet arrived leaves round-off in them."""
COMPARED = 500
"""Steps after which they are compared; round-off keeps growing in a box that reflects."""
TARGETS = {(1024, 8): 1.2, (1024, 4): 0.9, (4096, 8): 1.2}
SMALL = 64
SMALL_TARGET = 2.0  # us a step


def cases(quick: bool) -> list[Case]:
    turns = 3 if quick else 9
    out = [{"n": 1024, "order": order, "threads": threads, "steps": 100 if quick else 500} for order in (8, 4) for threads in (1, 2)]
    out += [narrow(case) for case in out if compiled_register_bytes() > NARROW]
    out.append({"n": 4096, "order": 8, "threads": 2, "steps": 20 if quick else 100})
    out += [{"n": SMALL, "order": order, "threads": 2, "steps": 10_000} for order in (8, 4)]
    return [case | {"turns": 3 if case["n"] == 4096 else turns} for case in out]


def measure(case: Case) -> list[Figure]:
    """Whole runs and time loops alone, in turns."""
    n, order, threads, steps = (case[key] for key in ("n", "order", "threads", "steps"))
    scene = AcousticScene(n, order, steps, threads)
    simulation, reference, arguments = scene.simulation, scene.reference, (scene.speed, scene.wavelet)
    short = scene.wavelet[:COMPARED]
    solution = simulation.run({"c": scene.speed, "f": short[:, None]}, len(short))
    final, traces = reference.run(scene.speed, short)
    compare("last pressure", solution.final["p"], final, TOLERANCE)
    compare("traces", solution.traces["p"], traces, TOLERANCE, max(np.abs(traces).max(), ARRIVED * np.abs(final).max()))
    compiled = simulation._compiled
    fields, stepper = compiled.checked(scene.inputs, steps), compiled.stepper

    def our_loop() -> float:
        compiled.start(fields, steps)
        return timed(lambda: stepper.advance(0, steps))

    def their_run() -> float:
        with threads_awake(threads):
            return timed(lambda: reference.run(*arguments))

    def their_loop() -> float:
        reference.start(*arguments)
        with threads_awake(threads):
            return timed(reference.loop)

    contenders = {
        "run": lambda: timed(lambda: simulation.run(scene.inputs, steps)),
        "C run": their_run,
        "loop": our_loop,
        "C loop": their_loop,
    }
    seconds = in_turns(contenders, case["turns"])
    name = f"forward {n} x {n}, order {order}, {threads} thread{'s'[: threads > 1]}, {steps} steps{registers(case)}"
    loop, _ = ratios(seconds["C loop"], seconds["loop"])
    ratio, spread = ratios(seconds["C run"], seconds["run"])
    ours, theirs = median(seconds["run"]), median(seconds["C run"])
    if n == SMALL:
        figure = Figure(name, ours / steps * 1e6, "us/step", theirs / steps * 1e6, None, None, loop, "most", SMALL_TARGET)
        return [figure]
    work = n * n * steps * 1e-9
    return [Figure(name, work / ours, "Gpoints/s", work / theirs, ratio, spread, loop, "least", TARGETS.get((n, order)))]


BENCHMARK = Benchmark(Path(__file__), cases, measure)

if __name__ == "__main__":
    main(BENCHMARK)
