"""Misfits of states without receivers: the remedy is receivers for a state, and a state for another name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import SceneError
from diffsim.expr import laplacian
from diffsim.scene import Scene
from tests.scene.tiny import HEAT, tables

STATES = ("pressure", "velocity_x", "salinity", "T")


class Four(ds.Equation):
    """Four substances that spread."""

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {name: ds.Variable("mirror") for name in STATES}

    def step(self, **states: Any) -> dict[str, Any]:
        return {name: states[name] + 0.1 * laplacian(states[name]) for name in STATES}


def message(state: str, receivers: tuple[str, ...]) -> str:
    described = tables(
        HEAT,
        equation={"type": Four},
        unknowns={"pressure": {"start": {"constant": 0.0}}},
        truth__fields={"pressure": HEAT["truth"]["fields"]["T"]},
        receivers={name: {"points": [[3.0, 3.0]]} for name in receivers},
        misfit=[{"of": "traces", "state": state}],
        penalty=[],
        accept=[],
    )
    with pytest.raises(SceneError) as caught:
        Scene(**described).problem()
    return str(caught.value)


def misspelled(name: str) -> list[str]:
    """Names like it: a letter dropped, doubled, swapped with the next or changed; another case."""
    place = int(np.random.default_rng(len(name)).integers(1, len(name) - 1))
    head, letter, rest = name[:place], name[place], name[place + 1 :]
    return [head + rest, head + 2 * letter + rest, head + rest[0] + letter + rest[1:], f"{head}q{rest}", name.upper()]


@pytest.mark.parametrize("receivers", [("pressure",), ("T", "salinity"), ()], ids=lambda each: "-".join(each) or "none")
@pytest.mark.parametrize("state", STATES)
def test_the_remedy_for_each_name(state: str, receivers: tuple[str, ...]) -> None:
    heard = f"misfit[0].state: expected a state with receivers ({', '.join(receivers) or 'none'}), found "
    if state not in receivers:
        assert message(state, receivers) == f"{heard}'{state}'; add [receivers.{state}]"
    for wrong in misspelled(state) if len(state) > 2 else [state.lower()]:
        assert message(wrong, receivers) == f"{heard}'{wrong}'; did you mean {state}?"
    assert message("zzz", receivers) == f"{heard}'zzz'; choose one of these"
