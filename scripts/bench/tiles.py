"""Tile programs, beside NumPy, JAX and Warp: `python scripts/bench/tiles.py [--tiles N] [--peers PYTHON]`.

PYTHON is an interpreter that has the peers: `python -m venv peers && peers/bin/pip install jax warp-lang`, then `--peers peers/bin/python`.
Each contender runs in a process of its own, in turns with the others; a process warms up, then gives the median of its calls. "program" is
one of 20 operations on tiles of 8 x 8, value and gradient for both arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TURNS, CALLS = 5, 7
WORK = ("program", "matmul", "cholesky", "solve")
HERE = Path(__file__).resolve()


def arguments(tiles: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(tiles, 8, 8)).astype(np.float32), rng.normal(size=(tiles, 8, 8)).astype(np.float32)


def program(np: Any, a: Any, k: Any) -> Any:
    """Twenty operations on two tiles, or on two arrays of tiles."""
    turned = a.T if a.ndim == 2 else np.swapaxes(a, 1, 2)

    def kinked(x: Any) -> Any:
        return np.maximum(x, 0.1 * x)

    b = a * k
    d = b + turned * 0.5
    e = d * d
    f = e - a
    h = kinked(f @ k)
    o = np.maximum(h, a) * 0.25 + f
    q = kinked(o @ d)
    r = q - b
    x = np.maximum(r * r + o * 0.1, e)
    return np.sum(x - k)


def timings(call: Callable[[], Any]) -> dict[str, float]:
    """Medians in ms: by the clock, and of CPU time of all threads."""
    call()
    walls, cpus = [], []
    for _ in range(CALLS):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {"ms": float(np.median(walls)) * 1e3, "cpu": float(np.median(cpus)) * 1e3}


def by_diffsim(case: dict[str, Any]) -> dict[str, float]:
    import diffsim as ds
    import diffsim.numpy as dnp

    ds.init(threads=case["threads"])
    a, k = arguments(case["tiles"])
    start = time.process_time()
    if case["work"] in ("program", "array program"):
        mapped = ds.tile.map(lambda a, k: program(dnp, a, k))
        batched = case["work"] == "array program"
        gradient = ds.value_and_grad(lambda a, k: program(dnp, a, k) if batched else dnp.sum(mapped(a, k)), argnums=(0, 1))
        gradient(a, k)
        return {"first": time.process_time() - start} | timings(lambda: gradient(a, k))
    call = ds.tile.map(lambda *x: matrix_work(dnp, case["work"], *x))
    operands = matrices(case)
    call(*operands)
    return {"first": time.process_time() - start} | timings(lambda: call(*operands))


def matrices(case: dict[str, Any]) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    n = case["n"]
    a = rng.normal(size=(case["tiles"], n, n)).astype(np.float32)
    s = a @ a.transpose(0, 2, 1) + np.eye(n, dtype=np.float32)
    return {"matmul": (a, s), "cholesky": (s,), "solve": (s, a)}[case["work"]]


def matrix_work(np: Any, work: str, *x: Any) -> Any:
    return {"matmul": lambda: x[0] @ x[1], "cholesky": lambda: np.linalg.cholesky(x[0]), "solve": lambda: np.linalg.solve(*x)}[work]()


def by_numpy(case: dict[str, Any]) -> dict[str, float]:
    operands = matrices(case)
    return timings(lambda: matrix_work(np, case["work"], *operands))


def by_jax(case: dict[str, Any]) -> dict[str, float]:
    import jax

    a, k = map(jax.device_put, arguments(case["tiles"]))
    mapped = jax.vmap(lambda a, k: program(jax.numpy, a, k))
    gradient = jax.jit(jax.value_and_grad(lambda a, k: jax.numpy.sum(mapped(a, k)), argnums=(0, 1)))
    start = time.process_time()
    jax.block_until_ready(gradient(a, k))
    return {"first": time.process_time() - start} | timings(lambda: jax.block_until_ready(gradient(a, k)))


def by_warp(case: dict[str, Any]) -> dict[str, float]:
    import tempfile

    folder = Path(tempfile.mkdtemp())
    (folder / "warp_program.py").write_text(WARP)  # Warp reads the source of its kernels
    sys.path.insert(0, str(folder))
    import warp_program

    a, k = arguments(case["tiles"])
    start = time.process_time()
    call = warp_program.gradient(a.reshape(-1, 8), k.reshape(-1, 8))
    call()
    return {"first": time.process_time() - start} | timings(call)


WARP = """
import warp as wp
wp.config.quiet = True

