"""Scans and histograms beside PyTorch and JAX: `python scripts/bench/arrays.py [--quick] [--peers PYTHON]`.

PYTHON is an interpreter that has torch and jax. Each contender runs in a process of its own on two threads, in turns
with the others; a process warms up, then gives the median of its calls. PRODUCT is the value and the gradient of
sum(cumprod(x) * x). The others are compared with themselves: value and gradient over the plain forward.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import machine, median, timed

THREADS = 2
WARM_UP, CALLS = 2, 5
EXACT = 1e-12
MOST = 5.0
"""Value and gradient take at most so many times the plain forward."""
SIZES = (10**6, 10**7)
CONTENDERS = ("diffsim", "torch", "jax")
Case = dict[str, Any]
Timings = dict[str, float]


def product_operand(case: Case) -> np.ndarray:
    """Factors near 1; with zeros among them if the case says so."""
    x = np.random.default_rng(0).uniform(0.999, 1.001, case["n"])
    if case["zeros"]:
        x[:: case["n"] // 10] = 0  # the first product is zero already
        x[0] = 1
    return x.astype(case["dtype"])


def product_reference(x: np.ndarray) -> np.ndarray:
    """The gradient by a loop, in extended precision."""
    wide = x.astype(np.longdouble)
    y = np.multiply.accumulate(wide)
    bar, total = np.empty_like(wide), np.longdouble(0)
    for i in range(len(x) - 1, -1, -1):
        total = wide[i] + (wide[i + 1] * total if i + 1 < len(x) else 0)
        bar[i] = total * (y[i - 1] if i else 1) + y[i]
    return bar


def product_diffsim(case: Case) -> Timings:
    import diffsim
    from diffsim import kernels

    diffsim.init(threads=THREADS)
    x = product_operand(case).reshape(1, -1, 1)

    def value() -> tuple[np.ndarray, float]:
        y = kernels.cumprod(x)
        return y, float((y * x).sum())

    def gradient() -> np.ndarray:
        y, _ = value()
        found = kernels.cumprod_vjp(x, y, x)
        found += y
        return found

    if case["n"] <= SIZES[0] and case["dtype"] == "f8":
        wanted = product_reference(x.ravel())
        error = float(np.abs(gradient().ravel() - wanted).max() / np.abs(wanted).max())
        if not error <= EXACT:
            raise SystemExit(f"the gradient of the product is wrong by {error:.1e} of its largest value, expected at most {EXACT:.0e}")
    return measured({"value": value, "value and gradient": gradient})


def product_torch(case: Case) -> Timings:
    import torch

    torch.set_num_threads(THREADS)
    x = torch.tensor(product_operand(case), requires_grad=True)

    def value() -> float:
        with torch.no_grad():
            return float((torch.cumprod(x, 0) * x).sum())

    def gradient() -> None:
        x.grad = None
        (torch.cumprod(x, 0) * x).sum().backward()

    return measured({"value": value, "value and gradient": gradient})


def product_jax(case: Case) -> Timings:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    x = jnp.asarray(product_operand(case))
    value, gradient = jax.jit(_product_of_jax), jax.jit(jax.value_and_grad(_product_of_jax))
    return measured({"value": lambda: value(x).block_until_ready(), "value and gradient": lambda: gradient(x)[1].block_until_ready()})


def _product_of_jax(x: Any) -> Any:
    import jax.numpy as jnp

    return jnp.sum(jnp.cumprod(x) * x)


def matrix_diffsim(case: Case) -> Timings:
    """Running products of 2 x 2 matrices, near rotations."""
    import diffsim
    from diffsim import kernels

    diffsim.init(threads=THREADS)
    random = np.random.default_rng(0)
    shape = (1, case["n"], 1)
    angle, noise = random.uniform(0, 2 * np.pi, shape), random.normal(0, 1e-4, (4, *shape))
    xs = tuple(
        (m + e).astype(case["dtype"]) for m, e in zip((np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)), noise, strict=True)
    )
    bars = tuple(random.standard_normal(shape).astype(case["dtype"]) for _ in xs)
    op = operator(4, lambda g, a, b: [g.add(g.mul(b[2 * i], a[j]), g.mul(b[2 * i + 1], a[2 + j])) for i in (0, 1) for j in (0, 1)])

    def gradient() -> object:
        return kernels.scan_vjp(op, xs, kernels.scan(op, xs), bars)

    return measured({"value": lambda: kernels.scan(op, xs), "value and gradient": gradient})


def histogram_diffsim(case: Case) -> Timings:
    """`n` values into `bins` bins."""
    import diffsim
    from diffsim import kernels

    diffsim.init(threads=THREADS)
    n, bins, kind, dtype = case["n"], case["bins"], case["kind"], case["dtype"]
    random = np.random.default_rng(0)
    index, values = random.integers(0, bins, n), random.uniform(0.99, 1.01, (n, 1)).astype(dtype)
    dst, bar = np.ones((bins, 1), dtype), random.standard_normal((bins, 1)).astype(dtype)
    op = operator(2, lambda g, a, b: [g.mul(a[0], b[0]), g.add(g.mul(a[1], b[0]), b[1])])

    def winners_gradient() -> np.ndarray:
        _, winners = kernels.histogram_winners(kind, dst, index, values)
        found = np.zeros_like(values)
        won = winners[:, 0] >= 0
        found[winners[won, 0]] = bar[won]
        return found

    def forward() -> object:
        if kind == "affine":
            return kernels.histogram_generic(op, (dst, dst), index, (values, values))
        return kernels.histogram(kind, dst, index, values)

    def gradient() -> object:
        if kind == "max":
            return winners_gradient()
        found = forward()
        if kind == "affine":
            return kernels.histogram_generic_vjp(op, (dst, dst), index, (values, values), (bar, bar))
        return (found, bar[index]) if kind == "+" else (found, kernels.histogram_product_vjp(dst, index, values, bar))

    return measured({"value": forward, "value and gradient": gradient})


def operator(arity: int, build: Callable[[Any, Any, Any], list[Any]]) -> Any:
    from diffsim.expr import Graph
    from diffsim.kernels import Operator

    graph = Graph()
    left, right = ([graph.read(f"{side}{k}", ()) for k in range(arity)] for side in "ab")
    return Operator(graph, tuple(build(graph, left, right)))


def measured(calls: dict[str, Callable[[], object]]) -> Timings:
    """Median milliseconds of each call, in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(WARM_UP + CALLS):
        for name, call in calls.items():
            found = timed(call)
            if turn >= WARM_UP:
                seconds[name].append(found)
    return {name: 1e3 * median(values) for name, values in seconds.items()}


