"""One of NumPy's test modules with its calls recorded and repeated by diffsim: python scripts/fuzz/numpy_recorder.py MODULE FILE"""

from __future__ import annotations

import ast
import builtins
import collections
import contextlib
import json
import operator
import resource
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _pytest.assertion.rewrite as rewriting
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
import diffsim as ds
import diffsim.numpy as dn
from diffsim.ad.arrays.array import Array
from tests.numpy.variants import Call, coarsest, difference, inside, of_numpy

ALTOGETHER = 10
"""Seconds of a test with all its parameters; those that are left are skipped."""
SECONDS = 3
"""Time limit of a test. Comparisons made before it count."""
LARGEST = 1 << 14
"""Entries of the arguments of a call together; larger ones are left out."""
MEMORY = 6 << 30
EXAMPLES = 400
"""Differences that are kept of a function."""


class ExpiredError(BaseException):
    """A test takes too long."""


# calls


@dataclass(frozen=True)
class Method(Call):
    """A method of the first argument."""

    def run(self, namespace: Any, args: Any, kwargs: Any) -> Any:
        return getattr(args[0], self.name.split(".")[1])(*args[1:], **kwargs)


@dataclass(frozen=True)
class Operator(Call):
    """An operator of Python's; an assignment gives the array that it changed."""

    def run(self, namespace: Any, args: Any, kwargs: Any) -> Any:
        result = getattr(operator, self.name.split(".")[1])(*args)
        return args[0] if self.name == "operator.setitem" else result


class State:
    """Results for a module, and a flag while a comparison is in progress."""

    def __init__(self) -> None:
        self.calls: collections.Counter[str] = collections.Counter()
        self.differences: dict[str, list[str]] = collections.defaultdict(list)
        self.spent: dict[str, float] = collections.defaultdict(float)
        self.busy = False
        self.skipped = 0
        self.seen: set[Any] = set()


state = State()


def compare(call: Call) -> None:
    """Make a call in both ways and note how the outcomes differ."""
    state.busy = True
    try:
        if entries((call.args, call.kwargs)) > LARGEST or not comparable((call.args, call.kwargs)):
            state.skipped += 1
            return
        key = (call.name, text_of(call.args, 4000), text_of(call.kwargs, 4000))
        if key in state.seen:
            return
        state.seen.add(key)
        state.calls[call.name] += 1
        for traced in (True, False):
            wanted, result = of_numpy(call, call.args, call.kwargs, traced), inside(call, call.args, call.kwargs, traced)
            text = difference(result, wanted, coarsest((call.args, call.kwargs)))
            if text and len(state.differences[call.name]) < EXAMPLES:
                shown = text_of((call.args, call.kwargs), 300)
                tags = " ".join(sorted(kinds((call.args, call.kwargs))))
                text = f"{text} || {'differentiated' if traced else 'constant'} {tags}: {shown}"
                if text not in state.differences[call.name]:
                    state.differences[call.name].append(text)
    finally:
        state.busy = False


def entries(x: Any) -> int:
    """The number of entries in arguments."""
    if isinstance(x, (list, tuple)):
        return sum(map(entries, x)) + len(x)
    if isinstance(x, dict):
        return sum(map(entries, x.values()))
    if isinstance(x, np.ndarray):
        return x.size
    if isinstance(x, range):
        return len(x)
    return abs(x) if isinstance(x, int) and abs(x) < 1 << 62 else 1


def comparable(x: Any) -> bool:
    """True if a call can be repeated: iterators are used up by the first one, and the object of a recorder is not copied."""
    if isinstance(x, (list, tuple)):
        return all(map(comparable, x))
    if isinstance(x, dict):
        return all(map(comparable, x.values()))
    return not isinstance(x, (Iterator, memoryview))


def kinds(x: Any) -> set[str]:
    """Unusual properties of arguments."""
    if isinstance(x, (list, tuple)):
        return set().union(*map(kinds, x))
    if isinstance(x, dict):
        return kinds(list(x.values()))
    if not isinstance(x, (np.ndarray, np.generic)):
        known = isinstance(x, (int, float, complex, str, bytes, type, np.dtype, slice, type(Ellipsis), type(None)))
        return set() if known or callable(x) else {"<foreign>"}
    seen = set() if isinstance(x, np.generic) or type(x) is np.ndarray else {"<subclass>"}
    seen |= {"<swapped>"} if not x.dtype.isnative else set()
    return seen | ({f"<{x.dtype.kind}>"} if x.dtype.kind not in "fciub" else set())


