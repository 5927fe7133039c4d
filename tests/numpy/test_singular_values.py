"""Singular values and vectors, and factors Q R: signs, equal values, values of 0, and columns that depend on one another.

`.ci/nightly` runs this with several kernels of OpenBLAS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.ad.ops import rounding
from diffsim.errors import DerivativeError, SingularError

from .test_rounding import BACKWARD, SEEDS, TYPES, of_rank, rotations

EXACT = 1e-11
"""Relative error of closed forms in f64, with factors of order 1."""
UNITS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 3000)
SHAPES = [(4, 4), (6, 3), (3, 6), (2, 5, 3)]


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def matrix_of(seed: int, shape: tuple[int, int], s: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A matrix of these singular values, with its left and right vectors as columns."""
    u, v = (rotations(seed + k, n, len(s)) for k, n in enumerate(shape))
    return (u * s) @ v.T, u, v


# signs


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_function_that_does_not_change_with_signs_has_the_derivative_of_one_without_vectors(shape: tuple[int, ...]) -> None:
    """Derivatives of a polar factor by an inverse root, and of projectors by eigenvectors of a aᵀ."""
    a, x, k = normal(1, *shape), normal(2, *shape), min(shape[-2:])
    weights = normal(3, *shape)
    left = normal(4, shape[-2], shape[-2])

    def by_svd(a: Any) -> Any:
        u, _, vh = dn.linalg.svd(a, full_matrices=False)
        first = u[..., :, :1]
        return dn.sum(weights * (u @ vh)) + dn.sum(left * (first @ dn.matrix_transpose(first)))

    def by_eigh(a: Any) -> Any:
        w, v = dn.linalg.eigh(a @ dn.matrix_transpose(a))
        w, v = w[..., -k:], v[..., -k:]
        polar = (v / dn.sqrt(w)[..., None, :]) @ (dn.matrix_transpose(v) @ a)
        return dn.sum(weights * polar) + dn.sum(left * (v[..., -1:] @ dn.matrix_transpose(v[..., -1:])))

    np.testing.assert_allclose(ds.grad(by_svd)(a), ds.grad(by_eigh)(a), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ds.jvp(by_svd, (a,), (x,))[1], ds.jvp(by_eigh, (a,), (x,))[1], rtol=1e-8)
    ds.check_grads(by_svd, (a,), order=2)


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (2, 5, 3)], ids=str)
def test_r_with_positive_diagonal_is_the_cholesky_factor_of_the_normal_equations(shape: tuple[int, ...]) -> None:
    a, x = normal(5, *shape), normal(6, *shape)
    weights, q_weights = normal(7, shape[-1], shape[-1]), normal(8, *shape)

    def by_qr(a: Any) -> Any:
        q, r = dn.linalg.qr(a)
        sign = dn.sign(dn.linalg.diagonal(r))
        return dn.sum(weights * (sign[..., :, None] * r)) + dn.sum(q_weights * (q * sign[..., None, :]))

    def by_cholesky(a: Any) -> Any:
        r = dn.linalg.cholesky(dn.matrix_transpose(a) @ a, upper=True)
        return dn.sum(weights * r) + dn.sum(q_weights * (a @ dn.linalg.inv(r)))

    np.testing.assert_allclose(ds.grad(by_qr)(a), ds.grad(by_cholesky)(a), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ds.hvp(by_qr, a, x), ds.hvp(by_cholesky, a, x), rtol=1e-6, atol=1e-6)


def test_hessians_of_squares_are_those_of_the_matrix() -> None:
    a = normal(9, 3, 2)
    for f in (lambda a: dn.sum(dn.linalg.svdvals(a) ** 2), lambda a: dn.sum(dn.linalg.qr(a, "r") ** 2)):
        np.testing.assert_allclose(ds.hessian(f)(a).reshape(6, 6), 2 * np.eye(6), atol=1e-10)
        np.testing.assert_allclose(ds.jacrev(ds.grad(f))(a).reshape(6, 6), 2 * np.eye(6), atol=1e-10)


# singular values alone

VALUES: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "squares": (lambda s: dn.sum(s**2), lambda a: 2 * a),
    "fourth powers": (lambda s: dn.sum(s**4), lambda a: 4 * a @ a.T @ a),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("s", [(1, 1, 1), (0, 0, 0), (2, 1, 1), (2, 1, 0), (1, 0, 0), (2, 2, 0)], ids=str)
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 4)], ids=str)
def test_functions_of_equal_and_zero_singular_values(shape: tuple[int, int], s: tuple[float, ...], name: str) -> None:
    (f, gradient), (a, _, _) = VALUES[name], matrix_of(10, shape, np.array(s, float))
    x = normal(11, *shape)
    for of in (lambda a: f(dn.linalg.svd(a, compute_uv=False)), lambda a: f(dn.linalg.svd(a, full_matrices=False)[1])):
        np.testing.assert_allclose(ds.grad(of)(a), gradient(a), rtol=EXACT, atol=EXACT)
        assert ds.jvp(of, (a,), (x,))[1] == pytest.approx(np.sum(gradient(a) * x), rel=EXACT, abs=EXACT)
        if len(set(s)) < 3 or 0 in s:
            with pytest.raises(DerivativeError, match=r"second derivative of a function of singular values .* within rounding"):
                ds.hvp(of, a, x)
            with pytest.raises(DerivativeError, match="second derivative of a function of singular values"):
                ds.vjp(ds.grad(of), a)[1](x)


