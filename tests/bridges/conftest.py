"""Simulations whose derivatives by torch and JAX are compared with those of diffsim."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bridges.transforms import MADE, Problem


@pytest.fixture(scope="module", params=MADE)
def problem(request: pytest.FixtureRequest) -> Problem:
    make, name = MADE[request.param]
    return Problem(make(), name)


@pytest.fixture
def wide() -> Iterator[None]:
    """JAX with numbers of 64 bits."""
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)
