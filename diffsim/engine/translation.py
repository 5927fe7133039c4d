"""Translate generated sources for Taichi in less than half of the time of Taichi's translator.

Taichi finds the text of a function by the tokens of its file, parses it, and visits each node of the syntax tree in Python: 20 us a
node, whether or not the compiled kernel is known already. Generated sources are mostly assignments, one after the other. Here such a
run is compiled and executed by Python: names stand for Taichi's expressions, whose operators make further expressions in the order in
which Taichi's visitor would. So Taichi is given the same program. Loops, conditions and assignments to several names are left to it.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Callable, Container, Mapping, Sequence
from types import CodeType
from typing import Any

STRAIGHT = (ast.BinOp, ast.Call, ast.Constant, ast.Name, ast.Subscript, ast.UnaryOp)
"""Nodes in the value of an assignment that needs no visitor."""
OWN = SUBSCRIPT, ASSIGN, CONDITION, CONVERT = tuple(
    f"{what} in a kernel" for what in ("subscript", "assignment", "condition", "conversion")
)
"""Functions that runs call. No source has such names."""

_trees: dict[str, dict[str, ast.FunctionDef]] = {}  # file name -> function -> its tree


def load(source: str, filename: str, namespace: dict[str, Any]) -> None:
    """Define the functions of a generated source. Only Taichi uses their bodies."""
    tree = ast.parse(source, filename)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    _trees[filename] = {node.name: ast.FunctionDef(**vars(node)) for node in functions}
    for node in functions:
        node.body = [ast.copy_location(ast.Pass(), node)]
        if node.decorator_list[0].attr == "real_func":  # type: ignore[attr-defined]
            node.decorator_list = [ast.copy_location(ast.Name("real function", ast.Load()), node)]
    namespace["real function"] = _real_function
    exec(compile(tree, filename, "exec", dont_inherit=True), namespace)


def forget(filename: str) -> None:
    """Drop the functions of a source."""
    _trees.pop(filename, None)


def is_generated(code: CodeType) -> bool:
    """Whether it belongs to a generated function."""
    return code.co_filename in _trees


def install() -> None:
    """Make Taichi use this module for generated functions."""
    from taichi.lang import kernel_impl
    from taichi.lang.ast import ast_transformer

    kernel_impl._get_tree_and_ctx = _reading_trees(kernel_impl._get_tree_and_ctx)
    ast_transformer.build_stmts = _executing_runs(ast_transformer.build_stmts, ast_transformer.build_stmt)


def _real_function(function: Callable[..., Any]) -> Any:
    """Like `ti.real_func`, which looks for a class around the function among all modules of the process."""
    from taichi.lang.kernel_impl import Func

    made = Func(function, is_real_function=True)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return made(*arguments)

    call._is_taichi_function = call._is_real_function = True  # type: ignore[attr-defined]
    call.func = made  # type: ignore[attr-defined]
    return call


def _reading_trees(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Taichi's function that reads the source of another, replaced for generated functions."""
    from taichi.lang.ast import ASTTransformerContext
    from taichi.lang.kernel_impl import _get_global_vars

    def tree_and_context(function: Any, excluded_parameters: Sequence[int] = (), args: Any = None, **others: Any) -> tuple[ast.Module, Any]:
        code = function.func.__code__
        if not is_generated(code):
            return otherwise(function, excluded_parameters, args=args, **others)
        tree = _trees[code.co_filename][code.co_name]
        tree.decorator_list = []
        context = ASTTransformerContext(
            excluded_parameters,
            func=function,
            global_vars=_get_global_vars(function.func),
            argument_data=args,
            file=code.co_filename,
            src=[""],
            start_lineno=1,
            **others,
        )
        return ast.Module([tree], []), context

    return tree_and_context


def _executing_runs(otherwise: Callable[..., Any], translate: Callable[[Any, ast.stmt], Any]) -> Callable[..., Any]:
    """Taichi's function that translates the statements of a block, replaced for generated functions."""

    def statements(context: Any, block: list[Any]) -> list[Any]:
        if context.file not in _trees:
            return otherwise(context, block)
        with context.variable_scope_guard():
            for straight, run in itertools.groupby(block, _is_straight):
                if straight:
                    in_python = _InPython(_types(context.global_vars))
                    code = compile(ast.Module([in_python(each) for each in run], []), context.file, "exec", dont_inherit=True)
                    exec(code, {**context.global_vars, **_functions(context)}, _Variables(context))
                else:
                    for statement in run:
                        translate(context, statement)
        return block

    return statements


