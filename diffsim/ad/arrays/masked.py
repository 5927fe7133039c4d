"""Entries where a mask holds, in a program that does not know how many these are: x[mask] of a tile program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diffsim.ad.arrays.guard import caller
from diffsim.ad.core import Primitive, bind, bottom
from diffsim.ad.ops.elementwise import TABLE, where
from diffsim.ad.ops.structure import add_up, reshape
from diffsim.errors import TileError

REMEDY = "compute with the whole array, and choose with where(mask, a, b)"


class Masked(np.lib.mixins.NDArrayOperatorsMixin):
    """Entries of an array where a mask holds.

    Functions of entries apply to it, with numbers and with entries of the same mask. It can be added up, and assigned where the same
    mask holds: `x[mask] = np.sin(y[mask])`. It has no shape.

    Attributes:
        whole: core value of the array.
        mask: core value of the mask.
    """

    __slots__ = ("mask", "whole")

    def __init__(self, whole: Any, mask: Any) -> None:
        self.whole, self.mask = whole, mask

    @property
    def dtype(self) -> Any:
        return self.whole.dtype

    def of(self, mask: Any) -> Any:
        """The whole array, for entries of this mask only."""
        if self.mask is not mask and not self.mask.trace.same(self.mask, mask):
            raise TileError(
                f"{caller()}: x[mask] together with y[other], expected one mask, since their entries may not be as many; {REMEDY}"
            )
        return self.whole

    def __array_ufunc__(self, ufunc: np.ufunc, how: str, *args: Any, **options: Any) -> Any:
        if how == "reduce" and ufunc is np.add and options.get("axis") is None and not options.get("keepdims"):
            return self.sum()
        known = how == "__call__" and not set(options) - {"out"} and ufunc.__name__ in TABLE
        return self.through(TABLE[ufunc.__name__] if known else None, args, ufunc.__name__)

    def through(self, primitive: Primitive | None, args: Sequence[Any], name: str, params: Mapping[str, Any] = {}) -> Any:  # noqa: B006
        """A function of entries, one of whose arguments this is."""
        if name == "sum" and params and params.get("axis") is None and not params.get("keepdims"):
            return self.sum()
        if primitive is None or name not in TABLE:
            raise TileError(f"{caller()}: numpy.{name} of x[mask], whose number of entries differs from tile to tile; {REMEDY}")
        values = [a.of(self.mask) if isinstance(a, Masked) else a.core() if hasattr(a, "core") else a for a in args]
        if any(np.ndim(bottom(v)) for a, v in zip(args, values, strict=True) if not isinstance(a, Masked)):
            raise TileError(f"{caller()}: x[mask] together with an array, expected numbers and entries of the same mask; {REMEDY}")
        return Masked(bind(primitive, values, {}), self.mask)

    def sum(self) -> Any:
        """The sum of the entries: others count as 0."""
        mask = reshape(self.mask, shape=(*self.mask.shape, *(1,) * (self.whole.ndim - self.mask.ndim)))
        return add_up(bind(where, (mask, self.whole, self.whole.dtype.type(0)), {}), axis=None, keepdims=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "core":
            raise AttributeError(name)
        raise TileError(f"{caller()}: x[mask].{name}: the number of entries differs from tile to tile; {REMEDY}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TileError(f"{caller()}: an array of x[mask], whose number of entries differs from tile to tile; {REMEDY}")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.sum and len(args) == 1 and not kwargs:
            return self.sum()
        raise TileError(f"{caller()}: numpy.{function.__name__} of x[mask], whose number of entries differs from tile to tile; {REMEDY}")

    def __getitem__(self, index: Any) -> Any:
        raise TileError(f"{caller()}: an index of x[mask], whose number of entries differs from tile to tile; {REMEDY}")

    def __len__(self) -> int:
        raise TileError(f"{caller()}: len(x[mask]), which differs from tile to tile; {REMEDY}")

    def __iter__(self) -> Any:
        raise TileError(f"{caller()}: a loop over x[mask], whose number of entries differs from tile to tile; {REMEDY}")
