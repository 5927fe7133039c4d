"""Numerical kernels over plain arrays: scans, reductions and histograms with any operator, and their adjoints."""

from diffsim.kernels.histograms import (
    histogram,
    histogram_generic,
    histogram_generic_vjp,
    histogram_winners,
    histogram_with_totals,
    order_by_index,
)
from diffsim.kernels.operator import Operator
from diffsim.kernels.scans import cummax, cummin, cumprod, cumprod_vjp, cumsum, linear_recurrence, reduce, reduce_vjp, scan, scan_vjp

__all__ = [
    "Operator", "cummax", "cummin", "cumprod", "cumprod_vjp", "cumsum", "histogram", "histogram_generic", "histogram_generic_vjp",
    "histogram_winners", "histogram_with_totals", "linear_recurrence", "order_by_index", "reduce", "reduce_vjp", "scan", "scan_vjp",
]  # fmt: skip
