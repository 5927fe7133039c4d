"""The array that a differentiated function works with: NumPy's semantics over immutable core values.

A core value never changes. An `Array` is what a program calls an array: a place that holds a core value and takes a new one when
it is assigned to. What NumPy makes a view (a slice, a transpose, a reshape) remembers its base and how it was taken: it reads the
base anew after an assignment to it, and an assignment to the view goes on to the base.

Memory is written in place where nobody else can refer to it (`_owned`), so that a loop that fills an array entry by entry is
linear; otherwise the first assignment copies.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from diffsim.ad import guard
from diffsim.ad.core import Interceptor, Tracer, bottom, local
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops import structure as st
from diffsim.errors import DerivativeError, ShapeError, StaleValueError


class _View:
    """How a view was taken from its base: a function and its effect on the base when the view is assigned."""

    __slots__ = ()

    def read(self, base: Any) -> Any:
        raise NotImplementedError

    def write(self, base: Array, value: Any) -> None:
        raise NotImplementedError


class _Index(_View):
    __slots__ = ("index",)

    def __init__(self, index: tuple[Any, ...]) -> None:
        self.index = index

    def read(self, base: Any) -> Any:
        return st.getitem(base, index=self.index)

    def write(self, base: Array, value: Any) -> None:
        base._store(self.index, value)


class _Reshape(_View):
    __slots__ = ("contiguous", "shape")

    def __init__(self, shape: tuple[int, ...], contiguous: bool) -> None:
        self.shape, self.contiguous = shape, contiguous

    def read(self, base: Any) -> Any:
        return st.reshape(base, shape=self.shape)

    def write(self, base: Array, value: Any) -> None:
        if not self.contiguous:
            raise DerivativeError(
                "assignment to a reshaped array whose base is not contiguous, of which NumPy may or may not make a view; "
                "copy() the array before it is reshaped, or assign to the base"
            )
        base._replace(st.reshape(value, shape=base.shape))


class _Transpose(_View):
    __slots__ = ("axes",)

    def __init__(self, axes: tuple[int, ...]) -> None:
        self.axes = axes

    def read(self, base: Any) -> Any:
        return st.transpose(base, axes=self.axes)

    def write(self, base: Array, value: Any) -> None:
        base._replace(st.transpose(value, axes=tuple(int(i) for i in np.argsort(self.axes))))


class Array:
    """An array in a differentiated function. It behaves as `numpy.ndarray` does; make one with `diffsim.numpy`.

    Attributes:
        shape: lengths of the axes.
        dtype: type of the entries.
        ndim: number of axes.
        size: number of entries.
    """

    __slots__ = ("__weakref__", "_base", "_contiguous", "_owned", "_scalar", "_scope", "_seen", "_value", "_version", "_view")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any, *, owned: bool = False, scalar: bool = False, contiguous: bool = True) -> None:
        self._value = value
        self._owned = owned
        self._scalar = scalar
        self._contiguous = contiguous
        self._version = 0
        self._base: Array | None = None
        self._view: _View | None = None
        self._seen = 0
        self._scope: Interceptor | None = local.interceptor

    # reading

    def _current(self) -> Any:
        """The present core value, without giving up ownership."""
        base = self._base
        if base is not None:
            value = base._current()
            if self._seen != base._version:
                assert self._view is not None
                self._value, self._seen = self._view.read(value), base._version
                self._version += 1
                base._owned = False
        return self._value

    def core(self) -> Any:
        """The present core value, for an operation that may keep it."""
        self._owned = False
        return self._current()

    def _take(self, view: _View, value: Any, contiguous: bool) -> Array:
        made = Array(value, contiguous=contiguous)
        made._base, made._view, made._seen = self, view, self._version
        return made

    @property
    def shape(self) -> tuple[int, ...]:
        return self._value.shape  # an assignment never changes it

    @property
    def dtype(self) -> Any:
        return self._value.dtype

    @property
    def ndim(self) -> int:
        return self._value.ndim

    @property
    def size(self) -> int:
        return self._value.size

    @property
    def itemsize(self) -> int:
        return self._value.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def T(self) -> Any:  # noqa: N802 -- NumPy's name
        return self.transpose()

    @property
    def mT(self) -> Any:  # noqa: N802 -- the array API's name
        return self.transpose((*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))

    @property
    def flat(self) -> Any:
        return self.ravel()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        for i in range(len(self)):
            yield self[i]

    def __getitem__(self, index: Any) -> Any:
        index, basic = normalise_index(index)
        value = self._current()
        if not basic:
            return wrap(st.getitem(value, index=index))
        out = st.getitem(value, index=index)
        if out.ndim == 0 and Ellipsis not in index:
            return wrap(out)
        if self._owned and out.size * 4 <= self.size:
            out = st.copy(out)
        else:
            self._owned = False
        return self._take(_Index(index), out, self._contiguous and _keeps_contiguous(index, self.ndim))

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        if order != "C":
            raise DerivativeError(f"reshape with order = {order!r} is not supported, expected 'C'; transpose first")
        shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
        value = self.core()
        out = st.reshape(value, shape=tuple(operator.index(n) for n in shape))
        return self._take(_Reshape(out.shape, self._contiguous), out, self._contiguous)

    def transpose(self, *axes: Any) -> Any:
        if len(axes) == 1 and (axes[0] is None or not isinstance(axes[0], (int, np.integer))):
            axes = axes[0] or ()
        order = tuple(operator.index(a) % self.ndim for a in axes) if axes else tuple(reversed(range(self.ndim)))
        if self.ndim < 2:
            order = tuple(range(self.ndim))
        out = st.transpose(self.core(), axes=order)
        return self._take(_Transpose(order), out, self._contiguous and order == tuple(range(self.ndim)))

    def ravel(self) -> Any:
        return self.reshape(-1) if self._contiguous else self.flatten()

    def flatten(self) -> Any:
        return wrap(st.reshape(st.copy(self.core()), shape=(-1,)))

    def copy(self) -> Any:
        return Array(st.copy(self.core()), owned=True)

    def view(self) -> Any:
        return self[...]

    # writing

    def __setitem__(self, index: Any, value: Any) -> None:
        index, _ = normalise_index(index)
        if isinstance(value, Array) and value._base is self and isinstance(value._view, _Index) and _same(value._view.index, index):
            value._current()  # a[i] += v: the view has been written through to this array already
            return
        self._store(index, core(value))

    def _store(self, index: tuple[Any, ...], value: Any) -> None:
        self._check_writable(value)
        current = self._current()
        distinct = _last_writes(index, self.shape) if isinstance(value, Tracer) and not st.is_basic(index) else None
        if self._base is not None:
            self._replace(st.setitem(current, value, index=index, distinct=distinct))
            return
        self._value = st.setitem(current, value, index=index, donate=self._owned, distinct=distinct)
        self._owned = True
        self._version += 1

    def _replace(self, value: Any) -> None:
        """Take a new core value of the same shape and type."""
        self._check_writable(value)
        self._current()
        if self._base is not None:
            assert self._view is not None
            self._view.write(self._base, value)
            self._current()
        else:
            self._value, self._owned = value, False
            self._version += 1

    def _check_writable(self, value: Any) -> None:
        if self._scope is not local.interceptor:
            raise StaleValueError(
                "an array made outside is assigned to inside the body of a checkpointed loop or of remat, which is run again in the "
                "reverse sweep; pass it in as part of the state and return it, or make it inside"
            )
        if isinstance(value, Tracer) and value.dtype.kind in "fc" and self.dtype.kind not in "fc":
            raise DerivativeError(
                f"a differentiable {value.dtype} value is assigned to an array of {self.dtype}, which would lose its derivative; "
                f"make the array with a floating-point type, as in zeros({self.shape}, dtype={value.dtype}), or use ds.stop_gradient"
            )

    def fill(self, value: Any) -> None:
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        self[...] = method("sort")(self, axis=axis)

    # leaving

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = self.core()
        if isinstance(value, Tracer):
            raise _no_numpy(self)
        out = np.array(value, dtype)  # a copy: an edit of it must not reach what was recorded
        return out

    def _plain(self, name: str) -> Any:
        value = self._current()
        if isinstance(value, Tracer) and value.dtype.kind in "fc":
            raise DerivativeError(
                f"{name} of a value that is being differentiated would lose its derivative; use functions of diffsim.numpy, or "
                f"{name.removesuffix('()')}(ds.stop_gradient(x)) if a constant is meant"
            )
        return bottom(value)

    def __float__(self) -> float:
        return float(self._plain("float()"))

    def __complex__(self) -> complex:
        return complex(self._plain("complex()"))

    def item(self, *index: Any) -> Any:
        return self._plain("item()").item(*index)

    def tolist(self) -> Any:
        return [v.tolist() if isinstance(v, Array) and v.ndim else v for v in self] if self.ndim else self

    def __bool__(self) -> bool:
        return bool(bottom(self._current()))

    def __int__(self) -> int:
        return int(bottom(self._current()))

    def __index__(self) -> int:
        return operator.index(bottom(self._current()))

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return round(bottom(self._current()).item())
        return method("round")(self, digits)

    def __floor__(self) -> int:
        return math.floor(bottom(self._current()))

    def __ceil__(self) -> int:
        return math.ceil(bottom(self._current()))

    def __trunc__(self) -> int:
        return math.trunc(bottom(self._current()))

    def __repr__(self) -> str:
        value = self._current()
        text = repr(bottom(value)).replace("\n", "\n  ")
        return f"<differentiated {text}>" if isinstance(value, Tracer) else text

    def __str__(self) -> str:
        return str(bottom(self._current()))

    def __format__(self, spec: str) -> str:
        value = bottom(self._current())
        return format(value[()] if self.ndim == 0 else value, spec)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __reduce__(self) -> Any:
        return np.asarray, (self.__array__(),)

    # NumPy's own functions

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return _namespace[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _own(_named(function))(*args, **kwargs)

    def __array_ufunc__(self, ufunc: Any, how: str, *args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        chosen = kwargs.pop("where", True) if out is not None and how == "__call__" else True
        found = _named(ufunc)
        result = (_own(found) if how == "__call__" else getattr(found, how))(*args, **kwargs)
        if out is None or how == "at":
            return result
        (target,) = out
        if not isinstance(target, Array):
            raise DerivativeError(
                "a differentiable value is written into a NumPy array, which would lose its derivative; make the array with "
                "diffsim.numpy inside the differentiated function"
            )
        target[...] = result if chosen is True else method("where")(chosen, result, target)
        return target


_namespace: list[Any] = [None]
"""The module `diffsim.numpy`, once it is there."""


def set_namespace(module: Any) -> None:
    """Tell arrays where NumPy's functions are found, and give them NumPy's methods."""
    _namespace[0] = module


def method(name: str) -> Callable[..., Any]:
    """A function of the namespace."""
    return getattr(_namespace[0], name)


def _named(function: Any) -> Any:
    """What a function of NumPy's does with arrays of ours: the function of that name of the namespace."""
    space = _namespace[0]
    module = (getattr(function, "__module__", None) or "numpy").removeprefix("numpy").strip(".")
    for part in module.split("."):
        if part and not part.startswith("_"):
            space = getattr(space, part, space)
    return getattr(space, function.__name__)


