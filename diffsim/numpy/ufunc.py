"""NumPy's universal functions: entry by entry, with broadcasting, and their methods."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array, core, wrap
from diffsim.ad.arrays.refusals import refused, refusing
from diffsim.ad.core import Primitive, Tracer, bottom, local
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops.structure import astype, concatenate, getitem, reshape
from diffsim.errors import DerivativeError, DiffsimError
from diffsim.numpy.calling.dispatch import of_values, one_axis, value_of
from diffsim.numpy.calling.rehearsal import FAILURES, explain, rehearse, require_alike, unlike_numpy
from diffsim.numpy.shapes.creation import asarray


class ufunc:  # noqa: N801 -- NumPy's name for it
    """A function that works entry by entry and broadcasts its arguments. Outside of a derivative it is NumPy's own.

    Args:
        name: NumPy's.
        primitive: the operation inside a derivative; by default that of the same name.

    Attributes:
        nin: number of arguments.
        reduction: the operation of `reduce`, if any.
        running: the operation of `accumulate`, if any.
    """

    def __init__(self, name: str, primitive: Primitive | None = None) -> None:
        self._numpy = getattr(np, name)
        self._primitive = primitive or ew.TABLE[name]
        self.__name__ = self.__qualname__ = name
        self.__doc__ = f"As `numpy.{name}`, differentiable."
        self.nin = self._numpy.nin
        self.reduction: Callable[..., Any] | None = None
        self.running: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__}>"

    def __call__(self, *args: Any, **options: Any) -> Any:
        if not local.depth:
            return self._numpy(*args, **options)
        if options or len(args) != self.nin:
            return self.own(*args, **options)
        try:
            return wrap(self._primitive(*map(core, args)))
        except FAILURES as error:
            if isinstance(error, DiffsimError):
                raise
            name = f"numpy.{self.__name__}"
            raise refused(name, unlike_numpy(name, self._numpy, (args, options), error), args) from error

    @refusing("a universal function")
    def own(self, *args: Any, **options: Any) -> Any:
        """The function inside a derivative, with all that NumPy's takes."""
        out, where = options.get("out"), options.get("where", True)
        if out is None and len(args) == self.nin and where is not True and not np.all(bottom(core(where))):
            raise DerivativeError(f"{self.__name__} with where= and no out= leaves entries undefined; give out=, or use numpy.where")
        try:
            rehearse(f"numpy.{self.__name__}", self._numpy, args, options)
        except Exception:
            explain(self._computed, args, options)
            raise
        return self._computed(*args, **options)

    def _computed(self, *args: Any, **options: Any) -> Any:
        out, where = options.get("out"), options.get("where", True)
        if len(args) == self.nin + 1:
            *args, out = args  # type: ignore[assignment]
        if options.get("signature") is not None:
            raise DerivativeError(f"{self.__name__} inside of a derivative takes no signature=; give dtype=, or convert its arguments")
        (out,) = out if isinstance(out, tuple) else (out,)
        if out is None:
            value = self._converted(args, options)
            order = options.get("order") or "K"
            return wrap(value) if order == "K" else asarray(wrap(value), order=order)  # type: ignore[arg-type]
        if not isinstance(out, Array):
            raise DerivativeError(
                "a differentiable value is written into a NumPy array, which would lose its derivative; make the array with "
                "diffsim.numpy inside the differentiated function"
            )
        value = self._converted(args, options)
        out[...] = wrap(value if where is True else ew.where(core(where), value, core(out)))
        return out

    def _converted(self, args: Any, options: dict[str, Any]) -> Any:
        """The core value in the types that NumPy's choice of a loop gives."""
        dtype = options.get("dtype")
        if dtype is None:
            return self._primitive(*map(core, args))
        if np.dtype(dtype) == object:
            raise DerivativeError(f"{self.__name__} inside of a derivative takes no dtype=object, expected a type of numbers; leave it out")
        values = [value_of(a) for a in args]
        kinds = tuple(type(a) if type(a) in (int, float, complex) else v.dtype for a, v in zip(args, values, strict=True))
        signature = (*(None,) * self.nin, np.dtype(dtype))
        types = self._numpy.resolve_dtypes((*kinds, None), signature=signature, casting=options.get("casting", "same_kind"))
        value = self._primitive(*(_of_type(v, t) for v, t in zip(values, types, strict=False)))
        return _of_type(value, types[-1])

    @refusing("outer() of a universal function")
    def outer(self, a: Any, b: Any) -> Any:
        """The function of every pair of entries."""
        forms = self._rehearsed("outer", a, b)
        x, y = value_of(a), value_of(b)
        result = self(wrap(reshape(x, shape=(*x.shape, *(1,) * y.ndim))), b)
        if forms is not None:
            require_alike(f"numpy.{self.__name__}.outer", (result.shape, result.dtype), forms)
        return result

    @refusing("reduce() of a universal function")
    def reduce(self, array: Any, axis: Any = 0, *further: Any, **options: Any) -> Any:
        """Entries along axes combined from first to last."""
        self._rehearsed("reduce", array, axis, *further, **options)
        options.update(zip(("dtype", "out", "keepdims", "initial", "where"), further, strict=False))
        if self.reduction is None:
            if _is_constant(array):
                return of_values(self._numpy.reduce)(array, axis, **options)
            raise DerivativeError(f"{self.__name__}.reduce is not supported; use ds.reduce with an operator")
        dtype = options.pop("dtype", None)
        if options.pop("out", None) is not None:
            raise DerivativeError(f"{self.__name__}.reduce inside of a derivative takes no out=; assign its result")
        if self.__name__ in ("add", "multiply"):
            options["dtype"] = dtype
        elif dtype is not None:
            array = wrap(_of_type(value_of(array), np.dtype(dtype)))
        return self.reduction(array, axis=axis, **options)

    @refusing("reduceat() of a universal function")
    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        """Entries combined from each index to the next one, the last to the end; an index not below the next one gives its entry."""
        self._rehearsed("reduceat", array, indices, axis, dtype, out)
        if out is not None:
            raise DerivativeError(f"{self.__name__}.reduceat inside of a derivative takes no out=; assign its result")
        value = value_of(array)
        axis = one_axis(axis, value.ndim)
        length, starts = value.shape[axis], [operator.index(i) for i in np.asarray(bottom(core(indices))).tolist()]
        if not starts or (self.reduction is None and _is_constant(array)):
            return of_values(self._numpy.reduceat)(array, indices, axis, dtype)
        if any(not 0 <= k < length for k in starts):
            raise IndexError(f"indices {starts} of {self.__name__}.reduceat, expected 0 to {length - 1}")
        lead = (slice(None),) * axis
        cuts = [slice(a, b if b > a else a + 1) for a, b in zip(starts, [*starts[1:], length], strict=True)]
        parts = [value_of(self.reduce(wrap(getitem(value, index=(*lead, cut))), axis, dtype, keepdims=True)) for cut in cuts]
        return wrap(concatenate(*parts, axis=axis, lengths=(1,) * len(parts)))

    @refusing("accumulate() of a universal function")
    def accumulate(self, array: Any, axis: Any = 0, dtype: Any = None, out: None = None) -> Any:
        """Running results along an axis."""
        self._rehearsed("accumulate", array, axis, dtype, out)
        if (self.running is None or value_of(array).dtype.char not in "fdil?q") and _is_constant(array) and out is None:
            return of_values(self._numpy.accumulate)(array, axis, dtype)
        if self.running is None:
            raise DerivativeError(f"{self.__name__}.accumulate is not supported; use ds.scan with an operator")
        (axis,) = axis if isinstance(axis, tuple) else (axis,)
        if out is not None:
            raise DerivativeError(f"{self.__name__}.accumulate inside of a derivative takes no out=; assign its result")
        if self.__name__ in ("add", "multiply"):
            return self.running(array, axis=axis, dtype=dtype)
        return self.running(array if dtype is None else wrap(_of_type(value_of(array), np.dtype(dtype))), axis=axis)

    @refusing("at() of a universal function")
    def at(self, a: Any, indices: Any, b: Any = None) -> None:
        """In place, as often as an entry is named; `add` and `subtract` only."""
        if not isinstance(a, Array):
            if isinstance(b, Array) and isinstance(b.core(), Tracer):
                raise DerivativeError(
                    "differentiated values are added to a NumPy array, which would lose their derivative; make the array with "
                    "diffsim.numpy inside the differentiated function"
                )
            self._numpy.at(a, bottom(core(indices)) if isinstance(indices, Array) else indices, *(() if b is None else (bottom(core(b)),)))
        elif self.__name__ not in ("add", "subtract"):
            raise DerivativeError(f"{self.__name__}.at is not supported; use ds.reduce_by_index")
        else:
            value = value_of(b)
            if value.dtype != a.dtype and not np.can_cast(value.dtype, a.dtype, "same_kind"):
                raise DerivativeError(f"{value.dtype} is added to an array of {a.dtype}, expected values of its kind; convert one of them")
            value = _of_type(value, a.dtype)
            if a.dtype.kind == "b":
                raise DerivativeError(f"{self.__name__}.at of an array of {a.dtype}, expected numbers; convert it")
            a.add_at(indices, value if self.__name__ == "add" else -value)

    def _rehearsed(self, method: str, *args: Any, **options: Any) -> Any:
        """The result or the error of NumPy's method: see `rehearse`."""
        if local.depth:
            return rehearse(f"numpy.{self.__name__}.{method}", getattr(self._numpy, method), args, options)
        return None


def _is_constant(x: Any) -> bool:
    """True if results computed from `x` have no derivative: `x` is not differentiated, or of whole numbers."""
    value = value_of(x)
    return not isinstance(value, Tracer) or value.dtype.kind in "biu"


def _of_type(value: Any, dtype: Any) -> Any:
    return value if value.dtype == dtype else astype(value, dtype=dtype)