def text_of(x: Any, most: int) -> str:
    """Arguments in words."""
    if isinstance(x, np.ndarray):
        with np.printoptions(threshold=most, floatmode="unique", linewidth=200):
            text = f"{type(x).__name__}({np.array2string(x, separator=',')}, {x.dtype}, {x.shape}, {x.strides})".replace("\n", " ")
    elif isinstance(x, (list, tuple)):
        text = f"{type(x).__name__}({', '.join(text_of(part, most) for part in x)})"
    elif isinstance(x, dict):
        text = f"dict({', '.join(f'{k}={text_of(part, most)}' for k, part in x.items())})"
    else:
        text = f"{repr(x).split(' at 0x')[0]}"
    return text if len(text) <= most else f"{text[:most]}..."


# recorders


def public() -> dict[int, tuple[str, Any]]:
    """NumPy's functions that diffsim has, by identity."""
    functions: dict[int, tuple[str, Any]] = {}
    for prefix, theirs, ours in (("", np, dn), ("linalg.", np.linalg, dn.linalg), ("fft.", np.fft, dn.fft)):
        for name in ours.__all__:
            function = getattr(theirs, name, None)
            if callable(function) and not isinstance(function, type) and id(function) not in functions:
                functions[id(function)] = (prefix + name, function)
    return functions


PUBLIC = public()
PLAIN = (np.testing, np.random, np.ma, np.polynomial, np.ctypeslib)


class Recorder:
    """A function of NumPy's whose calls are repeated by diffsim, and its attributes (`add.reduce`)."""

    def __init__(self, name: str, function: Any) -> None:
        self._name, self._function = name, function

    @property
    def __class__(self) -> type:
        return type(self._function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = plain(args), plain(kwargs)
        if not state.busy:
            compare(Call(self._name, args, kwargs))
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._function, name)
        if name in ("reduce", "accumulate", "outer", "at", "reduceat"):
            return Recorder(f"{self._name}.{name}", member)
        return member

    def __eq__(self, other: object) -> bool:
        return self._function == plain(other)

    def __hash__(self) -> int:
        return hash(self._function)

    def __repr__(self) -> str:
        return repr(self._function)


