"""Systems of values on faces, whose last layer a wall gives: by transforms, against dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.boundary import bound
from diffsim.errors import SingularError
from diffsim.linear import System
from diffsim.linear.held import HeldLayer, held_layer
from diffsim.linear.stencil import Stencil
from tests.linear.test_system import ROUND_OFF, cross

WALLS = (ds.Dirichlet(0.0), ds.Dirichlet(0.0))
CASES = [((5, 6), 0, "mirror", 1), ((6, 5), 1, "periodic", 1), ((7, 6), 0, "periodic", 2), ((4, 5, 6), 1, "mirror", 1)]


def system(shape: tuple[int, ...], axis: int, other: Any, reach: int, dtype: Any) -> tuple[System, Stencil, list[Any]]:
    """An implicit step of a field on the faces across an axis between walls, the last of which lie on a wall."""
    rules = bound(
        tuple(WALLS if k == axis else other for k in range(len(shape))),
        tuple(int(k == axis) for k in range(len(shape))),
        (1.0,) * len(shape),
    )
    offsets = cross(len(shape), reach)
    taken = {1: 0.3, 2: -0.02}
    inside = [1 + 0.56 * len(shape)] + [-taken[max(map(abs, offset))] for offset in offsets[1:]]
    weights = [np.full(shape, weight, dtype) for weight in inside]
    for number, weight in enumerate(weights):
        np.moveaxis(weight, axis, 0)[-1] = number == 0
    return System(offsets, rules, "auto", None), Stencil(shape, offsets, rules), weights


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("shape", "axis", "other", "reach"), CASES)
def test_solutions_are_those_of_the_matrix_and_of_its_transpose(shape: Any, axis: int, other: Any, reach: int, dtype: Any) -> None:
    chosen, stencil, weights = system(shape, axis, other, reach, dtype)
    b = np.random.default_rng(0).normal(size=shape).astype(dtype)
    matrix = stencil.matrix(weights).toarray()
    for transposed, dense in ((False, matrix), (True, matrix.T)):
        x = chosen.solve(weights, b, transposed)
        assert x.dtype == dtype
        rounding = ROUND_OFF if dtype == np.float64 else 2e-6
        np.testing.assert_allclose(dense @ x.ravel(), b.ravel(), atol=rounding)
    assert isinstance(chosen._prepared, HeldLayer)


def test_other_systems_are_left_to_other_methods() -> None:
    _, stencil, weights = system((5, 6), 0, "mirror", 1, np.float64)
    assert held_layer(stencil, weights) is not None
    for number, place in ((0, (2, 3)), (1, (4, 3)), (0, (4, 0))):  # a weight that varies, a wall that reads its neighbour, another value
        others = [weight.copy() for weight in weights]
        others[number][place] += 0.1
        assert held_layer(stencil, others) is None, (number, place)
    assert held_layer(stencil, [1.0, *weights[1:]]) is None
    _, line, along = system((5,), 0, "mirror", 1, np.float64)
    assert held_layer(line, along) is None
    ends = [np.ones((5, 7)), np.ones((5, 7))]  # without the cell itself the last rows are 0, and the matrix has no inverse
    for weight in ends:
        weight[-1] = 0.0
    rules = bound(("mirror", "periodic"), (0, 0), (1.0, 1.0))
    assert held_layer(Stencil((5, 7), [(0, 1), (0, -1)], rules), ends) is None
    with pytest.raises(SingularError):
        System([(0, 1), (0, -1)], rules, "auto", None).solve(ends, np.ones((5, 7)))
