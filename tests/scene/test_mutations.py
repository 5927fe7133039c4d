"""A sample of mangled scenes, in a process with little memory; `scripts/fuzz/scenes.py` puts more through."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

COUNT = 150


def test_mangled_scenes_are_accepted_or_refused_with_one_message(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.scene.mutations", str(COUNT), "11", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    accepted, refused = map(int, re.findall(r"(\d+) (?:accepted|refused)", done.stdout))
    assert accepted > 8 and refused > 90
    assert done.stderr == ""  # nothing besides messages
