"""One assembled problem for each small scene, in f64, with its data: kernels are compiled once for all tests."""

from __future__ import annotations

import pytest

from diffsim.scene.objective import Objective
from tests.scene.tiny import ACOUSTIC, HEAT, WAVE, scene


@pytest.fixture(scope="session")
def acoustic() -> Objective:
    return scene(ACOUSTIC).objective("f64")


@pytest.fixture(scope="session")
def heat() -> Objective:
    return scene(HEAT).objective("f64")


@pytest.fixture(scope="session")
def wave() -> Objective:
    return scene(WAVE).objective("f64")
