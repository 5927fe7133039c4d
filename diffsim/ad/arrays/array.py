"""The array that a differentiated function works with: NumPy's semantics over immutable core values.

`diffsim.ad.arrays.holder` stores the value, `diffsim.ad.arrays.conversions` makes numbers and NumPy's arrays of it. Operators and methods
are here. A method that is also a function of NumPy's is that function of `diffsim.numpy`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import Any

import numpy as np

from diffsim.ad.arrays import guard, positions
from diffsim.ad.arrays.conversions import Convertible
from diffsim.ad.arrays.flat import Flat
from diffsim.ad.arrays.holder import Holder, normalise_index
from diffsim.ad.arrays.indices import same
from diffsim.ad.arrays.masked import Masked
from diffsim.ad.arrays.namespace import method, named, namespace, own
from diffsim.ad.arrays.refusals import REFUSALS, raise_refused, refusing
from diffsim.ad.arrays.views import IndexView, PartView, ReadOnlyView, ReshapeView, TransposeView
from diffsim.ad.core import Tracer, bottom, laid_out, local
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.layout import Axes, axes_in_memory, axes_of_result, blank, is_compact, reshaped
from diffsim.base.arguments import host_array
from diffsim.base.messages import shown
from diffsim.base.quantities import plain
from diffsim.errors import ArrayTypeError, ArrayValueError, DerivativeError, ShapeError, StaleValueError


class _Method:
    """A function of `diffsim.numpy` as a method: the array is its first argument. From its first use on it stands in the class itself."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, array: Any, owner: Any) -> Any:
        function = method(self.name)
        setattr(owner, self.name, function)
        return function if array is None else MethodType(function, array)


def _operators(primitive: Any) -> tuple[Any, Any, Any]:
    """The operator, its reflection, and its form in place."""
    name = f"numpy.{getattr(primitive, 'name', 'matmul')}"
    primitive = _power if primitive is ew.power else primitive

    def plain(self: Any, other: Any) -> Any:
        try:
            return wrap(primitive(core(self), core(other))) if _is_operand(other) else NotImplemented
        except REFUSALS as error:
            raise_refused(name, error, self, other)

    def reflected(self: Any, other: Any) -> Any:
        try:
            return wrap(primitive(core(other), core(self))) if _is_operand(other) else NotImplemented
        except REFUSALS as error:
            raise_refused(name, error, other, self)

    def in_place(self: Array, other: Any) -> Any:
        """The array takes the new value, and all that share its memory see it; a number makes a new one."""
        result = plain(self, other)
        if self._scalar or result is NotImplemented:
            return result
        value = core(result)
        if value.shape != self.shape:
            raise ShapeError(
                f"an in-place operation gives the shape {value.shape}, expected that of the array, {self.shape}; write a = a + b instead"
            )
        self._replace(self._in_its_type(value))
        return self

    return plain, reflected, in_place


def _power(a: Any, b: Any) -> Any:
    """A power by the operator. That of numbers rounds otherwise than the function of NumPy, as does a replay then."""
    if local.recording and not np.ndim(laid_out(a)) and not np.ndim(laid_out(b)):
        return a**b if isinstance(a, Tracer) or not isinstance(b, Tracer) else getattr(b, "__rpow__")(a)  # noqa: B009 -- not declared
    return ew.power(a, b)


def _sign(primitive: Any) -> Callable[[Any], Any]:
    return lambda self: wrap(primitive(core(self)))


def _equality(primitive: Any, unlike: bool) -> Callable[[Any, Any], Any]:
    """A comparison that also takes objects that are no numbers (None, a text, an object that equals itself alone): no entry equals it."""
    compare = _operators(primitive)[0]

    def test(self: Array, other: Any) -> Any:
        if other is None or isinstance(other, (str, bytes)) or type(other).__eq__ is object.__eq__:
            result = np.full(self.shape, unlike)
            return wrap(result[()] if self._scalar else result)
        return compare(self, other)

    return test


def _matmul(a: Any, b: Any) -> Any:
    return core(method("matmul")(wrap(a), wrap(b)))


