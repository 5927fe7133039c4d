"""Matrices of next neighbours without a sparse matrix, and their multigrid, against sparse and dense ones."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ConvergenceError
from diffsim.linear import multigrid, sparse
from diffsim.linear.multigrid import Multigrid
from diffsim.linear.neighbours import PIECE, Neighbours, neighbours
from diffsim.linear.stencil import Stencil
from tests.linear.test_system import centred, conducting, cross, system_of

RULES = ("zero", "mirror", "periodic")
SHAPES = [(2,), (3,), (7,), (5, 6), (2, 9), (1, 8), (3, 4, 5)]
ROUND_OFF = 1e-13
SINGLE = 3e-6
"""Round-off of a cycle in f32."""


def symmetric(shape: tuple[int, ...], rules: Any) -> tuple[Stencil, list[np.ndarray]]:
    """Weights of neighbours, joined around where the axis is a ring; all but the ring are those of a symmetric matrix."""
    rng, weights = np.random.default_rng(4), [np.random.default_rng(5).uniform(5, 6, shape)]
    for axis in range(len(shape)):
        through = rng.uniform(0.2, 0.7, shape)
        weights += [-np.roll(through, 1, axis), -through]
    return Stencil(shape, cross(len(shape)), centred(rules)), weights


@pytest.mark.parametrize(("shape", "rules"), [(s, r) for s in SHAPES for r in itertools.product(RULES, repeat=len(s))], ids=str)
def test_products_sums_and_steps_equal_those_of_a_sparse_matrix(shape: tuple[int, ...], rules: Any) -> None:
    stencil, weights = symmetric(shape, rules)
    matrix, near = stencil.matrix(weights), neighbours(stencil, weights)
    assert near is not None
    x, b = np.random.default_rng(6).standard_normal((2, stencil.size))
    diagonal = matrix.diagonal()
    wanted = {"product": matrix @ x, "left": b - matrix @ x, "relaxed": x + 0.7 * (b - matrix @ x) / diagonal, "begun": 0.7 * b / diagonal}
    field, out, left = near.field(), near.field(), np.empty(stencil.size)
    near.cells(field)[:] = x
    got = {"product": (near @ x).copy()}
    near.residual(field, b, left)
    got["left"] = left
    near.relax(field, b, 0.7, out)
    got["relaxed"] = near.cells(out).copy()
    near.begin(b, 0.7, out)
    got["begun"] = near.cells(out)
    for name, values in wanted.items():
        np.testing.assert_allclose(got[name], values, rtol=0, atol=ROUND_OFF * 10, err_msg=name)
    np.testing.assert_allclose(near.row_sums().ravel(), np.asarray(matrix.sum(axis=1)).ravel(), rtol=0, atol=ROUND_OFF * 10)
    np.testing.assert_allclose(near.diagonal(), diagonal, rtol=0, atol=ROUND_OFF)
    if min(shape) > 2:  # on two cells in a ring both neighbours are one, and magnitudes of a sum are not sums of magnitudes
        np.testing.assert_allclose(near.magnitudes().ravel(), np.asarray(abs(matrix).sum(axis=1)).ravel(), rtol=0, atol=ROUND_OFF * 10)


def test_pieces_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    stencil, weights = symmetric((37, 41), ("mirror", "periodic"))
    x = np.random.default_rng(6).standard_normal(stencil.size)
    whole = neighbours(stencil, weights)
    monkeypatch.setattr("diffsim.linear.neighbours.PIECE", 8 * 100)
    pieces = neighbours(stencil, weights)
    assert whole is not None and pieces is not None and stencil.size * 8 < PIECE
    assert np.array_equal(whole @ x, pieces @ x)


def test_other_matrices_are_left_to_others() -> None:
    stencil, weights = symmetric((5, 6), ("mirror", "zero"))
    skew = [*weights[:1], weights[1] * 1.01, *weights[2:]]
    assert neighbours(stencil, skew) is None
    assert neighbours(Stencil((8, 9), cross(2, 2), centred(("mirror", "zero"))), [9.0, *(-1.0,) * 8]) is None
    assert neighbours(Stencil((8, 9), [(0, 0), (1, 1), (-1, -1)], centred(("mirror", "zero"))), [9.0, -1.0, -1.0]) is None
    walls = centred(((ds.Extrapolate(3), ds.Extrapolate(3)), "zero"))
    assert neighbours(Stencil((8, 9), cross(2), walls), [9.0, *(-1.0,) * 4]) is None


MEDIA = [
    ((40, 37), "mirror", 0.0),
    ((33, 64), "periodic", 1e-2),
    ((12, 9, 11), "zero", 0.0),
    ((1300,), "mirror", 1e-3),
    ((7, 300), "zero", 0.0),
]


def medium(shape: tuple[int, ...], rule: str, extra: float) -> Neighbours:
    weights = conducting(np.random.default_rng(0), shape, extra)
    near = neighbours(Stencil(shape, cross(len(shape)), centred((rule,) * len(shape))), weights)
    assert near is not None
    return near


@pytest.mark.parametrize("case", MEDIA, ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_cycle_is_symmetric_and_definite(case: Any, sign: int) -> None:
    diagonal, beside = medium(*case).parts
    cycle, (a, b) = (
        Multigrid(sign * diagonal, [sign * part for part in beside]),
        np.random.default_rng(7).standard_normal((2, diagonal.size)),
    )
    through_a, through_b = cycle(a).copy(), cycle(b).copy()
    size = np.linalg.norm(through_a) * np.linalg.norm(b) + np.linalg.norm(through_b) * np.linalg.norm(a)
    assert abs(b @ through_a - a @ through_b) <= SINGLE * size
    assert sign * (a @ through_a) > 0 and sign * (b @ through_b) > 0


@pytest.mark.parametrize("axis", [0, 1])
def test_cycles_do_not_depend_on_the_ratio_of_axes(axis: int) -> None:
    """Also where one axis conducts 10 000 times better, and on cells in number that no power of 2 divides."""
    shape = (150, 131)
    counts = []
    for ratio in (1.0, 1e-2, 1e-4):
        weights = [2 + 2 * ratio, *(-1.0 if a == axis else -ratio for a in (0, 1) for _ in range(2))]
        matrix = neighbours(Stencil(shape, cross(2), centred(("mirror", "zero"))), weights)
        assert matrix is not None
        counts.append(_cycles(matrix, 1e-10))
    assert max(counts) <= 16, counts


def _cycles(matrix: Neighbours, tolerance: float) -> int:
    solver, count = sparse.ConjugateGradients(matrix, tolerance, matrix.grid), [0]
    cycle = Multigrid(*matrix.parts)

    def counted(values: np.ndarray) -> np.ndarray:
        count[0] += 1
        return cycle(values)

    solver.__dict__["_multigrid"] = counted
    solver.solve(np.random.default_rng(1).standard_normal(matrix.grid), False)
    return count[0]


def test_cycles_hardly_grow_with_the_grid() -> None:
    counts = [_cycles(medium((n, n), "zero", 1e-4), 1e-8) for n in (64, 128, 256)]
    assert min(counts) > 5 and max(counts) <= 30, counts


def test_levels_halve_down_to_a_dense_matrix() -> None:
    diagonal, beside = medium((40, 37), "mirror", 0.0).parts
    cycle = Multigrid(diagonal, beside)
    assert [level.matrix.grid for level in cycle._levels] == [(40, 37), (20, 19), (10, 10)] and cycle._last.shape == (25, 25)
    assert multigrid.COARSEST >= 25


@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("n", [2, 3, 8, 9])
def test_restriction_is_the_transpose_of_interpolation(n: int, ring: bool) -> None:
    down = np.stack([multigrid._down(unit, n, 0, ring) for unit in np.eye((n + 1) // 2)])
    up = np.stack([multigrid._up(unit, 0, ring) for unit in np.eye(n)])
    np.testing.assert_allclose(down, up.T, rtol=0, atol=1e-16)
    np.testing.assert_allclose(down.sum(axis=0), 1, rtol=0, atol=1e-15)


PROGRAM = """
import hashlib, numpy as np
from tests.linear.test_system import conducting, cross, system_of
shape = (150, 140)
weights = conducting(np.random.default_rng(0), shape, 1e-3)
found = system_of(cross(2), ("mirror", "mirror"), "cg", 1e-10).solve(weights, np.random.default_rng(1).standard_normal(shape))
print(hashlib.sha256(found.tobytes()).hexdigest())
"""


def test_bits_do_not_depend_on_the_threads_of_other_libraries() -> None:
    digests = set()
    for threads in ("1", "2"):
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        digests.add(subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True).stdout)
    assert len(digests) == 1 and len(digests.pop().strip()) == 64


def test_neighbours_of_the_sign_of_the_diagonal() -> None:
    """The multigrid of such a matrix is that of another; the diagonal alone comes to the solution."""
    shape, rng = (30, 31), np.random.default_rng(3)
    weights = [4.1, 1.0, 1.0, 1.0, 1.0]
    right_side = rng.standard_normal(shape)
    solver = system_of(cross(2), ("zero", "zero"), "cg", 1e-10)
    solution = solver.solve(weights, right_side)
    matrix = Stencil(shape, cross(2), centred(("zero", "zero"))).matrix(weights)
    assert np.linalg.norm(matrix @ solution.ravel() - right_side.ravel()) <= 1e-10 * np.linalg.norm(right_side)


def test_an_error_tells_the_smallest_residual_of_all_that_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here few cycles of multigrid come closer than the diagonal does after them."""
    weights = conducting(np.random.default_rng(0), (40, 37), 1e-3)
    matrix = neighbours(Stencil((40, 37), cross(2), centred(("mirror", "mirror"))), weights)
    assert matrix is not None
    monkeypatch.setattr(sparse, "CYCLES", 8)
    solver = sparse.ConjugateGradients(matrix, 1e-12, (40, 37))
    solver._most = 2
    with pytest.raises(ConvergenceError) as error:
        solver.solve(np.random.default_rng(1).standard_normal((40, 37)), False)
    got = re.search(r"got (\S+) after", str(error.value))
    assert got is not None and float(got[1]) < 0.1
