"""Drawn linear problems of assimilation: state and deviations are those of the dense posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from tests.sampled import sampled

ROUNDING = 1e-8
OPERATORS = {"traces": np.eye(3), "differences": np.array([[1.0, -1.0, 0.0], [0.0, 2.0, 1.0]])}


class Problem:
    """A rod with a drawn conductivity, prior, error of the model, windows, observation operator, gaps and deviations.

    Args:
        seed: the number that it is drawn by.
    """

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.cells, self.windows = int(rng.integers(6, 12)), int(rng.choice([1, 1, 2, 3]))
        self.steps = self.windows * int(rng.integers(2, 6))
        self.kind = str(rng.choice(["traces", "differences", "ends"]))
        places = [[float(x)] for x in rng.uniform(0.0, 0.5 * (self.cells - 1), 3)]
        equation = ds.solvers.Heat(ds.Grid((self.cells,), 0.5), dt=0.1)
        self.rod = ds.Simulation(equation, receivers={"T": places}, wrt=["T"], precision="f64")
        self.kappa, self.background = rng.uniform(0.2, 0.6, self.cells), rng.normal(size=self.cells)
        sizes = rng.uniform(0.3, 2.0), rng.uniform(0.1, 0.5)
        self.prior, self.model_error = (ds.optimize.DiffusionPrior((self.cells,), deviation=float(s), length=1.5) for s in sizes)
        self.to_ends = rng.normal(size=(4, self.cells))
        rows = self.windows if self.kind == "ends" else self.steps + 1
        self.records = rng.normal(size=(rows, 4 if self.kind == "ends" else len(OPERATORS[self.kind])))
        self.records[rng.random(self.records.shape) < 0.3] = np.nan
        self.records[0, 0] = 0.5
        self.deviations = rng.uniform(0.05, 0.5, self.records.shape)

    def analysis(self) -> Any:
        of: Any = {
            "traces": "T",
            "differences": lambda solution: solution.traces["T"] @ OPERATORS["differences"].T,
            "ends": lambda solution: self.to_ends @ solution.final["T"],
        }[self.kind]
        seen = ds.assimilate.Observations(self.records, self.deviations, of, when="ends" if self.kind == "ends" else "steps")
        weak: Any = {} if self.windows == 1 else {"windows": self.windows, "model_error": {"T": self.model_error}}
        known = {"kappa": self.kappa, "T": self.background}
        problem = ds.assimilate.FourDVar(self.rod, seen, known, {"T": self.prior}, steps=self.steps, **weak)
        return problem.minimise(residual=1e-12, products=400, tolerance=1e-12)

    def posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the states at the starts of all windows, by dense matrices."""
        n, count, length = self.cells, self.windows, self.steps // self.windows
        units = [self.rod.run({"kappa": self.kappa, "T": unit}, steps=1) for unit in np.eye(n)]
        step, sight = np.array([run.final["T"] for run in units]).T, np.array([run.traces["T"][0] for run in units]).T
        jumps = np.eye(n * count) - np.kron(np.eye(count, k=-1), np.linalg.matrix_power(step, length))
        roots = [np.array([error.root(unit) for unit in np.eye(n)]).T for error in (self.prior, self.model_error)]
        inverses = [np.linalg.inv(root @ root.T) for root in roots]
        weight = np.kron(np.diag([1.0, *(count - 1) * [0.0]]), inverses[0]) + np.kron(np.diag([0.0, *(count - 1) * [1.0]]), inverses[1])
        precision = jumps.T @ weight @ jumps
        right = jumps.T @ weight @ np.concatenate([self.background, np.zeros(n * (count - 1))])
        for row, values in enumerate(self.records):
            window, later = (row, length) if self.kind == "ends" else divmod(row, length)
            if window == count:  # the end of the last window
                window, later = count - 1, length
            seen = self.to_ends if self.kind == "ends" else OPERATORS[self.kind] @ sight
            part = np.kron(np.eye(count)[window : window + 1], seen @ np.linalg.matrix_power(step, later))
            for value, deviation, operator in zip(values, self.deviations[row], part, strict=True):
                if np.isfinite(value):
                    precision += np.outer(operator, operator) / deviation**2
                    right += operator * value / deviation**2
        covariance = np.linalg.inv(precision)
        return covariance @ right, covariance


@pytest.mark.filterwarnings("ignore:the analysis explains its observations poorly")  # they are drawn at random
@pytest.mark.parametrize("seed", sampled(range(24), gate=(18,)))
def test_the_analysis_is_the_dense_posterior(seed: int) -> None:
    problem = Problem(seed)
    analysis, (mean, covariance) = problem.analysis(), problem.posterior()
    np.testing.assert_allclose(np.ravel(analysis.unknowns["T"]), mean, atol=ROUNDING)
    deviation = analysis.deviation(lambda unknowns: unknowns["T"].reshape(-1)[2])
    assert deviation == pytest.approx(np.sqrt(covariance[2, 2]), rel=1e-6)
