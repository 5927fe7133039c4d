"""The interface to the package that compiles and runs kernels."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diffsim.base.packages import needed_by
from diffsim.engine.cache import Folder, kernel_folder, with_home
from diffsim.engine.cuda import Driver
from diffsim.engine.translation import Translator, reading_lines


class Engine(ABC):
    """Taichi, or its fork. Both have the same language and call most parts of their inside by the same names; a subclass has the rest.

    Attributes:
        name: of the package, and of the engine.
        title: its name in sentences.
        llvm: number of the LLVM release that it compiles with.
        cache_variable: environment variable with its folder of compiled kernels.
        cache_part: folder that it makes in this one; "": none.
        function_mark: attribute of functions that kernels may call.
        language: the package, `ti` in kernels.
        failures: errors that it raises about a kernel.
        cache: the folder in which the program keeps compiled kernels; None: none was started.
        cuda: the driver, while its program runs on a CUDA device.
    """

    name: str
    title: str
    llvm: int
    cache_variable: str
    cache_part: str
    function_mark: str
    failures: tuple[type[Exception], ...]
    cache: Folder | None = None
    cuda: Driver | None = None

    def __init__(self) -> None:
        with needed_by(f"engine {self.name!r}"), with_home(), reading_lines():
            self.language = self._imported()
        self.impl = self.part("lang.impl")
        self._make_expression = self.part("lang.expr").Expr
        self._nowhere = self.language._lib.core.DebugInfo()
        self._speed_up()

    @abstractmethod
    def _imported(self) -> Any:
        """Import the package, without its banner."""

    @abstractmethod
    def _speed_up(self) -> None:
        """Have generated sources translated with the help of Python."""

    def part(self, module: str) -> Any:
        """A module of the package."""
        return importlib.import_module(f"{self.name}.{module}")

    def translator(self, types: type, statement: Callable[..., Any]) -> Translator:
        """Its part of the translation of generated sources; see there."""
        impl, ops, expression = self.impl, self.part("lang.ops"), self._make_expression

        def condition(compared: Any) -> Any:
            return ops.cast(ops.logical_and(True, compared), self.language.u1)

        def convert(kind: Any, value: Any) -> Any:
            return ops.cast(value, kind) if isinstance(value, expression) else expression(value, dtype=kind)

        def variable(value: Any) -> Any:
            first = impl.expr_init(value)
            return first if isinstance(value, expression) else impl.expr_init(first)  # that of a vector in Python is no variable yet

        return Translator(types, impl.subscript, variable, condition, convert, statement)

    @property
    def version(self) -> str:
        return ".".join(map(str, self.language.__version__))

    @property
    def runtime(self) -> Any:
        """Its object of all that is global."""
        return self.impl.get_runtime()

    # the program, which is global

    def start(self, options: dict[str, Any]) -> str:
        """Start a program, which ends the one before, and say on which arch: "cpu", "cuda" or "vulkan"."""
        folder = kernel_folder(self.name, self.cache_variable, self.cache_part)
        if str(folder.path) != os.environ.get(self.cache_variable):  # naming it twice would print a warning
            options = options | {"offline_cache_file_path": str(folder.path)}
        with contextlib.redirect_stdout(io.StringIO()), with_home():  # it prints which arch it starts on, whatever its log level
            self.language.init(**options)
        self.cache = folder
        self.runtime.materialize()  # left to the first kernel, it would fail on any thread but this one
        name = str(self.language.cfg.arch).rpartition(".")[2]
        self.cuda = Driver() if name == "cuda" else None
        return "cpu" if name in ("x64", "arm64") else name

    @property
    def kept_kernels(self) -> Path | None:
        """The folder in which compiled kernels are kept for other processes; None: they are not."""
        if self.cache is None or self.cache.temporary or not self.impl.current_cfg().offline_cache:
            return None
        return self.cache.path

    def stop(self) -> None:
        """End the program, if there is one."""
        self.language.reset()

    def never_free(self) -> None:
        """Keep the program for ever: in a forked process, freeing it waits for threads that do not exist there."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.runtime.prog))

    def finds_driver(self, arch: str) -> bool:
        return bool(self.part("lang.misc").is_arch_supported(getattr(self.language, arch)))

    def trial(self, arch: str) -> str:
        """A Python program that succeeds if there is a device of this arch."""
        return f"import {self.name} as ti; ti.init(arch=ti.{arch}); raise SystemExit(ti.cfg.arch != ti.{arch})"

    # kernels

    @abstractmethod
    def compiled(self, kernel: Any, arguments: Sequence[Any]) -> Any:
        """The compiled kernels of one direction of a kernel (`_primal`, `_adjoint`) for such arguments."""

    @abstractmethod
    def machine_code(self, compiled: Any) -> Any:
        """The machine code of a result of `compiled`."""

    @abstractmethod
    def index(self, number: int) -> Any:
        """How launches name an argument."""

    @abstractmethod
    def annotations(self, kernel: Any) -> Iterator[Any]:
        """The annotations of the parameters of a kernel's one direction."""

    @abstractmethod
    def real_function(self, function: Callable[..., Any]) -> Any:
        """Like `ti.real_func`, which looks for a class around the function among all modules of the process."""

    @abstractmethod
    def function_within(self, function: Any) -> Any:
        """The Python function behind a `ti.func`."""

    def is_function(self, thing: Any) -> bool:
        """True if it is a `ti.func`, a `ti.real_func`, or one of the package's own functions for kernels."""
        return bool(getattr(thing, self.function_mark, False))

    def is_own(self, module: str) -> bool:
        """True if a module, by its name, is of the package."""
        return module.partition(".")[0] == self.name

    def bind(self, kernel: Any, arguments: Sequence[Any]) -> Callable[..., None]:
        """A function that launches a kernel with these arguments: arrays, and with arrays of a device integers too, which its own arguments
        replace in order."""
        with self.functions_left_out(kernel._primal):
            compiled = self.compiled(kernel._primal, arguments)
        if not all(isinstance(argument, np.ndarray) for argument in arguments):
            return self._bind_on_device(compiled, arguments)
        context = compiled.make_launch_context()
        for position, (argument, annotation) in enumerate(zip(arguments, self.annotations(kernel._primal), strict=True)):
            shape = argument.shape[: argument.ndim - getattr(annotation.dtype, "ndim", 0)]
            self._pass_array(context, position, argument, shape, 0)
        return functools.partial(self.runtime.prog.launch_kernel, self.machine_code(compiled), context)

    def _bind_on_device(self, compiled: Any, arguments: Sequence[Any]) -> Callable[..., None]:
        """`bind` for arrays of a device. Each launch needs a context of its own: with CUDA, it replaces the addresses in it by others,
        which it frees."""
        arrays = [(self.index(position), each.arr) for position, each in enumerate(arguments) if not isinstance(each, int)]
        integers = [self.index(position) for position, each in enumerate(arguments) if isinstance(each, int)]
        start, code, prepared = self.runtime.prog.launch_kernel, self.machine_code(compiled), compiled.make_launch_context

        def launch(*numbers: int) -> None:
            context = prepared()
            for index, array in arrays:
                context.set_arg_ndarray(index, array)
            for index, number in zip(integers, numbers, strict=True):
                context.set_arg_int(index, number)
            start(code, context)

        return launch

    def launch_reverse(self, kernel: Any, arguments: Sequence[np.ndarray], gradients: Sequence[np.ndarray | None]) -> None:
        """See `diffsim.engine.launch_reverse`."""
        adjoint = kernel.grad
        marked: list[Any] = []
        for argument, gradient, annotation in zip(arguments, gradients, self.annotations(adjoint), strict=True):
            number = not isinstance(annotation, self.language.types.ndarray)
            marked.append(argument.item() if number else argument if gradient is None else argument.view(_Differentiated))
        compiled = self.compiled(adjoint, marked)
        context = compiled.make_launch_context()
        setters = {"f": context.set_arg_float, "i": context.set_arg_int, "u": context.set_arg_uint}
        for position, (argument, gradient) in enumerate(zip(marked, gradients, strict=True)):
            if isinstance(argument, np.ndarray):
                self._pass_array(context, position, argument, argument.shape, 0 if gradient is None else int(gradient.ctypes.data))
            else:
                setters[arguments[position].dtype.kind](self.index(position), argument)
        self.runtime.prog.launch_kernel(self.machine_code(compiled), context)

    def _pass_array(self, context: Any, position: int, array: np.ndarray, shape: tuple[int, ...], slope: int) -> None:
        context.set_arg_external_array_with_shape(self.index(position), int(array.ctypes.data), array.nbytes, shape, slope)

    @contextlib.contextmanager
    def functions_left_out(self, primal: Any) -> Iterator[None]:
        """While a kernel with a digest is translated, keep functions out of the key by which the program finds it."""
        config = self.impl.current_cfg()
        before = config.offline_cache
        config.offline_cache = before and "source_digest" not in primal.func.__globals__
        try:
            yield
        finally:
            config.offline_cache = before

    def forget(self, kernels: Sequence[Any]) -> None:
        """Drop kernels, of a program that ends, from the tables that the package holds for ever."""
        dead = {id(part) for kernel in kernels for part in (kernel._primal, kernel._adjoint)}
        held = self.runtime.kernels
        held[:] = [kernel for kernel in held if id(kernel) not in dead]

    # settings of a user's kernels

    def user_options(self, default_float: Any) -> dict[str, Any]:
        """Options under which a user's kernels are compiled; see `diffsim.engine.hand_written`."""
        return {
            "default_fp": default_float,
            "real_matrix_scalarize": True,
            "force_scalarize_matrix": True,
            "advanced_optimization": True,
            "make_cpu_multithreading_loop": True,
        }

    @contextlib.contextmanager
    def hand_written(self, wide: bool) -> Iterator[None]:
        """See `diffsim.engine.hand_written`; `wide`: untyped numbers are f64."""
        ti = self.language
        wanted = self.user_options(ti.f64 if wide else ti.f32)
        python_side, config = self.runtime, self.impl.current_cfg()
        shared = [getattr(ti.math, f"{kind}{n}") for kind in ("vec", "mat") for n in (2, 3, 4)]  # their default type is fixed at import
        shared_before = [kind.dtype for kind in shared]
        before = {name: getattr(config, name) for name in wanted}
        float_before = python_side.default_fp
        try:
            for name, value in wanted.items():
                setattr(config, name, value)
            python_side.default_fp = wanted["default_fp"]
            for kind in shared:
                kind.dtype = wanted["default_fp"]
            yield
        finally:
            for name, value in before.items():
                setattr(config, name, value)
            python_side.default_fp = float_before
            for kind, dtype in zip(shared, shared_before, strict=True):
                kind.dtype = dtype

    # expressions of the kernel that is being translated

    def mark(self, words: Sequence[int]) -> None:
        """Add numbers to the kernel, which do nothing."""
        for word in words:
            self.impl.expr_init(word)

    def lanes_of(self, tiles: Sequence[Any]) -> list[Any]:
        """Expressions of all lanes of some tiles."""
        lanes = self.runtime.compiling_callable.ast_builder().expand_exprs([tile.ptr for tile in tiles])
        return list(map(self._make_expression, lanes))

    def tile_from(self, array: Any, index: Any, first: int, count: int) -> Any:
        """See `diffsim.engine.tile_from`."""
        tile = self.impl.subscript(self.runtime.compiling_callable.ast_builder(), array, index)
        cells = [self.impl.make_expr_group(cell) for cell in range(first, first + count)]
        several = self.language._lib.core.subscript_with_multiple_indices
        return self._make_expression(several(tile.ptr, cells, (count,), self._nowhere))

    def tile_of(self, values: Sequence[Any], dtype: Any, last: Sequence[Any] = ()) -> Any:
        """See `diffsim.engine.tile_of`."""
        make = self._make_expression
        builder = self.runtime.compiling_callable.ast_builder()
        zero = make(0.0, dtype=dtype)
        parts = [value.ptr for value in (*values, *[zero] * len(last))]
        whole = make(builder.make_matrix_expr([len(parts)], dtype, parts, self._nowhere))
        if not last:
            return whole
        tile = make(builder.expr_var(whole.ptr, self._nowhere))
        for lane, value in zip(self.lanes_of([tile])[len(values) :], last, strict=True):
            builder.expr_assign(lane.ptr, value.ptr, self._nowhere)
        return tile


class _Differentiated(np.ndarray):
    """Tells the mapper of arguments that this array comes with a gradient, as a tensor of torch would."""

    requires_grad = True
