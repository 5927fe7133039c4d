"""Operations that move, copy or add up entries: all linear, so a rule needs shapes and no values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim.ad.core import Primitive, aval, is_plain, laid_out
from diffsim.ad.ops import layout
from diffsim.base import buffers


def keeps_nothing(wanted: tuple[bool, ...]) -> tuple[Sequence[bool], bool]:
    """For rules that read shapes only."""
    return (False,) * len(wanted), False


def linear(name: str, evaluate: Callable[..., Any], transpose: Callable[..., Any]) -> Primitive:
    """A primitive that is linear in its one argument.

    Args:
        name: of the primitive.
        evaluate: `(x, **params)`.
        transpose: `(ct, x, params)` -> cotangent of x; x has a shape and a type only.
    """

    def jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
        return primitive(tangents[0], **params)

    def vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
        return (transpose(ct, args[0], params),)

    primitive = Primitive(name, evaluate, jvp=jvp, vjp=vjp, keeps=keeps_nothing)
    return primitive


# types


def _astype(x: Any, dtype: Any) -> Any:
    if np.iscomplexobj(x) and np.dtype(dtype).kind != "c":
        x = np.real(x)
    return x.astype(dtype) if hasattr(x, "astype") else np.dtype(dtype).type(x)


astype: Primitive = linear("astype", _astype, lambda ct, x, params: astype(ct, dtype=x.dtype))
real: Primitive = linear("real", lambda x: np.real(x), lambda ct, x, params: astype(ct, dtype=x.dtype))
imag: Primitive = linear("imag", lambda x: np.imag(x), lambda ct, x, params: times_minus_i(astype(ct, dtype=x.dtype)))
conjugate: Primitive = linear("conjugate", lambda x: np.conjugate(x), lambda ct, x, params: conjugate(ct))
times_minus_i: Primitive = linear("times_minus_i", lambda x: x * np.array(-1j, x.dtype), lambda ct, x, params: times_minus_i(ct))


def like(ct: Any, x: Any) -> Any:
    """A cotangent in the type of its argument; of a complex cotangent for a real argument, the real part counts."""
    if ct.dtype == x.dtype:
        return ct
    return astype(ct, dtype=x.dtype)


# shapes

reshape: Primitive = linear("reshape", lambda x, shape: np.reshape(x, shape), lambda ct, x, params: reshape(ct, shape=x.shape))
transpose: Primitive = linear(
    "transpose",
    lambda x, axes: np.transpose(x, axes),
    lambda ct, x, params: transpose(ct, axes=tuple(int(i) for i in np.argsort(params["axes"]))),
)
copy: Primitive = linear("copy", buffers.copy, lambda ct, x, params: ct)
snapshot: Primitive = linear("copy", layout.snapshot, lambda ct, x, params: ct)
"""A copy in which broadcast axes stay broadcast."""
_compact: Primitive = linear("layout", layout.compact, lambda ct, x, params: ct)


def compact(x: Any, axes: layout.Axes | None = None) -> Any:
    """The entries of `x` side by side in memory, the axes in this order (by default the first one outermost): `x` itself if they are."""
    plain = laid_out(x)
    axes = tuple(range(plain.ndim)) if axes is None else axes
    return x if layout.is_compact(plain, axes) else _compact(x, axes=axes)


def _sum(x: Any, axis: Any, keepdims: Any, dtype: Any = None) -> Any:
    return np.add.reduce(x, axis=axis, keepdims=keepdims, dtype=dtype)


def _spread(ct: Any, x: Any, params: Any) -> Any:
    """The cotangent of a reduction over axes, repeated along them."""
    if ct.shape and not params["keepdims"]:
        axes = {a % len(x.shape) for a in params["axis"]}
        ct = reshape(ct, shape=tuple(1 if i in axes else n for i, n in enumerate(x.shape)))
    return like(broadcast_to(ct, shape=x.shape), x)


add_up: Primitive = linear("sum", _sum, _spread)
"""Sum over `axis`, a tuple of axes or None for all."""

broadcast_to: Primitive = linear("broadcast_to", layout.repeated, lambda ct, x, params: unbroadcast(ct, x))


def unbroadcast(ct: Any, x: Any) -> Any:
    """Transpose of broadcasting `x` (a value or an `Aval`) to the shape of `ct`."""
    shape = x.shape
    if ct.shape != shape:
        lead = len(ct.shape) - len(shape)
        axes = tuple(range(lead)) + tuple(lead + i for i, n in enumerate(shape) if n == 1 and ct.shape[lead + i] != 1)
        ct = add_up(ct, axis=axes, keepdims=False) if len(axes) == len(ct.shape) else add_up(ct, axis=axes, keepdims=True)
        if ct.shape != shape:
            ct = reshape(ct, shape=shape)
    return ct if ct.dtype == x.dtype else astype(ct, dtype=x.dtype)


def zeros_like(x: Any) -> Any:
    return np.zeros(x.shape, x.dtype)


# differences


def _along(axis: int, *bounds: int | None) -> tuple[slice, ...]:
    return *(slice(None),) * axis, slice(*bounds)


def _difference(x: Any, axis: int) -> Any:
    return _subtract(x[_along(axis, 1, None)], x[_along(axis, None, -1)])


def _difference_transposed(ct: Any, axis: int, shape: tuple[int, ...]) -> Any:
    if not ct.size:
        return np.zeros(shape, ct.dtype)
    out = buffers.empty(shape, ct.dtype)
    np.subtract(0, ct[_along(axis, None, 1)], out=out[_along(axis, None, 1)])
    np.subtract(ct[_along(axis, None, -1)], ct[_along(axis, 1, None)], out=out[_along(axis, 1, -1)])
    out[_along(axis, -1, None)] = ct[_along(axis, -1, None)]
    return out


_subtract = buffers.reusing(np.subtract)
difference: Primitive = linear(
    "diff", _difference, lambda ct, x, params: Owned(difference_transposed(ct, axis=params["axis"], shape=x.shape))
)
"""Differences of neighbours along `axis` (not negative)."""
difference_transposed: Primitive = linear(
    "diff transposed", _difference_transposed, lambda ct, x, params: difference(ct, axis=params["axis"])
)

# several arrays into one


def _join_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    axis, whole = params["axis"], aval(out)
    parts = [
        np.zeros((*whole.shape[:axis], length, *whole.shape[axis + 1 :]), whole.dtype) if t is None else t
        for length, t in zip(params["lengths"], tangents, strict=True)
    ]
    return like(concatenate(*parts, **params), whole)


def _join_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    axis, start = params["axis"], 0
    bars = []
    for length, x, w in zip(params["lengths"], args, wanted, strict=True):
        cut = (slice(None),) * axis + (slice(start, start + length),)
        bars.append(like(getitem(ct, index=cut), x) if w else None)
        start += length
    return bars


concatenate: Primitive = Primitive(
    "concatenate", lambda *xs, axis, lengths: np.concatenate(xs, axis=axis), jvp=_join_jvp, vjp=_join_vjp, keeps=keeps_nothing
)
"""Arrays of equal rank joined along `axis` (not negative); `lengths` along it."""


# indexing


class IndexedCotangent:
    """A cotangent that is zero but for the entries at `index`, to be added in place (see `diffsim.ad.transforms.sweep`)."""

    __slots__ = ("ct", "index")

    def __init__(self, index: Any, ct: Any) -> None:
        self.index = index
        self.ct = ct


class Owned:
    """A cotangent whose memory nobody else refers to."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _getitem(x: Any, index: Any, copy: bool = False) -> Any:
    if len(index) == 1 and isinstance(index[0], np.ndarray) and index[0].dtype.kind in "iu" and x.ndim:
        simple = index[0].flags.c_contiguous and (x.ndim == 1 or x.flags.c_contiguous)
        if simple:  # otherwise the result of x[index] lies in memory in another way
            return x.take(index[0], axis=0)  # faster than x[index]
    out = x[index]
    return out.copy() if copy else out


