"""Values outside the grid, by hand and by NumPy's own padding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from diffsim.boundary import Rules, bound, check_halo, extend, extend_transpose
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


def test_a_halo_is_no_wider_than_its_grid() -> None:
    check_halo((3, 4), (3, 4))
    for shape in ((2, 4), (3, 3)):
        with pytest.raises(ShapeError, match="fewer than the stencil's reach"):
            check_halo(shape, (3, 4))