def _own(function: Any) -> Any:
    """A function of the namespace past its choice to be NumPy's own outside of a derivative, which would lead back here."""
    return getattr(function, "own", function)


def _no_numpy(x: Any) -> DerivativeError:
    return DerivativeError(
        f"a differentiated array of shape {x.shape} cannot become a NumPy array, which would lose its derivative; use diffsim.numpy in "
        "the differentiated function (arrays that take its values as well), or ds.stop_gradient(x) if a constant is meant"
    )


# between the two worlds


def core(x: Any) -> Any:
    """The core value of anything an array function takes: arrays, NumPy's arrays, numbers, nested lists of them."""
    kind = type(x)
    if kind is Array:
        x._owned = False
        return x._value if x._base is None else x._current()
    if kind is float or kind is int or kind is bool or kind is complex or isinstance(x, (Tracer, np.generic)):
        return x
    if isinstance(x, np.ndarray):
        return guard.private(x) if local.depth else x
    if isinstance(x, (list, tuple)):
        return _stack(x)
    return np.asarray(x)


def _stack(xs: Sequence[Any]) -> Any:
    """A nested list as an array."""
    cores = [core(x) for x in xs]
    if not any(isinstance(c, Tracer) for c in cores):
        return np.asarray(cores)
    shapes = {np.shape(c) if not isinstance(c, Tracer) else c.shape for c in cores}
    if len(shapes) > 1:
        raise ShapeError(f"a list of arrays of the shapes {sorted(shapes)} cannot become one array; give them one shape")
    dtype = np.result_type(*(np.asarray(bottom(c)).dtype for c in cores))
    rows = [st.reshape(c if hasattr(c, "dtype") else dtype.type(c), shape=(1, *next(iter(shapes)))) for c in cores]
    return st.concatenate(*rows, axis=0, lengths=(1,) * len(rows))


