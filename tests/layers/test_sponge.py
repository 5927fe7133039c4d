"""The sponge against its formulas; `tests/solvers/test_plain.py` has it in equations."""

from __future__ import annotations

import math

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError, ShapeError
from diffsim.layers import Sponge

GRID = ds.Grid((12, 17), (2.0, 5.0))
DT = 0.01


def test_rates_grow_with_the_square_of_the_depth_at_each_side() -> None:
    cells = ((4, 2), (0, 6))
    profiles = Sponge(GRID, DT, cells, 300.0, reflection=1e-2).profiles
    for axis, (low, high) in enumerate(cells):
        n, h = GRID.shape[axis], GRID.spacing[axis]
        for i, value in enumerate(profiles[f"damp{axis}"].values):
            width, depth = (low, low - i) if i < low else (high, i - (n - 1 - high))
            sigma = 3 * 300.0 * math.log(100.0) / (width * h) * (depth / width) ** 2 if width and depth > 0 else 0.0
            assert value == pytest.approx(0.5 * sigma * DT, rel=1e-12)


def test_spacing_in_metres_takes_the_place_of_that_of_the_grid() -> None:
    narrow, wide = (Sponge(GRID, DT, 4, 300.0, spacing) for spacing in (None, (4.0, 10.0)))
    for name, profile in wide.profiles.items():
        np.testing.assert_allclose(2 * profile.values, narrow.profiles[name].values, rtol=1e-12)


def test_without_cells_there_is_nothing_to_declare() -> None:
    stretched = ds.Grid.from_faces((np.arange(9.0) ** 2,))
    assert Sponge(stretched, DT, 0, 300.0).profiles == {}
    with pytest.raises(ShapeError, match="uniform grid"):
        Sponge(stretched, DT, 2, 300.0)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ParameterError, match="sponge = 6 cells, expected 0 to 5 along axis 0"):
        Sponge(GRID, DT, 6, 300.0)
    with pytest.raises(ParameterError, match=r"spacing of a sponge = \(1.0,\), expected 2 numbers"):
        Sponge(GRID, DT, 2, 300.0, (1.0,))
