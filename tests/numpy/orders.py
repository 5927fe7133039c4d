"""Calls of every function of the namespace with arrays in many orders of memory, and how their results lie there."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

import diffsim as ds
import diffsim.numpy as dn
from diffsim.ad.arrays.array import Array
from diffsim.errors import DiffsimError

SHAPES = ((2, 3, 4), (3, 3), (3,), (1, 3, 2), (3, 1, 2), (2, 3, 1), (1, 1))
UNLIKE = {
    "copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "frombuffer", "ix_", "empty", "empty_like", "get_include",
    "show_config", "show_runtime", "info", "save", "savez", "savetxt", "load", "test",
}  # fmt: skip
"""Functions whose results have no defined content, that edit their arguments, or that do not work on arrays of numbers."""
NAMES = [
    *(n for n in dn.__all__ if callable(getattr(dn, n)) and not isinstance(getattr(dn, n), type) and n not in UNLIKE and hasattr(np, n)),
    *(f"linalg.{n}" for n in dn.linalg.__all__ if n[0].islower()),
    *(f"fft.{n}" for n in dn.fft.__all__),
]
FORMS: dict[str, Any] = {
    "x": lambda x: (x,),
    "[x]": lambda x: ([x],),
    "[[x]]": lambda x: ([[x]],),
    "[x, x]": lambda x: ([x, x],),
    "[[x, x], [x, x]]": lambda x: ([[x, x], [x, x]],),
    "x, x": lambda x: (x, x),
    "x, x of rows": lambda x: (x, x + 0.0 * np.zeros(x.shape)),
    "x, 0.3": lambda x: (x, 0.3),
    "x, 1": lambda x: (x, 1),
    "x, [0.2, 0.7]": lambda x: (x, [0.2, 0.7]),
    "x, [[0.5]]": lambda x: (x, np.array([[0.5]])),
    "x, shape": lambda x: (x, x.shape),
    "x, larger shape": lambda x: (x, (2, *x.shape)),
    "x > 0, x": lambda x: (np.ones(x.shape, bool), x),
    "x > 0, x, x": lambda x: (np.ones(x.shape, bool), x, x),
}
"""Arguments made of an array."""
KEYS: tuple[dict[str, Any], ...] = (
    {},
    *({"axis": axis} for axis in (0, 1, 2, -1, (0, 1), (0, 2), (1, 0))),
    *({"axis": axis, "keepdims": True} for axis in (0, 1, None, (0, 2))),
)


@functools.cache
def values(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(len(shape)).uniform(0.5, 1.5, shape)


def orders(shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
    """An array of this shape in all orders of its axes, as a part of a larger one, reversed, and with a broadcast axis."""
    x = values(shape)
    for axes in itertools.permutations(range(len(shape))):
        yield f"axes {axes}", np.transpose(np.array(np.transpose(x, axes), order="C"), np.argsort(axes))
    yield "strided", np.repeat(x, 2, -1)[..., ::2]
    yield "reversed", np.array(x[..., ::-1])[..., ::-1]
    yield "broadcast", np.broadcast_to(x[:1], shape)


def functions(name: str) -> tuple[Any, Any]:
    """NumPy's function and that of the namespace."""
    *path, last = name.split(".")
    return tuple(getattr(getattr(m, path[0]) if path else m, last) for m in (np, dn))  # type: ignore[return-value]


def is_accepted(name: str, form: str, keys: dict[str, Any], shape: tuple[int, ...]) -> bool:
    """NumPy has a result for an array of this shape, in any order of memory."""
    try:
        with np.errstate(all="ignore"):
            functions(name)[0](*FORMS[form](values(shape).copy()), **keys)
    except Exception:
        return False
    return True


def both(name: str, form: str, keys: dict[str, Any], x: np.ndarray) -> tuple[Any, Any] | None:
    """How the results of NumPy and of the namespace lie in memory; None where one of them has none."""
    theirs, ours = functions(name)
    try:
        with np.errstate(all="ignore"):
            expected = theirs(*FORMS[form](x), **keys)
    except Exception:
        return None
    seen: list[Any] = []

    def f(x: Any) -> Any:
        result = ours(*FORMS[form](x), **keys)
        seen[:] = [places(result)]
        return 0.0 * dn.sum(x)

    try:
        with np.errstate(all="ignore"):
            ds.vjp(f, x)
    except (DiffsimError, ValueError, TypeError, IndexError, np.linalg.LinAlgError):
        return None
    return places(expected), seen[0]


def places(result: Any) -> Any:
    """Strides of the axes longer than 1 of all arrays in a result."""
    if isinstance(result, (tuple, list)):
        return [places(part) for part in result]
    if not isinstance(result, (np.ndarray, Array)) or dn.isscalar(result) or result.size == 0:
        return None
    where = result._layout() if isinstance(result, Array) else result
    return tuple(int(s) for s, n in zip(where.strides, where.shape, strict=True) if n > 1)
