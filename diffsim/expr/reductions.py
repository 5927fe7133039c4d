"""Numbers computed from all cells of a field, under NumPy's names. A step can use them like other numbers."""

from __future__ import annotations

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
    """
    return _reduced(field, "sum")


def mean(field: Symbol) -> Symbol:
    """The mean over all cells of the grid; see `sum`. All cells have equal weight, also on stretched axes."""
    return _reduced(field, "mean")


def max(field: Symbol) -> Symbol:
    """The largest value in any cell of the grid; see `sum`. Cells with this value share the derivative in equal parts.

    NaN if a value is NaN.
    """
    return _reduced(field, "max")


def min(field: Symbol) -> Symbol:
    """The smallest value in any cell of the grid; see `max`."""
    return -_reduced(-field if isinstance(field, Symbol) else field, "max", "min")


def _reduced(field: Symbol, how: str, name: str | None = None) -> Symbol:
    name = name or how
    if not isinstance(field, Symbol):
        raise TraceError(f"{name}() of a {type(field).__name__}, expected a field of the step; compute numbers with math or NumPy")
    field.expect(False, f"{name}()")
    reduce = getattr(field.graph, "reduce", None)
    if reduce is None:
        raise TraceError(f"{name}() was called outside a step, where coefficients or initial fields are computed; call it in step()")
    return reduce(field, how)
