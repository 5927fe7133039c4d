"""NumPy's universal functions: entry by entry, with broadcasting, and their methods."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from diffsim.ad.array import Array, core, wrap
from diffsim.ad.core import Primitive, Tracer, local
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops.structure import astype, concatenate, getitem, reshape
from diffsim.errors import DerivativeError
from diffsim.numpy.dispatch import one_axis, value_of


class ufunc:  # noqa: N801 -- NumPy's name for it
    """A function that works entry by entry and broadcasts its arguments. Outside of a derivative it is NumPy's own.

    Args:
        name: NumPy's.
        primitive: what it does inside a derivative; by default that of the same name.

    Attributes:
        nin: number of arguments.
        reduction: what `reduce` does, if anything.
        running: what `accumulate` does, if anything.
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
        return wrap(self._primitive(*map(core, args)))

    def own(self, *args: Any, out: Any = None, where: Any = True, dtype: Any = None, casting: str = "same_kind") -> Any:
        """The function inside a derivative, with all that NumPy's takes."""
        if len(args) == self.nin + 1 and out is None:
            *args, out = args  # type: ignore[assignment]
        if len(args) != self.nin:
            raise TypeError(f"{self.__name__} takes {self.nin} arguments, got {len(args)}")
        values = [core(a) for a in args] if dtype is None else [astype(value_of(a), dtype=np.dtype(dtype)) for a in args]
        value = self._primitive(*values)
        if out is None:
            if where is not True:
                raise DerivativeError(f"{self.__name__} with where= and no out= leaves entries undefined; give out=, or use numpy.where")
            return wrap(value)
        (out,) = out if isinstance(out, tuple) else (out,)
        out[...] = wrap(value if where is True else ew.where(core(where), value, core(out)))
        return out

    def outer(self, a: Any, b: Any) -> Any:
        """The function of every pair of entries."""
        x, y = value_of(a), value_of(b)
        return self(wrap(reshape(x, shape=(*x.shape, *(1,) * y.ndim))), b)

    def reduce(self, array: Any, axis: Any = 0, **options: Any) -> Any:
        """Entries along axes combined from first to last."""
        if self.reduction is None:
            raise DerivativeError(f"{self.__name__}.reduce is not supported; use ds.reduce with an operator")
        return self.reduction(array, axis=axis, **options)

    def reduceat(self, array: Any, indices: Any, axis: int = 0) -> Any:
        """Entries combined from each index to the next one, the last to the end; an index not below the next one gives its entry."""
        value = value_of(array)
        axis = one_axis(axis, value.ndim)
        length, starts = value.shape[axis], [operator.index(i) for i in np.asarray(indices).tolist()]
        if any(not 0 <= k < length for k in starts):
            raise IndexError(f"indices {starts} of {self.__name__}.reduceat, expected 0 to {length - 1}")
        lead = (slice(None),) * axis
        cuts = [slice(a, b if b > a else a + 1) for a, b in zip(starts, [*starts[1:], length], strict=True)]
        parts = [value_of(self.reduce(wrap(getitem(value, index=(*lead, cut))), axis=axis, keepdims=True)) for cut in cuts]
        return wrap(concatenate(*parts, axis=axis, lengths=(1,) * len(parts)))

    def accumulate(self, array: Any, axis: int = 0) -> Any:
        """Running results along an axis."""
        if self.running is None:
            raise DerivativeError(f"{self.__name__}.accumulate is not supported; use ds.scan with an operator")
        return self.running(array, axis=axis)

    def at(self, a: Any, indices: Any, b: Any = None) -> None:
        """In place, as often as an entry is named; `add` and `subtract` only."""
        if not isinstance(a, Array):
            if isinstance(b, Array) and isinstance(b.core(), Tracer):
                raise DerivativeError(
                    "differentiated values are added to a NumPy array, which would lose their derivative; make the array with "
                    "diffsim.numpy inside the differentiated function"
                )
            self._numpy.at(a, indices, b)
        elif self.__name__ not in ("add", "subtract"):
            raise DerivativeError(f"{self.__name__}.at is not supported; use ds.reduce_by_index")
        else:
            a.add_at(indices, core(b) if self.__name__ == "add" else -core(b))
