"""What lies outside the grid, by hand and by NumPy's own padding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from diffsim.errors import ShapeError
from diffsim.field import Layout, Rule, check_halo, extend, extend_transpose

PADS = {"zero": "constant", "periodic": "wrap", "mirror": "symmetric"}
"""Each rule as `numpy.pad` has it; "symmetric" repeats the outermost value, so the mirror is the face beyond it."""
both_axes = pytest.mark.parametrize("rules", list(itertools.product(PADS, repeat=2)), ids="-".join)


def extended(cells: np.ndarray, halo: tuple[int, ...], rules: tuple[Rule, ...]) -> np.ndarray:
    out = np.full([n + 2 * h for n, h in zip(cells.shape, halo, strict=True)], np.nan)
    out[tuple(slice(h, h + n) for n, h in zip(cells.shape, halo, strict=True))] = cells
    extend(out, halo, rules)
    return out


@pytest.mark.parametrize(
    ("rule", "outside"),
    [("zero", [0, 0, 1, 2, 3, 4, 0, 0]), ("periodic", [3, 4, 1, 2, 3, 4, 1, 2]), ("mirror", [2, 1, 1, 2, 3, 4, 4, 3])],
)
def test_a_halo_by_hand(rule: Rule, outside: list[int]) -> None:
    np.testing.assert_array_equal(extended(np.array([1.0, 2.0, 3.0, 4.0]), (2,), (rule,)), outside)


@both_axes
def test_halos_in_the_plane(rules: tuple[Rule, ...]) -> None:
    cells, halo = np.random.default_rng(0).standard_normal((4, 5)), (3, 2)
    expected = cells
    for axis in (1, 0):  # corners are of both rules
        width = [(halo[a],) * 2 if a == axis else (0, 0) for a in (0, 1)]
        expected = np.pad(expected, width, mode=PADS[rules[axis]])
    np.testing.assert_array_equal(extended(cells, halo, rules), expected)


@both_axes
def test_the_transpose_of_a_halo(rules: tuple[Rule, ...]) -> None:
    """<E x, y> = <x, E' y>, in whole numbers, so exactly."""
    rng = np.random.default_rng(1)
    halo = (2, 3)
    x = rng.integers(-9, 9, (4, 6)).astype(float)
    y = rng.integers(-9, 9, (8, 12)).astype(float)
    forward = float(np.sum(extended(x, halo, rules) * y))
    back = y.copy()
    extend_transpose(back, halo, rules)
    assert float(np.sum(x * back[2:-2, 3:-3])) == forward
    back[2:-2, 3:-3] = 0
    assert not back.any()


def test_a_halo_is_no_wider_than_its_grid() -> None:
    check_halo((3, 4), (3, 4))
    for shape in ((2, 4), (3, 3)):
        with pytest.raises(ShapeError, match="fewer than the stencil's reach"):
            check_halo(shape, (3, 4))


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
