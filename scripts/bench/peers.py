"""diffsim beside other packages: `python scripts/bench/peers.py [--quick] [--only NAME ...] [--threads N ...] [--out FOLDER]`.

Each peer is one file, scripts/bench/peers/by_NAME.py, that runs in an environment of its own, which is made on first use. For each row
a process of diffsim and one of the peer do the same work. Their results are compared, then both are timed in turns: whole calls, from NumPy
arrays to NumPy arrays. Compilation is apart. FOLDER (docs/benchmarks) gets peers.json, peers.md and peers.png.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from common import PAUSE, build_folder, machine, median, others_seconds, ratios
from peer_process import Peer, Unavailable, Worker, peers
from peer_report import write
from peer_rows import Row, rows

ROOT = Path(__file__).resolve().parents[2]
TURNS, BUDGET, LIMIT, OWN_LIMIT = 7, 3.0, 30.0, 600.0
"""Turns at most; seconds of a peer's turns after which no other begins; seconds after which a call of a peer, or of diffsim, ends."""


@dataclass
class Entry:
    """The outcome of a peer in a row.

    Attributes:
        row: its name.
        threads: of both.
        peer: its name.
        seconds: of each turn of the peer.
        ours: of each turn of diffsim.
        processor: CPU time of each turn of the peer.
        first: the first call of the peer, with compilation.
        error: of its results against diffsim's, relative to the largest value.
        others: cores that other processes took meanwhile.
        cannot: why there are no figures.
    """

    row: str
    threads: int
    peer: str
    seconds: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    first: float | None = None
    error: float | None = None
    others: float = 0.0
    cannot: str | None = None

    @property
    def ratio(self) -> tuple[float, tuple[float, float]]:
        """Time of the peer over diffsim's: median and quartiles over turns."""
        return ratios(self.seconds, self.ours)


def measure(row: Row, threads: int, contenders: list[tuple[Peer, str]], quick: bool, limit: float) -> list[Entry]:
    """All peers of a row, one after the other, each in turns with diffsim, which is the first of the contenders.

    A call of a peer may take `limit` seconds, with compilation.
    """
    with tempfile.TemporaryDirectory(prefix="diffsim-peers-") as scratch:
        problem = Path(scratch) / "problem.npz"
        row.write(problem, threads)

        def started(peer: Peer, python: str) -> Worker:
            most = OWN_LIMIT if peer.name == "diffsim" else limit
            return Worker(peer, python, problem, Path(scratch) / f"{peer.name}.npz", threads, most)

        (diffsim, python), others = contenders[0], contenders[1:]
        us = started(diffsim, python)
        wanted = _results(scratch, diffsim)
        entries = []
        try:
            for peer, python in others:
                entry = Entry(row.name, threads, peer.name)
                entries.append(entry)
                try:
                    them = started(peer, python)
                except Unavailable as reason:
                    entry.cannot = str(reason)
                else:
                    try:
                        _compare_and_time(entry, row, us, them, wanted, _results(scratch, peer), 2 if quick else TURNS)
                    except Unavailable as reason:
                        entry.cannot = str(reason)
                    finally:
                        them.close()
                print(f"    {_line(entry)}", flush=True)
        finally:
            us.close()
    return entries


def _compare_and_time(
    entry: Entry, row: Row, us: Worker, them: Worker, wanted: dict[str, np.ndarray], found: dict[str, np.ndarray], turns: int
) -> None:
    entry.first = them.first
    entry.error = max(float(np.abs(found[name] - value).max() / np.abs(value).max()) for name, value in wanted.items())
    if not entry.error <= row.tolerance:
        raise Unavailable(f"its results differ by {entry.error:.1e} of the largest value, expected at most {row.tolerance:.0e}")
    begin, busy, own = time.perf_counter(), others_seconds(), 0.0
    while len(entry.seconds) < turns and (len(entry.seconds) < 2 or sum(entry.seconds) < BUDGET):
        time.sleep(PAUSE)
        ours = us.turn()
        time.sleep(PAUSE)
        theirs = them.turn()
        entry.ours.append(ours["seconds"])
        entry.seconds.append(theirs["seconds"])
        entry.processor.append(theirs["processor"])
        own += ours["processor"] + theirs["processor"]
        if entry.seconds[-1] > 2 * BUDGET:
            break
    entry.others = max(0.0, (others_seconds() - busy - own) / (time.perf_counter() - begin))