@pytest.mark.parametrize("shape", [(4, 4), (6, 4)], ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_nuclear_norm_at_a_matrix_of_lower_rank_has_a_subgradient_that_no_rounding_chooses(dtype: Any, shape: tuple[int, int]) -> None:
    for seed in SEEDS:
        a = of_rank(seed, *shape, 2, dtype)
        u, _, vh = np.linalg.svd(a.astype(float), full_matrices=False)
        gradient = ds.grad(lambda a: dn.linalg.norm(a, "nuc"))(a)
        assert gradient.dtype == dtype
        np.testing.assert_allclose(gradient, u[:, :2] @ vh[:2], atol=1000 * rounding.unit(dtype))
        assert not ds.grad(lambda a: dn.linalg.norm(a, -2))(a).any()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_function_that_is_steep_at_0_is_refused_at_matrices_of_lower_rank(dtype: Any) -> None:
    for seed in SEEDS:
        a = of_rank(seed, 4, 4, 3, dtype)
        for f in (dn.sqrt, dn.log):
            steep = pytest.raises(DerivativeError, match=r"a function of singular values, .* is infinite within rounding")
            with steep, np.errstate(divide="ignore"):
                ds.grad(lambda a, f=f: dn.sum(f(dn.linalg.svdvals(a))))(a)


# vectors


def first_derivative(u: np.ndarray, v: np.ndarray, s: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The gradient of the sum of c u² over the entries of the last left vector u."""
    bar = 2 * c * u[:, -1]
    along = u[:, :-1].T @ bar / (s[-1] ** 2 - s[:-1] ** 2)
    inside = (u[:, :-1] * along) @ np.outer(np.ones(len(s) - 1), s[-1] * v[:, -1]) + np.outer(u[:, -1], v[:, :-1] @ (s[:-1] * along))
    return inside + np.outer(bar - u @ (u.T @ bar), v[:, -1]) / s[-1]


def of_last_vector(a: Any, c: np.ndarray) -> Any:
    return dn.sum(c.astype(a.dtype) * dn.linalg.svd(a, full_matrices=False)[0][:, -1] ** 2)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("n", [3, 5, 8, 24])
@pytest.mark.parametrize("further", [0, 2])
@pytest.mark.parametrize("kind", ["equal", "zero"])
def test_vectors_of_close_or_small_singular_values_are_right_or_refused(kind: str, further: int, n: int, dtype: Any) -> None:
    met = {"refused": 0, "right": 0}
    shape, unit = (n + further, n), rounding.unit(dtype)
    bound = rounding.EQUAL * np.sqrt(n + further) if kind == "equal" else rounding.ROOM + n + further
    slack = BACKWARD * np.sqrt(n + further)
    for seed in SEEDS:
        c = normal(100 + seed, n + further)
        for units in UNITS:
            small = [1 + 3 * units * unit, 1.0] if kind == "equal" else [1.0, 3 * units * unit]
            s = np.concatenate([np.linspace(3.0, 2.0, n - 2), small])
            a, u, v = matrix_of(seed, shape, s)
            a = a.astype(dtype)
            try:
                gradient = ds.grad(of_last_vector)(a, c)
            except DerivativeError:
                with pytest.raises(DerivativeError, match=r"equal within rounding" if kind == "equal" else "0 within rounding"):
                    ds.grad(of_last_vector)(a, c)
                assert units <= bound + slack
                met["refused"] += 1
            else:
                assert units >= bound - slack
                wanted = first_derivative(u, v, s, c)
                steepest = np.linalg.norm(c * u[:, -1]) / (s[-2] - s[-1])  # in a direction that happens to matter little, it is less
                assert np.abs(gradient - wanted).max() <= 4 * slack / units * max(np.abs(wanted).max(), 0.3 * steepest)
                met["right"] += 1
    assert min(met.values()) > 12


def test_vectors_without_a_derivative_are_refused_by_name_and_nan_in_forward_mode() -> None:
    equal, _, _ = matrix_of(12, (5, 3), np.array([2.0, 1.0, 1.0]))
    low, _, _ = matrix_of(13, (5, 3), np.array([2.0, 1.0, 0.0]))
    x = normal(14, 5, 3)
    for a, lost, text in ((equal, [1, 2], "singular values 1 and 2 .* equal within rounding"), (low, [2], "vectors of index 2")):
        for k in range(3):
            for f in (lambda a, k=k: dn.linalg.svd(a, False)[0][0, k], lambda a, k=k: dn.linalg.svd(a, False)[2][k, 0]):
                dot = ds.jvp(f, (a,), (x,))[1]
                if k in lost:
                    with pytest.raises(DerivativeError, match=text):
                        ds.grad(f)(a)
                    assert np.isnan(dot)
                else:
                    assert np.sum(ds.grad(f)(a) * x) == pytest.approx(dot, rel=1e-10)
    for a in (np.eye(3), np.diag([2.0, 2.0, 5.0])):  # unit vectors, whose entries are largest or smallest
        with pytest.raises(DerivativeError, match="equal within rounding"):
            ds.grad(lambda a: dn.linalg.svd(a)[0][2, 2] ** 2 + dn.linalg.svd(a)[0][0, 1])(a)


def test_the_span_of_vectors_of_equal_singular_values_has_a_derivative() -> None:
    a, _, _ = matrix_of(15, (5, 4), np.array([3.0, 3.0, 1.0, 1.0]))
    m, polar = normal(16, 5, 5), normal(17, 5, 4)

    def f(a: Any) -> Any:
        u, _, vh = dn.linalg.svd(a, full_matrices=False)
        return dn.sum(m * (u[:, :2] @ u[:, :2].T)) + dn.sum(polar * (u @ vh))

    change = lambda h: np.asarray(f(a + h * x))  # noqa: E731
    x, h = normal(18, 5, 4), 1e-5
    assert np.sum(ds.grad(f)(a) * x) == pytest.approx((change(h) - change(-h)) / (2 * h), rel=1e-7)


def test_of_many_matrices_only_those_that_are_asked_for_count() -> None:
    good = normal(19, 4, 3)
    a = np.stack([np.eye(4, 3), np.zeros((4, 3)), good])
    for f in (lambda a: dn.sum(dn.linalg.svd(a, False)[0][-1] ** 3), lambda a: dn.sum(dn.linalg.qr(a)[0][-1] ** 3)):
        gradient = ds.grad(f)(a)
        assert not gradient[:2].any()
        np.testing.assert_allclose(gradient[2], ds.grad(lambda a, f=f: f(a[None]))(good), rtol=EXACT)


# Q R


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("n", [3, 5, 8, 24])
def test_factors_of_columns_that_nearly_depend_on_one_another_are_right_or_refused(n: int, dtype: Any) -> None:
    """The gradient of q_n, which is the normal on the other columns, is -q_n bar^T R^-T and more."""
    met = {"refused": 0, "right": 0}
    for seed in SEEDS:
        c = normal(200 + seed, n)
        for units in UNITS:
            q = rotations(seed, n + 1, n)
            r = np.triu(0.3 * normal(seed, n, n) / np.sqrt(n), 1) + np.diag([*np.ones(n - 1), 0.0])
            r[:, -1] /= np.linalg.norm(r[:, -1])
            r[-1, -1] = units * rounding.unit(dtype)
            a = (q @ r).astype(dtype)
            f = lambda a: dn.sum(c.astype(a.dtype) * dn.linalg.qr(a)[0][:-1, -1] ** 2)  # noqa: B023, E731
            try:
                gradient = ds.grad(f)(a)
            except SingularError:
                with pytest.raises(SingularError, match=r"a derivative of qr of a matrix whose first .* columns have rank"):
                    ds.jvp(f, (a,), (a,))
                assert units < 1000
                met["refused"] += 1
            else:
                assert units > 5
                bar = np.append(2 * c * q[:-1, -1], 0.0)
                bar -= q @ (q.T @ bar)
                outside = np.outer(bar, np.linalg.inv(r)[:, -1])  # the part that is divided by the last pivot
                assert np.abs(gradient - outside).max() <= (200 * n / units) * np.abs(outside).max() + 50 * np.abs(c).max()
                met["right"] += 1
    assert min(met.values()) > 12


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_factors_of_matrices_of_lower_rank_are_refused(dtype: Any) -> None:
    for seed in SEEDS:
        n = 2 + seed % 8
        for rows in (n, n + 3):
            a = of_rank(seed, rows, n, max(1, n - 1 - seed % 3), dtype)
            for f in (lambda a: dn.sum(dn.linalg.qr(a)[0]), lambda a: dn.sum(dn.linalg.qr(a, "r"))):
                with pytest.raises(SingularError, match="qr"):
                    ds.grad(f)(a)
                with pytest.raises(SingularError, match="qr"):
                    ds.jvp(f, (a,), (normal(seed, rows, n).astype(dtype),))
        wide = np.concatenate([of_rank(seed, n, n, n - 1, dtype), normal(seed, n, 2).astype(dtype)], axis=1)
        with pytest.raises(SingularError, match=f"first {n} columns"):
            ds.grad(lambda a: dn.sum(dn.linalg.qr(a)[1]))(wide)


def test_units_of_columns_do_not_make_them_dependent() -> None:
    for dtype in TYPES:
        a = ((normal(20, 6, 4) + 3 * np.eye(6, 4)) * 10.0 ** np.array([-7, 7, 0, -3])).astype(dtype)
        assert np.isfinite(ds.grad(lambda a: dn.sum(dn.linalg.qr(a)[0] ** 3))(a)).all()
