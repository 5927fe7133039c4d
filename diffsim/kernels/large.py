"""Scans and reductions by compiled kernels, for large arrays (rows, n, cols)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from diffsim import engine
from diffsim.base import buffers
from diffsim.kernels.chains import LARGEST_GROUP, ReduceSource, ScanSource
from diffsim.kernels.chains_adjoint import AdjointSource
from diffsim.kernels.launch import launch, workers
from diffsim.kernels.operator import Operator

Arrays = tuple[npt.NDArray, ...]

ARRAYS, ADJOINT_ARRAYS = 3, 6
"""Arrays that a scan, and its adjoint, take for each component."""
LONGEST = 4112
"""Most edges of a block: long enough for the prefetcher, and of a length for which neighbouring blocks use other cache sets."""
BLOCKS = 64
"""Fewest blocks of a lane, unless they would be shorter than the shortest length."""
SHORTEST = 272
MANY_LANES = 32
"""Number of lanes from which on no lane is cut."""


def blocks(rows: int, n: int, cols: int) -> tuple[int, int]:
    """Blocks a lane, and edges a block; from the shape alone."""
    edges = max(n - 1, 1)
    if rows * cols >= MANY_LANES:
        return 1, edges
    length = min(LONGEST, max(SHORTEST, edges // BLOCKS // 32 * 32 + 16))
    return -(-edges // length), min(length, edges)


def serial(shape: tuple[int, ...]) -> int:
    """Turns of a kernel's longest loop: the edges of a group of chains one by one, or the blocks of a lane.

    On Vulkan also the elements of a lane, which are all walked through if no total is finite: see `Backend.ends_nests`.
    """
    count, edges = blocks(*shape)
    walk = shape[1] if engine.backend().ends_nests else 0
    return max(LARGEST_GROUP * (edges + 2), walk + 3 * count)


def _control(shape: tuple[int, ...], reverse: bool) -> list[int]:
    rows, n, cols = shape
    count, length = blocks(rows, n, cols)
    return [rows, n, cols, count, length, int(reverse), count * rows * cols]


def scan(op: Operator, xs: Arrays, reverse: bool, stored: tuple[int, ...] | None = None) -> Arrays:
    """The components `stored` of the inclusive scan, or all."""
    dtypes, shape, threads = [x.dtype for x in xs], xs[0].shape, workers()
    wanted = tuple(range(len(xs))) if stored is None else stored
    ys = tuple(buffers.empty(shape, dtypes[k]) for k in wanted)
    control = _control(shape, reverse)
    totals = [buffers.empty(control[-1], t) for t in dtypes]
    key = ("scan", op.value(dtypes), wanted)
    launch(key, lambda: ScanSource(op, dtypes, threads, wanted), control, [*xs, *ys, *totals])
    return ys


def reduce(op: Operator, xs: Arrays) -> Arrays:
    dtypes, shape, threads = [x.dtype for x in xs], xs[0].shape, workers()
    ys = tuple(buffers.empty((shape[0], shape[2]), t) for t in dtypes)
    control = _control(shape, False)
    if shape[1] == 1:
        control[3] = 0  # no edges, no blocks
    totals = [buffers.empty(control[-1], t) for t in dtypes]
    launch(("reduce", op.value(dtypes)), lambda: ReduceSource(op, dtypes, threads), control, [*xs, *ys, *totals])
    return ys


def scan_vjp(op: Operator, xs: Arrays, ys: Arrays, cotangents: Sequence[npt.NDArray | None], reverse: bool) -> list[npt.NDArray | None]:
    dtypes, shape, threads = [x.dtype for x in xs], xs[0].shape, workers()
    floats = op.pullback(dtypes).floats
    out: list[npt.NDArray | None] = [None] * len(xs)
    if not floats:
        return out
    bars = []
    for j in floats:
        own_bar = cotangents[j]
        bars.append(np.zeros(shape, dtypes[j]) if own_bar is None else own_bar)
    x_bars = [buffers.empty(shape, dtypes[j]) for j in floats]
    control = _control(shape, reverse)
    totals = [buffers.empty(control[-1], t) for t in dtypes]
    owed = [buffers.empty(control[-1], dtypes[j]) for j in floats]
    key = ("adjoint", op.value(dtypes))
    launch(key, lambda: AdjointSource(op, dtypes, threads), control, [*xs, *ys, *bars, *x_bars, *totals, *owed])
    for j, bar in zip(floats, x_bars, strict=True):
        out[j] = bar
    return out
