"""The knowledge of the unknowns after the records: the Gaussian approximation at the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import whole
from diffsim.errors import ParameterError, ShapeError
from diffsim.optimize.priors import Prior
from diffsim.typing import Array

F64 = npt.NDArray[np.float64]

OVERSAMPLING = 10
"""Random vectors more than the rank, which make the last eigenpairs exact enough."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """A Gaussian distribution with the covariance L (I - V D Vᵀ) Lᵀ, where D = λ/(1 + λ) and L Lᵀ is the prior's.

    Attributes:
        eigenvalues: λ, falling: how much more the records tell along a direction than the prior did. Below 1 they tell less.
        directions: the directions L vₖ, shape (n, rank).
        deviation: standard deviation of each variable.
        prior_deviation: that of the prior.

    Example:
        See `posterior`.
    """

    eigenvalues: F64
    directions: F64
    deviation: F64
    prior_deviation: F64
    _prior: Prior
    _vectors: F64

    def covariance(self, v: Array) -> F64:
        """The covariance times a vector; `v @ posterior.covariance(v)` is the variance of the combination v · x."""
        z = self._prior.root_transpose(v)
        kept = self.eigenvalues / (1 + self.eigenvalues)
        return self._prior.root(z - self._vectors @ (kept * (self._vectors.T @ z)))

    def sample(self, rng: np.random.Generator) -> F64:
        """A random departure from the answer, with the covariance of the posterior."""
        z = rng.standard_normal(self._prior.inner)
        kept = 1 - 1 / np.sqrt(1 + self.eigenvalues)
        return self._prior.root(z - self._vectors @ (kept * (self._vectors.T @ z)))


def posterior(hessian: Any, prior: Prior, rank: int = 50, seed: int = 0, callback: Callable[[int, int], object] | None = None) -> Posterior:
    """The uncertainty of unknowns, from the largest eigenpairs of the Hessian of the misfit relative to the prior.

    The posterior precision is H + (L Lᵀ)⁻¹. Records usually tell about few directions, so few eigenvalues of Lᵀ H L are not far below 1.
    These are found by a randomised range finder and a projection, which take 2 (rank + 10) products with H. The standard deviations that
    result are too large by the reductions of the other eigenpairs: choose the rank such that the last eigenvalue is well below 1.

    Args:
        hessian: H, an object with products `H @ v`, symmetric and positive semidefinite: the Gauss-Newton Hessian of the misfit at the
            answer, weighted by 1/σ² of the noise, without the penalties.
        prior: of the variables; `CorrelatedPrior` or `PrecisionPrior`.
        rank: number of eigenpairs, at most.
        seed: of the random vectors.
        callback: called with the products done and their number.

    Returns:
        The Gaussian approximation.

    Raises:
        ShapeError: a product has not the size of the prior.
        ParameterError: a rank below 1, or a product that is not finite.

    Reference: Halko, Martinsson and Tropp (2011), "Finding structure with randomness", SIAM Review 53, 217, doi:10.1137/090771806,
    algorithms 4.1 and 5.3. Bui-Thanh, Ghattas, Martin and Stadler (2013), "A computational framework for infinite-dimensional Bayesian
    inverse problems, part I", SIAM J. Sci. Comput. 35, A2494, doi:10.1137/12089586X.

    Example:
        import numpy as np

        import diffsim as ds

        # How well do two thermometers, read with errors of 0.01 K, tell the temperature that a rod began with?
        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((40,), spacing=0.05), dt=0.1), receivers={"T": [[0.5], [1.5]]}, precision="f64")
        kappa = np.full(40, 5e-3)
        jacobian = ds.linear_operator(lambda T: rod.run({"kappa": kappa, "T": T}, steps=60).traces["T"], np.zeros(40))
        prior: ds.optimize.Prior = ds.optimize.CorrelatedPrior((40,), deviation=1.0, length=4.0)
        found = ds.optimize.posterior(jacobian.H @ jacobian * (1 / 0.01**2), prior, rank=20)
        assert isinstance(found, ds.optimize.Posterior)
        assert found.deviation[10] < 0.1 < found.deviation[20] < 1.0  # at a thermometer, and between the two
    """
    rank = whole("rank", rank, 1)
    many = min(rank + OVERSAMPLING, prior.inner)
    whole_space = many == prior.inner
    done, total = 0, many if whole_space else 2 * many

    def product(z: F64) -> F64:
        nonlocal done
        bent = np.asarray(hessian @ prior.root(z), np.float64)
        if bent.shape != (prior.size,):
            raise ShapeError(f"hessian: expected products of shape ({prior.size},), as the prior has, got {bent.shape}; give one that fits")
        if not np.all(np.isfinite(bent)):
            raise ParameterError("hessian: expected finite products, got another; check the simulation at the answer")
        done += 1
        if callback is not None:
            callback(done, total)
        return prior.root_transpose(bent)

    def products(columns: F64) -> F64:
        return np.column_stack([product(column) for column in columns.T])

    if whole_space:
        basis = np.eye(prior.inner)
    else:
        basis = np.linalg.qr(products(np.random.default_rng(seed).standard_normal((prior.inner, many))))[0]
    projected = basis.T @ products(basis)
    values, rotation = np.linalg.eigh(0.5 * (projected + projected.T))
    kept = np.argsort(values)[::-1][:rank]
    eigenvalues, vectors = np.maximum(values[kept], 0.0), basis @ rotation[:, kept]
    directions = np.column_stack([prior.root(vector) for vector in vectors.T])
    before = prior.variance()
    after = before - directions**2 @ (eigenvalues / (1 + eigenvalues))
    return Posterior(eigenvalues, directions, np.sqrt(np.maximum(after, 0.0)), np.sqrt(before), prior, vectors)
