"""Arrays that share the memory of others."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from diffsim.engine import aligned, displaced


@pytest.mark.parametrize("cells", [-3, 1, 5])
def test_a_displaced_array_begins_some_cells_away(cells: int) -> None:
    values = aligned((10, 8), "f8")
    values[...] = np.arange(80.0).reshape(10, 8)
    moved = displaced(values, cells)
    assert moved.shape == values.shape and moved.ctypes.data == values.ctypes.data + 8 * cells
    np.testing.assert_array_equal(moved[1:9].reshape(-1), np.arange(80.0)[8 + cells : 72 + cells])


def test_memory_goes_with_the_last_array_that_shares_it() -> None:
    values = aligned((4, 8), "f8")
    base = values.base
    while base.base is not None:
        base = base.base
    alive, shifted = weakref.ref(base), displaced(values, 1)
    gc.disable()  # no cycle may keep it
    try:
        del values, base
        assert alive() is not None
        del shifted
        assert alive() is None
    finally:
        gc.enable()
