"""The flow that scripts/mosaic gives to Mosaic: a closed form, its axes, and its derivatives."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import PlanError

SCRIPTS = Path(__file__).parents[2] / "scripts" / "mosaic"
ROUNDED = 6e-4
"""The drag in the documents has three digits behind the point, so it is within 5e-4 of what was measured; the rest is that of rounding."""


STEP = 0.02
"""Step of differences, in parts of the direction. Their error of h⁶ is then below that of rounding."""
AGREED = 1e-11
"""Largest relative difference between a derivative in f64 and differences; measured are 2e-15 to 6e-13."""
AGREED_AT_BODIES = 1e-9
"""The same past an obstacle, where the error of h⁶ is larger; measured are 4e-13 to 7e-11."""


def slope(loss: Callable[..., Any], point: Sequence[Any], k: int, along: Any) -> tuple[float, float]:
    """The derivative of a loss for its argument number k along a direction by central differences of sixth order, and its rounding."""

    def at(distance: float) -> float:
        return float(loss(*(each + distance * along if j == k else each for j, each in enumerate(point))))

    values = [at(number * STEP) for number in (1, -1, 2, -2, 3, -3)]
    pairs = [ahead - behind for ahead, behind in zip(values[::2], values[1::2], strict=True)]
    rounding = np.finfo(float).eps * max(map(abs, values)) / STEP
    return (45 * pairs[0] - 9 * pairs[1] + pairs[2]) / (60 * STEP), float(rounding)


def loaded(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"mosaic_{name}", SCRIPTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script() -> Any:
    return loaded("flow")


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


def test_waves_of_two_cells_are_left_out_on_the_way_to_faces(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By matrices and by transforms, which agree. All other waves come back unchanged, and so do waves along its own axis from faces."""
    rng, signs = np.random.default_rng(3), (-1.0) ** np.arange(8)
    smooth = np.fft.irfft2(np.fft.rfft2(rng.normal(size=(8, 8))) * (np.arange(8) != 4)[:, None] * (np.arange(5) != 4))
    rough = smooth + signs * rng.normal(size=(8, 1)) + signs[:, None] * rng.normal(size=8)
    for along in (0, 1):
        at_faces = script.between(rough, along, -0.5)
        own = np.moveaxis(np.repeat(signs[:, None], 8, 1), 0, along)
        with monkeypatch.context() as patch:
            patch.setattr(script, "SHORT", 4)
            np.testing.assert_allclose(script.between(rough, along, -0.5), at_faces, atol=1e-14)
            np.testing.assert_allclose(script.between(smooth + own, along, 0.5), script.between(smooth, along, 0.5) + own, atol=1e-14)
        np.testing.assert_allclose(script.between(at_faces + own, along, 0.5), smooth + own, atol=1e-14)