getitem: Primitive = linear("getitem", _getitem, lambda ct, x, params: IndexedCotangent(params["index"], like(ct, x)))


def diagonal_index(shape: tuple[int, ...], offset: int) -> tuple[Any, ...]:
    """The index of the diagonals of the matrices in the last two axes."""
    rows, columns = shape[-2:]
    places = np.arange(max(0, min(rows + min(offset, 0), columns - max(offset, 0))))
    return Ellipsis, places - min(offset, 0), places + max(offset, 0)


diagonal: Primitive = linear(
    "diagonal",
    lambda x, offset: np.diagonal(x, offset, -2, -1),
    lambda ct, x, params: IndexedCotangent(diagonal_index(x.shape, params["offset"]), like(ct, x)),
)
"""The diagonals of the matrices in the last two axes, along a new last axis."""


def is_basic(index: Any) -> bool:
    """True if an index (a tuple) is made of integers, slices, ... and newaxis, so that no entry is read twice."""
    return not any(isinstance(i, (np.ndarray, list, bool, np.bool_)) for i in index)


def _writable(x: Any, donate: bool, dtype: Any = None) -> Any:
    if donate and isinstance(x, np.ndarray) and x.flags.writeable:
        return x
    return np.array(x, dtype)


def _setitem(x: Any, v: Any, index: Any, donate: bool = False) -> Any:
    out = _writable(x, donate)
    out[index] = v
    return out


