"""Tile programs on a GPU's path, in a process of their own: the same numbers as on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.arches import require_vulkan

SINGLE = 1e-5
PROGRAM = """
import json, sys
import numpy
import diffsim as ds
import diffsim.numpy as np

rng = numpy.random.default_rng(0)
u, w = rng.normal(size=(70, 8, 8)).astype("f4"), rng.normal(size=(70, 8)).astype("f4")
eye = numpy.eye(8, dtype="f4")

def program(u, w, scale):
    a = np.zeros((8, 8), dtype="f4")
    a[1:-1] = u[:-2] * w
    a[0] += np.cumsum(u[3]) * scale
    b = a[np.argsort(w)]
    b[b > 1] = 0.5
    c = np.linalg.solve(b @ b.T + eye, u)
    d = 0.5 * w + scale * np.max(w)
    return c, d, np.max(np.linalg.cholesky(u @ u.T + 4 * eye)), w > 0

def results(arch):
    ds.init(arch=arch)
    mapped = ds.tile.map(program, axes=(0, 0, None))
    value = mapped(u, w, numpy.float32(0.3))
    loss = lambda *args: sum(np.sum(v * v) for v in mapped(*args)[:3])
    return [*value, *ds.grad(loss, argnums=(0, 1, 2))(u, w, numpy.float32(0.3))]

pairs = zip(results("cpu"), results(sys.argv[1]), strict=True)
print(json.dumps([float(abs(numpy.asarray(a, float) - b).max() / max(abs(numpy.asarray(a, float)).max(), 1)) for a, b in pairs]))
"""


def differences(arch: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, arch], capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.engines
def test_vulkan() -> None:
    require_vulkan()
    errors = differences("vulkan")
    assert len(errors) == 7
    assert max(errors) < SINGLE


@pytest.mark.gpu
def test_cuda() -> None:
    assert max(differences("cuda")) < SINGLE
