"""Remedies for a decision of Python by values of a tile program, in the words of the line that decides.

The instruction that a frame carries out has a place in its source, and the syntax tree tells its kind: a branch, a loop, a function of
Python's. Where the source is not known, the remedy is a general one.
"""

from __future__ import annotations

import ast
import copy
import functools
import linecache
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from diffsim.ad.arrays.guard import caller, is_library, user_frame
from diffsim.errors import DiffsimError, TileError

_LONGEST = 60
"""Characters of source in a message."""
_FUNCTIONS = {
    "max": ("np.max({})", "np.maximum({})"),
    "min": ("np.min({})", "np.minimum({})"),
    "sorted": ("np.sort({})", "np.sort({})"),
    "any": ("np.any({})", "np.any({})"),
    "all": ("np.all({})", "np.all({})"),
}
"""Functions of Python that ask for truth values: replacements for one argument, and for several."""
_BRANCH = "write np.where(condition, a, b) or ds.cond(condition, f, g, *args)"


def undecided(what: str, remedy: str) -> TileError:
    """The error about a value that cannot be known for all tiles at once."""
    return TileError(f"{caller()}: {what} a value of a tile program, which differs from tile to tile; {remedy}")


def no_truth_value() -> TileError:
    """The error where Python asks for a truth value."""
    decision = _decision(user_frame())
    return undecided("a truth value of", _BRANCH if decision is None else f"in place of `{decision[0]}` write {decision[1]}")


def no_index() -> TileError:
    """The error where Python asks for a whole number: a length, an index of a list, a bound of a slice or a range."""
    remedy = "lengths and shapes are known numbers; take the largest, and choose by np.where(np.arange(length) < n, a, b)"
    node = next(_around(user_frame()), None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        remedy = "the bounds of a range are known numbers; write ds.fori_loop(0, n, body, state)"
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        remedy = "bounds of slices are known numbers; gather by positions, x[start + np.arange(length)]"
    elif isinstance(node, ast.Subscript):
        remedy = "Python's lists and tuples take known numbers; make an array of it, np.array(values)[k]"
    return undecided("an index or a length of", remedy)


def no_number(name: str, remedy: str) -> TileError:
    """The error of a conversion to a number of Python or an array of NumPy.

    Args:
        name: of the conversion, such as float().
        remedy: the replacement, unless the line stores into an array of NumPy.
    """
    node = next(_around(user_frame()), None)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        array = ast.unparse(node.value)
        remedy = f"{array} is an array of NumPy, which keeps no values of tiles; make it by diffsim.numpy, such as np.zeros(4)"
    return undecided(f"{name} of", remedy)


@contextmanager
def located() -> Iterator[None]:
    """While it lasts, errors of diffsim name the line of the user's function that is being run."""
    try:
        yield
    except ValueError as error:
        if isinstance(error.__cause__, TileError):  # NumPy puts its own error around that of a conversion
            raise error.__cause__ from None
        _name_line(error)
        raise
    except DiffsimError as error:
        _name_line(error)
        raise


def _name_line(error: Exception) -> None:
    """Put the line before the message, unless it is there."""
    if not isinstance(error, DiffsimError) or not error.args or re.match(r".*:\d+: ", str(error.args[0])):
        return
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if not is_library(frame)]
    if frames:
        frame, line = frames[-1]
        error.args = (f"{frame.f_code.co_filename}:{line}: {error.args[0]}", *error.args[1:])


def _decision(frame: FrameType | None) -> tuple[str, str] | None:
    """The use of a truth value in a frame, and its replacement; None if the source does not tell."""
    decision, inner = None, None
    for node in _around(frame):
        if isinstance(node, (ast.If, ast.While, ast.Assert, ast.IfExp)) and (inner is None or inner is node.test):
            return _branch(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and inner is None:
            one, several = _FUNCTIONS[node.func.id]
            return _text(node), (one if len(node.args) == 1 else several).format(", ".join(map(_text, node.args)))
        if inner is None and isinstance(node, ast.Call):
            decision = _text(node), "other functions, such as np.where and np.sort"
        elif inner is None and isinstance(node, ast.expr) and (written := _entry_by_entry(node)) != _text(node):
            decision = _text(node), written
        elif inner is not None and not isinstance(node, (ast.BoolOp, ast.UnaryOp)):
            break
        inner = node
    return decision


def _branch(node: ast.If | ast.While | ast.Assert | ast.IfExp) -> tuple[str, str]:
    condition, written = _text(node.test), _entry_by_entry(node.test)
    written = "condition" if written.endswith("...") else written
    if isinstance(node, ast.IfExp):
        return _text(node), f"np.where({written}, {_text(node.body)}, {_text(node.orelse)})"
    if isinstance(node, ast.Assert):
        return f"assert {condition}", "a check of the results after the call"
    if isinstance(node, ast.While):
        return f"while {condition}", f"ds.while_loop(lambda state: {written}, body, state, max_steps=n)"
    if any(isinstance(n, ast.Break) for part in node.body for n in ast.walk(part)):
        return f"if {condition}", "the loop as ds.while_loop(condition, body, state), and choose in its body by np.where"
    return f"if {condition}", f"np.where({written}, a, b) or ds.cond({written}, f, g, *args)"


class _EntryByEntry(ast.NodeTransformer):
    """Puts operators of arrays in the place of Python's, which ask for truth values."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        return _joined([self.visit(v) for v in node.values], ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr())

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        return _called("np.logical_not", self.visit(node.operand)) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        sides = [node.left, *node.comparators]
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            same = ast.Compare(sides[1], [ast.Eq()], [sides[0]])
            return _called("np.any", same) if isinstance(node.ops[0], ast.In) else _called("np.logical_not", _called("np.any", same))
        return _joined([ast.Compare(a, [op], [b]) for a, op, b in zip(sides, node.ops, sides[1:], strict=False)], ast.BitAnd())


def _joined(parts: list[ast.expr], op: ast.operator) -> ast.expr:
    return functools.reduce(lambda a, b: ast.BinOp(a, op, b), parts)


def _called(name: str, argument: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name), [argument], [])


def _entry_by_entry(node: ast.expr) -> str:
    """Source of a condition with operators of arrays."""
    return _text(_EntryByEntry().visit(copy.deepcopy(node)))


def _text(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _around(frame: FrameType | None) -> Iterator[ast.AST]:
    """The nodes of the source around the instruction of a frame, from the innermost up to a statement."""
    span = None if frame is None else _span(frame)
    if frame is None or span is None:
        return
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
    except SyntaxError:
        return
    for node in reversed([n for n in ast.walk(tree) if _covers(n, span)]):  # each lies in the next
        yield node
        if isinstance(node, (ast.stmt, ast.Lambda)):
            return


def _span(frame: FrameType) -> tuple[int, int, int, int] | None:
    """Lines and columns of the instruction of a frame; None before Python 3.11, which does not know them."""
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is None:
        return None
    line, last, column, end = list(positions())[frame.f_lasti // 2]
    return None if line is None or last is None or column is None or end is None else (line, column, last, end)


def _covers(node: ast.AST, span: tuple[int, int, int, int]) -> bool:
    if not isinstance(node, (ast.stmt, ast.expr)) or node.end_lineno is None or node.end_col_offset is None:
        return False
    return (node.lineno, node.col_offset) <= span[:2] and span[2:] <= (node.end_lineno, node.end_col_offset)
