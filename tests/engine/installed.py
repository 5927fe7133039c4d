"""Tests of an engine whose package is not installed are skipped, unless DIFFSIM_TEST_QUADRANTS=required."""

from __future__ import annotations

import importlib.util
import os

import pytest


def require(engine: str) -> None:
    """Skip a test if the package of an engine is missing."""
    if importlib.util.find_spec(engine) is None:
        if os.environ.get("DIFFSIM_TEST_QUADRANTS") == "required":
            pytest.fail(f"DIFFSIM_TEST_QUADRANTS=required, and the package {engine} is missing")
        pytest.skip(f"the package {engine} is not installed")