@pytest.fixture
def tesseract(script: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The Tesseract of `ns-grid`, with stand-ins for the classes of Mosaic, which is not installed."""
    pytest.importorskip("tesseract_core")
    pydantic = pytest.importorskip("pydantic")
    types: dict[str, Any] = dict.fromkeys(("obstacle", "inflow_profile"), (Any, None))
    inputs = pydantic.create_model("InputSchema", v0=(Any, ...), boundary_conditions=(Any, ...), **types)
    modules = {name: ModuleType(name) for name in ("mosaic_shared", "mosaic_shared.problems", "mosaic_shared.schema_types")}
    problem = modules["mosaic_shared.problems.navier_stokes_grid"] = ModuleType("navier_stokes_grid")
    problem.__dict__.update(InputSchema=inputs, OutputSchema=pydantic.BaseModel)
    modules["mosaic_shared.schema_types"].__dict__.update(make_differentiable=lambda schema, names: schema)
    for name, module in (modules | {"flow": script, "obstacle": loaded("obstacle")}).items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location("mosaic_ns_grid", SCRIPTS / "ns_grid" / "tesseract_api.py")
    assert spec is not None and spec.loader is not None
    api = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mosaic_ns_grid", api)  # where pydantic looks for the types of fields
    spec.loader.exec_module(api)
    return api


def around(x: str, y: str) -> SimpleNamespace:
    """The sides of Mosaic, a word along each axis."""
    ends = {
        f"{axis}_{end}": SimpleNamespace(type=SimpleNamespace(value=word))
        for axis, word in zip("xy", (x, y), strict=True)
        for end in ("lo", "hi")
    }
    return SimpleNamespace(is_fully_periodic=x == y == "periodic", **ends)


def test_inputs_that_are_not_read_are_refused(tesseract: Any) -> None:
    plane, space, profile = np.zeros((6, 6, 1, 2)), np.zeros((6, 6, 6, 3)), np.ones(6)
    box, channel = around("periodic", "periodic"), around("periodic", "no_slip")
    accepted: list[dict[str, Any]] = [
        {"v0": space, "boundary_conditions": box},
        {"v0": plane, "boundary_conditions": channel, "obstacle": "cylinder", "inflow_profile": profile},
    ]
    for inputs in accepted:
        tesseract.InputSchema(**inputs)
    with pytest.raises(ValueError, match=r"inflow_profile is given without an obstacle, expected a periodic box .* leave it out"):
        tesseract.InputSchema(**accepted[0], inflow_profile=profile)
    with pytest.raises(ValueError, match=r"v0 has shape \(6, 6, 6, 3\), expected \(nx, ny, 1, 2\) past an obstacle; give one plane"):
        tesseract.InputSchema(**accepted[1] | {"v0": space})
    assert "past an obstacle it is f64" in tesseract.InputSchema.model_fields["precision"].description


def test_a_flow_in_space_past_an_obstacle_is_refused() -> None:
    """By the solver itself too, which would read its first plane alone."""
    inputs = {"v0": np.zeros((6, 6, 6, 3)), "domain_extent": 1.0, "dt": np.array([0.01])}
    with pytest.raises(ValueError, match="past an obstacle; give one plane"):
        loaded("obstacle").past(inputs)


def test_the_memory_of_a_gradient_is_that_which_is_given(script: Any) -> None:
    v0, nu, dt = vortices(8, 0.1), np.array([0.02]), np.array([0.1])
    with pytest.raises(PlanError, match=r"expected a memory of at least .* for 400 steps"):
        ds.vjp(lambda v: script.flow(v, nu, dt, 400, 1.0, checkpoint="1 kB", order=2, precision="f64"), v0)


@pytest.mark.slow
def test_the_axes_of_a_cube_are_alike(script: Any) -> None:
    """A flow with turned axes turns."""
    rng, n, turn = np.random.default_rng(0), 6, [1, 2, 0]
    v0 = 0.2 * rng.standard_normal((n, n, n, 3))
    turned = v0.transpose(*turn, 3)[..., turn]
    one, other = (script.flow(v, np.array([0.05]), np.array([0.1]), 3, 1.5, 2, order=2, precision="f64") for v in (v0, turned))
    assert np.abs(one.transpose(*turn, 3)[..., turn] - other).max() < 1e-12 and np.abs(one - v0).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "order"), [((8, 8, 1, 2), 2), ((8, 8, 1, 2), 4), ((8, 8, 8, 3), 2)])
def test_derivatives_for_velocity_viscosity_and_time_step_agree_with_differences(script: Any, shape: tuple[int, ...], order: int) -> None:
    rng = np.random.default_rng(1)
    point = (0.3 * rng.standard_normal(shape), np.array([0.03]), np.array([0.05]))
    weights = rng.standard_normal(shape)

    def loss(v0: Any, nu: Any, dt: Any) -> Any:
        return (weights * script.flow(v0, nu, dt, 5, 2.0, order=order, precision="f64")).sum()

    gradient = ds.grad(loss, argnums=(0, 1, 2))(*point)
    for k, turns in enumerate((3, 1, 1)):
        for _ in range(turns):
            along = rng.standard_normal(point[k].shape) * point[k]
            differences, rounding = slope(loss, point, k, along)
            assert rounding < AGREED * abs(differences)
            assert (gradient[k] * along).sum() == pytest.approx(differences, rel=AGREED), (k, rounding)


@pytest.mark.slow
@pytest.mark.parametrize("profile", [True, False])
def test_derivatives_past_an_obstacle_agree_with_differences(profile: bool) -> None:
    """With an inlet as in `drag_opt`, and between two open sides as in `forward/cylinder`."""
    obstacle, rng, n = loaded("obstacle"), np.random.default_rng(2), 16
    point = {"v0": rng.uniform(0.5, 0.7, (n, n, 1, 2)), "viscosity": np.array([0.02]), "dt": np.array([0.01])}
    point["v0"][..., 1] -= 0.6
    if profile:
        point["inflow_profile"] = rng.uniform(0.5, 0.7, n)
    rest = {"steps": 10, "domain_extent": 1.5, "obstacle": {"shape": "cylinder", "center": [0.4, 0.5], "radius": 0.15}}
    weights = rng.standard_normal(point["v0"].shape)

    def loss(*values: Any) -> Any:
        flow = obstacle.past(rest | dict(zip(point, values, strict=True)))
        return (weights * flow["result"]).sum() + 20 * flow["drag"][0]

    values = tuple(point.values())
    assert obstacle.division(rest | point) == 1 and obstacle.past(rest | point)["drag"][0] < -0.01
    gradient = ds.grad(loss, argnums=tuple(range(len(values))))(*values)
    for k, name in enumerate(point):
        along = rng.standard_normal(values[k].shape) * values[k]
        differences, _ = slope(loss, values, k, along)
        assert (gradient[k] * along).sum() == pytest.approx(differences, rel=AGREED_AT_BODIES), name


@pytest.mark.slow
def test_the_drag_of_a_flat_inflow_is_that_of_the_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean from 2 s to 4 s on 32 cells of the table in docs/validation_flow.md."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    assert float(loaded("drag").drag(np.full(32, 0.5))) == pytest.approx(3.094, abs=ROUNDED)
