"""Every test of a kernel runs twice: by NumPy, and compiled."""

from __future__ import annotations

import pytest

from diffsim.kernels import large, large_bins, launch


@pytest.fixture(params=["plain", "compiled"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The compiled one with short blocks, so that small arrays have many of them."""
    if request.param == "compiled":
        monkeypatch.setattr(launch, "SMALLEST", 1)
        monkeypatch.setattr(large, "SHORTEST", 48)
        monkeypatch.setattr(large_bins, "FEWEST_ROWS", 2)
    return request.param
