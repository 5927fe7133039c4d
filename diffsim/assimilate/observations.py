"""Observations of a run, with the errors of their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim import numpy as dnp
from diffsim.base.arguments import one_of, plural, real_array
from diffsim.base.messages import shown
from diffsim.errors import ParameterError, ShapeError
from diffsim.simulation import Simulation, Solution
from diffsim.stepping.derive.forward import receiver_points

F64 = npt.NDArray[np.float64]
Operator: TypeAlias = str | Callable[[Solution], Any]
"""A state with receivers, or a function of the solution of a window."""


class Observations:
    """Observed values, the standard deviations of their independent errors, and the operator that predicts them.

    Args:
        values: a row for the initial state and one for each step, shape (steps + 1, ...), or with `when="ends"` a row for the end of each
            window, shape (windows, ...), also for one window. NaN where nothing was observed.
        deviation: > 0, of the errors; a number, or broadcast to `values`.
        of: a state with receivers, whose traces are observed, or a function of a window's solution in `diffsim.numpy`. It returns a row for
            each step of the window, its first and its last included, shape (steps / windows + 1, ...), or with `when="ends"` one row
            without an axis of rows, shape (...).
        when: "steps", or "ends", for functions of `solution.final`, the states at the end of each window: (1, cells) are the values of a
            field that was observed once, after the last step.

    Raises:
        ShapeError: a deviation that does not broadcast to the values.
        ParameterError: no value that is finite, an infinite one, or a deviation that is not above 0 where there is a value.

    Example:
        import numpy as np

        import diffsim as ds

        # Speeds at a pair of receivers, each second step.
        speeds = np.full((41, 1), np.nan)
        speeds[::2] = 0.3
        seen = ds.assimilate.Observations(speeds, 0.05, lambda solution: solution.traces["x"][:, 1:] - solution.traces["x"][:, :1])
        assert seen.count == 21
        # All speeds once, at the end of a run that is one window.
        last = ds.assimilate.Observations(np.full((1, 64), 0.3), 0.05, lambda solution: solution.final["x"], when="ends")
        assert last.values.shape == (1, 64)
    """

    def __init__(self, values: npt.ArrayLike, deviation: npt.ArrayLike, of: Operator, when: Literal["steps", "ends"] = "steps") -> None:
        self.values = np.array(real_array("values", values, np.float64))
        sigma = real_array("deviation", deviation, np.float64)
        if not isinstance(of, str) and not callable(of):
            raise ParameterError(f"of = {shown(of)}, expected a state with receivers or a function of a solution; write it like of='x'")
        self.of, self.when = of, one_of("when", when, ("steps", "ends"))
        try:
            sigma = np.broadcast_to(sigma, self.values.shape)
        except ValueError:
            raise ShapeError(
                f"deviation has shape {np.shape(deviation)}, expected one that broadcasts to {self.values.shape}; give a number, or that"
            ) from None
        present = ~np.isnan(self.values)
        if not present.any() or np.isinf(self.values).any():
            raise ParameterError(
                "values: expected finite numbers, and NaN where nothing was observed, got others or only NaN; correct them"
            )
        if not (sigma[present] > 0).all() or not np.isfinite(sigma[present]).all():
            raise ParameterError("deviation: expected numbers > 0 for all values, got another; give the standard deviation of the errors")
        self.count = int(np.count_nonzero(present))
        self.weight = np.where(present, 1 / np.where(present, sigma, 1.0) ** 2, 0.0)
        self.values = np.where(present, self.values, 0.0)

    def check(self, simulation: Simulation, steps: int, windows: int) -> None:
        """Raise unless they have the rows of this run, and the state receivers."""
        if isinstance(self.of, str) and (self.of not in simulation.receivers or self.when == "ends"):
            known = ", ".join(simulation.receivers) or "none"
            raise ParameterError(
                f"observations of {shown(self.of)}, at {self.when}, expected a state with receivers ({known}), at steps; give it "
                "some, or a function"
            )
        rows, each = (
            (steps + 1, f"row 0 for the initial state and one for each of {steps} steps")
            if self.when == "steps"
            else (windows, "one for each of the windows")
        )
        if self.values.ndim == 0 or len(self.values) != rows:
            remedy = "give values[None]" if self.when == "ends" and windows == 1 else "fill up with NaN"
            raise ShapeError(f"values have shape {self.values.shape}, expected {plural(rows, 'row')}, {each}; {remedy}")
        if isinstance(self.of, str):
            expected = rows, simulation._compiled.points[receiver_points(self.of)].count
            if self.values.shape != expected:
                raise ShapeError(
                    f"observations of {self.of} have shape {self.values.shape}, expected {expected}, a column for each receiver; fill up "
                    "with NaN, or give a function that selects some"
                )

    def predicted(self, solutions: Sequence[Solution]) -> Any:
        """The predictions of the windows, in the shape of the values.

        A window begins after the jump: what was observed at the border of two windows is that of the later one.
        """
        rows = [_array(solution.traces[self.of] if isinstance(self.of, str) else self.of(solution)) for solution in solutions]
        for row in rows:
            self._require_shape(tuple(row.shape), len(solutions))
        return dnp.stack(rows) if self.when == "ends" else dnp.concatenate([*(row[:-1] for row in rows[:-1]), rows[-1]])

    def _require_shape(self, shape: tuple[int, ...], windows: int) -> None:
        """Refuse what the operator gives for a window, unless it fits the values."""
        each = self.values.shape[1:]
        steps = (len(self.values) - 1) // windows + 1
        expected, rows = (each, "one row, that of its end") if self.when == "ends" else ((steps, *each), f"a row for each of {steps}")
        if shape == expected:
            return
        if self.when == "ends":
            remedy = "leave out the axis of rows" if shape == (1, *each) else "return a row of the values, such as solution.final['x']"
        else:
            remedy = "say when='ends'" if shape == each else "return a row for each step, the first and the last included"
        raise ShapeError(
            f"the operator of an observation gives shape {shape} for a window, expected {expected}, {rows} in values of shape "
            f"{self.values.shape}; {remedy}"
        )


def _array(row: Any) -> Any:
    """A row of an operator's as an array: it may be a number, or a list of numbers that are differentiated."""
    return row if hasattr(row, "shape") else dnp.array(row)
