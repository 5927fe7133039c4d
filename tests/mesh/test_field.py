"""Where the cells of a field lie in its storage."""

from __future__ import annotations

import numpy as np
import pytest

from diffsim.mesh.field import Layout


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize(("shape", "halo"), [((7,), (2,)), ((5, 9), (1, 4)), ((2, 3, 17), (1, 0, 5))])
def test_cells_are_a_view_of_their_storage(shape: tuple[int, ...], halo: tuple[int, ...], lanes: int) -> None:
    layout = Layout(shape, halo, lanes, np.dtype(float))
    stored = np.zeros(layout.storage)
    assert stored.nbytes == layout.nbytes == layout.tile_count * lanes * 8
    layout.cells(stored)[...] = 1.0
    assert stored.sum() == np.prod(shape)
    around = layout.extended(stored)
    assert around.shape == tuple(n + 2 * h for n, h in zip(shape, halo, strict=True))
    np.testing.assert_array_equal(around, np.pad(np.ones(shape), [(h, h) for h in halo]))
