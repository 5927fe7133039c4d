"""Small systems beside JAX: `python scripts/bench/small.py [--quick] [--long] [--plain] [--out FILE.md] [--sizes 3 40] [--steps 10 100]`.

Lorenz' systems of 1963 (3 values) and 1996 (more values), rk4, f64, one thread. Each row is a whole call: a run, a run with its tangent,
the gradient of the sum of the squares of the last state for the first state and the parameters with all steps stored, and the same with
checkpoints. JAX has `jit` of `lax.scan`, `jax.jvp`, `jax.value_and_grad` and `jax.checkpoint` of as many segments as they have steps.
Its results are waited for. The runs of a million steps (`--long`) are of a wave that neither grows nor decays, F = 2: tangents of chaotic
ones overflow. diffsim has `ds.jit` of the same functions, with `--plain` the functions themselves, and as many slots as JAX keeps states.
Both have a process each, which warms up and then measures when it is its turn; results are compared before.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import machine, median

SIZES, STEPS, LONG = (3, 40, 1000), (10, 100, 10_000), 10**6
KINDS = ("run", "tangent", "gradient", "gradient, checkpointed")
DT = 0.01
TURN = 0.15
"""Seconds of calls in a turn, at least one call."""
TOLERANCE = 1e-6
"""Relative difference of the results; in a chaotic run rounding grows, so those of more than `COMPARED` steps are not compared."""
COMPARED = 500
AIM = 2.0
Calls = dict[str, Callable[[], Any]]


def inputs_of(size: int, steps: int) -> dict[str, Any]:
    if size == 3:
        return {"x": np.ones(1), "y": np.full(1, 2.0), "z": np.full(1, 20.0), "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
    forcing = 8.0 if steps < LONG else 2.0
    return {"x": np.random.default_rng(0).normal(forcing, 1.0, size), "F": forcing}


def segments_of(steps: int) -> int:
    """Segments of about as many steps."""
    return max(1, math.isqrt(steps))


def states_of(size: int) -> tuple[str, ...]:
    return ("x", "y", "z") if size == 3 else ("x",)


def calls_of_diffsim(size: int, steps: int, plain: bool = False) -> Calls:
    import diffsim as ds
    import diffsim.numpy as dnp

    ds.init(precision="f64", threads=1)
    equation = ds.solvers.Lorenz63(DT) if size == 3 else ds.solvers.Lorenz96(ds.Grid((size,), spacing=1.0), DT)
    simulation = ds.Simulation(equation)
    inputs, states = inputs_of(size, steps), states_of(size)
    along = {name: np.ones_like(value) for name, value in inputs.items()}

    def gradient_of(checkpoint: Any) -> Any:
        def loss(given: dict[str, Any]) -> Any:
            final = simulation.run(given, steps, checkpoint=checkpoint).final
            return sum(dnp.sum(final[name] ** 2) for name in states)

        return ds.value_and_grad(loss)

    compiled = (lambda function: function) if plain else ds.jit
    run = compiled(lambda given: simulation.run(given, steps).final)
    tangent = compiled(lambda given, moved: simulation.jvp(given, moved, steps)[1].final)
    stored = compiled(gradient_of("auto" if steps < LONG else "16 GB"))
    slots = compiled(gradient_of(segments_of(steps) + steps // segments_of(steps)))
    return {
        "run": lambda: run(inputs),
        "tangent": lambda: tangent(inputs, along),
        "gradient": lambda: stored(inputs)[1],
        "gradient, checkpointed": lambda: slots(inputs)[1],
    }


def calls_of_jax(size: int, steps: int) -> Calls:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    inputs, states = inputs_of(size, steps), states_of(size)
    along = {name: np.ones_like(value) for name, value in inputs.items()}

    def rate(now: Any, given: Any) -> Any:
        if size == 3:
            x, y, z = now["x"], now["y"], now["z"]
            return {"x": given["sigma"] * (y - x), "y": x * (given["rho"] - z) - y, "z": x * y - given["beta"] * z}
        x = now["x"]
        return {"x": (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + given["F"]}

    def run(given: Any, segments: int = 1) -> Any:
        def moved(now: Any, by: float, rates: Any) -> Any:
            return {name: value + by * rates[name] for name, value in now.items()}

        def step(now: Any, _: Any) -> Any:
            k1 = rate(now, given)
            k2 = rate(moved(now, DT / 2, k1), given)
            k3 = rate(moved(now, DT / 2, k2), given)
            k4 = rate(moved(now, DT, k3), given)
            return {n: v + DT / 6 * (k1[n] + 2 * k2[n] + 2 * k3[n] + k4[n]) for n, v in now.items()}, None

        def scan(now: Any, count: int) -> Any:
            return jax.lax.scan(step, now, None, length=count)[0]

        now = {name: jnp.asarray(given[name], float) for name in states}
        if segments == 1:
            return scan(now, steps)
        part = jax.checkpoint(lambda now, _: (scan(now, steps // segments), None))
        now = jax.lax.scan(part, now, None, length=segments)[0]
        return scan(now, steps % segments) if steps % segments else now

    def gradient_of(segments: int) -> Any:
        def loss(given: Any) -> Any:
            return sum((value**2).sum() for value in run(given, segments).values())

        return jax.jit(jax.value_and_grad(loss))

    compiled = jax.jit(run)
    tangent = jax.jit(lambda given, moved: jax.jvp(run, (given,), (moved,))[1])
    stored, slots = gradient_of(1), gradient_of(segments_of(steps))
    return {
        "run": lambda: jax.block_until_ready(compiled(inputs)),
        "tangent": lambda: jax.block_until_ready(tangent(inputs, along)),
        "gradient": lambda: jax.block_until_ready(stored(inputs))[1],
        "gradient, checkpointed": lambda: jax.block_until_ready(slots(inputs))[1],
    }


def serve(side: str, size: int, steps: int) -> None:
    """Measure on request: a line is the name of a kind; the answer has the result's sums first, later the median seconds of its calls."""
    calls = calls_of_jax(size, steps) if side == "jax" else calls_of_diffsim(size, steps, side == "plain")
    counts: dict[str, int] = {}
    for line in sys.stdin:
        call = calls[line.strip()]
        if line not in counts:
            result = call()
            print(json.dumps({name: float(np.sum(value)) for name, value in result.items()}), flush=True)
            began = time.perf_counter()
            call()
            counts[line] = max(1, int(TURN / (time.perf_counter() - began)))
            for _ in range(min(counts[line], 100)):
                call()
            continue
        each = []
        for _ in range(counts[line]):
            began = time.perf_counter()
            call()
            each.append(time.perf_counter() - began)
        print(json.dumps(median(each)), flush=True)


