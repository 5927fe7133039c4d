"""Every method, for the matrix and its transpose, against dense matrices that are built cell by cell."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import diffsim as ds
from diffsim.boundary import Rules, bound, extend, linear, zero_rules
from diffsim.errors import ConvergenceError, ParameterError, ShapeError, SingularError
from diffsim.linear import METHODS, CoupledSystem, System, coupled, sparse, tridiagonal
from diffsim.linear.dominant import DominantFactors
from diffsim.linear.iterations import End, biconjugate_gradients
from diffsim.linear.multigrid import Multigrid
from diffsim.linear.sparse import Factored
from diffsim.linear.stencil import Stencil

ROUND_OFF = 1e-11
RULES = ("zero", "mirror", "periodic")
SHAPES = [(7,), (5, 6), (3, 4, 5)]
BOXES = [(shape, rules) for shape in SHAPES for rules in itertools.product(RULES, repeat=len(shape))]


def centred(rules: Any) -> Rules:
    """Rules of a field at cell centres, of spacing 1."""
    return bound(rules, (0,) * len(rules), (1.0,) * len(rules))


def system_of(offsets: Any, rules: Any, method: Any, tolerance: float | None) -> System:
    return System(offsets, centred(rules), method, tolerance)


def stencil_of(shape: tuple[int, ...], offsets: Any, rules: Any) -> Stencil:
    return Stencil(shape, offsets, centred(rules))


def cross(ndim: int, reach: int = 1) -> list[tuple[int, ...]]:
    """A cell and its neighbours along the axes."""
    steps = [s for s in range(-reach, reach + 1) if s]
    return [(0,) * ndim] + [tuple(s if a == axis else 0 for a in range(ndim)) for axis in range(ndim) for s in steps]


def dense(shape: tuple[int, ...], offsets: Any, rules: Any, weights: Any) -> np.ndarray:
    """The matrix, a column a cell: `extend` gives the values outside, and slices are the neighbours."""
    size = int(np.prod(shape))
    halo = tuple(max(abs(o[axis]) for o in offsets) for axis in range(len(shape)))
    matrix = np.zeros((size, size))
    for column in range(size):
        extended = np.zeros([n + 2 * h for n, h in zip(shape, halo, strict=True)])
        cells = extended[tuple(slice(h, h + n) for n, h in zip(shape, halo, strict=True))]
        cells[np.unravel_index(column, shape)] = 1
        extend(extended, halo, centred(rules))
        for offset, weight in zip(offsets, weights, strict=True):
            there = extended[tuple(slice(h + o, h + o + n) for n, h, o in zip(shape, halo, offset, strict=True))]
            matrix[:, column] += (weight * there).ravel()
    return matrix


def require_solved(system: System, weights: Any, shape: tuple[int, ...], rules: Any, most: float = ROUND_OFF) -> None:
    matrix = dense(shape, system.offsets, rules, weights)
    right_side = np.random.default_rng(3).standard_normal(shape)
    for transposed in (False, True):
        wanted = np.linalg.solve(matrix.T if transposed else matrix, right_side.ravel()).reshape(shape)
        solution = system.solve(weights, right_side, transposed)
        assert solution.shape == shape and np.abs(solution - wanted).max() <= most * np.abs(wanted).max(), transposed


@pytest.mark.parametrize(("shape", "rules"), BOXES, ids=str)
@pytest.mark.parametrize("method", ["auto", "lu", "bicgstab"])
def test_weights_of_no_symmetry(shape: tuple[int, ...], rules: Any, method: Any) -> None:
    rng = np.random.default_rng(1)
    offsets = cross(len(shape))
    weights = [rng.uniform(5, 6, shape) + 2 * len(shape), *(rng.uniform(-1, 1, shape) for _ in offsets[1:])]
    require_solved(system_of(offsets, rules, method, None), weights, shape, rules)


@pytest.mark.parametrize(("shape", "rules"), BOXES, ids=str)
def test_lines_along_each_axis(shape: tuple[int, ...], rules: Any) -> None:
    rng = np.random.default_rng(2)
    for axis in range(len(shape)):
        offsets = [tuple(s if a == axis else 0 for a in range(len(shape))) for s in (-1, 0, 1)]
        weights = [rng.uniform(-1, 1, shape), rng.uniform(2.5, 3, shape), rng.uniform(-1, 1, shape)]
        require_solved(system_of(offsets, rules, "tridiagonal", None), weights, shape, rules)
        pivoted = [weights[0], 0.1 * weights[1], weights[2]]  # the diagonal is the smallest
        require_solved(system_of(offsets, rules, "tridiagonal", None), pivoted, shape, rules, 1e-8)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("axis", [0, 1])
def test_many_lines_are_eliminated_side_by_side(rule: Any, axis: int) -> None:
    """Where the diagonal dominates; otherwise by LAPACK. Both give the solutions by dense matrices of the lines."""
    rng = np.random.default_rng(4)
    shape, rules = ((6, 200), (200, 6))[axis], (*("zero", "zero")[:axis], rule, *("zero", "zero")[axis + 1 :])
    offsets = [tuple(s if a == axis else 0 for a in range(2)) for s in (-1, 0, 1)]
    right_side = rng.standard_normal(shape)
    for least, kind in ((2.0, tridiagonal.SideBySide), (0.5, tridiagonal.InARow)):
        weights = [rng.uniform(-1, 1, shape), rng.uniform(least, 3, shape), rng.uniform(-1, 1, shape)]
        solver = system_of(offsets, rules, "tridiagonal", None)
        for transposed in (False, True):
            solution = solver.solve(weights, right_side, transposed)
            assert isinstance(solver._prepared, tridiagonal.Tridiagonal) and type(solver._prepared._factors) is kind
            for line in (0, 57, 199):
                mine = (slice(None), line) if axis == 0 else (line, slice(None))
                matrix = dense((6,), [(-1,), (0,), (1,)], (rule,), [w[mine] for w in weights])
                wanted = np.linalg.solve(matrix.T if transposed else matrix, right_side[mine])
                assert np.abs(solution[mine] - wanted).max() <= 1e-10 * np.abs(wanted).max()


def test_a_line_without_inverse_among_many_is_refused() -> None:
    weights = [np.ones((6, 200)), np.full((6, 200), -3.0), np.ones((6, 200))]
    solver = system_of([(-1, 0), (0, 0), (1, 0)], ("mirror", "zero"), "tridiagonal", None)
    solver.solve(weights, np.ones((6, 200)))
    weights[1][:, 77] = -2.0
    with pytest.raises(SingularError, match="along axis 0"):
        solver.solve(weights, np.ones((6, 200)))


@pytest.mark.parametrize(("shape", "rules"), BOXES, ids=str)
@pytest.mark.parametrize("method", ["direct", "cg", "auto"])
def test_constant_weights(shape: tuple[int, ...], rules: Any, method: Any) -> None:
    offsets = cross(len(shape))
    weights = [3.0 + 2 * len(shape), *(-1.0 - 0.1 * axis for axis in range(len(shape)) for _ in (0, 1))]
    require_solved(system_of(offsets, rules, method, None), weights, shape, rules)


def test_wide_stencils_and_uneven_weights_by_transforms() -> None:
    wide = cross(2, 2)
    weights = [9.0, *(1 / 12, -4 / 3, -4 / 3, 1 / 12) * 2]
    require_solved(system_of(wide, ("mirror", "periodic"), "direct", None), weights, (8, 9), ("mirror", "periodic"))
    upwind = [5.0, -2.0, 0.3, -1.0, -0.5]
    require_solved(system_of(cross(2), ("periodic", "periodic"), "direct", None), upwind, (8, 9), ("periodic", "periodic"))
    for offsets, weighted, rules in ((wide, weights, ("zero", "zero")), (cross(2), upwind, ("mirror", "mirror"))):
        with pytest.raises(ParameterError, match="that sine, cosine or Fourier transforms diagonalise"):
            system_of(offsets, rules, "direct", None).solve(weighted, np.ones((8, 9)))
        require_solved(system_of(offsets, rules, "auto", None), weighted, (8, 9), rules)


@pytest.mark.parametrize("rules", [("periodic", "mirror"), ("mirror", "mirror"), ("periodic", "periodic")])
@pytest.mark.parametrize("method", ["auto", "lu"])
def test_a_poisson_equation_without_a_mean(rules: Any, method: Any) -> None:
    shape, weights = (8, 9), [-4.0, 1.0, 1.0, 1.0, 1.0]
    right_side = np.random.default_rng(0).standard_normal(shape)
    right_side -= right_side.mean()
    system = system_of(cross(2), rules, method, None)
    solution = system.solve(weights, right_side)
    matrix = dense(shape, cross(2), rules, weights)
    assert abs(solution.mean()) < 1e-14
    assert np.abs(matrix @ solution.ravel() - right_side.ravel()).max() < 1e-12
    with pytest.raises(SingularError, match="subtract its mean"):
        system.solve(weights, right_side + 0.01)
    bar = right_side + 0.7  # cotangents may have a mean, which nothing comes of
    assert np.allclose(system.solve(weights, bar, transposed=True).ravel(), np.linalg.pinv(matrix).T @ bar.ravel(), atol=1e-12)


@pytest.mark.parametrize("rules", [("periodic", "mirror"), ("mirror", "zero"), ("periodic", "periodic")])
def test_transforms_are_in_the_type_of_the_right_side(rules: Any) -> None:
    shape, weights, system = (32, 30), [4.5, -1.0, -1.0, -1.0, -1.0], system_of(cross(2), rules, "direct", None)
    right_side = np.random.default_rng(0).standard_normal(shape)
    wanted = system.solve(weights, right_side)
    before = right_side.copy()
    single = system.solve(weights, right_side.astype(np.float32))
    assert single.dtype == np.float32 and np.abs(single - wanted).max() <= 2e-6 * np.abs(wanted).max()
    assert np.array_equal(system.solve(weights, right_side), wanted) and np.array_equal(right_side, before)


def conducting(rng: np.random.Generator, shape: tuple[int, ...], extra: float) -> list[np.ndarray]:
    """Weights of -∇·(k ∇) + extra on a grid with walls, with k that varies by two orders of magnitude."""
    k = np.exp(1.5 * rng.standard_normal(shape))
    beside = []
    for axis in range(len(shape)):
        through = 0.5 * (k + np.roll(k, -1, axis))
        through[tuple(slice(-1, None) if a == axis else slice(None) for a in range(len(shape)))] = 0
        beside += [-np.roll(through, 1, axis), -through]
    return [extra - sum(beside), *beside]


@pytest.mark.parametrize(("shape", "extra"), [((40, 37), 0.0), ((12, 9, 11), 0.0), ((40, 37), 1e-3), ((1300,), 1e-3)], ids=str)
def test_conjugate_gradients_by_multigrid(shape: tuple[int, ...], extra: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few cycles where the diagonal alone would take hundreds; also where the mean is open."""
    cycles: list[int] = []

    class Counted(Multigrid):
        def __call__(self, values: np.ndarray) -> np.ndarray:
            cycles.append(1)
            return super().__call__(values)

    monkeypatch.setattr(sparse, "Multigrid", Counted)
    rng = np.random.default_rng(0)
    weights, rules = conducting(rng, shape, extra), ("mirror",) * len(shape)
    right_side = rng.standard_normal(shape)
    right_side -= 0 if extra else right_side.mean()
    solver = system_of(cross(len(shape)), rules, "cg", 1e-10)
    solution = solver.solve(weights, right_side)
    assert 5 < len(cycles) < 40
    matrix = stencil_of(shape, cross(len(shape)), rules).matrix(weights)
    residual = matrix @ solution.ravel() - right_side.ravel()
    assert np.linalg.norm(residual) <= 1e-10 * np.linalg.norm(right_side)
    if not extra:
        assert abs(solution.mean()) < 1e-12 * np.abs(solution).max()
        moved = solver.solve(weights, right_side + 3.0, transposed=True)  # a cotangent may have a mean, which nothing comes of
        assert np.abs(moved - solution).max() <= 1e-8 * np.abs(solution).max()
        with pytest.raises(SingularError, match="subtract its mean"):
            solver.solve(weights, right_side + 0.1)
        assert isinstance(_prepared(cross(len(shape)), rules, weights, right_side), sparse.ConjugateGradients)


