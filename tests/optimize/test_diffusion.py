"""The prior of a diffusion: its covariance from the matrix of second differences, its inverse, its deviation and correlation length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diffsim.errors import ParameterError, ShapeError
from diffsim.optimize import DiffusionPrior, PrecisionPrior


def second(n: int, side: str) -> np.ndarray:
    """The negative second difference of a line, written out."""
    matrix = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    if side == "periodic":
        matrix[0, -1] = matrix[-1, 0] = -1.0
    if side == "mirror":
        matrix[0, 0] = matrix[-1, -1] = 1.0
    return matrix


@pytest.mark.parametrize("sides", [("mirror", "zero"), ("periodic", "mirror"), ("zero", "periodic"), ("periodic", "periodic")])
def test_its_covariance_is_that_of_the_implicit_steps(sides: Any) -> None:
    shape, sigma, m = (5, 6), np.random.default_rng(0).uniform(0.5, 2.0, (5, 6)), 3
    prior = DiffusionPrior(shape, sigma, (1.5, 0.7), sides, smoothness=m)
    steep = np.array([1.5, 0.7]) ** 2 / (2 * m - 4)
    step = np.eye(30) + steep[0] * np.kron(second(5, sides[0]), np.eye(6)) + steep[1] * np.kron(np.eye(5), second(6, sides[1]))
    plain = np.linalg.inv(np.linalg.matrix_power(step, m))
    scale = sigma.ravel() / np.sqrt(np.diagonal(plain))
    wanted = scale[:, None] * plain * scale
    root = np.column_stack([prior.root(v) for v in np.eye(30)])
    assert np.abs(root @ root.T - wanted).max() < 1e-13
    assert np.abs(np.column_stack([prior.root_transpose(v) for v in np.eye(30)]) - root.T).max() < 1e-14
    assert np.abs(np.column_stack([prior.precision(v) for v in np.eye(30)]) @ wanted - np.eye(30)).max() < 1e-11
    assert np.allclose(prior.variance(), sigma.ravel() ** 2, rtol=1e-15)


def test_its_correlation_has_the_length_and_becomes_that_of_a_gaussian() -> None:
    prior, middle = DiffusionPrior((400,), 1.0, 10.0, smoothness=40), np.eye(400)[200]
    correlation = prior.root(prior.root_transpose(middle))
    assert abs((1 / (2 - 2 * correlation[201])) ** 0.5 - 10.0) < 0.05
    assert abs(correlation[210] - np.exp(-0.5)) < 5e-3
    assert np.allclose(DiffusionPrior((4,), 2.0).root(np.arange(4.0)), 2 * np.arange(4.0), atol=1e-15)  # no length: cells on their own


def test_a_precision_prior_has_its_precision() -> None:
    matrix = np.array([[2.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 2.0]])
    assert np.array_equal(PrecisionPrior(matrix).precision([1.0, 2.0, 4.0]), matrix @ [1.0, 2.0, 4.0])


def test_what_does_not_fit_is_refused() -> None:
    for wrong in ({"deviation": 0.0}, {"length": -1.0}, {"sides": "open"}, {"sides": ("mirror",) * 3}, {"smoothness": 2}):
        with pytest.raises(ParameterError):
            DiffusionPrior(**{"shape": (4, 5), "deviation": 1.0} | wrong)
    with pytest.raises(ShapeError):
        DiffusionPrior((4, 5), np.ones(3))


def test_the_inverse_of_long_correlations_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"is known to .* in f64, expected 1e-4"):
        DiffusionPrior((20,), 1.0, 1000.0).precision(np.ones(20))
