"""Signals and errors of the system around writes to disk; `scripts/fuzz/strikes.py` goes on for longer."""

from __future__ import annotations

from pathlib import Path

from tests.scene.strikes import WAYS, Struck


def test_a_run_that_is_struck_again_and_again_ends_with_the_same_bits(tmp_path: Path) -> None:
    struck = Struck(tmp_path)
    assert struck.touches > 200
    strikes = [(2, "ENOSPC"), (30, "SIGKILL"), (90, "SIGTERM"), (250, "SIGINT"), (33, "SIGHUP"), (60, "EFBIG"), (41, "EACCES")]
    assert {how for _, how in strikes} == set(WAYS)
    struck.check("struck", strikes)
