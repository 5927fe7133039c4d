"""Signals and errors of the system around writes to disk; `scripts/fuzz/strikes.py` goes on for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scene.strikes import Struck


@pytest.mark.slow
def test_a_run_that_is_struck_again_and_again_ends_with_the_same_bits(tmp_path: Path) -> None:
    struck = Struck(tmp_path)
    assert struck.touches > 200
    struck.check("struck", [(2, "EACCES"), (90, "SIGKILL"), (60, "ENOSPC"), (250, "SIGTERM")])
