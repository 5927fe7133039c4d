"""Gaussian knowledge of fields whose correlation is that of a diffusion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import number, one_of, shape_of
from diffsim.base.messages import shown
from diffsim.errors import ParameterError
from diffsim.linear.transforms import Transform
from diffsim.optimize.parametrise import spread
from diffsim.typing import Array

F64 = npt.NDArray[np.float64]

Side: TypeAlias = Literal["mirror", "periodic", "zero"]
SIDES: tuple[Side, ...] = ("mirror", "periodic", "zero")


class DiffusionPrior:
    """A field of a standard deviation and a correlation length: covariance Σ N (1 - ℓ²∇²)⁻ᵐ N Σ, with Σ = σ and N such that it is σ².

    The operator is that of m implicit steps of diffusion. Its root, (1 - ℓ²∇²)^(-m/2), and its inverse take fast transforms. N is exact in
    every cell, next to the sides too. The correlation is of the Matérn family, with ν = m - d/2 in d dimensions; for large m it becomes
    exp(-½ r²/length²). As the inverse exists, it can be a model error (`diffsim.assimilate.FourDVar`), which a `CorrelatedPrior` cannot.

    Args:
        shape: of the grid.
        deviation: σ > 0, unit of the field; a number or broadcast to `shape`.
        length: Daley's correlation length, (-d / ∇²c)^½ of the correlation c at distance 0, in cells; a number, or one for each axis. ℓ is
            length / (2m - d - 2)^½. 0: cells are independent.
        sides: outside the grid, for all axes or each: "mirror", "periodic", or "zero", where the field is 0 in the first cell outside.
        smoothness: m, above d/2 + 1.

    Raises:
        ShapeError: an argument does not fit the shape.
        ParameterError: an argument out of range.

    Reference: Weaver and Courtier (2001), Correlation modelling on the sphere using a generalized diffusion equation, Q. J. R. Meteorol.
        Soc. 127, 1815-1846, doi:10.1002/qj.49712757518; Mirouze and Weaver (2010), Representation of correlation functions in variational
        assimilation using an implicit diffusion operator, Q. J. R. Meteorol. Soc. 136, 1421-1443, doi:10.1002/qj.643.

    Example:
        import numpy as np

        import diffsim as ds

        prior = ds.optimize.DiffusionPrior((40, 50), deviation=2.0, length=3.0)
        rng = np.random.default_rng(0)
        samples = np.array([prior.root(rng.standard_normal(prior.inner)) for _ in range(200)])
        assert np.allclose(prior.variance(), 4.0) and abs(samples.std() - 2.0) < 0.2
        v = rng.standard_normal(prior.size)
        assert np.allclose(prior.precision(prior.root(prior.root_transpose(v))), v, atol=1e-6)
    """

    def __init__(
        self,
        shape: Sequence[int],
        deviation: npt.ArrayLike,
        length: npt.ArrayLike = 0.0,
        sides: Side | Sequence[Side] = "mirror",
        smoothness: float = 4,
    ) -> None:
        self.shape = shape_of("shape", shape)
        ndim = len(self.shape)
        lengths = spread("length", length, (ndim,))
        if not np.all(np.isfinite(lengths) & (lengths >= 0)):
            raise ParameterError(f"length: expected numbers of cells >= 0, got {shown(length)}; 0 makes cells independent")
        words = [sides] * ndim if isinstance(sides, str) else list(sides)
        if len(words) != ndim:
            raise ParameterError(f"sides = {shown(sides)}, expected one word, or {ndim}, one an axis; give those")
        along = [one_of("sides", word, SIDES) for word in words]
        m = number("smoothness", smoothness, f"a number above {ndim / 2 + 1:g}", lambda x: x > ndim / 2 + 1, "4 is good up to 5 axes")
        sigma = spread("deviation", deviation, self.shape)
        if not np.all(np.isfinite(sigma) & (sigma > 0)):
            raise ParameterError("deviation: expected finite numbers > 0, got another; leave values that are known out")
        fourier = tuple(axis for axis, word in enumerate(along) if word == "periodic")
        real = {axis: ("cosine", 2) if word == "mirror" else ("sine", 1) for axis, word in enumerate(along) if word != "periodic"}
        self._transform = Transform(self.shape, fourier, real)
        steepness = lengths**2 / (2 * m - ndim - 2)
        whole = np.ones(())
        for n, word, ell in zip(self.shape, along, steepness, strict=True):
            whole = np.add.outer(whole, ell * _numbers(n, word))
        spectrum = whole**-m
        self._lost, self._length = float(np.finfo(float).eps * (whole.max() / whole.min()) ** m), float(lengths.max())
        inside = spectrum
        for axis, (n, word) in enumerate(zip(self.shape, along, strict=True)):
            inside = np.moveaxis(np.tensordot(_shares(n, word), inside, (1, axis)), 0, axis)
        self._scale = sigma / np.sqrt(inside)
        if fourier:  # the transform keeps half of the waves along the last periodic axis
            spectrum = np.take(spectrum, range(self.shape[fourier[-1]] // 2 + 1), axis=fourier[-1])
        self._root, self._variance = np.sqrt(spectrum), (sigma**2).ravel()
        self.inner = self.size = int(np.prod(self.shape))

    def root(self, z: Array) -> F64:
        """L z."""
        return (self._scale * self._filtered(np.reshape(z, self.shape), self._root)).ravel()

    def root_transpose(self, v: Array) -> F64:
        """Lᵀ v."""
        return self._filtered(self._scale * np.reshape(v, self.shape), self._root).ravel()

    def precision(self, v: Array) -> F64:
        """The inverse of the covariance times v.

        Raises:
            ParameterError: correlations are so long that it has no digits.
        """
        if self._lost > 1e-4:
            raise ParameterError(
                f"the inverse of this covariance is known to {self._lost:.1e} in f64, expected 1e-4; take a shorter length than "
                f"{self._length:.3g} cells, or a smaller smoothness"
            )
        return (self._filtered(np.reshape(v, self.shape) / self._scale, self._root**-2.0) / self._scale).ravel()

    def variance(self) -> F64:
        """σ² of each variable."""
        return self._variance.copy()

    def _filtered(self, field: F64, factor: F64) -> F64:
        return self._transform.backward(factor * self._transform.forward(np.array(field, np.float64)))


def _numbers(n: int, word: Side) -> F64:
    """Numbers of the negative second difference, in the order of the transform."""
    k = np.arange(n)
    angle = {"mirror": np.pi * k / n, "periodic": 2 * np.pi * k / n, "zero": np.pi * (k + 1) / (n + 1)}[word]
    return 4 * np.sin(angle / 2) ** 2


def _shares(n: int, word: Side) -> F64:
    """Squares of the orthonormal modes of an axis, a row for each cell."""
    x, k = np.arange(n)[:, None], np.arange(n)
    if word == "periodic":
        return np.full((n, n), 1 / n)
    if word == "zero":
        return 2 / (n + 1) * np.sin(np.pi * (x + 1) * (k + 1) / (n + 1)) ** 2
    return np.where(k == 0, 1.0, 2.0) / n * np.cos(np.pi * (x + 0.5) * k / n) ** 2
