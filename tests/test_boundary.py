"""Values outside the grid, by hand and by NumPy's own padding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import diffsim as ds
from diffsim.boundary import Rules, bound, check_halo, extend, extend_transpose, fills_of, ghosts
from diffsim.errors import ShapeError

PADS = {"zero": "constant", "periodic": "wrap", "mirror": "symmetric"}
"""Each rule as `numpy.pad` has it; "symmetric" repeats the outermost value, so the mirror is the face beyond it."""
both_axes = pytest.mark.parametrize("rules", list(itertools.product(PADS, repeat=2)), ids="-".join)


def centred(rules: tuple[object, ...]) -> Rules:
    """Rules of a field at cell centres, of spacing 1."""
    return bound(rules, (0,) * len(rules), (1.0,) * len(rules))


def extended(cells: np.ndarray, halo: tuple[int, ...], rules: tuple[str, ...]) -> np.ndarray:
    out = np.full([n + 2 * h for n, h in zip(cells.shape, halo, strict=True)], np.nan)
    out[tuple(slice(h, h + n) for n, h in zip(cells.shape, halo, strict=True))] = cells
    extend(out, halo, centred(rules))
    return out


@pytest.mark.parametrize(
    ("rule", "outside"),
    [("zero", [0, 0, 1, 2, 3, 4, 0, 0]), ("periodic", [3, 4, 1, 2, 3, 4, 1, 2]), ("mirror", [2, 1, 1, 2, 3, 4, 4, 3])],
)
def test_a_halo_by_hand(rule: str, outside: list[int]) -> None:
    np.testing.assert_array_equal(extended(np.array([1.0, 2.0, 3.0, 4.0]), (2,), (rule,)), outside)


@both_axes
def test_halos_in_the_plane(rules: tuple[str, ...]) -> None:
    cells, halo = np.random.default_rng(0).standard_normal((4, 5)), (3, 2)
    expected = cells
    for axis in (1, 0):  # corners are of both rules
        width = [(halo[a],) * 2 if a == axis else (0, 0) for a in (0, 1)]
        expected = np.pad(expected, width, mode=PADS[rules[axis]])
    np.testing.assert_array_equal(extended(cells, halo, rules), expected)


@both_axes
def test_the_transpose_of_a_halo(rules: tuple[str, ...]) -> None:
    """<E x, y> = <x, E' y>, in whole numbers, so exactly."""
    rng = np.random.default_rng(1)
    halo = (2, 3)
    x = rng.integers(-9, 9, (4, 6)).astype(float)
    y = rng.integers(-9, 9, (8, 12)).astype(float)
    forward = float(np.sum(extended(x, halo, rules) * y))
    back = y.copy()
    extend_transpose(back, halo, centred(rules))
    assert float(np.sum(x * back[2:-2, 3:-3])) == forward
    back[2:-2, 3:-3] = 0
    assert not back.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_ghost_cells_are_filled_all_at_once_as_one_by_one(axes: int, dtype: type) -> None:
    """Rules of one and more cells with constants, at sides drawn at random; sums in the order of the cells, so to the last bit."""
    rng = np.random.default_rng(axes)
    kinds = [ds.Dirichlet(0.3), ds.Neumann(-0.7), ds.Robin(1.5, 0.4, 0.2), "mirror", "zero", ds.OddImage(), ds.Extrapolate(2)]
    views_are_there = 0
    for number in range(30):
        kinds = kinds if number < 20 else ["mirror", "zero"]
        rules = tuple("periodic" if rng.random() < 0.2 else tuple(kinds[k] for k in rng.integers(0, len(kinds), 2)) for _ in range(axes))
        location, halo = tuple(rng.integers(0, 2, axes)), tuple(int(h) for h in rng.integers(0, 4, axes))
        sides = bound(rules, tuple(map(int, location)), (0.8,) * axes)
        cells = rng.normal(size=rng.integers(4, 7, axes)).astype(dtype)
        inner = tuple(slice(h, h + n) for n, h in zip(cells.shape, halo, strict=True))
        filled = np.zeros([n + 2 * h for n, h in zip(cells.shape, halo, strict=True)], dtype)
        filled[inner] = cells
        expected = filled.copy()
        for _ in range(2):  # the second time by what is kept of the first
            extend(filled, halo, sides)
        for axis in reversed(range(axes)):
            view, h = np.moveaxis(expected, axis, 0), halo[axis]
            view[:h], view[view.shape[0] - h :] = 0, 0
            for ghost in ghosts(sides[axis], view.shape[0] - 2 * h, h):
                parts = [weight * view[h + cell] for cell, weight in ghost.cells]
                view[h + ghost.position] = sum(parts[1:], parts[0]) + ghost.constant if parts else ghost.constant
        assert np.array_equal(filled, expected) and filled.dtype == dtype, (rules, location, halo)
        again = np.zeros_like(filled)
        again[inner] = cells
        views = fills_of(again, halo, sides)
        views_are_there += views is not None
        for part in views or ():
            np.add(*part)
        assert views is None or again.tobytes() == filled.tobytes(), (rules, location, halo)
    assert views_are_there > 0


def test_a_halo_is_no_wider_than_its_grid() -> None:
    check_halo((3, 4), (3, 4))
    for shape in ((2, 4), (3, 3)):
        with pytest.raises(ShapeError, match="fewer than the stencil's reach"):
            check_halo(shape, (3, 4))
