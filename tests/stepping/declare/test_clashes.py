"""Names of groups and of their components that something else has too are refused."""

from __future__ import annotations

from typing import Any

import pytest

import diffsim as ds
from diffsim.errors import TraceError


class Clash(ds.Equation):
    def __init__(self, states: dict[str, Any], parameters: dict[str, Any]) -> None:
        self.grid, self.dt = ds.Grid((4, 5), 1.0), 0.1
        self.states, self.parameters = states, parameters

    def step(self, v: Any) -> dict[str, Any]:
        return {"v": 1.0 * v}


def test_a_group_and_a_field_of_one_name() -> None:
    with pytest.raises(TraceError, match="Clash has v as a group of components and as a field; rename one"):
        ds.Simulation(Clash({"v": ds.Vector("zx", location="centres")}, {"v": ds.Variable(axes=())}))


def test_a_component_and_a_field_of_one_name() -> None:
    with pytest.raises(TraceError, match="states: expected each field once, found vx twice, also in a group; rename one"):
        Clash({"v": ds.Vector("zx", location="centres"), "vx": ds.Variable("mirror")}, {})