class Module:
    """A module of NumPy's with recorders for functions."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return recorder(getattr(self._module, name))


def plain(x: Any) -> Any:
    """Arguments without recorders."""
    if type(x) in (list, tuple):
        return type(x)([plain(part) for part in x])
    if type(x) is dict:
        return {key: plain(part) for key, part in x.items()}
    if type(x) is Recorder:
        return x._function
    return x._module if type(x) is Module else x


def recorder(x: Any) -> Any:
    """The replacement of a function or module in a test. Other objects are returned unchanged."""
    if isinstance(x, types.ModuleType):
        return Module(x) if x.__name__.startswith("numpy") and x not in PLAIN and not x.__name__.startswith("numpy.testing") else x
    with contextlib.suppress(TypeError):
        if id(x) in PUBLIC and PUBLIC[id(x)][1] is x:
            return Recorder(*PUBLIC[id(x)])
    return x


METHODS = {n for n in dir(Array) if not n.startswith("_") and callable(getattr(np.ndarray, n, None))} - {"tolist", "view"}
BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow",
    ast.MatMult: "matmul", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne", ast.USub: "neg", ast.UAdd: "pos",
    ast.Invert: "invert",
}  # fmt: skip


def is_array(x: Any) -> bool:
    return type(x) is np.ndarray


def method(x: Any, name: str) -> Callable[..., Any]:
    """A method, whose call is repeated if it is one of an array."""
    member = getattr(x, name)
    if not is_array(x) or state.busy or x.dtype.kind not in "fciub":
        return member

    def run(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = plain(args), plain(kwargs)
        if not state.busy:
            compare(Method(f"method.{name}", (x, *args), kwargs))
        return member(*args, **kwargs)

    return run


def operation(name: str, *args: Any) -> Any:
    """An operator, whose use is repeated if an argument is an array."""
    watched = args[:1] if name in ("getitem", "setitem") else args
    if not state.busy and any(is_array(x) and x.dtype.kind in "fciub" for x in watched):
        args = plain(args)
        compare(Operator(f"operator.{name}", args, {}))
    return getattr(operator, name)(*args)


class Rewriter(ast.NodeTransformer):
    """Puts recorders for methods and operators into a test."""

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            node.func = self._call("recorded_method", node.func.value, ast.Constant(node.func.attr))
        return node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        return self._operation(BINARY[type(node.op)], node.left, node.right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        constant = isinstance(node.operand, ast.Constant)
        return node if type(node.op) not in BINARY or constant else self._operation(BINARY[type(node.op)], node.operand)

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) > 1 or type(node.ops[0]) not in BINARY:
            return node
        return self._operation(BINARY[type(node.ops[0])], node.left, node.comparators[0])

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        return self._operation("getitem", node.value, self._index(node.slice)) if isinstance(node.ctx, ast.Load) else node

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        if len(node.targets) > 1 or not isinstance(node.targets[0], ast.Subscript):
            return node
        target = node.targets[0]
        return ast.Expr(self._operation("setitem", target.value, self._index(target.slice), node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.body = [self.visit(part) for part in node.body]
        return node

    def _index(self, node: ast.expr) -> ast.expr:
        """An index as a value: slices are made by a call."""
        if isinstance(node, ast.Slice):
            parts = [part or ast.Constant(None) for part in (node.lower, node.upper, node.step)]
            return self._call("recorded_slice", *parts)
        return ast.Tuple([self._index(part) for part in node.elts], ast.Load()) if isinstance(node, ast.Tuple) else node

    def _operation(self, name: str, *args: ast.expr) -> ast.expr:
        return self._call("recorded_operation", ast.Constant(name), *args)

    def _call(self, name: str, *args: ast.expr) -> ast.expr:
        return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def rewrite(module: ast.Module, *_: Any) -> None:
    Rewriter().visit(module)
    for node in ast.walk(module):
        if isinstance(node, (ast.expr, ast.stmt)):
            node.lineno = getattr(node, "lineno", 1)
            node.col_offset = node.end_col_offset = 0
            node.end_lineno = node.lineno


# pytest


class Plugin:
    """Puts the recorders for functions into the collected modules and bounds the time of each test."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        for module in {item.module for item in items if hasattr(item, "module")}:
            for name, value in list(vars(module).items()):
                if not name.startswith("@"):
                    setattr(module, name, recorder(value))
        for item in items:  # parameters such as `np.add`
            spec = getattr(item, "callspec", None)
            for name, value in dict(spec.params if spec else {}).items():
                spec.params[name] = recorder(value)
        state.busy = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Any:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        state.seen.clear()
        test, start = item.nodeid.partition("[")[0], time.perf_counter()
        if state.spent[test] > ALTOGETHER:
            signal.setitimer(signal.ITIMER_REAL, 0)
            pytest.skip("enough of this test")
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            state.spent[test] += time.perf_counter() - start


def expire(*_: Any) -> None:
    raise ExpiredError


def main() -> None:
    name, path = sys.argv[1:3]
    start = time.perf_counter()
    ds.grad(lambda x: dn.sum(x * x))(1.0)  # late imports
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, expire)
    sys.dont_write_bytecode = True
    rewriting.rewrite_asserts = rewrite  # type: ignore[assignment]
    rewriting._read_pyc = lambda *_: None  # type: ignore[assignment]
    builtins.recorded_method, builtins.recorded_operation, builtins.recorded_slice = method, operation, slice  # type: ignore[attr-defined]
    state.busy = True
    options = [
        "--pyargs",
        name,
        "-q",
        "-c",
        "/dev/null",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        "--tb=no",
        "-p",
        "no:unraisableexception",
    ]
    pytest.main([*options, *sys.argv[3:]], plugins=[Plugin()])
    results = {
        "calls": state.calls,
        "differences": state.differences,
        "skipped": state.skipped,
        "seconds": round(time.perf_counter() - start),
    }
    Path(path).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
