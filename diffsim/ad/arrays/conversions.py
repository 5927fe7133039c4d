"""Conversions of an array for the outside: a number, an array of NumPy's, text; refused where a derivative would be lost on the way."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from diffsim.ad.arrays import guard
from diffsim.ad.arrays.holder import Holder
from diffsim.ad.arrays.refusals import refusing
from diffsim.ad.core import Tracer, bottom, is_known
from diffsim.errors import DerivativeError


class Convertible(Holder):
    """A place whose value is read as Python and NumPy read numbers."""

    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = self.core()
        if not is_known(value):
            return bottom(value).__array__()  # whose error names a remedy
        if isinstance(value, Tracer):
            raise _no_numpy(self)
        guard.require_both_parts(value, dtype)
        out = np.array(value, dtype)  # a copy: an edit of it must not reach the tape
        return out

    def __dlpack__(self, **options: Any) -> Any:
        return self.__array__().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the host

    def _plain(self, name: str) -> Any:
        value = self._current()
        if not is_known(value):
            return bottom(value)  # whose own conversion names a remedy
        if isinstance(value, Tracer) and value.dtype.kind in "fc":
            raise DerivativeError(
                f"{name} of a differentiated value, as math.sin(x) and storing it in an array of NumPy's need, would lose its derivative; "
                "use functions and arrays of diffsim.numpy, or ds.stop_gradient(x) if a constant is meant"
            )
        return bottom(value)

    @refusing("float()")
    def __float__(self) -> float:
        return float(self._plain("float()"))

    @refusing("complex()")
    def __complex__(self) -> complex:
        return complex(self._plain("complex()"))

    @refusing("item()")
    def item(self, *index: Any) -> Any:
        return self._plain("item()").item(*index)

    @refusing("a truth value")
    def __bool__(self) -> bool:
        return bool(bottom(self._current()))

    @refusing("int()")
    def __int__(self) -> int:
        return int(bottom(self._current()))

    @refusing("an index or a count")
    def __index__(self) -> int:
        return operator.index(bottom(self._current()))

    @refusing("floor()")
    def __floor__(self) -> int:
        return math.floor(bottom(self._current()))

    @refusing("ceil()")
    def __ceil__(self) -> int:
        return math.ceil(bottom(self._current()))

    @refusing("trunc()")
    def __trunc__(self) -> int:
        return math.trunc(bottom(self._current()))

    def __repr__(self) -> str:
        value = self._current()
        text = repr(bottom(value)).replace("\n", "\n  ")
        return f"<differentiated {text}>" if isinstance(value, Tracer) and is_known(value) else text

    def __str__(self) -> str:
        return str(bottom(self._current()))

    @refusing("format()")
    def __format__(self, spec: str) -> str:
        value = bottom(self._current())
        return format(value[()] if self.ndim == 0 else value, spec)

    def __reduce__(self) -> Any:
        return np.asarray, (self.__array__(),)


def _no_numpy(x: Any) -> DerivativeError:
    return DerivativeError(
        f"a differentiated array of shape {x.shape} cannot become a NumPy array, which would lose its derivative; use diffsim.numpy in "
        "the differentiated function (arrays that take its values as well), ds.stop_gradient(x) if a constant is meant, or for a function "
        "of another library ds.custom_vjp, where it is called with NumPy's arrays"
    )
