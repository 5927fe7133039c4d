"""Lyapunov exponents by tangents that are made orthogonal again and again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim.base.arguments import whole
from diffsim.chaos.laps import Laps
from diffsim.simulation import Simulation
from diffsim.typing import Array


@dataclass(frozen=True, repr=False)
class Spectrum:
    """Lyapunov exponents with their errors.

    Attributes:
        values: the exponents, largest first but for their errors, 1/s.
        errors: their standard errors, from parts of the run.
    """

    values: Array
    errors: Array

    @property
    def unstable(self) -> int:
        """How many exponents are above 0 by more than three standard errors."""
        return int((self.values > 3 * self.errors).sum())

    @property
    def dimension(self) -> float:
        """The dimension of Kaplan and Yorke: k + Σᵢ λᵢ / |λₖ₊₁| over i <= k, with the largest k whose sum is not negative. An exponent
        that is 0 within three standard errors counts as 0, if its error is at most a twentieth of the largest exponent's size: so a limit
        cycle has 1. NaN if more exponents are needed."""
        sure = self.errors <= 0.05 * np.abs(self.values).max()
        values = np.sort(np.where(sure & (np.abs(self.values) <= 3 * self.errors), 0.0, self.values))[::-1]
        sums = np.cumsum(values)
        below = np.flatnonzero(sums < 0)
        if not below.size:
            return float("nan")
        k = int(below[0])
        return k + (float(sums[k - 1]) / abs(float(values[k])) if k else 0.0)

    def __repr__(self) -> str:
        pairs = ", ".join(f"{value:.4g} ± {error:.2g}" for value, error in zip(self.values, self.errors, strict=True))
        return f"{pairs} ({self.unstable} above 0, dimension {self.dimension:.3g})"


@dataclass(frozen=True, repr=False)
class Exponents(Spectrum):
    """Lyapunov exponents, with directions of growth at the end of the run.

    Attributes:
        values: the exponents, largest first but for their errors, 1/s.
        errors: their standard errors, from parts of the run.
        state: the states after the run, by name.
        vectors: directions that grow by the exponents, orthogonal, by state, shape (exponents, *shape of the state).
    """

    state: dict[str, Array]
    vectors: dict[str, Array]


def lyapunov(
    simulation: Simulation, inputs: Mapping[str, Any], steps: int, laps: int, count: int | None = None, settle: int | None = None
) -> Exponents:
    """Lyapunov exponents of a system: the mean rates at which small perturbations grow.

    Tangents are advanced with the state, all in one run where `Batch` can, and made orthogonal after each lap (QR). The logarithms of their
    growth, divided by time, are the exponents.

    Args:
        simulation: the system; f64 is best.
        inputs: initial states, and parameters.
        steps: steps of a lap. After a lap the tangent that decays fastest must be more than rounding of the one that grows fastest.
        laps: laps that count.
        count: number of exponents; None: all.
        settle: laps before them, in which the state reaches the attractor and the tangents their directions; None: a tenth of `laps`.

    Returns:
        The exponents with their standard errors.

    Raises:
        ParameterError: a number out of range, or a state without an initial value.
        DivergenceError: the state is no longer finite, or a lap is too long for its tangents.

    Reference: Benettin, Galgani, Giorgilli and Strelcyn (1980), Meccanica 15, 9-20, doi:10.1007/BF02128236; Kaplan and Yorke (1979), in
        Functional Differential Equations and Approximation of Fixed Points, 204-227, doi:10.1007/BFb0064319.

    Example:
        import numpy as np

        import diffsim as ds

        system = ds.Simulation(ds.solvers.Lorenz63(dt=0.01), precision="f64")
        start = {"x": 1.0, "y": 2.0, "z": 20.0, "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
        result = ds.chaos.lyapunov(system, start, steps=20, laps=500)
        assert abs(result.values[0] - 0.906) < 0.1 and result.unstable == 1
        assert np.isclose(result.values.sum(), -(10.0 + 1.0 + 8 / 3), atol=1e-4)  # the divergence of the flow
    """
    run, laps = Laps(simulation, inputs, steps, count), whole("laps", laps, 2, remedy="give the laps")
    settle = laps // 10 if settle is None else whole("settle", settle, 0, remedy="give the laps before those that count")
    for _ in range(settle):
        run.go(counts=False)
    rates = np.stack([np.log(np.abs(np.diag(run.go()))) for _ in range(laps)]) / run.time
    ends = run.vectors.apart(np.ascontiguousarray(run.basis.T))
    return Exponents(rates.mean(axis=0), standard_error(rates), run.vectors.apart(run.state), ends)


def standard_error(values: Array) -> Array:
    """The standard error of the mean along the first axis, of values that are correlated: from the means of some long parts."""
    parts = max(2, min(len(values), round(len(values) ** 0.5)))
    length = len(values) // parts
    means = values[: parts * length].reshape(parts, length, *values.shape[1:]).mean(axis=1)
    return np.asarray(means.std(axis=0, ddof=1) / parts**0.5)