def _is_straight(statement: ast.AST) -> bool:
    return isinstance(statement, ast.Assign) and isinstance(statement.value, STRAIGHT) and not isinstance(statement.targets[0], ast.Tuple)


class _InPython:
    """Makes assignments that Python can execute: it knows no subscripts of Taichi's arrays, and calls no types. They change in place.

    Args:
        types: names of types of numbers.
    """

    def __init__(self, types: Container[str]) -> None:
        self._types = types

    def __call__(self, statement: ast.stmt) -> ast.stmt:
        assert isinstance(statement, ast.Assign)
        (target,) = statement.targets
        statement.value = self._value(statement.value)
        if isinstance(target, ast.Name):
            return statement
        return ast.copy_location(ast.Expr(_call(ASSIGN, [self._value(target), statement.value], statement)), statement)

    def _value(self, node: ast.expr) -> ast.expr:
        kind = type(node)
        if kind is ast.Name or kind is ast.Constant:
            return node
        match node:
            case ast.BinOp():
                node.left, node.right = self._value(node.left), self._value(node.right)
            case ast.Subscript():
                return _call(SUBSCRIPT, [self._value(node.value), self._value(node.slice)], node)
            case ast.Call(func=ast.Name(name)) if name in OWN:
                return node  # from an earlier translation of the same function
            case ast.Call():
                node.args = [self._value(each) for each in node.args]
                if isinstance(node.func, ast.Name) and node.func.id in self._types:
                    return _call(CONVERT, [node.func, *node.args], node)
            case ast.UnaryOp():
                node.operand = self._value(node.operand)
            case ast.Compare():
                node.left, node.comparators = self._value(node.left), [self._value(each) for each in node.comparators]
                return _call(CONDITION, [node], node)
            case ast.Tuple() | ast.List():
                node.elts = [self._value(each) for each in node.elts]
        return node


def _call(name: str, arguments: list[ast.expr], where: ast.expr | ast.stmt) -> ast.expr:
    line, column = where.lineno, where.col_offset
    return ast.Call(ast.Name(name, ast.Load(), lineno=line, col_offset=column), arguments, [], lineno=line, col_offset=column)


def _types(names: Mapping[str, Any]) -> set[str]:
    """The names of a source that are types of numbers."""
    import taichi

    return {name for name, kind in names.items() if isinstance(kind, taichi._lib.core.DataType)}


def _functions(context: Any) -> dict[str, Any]:
    """The functions that runs call, by the names of `OWN`."""
    import taichi
    from taichi.lang import impl, ops
    from taichi.lang.expr import Expr

    def subscript(value: Any, index: Any) -> Any:
        return impl.subscript(context.ast_builder, value, *(index if isinstance(index, tuple) else (index,)))

    def assign(target: Any, value: Any) -> None:
        target._assign(impl.expr_init(value))

    def condition(compared: Any) -> Any:
        return ops.cast(ops.logical_and(True, compared), taichi.u1)

    def convert(kind: Any, value: Any) -> Any:
        return ops.cast(value, kind) if isinstance(value, Expr) else Expr(value, dtype=kind)

    return dict(zip(OWN, (subscript, assign, condition, convert), strict=True))


class _Variables(dict[str, Any]):
    """The variables of a function that is being translated."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __missing__(self, name: str) -> Any:
        for scope in reversed(self._context.local_scopes):
            if name in scope:
                return scope[name]
        raise KeyError(name)

    def __setitem__(self, name: str, value: Any) -> None:
        from taichi.lang import impl

        context = self._context
        known = context.get_var_by_name(name) if context.is_var_declared(name) else None
        if known is None:
            context.create_variable(name, impl.expr_init(impl.expr_init(value)))  # twice, as Taichi does
        else:
            known._assign(impl.expr_init(value))
