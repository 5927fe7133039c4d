"""A scene whose receivers stay on dry land is refused before its gradient is compiled."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from diffsim.errors import SceneError
from diffsim.scene import Scene
from diffsim.scene.search.assemble import assemble
from diffsim.scene.search.reached import require_reached

BEACH: dict[str, Any] = {
    "name": "bay",
    "seed": 1,
    "grid": {"shape": [40], "spacing": [10.0], "axes": ["x"]},
    "time": {"dt": 0.5, "duration": 20.0},
    "equation": {"type": "shallow_water", "drag": "manning", "method": "euler"},
    "fields": {
        "z": {"constant": -1.0, "boxes": [{"lower": [200.0], "upper": [400.0], "amplitude": 3.0}]},
        "eta": {"gaussians": [{"centre": [160.0], "width": [30.0], "amplitude": 0.5}]},
    },
    "receivers": {"eta": {"points": [[230.0], [305.0]]}},
    "unknowns": {"manning": {"start": {"constant": 0.03}, "lower": 0.0, "upper": 0.1}},
    "truth": {"noise": 0.02, "fields": {"manning": {"constant": 0.04}}},
    "misfit": [{"of": "traces", "state": "eta"}],
}
NOTHING = r"^receivers: all 2 of them are on dry land, which nothing reaches in the 40 steps .* the gradient for 'manning' is 0; look at"


def judge(**changes: Any) -> None:
    scene = copy.deepcopy(BEACH)
    for key, value in changes.items():
        part, name = key.split("__")
        scene[part][name] = value
    require_reached(assemble(Scene(**scene), "f64"))


def test_receivers_on_land_that_stays_dry() -> None:
    with pytest.raises(SceneError, match=NOTHING):
        judge()


@pytest.mark.parametrize(
    "changes",
    [
        {"receivers__eta": {"points": [[230.0], [150.0]]}},  # one is in the sea
        {"fields__eta": {"gaussians": [{"centre": [160.0], "width": [30.0], "amplitude": 5.0}]}, "time__dt": 0.2},  # a flood comes
        {
            "unknowns__z": {"start": {"constant": 2.0, "boxes": [{"lower": [0.0], "upper": [195.0], "amplitude": -3.0}]}},
            "truth__fields": {"manning": {"constant": 0.04}, "z": {"constant": 2.0}},
        },  # the level of what is dry is the bed
    ],
    ids=["sea", "flood", "bed"],
)
def test_receivers_that_something_reaches(changes: dict[str, Any]) -> None:
    judge(**changes)


@pytest.mark.parametrize("misfits", [1, 2, 3])
def test_receivers_count_once_for_all_misfits_on_their_state(misfits: int) -> None:
    scene = {**copy.deepcopy(BEACH), "misfit": [{"of": "traces", "state": "eta", "weight": 1.0 + k} for k in range(misfits)]}
    with pytest.raises(SceneError, match=NOTHING):
        require_reached(assemble(Scene(**scene), "f64"))
