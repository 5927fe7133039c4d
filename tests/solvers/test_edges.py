"""Sides where a layer has no place: free surfaces, and axes whose ends are joined."""

from __future__ import annotations

from typing import Any

import pytest

import diffsim as ds
from diffsim.solvers import Acoustic, Elastic, Maxwell, ViscoAcoustic

GRID = ds.Grid((30, 24), 10.0)
KEYS = {"layer_speed": 2000.0, "layer_frequency": 20.0}
SURFACE, JOINED = ((0, 5), (5, 5)), ((5, 5), (0, 0))
MADE: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "Acoustic, surface": (Acoustic, {"boundary": (("odd_image", "zero"), "zero"), **KEYS}, SURFACE),
    "Acoustic, periodic": (Acoustic, {"boundary": ("mirror", "periodic"), **KEYS}, JOINED),
    "ViscoAcoustic, surface": (ViscoAcoustic, {"boundary": (("odd_image", "zero"), "zero"), **KEYS}, SURFACE),
    "ViscoAcoustic, periodic": (ViscoAcoustic, {"boundary": ("zero", "periodic"), **KEYS}, JOINED),
    "Elastic, surface": (Elastic, {"surface": True, **KEYS}, SURFACE),
    "Elastic, periodic": (Elastic, {"boundary": ("zero", "periodic"), **KEYS}, JOINED),
    "Maxwell, periodic": (Maxwell, {"boundary": ("pec", "periodic")}, JOINED),
}


@pytest.mark.parametrize("name", MADE)
def test_one_number_leaves_them_out_and_an_entry_of_their_own_is_refused(name: str) -> None:
    kind, options, cells = MADE[name]
    assert kind(GRID, 1e-3, layer=5, **options).layer.cells == cells
    assert kind(GRID, 1e-3, layer=cells, **options).layer.cells == cells
    message = r"axis \d (is periodic|has a free surface) and a layer of 5 cells .*give that side 0"
    with pytest.raises(ds.errors.ParameterError, match=message):
        kind(GRID, 1e-3, layer=(5, 5), **options)


def test_a_sponge_takes_the_place_of_a_layer() -> None:
    with pytest.raises(ds.errors.ParameterError, match=r"a sponge of 8 cells and a layer, expected one of the two; leave the sponge out"):
        Acoustic(GRID, 1e-3, sponge=8, layer=5, **KEYS)
