"""Shared by all tests: one initialisation, in f64."""

from __future__ import annotations

import pytest

import diffsim as ds


@pytest.fixture(scope="session", autouse=True)
def _cpu() -> None:
    ds.init(arch="cpu", precision="f64")
