"""A recording of the operations of a function, on values by which nothing can be decided.

The values are those of one call, so shapes and layouts are right, and solvers that are run while recording run well. But whoever asks for
an entry of one is refused: another call has other entries, and a replay does what the recording did. Derivatives need nothing of their
own: their rules are written with the same operations, so a reverse sweep is recorded as the function is.
"""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from diffsim.ad.arrays.array import Array
from diffsim.ad.arrays.guard import caller, is_library
from diffsim.ad.arrays.masked import Masked
from diffsim.ad.core import Primitive, Trace, Tracer, UnrecordableError, bind, local, require_derivative
from diffsim.ad.ops.elementwise import TABLE
from diffsim.ad.ops.structure import astype
from diffsim.base import buffers
from diffsim.errors import JitError


@dataclass(frozen=True)
class Register:
    """The place of a value in a recording."""

    number: int


@dataclass
class Operation:
    """One operation of a recording.

    Attributes:
        name: of the primitive, or of NumPy's function.
        function: from values to the value, or to several.
        args: registers and constants.
        params: constants by name.
        results: registers of its values; None for a value of several that is no array.
        multiple: whether the function gives several values.
        silent: whether NumPy says nothing of infinite results, as in a reverse sweep.
        small: whether all values are so small that their memory is not of the pool.
    """

    name: str
    function: Callable[..., Any]
    args: list[Any]
    params: dict[str, Any]
    results: list[Register | None]
    multiple: bool
    silent: bool
    small: bool


OTHERWISE = tuple(f"diffsim.ad.{part}" for part in ("scans.", "ops.spectral", "ops.singular", "ops.determinant"))
"""Modules of primitives whose derivatives look at values, or take another way for known ones."""


def _entries(x: Any, *parts: Any) -> Any:
    return x[parts]


def _refusing(name: str, remedy: str) -> Callable[..., Any]:
    def convert(self: Any, *_: Any) -> Any:
        refuse(name, remedy)

    return convert


BRANCH = "write np.where(condition, a, b) with diffsim.numpy, or ds.cond(condition, f, g, *args)"
NUMBER = "compute with the value itself, by functions of diffsim.numpy, or leave this part outside of the function"


SHAPED = {
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "count_nonzero", "digitize", "isclose", "max", "min", "amax", "amin",
    "sum", "searchsorted", "sign", "floor_divide", "copy", "reshape", "transpose", "ravel", "sort", "partition", "zeros_like", "ones_like",
    "broadcast_to", "round",
}  # fmt: skip
"""Functions of NumPy's the shapes of whose results follow from those of their arguments."""
ROUNDED = {"fft", "a norm or a standard deviation"}
"""Primitives that round otherwise than the function of NumPy's that is called outside of a derivative."""


