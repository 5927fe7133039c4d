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
from diffsim.ad.core import Interceptor, Tracer, bottom, is_plain, local
from diffsim.ad.indices import Index, compose, last_writes, normalise, same
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops import structure as st
from diffsim.ad.views import IndexView, PartView, ReadOnlyView, ReshapeView, TransposeView, View, blank, reshaped
from diffsim.errors import DerivativeError, ShapeError, StaleValueError


class Array:
    """An array in a differentiated function. It behaves as `numpy.ndarray` does; make one with `diffsim.numpy`.

    Attributes:
        shape: lengths of the axes.
        dtype: type of the entries.
        ndim: number of axes.
        size: number of entries.
    """

    __slots__ = ("__weakref__", "_base", "_owned", "_root", "_scalar", "_scope", "_seen", "_strides", "_value", "_version", "_view")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any, *, owned: bool = False, scalar: bool = False, strides: tuple[int, ...] | None = None) -> None:
        self._value = value
        self._owned = owned
        self._scalar = scalar
        self._strides = strides  # NumPy's, if they are not those of the value
        self._version = 0
        self._base: Array | None = None
        self._root: Array | None = None  # the last base, whose version all views compare theirs with
        self._view: Any = None  # how it was taken from its base
        self._seen = 0
        self._scope: Interceptor | None = local.interceptor

    # reading

    def _current(self) -> Any:
        """The present core value, without giving up ownership."""
        root = self._root
        if local.interceptor is not None:
            guard.note_outside(self if root is None else root)
        if root is not None and self._seen != root._version:
            self._read_again(root)
        return self._value

    def _read_again(self, root: Array) -> None:
        """Views of views are read from the first stale one on, without recursion."""
        stale = [self]
        while (base := stale[-1]._base) is not None and base is not root and base._seen != root._version:
            stale.append(base)
        before, local.interceptor = local.interceptor, root._scope  # the views belong there, wherever they are read
        try:
            for array in reversed(stale):
                assert array._base is not None
                array._value, array._seen = array._base._lent(array._view.read(array._base._value)), root._version
        finally:
            local.interceptor = before

    def _lent(self, part: Any) -> Any:
        """The value of a view. A small one is a copy, so that the memory of the array can still be written in place."""
        if self._owned and part.size * 4 <= self.size:
            return st.copy(part)
        self._owned = False
        return part

    def core(self) -> Any:
        """The present core value, for an operation that may keep it."""
        self._owned = False
        return self._current()

    def linked(self, view: View, part: Any = None) -> Array:
        """A view of the array, `part` being its value if it has been read. That of a number is an array of its own."""
        value = self._current()
        made = Array(self._lent(view.read(value) if part is None else part))
        if not self._scalar or isinstance(view, ReadOnlyView):
            made._base, made._view = self, view
            made._root = self if self._root is None else self._root
            made._seen = made._root._version
        return made

    def _layout(self) -> np.ndarray:
        """The strides that NumPy's array would have (see `View`)."""
        views, array = [], self
        while array._base is not None:
            views.append(array._view)
            array = array._base
        value = bottom(array._value)
        found = blank(value.shape, value.dtype, array._strides or value.strides)
        for view in reversed(views):
            found = view.layout(found)
        return found

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
    def flat(self) -> _Flat:
        return _Flat(self)

    @flat.setter
    def flat(self, values: Any) -> None:
        self.flat[:] = values

    @property
    def real(self) -> Any:
        return self._complex_part(False) if self.dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Any:
        return self._complex_part(True) if self.dtype.kind == "c" else wrap(np.zeros(self.shape, self.dtype)[()])

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind != "c":
            raise DerivativeError(f"an array of {self.dtype} has no imaginary part to assign to; make it with a complex type")
        self.imag[...] = value

    def _complex_part(self, imaginary: bool) -> Any:
        view = PartView(imaginary)
        return wrap(view.read(self.core())) if self._scalar else self.linked(view)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        for i in range(len(self)):
            yield self[i]

    def __getitem__(self, index: Any) -> Any:
        index, basic = normalise_index(index)
        if not basic:
            return wrap(st.getitem(self._current(), index=index))
        whole, index = self._placed(index)
        part = st.getitem(whole._current(), index=index)
        return whole.linked(IndexView(index), part) if part.ndim or Ellipsis in index else wrap(part)

    def _placed(self, index: Index) -> tuple[Array, Index]:
        """The array, and the place in it, of what is at a basic index: a view of a view is one of the base."""
        if isinstance(self._view, IndexView):
            assert self._base is not None
            composed = compose(self._base.shape, self._view.index, index)
            if composed is not None:
                return self._base, composed
        return self, index

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        if order != "C":
            raise DerivativeError(f"reshape with order = {order!r} is not supported, expected 'C'; transpose first")
        shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
        shape = tuple(operator.index(n) for n in shape)
        layout = reshaped(self._layout(), shape)
        return Array(st.reshape(self.core(), shape=shape)) if layout is None else self.linked(ReshapeView(layout.shape))

    def transpose(self, *axes: Any) -> Any:
        if len(axes) == 1 and (axes[0] is None or not isinstance(axes[0], (int, np.integer))):
            axes = axes[0] or ()
        order = tuple(operator.index(a) % self.ndim for a in axes) if axes else tuple(reversed(range(self.ndim)))
        return self if self._scalar else self.linked(TransposeView(order))

    def ravel(self) -> Any:
        return self.reshape(-1) if self._layout().flags.c_contiguous else self.flatten()

    def flatten(self) -> Any:
        return wrap(st.reshape(st.copy(self.core()), shape=(-1,)))

    def copy(self) -> Any:
        return self if self._scalar else Array(st.copy(self.core()), owned=True)

    def view(self) -> Any:
        return self[...]

    # writing

    def __setitem__(self, index: Any, value: Any) -> None:
        whole, (index, basic) = self, normalise_index(index)
        if basic:
            whole, index = self._placed(index)
        if isinstance(value, Array) and value._base is whole and isinstance(value._view, IndexView) and same(value._view.index, index):
            value._check_writable(None)
            return  # a[i] += v: the view has been written through to this array already
        whole._store(index, core(value))

    def _store(self, index: Index, value: Any) -> None:
        """Assign at an index."""
        self._check_writable(value)
        current = self._current()
        distinct = None
        if isinstance(value, Tracer):
            if not _is_mask_of(index, self.ndim):  # NumPy refuses them there
                value = _without_leading_ones(value)
            distinct = None if st.is_basic(index) else last_writes(index, self.shape)
        if self._base is not None:
            self._replace(st.setitem(current, value, index=index, distinct=distinct))
            return
        if not self._owned and self._strides is None:
            self._strides = bottom(current).strides  # the copy may have others
        self._value = st.setitem(current, value, index=index, donate=self._owned, distinct=distinct)
        self._owned = True
        self._version += 1

    def _replace(self, value: Any) -> None:
        """Take a new core value of the same shape and type, and hand it on to the bases."""
        self._check_writable(value)
        array, root, changed = self, self._root, [(self, value)]
        if root is None:
            self._take(value)
            return
        while (base := array._base) is not root:
            assert base is not None
            value = array._view.put(base._current(), value)
            changed.append((base, value))
            array = base
        if isinstance(array._view, IndexView):
            root._store(array._view.index, value)
        else:
            root._take(array._view.put(root._current(), value))
        for array, value in changed:
            array._value, array._seen = value, root._version

    def add_at(self, index: Any, value: Any) -> None:
        """Add at an index, as often as an entry is named there."""
        value = np.asarray(value) if is_plain(value) else value
        index, _ = normalise_index(index)
        self._replace(self._in_its_type(st.index_add(self.core(), _without_leading_ones(value), index=index)))

    def _in_its_type(self, value: Any) -> Any:
        """The result of an operation in place."""
        if value.dtype == self.dtype:
            return value
        if not np.can_cast(value.dtype, self.dtype, "same_kind"):
            raise DerivativeError(
                f"an in-place operation gives {value.dtype}, which the array's {self.dtype} cannot hold; use astype first"
            )
        return st.astype(value, dtype=self.dtype)

    def _take(self, value: Any) -> None:
        """Take a new core value as a base, in memory of the same order."""
        if bottom(value).strides != bottom(self._value).strides:
            self._store((Ellipsis,), value)
            return
        self._value, self._owned = value, False
        self._version += 1

    def _check_writable(self, value: Any) -> None:
        if self._scalar:
            raise TypeError("a number cannot be assigned to; make an array of it with diffsim.numpy.array(x)")
        root = self if self._root is None else self._root
        if root._scope is not local.interceptor:
            raise StaleValueError(
                "an array made outside is assigned to inside the body of a checkpointed loop or of remat, which is run again in the "
                "reverse sweep; pass it in as part of the state and return it, or make it inside"
            )
        if isinstance(value, Tracer) and value.dtype.kind in "fc" and self.dtype.kind not in "fc":
            raise DerivativeError(
                f"a differentiable {value.dtype} value is assigned to an array of {self.dtype}, which would lose its derivative; "
                f"make the array with a floating-point type, as in zeros({self.shape}, dtype={value.dtype}), or use ds.stop_gradient"
            )
        array: Array | None = self
        while array is not None and array._view is not None:
            array._view.check_writable()
            array = array._base

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
                f"{name} of a differentiated value, as math.sin(x) and storing it in an array of NumPy's need, would lose its derivative; "
                "use functions and arrays of diffsim.numpy, or ds.stop_gradient(x) if a constant is meant"
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
    return getattr(space, function.__name__, None) or _of_values(function)


