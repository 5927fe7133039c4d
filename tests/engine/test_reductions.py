"""Sizes and bits of arrays of a GPU, computed there, and arrays that other threads drop."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.arches import require_vulkan

NUMBERS = """
import numpy as np
from diffsim.engine import backend
from diffsim.engine.reductions import Cells, bit_sums, largest

memory, rng = backend().memory, np.random.default_rng(0)
for dtype in kinds:
    for shape, cut in (((20,), np.s_[3:17]), ((30, 41), np.s_[2:28, 4:37]), ((10, 258, 34), np.s_[1:9, 1:257, 1:33])):
        whole = rng.normal(size=(3, *shape)).astype(dtype)
        array = memory.allocate(whole.shape, dtype, flat=True)
        cells = Cells.of(whole[1][cut], whole[1])

        def sums(values):
            memory.write(array, values)
            return bit_sums(memory, array, cells, 1)

        before = sums(whole)
        assert np.array_equal(memory.read(array), whole) and np.array_equal(memory.read(array, 2), whole[2])
        assert largest(memory, array, cells, 1) == np.abs(whole[1][cut]).max()
        elsewhere = np.full_like(whole, 99)
        elsewhere[1][cut] = whole[1][cut]
        assert np.array_equal(sums(elsewhere), before) and largest(memory, array, cells, 1) == np.abs(whole[1][cut]).max()
        top = 8 * whole.itemsize - 1
        for bit in (0, top, *rng.integers(top, size=5)):
            changed = whole.copy()
            words = changed[1][cut].view(f"u{changed.itemsize}")
            words[tuple(rng.integers(n) for n in words.shape)] ^= words.dtype.type(1 << int(bit))
            assert not np.array_equal(sums(changed), before)
        if len(shape) == 3:  # two cells of one thread
            for far in (2**14, 2**15):
                for first in range(0, 2**15, 4000):
                    changed = whole.copy()
                    cells_of = changed[1][cut].copy().reshape(-1)
                    cells_of[[first, first + far]] *= -1
                    changed[1][cut] = cells_of.reshape(changed[1][cut].shape)
                    assert not np.array_equal(sums(changed), before), (first, far)
        negative = whole.copy()  # in three dimensions each thread has four of these cells
        negative[1][cut] *= -1
        assert not np.array_equal(sums(negative), before)
        negative[1][cut].flat[5] = np.nan
        sums(negative)
        assert np.isnan(largest(memory, array, cells, 1))
"""
THREADS = """
import gc
import threading
import numpy as np

def simulation():
    return ds.Simulation(ds.solvers.Heat(ds.Grid((8, 8), 1.0), 0.1), receivers={"T": [(5.0, 5.0)]}, wrt=["kappa"], precision="f32")

def run(heat):
    value, _ = heat.value_and_grad(lambda s: (s.traces["T"] ** 2).sum(), {"T": T, "kappa": np.ones((8, 8), np.float32)}, 30)
    values.append(float(value))

def elsewhere(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()

def drop():
    several.clear()
    gc.collect()

T, values = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32), []
first = simulation()
run(first)
elsewhere(lambda: run(first))
several = [simulation() for _ in range(3)]
for each in several:
    run(each)
del each
elsewhere(drop)
elsewhere(lambda: run(simulation()))
ds.init(arch=sys.argv[1], anew=True)
del first
gc.collect()
run(simulation())
assert len(values) == 7 and len(set(values)) == 1, values
"""


@pytest.mark.parametrize(("arch", "kinds"), [("vulkan", "'f4',"), pytest.param("cuda", "'f4', 'f8'", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("program", [NUMBERS, THREADS], ids=["numbers", "threads"])
def test_on_a_gpu(program: str, arch: str, kinds: str) -> None:
    if arch == "vulkan":
        require_vulkan()
    source = f"import sys\nimport diffsim as ds\nds.init(arch=sys.argv[1])\nkinds = ({kinds})\n{program}"
    done = subprocess.run([sys.executable, "-c", source, arch], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
