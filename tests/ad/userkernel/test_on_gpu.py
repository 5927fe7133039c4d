"""Kernels of users on a GPU: cells that a kernel leaves out, updates in place, and no derivative that is silently zero."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.arches import require_vulkan

PROGRAM = """
import sys
import numpy as np
import taichi as ti
import diffsim as ds
ds.init(arch=sys.argv[1], precision="f32")
A1 = ti.types.ndarray(dtype=ti.f32, ndim=1)

@ds.kernel(reads=("x",), writes={"y": "x"})
def part(x: A1, y: A1):
    for i in range(1, x.shape[0]):
        y[i] = x[i] ** 2

@ds.kernel(reads=("x",), writes=("y",))
def added(x: A1, y: A1):
    for i in range(2):
        y[i] += x[i]

x = np.linspace(1, 2, 5).astype(np.float32)
part(x + 10)
y = part(x)
assert np.array_equal(y, [0, *x[1:] ** 2])
assert np.array_equal(added(x, x), [2 * x[0], 2 * x[1], *x[2:]])
try:
    gradient = part.pullback([x], [y], [np.ones(5, np.float32)])[0]
except ds.errors.KernelError as error:
    print(error)
else:
    assert np.array_equal(gradient, [0, *2 * x[1:]])
    print("right")
"""


@pytest.mark.parametrize(
    ("arch", "words"), [("vulkan", "part has no derivative on arch 'vulkan'"), pytest.param("cuda", "right", marks=pytest.mark.gpu)]
)
def test_kernels_on_a_gpu(arch: str, words: str, tmp_path) -> None:
    if arch == "vulkan":
        require_vulkan()
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(file), arch], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert words in done.stdout
