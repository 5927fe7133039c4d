"""Taichi 1.7.4."""

from __future__ import annotations

import functools
import os
import sys
from ast import Module
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from diffsim.engine import translation
from diffsim.engine.interface import Engine


class TaichiEngine(Engine):
    """Taichi 1.7.4, with LLVM 15. Its last release is of 2025."""

    name, title, llvm, function_mark = "taichi", "Taichi", 15, "_is_taichi_function"
    cache_variable, cache_part = "TI_OFFLINE_CACHE_FILE_PATH", ""

    def _imported(self) -> Any:
        if "taichi" not in sys.modules:  # once it is imported, the variable only makes `init` print that it has no effect
            os.environ.setdefault("ENABLE_TAICHI_HEADER_PRINT", "0")
            os.environ.setdefault("TI_LOG_LEVEL", "error")
        os.environ.setdefault("TI_SKIP_VERSION_CHECK", "ON")  # else `init` asks a server for the newest version, and writes below HOME
        import taichi

        self.failures = (taichi.TaichiCompilationError, taichi.TaichiRuntimeError, RuntimeError)
        return taichi

    def _speed_up(self) -> None:
        kernel_impl, transformer = self.part("lang.kernel_impl"), self.part("lang.ast.ast_transformer")
        context = self.part("lang.ast").ASTTransformerContext
        context.get_pos_info = translation.without_places(context.get_pos_info)
        kernel_impl._inside_class = translation.is_in_class
        kernel_impl._get_tree_and_ctx = _reading_trees(kernel_impl._get_tree_and_ctx, context, kernel_impl._get_global_vars)
        translator = self.translator(self.language._lib.core.DataType, transformer.build_stmt)
        transformer.build_stmts = translator.executing_runs(transformer.build_stmts)

    def compiled(self, kernel: Any, arguments: Sequence[Any]) -> Any:
        return kernel.compiled_kernels[kernel.ensure_compiled(*arguments)]

    def machine_code(self, compiled: Any) -> Any:
        program = self.runtime.prog
        return program.compile_kernel(program.config(), program.get_device_caps(), compiled)

    def index(self, number: int) -> Any:
        return (number,)

    def annotations(self, kernel: Any) -> Iterator[Any]:
        return (each.annotation for each in kernel.arguments)

    def real_function(self, function: Callable[..., Any]) -> Any:
        func = self.part("lang.kernel_impl").Func(function, is_real_function=True)

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            return func(*arguments)

        call._is_taichi_function = call._is_real_function = True  # type: ignore[attr-defined]
        call.func = func  # type: ignore[attr-defined]
        return call

    def function_within(self, function: Any) -> Any:
        return function.func.func


def _reading_trees(otherwise: Callable[..., Any], make_context: Callable[..., Any], names: Callable[..., Any]) -> Callable[..., Any]:
    """The function that reads the source of another, replaced for generated functions."""

    def tree_and_context(function: Any, excluded_parameters: Sequence[int] = (), args: Any = None, **others: Any) -> tuple[Module, Any]:
        code = function.func.__code__
        if not translation.is_generated(code):
            return otherwise(function, excluded_parameters, args=args, **others)
        context = make_context(
            excluded_parameters,
            func=function,
            global_vars=names(function.func),
            argument_data=args,
            file=code.co_filename,
            src=[""],
            start_lineno=1,
            **others,
        )
        return Module([translation.tree_of(code)], []), context

    return tree_and_context
