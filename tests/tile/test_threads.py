"""Tile programs on one and on two threads, in a process of their own: the same bits, and each kernel is compiled within a minute."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json
import numpy
import diffsim as ds
import diffsim.numpy as np

x, eye = numpy.random.default_rng(0).normal(size=(37, 6, 6)), numpy.eye(6)
PROGRAMS = {
    "solve": lambda m: np.linalg.solve(m @ m.T + eye, np.sort(m[0])),
    "products": lambda m: (m[:, :4] @ m[:, :4].T, m @ m[:, :4]),
}


def results(function):
    def loss(w):
        found = ds.tile.map(lambda m: function(m * w))(x)
        return sum(np.sum(f * f) for f in (found if isinstance(found, tuple) else (found,)))

    values = ds.tile.map(function)(x)
    return [*(values if isinstance(values, tuple) else (values,)), ds.grad(loss)(eye + 1.0)]


found = {}
for threads in (1, 2):
    ds.init(precision="f64", threads=threads)
    for name, function in PROGRAMS.items():
        found.setdefault(name, []).append([numpy.asarray(r).tobytes() for r in results(function)])
print(json.dumps({name: one == two for name, (one, two) in found.items()}))
"""


@pytest.mark.slow
def test_one_thread_gives_the_bits_of_two() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr[-3000:]
    same = json.loads(done.stdout.splitlines()[-1])
    assert len(same) == 2 and all(same.values()), same
