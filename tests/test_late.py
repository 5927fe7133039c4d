"""Objects that live longer than the modules of diffsim go without a word."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.late import KINDS


@pytest.mark.parametrize("names", [[], pytest.param(["each"], marks=pytest.mark.slow)])
def test_nothing_is_printed_at_the_end(names: list[str]) -> None:
    """All at once, and each alone: what one leaves behind could hide another."""
    for chosen in [[name] for name in KINDS] if names else [[]]:
        done = subprocess.run([sys.executable, "-m", "tests.late", *chosen], capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stderr) == (0, ""), chosen