def wrap(value: Any) -> Any:
    """A core value as what a program gets: an `Array` while something is differentiated, NumPy's own otherwise."""
    if isinstance(value, Tracer):
        return Array(value, scalar=value.ndim == 0)
    if local.depth and isinstance(value, np.ndarray):
        return Array(value)
    return value


def fresh(value: np.ndarray) -> Any:
    """A newly made array, that nobody else refers to."""
    return Array(value, owned=True) if local.depth else value


# indices


def normalise_index(index: Any) -> tuple[tuple[Any, ...], bool]:
    """An index as a tuple of plain parts, and whether it is a basic one (integers, slices, ..., newaxis)."""
    parts = index if isinstance(index, tuple) else (index,)
    basic, out = True, []
    for part in parts:
        if isinstance(part, Array):
            part = _index_value(part)
        elif isinstance(part, slice):
            part = slice(*(_bound(b) for b in (part.start, part.stop, part.step)))
        elif isinstance(part, list):
            part = np.asarray([_index_value(p) if isinstance(p, Array) else p for p in part])
            part = part.astype(np.intp) if part.size == 0 else part
        if isinstance(part, np.ndarray):
            part = part.copy() if part.ndim else part[()]
        if isinstance(part, np.ndarray) or isinstance(part, (bool, np.bool_)):
            basic = False
        out.append(part)
    return tuple(out), basic


