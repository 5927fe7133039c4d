"""Derivatives of array programs, beside C, PyTorch and JAX: `python scripts/bench/arrays.py [--quick] [--peers PYTHON]`.

PYTHON is an interpreter that has both: `python -m venv peers && peers/bin/pip install torch jax`, then `--peers peers/bin/python`. Each
contender runs in a process of its own on two threads, in turns with the others; a process warms up, then gives the median of its calls.
"product" is the value and the gradient of sum(cumprod(x) * x), in C by running.c (where there is gcc). Scans and histograms are compared
with themselves: value and gradient over the plain forward. "record" is the cost of operations on numbers.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import COMPILE, machine, median, timed

THREADS = 2
WARM_UP, CALLS = 2, 5
EXACT, C_EXACT = 1e-12, {"f4": 1e-3, "f8": 1e-12}
MOST = 5.0
"""Value and gradient take at most this multiple of the plain forward."""
RECORDED, SWEPT = 10.0, 20.0
"""Microseconds that an operation on a number takes at most: recorded, and with the reverse sweep."""
SIZES = (10**6, 10**7)
MOST_OF_C = 2.0
"""Times of the C version that a product takes at most."""
CONTENDERS = ("diffsim", "C", "torch", "jax")
PEERS = ("torch", "jax")
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
    import diffsim.numpy as dnp

    diffsim.init(threads=THREADS)
    x = product_operand(case)

    def value(x: Any) -> Any:
        return dnp.sum(dnp.cumprod(x) * x)

    gradient = diffsim.value_and_grad(value)
    if case["n"] <= SIZES[0] and case["dtype"] == "f8":
        wanted = product_reference(x)
        error = float(np.abs(gradient(x)[1] - wanted).max() / np.abs(wanted).max())
        if not error <= EXACT:
            raise SystemExit(f"the gradient of the product is wrong by {error:.1e} of its largest value, expected at most {EXACT:.0e}")
    return measured({"value": lambda: value(x), "value and gradient": lambda: gradient(x)})


def product_c(case: Case) -> Timings:
    x = product_operand(case)
    y, bar = np.empty_like(x), np.empty_like(x)
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "running.so"
        subprocess.run([*COMPILE, str(Path(__file__).with_name("running.c")), "-o", str(library)], check=True)
        function = getattr(ctypes.CDLL(str(library)), f"product_{case['dtype']}")
    function.restype = ctypes.c_float if case["dtype"] == "f4" else ctypes.c_double
    function.argtypes = [*(ctypes.c_void_p,) * 3, ctypes.c_long, ctypes.c_int]

    def value() -> None:
        function(x.ctypes.data, y.ctypes.data, None, x.size, THREADS)

    def gradient() -> None:
        function(x.ctypes.data, y.ctypes.data, bar.ctypes.data, x.size, THREADS)

    gradient()
    wanted = product_reference(x) if case["n"] <= SIZES[0] else bar
    error = float(np.abs(bar - wanted).max() / np.abs(wanted).max())
    if not error <= C_EXACT[case["dtype"]]:
        raise SystemExit(f"the C version's gradient is wrong by {error:.1e} of its largest value: it would be timed for other work")
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

    diffsim.init(threads=THREADS)
    random = np.random.default_rng(0)
    angle, noise = random.uniform(0, 2 * np.pi, case["n"]), random.normal(0, 1e-4, (4, case["n"]))
    entries = (np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle))
    xs = tuple((m + e).astype(case["dtype"]) for m, e in zip(entries, noise, strict=True))
    bars = tuple(random.standard_normal(case["n"]).astype(case["dtype"]) for _ in xs)

    def product(a: Any, b: Any) -> Any:
        return a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]

    def forward(xs: Any) -> Any:
        return diffsim.scan(product, xs)

    return measured({"value": lambda: forward(xs), "value and gradient": lambda: diffsim.vjp(forward, xs)[1](bars)})


def histogram_diffsim(case: Case) -> Timings:
    """`n` values into `bins` bins."""
    import diffsim

    diffsim.init(threads=THREADS)
    n, bins, kind, dtype = case["n"], case["bins"], case["kind"], case["dtype"]
    random = np.random.default_rng(0)
    index, values = random.integers(0, bins, n), random.uniform(0.99, 1.01, n).astype(dtype)
    dst, bar = np.ones(bins, dtype), random.standard_normal(bins).astype(dtype)
    op, dsts, all_values, bars = kind, dst, values, bar
    if kind == "affine":
        op, dsts, all_values, bars = _affine, (dst, dst), (values, values), (bar, bar)

    def forward(dst: Any, values: Any) -> Any:
        return diffsim.reduce_by_index(op, dst, index, values)

    def gradient() -> Any:
        return diffsim.vjp(forward, dsts, all_values)[1](bars)

    return measured({"value": lambda: forward(dsts, all_values), "value and gradient": gradient})


def _affine(a: Any, b: Any) -> Any:
    """Composition of y -> m y + c."""
    return a[0] * b[0], a[1] * b[0] + b[1]


def record_diffsim(case: Case) -> Timings:
    """Programs of many operations on numbers."""
    import diffsim
    import diffsim.numpy as dnp

    n = case["n"]

    def chain(x: Any) -> Any:
        for _ in range(n):
            x = x + x if case["kind"] == "x + x" else dnp.sin(x)
        return x

    x = np.float64(1e-300) if case["kind"] == "x + x" else np.float64(1.0)
    with np.errstate(over="ignore"):
        return measured({"value": lambda: diffsim.vjp(chain, x), "value and gradient": lambda: diffsim.value_and_grad(chain)(x)})


def measured(calls: dict[str, Callable[[], object]]) -> Timings:
    """Median milliseconds of each call, in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(WARM_UP + CALLS):
        for name, call in calls.items():
            timings = timed(call)
            if turn >= WARM_UP:
                seconds[name].append(timings)
    return {name: 1e3 * median(values) for name, values in seconds.items()}


