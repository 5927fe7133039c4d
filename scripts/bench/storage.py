"""Stores of states, and their fingerprint: `python scripts/bench/storage.py [--quick] [--folder FOLDER] [--out FILE.json]`.

A state is two wave fields, smooth with round-off in the last digits, as after some hundred steps. "write" is the wait of the primal
when the disk is idle, "through" is the time until a state is on its way to the disk and the next could be; "read" has no fetch before it.
All speeds are of the bytes of the state, not of those stored. Files are written and read past the system's cache unless compressed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
from common import machine, timed

from diffsim.checkpoint import Compression, DiskStore, HostStore, Lossless, Lossy, StateLayout
from diffsim.checkpoint.storage.fingerprint import fingerprint

SIZES = (8 << 20, 64 << 20)
SLOTS = 3
COMPRESSIONS: dict[str, Callable[[], Compression | None]] = {
    "raw": lambda: None,
    "lossless": Lossless,
    "lossy 1e-4": lambda: Lossy(1e-4),
}
FINGERPRINT_TARGET = 8.0
"""GB/s on one core for arrays of 8 MiB."""
Row = tuple[str, float, str]


def wave(nbytes: int) -> list[np.ndarray]:
    """Two square fields of `nbytes` in all."""
    n = int((nbytes / 16) ** 0.5)
    x = np.linspace(-1.0, 1.0, n)
    r = np.hypot(x[:, None], x)
    noise = 1.0 + 1e-7 * np.random.default_rng(0).standard_normal((n, n))
    return [np.exp(-((9 * r - shift) ** 2)) * np.sin(40 * r - shift) * noise for shift in (3.0, 3.1)]


def fingerprints(turns: int) -> Iterator[Row]:
    """Speed for large arrays, time for small ones."""
    for nbytes in SIZES:
        state = [np.random.default_rng(0).standard_normal(nbytes // 8)]
        yield f"fingerprint, {nbytes >> 20} MiB", nbytes / 1e9 / seconds(lambda state=state: fingerprint(state), turns), "GB/s"
    halo = np.zeros((1032, 1032))[4:-4, 4:-4]
    yield "fingerprint, 8 MiB within a halo", halo.nbytes / 1e9 / seconds(lambda: fingerprint([halo]), turns), "GB/s"
    small = [np.zeros(128)]
    yield "fingerprint, 1 KiB", 1e6 * seconds(lambda: fingerprint(small), 100 * turns), "us"


def stores(folder: Path, nbytes: int, turns: int) -> Iterator[Row]:
    """Speeds of both stores with each compression."""
    state = wave(nbytes)
    layout = StateLayout.of(state)
    for kind in ("host", "disk"):
        for name, compression in COMPRESSIONS.items():
            codec = compression()
            with HostStore(layout, SLOTS, codec) if kind == "host" else DiskStore(folder / "states", layout, SLOTS, codec) as store:
                times: dict[str, list[float]] = {"write": [], "through": [], "read": []}
                for turn in range(turns + SLOTS + 1):  # once through all blocks, to warm up
                    slot = turn % SLOTS
                    begin = time.perf_counter()
                    store.write(slot, turn, state)
                    times["write"].append(time.perf_counter() - begin)
                    store.kept()
                    times["through"].append(time.perf_counter() - begin)
                    times["read"].append(timed(lambda slot=slot, turn=turn: store.read(slot, turn)))
                for what in times if kind == "disk" else ("write", "read"):
                    speed = layout.nbytes / 1e9 / median(times[what][SLOTS + 1 :])
                    yield f"{kind}, {name}, {nbytes >> 20} MiB, {what}", speed, "GB/s"
                if kind == "host" and codec is not None:
                    yield f"{kind}, {name}, {nbytes >> 20} MiB, bytes stored", (store.nbytes - layout.row_bytes) / SLOTS / layout.nbytes, ""


def seconds(function: Callable[[], object], turns: int) -> float:
    """Median of calls after one to warm up."""
    function()
    return median(timed(function) for _ in range(turns))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how fast states are kept.")
    parser.add_argument("--quick", action="store_true", help="fewer turns")
    parser.add_argument("--folder", type=Path, help="where the files go; a temporary folder by default")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="also write the figures to this file")
    options = parser.parse_args()
    turns = 3 if options.quick else 15
    about = machine()
    for key, value in about.items():
        print(f"{key:10s} {value}")
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="diffsim-bench-") as folder:
        for source in (fingerprints(turns), *(stores(Path(folder), nbytes, turns) for nbytes in SIZES)):
            for row in source:
                rows.append(row)
                target = f"  at least {FINGERPRINT_TARGET:g}" if row[0] == "fingerprint, 8 MiB" else ""
                print(f"{row[0]:44s} {row[1]:9.2f} {row[2]}{target}", flush=True)
    if options.out:
        figures = [{"name": name, "value": value, "unit": unit} for name, value, unit in rows]
        options.out.write_text(json.dumps({"machine": about, "quick": options.quick, "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