def test_incomplete_factors_take_over_where_the_diagonal_is_not_enough() -> None:
    rng, shape, rules = np.random.default_rng(0), (30, 31), ("mirror", "zero")
    weights = conducting(rng, shape, 0.01)
    weights[1] = weights[1] - 0.3  # carried along an axis: no symmetry
    matrix = stencil_of(shape, cross(2), rules).matrix(weights)
    solver, right_side = sparse.BiConjugateGradients(matrix, 1e-10), rng.standard_normal(shape)
    solver._most = 25
    for transposed in (False, True):
        solution = solver.solve(right_side, transposed)
        wanted = np.linalg.solve(matrix.toarray().T if transposed else matrix.toarray(), right_side.ravel())
        assert np.abs(solution.ravel() - wanted).max() <= 1e-7 * np.abs(wanted).max()
    solver._inverses = lambda transposed: iter([(solver._by_diagonal, 25)])  # type: ignore[method-assign]
    with pytest.raises(ConvergenceError, match="bicgstab expected a residual"):
        solver.solve(right_side, False)


def test_an_iteration_without_a_next_direction_ends() -> None:
    """Here a residual is at right angles to the first, and the next step would divide by their product."""
    matrix = csr_array(np.array([[-2.0, -1.0, 0.0], [0.0, 0.0, -2.0], [-2.0, -2.0, -2.0]]))
    solution = biconjugate_gradients(matrix, np.array([1.0, 0.0, 0.0]), lambda values: values, End(1e-12, 0.0, 9))
    assert np.isfinite(solution).all()