WORK: dict[tuple[str, str], Callable[[Case], Timings]] = {
    ("product", "diffsim"): product_diffsim,
    ("product", "torch"): product_torch,
    ("product", "jax"): product_jax,
    ("matrix", "diffsim"): matrix_diffsim,
    ("histogram", "diffsim"): histogram_diffsim,
}


def cases(quick: bool) -> list[Case]:
    sizes = SIZES[:1] if quick else SIZES
    products = [{"work": "product", "n": n, "dtype": t, "zeros": z} for n in sizes for t in ("f4", "f8") for z in (False, True)]
    matrices = [{"work": "matrix", "n": 10**6, "dtype": t} for t in ("f4", "f8")]
    kinds = ("+", "*", "max", "affine")
    histograms = [{"work": "histogram", "n": sizes[-1], "bins": b, "kind": k, "dtype": "f8"} for b in (10**3, 10**6) for k in kinds]
    return products + matrices + histograms


def run(case: Case, contender: str, peers: str | None) -> Timings | None:
    """A contender's timings of a case, in a process of its own; None: it has no such work, or is not installed."""
    if (case["work"], contender) not in WORK or (contender != "diffsim" and peers is None):
        return None
    python = sys.executable if contender == "diffsim" or peers is None else peers
    path = os.pathsep.join(p for p in (str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")) if p)
    threads = {name: str(THREADS) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [python, __file__, "--case", json.dumps(case), "--contender", contender]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **threads, "PYTHONPATH": path})
    if done.returncode:
        raise SystemExit(f"{contender} {case} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def turns(case: Case, count: int, peers: str | None) -> dict[str, Timings]:
    """Medians over `count` turns of the contenders that there are."""
    found: dict[str, list[Timings]] = {}
    for _ in range(count):
        for contender in CONTENDERS:
            timings = run(case, contender, peers)
            if timings is not None:
                found.setdefault(contender, []).append(timings)
    return {c: {key: median([t[key] for t in all_turns]) for key in all_turns[0]} for c, all_turns in found.items()}


def report(case: Case, found: dict[str, Timings]) -> str:
    """A line for each contender, and whether diffsim meets its target."""
    title = ", ".join(f"{key} {value}" for key, value in case.items() if key != "work")
    lines = [f"{case['work']} ({title})"]
    lines += [f"    {c:8s} value {t['value']:9.2f} ms, with gradient {t['value and gradient']:9.2f} ms" for c, t in found.items()]
    ours = found["diffsim"]
    if case["work"] == "product":
        for peer in (c for c in found if c != "diffsim"):
            ratios = [found[peer][key] / ours[key] for key in ours]
            lines.append(f"    {peer:8s} takes {ratios[0]:.2f} x, {ratios[1]:.2f} x as long  {'met' if min(ratios) >= 1 else 'NOT MET'}")
    else:
        ratio = ours["value and gradient"] / ours["value"]
        lines.append(f"    with gradient {ratio:.2f} x the value, at most {MOST:g}  {'met' if ratio <= MOST else 'NOT MET'}")
    return "\n".join(lines)


def peers_found(python: str) -> str | None:
    """`python` if it has torch and jax."""
    done = subprocess.run([python, "-c", "import torch, jax"], capture_output=True, text=True)
    return python if done.returncode == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure scans and histograms beside PyTorch and JAX.")
    parser.add_argument("--quick", action="store_true", help="a million elements only, one turn")
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON", help="interpreter that has torch and jax")
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is not None:
        print(json.dumps(WORK[options.case["work"], options.contender](options.case)))
        return
    for key, value in machine().items():
        print(f"{key:10s} {value}")
    peers = peers_found(options.peers)
    if peers is None:
        print(f"{options.peers} has no torch and jax: diffsim alone; name an interpreter that has them with --peers")
    for case in cases(options.quick):
        print(report(case, turns(case, 1 if options.quick else 3, peers)), flush=True)


if __name__ == "__main__":
    main()