class Contender:
    """One package, in a process of its own."""

    def __init__(self, side: str, size: int, steps: int) -> None:
        flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--serve", side, str(size), str(steps)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, kind: str) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(kind + "\n")
        self.process.stdin.flush()
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"{self.process.args}: ended with {self.process.wait()}, expected figures; see its messages above")
            if line[0] in "{0123456789":
                return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compared(kind: str, steps: int, ours: Any, theirs: Any) -> None:
    scale = max(map(abs, theirs.values()))
    error = max(abs(ours[name] - theirs[name]) for name in theirs) / scale
    if (steps <= COMPARED or steps == LONG) and not error <= TOLERANCE:
        raise SystemExit(f"{kind}: diffsim and JAX differ by {error:.1e} of {scale:.3g}, expected at most {TOLERANCE:.0e}")


def rows_of(size: int, steps: int, turns: int, ours: str, kinds: Sequence[str] = KINDS) -> list[str]:
    pair = [Contender(side, size, steps) for side in (ours, "jax")]
    rows = []
    for kind in kinds:
        compared(kind, steps, *(each.ask(kind) for each in pair))
        seconds = [[each.ask(kind) for each in pair] for _ in range(turns)]
        own, theirs = (median(column) * 1e6 for column in zip(*seconds, strict=True))
        ratio = median([a / b for a, b in seconds])
        rows.append(f"| {size} | {steps} | {kind} | {own:.4g} | {theirs:.4g} | {ratio:.2f}{'' if ratio <= AIM else ' (above 2)'} |")
        print(rows[-1], flush=True)
    for each in pair:
        each.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three turns instead of five")
    parser.add_argument("--long", action="store_true", help="also a million steps of 40 values; JAX takes 3 GB for all of them")
    parser.add_argument("--plain", action="store_true", help="without ds.jit")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS)
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="also write the table to this file")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        side, size, steps = options.serve
        serve(side, int(size), int(steps))
        return
    print(f"{machine()['processor']}, one thread, {time.strftime('%Y-%m-%d')}\n")
    rows = ["| values | steps | call | diffsim, us | JAX, us | ratio |", "|---|---|---|---|---|---|"]
    print("\n".join(rows))
    turns, ours = 3 if options.quick else 5, "plain" if options.plain else "diffsim"
    for size in options.sizes:
        for steps in options.steps:
            rows += rows_of(size, steps, turns, ours)
    if options.long:
        rows += rows_of(40, LONG, 3, ours)
    if options.out:
        options.out.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
