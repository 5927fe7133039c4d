"""Uncertainty against dense matrices: inverses by NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from diffsim.errors import DiffsimError, ParameterError, ShapeError
from diffsim.optimize import CorrelatedPrior, PrecisionPrior, StackedPriors, posterior
from diffsim.optimize.priors import Prior
from diffsim.typing import Array

MASK = np.random.default_rng(7).random((9, 8)) < 0.7


def laplacian(n: int) -> sparse.sparray:
    """A penalty on slopes and values of a line."""
    slopes = sparse.diags_array([-np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))
    return sparse.csc_array(slopes.T @ slopes * 3.0 + 0.2 * sparse.eye_array(n))


PRIORS: dict[str, Prior] = {
    "correlated": CorrelatedPrior((9, 8), np.linspace(1.0, 2.0, 8), (2.0, 1.0), MASK),
    "independent": CorrelatedPrior((50,), 0.3),
    "precision": PrecisionPrior(laplacian(45)),
    "stacked": StackedPriors([CorrelatedPrior((20,), 2.0, 3.0), PrecisionPrior(laplacian(15)), CorrelatedPrior((2,), 1.0)]),
}


def dense(prior: Prior) -> Array:
    root = np.column_stack([prior.root(z) for z in np.eye(prior.inner)])
    return root @ root.T


def hessian(size: int, decay: float = 0.5) -> Array:
    """Symmetric, with eigenvalues that fall by `decay` each."""
    rotation = np.linalg.qr(np.random.default_rng(2).standard_normal((size, size)))[0]
    return rotation @ np.diag(1e3 * decay ** np.arange(size)) @ rotation.T


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_roots_and_variances_of_priors(prior: Prior) -> None:
    rng = np.random.default_rng(0)
    z, v = rng.standard_normal(prior.inner), rng.standard_normal(prior.size)
    assert prior.root(z) @ v == pytest.approx(z @ prior.root_transpose(v), rel=1e-12)
    np.testing.assert_allclose(np.diag(dense(prior)), prior.variance(), rtol=1e-10)


def test_a_precision_is_the_inverse_of_the_covariance() -> None:
    np.testing.assert_allclose(dense(PRIORS["precision"]) @ laplacian(45).toarray(), np.eye(45), atol=1e-12)


def test_a_correlation_falls_as_a_gaussian_of_its_length() -> None:
    covariance = dense(CorrelatedPrior((60,), 2.0, 4.0))
    np.testing.assert_allclose(covariance[30], 4.0 * np.exp(-0.5 * ((np.arange(60) - 30) / 4.0) ** 2), atol=5e-3)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_at_full_rank_it_is_the_inverse_of_the_dense_hessian(prior: Prior) -> None:
    """(H + C⁻¹)⁻¹ = C - C (C + H⁻¹)⁻¹ C, where C may be singular in round-off."""
    h, covariance = hessian(prior.size, 0.7), dense(prior)
    estimate = posterior(h, prior, rank=prior.inner)
    expected = covariance - covariance @ h @ np.linalg.solve(np.eye(prior.size) + covariance @ h, covariance)
    np.testing.assert_allclose(estimate.deviation, np.sqrt(np.diag(expected)), rtol=1e-8)
    v = np.random.default_rng(1).standard_normal(prior.size)
    np.testing.assert_allclose(estimate.covariance(v), expected @ v, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_allclose(estimate.prior_deviation, np.sqrt(np.diag(covariance)), rtol=1e-10)


@pytest.mark.parametrize("rank", [3, 6, 12])
def test_truncated_it_lacks_the_reductions_by_the_other_eigenpairs(rank: int) -> None:
    prior = PRIORS["precision"]
    covariance = dense(prior)
    h = hessian(prior.size)
    estimate, exact = posterior(h, prior, rank), posterior(h, prior, prior.inner)
    roots = np.linalg.eigh(covariance)
    half = roots[1] * np.sqrt(roots[0])
    values, vectors = np.linalg.eigh(half.T @ h @ half)
    np.testing.assert_allclose(estimate.eigenvalues, values[::-1][:rank], rtol=1e-5)
    rest = values[::-1][rank:]
    lacking = (half @ vectors[:, ::-1][:, rank:]) ** 2 @ (rest / (1 + rest))
    np.testing.assert_allclose(estimate.deviation**2 - exact.deviation**2, lacking, atol=1e-4 * np.max(exact.deviation**2))
    assert np.all(estimate.deviation >= exact.deviation * (1 - 1e-6))


def test_samples_have_its_covariance() -> None:
    prior = CorrelatedPrior((6,), 1.0, 1.0)
    estimate = posterior(hessian(6, 0.3), prior, 6)
    rng = np.random.default_rng(5)
    samples = np.array([estimate.sample(rng) for _ in range(20000)])
    expected = np.column_stack([estimate.covariance(e) for e in np.eye(6)])
    np.testing.assert_allclose(np.cov(samples.T), expected, atol=0.03 * expected.max())


def test_products_are_counted() -> None:
    seen: list[tuple[int, int]] = []
    posterior(hessian(45), PRIORS["precision"], 5, callback=lambda done, total: seen.append((done, total)))
    assert seen == [(k + 1, 30) for k in range(30)]


WRONG = {
    "slopes alone": (lambda: PrecisionPrior(laplacian(9) - 0.2 * sparse.eye_array(9)), "leaves a combination of the variables free"),
    "indefinite": (lambda: PrecisionPrior(np.diag([1.0, -1.0])), "positive definite"),
    "zero": (lambda: PrecisionPrior(np.diag([1.0, 0.0])), "positive definite"),
    "not square": (lambda: PrecisionPrior(np.ones((2, 3))), "square"),
    "deviation": (lambda: CorrelatedPrior((3,), 0.0), "deviation"),
    "length": (lambda: CorrelatedPrior((3,), 1.0, -1.0), "length"),
    "rank": (lambda: posterior(np.eye(3), CorrelatedPrior((3,), 1.0), 0), "rank"),
    "size": (lambda: posterior(np.ones((2, 3)), CorrelatedPrior((3,), 1.0)), r"expected products of shape \(3,\)"),
    "NaN": (lambda: posterior(np.full((3, 3), np.nan), CorrelatedPrior((3,), 1.0)), "finite products"),
}


@pytest.mark.parametrize(("call", "match"), WRONG.values(), ids=WRONG)
def test_refused(call: object, match: str) -> None:
    with pytest.raises((ParameterError, ShapeError, DiffsimError), match=match):
        call()  # type: ignore[operator]
