"""Checks of arguments. Each returns the value in its final type, or raises with the expected value, the given value and a remedy."""

from __future__ import annotations

import inspect
import math
import operator
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import cut, path_shown, printable, shown
from diffsim.base.quantities import ANYTHING, Meaning, plain
from diffsim.errors import DiffsimError, MissingError, ParameterError, ShapeError, TraceError

Function = TypeVar("Function", bound=Callable[..., Any])
Known = TypeVar("Known")
Value = TypeVar("Value")
MOST_STEPS = 2**31 - 2
"""Kernels count steps in 32 bits, and there is one state more than there are steps."""
HOST_DEVICES = (1, 3, 11)
"""Numbers of DLPack for memory of the host: of its own, and pinned for CUDA or ROCm."""
ANY_AXES = 64
"""As many axes as an array of NumPy has."""


def plural(count: int, noun: str) -> str:
    """A count and its noun, such as "1 source" and "2 sources"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def whole(
    name: str,
    value: Any,
    least: int,
    most: int | None = None,
    remedy: str = "give a whole number",
    error: type[DiffsimError] = ParameterError,
) -> int:
    """A whole number, of Python or NumPy, between bounds; no truth value."""
    try:
        index = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        index = None
    if index is None or index < least or (most is not None and index > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise error(f"{name} = {shown(value)}, expected a whole number {bounds}; {remedy}")
    return index


def number(
    name: str,
    value: object,
    expected: str = "a finite number",
    accept: Callable[[float], bool] = math.isfinite,
    remedy: str = "correct it",
    unit: str = "",
) -> float:
    """A real number that is accepted, of Python or NumPy; no truth value and no text. A quantity is converted to the unit."""
    converted = math.nan
    bare = plain(name, value, Meaning(unit))
    if not isinstance(bare, (bool, np.bool_, str, bytes, list, tuple, dict)) and np.ndim(bare) == 0:
        try:
            converted = float(bare)
        except (TypeError, ValueError, OverflowError):
            converted = math.nan
    if math.isnan(converted) or not accept(converted):
        raise ParameterError(f"{name} = {shown(bare)}, expected {expected}; {remedy}")
    return converted


def without_axes(value: Any) -> Any:
    """A real number of NumPy, or an array of one number without an axis, as a number of Python; anything else as it is."""
    one = isinstance(value, (np.generic, np.ndarray)) and np.ndim(value) == 0 and value.dtype.kind in "fiu"
    return value.item() if one else value


def positive(name: str, value: object, remedy: str = "correct it", unit: str = "") -> float:
    """A finite number above zero. A quantity is converted to the unit."""
    return number(name, value, "a positive finite number", lambda x: 0 < x < math.inf, remedy, unit)


def flag(name: str, value: object) -> bool:
    """True or False, and nothing that merely counts as one."""
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(f"{name} = {shown(value)}, expected True or False; write one of them")
    return bool(value)


def one_of(name: str, value: object, known: Collection[Known]) -> Known:
    """One of the known texts or whole numbers. A NumPy number is converted to a Python number."""
    if isinstance(value, np.integer):
        value = int(value)
    if not isinstance(value, (str, int)) or isinstance(value, bool) or value not in known:
        raise ParameterError(f"{name} = {shown(value)} is unknown; choose one of {', '.join(map(str, known))}")
    return next(each for each in known if each == value)  # not the value, which may be of a subclass, such as NumPy's text


def mapping(name: str, value: Mapping[str, Value] | None, example: str) -> Mapping[str, Value]:
    """A mapping with names as its keys."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ParameterError(f"{name} = {shown(value)}, expected names with a value each; write it like {example}")
    return value


def names(name: str, value: object, example: str) -> tuple[str, ...]:
    """Names in a list, tuple, set or the like."""
    if (
        isinstance(value, Collection)
        and not isinstance(value, (str, bytes))
        and getattr(value, "ndim", 1) != 0
        and all(isinstance(item, str) for item in value)
    ):
        return tuple(value)
    raise ParameterError(f"{name} = {shown(value)}, expected a list of names; write it like {example}")


def function(name: str, value: Function | None, example: str, optional: bool = True) -> Function | None:
    """A callable object."""
    if not callable(value) and not (optional and value is None):
        raise ParameterError(f"{name} = {shown(value)}, expected a function; write it like {example}")
    return value