WORK: dict[tuple[str, str], Callable[[Case], Timings]] = {
    ("product", "diffsim"): product_diffsim,
    ("product", "C"): product_c,
    ("product", "torch"): product_torch,
    ("product", "jax"): product_jax,
    ("matrix", "diffsim"): matrix_diffsim,
    ("histogram", "diffsim"): histogram_diffsim,
    ("record", "diffsim"): record_diffsim,
}


def cases(quick: bool) -> list[Case]:
    sizes = SIZES[:1] if quick else SIZES
    products = [{"work": "product", "n": n, "dtype": t, "zeros": z} for n in sizes for t in ("f4", "f8") for z in (False, True)]
    matrices = [{"work": "matrix", "n": 10**6, "dtype": t} for t in ("f4", "f8")]
    kinds = ("+", "*", "max", "affine")
    histograms = [{"work": "histogram", "n": sizes[-1], "bins": b, "kind": k, "dtype": "f8"} for b in (10**3, 10**6) for k in kinds]
    records = [{"work": "record", "kind": "x + x", "n": n} for n in (10**5, 10**6)] + [{"work": "record", "kind": "sin", "n": 10**5}]
    return products + matrices + histograms + records


def run(case: Case, contender: str, peers: str | None) -> Timings | None:
    """A contender's timings of a case, in a process of its own; None: it has no such work, or is not installed."""
    if (
        (case["work"], contender) not in WORK
        or (contender in PEERS and peers is None)
        or (contender == "C" and not shutil.which(COMPILE[0]))
    ):
        return None
    python = peers if contender in PEERS and peers is not None else sys.executable
    path = os.pathsep.join(p for p in (str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")) if p)
    threads = {name: str(THREADS) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [python, __file__, "--case", json.dumps(case), "--contender", contender]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **threads, "PYTHONPATH": path})
    if done.returncode:
        raise SystemExit(f"{contender} {case} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def turns(case: Case, count: int, peers: str | None) -> dict[str, Timings]:
    """Medians over `count` turns of the contenders that there are."""
    timings_of: dict[str, list[Timings]] = {}
    for _ in range(count):
        for contender in CONTENDERS:
            timings = run(case, contender, peers)
            if timings is not None:
                timings_of.setdefault(contender, []).append(timings)
    return {c: {key: median([t[key] for t in all_turns]) for key in all_turns[0]} for c, all_turns in timings_of.items()}


def report(case: Case, found: dict[str, Timings]) -> str:
    """A line for each contender, and the verdict on diffsim's target."""
    title = ", ".join(f"{key} {value}" for key, value in case.items() if key != "work")
    lines = [f"{case['work']} ({title})"]
    lines += [f"    {c:8s} value {t['value']:9.2f} ms, with gradient {t['value and gradient']:9.2f} ms" for c, t in found.items()]
    ours = found["diffsim"]
    if case["work"] == "product":
        for peer in (c for c in found if c != "diffsim"):
            ratios = [found[peer][key] / ours[key] for key in ours]
            met = ratios[1] >= (1 / MOST_OF_C if peer == "C" else 1)
            lines.append(f"    {peer:8s} takes {ratios[0]:.2f} x, with gradient {ratios[1]:.2f} x as long  {'met' if met else 'NOT MET'}")
    elif case["work"] == "record":
        recorded, both = (1e3 * ours[key] / case["n"] for key in ("value", "value and gradient"))
        met = recorded < RECORDED and both < SWEPT
        lines.append(
            f"    recorded {recorded:.2f} us an operation, value and gradient {both:.2f}, at most {RECORDED:g} and {SWEPT:g}  "
            + ("met" if met else "NOT MET")
        )
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
