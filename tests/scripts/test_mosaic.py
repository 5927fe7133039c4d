"""The flow that scripts/mosaic gives to Mosaic: a closed form, its axes, and its derivatives."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim as ds

SCRIPT = Path(__file__).parents[2] / "scripts" / "mosaic" / "flow.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("mosaic_flow", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def forgotten(script: Any) -> Any:
    """Simulations of other settings are not used again."""
    yield
    script.periodic.cache_clear()


def vortices(n: int, extent: float) -> np.ndarray:
    """Vortices of Taylor and Green at the corners of the cells, shape (n, n, 1, 2)."""
    x, y = np.meshgrid(*2 * [2 * np.pi * np.arange(n) / n], indexing="ij")
    return extent * np.stack([np.sin(x) * np.cos(y), -np.cos(x) * np.sin(y)], axis=-1)[:, :, None]


def test_vortices_decay_as_the_closed_form_says_for_any_extent_and_step(script: Any) -> None:
    for extent, dt, steps in ((2 * np.pi, 0.01, 10), (3.0, 0.3, 2)):
        v0, nu = vortices(32, 0.1 * extent), np.array([0.002 * extent**2])
        divided = script.division(v0, nu, [dt], extent)
        final = script.flow(v0, nu, np.array([dt]), steps, extent, divided, order=4, precision="f64")
        wanted = v0 * np.exp(-2 * nu * (2 * np.pi / extent) ** 2 * dt * steps)
        assert np.abs(final - wanted).max() < 1e-5 * np.abs(v0).max() and divided == (1 if extent > 4 else 4)


@pytest.mark.slow
def test_the_axes_of_a_cube_are_alike(script: Any) -> None:
    """A flow with turned axes turns."""
    rng, n, turn = np.random.default_rng(0), 6, [1, 2, 0]
    v0 = 0.2 * rng.standard_normal((n, n, n, 3))
    turned = v0.transpose(*turn, 3)[..., turn]
    one, other = (script.flow(v, np.array([0.05]), np.array([0.1]), 3, 1.5, 2, order=2, precision="f64") for v in (v0, turned))
    assert np.abs(one.transpose(*turn, 3)[..., turn] - other).max() < 1e-12 and np.abs(one - v0).max() > 1e-3


@pytest.mark.slow
def test_derivatives_for_velocity_viscosity_and_time_step_agree_with_differences(script: Any) -> None:
    rng, n = np.random.default_rng(1), 8
    point = (0.3 * rng.standard_normal((n, n, 1, 2)), np.array([0.03]), np.array([0.05]))
    along = tuple(rng.standard_normal(each.shape) * each for each in point)
    weights = rng.standard_normal(point[0].shape)

    def loss(v0: Any, nu: Any, dt: Any) -> Any:
        return (weights * script.flow(v0, nu, dt, 5, 2.0, order=2, precision="f64")).sum()

    gradient = ds.grad(loss, argnums=(0, 1, 2))(*point)
    for k in range(3):
        ends = [loss(*(each + sign * 1e-5 * along[j] if j == k else each for j, each in enumerate(point))) for sign in (1, -1)]
        assert np.isclose((gradient[k] * along[k]).sum(), (ends[0] - ends[1]) / 2e-5, rtol=1e-7), k