def _setitem_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    x_dot, v_dot = tangents
    if x_dot is None:
        x_dot, params = zeros_like(out), params | {"donate": True}
    return setitem(x_dot, 0.0 if v_dot is None else v_dot, **params)


def _setitem_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any, owned: bool) -> Any:
    """The new value takes the entries at `index`; the rest, cleared there, goes on to the old version."""
    index = params["index"]
    v_bar = None
    if wanted[1]:
        if params.get("distinct") is None:
            v_bar = unbroadcast(getitem(ct, index=index, copy=True), args[1])
        else:  # of several writes to an entry the last one stays
            v_bar = unbroadcast(getitem(ct, index=index) * params["distinct"], args[1])
    x_bar = Owned(setitem(ct, 0.0, index=index, donate=owned and is_plain(ct), distinct=None)) if wanted[0] else None
    return x_bar, v_bar


def _set(x: Any, v: Any, index: Any, donate: bool = False, distinct: Any = None) -> Any:
    return _setitem(x, v, index, donate)


setitem: Primitive = Primitive("setitem", _set, jvp=_setitem_jvp, vjp=_setitem_vjp, keeps=keeps_nothing, takes_over=True)
"""`x` with `v` at `index`. `donate` allows to write into the memory of `x`, which nobody else may refer to then. `distinct` is None
where no entry is written twice, else 1 where a written value stays and 0 where a later one overwrites it."""


def _index_add(x: Any, v: Any, index: Any, donate: bool = False) -> Any:
    out = _writable(x, donate, np.result_type(x, v))
    if is_basic(index):
        out[index] += v
    elif max(np.ndim(v), out.ndim + len(index) + max(map(np.ndim, index))) > 32:  # with so many axes NumPy's ends the interpreter
        places = np.arange(out.size).reshape(out.shape)[index]
        np.add.at(out.reshape(-1), places.ravel(), np.broadcast_to(v, places.shape).ravel())
    else:
        np.add.at(out, index, v)
    return out


def _index_add_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    x_dot, v_dot = tangents
    if v_dot is None:
        return x_dot
    if x_dot is None:
        x_dot, params = zeros_like(out), params | {"donate": True}
    return index_add(x_dot, v_dot, **params)


def _index_add_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    v_bar = unbroadcast(getitem(ct, index=params["index"], copy=True), args[1]) if wanted[1] else None
    return like(ct, args[0]) if wanted[0] else None, v_bar


index_add: Primitive = Primitive("index_add", _index_add, jvp=_index_add_jvp, vjp=_index_add_vjp, keeps=keeps_nothing)
"""`x` with `v` added at `index`, as often as an entry is named."""