def _index_value(part: Array) -> Any:
    value = part._current()
    if value.dtype.kind not in "iub":
        raise IndexError(f"an index has the type {value.dtype}, expected integers or booleans; convert it with int() or astype(int)")
    return bottom(value)


def _bound(bound: Any) -> Any:
    return None if bound is None else operator.index(bound)


def _keeps_contiguous(index: tuple[Any, ...], ndim: int) -> bool:
    """Whether a basic index of a contiguous array gives a contiguous one: integers, at most one slice, then whole axes."""
    parts = [i for i in index if i is not None]
    while parts and isinstance(parts[0], (int, np.integer)):
        parts.pop(0)
    if parts and isinstance(parts[0], slice) and parts[0].step in (None, 1):
        parts.pop(0)
    return all(p is Ellipsis or p == slice(None) for p in parts)


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(type(p) is type(q) and (p is q or (not isinstance(p, np.ndarray) and p == q)) for p, q in zip(a, b, strict=True))


def _last_writes(index: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """None if an assignment writes each entry once, else 1 where a written value stays and 0 where a later one overwrites it."""
    arrays = [i for i in index if isinstance(i, np.ndarray)]
    if all(i.dtype == bool for i in arrays):
        return None
    if len(index) == 1 and len(np.unique(arrays[0] % max(shape[0], 1))) == arrays[0].size:
        return None
    places = np.arange(math.prod(shape)).reshape(shape)[index]
    flat = places.ravel()
    writers = np.empty(math.prod(shape), np.intp)
    writers[flat] = np.arange(flat.size)
    stays = writers[flat] == np.arange(flat.size)
    return None if stays.all() else stays.reshape(places.shape).astype(float)


# operators


def binary(primitive: Any) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The operator and its reflection."""

    def plain(self: Any, other: Any) -> Any:
        return wrap(primitive(core(self), core(other))) if _operand(other) else NotImplemented

    def reflected(self: Any, other: Any) -> Any:
        return wrap(primitive(core(other), core(self))) if _operand(other) else NotImplemented

    return plain, reflected


def _operand(x: Any) -> bool:
    return isinstance(x, (Array, np.ndarray, np.generic, int, float, complex, list, Tracer))


def in_place(plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`a += b`: the array takes the new value, and all that share its memory see it; a number makes a new one."""

    def update(self: Array, other: Any) -> Any:
        if self._scalar:
            return plain(self, other)
        value = core(plain(self, other))
        if value.shape != self.shape:
            raise ShapeError(f"an in-place operation gives the shape {value.shape}, expected that of the array, {self.shape}")
        if value.dtype != self.dtype:
            if not np.can_cast(value.dtype, self.dtype, "same_kind"):
                raise DerivativeError(f"an in-place operation gives {value.dtype}, which the array's {self.dtype} cannot hold; use astype first")
            value = st.astype(value, dtype=self.dtype)
        self._replace(value)
        return self

    return update


for _name, _primitive in ew.OPERATORS.items():
    _plain, _reflected = binary(_primitive)
    setattr(Array, f"__{_name}__", _plain)
    setattr(Array, f"__r{_name}__", _reflected)
    setattr(Array, f"__i{_name}__", in_place(_plain))
for _name, _primitive in ew.COMPARISONS.items():
    setattr(Array, f"__{_name}__", binary(_primitive)[0])
for _name, _primitive in {"neg": ew.negative, "pos": ew.positive, "abs": ew.absolute, "invert": ew.TABLE["invert"]}.items():
    setattr(Array, f"__{_name}__", lambda self, p=_primitive: wrap(p(core(self))))
