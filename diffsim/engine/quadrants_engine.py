"""Quadrants, the maintained fork of Taichi."""

from __future__ import annotations

import functools
import os
import sys
from ast import Module
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from diffsim.engine import translation
from diffsim.engine.interface import Engine
from diffsim.errors import BackendError

SUPPORTED = (1, 3, 1), (1, 4)
"""The first version whose inside is known, and the first that is not."""


class QuadrantsEngine(Engine):
    """Quadrants 1.3, with LLVM 22."""

    name, title, llvm, function_mark = "quadrants", "Quadrants", 22, "_is_quadrants_function"
    cache_variable, cache_part = "QD_OFFLINE_CACHE_FILE_PATH", "kernel_compilation_manager"

    def _imported(self) -> Any:
        if "quadrants" not in sys.modules:
            os.environ.setdefault("ENABLE_QUADRANTS_HEADER_PRINT", "0")
            os.environ.setdefault("QD_LOG_LEVEL", "error")
        import quadrants

        if not SUPPORTED[0] <= tuple(quadrants.__version__) < SUPPORTED[1]:
            version, (first, end) = ".".join(map(str, quadrants.__version__)), (".".join(map(str, each)) for each in SUPPORTED)
            raise BackendError(
                f"engine 'quadrants' expected the package quadrants from {first} to before {end}, whose inside it knows, got {version}; "
                f"install one of these: python -m pip install 'quadrants>={first},<{end}'"
            )
        exceptions = quadrants.lang.exception
        self.failures = (exceptions.QuadrantsCompilationError, exceptions.QuadrantsRuntimeError, RuntimeError)
        return quadrants

    def _speed_up(self) -> None:
        functions, transformer = self.part("lang._func_base"), self.part("lang.ast.ast_transformer")
        decorators, kernels, fields = self.part("lang.kernel_impl"), self.part("lang.kernel"), self.part("lang._kernel_impl_dataclass")
        context, describe = functions.ASTTransformerFuncContext, self.part("lang._wrap_inspect").FunctionSourceInfo
        decorators._inside_class = translation.is_in_class
        context.memoized_get_pos_info = translation.without_places(context.memoized_get_pos_info)
        functions.get_source_info_and_src = _without_source(functions.get_source_info_and_src, describe)
        functions.FuncBase.get_tree_and_ctx = _reading_trees(functions.FuncBase.get_tree_and_ctx)
        kernels.Kernel._try_load_fastcache = _without_first_pass(kernels.Kernel._try_load_fastcache)
        fields.unpack_ast_struct_expressions = _without_dataclasses(fields.unpack_ast_struct_expressions)
        translator = self.translator(self.language._lib.core.DataTypeCxx, transformer.build_stmt)
        transformer.build_stmts = translator.executing_runs(transformer.build_stmts)

    def user_options(self, default_float: Any) -> dict[str, Any]:
        options = super().user_options(default_float)
        return options | {"ad_stack_experimental_enabled": True}  # without it, no loop inside another has a derivative

    def compiled(self, kernel: Any, arguments: Sequence[Any]) -> Any:
        kernel.raise_on_templated_floats = False  # which a call of the kernel would set
        return kernel.materialized_kernels[kernel.ensure_compiled(*arguments)]

    def machine_code(self, compiled: Any) -> Any:
        program = self.runtime.prog
        return program.compile_kernel(program.config(), program.get_device_caps(), compiled).compiled_kernel_data

    def index(self, number: int) -> Any:
        return number

    def annotations(self, kernel: Any) -> Iterator[Any]:
        return (each.annotation for each in kernel.arg_metas)

    def real_function(self, function: Callable[..., Any]) -> Any:
        real = self.part("lang._quadrants_callable").QuadrantsCallable(function, self._real_func(function, is_real_function=True))
        real._is_quadrants_function = real._is_real_function = True
        return real

    @functools.cached_property
    def _real_func(self) -> Any:
        """The class of real functions, whose arguments may be NumPy's numbers too: `ti.max` of numbers is one."""
        base: Any = self.part("lang.func").Func

        class RealFunction(base):
            def __call__(self, *arguments: Any) -> Any:
                return super().__call__(*(each.item() if isinstance(each, np.generic) else each for each in arguments))

        return RealFunction

    def function_within(self, function: Any) -> Any:
        return function.fn


def _without_source(otherwise: Callable[..., Any], describe: Callable[..., Any]) -> Callable[..., Any]:
    """The function that finds the source of another. For generated functions it gives an empty one: their tree is known."""

    def source(function: Any) -> Any:
        code = getattr(function, "__code__", None)
        if code is None or not translation.is_generated(code):
            return otherwise(function)
        place = describe(function_name=code.co_name, filepath=code.co_filename, start_lineno=1, end_lineno=1)
        return place, [f"def {code.co_name}(): pass"]

    return source


def _reading_trees(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The method that parses the source of a function, which gives the known tree of a generated one."""

    def tree_and_context(function: Any, *arguments: Any, **others: Any) -> tuple[Module, Any]:
        tree, context = otherwise(function, *arguments, **others)
        code = function.func.__code__
        return (Module([translation.tree_of(code)], []) if translation.is_generated(code) else tree), context

    return tree_and_context


def _without_first_pass(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The method that says which fields of dataclasses a kernel uses, or None if a first translation has to find out. Generated
    kernels have no dataclasses, so they are translated once."""

    def used(kernel: Any, arguments: Any, key: Any) -> set[str] | None:
        names = otherwise(kernel, arguments, key)
        if names is None and translation.is_generated(kernel.func.__code__):
            names = kernel.used_py_dataclass_parameters_by_key_enforcing[key] = set()
        return names

    return used


def _without_dataclasses(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The function that replaces the fields of dataclasses in a tree, which it walks even where there are none."""

    def unpacked(tree: Any, struct_locals: set[str]) -> Any:
        return otherwise(tree, struct_locals) if struct_locals else tree

    return unpacked