def _prepared(offsets: Any, rules: Any, weights: Any, right_side: np.ndarray) -> Any:
    """The choice of "auto"."""
    solver = system_of(offsets, rules, "auto", 1e-8)
    solver.solve(weights, right_side)
    return solver._prepared


@pytest.mark.parametrize("method", ["tridiagonal", "lu"])
@pytest.mark.parametrize("rule", ["mirror", "periodic"])
def test_a_matrix_without_inverse_is_refused(method: Any, rule: Any) -> None:
    with pytest.raises(SingularError, match="got one"):
        system_of(cross(1), (rule,), method, None).solve([-2.0, 1.0, 1.0], np.random.default_rng(0).standard_normal(30))


def test_elimination_where_the_diagonal_dominates() -> None:
    """Symmetric weights over six orders of magnitude, with and without a term at the cell itself; two parts that nothing joins."""
    shape, rng = (12, 9), np.random.default_rng(1)
    along = [10.0 ** rng.uniform(-6, 0, shape) for _ in shape]
    beside = [weight for axis, w in enumerate(along) for weight in (np.roll(w, 1, axis), w)]  # the neighbour below, and above
    for extra in (0.0, 1e-3):
        weights = [-sum(beside) - extra, *beside]
        right_side = rng.standard_normal(shape)
        right_side -= right_side.mean()
        system = system_of(cross(2), ("periodic", "periodic"), "lu", None)
        solution = system.solve(weights, right_side)
        matrix = dense(shape, cross(2), ("periodic", "periodic"), weights)
        assert isinstance(system._prepared, DominantFactors)
        assert np.abs(matrix @ solution.ravel() - right_side.ravel()).max() < 1e-9
        assert np.array_equal(system.solve(weights, right_side, transposed=True), solution)
    apart = [np.where(np.arange(12)[:, None] == row, 0.0, 1.0) * np.ones(shape) for row in (0, 11)]
    joined = [apart[0], apart[1], np.ones(shape), np.ones(shape)]
    joined[0], joined[1] = np.where(np.arange(12)[:, None] == 6, 0.0, apart[0]), np.where(np.arange(12)[:, None] == 5, 0.0, apart[1])
    with pytest.raises(SingularError, match="got one that has none"):
        system_of(cross(2), ("zero", "periodic"), "lu", None).solve([-sum(joined), *joined], right_side)


