"""Gradients of the shots of a survey: one after another, and side by side in one kernel (`diffsim.Batch`), in turns.

    python scripts/bench/batch.py [--shots 8] [--steps 500] [--turns 10]

Each line has a grid, a number of threads, the shots that ran together, the time of one shot's gradient for both ways, and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import diffsim as ds

SIDES = (32, 64, 128, 256)
DX, DT = 10.0, 1e-3


def seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measured(side: int, shots: int, steps: int, turns: int) -> None:
    grid = ds.Grid((side, side), DX)
    receivers = {"p": [[2 * DX, DX * x] for x in range(0, side, 4)]}
    one = ds.Simulation(ds.solvers.Acoustic(grid, DT, order=4), sources={"f": [[DX, DX]]}, receivers=receivers, wrt=["c"])
    places = [[[DX, DX * side * (k + 0.5) / shots]] for k in range(shots)]
    inputs = {"c": np.full(grid.shape, 2000.0, np.float32), "f": np.sin(np.arange(steps) / 20.0)[:, None].astype(np.float32)}

    def loss(found: ds.Solution) -> tuple[float, ds.Solution]:
        return float((found.traces["p"] ** 2).sum()), ds.Solution(traces={"p": 2 * found.traces["p"]})

    def in_turn() -> None:
        for place in places:
            one.move(sources={"f": place})
            one.value_and_grad(loss, inputs, steps)

    together = [count for count in (2, 4, 8, 16, 32) if count <= shots]
    batches = {count: [ds.Batch(one, count, {"f": places[k : k + count]}) for k in range(0, shots, count)] for count in together}

    def side_by_side(count: int) -> None:
        for batch in batches[count][:1]:
            for k in range(0, shots, count):
                batch.move(sources={"f": places[k : k + count]})
                batch.value_and_grad(loss, inputs, steps)

    in_turn()
    for count in together:
        side_by_side(count)
    rows: dict[int, list[tuple[float, float]]] = {count: [] for count in together}
    for _ in range(turns):
        alone = seconds(in_turn)
        for count in together:
            rows[count].append((alone, seconds(lambda count=count: side_by_side(count))))
    for count, pairs in rows.items():
        alone, batched = (statistics.median(column) / shots * 1e3 for column in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        threads = ds.engine.settings().threads
        print(f"{side:4d}^2  {threads} threads  {count:3d} together  {alone:8.2f} ms  {batched:8.2f} ms  {ratio:5.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shots", type=int, default=8)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--turns", type=int, default=10)
    options = parser.parse_args()
    for threads in (1, 2):
        ds.init(arch="cpu", threads=threads)
        for side in SIDES:
            measured(side, options.shots, options.steps, options.turns)


if __name__ == "__main__":
    main()
