"""Every kernel once, in a process of its own: `python -m tests.kernels.run_all ARCH THREADS PRECISION digest|error`.

Prints a digest of each result's bits, or its error against the same in f64 by NumPy.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import diffsim as ds
from diffsim import kernels
from diffsim.kernels import launch
from tests.kernels.operators import CASES

SHAPES = ((1, 40_000, 1), (3, 6_000, 2), (2, 240, 70))
NAMES = ("product", "matrix", "arg-max", "segmented sum")


def flat(result: Any) -> list[np.ndarray]:
    if result is None:
        return []
    return [result] if isinstance(result, np.ndarray) else [a for part in result for a in flat(part)]


def everything(float_type: str, int_type: str) -> Iterable[tuple[str, Callable[[], Any]]]:
    """Name and call of each kernel, with operands of these types."""

    def converted(arrays: Iterable[np.ndarray | None]) -> Any:
        kinds = {"f": float_type, "i": int_type}
        return tuple(None if a is None else a.astype(kinds.get(a.dtype.kind, a.dtype)) for a in arrays)

    rng = np.random.default_rng(50)
    for shape in SHAPES:
        x, ct = converted((rng.uniform(0.99, 1.01, shape), rng.standard_normal(shape)))
        y = kernels.cumprod(x)
        yield f"cumsum {shape}", lambda ct=ct: kernels.cumsum(ct, True)
        yield f"cumprod {shape}", lambda x=x: kernels.cumprod(x)
        yield f"cumprod_vjp {shape}", lambda x=x, y=y, ct=ct: kernels.cumprod_vjp(x, y, ct)
        yield f"recurrence {shape}", lambda x=x, ct=ct: kernels.linear_recurrence(0.9 * x, ct)
        yield f"cummax {shape}", lambda ct=ct: kernels.cummax(np.round(ct, 3))
        for case in (c for c in CASES if c.name in NAMES):
            op, xs = case.operator, converted(case.operands(shape, 51))
            ys = kernels.scan(op, xs)
            bars = converted(rng.standard_normal(x.shape) if x.dtype.kind == "f" else None for x in xs)
            yield f"scan {case.name} {shape}", lambda op=op, xs=xs: kernels.scan(op, xs, True)
            yield f"scan_vjp {case.name} {shape}", lambda op=op, xs=xs, ys=ys, bars=bars: kernels.scan_vjp(op, xs, ys, bars)
            yield f"reduce {case.name} {shape}", lambda op=op, xs=xs: kernels.reduce(op, xs)
    for n, bins, cols in ((40_000, 50, 1), (12_500, 20, 3), (12_500, 700, 3)):
        (index,) = converted((rng.integers(-1, bins + 1, n),))
        for case in (c for c in CASES if c.name in NAMES):
            op, values, dsts = case.operator, converted(case.operands((n, cols), 52)), converted(case.operands((bins, cols), 53))
            bars = converted(rng.standard_normal(d.shape) if d.dtype.kind == "f" else None for d in dsts)
            where = f"{case.name} {n} {bins} {cols}"
            yield f"histogram {where}", lambda op=op, d=dsts, i=index, v=values: kernels.histogram_generic(op, d, i, v)
            yield f"histogram_vjp {where}", lambda op=op, d=dsts, i=index, v=values, b=bars: kernels.histogram_generic_vjp(op, d, i, v, b)
            yield f"winners {where}", lambda d=dsts, i=index, v=values: kernels.histogram_winners("max", d[-1], i, v[-1])
        yield f"order {n} {bins} {cols}", lambda i=index, bins=bins: kernels.order_by_index(i, bins)


def main(arch: str, threads: str, precision: str, what: str) -> dict[str, str | float]:
    ds.init(arch=arch, threads=int(threads) or None, precision=precision)
    single = precision == "f32"
    results = {name: flat(call()) for name, call in everything("f4" if single else "f8", "i4" if single else "i8")}
    if what == "digest":
        return {name: hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest() for name, arrays in results.items()}
    launch.SMALLEST = 1 << 40
    errors: dict[str, str | float] = {}
    for name, call in everything("f8", "i8"):
        errors[name] = 0.0
        for got, wanted in zip(results[name], (a.astype("f8") for a in flat(call())), strict=True):
            errors[name] = max(float(errors[name]), float(np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-30)))
    return errors


if __name__ == "__main__":
    print("RESULT", json.dumps(main(*sys.argv[1:])))
