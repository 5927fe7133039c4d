"""Arrays of one content in all layouts in memory, and a test if two arrays lie alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _rows(x: np.ndarray) -> np.ndarray:
    return np.array(x, order="C")


def _columns(x: np.ndarray) -> np.ndarray:
    return np.array(x, order="F")


def _reversed(x: np.ndarray) -> np.ndarray:
    turned = (slice(None, None, -1),) * x.ndim
    return np.array(x[turned], order="C")[turned]


def _strided(x: np.ndarray) -> np.ndarray:
    wide = np.zeros((*x.shape, 2), x.dtype)
    wide[..., 0] = x
    return wide[..., 0]


def _padded(x: np.ndarray) -> np.ndarray:
    """A corner of a larger array whose axes are turned: the second axis is the outermost one."""
    order = (*range(1, x.ndim), 0) if x.ndim > 1 else (0,)
    large = np.zeros(tuple(x.shape[k] + 1 for k in order), x.dtype)
    back = large.transpose(np.argsort(order))[tuple(slice(n) for n in x.shape)]
    back[...] = x
    return back


def _broadcast_rows(x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.array(x[:1]), x.shape)


def _broadcast_columns(x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.array(x[..., :1], order="F"), x.shape)


def _empty(x: np.ndarray) -> np.ndarray:
    return np.zeros((0, *x.shape[1:]), x.dtype)


def _of_no_axes(x: np.ndarray) -> np.ndarray:
    return np.array(x.flat[0])


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rows": _rows, "columns": _columns, "reversed": _reversed, "strided": _strided, "padded": _padded,
    "broadcast rows": _broadcast_rows, "broadcast columns": _broadcast_columns, "empty": _empty, "of no axes": _of_no_axes,
}  # fmt: skip


def laid(x: Any, layout: str) -> Any:
    """A fresh array with the content of `x` (or as much of it as the layout can hold); a number stays one."""
    return LAYOUTS[layout](x) if isinstance(x, np.ndarray) and x.size and (x.ndim or layout in ("rows", "of no axes")) else x
