"""Arguments and results of a user's kernel: its parameters, read or written, and the arrays that fit them."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim import engine
from diffsim.base.messages import shown
from diffsim.errors import KernelError, ParameterError, ShapeError

Like = str | tuple[int, ...] | Callable[..., Any] | None
"""The shape of a new output: that of an input of this name, this shape, or a function of the inputs; None: updated in place."""

TYPES = ("f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


def type_name(dtype: np.dtype) -> str:
    """Taichi's name of a type."""
    return dtype.name.replace("float", "f").replace("uint", "u").replace("int", "i")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        dtype: type of its values; None: that of the argument.
        ndim: number of axes; None: that of the argument. 0 for a scalar.
        scalar: a number rather than an array.
    """

    name: str
    dtype: np.dtype | None
    ndim: int | None
    scalar: bool

    def convert(self, value: Any, fallback: np.dtype) -> np.ndarray:
        """A value as the contiguous array that the kernel takes; `fallback` is the type of a list of numbers where none is declared.

        Raises:
            ShapeError: the number of axes differs, or there are no values.
            KernelError: the type would lose digits, or is none that Taichi has.
            ParameterError: an array with a mask, which the kernel would not see.
        """
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise ParameterError(
                f"{self.name}: expected numbers everywhere, got an array with a mask; fill it, for example with .filled(0)"
            )
        array = np.asarray(value)
        loose = self.scalar or not isinstance(value, (np.ndarray, np.generic))  # plain numbers take the type that is asked for
        dtype = self.dtype or (np.dtype(np.float64) if self.scalar else array.dtype)
        if loose and self.dtype is None and array.dtype.kind in "iuf":
            dtype = dtype if self.scalar else fallback
        if type_name(dtype) not in TYPES:
            raise KernelError(f"{self.name} has values of type {dtype}, expected one of {', '.join(TYPES)}; convert it with .astype")
        fits = np.can_cast(array.dtype, dtype, "same_kind" if loose else "safe")
        if not fits or (dtype.kind in "iu" and not np.array_equal(array.astype(dtype), array)):
            raise KernelError(f"{self.name} has values of type {array.dtype}, expected {dtype}; convert it with .astype(np.{dtype})")
        if self.ndim is not None and array.ndim != self.ndim:
            raise ShapeError(f"{self.name} has shape {array.shape}, expected {self.ndim} axes; reshape it")
        if array.size == 0:
            raise ShapeError(f"{self.name} has shape {array.shape}, expected at least one value; do not call the kernel for nothing")
        return array.astype(dtype, order="C", copy=False)


@dataclass(frozen=True)
class Signature:
    """Parameters of a kernel, in order, and their use.

    Attributes:
        parameters: all of them, by name, in the kernel's order.
        inputs: names of the arguments of a call.
        outputs: for each name that a call returns, the source of its shape.
        engine: the engine in whose language the kernel is written.
    """

    name: str
    parameters: dict[str, Parameter]
    inputs: tuple[str, ...]
    outputs: dict[str, Like]
    engine: str

    @property
    def in_place(self) -> frozenset[str]:
        """Names of arguments that are also returned."""
        return frozenset(self.inputs) & frozenset(self.outputs)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Arguments of a call, in the order of `inputs`."""
        slots = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in self.inputs]
        try:
            return list(inspect.Signature(slots).bind(*args, **kwargs).arguments.values())
        except TypeError as error:
            raise KernelError(f"kernel {self.name} takes ({', '.join(self.inputs)}): {error}; give it these") from error

    def convert(self, inputs: Sequence[Any]) -> dict[str, np.ndarray]:
        """Inputs as arrays that the kernel takes, by name."""
        fallback = np.dtype(engine.PRECISIONS[engine.settings().precision])
        if len(inputs) != len(self.inputs):
            raise KernelError(f"kernel {self.name} takes {len(self.inputs)} inputs ({', '.join(self.inputs)}), got {len(inputs)}")
        return {name: self.parameters[name].convert(value, fallback) for name, value in zip(self.inputs, inputs, strict=True)}

    def new_output(self, name: str, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """A zeroed array for a new output."""
        like, parameter = self.outputs[name], self.parameters[name]
        if isinstance(like, str):
            shape: Any = inputs[like].shape
            dtype = parameter.dtype or inputs[like].dtype
        else:
            wanted = inspect.signature(like).parameters if callable(like) else ()
            chosen = {key: value for key, value in inputs.items() if key in wanted}
            shape = like(**{k: v if v.ndim else v.item() for k, v in chosen.items()}) if callable(like) else like
            dtype = parameter.dtype or self.default_float(inputs)
        try:
            array = np.zeros(shape, dtype)
        except (TypeError, ValueError) as error:
            raise ShapeError(f"output {name} of kernel {self.name} would have shape {shown(shape)}, expected a tuple of sizes") from error
        return parameter.convert(array, array.dtype)

    def default_float(self, arrays: Mapping[str, np.ndarray]) -> np.dtype:
        """The type of untyped numbers in the kernel: the widest float among its arrays and typed numbers."""
        return widest_float(array for name, array in arrays.items() if not self.parameters[name].scalar or self.parameters[name].dtype)


def is_real(array: np.ndarray) -> bool:
    """True if an array has a derivative: its values are of a float type."""
    return bool(np.issubdtype(array.dtype, np.floating))


def widest_float(arrays: Iterable[np.ndarray]) -> np.dtype:
    """f64 if any array is f64, else f32 if any is f32, else the precision of the present settings."""
    floats = [a.dtype for a in arrays if is_real(a)]
    return np.result_type(*floats) if floats else np.dtype(engine.PRECISIONS[engine.settings().precision])


def read_signature(function: types.FunctionType, reads: Sequence[str], writes: Any) -> Signature:
    """Check a declaration of reads and writes against the function.

    Args:
        function: the kernel's function, annotations evaluated.
        reads: names of parameters that are only read.
        writes: names that are updated in place, or a mapping from the name of a new output to the source of its shape.
    """
    name = function.__name__
    if function.__annotations__.get("return") is not None:
        raise KernelError(f"kernel {name} has a return value, expected none; write it to an array named in writes")
    if isinstance(reads, str) or isinstance(writes, str):
        raise KernelError(f"kernel {name}: reads and writes are tuples of names, got a bare string; write ({shown((reads, writes))},)")
    declared: dict[str, Like] = dict(writes) if isinstance(writes, Mapping) else dict.fromkeys(writes)
    outputs: dict[str, Like] = {out: None if like == out else like for out, like in declared.items()}
    parameters = {key: _parameter(name, key, note.annotation) for key, note in inspect.signature(function).parameters.items()}
    unknown = [key for key in (*reads, *outputs) if key not in parameters]
    undeclared = [key for key in parameters if key not in reads and key not in outputs]
    twice = [key for key in outputs if key in reads and outputs[key] is not None]
    odd = [key for key, like in outputs.items() if parameters.get(key) and parameters[key].scalar]
    inputs = tuple(key for key in parameters if key in reads or outputs.get(key, "") is None)
    lost = [like for like in outputs.values() if isinstance(like, str) and (like not in inputs or parameters[like].scalar)]
    for bad, why in (
        (unknown, "in reads or writes, but no parameter"),
        (undeclared, "a parameter, but neither in reads nor in writes"),
        (twice, "read, and written as a new array; a new output starts at zero: leave it out of reads"),
        (odd, "a number, and written; write to an array"),
        (lost, "the model of an output's shape, but no array that is read"),
    ):
        if bad:
            raise KernelError(f"kernel {name}: {', '.join(bad)} is {why}; every parameter stands in reads or in writes")
    if not outputs:
        raise KernelError(f"kernel {name} writes nothing, expected at least one name in writes; name an array that it writes")
    return Signature(name, parameters, inputs, outputs, engine.present().name)


def _parameter(kernel: str, name: str, annotation: Any) -> Parameter:
    """Read one annotation."""
    ti = engine.language()
    other = engine.other_engine(type(annotation).__module__)
    if other:
        raise KernelError(
            f"parameter {name} of kernel {kernel} has a type of {shown(other)}, expected one of {shown(engine.chosen())}, the "
            "engine that is chosen; "
            f"choose the other one before the kernel is defined: diffsim.init(engine={shown(other)}), or DIFFSIM_ENGINE={other}"
        )
    if isinstance(annotation, ti.types.ndarray):
        if getattr(annotation.dtype, "n", None) is not None or hasattr(annotation.dtype, "ndim"):
            raise KernelError(
                f"parameter {name} of kernel {kernel} is an array of vectors, which Taichi 1.7.4 never frees; "
                f"give the array one more axis and read ti.Vector([{name}[i, 0], {name}[i, 1]])"
            )
        if annotation.needs_grad is not None:
            raise KernelError(f"parameter {name} of kernel {kernel} declares needs_grad, which a call decides; leave it out")
        return Parameter(name, None if annotation.dtype is None else _dtype(kernel, name, annotation.dtype), annotation.ndim, False)
    if annotation is float:
        return Parameter(name, None, 0, True)
    return Parameter(name, np.dtype(np.int32) if annotation is int else _dtype(kernel, name, annotation), 0, True)


def _dtype(kernel: str, name: str, annotation: Any) -> np.dtype:
    ti = engine.language()
    for known in TYPES:
        if annotation is getattr(ti, known):
            return np.dtype(known.replace("f", "float").replace("u", "U").replace("i", "int").replace("U", "uint"))
    raise KernelError(
        f"parameter {name} of kernel {kernel} is annotated {shown(annotation)}; expected ti.types.ndarray(...), float, int or one of "
        + ", ".join(f"ti.{known}" for known in TYPES)
    )
