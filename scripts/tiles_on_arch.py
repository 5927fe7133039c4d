"""The programs of tests/tile on another arch, against the CPU: `python scripts/tiles_on_arch.py vulkan [--seconds 60]`.

Arguments are in f32, and so are arrays that programs make without naming a type. The value of each program and its
pullback of random cotangents must agree with the CPU's. Programs run one after the other in a process of their own. One that
takes longer than `--seconds` is ended, and counted.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

TOLERANCE = 2e-4
"""Largest difference from the CPU, relative to the largest entry (or 1): f32, and factorisations among the programs."""


MAKERS = ("zeros", "ones", "empty", "full", "eye", "identity", "linspace")
"""Functions that make f64 when no type is named."""


class Single:
    """`diffsim.numpy`, where f32 is the type of new arrays."""

    def __getattr__(self, name: str) -> Any:
        import diffsim.numpy as dnp

        member = getattr(dnp, name)
        if name not in MAKERS:
            return member
        return lambda *args, **options: member(*args, **({"dtype": np.float32} | options))


def single(tree: Any) -> Any:
    from tests.ad.programs.trees import is_float, tree_map

    def change(leaf: Any) -> Any:
        return np.asarray(leaf, np.float32) if leaf is not None and is_float(leaf) else leaf

    return tree_map(change, tree)


def results(arch: str, case: Any) -> list[np.ndarray]:
    """The value of a program and its pullback, for all tiles."""
    import diffsim as ds
    from tests.tile.agree import leaves, of_some, random_like, stacked
    from tests.tile.programs.cases import tiles

    ds.init(arch=arch, precision="f32")
    parts = tiles(case)
    batch = [single(stacked([part[k] for part in parts])) for k in range(len(case.args))]
    mapped = ds.tile.map(case.bind(Single(), ds))
    value, back = ds.vjp(of_some(mapped, batch, case.wrt), *(batch[k] for k in case.wrt))
    bars = back(random_like(value, np.random.default_rng(7)))
    return [np.asarray(x) for x in (*leaves(value), *leaves(bars))]


def difference(arch: str, case: Any) -> float:
    values, expected = results(arch, case), results("cpu", case)
    if [x.shape for x in values] != [y.shape for y in expected]:
        return float("inf")
    parts = [
        np.abs(x.astype(float) - y.astype(float)).max(initial=0) / max(np.abs(y).max(initial=0), 1)
        for x, y in zip(values, expected, strict=True)
    ]
    return float(max(parts, default=0.0))


def work(arch: str, first: int) -> None:
    """Judge programs from number `first` on, a line of JSON for each."""
    from diffsim.errors import DiffsimError
    from tests.tile.programs import CASES

    warnings.simplefilter("ignore")
    for number in range(first, len(CASES)):
        try:
            apart = difference(arch, CASES[number])
            line = {"result": "agrees" if apart <= TOLERANCE else "differs", "by": apart}
        except DiffsimError as error:
            refused = "float64" in str(error) or "double precision" in str(error)
            line = {"result": "refused: double precision" if refused else "refused", "by": str(error)[:200]}
        except Exception as error:
            line = {"result": "error", "by": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps({"number": number, "name": str(CASES[number])} | line), flush=True)


def forward(stream: Iterable[str], lines: queue.Queue[str]) -> None:
    """Put each line of a stream into the queue, and an empty one at its end."""
    for line in stream:
        lines.put(line)
    lines.put("")


def judged(arch: str, seconds: float) -> list[dict[str, Any]]:
    from tests.tile.programs import CASES

    verdicts: list[dict[str, Any]] = []
    while len(verdicts) < len(CASES):
        process = subprocess.Popen(
            [sys.executable, __file__, arch, "--first", str(len(verdicts))], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        threading.Thread(target=forward, args=(process.stdout, lines), daemon=True).start()
        while len(verdicts) < len(CASES):
            try:
                line = lines.get(timeout=seconds)
            except queue.Empty:
                line = ""
            if not line:  # it takes too long, or the process ended
                ended = process.poll()
                result = f"longer than {seconds:g} s" if ended is None else f"process ended with {ended}"
                verdicts.append({"number": len(verdicts), "name": str(CASES[len(verdicts)]), "result": result, "by": None})
                break
            if line.startswith("{"):
                verdicts.append(json.loads(line))
                print(f"{verdicts[-1]['name']:50} {verdicts[-1]['result']} {verdicts[-1]['by']}", flush=True)
        process.kill()
        process.wait()
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("arch")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first is not None:
        work(options.arch, options.first)
        return
    verdicts = judged(options.arch, options.seconds)
    counts = Counter(each["result"] for each in verdicts)
    print(", ".join(f"{count} {result}" for result, count in counts.most_common()))
    raise SystemExit(any(each["result"] in ("differs", "error", "refused") for each in verdicts))


if __name__ == "__main__":
    main()
