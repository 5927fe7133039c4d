"""Code has the same identity in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
from diffsim.scene.disk.source import code_digest
from diffsim.simulation.host_stage import identity_of

def is_metal(name):
    return name in {"copper", "iron", "nickel", "silver", "zinc"}

def conductivity(x):
    return x * (400.0 if is_metal("iron") else 1.0)

class Law:
    def kind(self, pair):
        return pair in {("a", 1), ("b", 2), ("c", 3), ("d", 4)}

print(identity_of(conductivity), code_digest(Law))
"""


def test_sets_among_the_constants_have_one_order_in_all_processes() -> None:
    """A process that resumes a run must know the functions of the one before: texts of sets differ by the seed of the hashes."""
    texts = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, cwd=ROOT, env=environment)
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout.splitlines()[-1])
    assert len(texts) == 1
