"""Matrices with equal eigenvalues, and singular ones: derivatives that exist are right there, the others are refused in plain words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.errors import DerivativeError, SingularError

EXACT = 1e-11
"""Relative error of closed forms in f64, with factors of order 1."""


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def rotation(n: int) -> np.ndarray:
    return np.linalg.qr(normal(4, n, n))[0]


def turned(values: list[float]) -> np.ndarray:
    q = rotation(len(values))
    return q @ np.diag(values) @ q.T


def even(a: np.ndarray) -> np.ndarray:
    return (a + np.swapaxes(a, -1, -2)) / 2


# equal eigenvalues

EQUAL = {"unit": np.eye(3), "zero": np.zeros((3, 3)), "two of three": turned([2.0, 2.0, 5.0]), "pairs": turned([1.0, 1.0, 3.0, 3.0])}
SPECTRAL: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "trace": (lambda a: dn.sum(dn.linalg.eigh(a)[0]), lambda a: np.eye(len(a))),
    "trace by eigvalsh": (lambda a: dn.sum(dn.linalg.eigvalsh(a)), lambda a: np.eye(len(a))),
    "squares": (lambda a: dn.sum(dn.linalg.eigvalsh(a) ** 2), lambda a: 2 * a),
    "cubes": (lambda a: dn.sum(dn.linalg.eigh(a).eigenvalues ** 3), lambda a: 3 * a @ a),
}


@pytest.mark.parametrize("matrix", EQUAL)
@pytest.mark.parametrize("name", SPECTRAL)
def test_smooth_functions_of_equal_eigenvalues(name: str, matrix: str) -> None:
    (f, gradient), a = SPECTRAL[name], EQUAL[matrix]
    np.testing.assert_allclose(ds.grad(f)(a), gradient(a), rtol=EXACT, atol=EXACT)
    x = normal(1, *a.shape)
    assert ds.jvp(f, (a,), (x,))[1] == pytest.approx(np.sum(gradient(a) * x), rel=EXACT, abs=EXACT)


@pytest.mark.parametrize("matrix", EQUAL)
def test_the_second_derivative_of_a_trace_of_equal_eigenvalues(matrix: str) -> None:
    f, a, x = SPECTRAL["trace"][0], EQUAL[matrix], normal(2, *EQUAL[matrix].shape)
    np.testing.assert_allclose(ds.hvp(f, a, x), 0.0, atol=EXACT)
    np.testing.assert_allclose(ds.vjp(ds.grad(f), a)[1](x)[0], 0.0, atol=EXACT)
    np.testing.assert_array_equal(np.isfinite(ds.hessian(f)(a)), True)


@pytest.mark.parametrize("name", ["squares", "cubes"])
def test_second_derivatives_of_equal_eigenvalues_that_are_not_known_are_refused(name: str) -> None:
    """The derivatives for the eigenvalues say nothing of a direction that mixes their vectors; along their own they do."""
    f, a = SPECTRAL[name][0], np.eye(3)
    with pytest.raises(DerivativeError, match=r"eigenvalues 0 and 1 \(1 and 1\) are equal within rounding"):
        ds.hvp(f, a, even(normal(3, 3, 3)))
    with pytest.raises(DerivativeError, match="second derivative of a function of eigenvalues"):
        ds.vjp(ds.grad(f), a)[1](even(normal(3, 3, 3)))
    diagonal = np.diag([1.0, -2.0, 0.5])
    np.testing.assert_allclose(ds.hvp(f, a, diagonal), {"squares": 2.0, "cubes": 6.0}[name] * diagonal, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("name", ["squares", "cubes"])
def test_second_derivatives_of_unlike_eigenvalues(name: str) -> None:
    (f, _), a, x = SPECTRAL[name], even(normal(5, 4, 4)), normal(6, 4, 4)
    e = even(x)
    expected = 2 * e if name == "squares" else 3 * (a @ e + e @ a)
    np.testing.assert_allclose(ds.hvp(f, a, x), expected, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(ds.vjp(ds.grad(f), a)[1](x)[0], expected, rtol=EXACT, atol=EXACT)


def test_the_span_of_eigenvectors_of_equal_eigenvalues_has_a_derivative() -> None:
    """The projector on a pair of vectors, f = tr(m p): along x the sum of 2 x_ij m_ij / (w_i - w_j) over the pair and the rest."""
    a, m = EQUAL["two of three"], even(normal(7, 3, 3))
    w, v = np.linalg.eigh(a)
    inner = (v.T @ m @ v) * np.array([[0, 0, 1], [0, 0, 1], [1, 1, 0]]) / (w[0] - w[2])
    gradient = ds.grad(lambda a: dn.sum(m * (lambda p: p @ p.T)(dn.linalg.eigh(a)[1][:, :2])))(a)
    np.testing.assert_allclose(gradient, v @ inner @ v.T, rtol=1e-10, atol=1e-10)


def test_vectors_of_equal_eigenvalues_are_refused() -> None:
    a = EQUAL["two of three"]
    with pytest.raises(DerivativeError, match=r"eigenvalues 0 and 1 \(2 and 2\) are equal within rounding"):
        ds.grad(lambda a: dn.linalg.eigh(a)[1][0, 0])(a)
    with pytest.raises(DerivativeError, match="eigenvectors"):
        ds.hessian(lambda a: dn.sum(dn.linalg.eigh(a)[1][:, :2] ** 2))(a)
    dot = ds.jvp(lambda a: dn.linalg.eigh(a)[1], (a,), (normal(8, 3, 3),))[1]
    assert np.isnan(dot[:, :2]).all() and np.isfinite(dot[:, 2]).all()


def test_of_many_matrices_only_those_that_are_asked_for_count() -> None:
    a = np.stack([np.eye(3), turned([1.0, 2.0, 4.0])])
    gradient = ds.grad(lambda a: dn.linalg.eigh(a)[1][1, 0, 2] ** 2)(a)
    alone = ds.grad(lambda a: dn.linalg.eigh(a)[1][0, 2] ** 2)(a[1])
    np.testing.assert_allclose(gradient, [np.zeros((3, 3)), alone], rtol=EXACT, atol=EXACT)


# singular matrices


def of_rank(n: int, rank: int, seed: int = 9) -> np.ndarray:
    return normal(seed, n, rank) @ normal(seed + 1, rank, n)


def by_expansion(a: Any) -> Any:
    """The determinant as a polynomial of its entries."""
    if len(a) == 1:
        return a[0, 0]
    rest = [[k for k in range(len(a)) if k != j] for j in range(len(a))]
    return sum((-1.0) ** j * a[0, j] * by_expansion(a[1:][:, rest[j]]) for j in range(len(a)))


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4, 5])
def test_second_derivatives_of_determinants_of_any_rank(rank: int) -> None:
    a, x = of_rank(5, rank), normal(11, 5, 5)
    expected = ds.hvp(by_expansion, a, x)
    np.testing.assert_allclose(ds.grad(dn.linalg.det)(a), ds.grad(by_expansion)(a), rtol=EXACT, atol=1e-9)
    np.testing.assert_allclose(ds.hvp(dn.linalg.det, a, x), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ds.vjp(ds.grad(dn.linalg.det), a)[1](x)[0], expected, rtol=1e-9, atol=1e-9)


def test_determinants_of_many_and_of_complex_matrices() -> None:
    a = np.stack([of_rank(4, 2), of_rank(4, 4)])
    x = normal(12, 2, 4, 4)
    f = lambda a: dn.sum(dn.linalg.det(a) * np.array([1.0, 2.0]))  # noqa: E731
    g = lambda a: by_expansion(a[0]) + 2.0 * by_expansion(a[1])  # noqa: E731
    np.testing.assert_allclose(ds.hvp(f, a, x), ds.hvp(g, a, x), rtol=1e-9, atol=1e-9)
    b, y = a + 1j * x, normal(13, 2, 4, 4)
    f2, g2 = (lambda t, h=h: dn.real(h(b + t * y)) for h in (f, g))
    assert ds.grad(ds.grad(f2))(0.0) == pytest.approx(ds.grad(ds.grad(g2))(0.0), rel=1e-9)


def test_third_derivatives_of_a_determinant() -> None:
    a, (x, y, z) = of_rank(4, 4), normal(14, 3, 4, 4)
    along = lambda f: ds.grad(lambda r: ds.grad(lambda s: ds.grad(lambda t: f(a + r * x + s * y + t * z))(0.0))(0.0))(0.0)  # noqa: E731
    assert along(dn.linalg.det) == pytest.approx(along(by_expansion), rel=1e-9)
    a = of_rank(4, 1)
    a[:, 0] = 0.0
    with pytest.raises(SingularError, match="third derivative of det at a singular matrix"):
        along(dn.linalg.det)


SINGULAR = np.ones((4, 4))
REFUSED: dict[str, Callable[[Any], Any]] = {
    "inv": lambda a: dn.sum(dn.linalg.inv(a)),
    "solve": lambda a: dn.sum(dn.linalg.solve(a, np.ones(4))),
    "slogdet": lambda a: dn.linalg.slogdet(a)[1],
    "lstsq": lambda a: dn.sum(dn.linalg.lstsq(a, np.ones(4))[0]),
    "pinv": lambda a: dn.sum(dn.linalg.pinv(a)),
    "cholesky": lambda a: dn.sum(dn.linalg.cholesky(a)),
    "matrix_power": lambda a: dn.sum(dn.linalg.matrix_power(a, -1)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_functions_of_singular_matrices_that_have_no_derivative_say_so(name: str) -> None:
    word = {"matrix_power": "inv"}.get(name, name)
    with pytest.raises(SingularError, match=rf"{word} .*(add|take)"):
        ds.grad(REFUSED[name])(SINGULAR)
    with pytest.raises(SingularError, match=word):
        ds.jvp(REFUSED[name], (SINGULAR,), (normal(15, 4, 4),))
    assert issubclass(SingularError, np.linalg.LinAlgError)


def test_the_pseudo_inverse_of_a_matrix_whose_rank_rounding_hides_is_refused() -> None:
    with pytest.raises(SingularError, match=r"pinv of a matrix of rank 2 within rounding and shape \(4, 4\)"):
        ds.grad(lambda a: dn.sum(dn.linalg.pinv(a)))(of_rank(4, 2))


def test_logarithms_of_singular_determinants_behind_a_mask() -> None:
    a = np.stack([SINGULAR, turned([1.0, 2.0, 3.0, 4.0])])
    with np.errstate(divide="ignore"):
        gradient = ds.grad(lambda a: dn.sum(dn.where(np.array([False, True]), dn.linalg.slogdet(a)[1], 0.0)))(a)
    np.testing.assert_allclose(gradient, [np.zeros((4, 4)), np.linalg.inv(a[1]).T], rtol=EXACT, atol=EXACT)