@wp.func
def kinked(x: float):
    return wp.max(x, 0.1 * x)

@wp.func
def larger(x: float, y: float):
    return wp.max(x, y)

@wp.kernel
def program(u: wp.array2d(dtype=float), v: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    a = wp.tile_load(u, shape=(8, 8), offset=(i * 8, 0))
    k = wp.tile_load(v, shape=(8, 8), offset=(i * 8, 0))
    b = wp.tile_map(wp.mul, a, k)
    d = b + wp.tile_transpose(a) * 0.5
    e = wp.tile_map(wp.mul, d, d)
    f = e - a
    h = wp.tile_map(kinked, wp.tile_matmul(f, k))
    o = wp.tile_map(larger, h, a) * 0.25 + f
    q = wp.tile_map(kinked, wp.tile_matmul(o, d))
    r = q - b
    x = wp.tile_map(larger, wp.tile_map(wp.mul, r, r) + o * 0.1, e)
    wp.tile_store(out, wp.tile_sum(x - k), offset=(i,))

def gradient(a, k):
    count = a.shape[0] // 8
    u, v = (wp.array(x, dtype=float, requires_grad=True, device="cpu") for x in (a, k))
    out = wp.zeros(count, dtype=float, requires_grad=True, device="cpu")
    ones = wp.ones(count, dtype=float, device="cpu")
    def call():
        tape = wp.Tape()
        with tape:
            wp.launch_tiled(program, dim=[count], inputs=[u, v], outputs=[out], block_dim=1, device="cpu")
        tape.backward(grads={out: ones})
        tape.zero()
    return call
"""


CONTENDERS: dict[str, Callable[[dict[str, Any]], dict[str, float]]] = {
    "diffsim": by_diffsim,
    "numpy": by_numpy,
    "jax": by_jax,
    "warp": by_warp,
}


def run(name: str, case: dict[str, Any], python: str) -> dict[str, float]:
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([python, str(HERE), "--one", name, json.dumps(case)], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def compare(title: str, cases: list[tuple[str, str, dict[str, Any], str]]) -> None:
    """Run contenders in turns, and print medians and the ratio of each to the first."""
    timings_of: dict[str, list[dict[str, float]]] = {label: [] for label, *_ in cases}
    for _ in range(TURNS):
        for label, name, case, python in cases:
            timings_of[label].append(run(name, case, python))
    first = [t["cpu"] for t in timings_of[cases[0][0]]]
    for label, turns in timings_of.items():
        ratio = float(np.median([t["cpu"] / f for t, f in zip(turns, first, strict=True)]))
        wall, cpu = (float(np.median([t[key] for t in turns])) for key in ("ms", "cpu"))
        starts = f", first call {np.median([t['first'] for t in turns]):.2f} s of CPU" if "first" in turns[0] else ""
        print(f"{title:28} {label:28} {wall:8.1f} ms, {cpu:8.1f} ms of CPU, {ratio:6.2f} times{starts}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiles", type=int, default=100_000)
    parser.add_argument("--peers", help="an interpreter with jax and warp")
    parser.add_argument("--work", nargs="+", choices=WORK, default=WORK)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(CONTENDERS[options.one[0]](json.loads(options.one[1]))))
        return
    here, base = sys.executable, {"tiles": options.tiles, "threads": 1}
    whole = {**base, "work": "program"}
    cases = [("diffsim, one thread", "diffsim", whole, here), ("diffsim, two threads", "diffsim", {**whole, "threads": 2}, here)]
    cases.append(("diffsim, array program", "diffsim", {**base, "work": "array program"}, here))
    if options.peers:
        cases += [(name, name, whole, options.peers) for name in ("jax", "warp")]
    if "program" in options.work:
        compare("program", cases)
    for work in (w for w in WORK if w != "program" and w in options.work):
        for n in (8, 16):
            case = {**base, "work": work, "n": n}
            both = [("diffsim, one thread", "diffsim", case, here), ("diffsim, two threads", "diffsim", {**case, "threads": 2}, here)]
            compare(f"{work} {n} x {n}", [*both, ("NumPy", "numpy", case, here)])


if __name__ == "__main__":
    main()
