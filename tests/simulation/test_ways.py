"""The way from a call to a launch is short enough to read."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

import diffsim
import diffsim.numpy as dnp
from diffsim.stepping.run.launcher import Launcher
from tests.simulation import chaotic

MOST = 20
HOME = diffsim.__path__[0]


def depth(frame: FrameType | None) -> int:
    """Functions of diffsim on the call stack."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename.startswith(HOME)
        frame = frame.f_back
    return count


@pytest.mark.filterwarnings("ignore::diffsim.checkpoint.growth.ChaosWarning")
@pytest.mark.parametrize("checkpoint", [3, "auto"])
def test_a_launch_is_a_few_calls_below_value_and_grad(checkpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = chaotic.simulation()
    depths = []
    launch = Launcher._launch

    def watched(*args: Any, **kwargs: Any) -> Any:
        depths.append(depth(sys._getframe(1)))
        return launch(*args, **kwargs)

    monkeypatch.setattr(Launcher, "_launch", watched)
    inputs = chaotic.inputs(simulation, chaotic.STEPS)
    simulation.value_and_grad(lambda solution: dnp.sum(solution.traces["u"]), inputs, chaotic.STEPS, checkpoint=checkpoint)
    assert len(depths) > 1 and 8 < max(depths) < MOST