def _of_values(function: Any) -> Callable[..., Any]:
    """A function of another library: it works on values that are not differentiated."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return wrap(function(*(np.asarray(a) if isinstance(a, Array) else a for a in args), **kwargs))

    return call


def _own(function: Any) -> Any:
    """A function of the namespace past its choice to be NumPy's own outside of a derivative, which would lead back here."""
    return getattr(function, "own", function)


def _no_numpy(x: Any) -> DerivativeError:
    return DerivativeError(
        f"a differentiated array of shape {x.shape} cannot become a NumPy array, which would lose its derivative; use diffsim.numpy in "
        "the differentiated function (arrays that take its values as well), ds.stop_gradient(x) if a constant is meant, or for a function "
        "of another library ds.custom_vjp, where it is called with NumPy's arrays"
    )


# between the two worlds


def core(x: Any) -> Any:
    """The core value of anything an array function takes: arrays, NumPy's arrays, numbers, nested lists of them."""
    kind = type(x)
    if kind is Array:
        x._owned = False
        return x._current()
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


def normalise_index(index: Any) -> tuple[Index, bool]:
    """An index as a tuple of plain parts, and whether it makes a view."""
    return normalise(index, _index_value)


def _index_value(part: Any) -> Any:
    if not isinstance(part, Array):
        return part
    value = part._current()
    if value.dtype.kind not in "iub":
        raise IndexError(f"an index has the type {value.dtype}, expected integers or booleans; convert it with int() or astype(int)")
    return bottom(value)


