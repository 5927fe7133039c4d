"""The quadratic Wasserstein distance of traces, which sees how far an arrival has to move."""

from __future__ import annotations

from typing import Any

import numpy
import numpy.typing as npt

import diffsim.numpy as np
from diffsim.ad.arrays.guard import constant
from diffsim.base.arguments import positive
from diffsim.losses.data_misfit import TraceMisfit
from diffsim.numpy.calling.dispatch import plain
from diffsim.typing import Array, Positive


class WassersteinMisfit(TraceMisfit, kind="wasserstein"):
    """The squared quadratic Wasserstein distance W₂² of each trace in time, J(d) = Σ_r w̄_r W₂²(f_r, g_r), s².

        W₂²(f, g) = ∫₀¹ (F⁻¹(s) - G⁻¹(s))² ds

    F and G are the distributions of the densities f and g over time. A trace becomes a density by f = log(1 + exp(b d)) / Σ, with
    b = `sharpness` over the largest magnitude of the observed trace, and g likewise. A density is constant within a sample, so the quantile
    functions F⁻¹ and G⁻¹ are piecewise linear, and the integral is exact. If a trace is shifted, J grows with the square of the shift as
    far as the trace stands out of the density of silence: it has one minimum where least squares has one at each period. A prediction of
    zero has a constant density.

    Args:
        data: Observed traces, time first: (samples, receivers) at equal distances in time. May be NaN where `mask` is False.
        sharpness: > 0, a number without unit. The larger it is, the less the negative half of a trace counts. Good: 5 to 30.
        dt: Time between samples, s.
        weight: >= 0, unit 1/s² for a dimensionless J; broadcasts to `data`. A trace counts with the mean w̄_r of its weights.
        mask: True where a sample counts; broadcasts to `data`. Whole traces, or samples before the first and after the last that counts,
            may be left out: they have no mass.
        normalise: Divide by the misfit of a zero prediction.
        unit: The unit of the prediction, to which data that state a unit are converted; "": it is not known.

    Raises:
        ShapeError: `weight` or `mask` does not broadcast to `data`.
        ParameterError: Gaps within a trace, NaN or infinite data where `mask` is True, a negative weight, a trace that counts and is zero
            at all samples, a sharpness or a dt that is not positive.

    Good values: a sharpness of 5 to 30; records that begin and end in silence. Search with it first, and then with least squares.

    Reference: Engquist and Froese (2014), "Application of the Wasserstein metric to seismic signals", Commun. Math. Sci. 12, 979,
    doi:10.4310/CMS.2014.v12.n5.a7. Engquist and Yang (2022), "Optimal transport based seismic inversion: beyond cycle skipping",
    Comm. Pure Appl. Math. 75, 2201, doi:10.1002/cpa.21990, for the density.

    Example:
        import numpy as np

        import diffsim as ds

        t = np.linspace(0.0, 1.0, 200)
        wavelet = lambda delay: (1 - 2 * (50 * (t - delay)) ** 2) * np.exp(-((50 * (t - delay)) ** 2))
        misfit = ds.losses.WassersteinMisfit(wavelet(0.4), dt=t[1])
        losses = [misfit(wavelet(delay)) for delay in np.linspace(0.4, 0.7, 20)]
        assert (np.diff(losses) > 0).all()
        values = [ds.losses.L2Misfit(wavelet(0.4))(wavelet(delay)) for delay in np.linspace(0.4, 0.7, 20)]
        assert (np.diff(values) < 0).any()
    """

    regular = True

    def __init__(
        self,
        data: npt.ArrayLike,
        sharpness: Positive = 5.0,
        dt: Positive = 1.0,
        weight: npt.ArrayLike = 1.0,
        mask: npt.ArrayLike | None = None,
        normalise: bool = False,
        unit: str = "",
    ) -> None:
        super().__init__(data, weight, mask, unit)
        self._dt = positive("dt", dt, "give the time between samples", "s")
        self._sharpness = constant(positive("sharpness", sharpness, "5 is a good start") / self.peaks())
        self._mass = None if self._used is None else constant(self.used().astype(float))
        self._observed = constant(numpy.moveaxis(plain(self._density(self.data)), 0, -1))
        self.normalise(normalise)

    def compare(self, values: Any) -> Any:
        """J. Its gradient with respect to a density is Kantorovich's potential of the transport."""
        return self._dt**2 * np.sum(self.trace_weight * _squared_distance(np.moveaxis(self._density(values), 0, -1), self._observed))

    def _density(self, traces: Any) -> Any:
        """The share of each sample in the mass of its trace."""
        mass = np.logaddexp(0.0, self._sharpness * traces)
        if self._mass is None:
            return mass / np.sum(mass, axis=0)
        mass = self._mass * mass
        return mass / np.where(self._mass.any(axis=0), np.sum(mass, axis=0), 1.0)


def _squared_distance(f: Any, g: Array) -> Any:
    """W₂² of densities along the last axis, in samples².

    Both quantile functions are linear between neighbouring levels of the two distributions. In an interval of length h their difference
    goes from u to u + h r, and its part of the integral is h (u² + u h r + (h r)² / 3).
    """
    rising, rising_g = np.cumsum(f, axis=-1), numpy.cumsum(g, axis=-1)
    levels = np.concatenate([rising, rising_g], axis=-1)
    order = numpy.argsort(plain(levels), axis=-1, kind="stable")
    upper = np.take_along_axis(levels, order, axis=-1)
    lower = np.concatenate([numpy.zeros((*upper.shape[:-1], 1)), upper[..., :-1]], axis=-1)
    first = order < f.shape[-1]
    passed = numpy.cumsum(first, axis=-1) - first  # levels of F below the interval: the cell of f that it lies in
    start, rate = _quantiles(f, rising, passed)
    start_g, rate_g = _quantiles(g, rising_g, numpy.arange(levels.shape[-1]) - passed)
    h = upper - lower
    u = start + rate * lower - (start_g + rate_g * lower)
    change = h * (rate - rate_g)
    return np.sum(h * (u**2 + u * change + change**2 / 3.0), axis=-1)


def _quantiles(f: Any, rising: Any, cells: npt.NDArray[numpy.intp]) -> tuple[Any, Any]:
    """The quantile function of f in intervals, each of which lies in one cell of f: its value there at level 0, and its slope."""
    there = plain(f) > 0  # a cell without mass has intervals of length 0 alone
    rate = np.where(there, 1.0 / np.where(there, f, 1.0), 0.0)
    start = numpy.arange(f.shape[-1]) - rate * (rising - f)
    cells = numpy.minimum(cells, f.shape[-1] - 1)  # beyond the last level there are intervals of round-off alone
    return np.take_along_axis(start, cells, axis=-1), np.take_along_axis(rate, cells, axis=-1)
