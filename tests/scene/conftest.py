"""One assembled problem for each small scene, in f64, with its data: kernels are compiled once for all tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from diffsim.engine import settings
from diffsim.scene.search.objective import Objective
from tests.scene.tiny import ACOUSTIC, HEAT, WAVE, scene

SCENES: dict[str, dict[str, Any]] = {"acoustic": ACOUSTIC, "heat": HEAT, "wave": WAVE}


@cache
def _objective(name: str, generation: int) -> Objective:
    """Made anew where a test of another file has changed the settings since, which ends kernels."""
    return scene(SCENES[name]).objective("f64")


@pytest.fixture
def acoustic() -> Objective:
    return _objective("acoustic", settings().generation)


@pytest.fixture
def heat() -> Objective:
    return _objective("heat", settings().generation)


@pytest.fixture
def wave() -> Objective:
    return _objective("wave", settings().generation)
