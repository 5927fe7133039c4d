"""Every test of a kernel runs twice: by NumPy, and compiled."""

from __future__ import annotations

import pytest

from diffsim.kernels import large as compiled
from diffsim.kernels import large_bins as compiled_bins
from diffsim.kernels import launch


@pytest.fixture(params=["plain", "compiled"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The compiled one with short blocks, so that small arrays have many of them."""
    if request.param == "compiled":
        monkeypatch.setattr(launch, "SMALLEST", 1)
        monkeypatch.setattr(compiled, "SHORTEST", 48)
        monkeypatch.setattr(compiled_bins, "FEWEST_ROWS", 2)
    return request.param
