"""The outcome of an assimilation, and how well it is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from diffsim.ad import grad
from diffsim.assimilate.linearised import Linearised
from diffsim.base.arguments import function, plural
from diffsim.base.summary import Rows, Summary
from diffsim.errors import ParameterError
from diffsim.optimize import Posterior, Result, posterior
from diffsim.typing import Array


class Analysis(Summary):
    """The most probable unknowns of a problem.

    Attributes:
        unknowns: by name. A state with a model error has a value for the beginning of each window, shape (windows, cells).
        inputs: all inputs of the simulation, at the beginning of the first window: the analysis is run by them.
        jumps: state -> its jumps between windows, shape (windows - 1, cells).
        costs: the parts of J at the minimum, "background", "observations" and "jumps". Where all errors are as they were said to be, twice
            their sum is about the number of observations.
        search: the minimisation: its history, and why it stopped.

    Example:
        import numpy as np

        import diffsim as ds

        # A pendulum's swing from three readings of its angle.
        swing = ds.Simulation(ds.ODE(lambda a, v: (v, -a), dt=0.1), receivers={"a": [[0.0]]}, wrt=["a", "v"], precision="f64")
        readings = np.full((31, 1), np.nan)
        readings[[5, 15, 25], 0] = np.cos(0.1 * np.array([5, 15, 25]))
        prior = ds.optimize.DiffusionPrior((1,), deviation=2.0)
        seen = ds.assimilate.Observations(readings, 0.01, of="a")
        problem = ds.assimilate.FourDVar(swing, seen, {"a": [0.0], "v": [0.0]}, {"a": prior, "v": prior}, steps=30)
        analysis: ds.assimilate.Analysis = problem.minimise()
        assert abs(analysis.unknowns["a"][0] - 1.0) < 1e-3 and analysis.inputs["a"].shape == (1,)
        assert analysis.deviation(lambda unknowns: unknowns["a"][0]) < 0.02 and analysis.posterior(rank=2).deviation.max() < 0.02
    """

    def __init__(self, here: Linearised, search: Result, inputs: Mapping[str, Any]) -> None:
        self._here, self.search, self.unknowns = here, search, here.unknowns
        self.jumps, self.costs = here.jumps, here.costs
        first = {name: value[0] if name in here.model_error else value for name, value in here.unknowns.items()}
        self.inputs = {**inputs, **first}

    @property
    def fit(self) -> float:
        """Twice the cost over the number of observations: about 1 where all errors are as they were said to be."""
        return 2 * self.search.value / max(sum(each.count for each in self._here.observations), 1)

    def deviation(self, quantity: Callable[[dict[str, Any]], Any]) -> float:
        """The standard deviation of a number that is computed of the unknowns, by the Gauss-Newton Hessian at the analysis.

        It is exact where the run and the quantity are linear. It takes a system with the Hessian: some tens of runs of the tangent and the
        adjoint with one window, hundreds with several.

        Args:
            quantity: unknowns -> a number, in `diffsim.numpy`, such as `lambda unknowns: unknowns["x"][0]`.

        Raises:
            ConvergenceError: the system is not solved.
        """
        function("quantity", quantity, "lambda unknowns: unknowns['x'][0]", optional=False)
        slope = self._here.control.root_transpose(grad(quantity)(self.unknowns))
        return float(np.sqrt(slope @ self._here.solved(slope)))

    def posterior(self, rank: int = 50, seed: int = 0) -> Posterior:
        """The distribution of the unknowns after the observations, with the deviation of each, by `diffsim.optimize.posterior`; for one
        window. The unknowns are one after another, in the order of `background_error`.

        Args:
            rank: eigenpairs; the last eigenvalue should be well below 1.
            seed: of the random vectors.

        Raises:
            ParameterError: there are several windows.
        """
        if self._here.model_error:
            count = len(next(iter(self.jumps.values()))) + 1
            raise ParameterError(f"posterior of {plural(count, 'window')}, expected one; take the deviation of what you want to know")
        return posterior(ObservationHessian(self._here), self._here.control.prior(), rank, seed)

    def _summary(self) -> tuple[str, Rows]:
        costs = ", ".join(f"{name} {value:.4g}" for name, value in self.costs.items() if name != "jumps" or self.jumps)
        observed = sum(each.count for each in self._here.observations)
        last = self.search.history[-1]
        rows = [
            ("unknowns", ", ".join(f"{name} {value.shape}" for name, value in self.unknowns.items())),
            ("cost", f"{self.search.value:.4g} ({costs}) for {plural(observed, 'observation')}"),
            (
                "search",
                f"{plural(last.iteration, 'iteration')}, {plural(last.evaluations, 'gradient')}, {plural(last.products, 'product')}",
            ),
            ("fit", f"twice the cost is {self.fit:.3g} times the number of observations, expected about 1"),
            ("stopped", self.search.message),
        ]
        return "Analysis", rows

    def __repr__(self) -> str:
        return f"Analysis(unknowns={', '.join(self.unknowns)}, cost={self.search.value:.6g})"


class ObservationHessian:
    """The information of observations, as an object with products."""

    def __init__(self, here: Linearised) -> None:
        self._here = here

    def __matmul__(self, v: Array) -> Array:
        return self._here.informed(v)
