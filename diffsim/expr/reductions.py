"""Numbers computed from all cells of a field, under NumPy's names. A step can use them like other numbers."""

from __future__ import annotations

from collections.abc import Callable

from diffsim.errors import TraceError
from diffsim.expr.symbol import Symbol


def sum(field: Symbol) -> Symbol:
    """The sum over all cells of the grid, added up in a fixed order.

    Args:
        field: any expression of a step.

    Returns:
        A number that the same step can use, at any location on the cell.

    Raises:
        TraceError: `field` is no expression of a step, or is a condition.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian, max, mean, min, sum

        class Steady(ds.Equation):
            # Diffusion whose loss through the sides is made up for, with a watch on the extremes.

            states = {"c": ds.Variable("zero"), "before": ds.Variable(), "spread": ds.Variable(), "level": ds.Variable()}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, c, before, spread, level):
                moved = c + self.dt * laplacian(c)
                return {"c": moved * (sum(c) / sum(moved)), "before": c, "spread": 0 * c + (max(c) - min(c)), "level": 0 * c + mean(c)}

        c = np.random.default_rng(1).random((12, 16))
        found = ds.Simulation(Steady(ds.Grid((12, 16), spacing=1.0), dt=0.1), precision="f64").run({"c": c}, steps=10).final
        assert np.isclose(found["c"].sum(), c.sum()) and np.allclose(found["level"], c.mean())
        assert np.allclose(found["spread"], np.ptp(found["before"]))
    """
    return _reduced(field, "sum")


def mean(field: Symbol) -> Symbol:
    """The mean over all cells of the grid; see `sum`. All cells have equal weight, also on stretched axes.

    Arguments, result and errors are those of `sum`.
    """
    return _reduced(field, "mean")


def max(field: Symbol) -> Symbol:
    """The largest value in any cell of the grid; see `sum`. Cells with this value share the derivative in equal parts.

    NaN if a value is NaN.

    Arguments, result and errors are those of `sum`.
    """
    return _reduced(field, "max")


def min(field: Symbol) -> Symbol:
    """The smallest value in any cell of the grid; see `max`.

    Arguments, result and errors are those of `sum`.
    """
    return -_reduced(-field if isinstance(field, Symbol) else field, "max", "min")


def _reduced(field: Symbol, how: str, name: str | None = None) -> Symbol:
    name = name or how
    if not isinstance(field, Symbol):
        raise TraceError(f"{name}() of a {type(field).__name__}, expected a field of the step; compute numbers with math or NumPy")
    field.expect(False, f"{name}()")
    reduce: Callable[[Symbol, str], Symbol] | None = getattr(field.graph, "reduce", None)
    if reduce is None:
        raise TraceError(f"{name}() was called outside a step, where coefficients or initial fields are computed; call it in step()")
    return reduce(field, how)
