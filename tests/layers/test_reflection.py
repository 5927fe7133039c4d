"""Reflections of layers of 20 cells. scripts/layers.py measures more of it."""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
from tests.layers.plane_waves import (
    Compact,
    CompactOfOrder8,
    Divergence,
    FirstOrder,
    Packet,
    SecondOrder,
    Sponged,
    Staged,
    final_pressure,
    reflection,
)
from tests.sampled import sampled
from tests.steps import acoustic_cpml

CELLS = 20
COMES_BACK = {0: 1e-5, 30: 1e-5, 60: 2e-3}
"""Angle -> bound of the amplitude that comes back from a CPML; measured 6.0e-6, 4.7e-6 and 5.9e-4, which is still on its way."""
GRAZING = {10: 1e-3, 20: 1e-5}
"""Cells -> bound of the amplitude that comes back at 80°; measured 5.3e-4 and 2.0e-6."""
OF_A_SPONGE = {0: 1e-3, 30: 2e-3, 60: 5e-2}
"""Angle -> the least reflection of a sponge of as many cells; measured 1.5e-3, 2.5e-3 and 7.2e-2."""


@pytest.mark.parametrize("equation", [FirstOrder, SecondOrder, Staged, Compact, CompactOfOrder8, Divergence])
@pytest.mark.parametrize("angle", sampled(COMES_BACK))
def test_plane_waves_do_not_come_back(angle: int, equation: type[ds.Equation]) -> None:
    assert reflection(equation, Packet(angle), CELLS) < COMES_BACK[angle]


@pytest.mark.parametrize("cells", GRAZING)
def test_grazing_waves_do_not_come_back(cells: int) -> None:
    """At 80°, where slow parts of the packet are still there: the difference to a larger grid."""
    packet = Packet(80)
    here, there = (final_pressure(Compact, packet, cells, beyond) for beyond in (0, packet.inner))
    assert 0 < np.abs(here - there).max() < GRAZING[cells]


@pytest.mark.parametrize("angle", OF_A_SPONGE)
def test_more_comes_back_from_a_sponge(angle: int) -> None:
    assert OF_A_SPONGE[angle] < reflection(Sponged, Packet(angle), CELLS) < 2 * OF_A_SPONGE[angle]


def test_a_short_packet_passes_as_on_a_larger_grid() -> None:
    """It is made of many wavelengths and angles, some of which are slow and still there; measured 2e-5 of difference."""
    packet = Packet(30, 0.4)
    here, there = (final_pressure(FirstOrder, packet, CELLS, beyond) for beyond in (0, packet.inner))
    assert np.abs(there).max() > 1e-3
    assert np.abs(here - there).max() < 1e-4


def test_nothing_grows_in_a_long_run() -> None:
    """Layers of unlike thickness meet in corners, one side has none, and waves as short as the grid stay for long; measured 1e-2."""
    step, steps = acoustic_cpml.STEP, 20_000
    ones, zeros = np.ones(step.shape), np.zeros(step.shape)
    start = {"p": step.all_inputs()["p"], "K": ones, "b": ones, "f": np.zeros((steps, 1))}
    assert np.abs(start["p"]).max() > 2
    final = step.simulation().run(dict.fromkeys(step.equation(step.shape).states, zeros) | start, steps).final
    assert max(np.abs(values).max() for values in final.values()) < 0.1
