"""Reading and writing entries at positions that are values themselves, known only when the operation runs.

Arrays are vectors here: an index of several axes is turned into positions among all entries. Other operations take their index as a
parameter, which is known when they are written on the tape.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diffsim.ad.core import Primitive
from diffsim.ad.ops.structure import like, zeros_like
from diffsim.errors import ArrayIndexError


def _places(wanted: tuple[bool, ...]) -> Any:
    return (False, True, False)[: len(wanted)], False


take: Primitive = Primitive(
    "take",
    lambda x, places: x[places],
    jvp=lambda args, tangents, out, params: take(tangents[0], args[1]),
    vjp=lambda ct, args, out, params, wanted: (add_at(zeros_like(args[0]), args[1], like(ct, args[0])), None),
    keeps=_places,
)
"""The entries of a vector at positions, an array of integers."""


def _add_at(x: Any, places: Any, v: Any) -> Any:
    out = np.array(x)
    np.add.at(out, places, v)
    return out


def _add_at_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    x_dot, _, v_dot = tangents
    if v_dot is None:
        return x_dot
    return add_at(zeros_like(args[0]) if x_dot is None else x_dot, args[1], v_dot)


add_at: Primitive = Primitive(
    "add_at",
    _add_at,
    jvp=_add_at_jvp,
    vjp=lambda ct, args, out, params, wanted: (ct, None, take(ct, args[1])),
    keeps=_places,
)
"""A vector with values added at positions, as often as each is named. The values have the shape of the positions."""


def _put(x: Any, places: Any, v: Any) -> Any:
    out = np.array(x)
    out[places] = v
    return out


def _put_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    x_dot, _, v_dot = (zeros_like(a) if t is None else t for a, t in zip(args, tangents, strict=True))
    return put(x_dot, args[1], v_dot)


def _put_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    """The value that stays takes the entry at its position; the rest, cleared there, goes on to the older entries."""
    places = args[1]
    v_bar = take(ct, places) * stays(places, size=ct.shape[0], dtype=ct.dtype) if wanted[2] else None
    return (put(ct, places, np.zeros(places.shape, ct.dtype)) if wanted[0] else None), None, v_bar


put: Primitive = Primitive("put", _put, jvp=_put_jvp, vjp=_put_vjp, keeps=_places)
"""A vector with values put at positions; of several for one position the last one stays."""


def _stays(places: Any, size: int, dtype: Any) -> Any:
    flat = np.ravel(places)
    writers = np.empty(size, np.intp)
    writers[flat] = np.arange(flat.size)
    return (writers[flat] == np.arange(flat.size)).reshape(np.shape(places)).astype(dtype)


def _within(places: Any, length: int) -> Any:
    outside = (places < -length) | (places >= length)
    if np.any(outside):
        raise ArrayIndexError(
            f"index {np.extract(outside, places)[0]} is out of bounds for an axis of length {length}; use positions from {-length} to "
            f"{length - 1}"
        )
    return np.where(places < 0, places + length, places)[()]


within: Primitive = Primitive("within", _within, constant=True)
"""Positions along an axis counted from its first entry; negative ones count from its end. Raises where there is no entry."""
stays: Primitive = Primitive("stays", _stays, constant=True)
"""1 where no later position is the same, else 0."""