def _results(scratch: str, peer: Peer) -> dict[str, np.ndarray]:
    with np.load(Path(scratch) / f"{peer.name}.npz") as file:
        return {name: file[name] for name in file.files}


def _line(entry: Entry) -> str:
    if entry.cannot:
        return f"{entry.peer:10s} - ({entry.cannot})"
    ratio, (low, high) = entry.ratio
    return (
        f"{entry.peer:10s} {median(entry.seconds):8.3f} s, diffsim {median(entry.ours):8.3f} s, ratio {ratio:6.2f} ({low:.2f} {high:.2f}), "
        f"{len(entry.seconds)} turns, error {entry.error:.0e}, first call {entry.first:.1f} s, others took {entry.others:.2f} cores"
    )


def chosen(names: list[str], all_peers: list[Peer], all_rows: list[Row]) -> tuple[list[Peer], list[Row]]:
    """Peers and rows that `names` name; a name is a peer's, or the beginning of a row's. All of a kind of which none is named.

    Raises:
        SystemExit: a name is neither.
    """
    some_peers = [peer for peer in all_peers if peer.name in names or peer.name == "diffsim"]
    some_rows = [row for row in all_rows if any(row.name.startswith(name) for name in names)]
    known = {peer.name for peer in some_peers}
    for name in names:
        if name not in known and not any(row.name.startswith(name) for row in some_rows):
            listed = ", ".join([*(peer.name for peer in all_peers), *(row.name for row in all_rows)])
            raise SystemExit(f"--only {name}: expected peers or beginnings of rows among {listed}")
    return some_peers if len(some_peers) > 1 else all_peers, some_rows or all_rows


def lines_of(results: dict[str, Any]) -> str:
    """Results as JSON, with a line for each entry of a list."""
    parts = []
    for key, value in results.items():
        text = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]" if isinstance(value, list) and value else json.dumps(value)
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare diffsim with other packages.")
    parser.add_argument("--quick", action="store_true", help="small grids, few steps, two turns; results go to build/peers")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="peers, or beginnings of rows")
    parser.add_argument("--threads", nargs="+", type=int, default=[2], metavar="N", help="of all contenders")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS", help="after which a call of a peer is given up")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="of the results")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="of the peers' environments")
    options = parser.parse_args()
    cache = options.cache or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "diffsim-peers"
    folder = options.out or ROOT / ("build/peers" if options.quick else "docs/benchmarks")
    some_peers, some_rows = chosen(options.only, peers(), rows(options.quick))
    about, begin = machine(), time.perf_counter()
    for key, value in about.items():
        print(f"{key:10s} {value}")
    contenders, absent = [], {}
    for peer in some_peers:
        try:
            contenders.append((peer, peer.python(cache)))
        except Unavailable as reason:
            absent[peer.name] = str(reason)
            print(f"{peer.title} is left out: it {reason}", flush=True)
    entries: list[Entry] = []
    with build_folder():
        for threads in options.threads:
            for k, row in enumerate(some_rows):
                print(f"{time.perf_counter() - begin:5.0f} s, {threads} threads, row {k + 1} of {len(some_rows)}: {row.title}", flush=True)
                entries += measure(row, threads, contenders, options.quick, options.limit)
    listed = [(peer.name, peer.title, peer.versions, peer.notes) for peer, _ in contenders]
    folder.mkdir(parents=True, exist_ok=True)
    results = {
        "machine": about,
        "quick": options.quick,
        "peers": [dict(zip(("name", "title", "versions", "notes"), one, strict=True)) for one in listed],
        "absent": absent,
        "rows": [{"name": row.name, "title": row.title, "tolerance": row.tolerance} for row in some_rows],
        "entries": [asdict(entry) for entry in entries],
    }
    partial = folder / "peers.part"
    partial.write_text(lines_of(results))
    partial.replace(folder / "peers.json")
    write(folder)
    print(
        f"{time.perf_counter() - begin:.0f} s in all; written: {', '.join(str(folder / f'peers.{end}') for end in ('json', 'md', 'png'))}"
    )
    if any(entry.cannot and entry.cannot.startswith("its results") for entry in entries):
        sys.exit(1)


if __name__ == "__main__":
    main()