def test_systems_that_a_method_cannot_solve_are_refused() -> None:
    rng = np.random.default_rng(0)
    shape, offsets = (6, 7), cross(2)
    uneven = [rng.uniform(5, 6, shape) for _ in offsets]
    for method, message in (("tridiagonal", "two neighbours along one axis"), ("direct", "constant weights"), ("cg", "symmetric")):
        with pytest.raises(ParameterError, match=message):
            system_of(offsets, ("zero", "zero"), method, None).solve(uneven, np.ones(shape))
    with pytest.raises(ParameterError, match="finite weights"):
        system_of(offsets, ("zero", "zero"), "auto", None).solve([np.nan, *uneven[1:]], np.ones(shape))
    with pytest.raises(ShapeError, match="fewer than the reach"):
        system_of(cross(1, 3), ("mirror",), "lu", None).solve([9.0] + [0.1] * 6, np.ones(2))


def test_an_iteration_that_does_not_end_says_so() -> None:
    indefinite = [0.5, 1.0, 1.0, -1.0, -1.0]
    system = system_of(cross(2), ("zero", "zero"), "cg", 1e-14)
    with pytest.raises(ConvergenceError, match=r"cg expected a residual of at most 1.0e-14 of the right side, got .* choose method='lu'"):
        system.solve(indefinite, np.random.default_rng(0).standard_normal((40, 40)))


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("direct", "cg")])
def test_kept_factors_are_not_used_for_other_weights_or_shapes(method: Any) -> None:
    rng, system = np.random.default_rng(0), system_of(cross(1), ("mirror",), method, None)
    for n in (9, 9, 12):
        weights = [rng.uniform(4, 5, n), rng.uniform(-1, 1, n), rng.uniform(-1, 1, n)]
        require_solved(system, weights, (n,), ("mirror",))
        before = system._prepared
        weights[1][0] += 0.5  # in place: the kept copy is compared
        require_solved(system, weights, (n,), ("mirror",))
        assert system._prepared is not before
        after = system._prepared
        system.solve(weights, np.ones(n))
        assert system._prepared is after


