"""Run the smallest case of each benchmark in this process: `python -m tests.scripts.smallest_benchmarks`. No figure means anything.

Each prints a line with its name and its CPU time when it is through. Benchmarks that only start other
processes, or compile for long, are imported.
"""

# ruff: noqa: E402  (the folders of the benchmarks have to be on the path first)
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

BENCH = Path(__file__).resolve().parents[2] / "scripts" / "bench"
sys.path[:0] = [str(BENCH), str(BENCH / "peers")]

import acoustic
import arrays
import batch
import by_c
import by_diffsim
import compile_time
import dg
import exchange
import fwi
import gradient
import heat
import ocean
import packaged
import peer_process
import peer_report
import peer_rows
import peers
import plan
import schedules
import solve
import steps
import storage
import tiles
from common import build_folder

IMPORTED = (batch, dg, fwi, packaged, peers, steps)
FEW = {"threads": 1, "turns": 1}
N = 16


def of_peers() -> None:
    """diffsim and C in each row of the comparison with other packages, as far as C has it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        for row in peer_rows.rows(quick=True):
            small = {"n": 32 if row.settings["kind"] == "acoustic" else N, "steps": 20}
            peer_rows.Row(row.name, row.title, row.settings | small, row.tolerance).write(path, threads=1)
            problem = exchange.Problem(str(path))
            results = []
            for work in (by_diffsim, by_c):
                try:
                    results.append(work.WORK[problem.kind](problem)())
                except (KeyError, exchange.Cannot):
                    assert work is by_c
            for name, value in results[-1].items():
                assert np.abs(value - results[0][name]).max() <= row.tolerance * np.abs(value).max(), (row.name, name)
    titles = {peer.name: peer for peer in peer_process.peers()}
    assert next(iter(titles)) == "diffsim"
    for name, peer in titles.items():
        assert peer.own or all("==" in package for package in peer.packages), f"by_{name}.py: expected pinned versions"


def of_report() -> None:
    """Two peers, of which one cannot do the work."""
    entry = {"row": "r", "threads": 2, "error": 1e-6, "cannot": None, "seconds": [3.0, 2.0, 8.0], "ours": [1.0, 1.0, 2.0]}
    results = {
        "machine": {"processor": "P", "software": "S"},
        "quick": False,
        "peers": [{"name": name, "title": name.upper(), "versions": "", "notes": "N"} for name in ("diffsim", "a", "b")],
        "absent": {"c": "has no wheel"},
        "rows": [{"name": "r", "title": "row"}],
        "entries": [entry | {"peer": "a"}, entry | {"peer": "b", "cannot": "no means"}],
    }
    page = peer_report.page(results)
    assert "| row | 1.00 s | 3.00 s (3.00) | - | 1e-06 |" in page
    assert "no entry (no means): row" in page and "has no wheel" in page
    peer_report.plotted(results)


def of_gradient() -> None:
    gradient.N = N
    for slots in (0, 3):
        gradient.measure({"order": 4, "steps": 8, "slots": slots, **FEW})


def of_heat() -> None:
    heat.N = N
    heat.measure({"steps": 4, **FEW})


def of_ocean() -> None:
    for sea in ocean.SEAS.values():
        for precision in sea.precisions:
            simulation, inputs = ocean._simulation(sea, precision)
            assert {*sea.wrt} <= {*inputs} <= {*simulation.inputs} and {*sea.make()[0].parameters} <= {*inputs}
    ocean.measure({"sea": "euler", "precision": "f32"})


def of_schedules() -> None:
    schedules.BLOCKS = 10
    for begin in schedules.cases(100, 5).values():
        schedules.measure(begin)


def of_storage() -> None:
    storage.SIZES = (8192,)
    with TemporaryDirectory() as folder:
        list(storage.stores(Path(folder), 8192, 1))


SMALLEST: dict[str, Callable[[], Any]] = {
    "acoustic": lambda: acoustic.measure({"n": 32, "order": 4, "steps": 8, **FEW}),
    "gradient": of_gradient,
    "heat": of_heat,
    "peers": of_peers,
    "report": of_report,
    "ocean": of_ocean,
    "arrays": lambda: arrays.product_diffsim({"n": 1000, "dtype": "f8", "zeros": True}),
    "compile_time": lambda: compile_time.cases(True),
    "plan": lambda: plan.CASES,
    "schedules": of_schedules,
    "solve": lambda: solve.measure({"what": "cg", "n": N, "medium": "noise", "turns": 1}),
    "storage": of_storage,
    "tiles": lambda: tiles.by_diffsim({"work": "matmul", "tiles": 32, "n": 4, "threads": 1}),
}


def main() -> None:
    with build_folder():
        for name in sys.argv[1:] or SMALLEST:
            begin = time.process_time()
            SMALLEST[name]()
            print(f"{name}: {time.process_time() - begin:.2f} s", flush=True)
    print("THROUGH all")


if __name__ == "__main__":
    main()