def _is_mask_of(index: Index, rank: int) -> bool:
    mask = index[0] if len(index) == 1 else None
    return isinstance(mask, np.ndarray) and mask.dtype == bool and mask.ndim == rank


def _without_leading_ones(value: Any) -> Any:
    """The value of an assignment with no more axes than broadcasting needs."""
    shape = list(value.shape)
    while shape and shape[0] == 1:
        del shape[0]
    return value if len(shape) == value.ndim else st.reshape(value, shape=tuple(shape))


class _Flat:
    """What `x.flat` gives: the entries in row-major order, as NumPy's iterator does."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        found = self._all()[index]
        return found.copy() if isinstance(found, Array) else found

    def __setitem__(self, index: Any, value: Any) -> None:
        self._all()[index] = value

    def _all(self) -> Array:
        return self._array.linked(ReshapeView((self._array.size,)))


# operators


def binary(primitive: Any) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The operator and its reflection."""

    def plain(self: Any, other: Any) -> Any:
        return wrap(primitive(core(self), core(other))) if _operand(other) else NotImplemented

    def reflected(self: Any, other: Any) -> Any:
        return wrap(primitive(core(other), core(self))) if _operand(other) else NotImplemented

    return plain, reflected


def _operand(x: Any) -> bool:
    return isinstance(x, (Array, np.ndarray, np.generic, int, float, complex, list, tuple, Tracer))


def in_place(plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`a += b`: the array takes the new value, and all that share its memory see it; a number makes a new one."""

    def update(self: Array, other: Any) -> Any:
        if self._scalar:
            return plain(self, other)
        result = plain(self, other)
        if result is NotImplemented:
            return result
        value = core(result)
        if value.shape != self.shape:
            raise ShapeError(f"an in-place operation gives the shape {value.shape}, expected that of the array, {self.shape}")
        self._replace(self._in_its_type(value))
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