class RecordedTracer(Tracer):
    """A value of a recording. `primal` is that of the call in which it was made."""

    __slots__ = ("register",)
    abstract = True

    def __init__(self, trace: Recording, primal: Any, register: Register) -> None:
        self.trace, self.primal, self.register = trace, primal, register

    __bool__ = _refusing("a truth value", BRANCH)
    __index__ = _refusing("an index or a count", "give it as an int of Python, which is a part of the call's form")
    __array__ = _refusing("a NumPy array", NUMBER)
    __int__, __float__, __complex__ = (_refusing(f"{name}()", NUMBER) for name in ("int", "float", "complex"))
    __floor__, __ceil__, __trunc__ = (_refusing(f"math.{name}()", f"write np.{name}(x)") for name in ("floor", "ceil", "trunc"))
    item = _refusing("item() or round()", NUMBER)
    view = _refusing("a view", NUMBER)

    def __array_ufunc__(self, ufunc: Any, how: str, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if how == "__call__" and not kwargs and ufunc.__name__ in TABLE:
            return bind(TABLE[ufunc.__name__], args, {})
        if how not in ("__call__", "reduce", "accumulate", "outer"):
            raise UnrecordableError(f"{caller()}: numpy.{ufunc.__name__}.{how} is called")
        return _recording_of(self).call(f"numpy.{ufunc.__name__}", ufunc if how == "__call__" else getattr(ufunc, how), args, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in (np.shape, np.ndim, np.size, np.iscomplexobj, np.result_type):
            return function(*(a.primal if isinstance(a, RecordedTracer) else a for a in args), **kwargs)
        if function.__name__ not in SHAPED or (function is np.sum and "where" in kwargs):
            raise UnrecordableError(f"{caller()}: the shape of a result of numpy.{function.__name__} may depend on values")
        return _recording_of(self).call(f"numpy.{function.__name__}", function, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        parts = index if type(index) is tuple else (index,)
        if any(isinstance(part, RecordedTracer) and part.dtype.kind == "b" for part in parts):
            raise UnrecordableError(f"{caller()}: the shape of x[mask] depends on values")
        return _recording_of(self).call("an index [...]", _entries, (self, *parts))

    def __pow__(self, other: Any) -> Any:
        if _is_number(self) and _is_number(other):
            return _recording_of(self).call("a power", operator.pow, (self, other))
        return bind(TABLE["power"], (self, other), {})

    def __rpow__(self, other: Any) -> Any:
        if _is_number(self) and _is_number(other):
            return _recording_of(self).call("a power", operator.pow, (other, self))
        return bind(TABLE["power"], (other, self), {})

    def __invert__(self) -> Any:
        return bind(TABLE["invert"], (self,), {})

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        return astype(self, dtype=np.dtype(dtype))

    def __repr__(self) -> str:
        return f"<recorded {self.dtype}{list(self.shape)}>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


def _is_number(value: Any) -> bool:
    """True for numbers, whose powers by the operator round otherwise than those by the function, and which no other transformation sees."""
    return isinstance(value, (float, int, complex, np.generic)) or (isinstance(value, RecordedTracer) and not value.shape)


def _recording_of(value: RecordedTracer) -> Recording:
    assert isinstance(value.trace, Recording)
    return value.trace


def refuse(what: str, remedy: str) -> NoReturn:
    """Raise the error about a value that a replay does not know.

    Raises:
        UnrecordableError: code of diffsim asks for it.
        JitError: the user's code does, with its line.
    """
    if is_library(_asking()):
        raise UnrecordableError(f"{caller()}: an operation looks at {what} of its operands")
    raise JitError(
        f"{caller()}: expected operations that are the same for all values, got {what} of a value in a function of ds.jit, which would "
        f"stay that of the first call; {remedy}"
    )


def _asking() -> FrameType:
    """The frame that asks for the entries of a value, beyond the conversions of arrays."""
    frame: FrameType | None = sys._getframe(1)
    passed = (__name__, "diffsim.ad.arrays.conversions", "diffsim.ad.arrays.refusals")
    while frame is not None and frame.f_globals.get("__name__") in passed:
        frame = frame.f_back
    assert frame is not None
    return frame


def _holds_tracer(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_tracer, value))
    return isinstance(value, Tracer) or (isinstance(value, Array) and isinstance(value._value, Tracer))


class Recording(Trace):
    """Does operations and writes them down.

    Attributes:
        operations: so far.
        doubted: registers whose values must be finite in a replay, since other operations would follow if they are not.
        empty: registers of masks of which no entry may hold, likewise.
        count: registers so far.
    """

    __slots__ = ("_around", "count", "doubted", "empty", "operations")
    replayed = True

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.doubted: list[Register] = []
        self.empty: list[Register] = []
        self.count = 0
        self._around = np.geterr(), warnings.filters

    def input(self, value: Any) -> RecordedTracer:
        """A value that each call brings."""
        self.count += 1
        return RecordedTracer(self, value, Register(self.count - 1))

    def misused(self) -> JitError:
        return JitError(
            f"{caller()}: a value of a function of ds.jit is used after its call: it left the function by another way than its result (an "
            "array or a list from outside, an attribute); return it"
        )

    def doubt(self, value: Tracer, infinite: bool = False) -> bool:
        assert isinstance(value, RecordedTracer)
        if not np.isfinite(value.primal).all():  # a NaN leads to other operations, and is rare
            raise UnrecordableError(f"{caller()}: a value is not finite in this call", now=True)
        self.doubted.append(value.register)
        return False

    def is_empty(self, mask: Tracer) -> bool:
        assert isinstance(mask, RecordedTracer)
        if np.any(mask.primal):  # a kink, say
            raise UnrecordableError(f"{caller()}: an entry is at a kink in this call", now=True)
        self.empty.append(mask.register)
        return True

    def _operand(self, value: Any) -> Any:
        """A register, or a constant."""
        if isinstance(value, RecordedTracer) and value.trace is self:
            return value.register
        if isinstance(value, (Tracer, Masked)):
            raise UnrecordableError(f"{caller()}: a value of another transformation, or entries where a mask holds, are used")
        return value

    def apply(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive.evaluate.__module__.startswith(OTHERWISE):
            raise UnrecordableError(f"{caller()}: {primitive.name} looks at values, or is computed in another way for each")
        if primitive.name in ROUNDED:
            require_derivative(primitive.name)
        if primitive.name in ("multiply", "divide", "power") and all(map(_is_number, args)) and any(map(np.iscomplexobj, args)):
            raise UnrecordableError(f"{caller()}: {primitive.name} of complex numbers without axes rounds otherwise than that of arrays")
        operands = [self._operand(a) for a in args]
        if any(map(_holds_tracer, params.values())):
            raise UnrecordableError(f"{caller()}: {primitive.name} has a value as an option")
        examples = [a.primal if isinstance(a, RecordedTracer) else a for a in args]
        if params.get("donate") and not isinstance(operands[0], Register):  # a replay must not write to a constant
            params = {**params, "donate": False}
        out = primitive.evaluate(*examples, **params)
        return self._noted(primitive.name, primitive.evaluate, operands, params, out, primitive.multiple)

    def call(self, name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> Any:
        """A function of NumPy's on values, without a derivative."""
        kwargs = kwargs or {}
        if any(isinstance(a, Tracer) for a in kwargs.values()) or "out" in kwargs:
            raise UnrecordableError(f"{caller()}: {name} is given values by name")
        operands = [self._operand(a) for a in args]
        out = function(*(a.primal if isinstance(a, RecordedTracer) else a for a in args), **kwargs)
        return self._noted(name, function, operands, kwargs, out, isinstance(out, tuple))

    def _noted(self, name: str, function: Callable[..., Any], operands: list[Any], params: dict[str, Any], out: Any, multiple: bool) -> Any:
        if not local.sweeping and (np.geterr() != self._around[0] or warnings.filters is not self._around[1]):
            raise UnrecordableError(f"{caller()}: {name} is done in a block of np.errstate or warnings; let it be around the call")
        values = out if multiple else (out,)
        if any(isinstance(value, Tracer) for value in values) or (not multiple and not hasattr(out, "dtype")):
            raise UnrecordableError(f"{caller()}: {name} gives no array")
        results = [self.input(value) if hasattr(value, "dtype") else None for value in values]
        small = all(getattr(value, "nbytes", 0) < buffers.SMALLEST for value in values)
        registers = [None if r is None else r.register for r in results]
        self.operations.append(Operation(name, function, operands, params, registers, multiple, local.sweeping, small))
        if multiple:
            return tuple(value if r is None else r for value, r in zip(values, results, strict=True))
        return results[0]
