"""One assembled problem for each small scene, in f64, with its data: kernels are compiled once for all tests."""

from __future__ import annotations

import pytest

import diffsim as ds
from diffsim.scene.objective import Objective
from tests.scene.tiny import ACOUSTIC, HEAT, WAVE, scene


@pytest.fixture(scope="session", autouse=True)
def _settings() -> None:
    """Those of all modules, which fixtures of the session come before."""
    ds.init(arch="cpu", precision="f64")


@pytest.fixture(scope="session")
def acoustic() -> Objective:
    return scene(ACOUSTIC).objective("f64")


@pytest.fixture(scope="session")
def heat() -> Objective:
    return scene(HEAT).objective("f64")


@pytest.fixture(scope="session")
def wave() -> Objective:
    return scene(WAVE).objective("f64")
