"""An uplift by faults as an unknown: its numbers, its derivative, refusals, and scenes that search for faults and for patches in time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError, SceneError
from diffsim.report.tables import numbers_behind
from diffsim.scene.disk.outcome import Outcome
from tests.scene.tiny import WAVE, scene

GRID = ds.Grid((9, 11), spacing=(8e3, 9e3), origin=(-30e3, -40e3))
FAULTS: dict[str, Any] = {
    "centres": ((0.0, 5e3), (10e3, 20e3)),
    "top": (4e3, 6e3),
    "strike": 200.0,
    "dip": 20.0,
    "length": 30e3,
    "width": 15e3,
}
EVERY = ("slip", "rake", "strike", "top", "dip", "length", "width")


def test_the_field_is_that_of_the_faults() -> None:
    """All numbers free, in a direction; cells outside of the mask keep the reference."""
    mask = np.arange(11) > 2
    unknown = ds.ocean.Okada(GRID, **FAULTS, slip=(2.0, 3.0), free=EVERY, mask=mask, reference=0.5)
    theta = 0.3 * np.random.default_rng(0).standard_normal(14)
    slip, rake, strike, top, dip, length, width = theta.reshape(7, 2)
    dips, widths = 20.0 * np.exp(0.2 * dip), 15e3 * np.exp(0.2 * width)
    fault = ds.ocean.Fault(
        [5e3, 20e3],
        [0.0, 10e3],
        np.array([4e3, 6e3]) * np.exp(0.2 * top) + 0.5 * widths * np.sin(np.deg2rad(dips)),
        200.0 + 10 * strike,
        dips,
        90.0 + 10 * rake,
        np.array([2.0, 3.0]) + slip,
        30e3 * np.exp(0.2 * length),
        widths,
    )
    north, east = np.meshgrid(GRID.coordinates(0), GRID.coordinates(1), indexing="ij")
    expected = 0.5 + np.where(mask, np.asarray(fault.displacement(east, north))[2], 0.0)
    field = unknown.to_field(theta)
    np.testing.assert_allclose(field, expected, rtol=1e-12)
    np.testing.assert_array_equal(unknown.from_field(np.asarray(field)), theta)
    slope = ds.jvp(unknown.to_field, (theta,), (np.ones(14),))[1]
    h = 1e-6
    np.testing.assert_allclose(slope, (unknown.to_field(theta + h) - unknown.to_field(theta - h)) / (2 * h), atol=1e-7)
    assert unknown.bounds().ub.reshape(7, 2)[EVERY.index("dip")] == pytest.approx(np.log(4.5) / 0.2)


def test_places_in_degrees_lie_on_a_plane_at_the_middle_of_the_faults() -> None:
    """0.5 degrees to the north are 55.6 km; a fault with a strike of 0 there is as one in metres."""
    earth = ds.Grid((5, 7), spacing=0.1, origin=(38.3, 141.7), axes=("latitude", "longitude"))
    fault = {**FAULTS, "centres": ((38.5, 142.0),)}
    fault["top"] = 5e3
    field = ds.ocean.Okada(earth, **fault).to_field(np.zeros(1))
    lat, lon = np.meshgrid(earth.coordinates(0), earth.coordinates(1), indexing="ij")
    east, north = ds.ocean.tangent_plane(lat, lon, (38.5, 142.0))
    depth = 5e3 + 7.5e3 * np.sin(np.deg2rad(20.0))
    expected = ds.ocean.Fault(0.0, 0.0, depth, 200.0, 20.0, 90.0, 1.0, 30e3, 15e3).displacement(east, north)[2]
    np.testing.assert_allclose(field, expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"top": (1.0, 2.0, 3.0)}, "top: expected one finite number, or 2, one for each fault"),
        ({"dip": -3.0}, "dip: expected numbers above 0, got -3"),
        ({"centres": ((1.0,),)}, "centres: expected places with 2 coordinates"),
        ({"free": ("slope",)}, "free: expected some of slip, rake"),
        ({"centres": (1.0, 2.0)}, "centres: expected places with 2 coordinates"),
        ({"slip": "a"}, "slip: expected an array of real numbers, got 'a'"),
        ({"scale": (1.0, 2.0)}, "scale: expected 1 numbers, one for each of free"),
        ({"scale": 1.0}, "scale: expected 1 numbers, one for each of free, got 1.0"),
        ({"mask": np.ones(3, bool)}, r"mask: expected the shape \(9, 11\) of the grid, got \(3,\)"),
        ({"reference": np.nan}, "reference: expected finite numbers"),
        ({"reference": np.ones((2, 2))}, "reference: expected the shape"),
        (
            {"grid": ds.Grid((4, 5), 1.0, axes=("latitude", "x"), unit="m")},
            "grid: expected both axes in degrees, or both in m, got latitude and x",
        ),
        ({"scale": (-1.0,)}, "scale: expected numbers above 0"),
        ({"grid": ds.Grid((4,), 1.0)}, "grid: expected two axes across the earth, got 1"),
    ],
)
def test_numbers_out_of_range_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ds.ocean.Okada(**{"grid": GRID, **FAULTS, **more})


def test_a_field_that_no_faults_gave_is_refused() -> None:
    unknown = ds.ocean.Okada(GRID, **FAULTS)
    for theta in (np.zeros(3), [0.0]):
        with pytest.raises(ParameterError, match="theta: expected 2 variables, faults times free numbers, got the shape"):
            unknown.to_field(theta)
    assert not unknown.from_field(np.zeros(GRID.shape)).any()
    with pytest.raises(ParameterError, match="expected the start or a field that these faults gave"):
        unknown.from_field(np.ones(GRID.shape))


FAULT = {"type": "okada", "start": {"constant": 0.0}, "centres": [[3000.0, 3500.0]], "top": 300.0, "strike": 20.0, "dip": 30.0}
FAULT |= {"length": 1500.0, "width": 900.0, "slip": 1.0, "free": ["slip", "dip"], "mask": {"field": "H", "above": 500.0}}
KEEP = {"type": "tikhonov", "unknown": "eta0", "of": "variables", "weight": 1e-3}


@pytest.fixture(scope="module")
def searched() -> tuple[Outcome, Any]:
    case = scene(WAVE, unknowns={"eta0": FAULT}, penalty=[KEEP], optimise__iterations=15)
    return case.run(precision="f64"), case


def test_a_scene_searches_for_faults(searched: tuple[Outcome, Any], tmp_path: Path) -> None:
    """The outcome and the report have the numbers; they make the answer; the loss falls."""
    outcome, case = searched
    field = outcome.unknowns["eta0"]
    numbers = field.values
    assert outcome.losses[1] < 0.9 * outcome.losses[0]
    assert numbers["slip"][0] != 1.0 and numbers["strike"].tolist() == [20.0]
    theta = np.array([numbers["slip"][0] - 1.0, np.log(numbers["dip"][0] / 30.0) / 0.2])
    penalty = outcome.loss_parts["tikhonov of the variables of eta0"][1]
    assert penalty == pytest.approx(0.5 * 1e-3 * np.mean(theta**2), rel=1e-9)
    problem = case.objective("f64").problem
    np.testing.assert_allclose(problem.unknowns.split(theta)["eta0"], field.answer, atol=1e-12)
    outcome.save(tmp_path)
    np.testing.assert_array_equal(Outcome.load(tmp_path).unknowns["eta0"].values["slip"], numbers["slip"])
    assert numbers_behind(outcome)[0][1][0] == ("slip", f"{numbers['slip'][0]:.4g}")


def test_the_gradient_of_variables_and_their_penalty(searched: tuple[Outcome, Any]) -> None:
    """Against differences of the loss, with the curvature by products against differences of gradients of the penalty alone."""
    _, case = searched
    objective = case.objective("f64")
    theta, v, h = np.array([0.4, -0.3]), np.array([0.7, 1.1]), 1e-5
    gradient = objective.evaluate(theta).gradient
    difference = (objective.value(theta + h * v) - objective.value(theta - h * v)) / (2 * h)
    assert gradient @ v == pytest.approx(difference, rel=1e-6)
    without = scene(WAVE, unknowns={"eta0": FAULT}, penalty=[], optimise__iterations=15).objective("f64")
    bent = objective.hessian(theta) @ v - without.hessian(theta) @ v
    np.testing.assert_allclose(bent, 1e-3 * v / 2, rtol=1e-9)


def test_a_scene_searches_for_patches_that_rise_in_time() -> None:
    """Uplift, onset and time of rise of two patches are unknowns; the gradient is that of differences."""
    patches = {"layers": {"axis": "x", "tops": [2000.0, 4000.0, 6000.0], "values": [-1.0, 0.0, 1.0, -1.0]}}
    table = {
        "uplift": {"constant": 0.5},
        "start": {"constant": 4.0},
        "rise": {"constant": 12.0},
    }
    case = scene(
        WAVE,
        equation={"type": "long_wave", "sponge": 3, "uplift": True},
        unknowns={name: {"start": field, "regions": patches} for name, field in table.items()},
        truth__fields={"uplift": {"constant": 0.9}, "start": {"constant": 7.0}, "rise": {"constant": 9.0}},
    )
    objective = case.objective("f64")
    theta = np.zeros(objective.problem.unknowns.size)
    assert theta.size == 6
    gradient = objective.evaluate(theta).gradient
    v, h = np.array([0.3, -0.2, 1.0, 0.5, -0.7, 0.4]), 1e-5
    difference = (objective.value(theta + h * v) - objective.value(theta - h * v)) / (2 * h)
    assert gradient @ v == pytest.approx(difference, rel=1e-6)


def test_a_scene_says_which_number_is_wrong() -> None:
    with pytest.raises(SceneError, match=r"unknowns\.eta0: dip: expected numbers above 0, got -3"):
        scene(WAVE, unknowns={"eta0": FAULT | {"dip": -3.0}}).objective("f64")


@pytest.mark.parametrize("axes", [["y", "x"], ["longitude", "latitude"]])
def test_a_scene_on_the_sphere_names_its_axes(axes: list[str]) -> None:
    """Faults would take the degrees of other axes as metres."""
    grid = {"shape": [14, 16], "spacing": [0.01], "origin": [38.0, 142.0], "axes": axes}
    case = scene(WAVE, grid=grid, equation={"type": "long_wave", "coordinates": "sphere", "sponge": 3}, fields={"H": {"constant": 1000.0}})
    with pytest.raises(SceneError, match=r"grid\.axes: expected names of a latitude and a longitude, since .* write axes = "):
        case.objective("f64")