WARM = (ds.Dirichlet(0.7), ds.Dirichlet(-0.4)), (ds.Robin(1.0, 0.5, 0.3), ds.Neumann(-0.2)), (ds.Extrapolate(2), ds.Dirichlet(1.1))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("method", ["auto", "lu", "bicgstab", "tridiagonal", "direct"])
def test_sides_with_given_values(shape: tuple[int, ...], method: Any) -> None:
    """The solution, with the values outside of it, gives the right side."""
    if (method == "tridiagonal") != (len(shape) == 1) and method != "auto":
        return
    rng, ndim = np.random.default_rng(6), len(shape)
    sides = centred((WARM[0],) * ndim if method == "direct" else WARM[:ndim])
    offsets = cross(ndim)
    weights = [5.0 + 2 * ndim] + [-0.7] * 2 * ndim if method == "direct" else [rng.uniform(5, 6, shape) + 2 * ndim]
    weights += [rng.uniform(-1, 1, shape) for _ in offsets[len(weights) :]]
    right_side = rng.standard_normal(shape)
    solver = System(offsets, sides, method, None)
    x = np.zeros([n + 2 for n in shape])
    inside = (slice(1, -1),) * ndim
    x[inside] = solver.solve(weights, right_side)
    extend(x, (1,) * ndim, sides)
    moved = [x[tuple(slice(1 + o, 1 + o + n) for n, o in zip(shape, offset, strict=True))] for offset in offsets]
    np.testing.assert_allclose(sum(w * m for w, m in zip(weights, moved, strict=True)), right_side, rtol=0, atol=1e-10)
    without = np.zeros_like(x)
    without[inside] = solver.solve(weights, right_side, given=False)
    extend(without, (1,) * ndim, linear(sides))
    moved = [without[tuple(slice(1 + o, 1 + o + n) for n, o in zip(shape, offset, strict=True))] for offset in offsets]
    np.testing.assert_allclose(sum(w * m for w, m in zip(weights, moved, strict=True)), right_side, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("scale", "cells"), [(1.0, 40), (1e-9, 40), (1e9, 40), (1.0, 3000)])
