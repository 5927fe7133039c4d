"""Every test of a kernel runs twice: by NumPy, and compiled."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["plain"])
def implementation(request: pytest.FixtureRequest) -> str:
    return request.param
