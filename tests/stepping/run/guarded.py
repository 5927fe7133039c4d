"""Gradients with arrays that end, or begin, at memory that nobody may touch: `python -m tests.stepping.run.guarded end|begin all|some`."""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import diffsim as ds
from diffsim.engine import arrays
from diffsim.solvers import Elastic, Maxwell, ViscoAcoustic
from tests.cases import CASES

LAYER = {"layer": 3, "layer_speed": 2000.0, "layer_frequency": 40.0}
GRID = ds.Grid((26, 34), 10.0)
KEPT = [
    *(ViscoAcoustic(GRID, 1.7e-3, order=order, **LAYER) for order in (4, 8)),
    ViscoAcoustic(GRID, 1.7e-3, order=8, boundary=(("odd_image", "zero"), "mirror"), **LAYER | {"layer": ((0, 3), 0)}),
    Elastic(GRID, 1.2e-3, surface=True, **LAYER),
    Maxwell(GRID, 5.0, layer=3),
]
"""Steps whose kernels keep values for later cells, also beyond the grid."""
SOME = KEPT[2:3]
MAPPED = []


def guarded(end: bool) -> Any:
    """Arrays between two pages without access: their last, or their first byte lies beside one."""
    libc = ctypes.CDLL(None, use_errno=True)
    page = mmap.PAGESIZE

    def allocate(shape: Sequence[int], dtype: npt.DTypeLike) -> np.ndarray:
        dtype = np.dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        pages = max(1, -(-size // page))
        mapped = mmap.mmap(-1, (pages + 2) * page)
        MAPPED.append(mapped)
        block = np.frombuffer(mapped, np.uint8)
        for guard in (0, pages + 1):
            assert libc.mprotect(ctypes.c_void_p(block.ctypes.data + guard * page), page, 0) == 0
        begin = page + ((pages * page - size) // 64 * 64 if end else 0)
        return block[begin : begin + size].view(dtype).reshape(shape)

    return allocate


def ends(found: ds.Solution) -> Any:
    return sum((values**2).sum() for values in found.final.values())


def main(side: str, which: str) -> None:
    arrays.aligned = guarded(side == "end")
    rng = np.random.default_rng(0)
    ds.init(precision="f64")
    for case in CASES if which == "all" else ():
        run = case.simulation()
        run.value_and_grad(ends, case.inputs(run, rng), case.steps)
    for equation in KEPT if which == "all" else SOME:
        run = ds.Simulation(equation)
        inputs = {name: rng.uniform(1000.0, 1500.0, GRID.shape) for name in equation.parameters}
        inputs = {name: values * {"vs": 0.5, "eps": 1e-3}.get(name, 1.0) for name, values in inputs.items()}
        run.value_and_grad(ends, inputs, 2)
    print("all within")


if __name__ == "__main__":
    main(*sys.argv[1:])
