"""Matrices that are singular, or have equal eigenvalues, but for rounding: refused by name, whatever the library and its kernels round to.

Bounds are tested on both sides. A matrix well below a bound is refused. One that is accepted gives a derivative with an error of the
order of rounding times its condition, and well above the bound it is accepted. `.ci/nightly` runs this with several kernels of OpenBLAS.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.ad.ops import rounding
from diffsim.errors import DerivativeError, SingularError

TYPES = [np.dtype(t) for t in ("f4", "f8")]
BACKWARD = 16
"""Rounding of a matrix and of its eigenvalues, times the square root of its size, in units: twice the largest that was measured."""
SEEDS = range(12)


def rotations(seed: int, *shape: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal(shape))[0]


def close_pair(seed: int, n: int, units: float, dtype: Any, count: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Matrices whose two smallest eigenvalues differ by units of rounding of the largest one, their vectors, and their eigenvalues."""
    q = rotations(seed, count, n, n)
    w = np.concatenate([[1.0, 1.0 + 3.0 * units * rounding.unit(dtype)], np.linspace(2.0, 3.0, n - 2)])
    return ((q * w) @ np.swapaxes(q, -1, -2)).astype(dtype), q, w


def exact(q: np.ndarray, w: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The gradient of the sum of c v² over the entries of the first vector v: 2 c v goes through the gaps to the other vectors."""
    n = len(w)
    gaps = np.zeros(n)
    gaps[1:] = 1 / (w[0] - w[1:])
    bar = 2 * c * q[..., :, 0]
    along = np.einsum("bij,bi->bj", q, bar) * gaps
    product = np.einsum("bij,bj,bk->bik", q, along, q[..., :, 0])
    return (product + np.swapaxes(product, -1, -2)) / 2


def of_first_vector(a: Any, c: np.ndarray) -> Any:
    return dn.sum(c.astype(a.dtype) * dn.linalg.eigh(a)[1][..., 0] ** 2)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("n", [3, 5, 8, 24])
def test_vectors_of_close_eigenvalues_are_right_or_refused(n: int, dtype: np.dtype[Any]) -> None:
    met = {"refused": 0, "right": 0}
    for seed in SEEDS:
        c = np.random.default_rng(100 + seed).standard_normal(n)
        for units in (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 3000):
            a, q, w = close_pair(seed, n, units, dtype)
            try:
                gradient = ds.grad(of_first_vector)(a, c)
            except DerivativeError:
                with pytest.raises(DerivativeError, match=r"eigenvalues 0 and 1 .* are equal within rounding"):
                    ds.grad(of_first_vector)(a, c)
                assert units <= (rounding.EQUAL + BACKWARD) * np.sqrt(n)
                met["refused"] += 1
            else:
                assert units >= (rounding.EQUAL - BACKWARD) * np.sqrt(n)
                wanted = exact(q, w, c)
                assert np.abs(gradient - wanted).max() <= BACKWARD * np.sqrt(n) / units * np.abs(wanted).max()
                met["right"] += 1
    assert min(met.values()) > 12


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_forward_mode_gives_nan_for_vectors_of_eigenvalues_that_are_equal_but_for_rounding(dtype: np.dtype[Any]) -> None:
    for seed in SEEDS:
        a, _, _ = close_pair(seed, 4, seed, dtype)
        dot = ds.jvp(lambda a: dn.linalg.eigh(a)[1], (a,), (rotations(200 + seed, 2, 4, 4).astype(dtype),))[1]
        assert np.isnan(dot[..., :2]).all() and np.isfinite(dot[..., 2:]).all()


@pytest.mark.parametrize("matrix", ["unit", "diagonal", "turned"])
def test_no_entry_of_an_undetermined_vector_has_a_derivative_by_chance(matrix: str) -> None:
    """For a unit matrix a library gives unit vectors, at which the derivative of an entry along a turn is 0."""
    n = 4
    a = {"unit": np.eye(n), "diagonal": np.diag([2.0, 2.0, 2.0, 5.0]), "turned": close_pair(1, n, 0, float)[0][0]}[matrix]
    equal = 2 if matrix == "turned" else n if matrix == "unit" else 3
    for i in range(3 if matrix == "diagonal" else n):  # entry 3 is 0 in all vectors of the three
        for j in range(equal):
            with pytest.raises(DerivativeError, match="equal within rounding"):
                ds.grad(lambda a, i=i, j=j: dn.linalg.eigh(a)[1][i, j])(a)
            with pytest.raises(DerivativeError, match="equal within rounding"):
                ds.grad(lambda a, i=i, j=j: dn.linalg.eigh(a)[1][i, j] ** 2)(a)


def test_vectors_that_are_not_differentiated_are_numpys() -> None:
    def f(x: Any) -> Any:
        w, v = dn.linalg.eigh(np.eye(3))
        assert np.array_equal(v, np.eye(3)) and np.array_equal(w, np.ones(3))
        return dn.sum(v @ x)

    assert ds.grad(f)(np.ones(3)).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_values_and_spans_of_equal_eigenvalues_have_derivatives(dtype: np.dtype[Any]) -> None:
    """Among them those of a complex Hermitian matrix, as a real one of twice the size, in which each eigenvalue is there twice."""
    tolerance = 2000 * rounding.unit(dtype)
    for seed in SEEDS:
        rng = np.random.default_rng(300 + seed)
        z = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))
        h = z + np.conj(z.T)
        a = np.block([[h.real, -h.imag], [h.imag, h.real]]).astype(dtype)
        gradient = ds.grad(lambda a: dn.sum(dn.linalg.eigvalsh(a) ** 2))(a)
        assert np.abs(gradient - 2 * a).max() < tolerance * np.abs(a).max()
        m = rng.standard_normal((6, 6)).astype(dtype)
        m += m.T

        def of_span(a: Any, m: np.ndarray = m) -> Any:
            v = dn.linalg.eigh(a)[1][:, :2]
            return dn.sum(m * (v @ v.T))

        w, v = np.linalg.eigh(a.astype(float))
        inner = v.T @ m @ v
        first = np.arange(6) < 2
        gaps = np.where(first[:, None] & ~first, 1 / (np.where(first[:, None] & ~first, w[:, None] - w, 1.0)), 0.0)
        wanted = v @ (inner * (gaps + gaps.T)) @ v.T
        assert np.abs(ds.grad(of_span)(a) - wanted).max() < 50 * tolerance * np.abs(wanted).max()
        with pytest.raises(DerivativeError, match="equal within rounding"):
            ds.grad(lambda a: dn.linalg.eigh(a)[1][0, 0])(a)
        with pytest.raises(DerivativeError, match="complex matrices has no derivative"):
            ds.grad(lambda t, h=h: dn.sum(dn.linalg.eigh(t * h)[0]))(1.0)


# singular matrices


def of_rank(seed: int, rows: int, columns: int, rank: int, dtype: Any, scale: bool = False) -> np.ndarray:
    """A matrix of lower rank as arithmetic in its type makes it; with rows and columns of very different size if `scale`."""
    rng = np.random.default_rng(seed)
    parts = [rng.standard_normal(shape) for shape in ((rows, rank), (rank, columns))]
    if np.dtype(dtype).kind == "c":
        parts = [p + 1j * rng.standard_normal(p.shape) for p in parts]
    a = parts[0].astype(dtype) @ parts[1].astype(dtype)
    return (a * 10.0 ** rng.integers(-6, 7, (rows, 1)) * 10.0 ** rng.integers(-6, 7, columns)).astype(dtype) if scale else a


def real_sum(x: Any) -> Any:
    return dn.sum(dn.real(x) + dn.imag(x))


SQUARE: dict[str, Callable[[Any], Any]] = {
    "inv": lambda a: real_sum(dn.linalg.inv(a)),
    "solve": lambda a: real_sum(dn.linalg.solve(a, np.arange(1.0, a.shape[-1] + 1)[:, None].astype(a.dtype))),
    "solve for a vector": lambda a: real_sum(dn.linalg.solve(a, np.ones(a.shape[-1], a.dtype))),
}
REAL: dict[str, Callable[[Any], Any]] = {
    "slogdet": lambda a: dn.sum(dn.linalg.slogdet(a)[1]),
    "pinv": lambda a: dn.sum(dn.linalg.pinv(a)),
    "lstsq": lambda a: dn.sum(dn.linalg.lstsq(a, np.ones(a.shape[0], a.dtype))[0]),
    "cholesky": lambda a: dn.sum(dn.linalg.cholesky(a @ a.T)),
}
CASES = [(name, f, t) for name, f in SQUARE.items() for t in ("f4", "f8", "c16")] + [
    (name, f, t) for name, f in REAL.items() for t in ("f4", "f8")
]


@pytest.mark.parametrize(("name", "f", "dtype"), CASES, ids=[f"{name}-{t}" for name, _, t in CASES])
def test_matrices_of_lower_rank_are_refused(name: str, f: Callable[[Any], Any], dtype: str) -> None:
    for seed in SEEDS:
        n = int(np.random.default_rng(seed).integers(2, 12))
        scale = seed % 2 == 1 and name in SQUARE
        a = of_rank(seed, n, n, max(1, n - 1 - seed % 3), dtype, scale)
        with pytest.raises(SingularError, match=name.split()[0]):
            ds.grad(f)(a)
        with pytest.raises(SingularError, match=name.split()[0]):
            ds.jvp(f, (a,), (of_rank(seed + 50, n, n, n, dtype),))


def with_condition(seed: int, n: int, units: float, dtype: Any) -> np.ndarray:
    """A matrix whose smallest singular value is so many units of rounding of the largest."""
    s = np.concatenate([np.linspace(2.0, 1.0, n - 1), [2.0 * units * rounding.unit(dtype)]])
    return ((rotations(seed, n, n) * s) @ rotations(seed + 1, n, n)).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ["inv", "solve", "slogdet", "pinv", "lstsq"])
def test_almost_singular_matrices_are_right_or_refused(name: str, dtype: np.dtype[Any]) -> None:
    f, met = (SQUARE | REAL)[name], {"refused": 0, "right": 0}
    for seed in SEEDS:
        for units in (1, 3, 10, 100, 1000, 10_000, 100_000):
            n = int(np.random.default_rng(seed).integers(3, 9))
            a = with_condition(seed, n, units, dtype)
            try:
                gradient = ds.grad(f)(a)
            except SingularError:
                assert units < 1000
                met["refused"] += 1
            else:
                assert units > 5
                wanted = ds.grad(f)(a.astype(float)) if dtype == "f4" else by_fractions(name, a)
                assert np.abs(gradient - wanted).max() <= 50 * n / units * np.abs(wanted).max()
                met["right"] += 1
    assert min(met.values()) > 12


def by_fractions(name: str, a: np.ndarray) -> np.ndarray:
    """The gradient by an exact inverse."""
    n = len(a)
    rows = [[Fraction(float(x)) for x in row] + [Fraction(int(i == j)) for j in range(n)] for i, row in enumerate(a)]
    for k in range(n):
        pivot = max(range(k, n), key=lambda r: abs(rows[r][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for r in range(n):
            if r != k:
                rows[r] = [x - rows[r][k] * y for x, y in zip(rows[r], rows[k], strict=True)]
    inverse = np.array([[float(x) for x in row[n:]] for row in rows])
    ones = np.ones((n, n))
    if name == "slogdet":
        return inverse.T
    if name in ("inv", "pinv"):
        return -inverse.T @ ones @ inverse.T
    b = np.arange(1.0, n + 1) if name == "solve" else np.ones(n)
    return -np.outer(inverse.T @ np.ones(n), inverse @ b)


@pytest.mark.parametrize("name", ["inv", "solve", "slogdet"])
def test_units_do_not_make_a_matrix_singular(name: str) -> None:
    """Equations in pascals and in metres: rows and columns of very different size, in f32 as well."""
    for dtype in TYPES:
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            a, r, c = rng.standard_normal((5, 5)) + 4 * np.eye(5), 10.0 ** rng.integers(-7, 8, (5, 1)), 10.0 ** rng.integers(-7, 8, 5)
            scaled = (a * r * c).astype(dtype)
            assert np.isfinite(ds.grad((SQUARE | REAL)[name])(scaled)).all()


def test_of_many_matrices_only_those_that_are_asked_for_must_be_regular() -> None:
    a = np.stack([of_rank(3, 4, 4, 3, float), np.eye(4) * 2])
    for f in (lambda a: dn.sum(dn.linalg.inv(a)[1]), lambda a: dn.sum(dn.linalg.solve(a, np.ones((4, 1)))[1])):
        gradient = ds.grad(f)(a)
        assert not gradient[0].any() and np.abs(gradient[1]).max() > 0
    with pytest.raises(SingularError, match=r"a derivative of inv of a matrix that is singular within rounding \(shape \(2, 4, 4\)"):
        ds.grad(lambda a: dn.sum(dn.linalg.inv(a)))(a)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 4, 3)])
def test_the_pseudo_inverse_of_a_matrix_of_full_rank(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(5)
    *lead, m, n = shape
    k = min(m, n)
    u, v = rotations(7, *lead, m, k), rotations(8, *lead, n, k)
    a = ((u * np.linspace(1, 0.3, k)) @ np.swapaxes(v, -1, -2)).astype(dtype)
    a = a * np.exp(1j * rng.standard_normal((m, 1))) if dtype == "c16" else a
    weights, x = rng.standard_normal((2, *np.swapaxes(a, -1, -2).shape))

    def f(t: Any) -> Any:
        p = dn.linalg.pinv(a * (1.0 + 0.1 * t[0]) + np.swapaxes(x, -1, -2) * (0.02 + 0.03j if dtype == "c16" else 0.03) * t[1])
        return dn.sum(dn.real(p) * weights) + dn.sum(dn.imag(p) * x)

    assert np.array_equal(np.asarray(ds.vjp(dn.linalg.pinv, a)[0]), np.linalg.pinv(a))
    ds.check_grads(f, (np.array([0.3, -0.2]),), order=2)


def test_a_pseudo_inverse_of_condition_1e9_has_digits() -> None:
    """The normal equations have none."""
    u, v = rotations(7, 6, 3), rotations(8, 3, 3)
    s = np.array([1.0, 0.5, 1e-9])
    a, x = (u * s) @ v.T, 1e-9 * np.random.default_rng(9).standard_normal((6, 3))
    tangent = ds.jvp(dn.linalg.pinv, (a,), (x,))[1]
    p = (v / s) @ u.T
    wanted = -p @ x @ p + p @ p.T @ x.T @ (np.eye(6) - u @ u.T)
    assert np.abs(tangent - wanted).max() < 1e-5 * np.abs(wanted).max()