def require_takes(name: str, value: Callable[..., Any], *arguments: str) -> None:
    """Raise `TraceError` unless a function can be called with as many arguments as there are names for messages."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # of another language
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        number = plural(len(arguments), "argument")
        raise TraceError(
            f"{name} takes {shown_signature(signature)}, expected a function of {number}, ({', '.join(arguments)}); write one with these"
        ) from None


def shown_signature(signature: inspect.Signature) -> str:
    """The arguments of a function for a message."""
    return cut(printable(f"({', '.join(str(each.replace(annotation=each.empty)) for each in signature.parameters.values())})"))


class FieldsByName(dict[str, Value]):
    """Fields by name for a function of a user's. A name that it does not have is refused with those that it has.

    Args:
        what: what asks for a name, for messages.
        fields: those that it has.
    """

    def __init__(self, what: str, fields: Mapping[str, Value]) -> None:
        super().__init__(fields)
        self._what = what

    def __missing__(self, name: object) -> Value:
        raise MissingError(f"{self._what} asks for {shown(name)}, expected one of {', '.join(self)}; correct the name")


def instance(name: str, value: object, kind: type[Value] | tuple[type[Value], ...], expected: str, remedy: str) -> Value:
    """An object of a class."""
    if not isinstance(value, kind):
        raise ParameterError(f"{name} = {shown(value)}, expected {expected}; {remedy}")
    return value


def path_of(name: str, value: str | os.PathLike[str]) -> Path:
    """A path on the system, where "~" at its beginning is the home of the user.

    Raises:
        ParameterError: there is no such home.
    """
    path = Path(value)
    try:
        return path.expanduser()
    except RuntimeError:
        raise ParameterError(f"{name} = '{path_shown(value)}', expected a path below a home that is known; write the whole path") from None


def host_array(name: str, value: object, meaning: Meaning = ANYTHING) -> npt.NDArray[Any]:
    """An array of NumPy's. It shares the memory of an array of another package, if that lies in the memory of the host.

    Other packages offer their memory by `__array__` or by DLPack. An array that states a unit or labels is converted to the unit, and
    put in the order, that its meaning says.
    """
    values = plain(name, value, meaning)
    if isinstance(values, np.ndarray):
        return values
    foreign = hasattr(values, "__array__") or hasattr(values, "__dlpack__")
    if not foreign:
        try:
            return np.asarray(values)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"{name} = {shown(values)}, expected an array of numbers; give rows of equal length") from error
    kind = f"{type(values).__module__.partition('.')[0]}.{type(values).__name__}"
    if getattr(values, "requires_grad", False):
        raise ParameterError(
            f"{name}: expected an array without a derivative, got a {kind} that requires a gradient, which would be lost; use "
            "diffsim.torch.Module, or give .detach() of it"
        )
    try:
        if hasattr(values, "__dlpack_device__") and values.__dlpack_device__()[0] not in HOST_DEVICES:
            raise BufferError("it lies in the memory of another device")
        return np.asarray(values) if hasattr(values, "__array__") else np.from_dlpack(values)
    except (TypeError, ValueError, RuntimeError, BufferError, AttributeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        if _is_bfloat16(values):
            raise ParameterError(
                f"{name}: expected numbers of a type that NumPy has, got a {kind} of bfloat16; convert it, for example by .float() in "
                "torch or .astype('float32')"
            ) from error
        raise ParameterError(
            f"{name}: expected an array in the memory of the host, got a {kind} that NumPy cannot read ({reason}); convert it, for example "
            "by .cpu() in torch or jax.device_get, and in a function that JAX traces use diffsim.jax.run"
        ) from error


def _is_bfloat16(value: object) -> bool:
    return str(getattr(value, "dtype", "")).rpartition(".")[2] == "bfloat16"


def real_array(name: str, value: object, dtype: npt.DTypeLike | None = None, meaning: Meaning = ANYTHING) -> npt.NDArray[Any]:
    """An array of real numbers, in a given type or its own. An imaginary part or a mask is refused, not dropped.

    Truth values are refused, because such an array is more often a misplaced mask than zeros and ones. For units and labels see
    `host_array`.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ParameterError(f"{name}: expected numbers everywhere, got an array with a mask; fill it, for example with .filled(0)")
    array = host_array(name, value, meaning)
    if array.dtype.itemsize == 2 and _is_bfloat16(array):  # of the package ml_dtypes, which JAX uses
        raise ParameterError(f"{name}: expected numbers of a type that NumPy has, got bfloat16; convert it by .astype('float32'), say")
    if array.dtype.kind not in "fiu":
        kind = {"O": "", "U": ", text", "S": ", text"}.get(array.dtype.kind, f" of type {array.dtype}")
        raise ParameterError(f"{name}: expected an array of real numbers, got {shown(value)}{kind}; convert it")
    if dtype is None or array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):  # overflow gives infinity, which is refused where finite numbers are needed
        return array.astype(dtype)


def shape_of(name: str, value: Any, most: int = ANY_AXES) -> tuple[int, ...]:
    """Numbers of cells, one an axis."""
    if isinstance(value, (str, bytes, Mapping)) or np.ndim(_listed(value)) != 1:
        raise ShapeError(f"{name} = {shown(value)}, expected whole numbers, one an axis, such as (100, 200)")
    shape = tuple(value)
    if not 1 <= len(shape) <= most:
        raise ShapeError(f"{name} = {shown(value)} has {len(shape)} axes, expected 1 to {most}; write it like (100, 200)")
    for n in shape:
        exact = int(n) if isinstance(n, (float, np.floating)) and math.isfinite(n) and int(n) == n else n
        whole(f"{name}: cells along an axis", exact, 1, 2**31 - 1, "write it like (100, 200)", ShapeError)
    return tuple(int(n) for n in shape)


def _listed(value: Any) -> Any:
    """A value that `np.ndim` accepts. Nested lists of different lengths are not accepted."""
    try:
        np.ndim(value)
    except ValueError:
        return ()
    return value if isinstance(value, (list, tuple, np.ndarray)) or np.ndim(value) else 0