class Array(Convertible):
    """An array in a differentiated function. It behaves as `numpy.ndarray` does; make one with `diffsim.numpy`.

    Attributes:
        shape: lengths of the axes.
        dtype: type of the entries.
        ndim: number of axes.
        size: number of entries.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

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
    def flat(self) -> Flat:
        return Flat(self)

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
        if self.dtype.kind == "c":
            return self._complex_part(True)
        if self._scalar:
            return wrap(self.dtype.type(0))
        zeros = np.zeros_like(self._layout().imag)
        return self.linked(ReadOnlyView(lambda value: zeros, lambda layout: layout.imag))

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
            raise ArrayTypeError("len() of a number, or a loop over one, expected an array with axes; give an array, x[None]")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        for i in range(len(self)):
            yield self[i]

    def __getitem__(self, index: Any) -> Any:
        try:
            index, basic = normalise_index(index)
            if not basic and positions.is_computed(index):
                return wrap(positions.read(self.core(), index))
            if self._outside is not None and local.interceptor is None:
                there = self._outside.array[index]
                if basic and isinstance(there, np.ndarray):
                    return borrowed(there)
                return wrap(there)
            if not basic:
                return wrap(st.getitem(self._current(), index=index))
            whole, index = self._placed(index)
            part = st.getitem(whole._current(), index=index)
        except REFUSALS as error:
            raise_refused("an index [...]", error, self, index)
        rank = getattr(part, "ndim", 0)  # of an entry of an array of objects there is none
        return whole.linked(IndexView(index), part) if rank or Ellipsis in index else wrap(part)

    @refusing("reshape()")
    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        if copy is not None:
            return method("reshape")(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)
        shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
        shape = tuple(operator.index(n) for n in shape)
        if self._by_columns(order):
            return self.transpose().reshape(shape[::-1]).transpose()
        layout = reshaped(self._layout(), shape)
        return Array(st.compact(st.reshape(self.core(), shape=shape))) if layout is None else self.linked(ReshapeView(layout.shape))

    @refusing("transpose()")
    def transpose(self, *axes: Any) -> Any:
        if len(axes) == 1 and (axes[0] is None or not isinstance(axes[0], (int, np.integer))):
            axes = axes[0] or ()
        order = tuple(self._axis(a) for a in axes) if axes else tuple(reversed(range(self.ndim)))
        return self if self._scalar else self.linked(TransposeView(order))

    @refusing("ravel()")
    def ravel(self, order: str = "C") -> Any:
        axes = self._axes(order)
        return self.transpose(axes).reshape(-1) if is_compact(self._layout(), axes) else self.flatten(order)

    @refusing("flatten()")
    def flatten(self, order: str = "C") -> Any:
        axes = axes_of_result(self._layout()) if order in ("K", "k") else self._axes(order)
        return Array(st.copy(st.reshape(st.transpose(self.core(), axes=axes), shape=(-1,))), owned=True)

    @refusing("copy()")
    def copy(self, order: str = "C") -> Any:
        return self if self._scalar else Array(st.copy(st.compact(self.core(), self._axes(order))), owned=True)

    def _axis(self, axis: Any) -> int:
        number = operator.index(axis)
        if not -self.ndim <= number < self.ndim:
            raise np.exceptions.AxisError(number, self.ndim)
        return number % self.ndim

    def _axes(self, order: str, known: str = "CFAK") -> Axes:
        """The axes from the outermost to the innermost, in one of NumPy's orders."""
        axes = tuple(range(self.ndim))
        if order in ("K", "k") and "K" in known:
            return axes_in_memory(self._layout())
        return axes[::-1] if self._by_columns(order, known) else axes

    def _by_columns(self, order: str, known: str = "CFA") -> bool:
        """True if an order, one of the known ones, goes along the first axis first."""
        letter = "C" if order is None else order.upper() if isinstance(order, str) else order
        if letter not in tuple(known):
            raise ValueError(f"order = {shown(order)}, expected {', '.join(map(repr, known))}")
        return letter == "F" or (letter == "A" and self._layout().flags.fnc)

    def view(self) -> Any:
        return self[...]

    # writing

    @refusing("an assignment a[...] = value")
    def __setitem__(self, index: Any, value: Any) -> None:
        whole: Holder = self
        index, basic = normalise_index(index)
        if basic:
            whole, index = self._placed(index)
        if isinstance(value, Array) and value._base is whole and isinstance(value._view, IndexView) and same(value._view.index, index):
            value._check_writable(None)
            return  # a[i] += v: the view has been written through to this array already
        whole._store(index, core(value))

    def fill(self, value: Any) -> None:
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        self[...] = method("sort")(self, axis=axis)

    # operators

    __add__, __radd__, __iadd__ = _operators(ew.add)
    __sub__, __rsub__, __isub__ = _operators(ew.subtract)
    __mul__, __rmul__, __imul__ = _operators(ew.multiply)
    __truediv__, __rtruediv__, __itruediv__ = _operators(ew.divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = _operators(ew.TABLE["floor_divide"])
    __mod__, __rmod__, __imod__ = _operators(ew.mod)
    __pow__, __rpow__, __ipow__ = _operators(ew.power)
    __matmul__, __rmatmul__, __imatmul__ = _operators(_matmul)
    __and__, __rand__, __iand__ = _operators(ew.TABLE["bitwise_and"])
    __or__, __ror__, __ior__ = _operators(ew.TABLE["bitwise_or"])
    __xor__, __rxor__, __ixor__ = _operators(ew.TABLE["bitwise_xor"])
    __lshift__, __rlshift__, __ilshift__ = _operators(ew.TABLE["left_shift"])
    __rshift__, __rrshift__, __irshift__ = _operators(ew.TABLE["right_shift"])
    __neg__, __pos__, __abs__, __invert__ = map(_sign, (ew.negative, ew.positive, ew.absolute, ew.TABLE["invert"]))
    __lt__, __le__, __gt__, __ge__ = (_operators(compare)[0] for compare in (ew.less, ew.less_equal, ew.greater, ew.greater_equal))
    __eq__ = _equality(ew.equal, unlike=False)
    __ne__ = _equality(ew.not_equal, unlike=True)

    def __divmod__(self, other: Any) -> Any:
        return method("divmod")(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return method("divmod")(other, self)

    # functions of NumPy's that are methods too

    all, any, nonzero, argmax, argmin = map(_Method, ("all", "any", "nonzero", "argmax", "argmin"))
    sum, prod, mean, std, var, max, min = map(_Method, ("sum", "prod", "mean", "std", "var", "max", "min"))
    cumsum, cumprod, trace, diagonal, dot = map(_Method, ("cumsum", "cumprod", "trace", "diagonal", "dot"))
    choose, put, repeat, take, argsort, searchsorted = map(_Method, ("choose", "put", "repeat", "take", "argsort", "searchsorted"))
    clip, round, squeeze, swapaxes = map(_Method, ("clip", "round", "squeeze", "swapaxes"))

    def astype(self, dtype: Any, order: str = "K", *, copy: bool = True) -> Any:
        return method("asarray")(method("astype")(self, dtype, copy=copy), order=order)

    def compress(self, condition: Any, axis: Any = None) -> Any:
        return method("compress")(condition, self, axis)

    def conjugate(self) -> Any:
        """A real array itself, as NumPy's method (and unlike its function) gives it."""
        return method("conjugate")(self) if self.dtype.kind == "c" else self

    conj = conjugate

    # conversions

    def tolist(self) -> Any:
        return [v.tolist() if isinstance(v, Array) and v.ndim else v for v in self] if self.ndim else self

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return round(bottom(self._current()).item())
        return method("round")(self, digits)

    def __copy__(self) -> Any:
        return self.copy("K")

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy("K")

    # NumPy's own functions, called with this array

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return namespace()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return own(_meaning(function))(*args, **kwargs)

    def __array_ufunc__(self, ufunc: Any, how: str, *args: Any, **kwargs: Any) -> Any:
        if local.depth and not kwargs and how == "__call__":  # an operator with an array of NumPy's on its left
            return _meaning(ufunc)(*args)
        out = kwargs.pop("out", None)
        chosen = kwargs.pop("where", True) if out is not None and how == "__call__" else True
        meaning = _meaning(ufunc)
        result = (own(meaning) if how == "__call__" else getattr(meaning, how))(*args, **kwargs)
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


_OPERANDS = (Array, np.ndarray, np.generic, int, float, complex, list, tuple, Tracer)


def _is_operand(x: Any) -> bool:
    """True for what NumPy's operators take, and for arrays of other packages."""
    return isinstance(x, _OPERANDS) or hasattr(x, "__dlpack__")


def _meaning(function: Any) -> Any:
    """The meaning of a function of NumPy's for arrays of diffsim: the function of that name of the namespace."""
    return named(function) or _of_values(function)


def _of_values(function: Any) -> Callable[..., Any]:
    """A function of another library: it works on values that are not differentiated."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapped(function, args, kwargs, lambda a: np.asarray(a) if isinstance(a, Array) else a)

    return call


def wrapped(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], plain: Callable[[Any], Any]) -> Any:
    """The result of a function of plain values; a result that shares memory with an argument is a view of it that cannot be assigned to.

    Args:
        function: NumPy's, or another library's.
        args: its arguments, which may be arrays of diffsim.
        kwargs: further ones.
        plain: from an argument to the values that the function gets.
    """
    values = [plain(a) for a in args]
    result = function(*values, **{key: plain(a) for key, a in kwargs.items()})
    if not isinstance(result, tuple):
        return _shared(result, function, args, values, kwargs, lambda again: again)
    parts = {id(part): (k, part) for k, part in enumerate(result)}  # one array may be there twice
    arrays = {key: _shared(part, function, args, values, kwargs, operator.itemgetter(k)) for key, (k, part) in parts.items()}
    return tuple(arrays[id(part)] for part in result)


def _shared(found: Any, function: Any, args: Sequence[Any], given: Sequence[Any], kwargs: dict[str, Any], choose: Any) -> Any:
    if not local.depth or not isinstance(found, np.ndarray):
        return wrap(found)
    for place, (array, values) in enumerate(zip(args, given, strict=True)):
        if not isinstance(values, np.ndarray) or not np.may_share_memory(found, values):
            continue
        if not isinstance(array, Array):
            return borrowed(found)

        def read(value: Any, place: int = place) -> Any:
            again = choose(function(*given[:place], bottom(value), *given[place + 1 :], **kwargs))
            if again.shape != found.shape:
                raise StaleValueError(
                    f"a view of shape {found.shape} that {function.__name__} made is read after its array was edited so that it would "
                    f"have the shape {again.shape}; call {function.__name__} again"
                )
            return again

        return array.linked(ReadOnlyView(read, lambda layout: blank(found.shape, found.dtype, found.strides)), found)
    return wrap(found)


# between the two worlds


def core(x: Any) -> Any:
    """The core value of anything an array function takes: arrays, NumPy's arrays, numbers, nested lists of them."""
    kind = type(x)
    if kind is Array:
        x._owned = False
        return x._current()
    if kind is float or kind is int or kind is bool or kind is complex or isinstance(x, (Tracer, np.generic, Masked)):
        return x
    if type(x) is not np.ndarray and not isinstance(x, (list, tuple)):
        x = plain("an operand of an array program", x)
    if isinstance(x, np.ndarray):
        return guard.private(x) if local.depth else x
    if isinstance(x, (list, tuple)):
        return _stack(x)
    values = host_array("an operand of an array program", x) if hasattr(x, "__dlpack__") else np.asarray(x)
    return core(values)  # which may share the memory of a buffer or of another library's array


def _stack(xs: Sequence[Any]) -> Any:
    """A nested list as an array."""
    cores = [core(x) for x in xs]
    if not any(isinstance(c, Tracer) for c in cores):
        try:
            return np.asarray(cores)
        except ValueError as error:
            raise ArrayValueError(
                f"a list of {len(xs)} parts cannot become an array, expected rows of one length; give such rows, or arrays of one shape"
            ) from error
    shapes = {np.shape(c) if not isinstance(c, Tracer) else c.shape for c in cores}
    if len(shapes) > 1:
        raise ShapeError(f"a list of arrays of the shapes {sorted(shapes)} cannot become one array; give them one shape")
    dtype = np.result_type(*(np.asarray(laid_out(c)).dtype for c in cores))
    rows = [st.reshape(c if hasattr(c, "dtype") else dtype.type(c), shape=(1, *next(iter(shapes)))) for c in cores]
    return st.compact(st.concatenate(*rows, axis=0, lengths=(1,) * len(rows)))


def wrap(value: Any) -> Any:
    """A core value as a program gets it: an `Array` while something is differentiated, NumPy's own otherwise.

    NumPy's numbers stay the same, but for bodies that are run again: there the same number may be traced in another run, and the
    powers of NumPy's numbers and of its arrays differ in the last bit.
    """
    if isinstance(value, Tracer):
        return Array(value, scalar=not value.shape)
    if local.depth:
        if isinstance(value, np.ndarray):
            return Array(value)
        if local.interceptor is not None and isinstance(value, np.inexact):  # a body that is run again sees the same types each time
            return Array(value, scalar=True)
    return value


def borrowed(array: np.ndarray) -> Array:
    """A NumPy array that a program has from somewhere else: it is read anew when it was edited, and never assigned to."""
    return Array._borrowing(array)


def fresh(value: np.ndarray) -> Any:
    """A newly made array, that nobody else refers to."""
    return Array(value, owned=True) if local.depth else value