def test_a_compatible_right_side_does_not_hide_that_a_matrix_has_no_inverse(scale: float, cells: int) -> None:
    """A pure Neumann problem whose rows have several sizes: elimination gives any constant, though the solution does not grow."""
    rows = np.random.default_rng(0).uniform(1, 2, cells)
    right_side = rows * np.cos(2 * np.pi * (np.arange(cells) + 0.5) / cells)
    weights = [2 * scale * rows, -scale * rows, -scale * rows]
    with pytest.raises(SingularError, match="expected a matrix with an inverse"):
        system_of(cross(1, 1), ("mirror",), "lu", None).solve(weights, right_side - right_side.mean())
    regular = system_of(cross(1, 1), ("mirror",), "lu", None).solve([weights[0] * (1 + 1e-8), *weights[1:]], right_side - right_side.mean())
    assert np.isfinite(regular).all()


def test_equations_in_other_units_are_regular() -> None:
    """Rows with a factor of 1e15 between them."""
    rows = np.where(np.arange(30) < 15, 1e15, 1.0)
    right_side = np.random.default_rng(0).standard_normal(30)
    plain = system_of(cross(1, 1), ("zero",), "lu", None).solve([3.0, -1.0, -1.0], right_side)
    scaled = system_of(cross(1, 1), ("zero",), "lu", None).solve([3.0 * rows, -rows, -rows], rows * right_side)
    np.testing.assert_allclose(scaled, plain, rtol=1e-12)


@pytest.mark.parametrize(("drift", "damping"), [(1e-3, 1e-4), (1e-2, 1e-9), (0.1, 1e-9)])
def test_transforms_keep_the_odd_part_of_a_matrix_that_is_nearly_singular(drift: float, damping: float) -> None:
    """A mode that is nearly open does not make the drift of the others count as rounding."""
    n, h = 32, 1 / 32
    offsets, weights = [(0,), (1,), (-1,)], [damping + 2 / h**2, drift / (2 * h) - 1 / h**2, -drift / (2 * h) - 1 / h**2]
    right = np.sin(2 * np.pi * (np.arange(n) + 0.5) * h)
    solution = System(offsets, centred(("periodic",)), "direct", None).solve(weights, right)
    k = 2 * np.pi
    exact = np.imag(
        np.exp(1j * k * (np.arange(n) + 0.5) * h) / (damping + (2 * np.sin(k * h / 2) / h) ** 2 + 1j * drift * np.sin(k * h) / h)
    )
    np.testing.assert_allclose(solution - solution.mean(), exact, rtol=0, atol=1e-12)  # the mean is rounding over the damping


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_the_room_of_several_fields_is_that_of_the_method_taken(ndim: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Factors end at fewer unknowns in three dimensions."""
    monkeypatch.setattr(coupled, "SMALL", 60)
    monkeypatch.setattr(coupled, "FLAT", 150)
    here = (0,) * ndim
    entries = [(row, column, here) for row in range(count) for column in range(count)]
    factored = []
    for length in range(2, 140 // ndim**2):
        shape = (length, 3, 3)[:ndim]
        system = CoupledSystem(entries, [zero_rules(ndim)] * count, "abc"[:count], "auto", None)
        rng = np.random.default_rng(length)
        weights = [rng.uniform(2.0, 3.0, shape) if row == column else rng.uniform(0.1, 0.2, shape) for row, column, _ in entries]
        system.solve(weights, [np.ones(shape)] * count)
        assert system._prepared is not None
        factored.append(isinstance(system._prepared._solver, Factored))
        cells = int(np.prod(shape))
        assert system.room(cells) == (280 if factored[-1] else 160) * len(entries) * cells
    assert True in factored and False in factored
