"""Translate generated sources for an engine in less than half of the time of its own translator.

An engine finds the text of a function by the tokens of its file, parses it, and visits each node of the syntax tree in Python: 20 us a
node, whether or not the compiled kernel is known already. Generated sources are mostly assignments, one after the other. Here such a
run is compiled and executed by Python: names stand for the engine's expressions, whose operators make further expressions in the order in
which its visitor would. So the engine is given the same program. Loops, conditions and assignments to several names are left to it.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import linecache
import os
import sys
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

GENERATED = "<diffsim generated "
"""Prefix of the file names of generated sources."""
UNREAD = (GENERATED, str(Path(__file__).parents[1]) + os.sep)
"""Prefixes of the file names of sources that users do not debug. An engine walks a function of this package at each call of it."""

STRAIGHT = (ast.BinOp, ast.Call, ast.Constant, ast.Name, ast.Subscript, ast.UnaryOp)
"""Nodes in the value of an assignment that needs no visitor."""
OWN = SUBSCRIPT, ASSIGN, CONDITION, CONVERT = tuple(
    f"{what} in a kernel" for what in ("subscript", "assignment", "condition", "conversion")
)
"""Functions that runs call. No source has such names."""

_trees: dict[str, dict[str, ast.FunctionDef]] = {}  # file name -> function -> its tree
_replaced: list[Callable[..., Any]] = []  # what each running import had for `inspect.getframeinfo` before
_replacing = threading.Lock()


def load(source: str, filename: str, namespace: dict[str, Any], real_function: Callable[..., Any]) -> None:
    """Define the functions of a generated source. Only the engine uses their bodies; `real_function` stands for `ti.real_func`."""
    tree = ast.parse(source, filename)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    _trees[filename] = {node.name: ast.FunctionDef(**vars(node)) for node in functions}
    for node in functions:
        node.body = [ast.copy_location(ast.Pass(), node)]
        if node.decorator_list[0].attr == "real_func":  # type: ignore[attr-defined]
            node.decorator_list = [ast.copy_location(ast.Name("real function", ast.Load()), node)]
    namespace["real function"] = real_function
    exec(compile(tree, filename, "exec", dont_inherit=True), namespace)


def forget(filename: str) -> None:
    """Drop the functions of a source."""
    _trees.pop(filename, None)


def is_generated(code: CodeType) -> bool:
    """True if it belongs to a generated function."""
    return code.co_filename in _trees


def without_places(otherwise: Callable[..., str]) -> Callable[..., str]:
    """The function that says where a node of a source stands, for errors. An engine wraps a text for every node, which takes half of
    Python's time for a kernel; nobody reads it for sources that users do not debug."""

    def place(context: Any, node: Any) -> str:
        return "" if str(context.file).startswith(UNREAD) else otherwise(context, node)

    return place


def tree_of(code: CodeType) -> ast.FunctionDef:
    """The syntax tree of a generated function. Translating it may change it, in a way that may be translated again."""
    tree = _trees[code.co_filename][code.co_name]
    tree.decorator_list = []
    return tree


def is_in_class(level_of_class_stackframe: int) -> bool:
    """True if a function is decorated within a class, for the decorators of an engine.

    An engine reads the source of the statement that began the class, and `inspect` goes through all modules of the process for it: 5 to
    10 ms for each function, also for the 28 of its own that it first imports for a kernel. Here the body of a class is known by its frame.

    Args:
        level_of_class_stackframe: frames from this function to the one that would have begun the class.
    """
    body = sys._getframe(level_of_class_stackframe - 1)
    return not body.f_code.co_flags & inspect.CO_OPTIMIZED and "__qualname__" in body.f_locals


@contextmanager
def reading_lines() -> Iterator[None]:
    """`inspect.getframeinfo` reads the line of a frame without its module, while an engine is imported.

    The import decorates 90 functions, and asks for the line that began the class of each. `inspect` looks for its module in all modules of
    the process: half of the time of the import. Several threads may import engines at once: the last to end puts the function of `inspect`
    back.
    """
    with _replacing:
        _replaced.append(inspect.getframeinfo)
        inspect.getframeinfo = frame_info
    try:
        yield
    finally:
        with _replacing:
            original = _replaced.pop()
            if not _replaced:  # it is what the first of them replaced; the others replaced `frame_info` by itself
                inspect.getframeinfo = original


def frame_info(frame: FrameType | TracebackType, context: int = 1, whole: Callable[..., Any] = inspect.getframeinfo) -> Any:
    """The place of a frame and its line, as `inspect.getframeinfo` has them; `whole` has all that is more than a line."""
    if context != 1 or not isinstance(frame, FrameType):
        return whole(frame, context)
    code, line = frame.f_code, frame.f_lineno
    text = linecache.getline(code.co_filename, line, frame.f_globals)
    return inspect.Traceback(code.co_filename, line, code.co_name, [text] if text else None, 0 if text else None)


@dataclass(frozen=True)
class Translator:
    """The parts of an engine's own translator that runs need.

    Attributes:
        types: the class of its types of numbers.
        subscript: of a context, a value and indices, an element.
        variable: of a value, a new variable that has it. An engine goes through a whole function for each variable of it.
        condition: of a comparison, its truth.
        convert: of a type and a value, the value in that type.
        statement: translates one statement.
    """

    types: type
    subscript: Callable[..., Any]
    variable: Callable[[Any], Any]
    condition: Callable[[Any], Any]
    convert: Callable[[Any, Any], Any]
    statement: Callable[[Any, ast.stmt], Any]

    def executing_runs(self, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """The engine's function that translates the statements of a block, replaced for generated functions."""

        def statements(context: Any, block: list[Any]) -> list[Any]:
            if context.file not in _trees:
                return otherwise(context, block)
            with context.variable_scope_guard():
                for straight, run in itertools.groupby(block, _is_straight):
                    if straight:
                        self._execute(context, list(run))
                    else:
                        for statement in run:
                            self.statement(context, statement)
            return block

        return statements

    def _execute(self, context: Any, run: list[ast.stmt]) -> None:
        def subscript(value: Any, index: Any) -> Any:
            return self.subscript(context.ast_builder, value, *(index if isinstance(index, tuple) else (index,)))

        def assign(target: Any, value: Any) -> None:
            target._assign(self.variable(value))

        names = context.global_vars
        in_python = _InPython({name for name, kind in names.items() if isinstance(kind, self.types)})
        code = compile(ast.Module([in_python(each) for each in run], []), context.file, "exec", dont_inherit=True)
        own = dict(zip(OWN, (subscript, assign, self.condition, self.convert), strict=True))
        exec(code, {**names, **own}, _Variables(context, self.variable))


def _is_straight(statement: ast.AST) -> bool:
    return isinstance(statement, ast.Assign) and isinstance(statement.value, STRAIGHT) and not isinstance(statement.targets[0], ast.Tuple)


class _InPython:
    """Makes assignments that Python can execute: it knows no subscripts of the engine's arrays, and calls no types. They change in place.

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


class _Variables(dict[str, Any]):
    """The variables of a function that is being translated."""

    def __init__(self, context: Any, variable: Callable[[Any], Any]) -> None:
        self._context, self._variable = context, variable

    def __missing__(self, name: str) -> Any:
        for scope in reversed(self._context.local_scopes):
            if name in scope:
                return scope[name]
        raise KeyError(name)

    def __setitem__(self, name: str, value: Any) -> None:
        if self._context.is_var_declared(name):
            self[name]._assign(self._variable(value))
        else:
            self._context.create_variable(name, self._variable(value))
