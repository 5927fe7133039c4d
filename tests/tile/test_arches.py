"""Tile programs on a GPU's path, in a process of their own: the same numbers as on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.arches import require_vulkan
from tests.sampled import sampled

SINGLE = 1e-5
START = """
import json, sys
import numpy
import diffsim as ds
import diffsim.numpy as np

arch, n = sys.argv[1], int(sys.argv[2])
rng = numpy.random.default_rng(0)
u, w = rng.normal(size=(70, n, n)).astype("f4"), rng.normal(size=(70, n)).astype("f4")
eye = numpy.eye(n, dtype="f4")
"""
MOVES = """
def program(u, w, scale):
    a = np.zeros((n, n), dtype="f4")
    a[1:-1] = u[:-2] * w
    a[0] += np.cumsum(u[3]) * scale
    b = a[np.argsort(w)]
    b[b > 1] = 0.5
    return b @ b.T + eye, 0.5 * w + scale * np.max(w), w > 0
"""
SOLVE = """
def program(u, w, scale):
    return (np.linalg.solve(u @ u.T + eye, scale * u),)
"""
CHOLESKY = """
def program(u, w, scale):
    return (np.linalg.cholesky(scale * u @ u.T + 4 * eye),)
"""
END = """
def results(arch):
    ds.init(arch=arch)
    mapped = ds.tile.map(program, axes=(0, 0, None))
    value = mapped(u, w, numpy.float32(0.3))
    loss = lambda *args: sum(np.sum(v * v) for v in mapped(*args)[:2])
    return [*value, *ds.grad(loss, argnums=(0, 1, 2))(u, w, numpy.float32(0.3))]

pairs = zip(results("cpu"), results(arch), strict=True)
print(json.dumps([float(abs(numpy.asarray(a, float) - b).max() / max(abs(numpy.asarray(a, float)).max(), 1)) for a, b in pairs]))
"""
NAMES = {MOVES: "moves", SOLVE: "solve", CHOLESKY: "cholesky"}
PROGRAMS = sampled(
    [(MOVES, 4), (SOLVE, 2), (SOLVE, 4), (CHOLESKY, 2), (CHOLESKY, 4)],
    gate=[(MOVES, 4), (SOLVE, 2), (CHOLESKY, 2)],
    ids=lambda case: f"{NAMES[case[0]]} {case[1]}",
)
"""Programs and sizes of tiles. Software Vulkan compiles the derivative of `solve` in 26 s of one core at size 4, in 89 s at size 5."""


def differences(arch: str, program: str, n: int) -> list[float]:
    command = [sys.executable, "-c", START + program + END, arch, str(n)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.engines
@pytest.mark.parametrize(("program", "n"), PROGRAMS)
def test_vulkan(program: str, n: int) -> None:
    require_vulkan()
    assert max(differences("vulkan", program, n)) < SINGLE


@pytest.mark.gpu
@pytest.mark.parametrize(("program", "n"), PROGRAMS)
def test_cuda(program: str, n: int) -> None:
    assert max(differences("cuda", program, n)) < SINGLE
