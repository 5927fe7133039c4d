"""Reads the source of a user's kernel and finds constructs that Taichi 1.7.4 runs, or differentiates, wrongly.

The walk goes through the kernel as Taichi does: through each `ti.func` at its calls, with the kinds of the arguments there.
It knows of each value whether it is a constant, an integer, a number with a derivative, a vector or an array, and in which
loop each local was first assigned. It refuses constructs that it cannot decide.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diffsim import engine
from diffsim.ad.userkernel import accesses, loops, operations
from diffsim.ad.userkernel.accesses import Access
from diffsim.ad.userkernel.findings import Finding
from diffsim.ad.userkernel.loops import Loop
from diffsim.ad.userkernel.signature import Signature
from diffsim.ad.userkernel.source import MISSING, Source
from diffsim.ad.userkernel.values import CONSTANT, INDEX, INTEGER, REAL, VECTOR, Value, join

DEEPEST_CALL = 30


@dataclass
class Report:
    """The result of the check of a kernel.

    Attributes:
        findings: in source order.
        stack: entries that Taichi's reverse mode may need for a local; 0: none.
    """

    findings: list[Finding] = field(default_factory=list)
    stack: int = 0
    accesses: list[Access] = field(default_factory=list)
    segments: int = 0

    @property
    def fatal(self) -> list[Finding]:
        """Findings for which the kernel must not run at all."""
        return [f for f in self.findings if f.fatal]


def check(source: Source, signature: Signature) -> Report:
    """Go through a kernel and everything that it calls."""
    report = Report()
    integers = frozenset(n for n, p in signature.parameters.items() if p.dtype is not None and p.dtype.kind in "iu")
    arguments = {
        name: Value("array", name) if not p.scalar else INTEGER if name in integers else REAL for name, p in signature.parameters.items()
    }
    body = Loop(source.tree)
    walk = Walk(source, report, signature, integers, arguments, body)
    walk.kernel()
    report.stack = max(report.stack, loops.judge(body))
    accesses.judge(report.accesses, signature.in_place, integers)
    unique = {(f.file, f.line, f.wrong): f for f in report.findings}
    report.findings = sorted(unique.values(), key=lambda f: (f.file, f.line))
    return report


class Walk:
    """One function's body, in the loop `loop` of its caller."""

    def __init__(
        self,
        source: Source,
        report: Report,
        signature: Signature,
        integers: frozenset[str],
        arguments: dict[str, Value],
        loop: Loop,
        depth: int = 0,
        unrolled: int = 1,
        guarded: int = 0,
    ) -> None:
        self.source, self.report, self.signature, self.integers = source, report, signature, integers
        self.locals = {name: Value(v.kind, v.array, loop) for name, v in arguments.items()}
        self.loop, self.depth, self.unrolled, self.guarded = loop, depth, unrolled, guarded
        self.static_loops = 0
        self.returned = CONSTANT
        targets = {id(n) for loop in ast.walk(source.tree) if isinstance(loop, ast.For) for n in ast.walk(loop.target)}
        names = [n for n in ast.walk(source.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        self.stores = Counter(n.id for n in names if id(n) not in targets)

    def flag(self, node: ast.AST, wrong: str, remedy: str, fatal: bool = False) -> None:
        """Add a finding."""
        line = getattr(node, "lineno", 1)
        text = self.source.lines[line - 1].strip()
        self.report.findings.append(Finding(self.source.file, self.source.first + line - 1, text, wrong, remedy, fatal))

    def resolve(self, node: ast.AST) -> Any:
        """The Python object that an expression names, or MISSING for a local or a computed one."""
        if isinstance(node, ast.Name):
            return MISSING if node.id in self.locals else self.source.resolve(node.id)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            return MISSING if base is MISSING else getattr(base, node.attr, MISSING)
        if isinstance(node, ast.Call) and (kind := self.type_factory(node)) is not None:
            return kind
        return MISSING

    def type_factory(self, node: ast.Call) -> Any:
        """`ti.types.vector(...)` called within a kernel counts as the type that it makes."""
        name = operations.name_in_language(self.resolve(node.func))
        return engine.language().Vector if name in ("vector", "matrix") else None

    # statements

    def kernel(self) -> None:
        """A kernel's body: top-level loops only, or no loop at all."""
        body = [s for s in self.source.tree.body if not self.is_docstring(s)]
        parallel = [s for s in body if isinstance(s, ast.For) and not self.is_static(s.iter)]
        plain = [s for s in body if not isinstance(s, ast.For) and self.has_effect(s)]
        if self.source.tree.returns is not None and not (
            isinstance(self.source.tree.returns, ast.Constant) and self.source.tree.returns.value is None
        ):
            self.flag(self.source.tree, "a kernel's return value has no place here", "write it to an array named in writes", fatal=True)
        if parallel and plain:
            self.flag(plain[0], "beside a top-level loop Taichi differentiates no other statement, and raises", "move it into the loop")
        for statement in body:
            if statement in parallel:
                self.top_level_loop(statement)
            else:
                self.statement(statement)

    def has_effect(self, statement: ast.stmt) -> bool:
        """True if a statement beside top-level loops is more than settings, assertions and constants."""
        if isinstance(statement, ast.If) and self.is_static(statement.test):
            return any(self.has_effect(s) and not isinstance(s, ast.For) for s in (*statement.body, *statement.orelse))
        if isinstance(statement, ast.Assign):
            return not self.is_static(statement.value)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            return operations.name_in_language(self.resolve(statement.value.func)) not in operations.NO_DERIVATIVE
        return not isinstance(statement, (ast.Pass, ast.For))

    def top_level_loop(self, node: ast.For) -> None:
        """A loop whose iterations are shared out over threads: a block of its own."""
        self.report.segments += 1
        before = dict(self.locals)
        targets = () if self.trips(node.iter) == 1 else tuple(n.id for n in ast.walk(node.target) if isinstance(n, ast.Name))
        self.expression(node.iter)
        outer, self.loop = self.loop, Loop(node, None, targets, flag=self.flag)
        self.set_targets(node)
        self.block(node.body)
        self.report.stack = max(self.report.stack, loops.judge(self.loop))
        self.loop, self.locals = outer, before

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        """Dispatch on the kind of statement; Taichi itself refuses or ignores kinds without a method here."""
        handler = getattr(self, f"on_{type(node).__name__}", None)
        if handler is not None:
            handler(node)
        elif not isinstance(node, (ast.Pass, ast.Assert)):
            self.flag(node, f"{type(node).__name__} statements are not known to be differentiated rightly", "write it another way")

    def on_While(self, node: ast.While) -> None:  # noqa: N802
        self.flag(node, "Taichi does not differentiate while, and raises", f"use a for loop with an if; {loops.REPEAT}")
        with self.inside(node, (), 1):  # one finding is enough
            self.expression(node.test)
            self.block(node.body)

    def jump(self, node: ast.Break | ast.Continue) -> None:
        if not self.static_loops:
            name = type(node).__name__.lower()
            self.flag(node, f"Taichi does not differentiate {name}, and raises", "put the statements after it under an if")

    on_Break = on_Continue = jump  # noqa: N815

    def on_Return(self, node: ast.Return) -> None:  # noqa: N802
        if self.depth == 0:
            self.flag(node, "a kernel with return cannot be differentiated", "write to arrays, and put later statements under an if")
        if node.value is not None:
            self.returned = join(self.returned, self.expression(node.value))

    def on_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        if isinstance(node.value, ast.Call) and self.is_atomic(node.value):
            self.atomic(node.value)
        else:
            self.expression(node.value)

    def on_If(self, node: ast.If) -> None:  # noqa: N802
        if self.is_static(node.test):
            self.block(node.body)
            self.block(node.orelse)
            return
        self.expression(node.test)
        self.guarded += 1
        self.block(node.body)
        self.block(node.orelse)
        self.guarded -= 1

    def on_For(self, node: ast.For) -> None:  # noqa: N802
        if self.is_static(node.iter):
            count = self.trips(node.iter.args[0]) if isinstance(node.iter, ast.Call) and node.iter.args else None
            factor = max(2, count if count is not None else 64)  # even once is several bodies to the rules of loops
            self.static_loops, self.unrolled = self.static_loops + 1, self.unrolled * factor
            for name in (n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)):
                self.locals[name] = Value("constant", loop=self.loop)
            self.block(node.body)
            self.static_loops, self.unrolled = self.static_loops - 1, self.unrolled // factor
            return
        self.expression(node.iter)
        targets = tuple(n.id for n in ast.walk(node.target) if isinstance(n, ast.Name))
        with self.inside(node, targets, self.trips(node.iter)):
            self.set_targets(node)
            self.block(node.body)

    @contextmanager
    def inside(self, node: ast.AST, targets: tuple[str, ...], trips: int | None) -> Iterator[None]:
        """Walk within an inner loop."""
        saved = self.loop, self.unrolled, self.guarded, self.static_loops, set(self.locals)
        child = Loop(node, self.loop, targets, trips, guarded=self.guarded > 0, unrolled=self.unrolled, flag=self.flag)
        self.loop.children.append(child)
        self.loop, self.unrolled, self.guarded, self.static_loops = child, 1, 0, 0
        yield
        self.loop, self.unrolled, self.guarded, self.static_loops, known = saved
        self.locals = {name: value for name, value in self.locals.items() if name in known}

    def set_targets(self, node: ast.For) -> None:
        """Loop variables are integers; that of `ti.grouped` is a vector of them."""
        grouped = isinstance(node.iter, ast.Call) and operations.name_in_language(self.resolve(node.iter.func)) == "grouped"
        for name in (n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)):
            self.locals[name] = Value("index" if grouped else "integer", loop=self.loop)

    def loops_around(self, until: Loop | None) -> Iterator[Loop]:
        """Loops from the innermost out, as far as `until`, which is left out; bodies outside inner loops are left out."""
        loop: Loop | None = self.loop
        while loop is not None and loop is not until and loop.parent is not None:
            yield loop
            loop = loop.parent

    def on_Assign(self, node: ast.Assign) -> None:  # noqa: N802
        value = self.expression(node.value)
        for target in node.targets:
            names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            for name in names:
                self.store(name, VECTOR if value.kind == "vector" and len(names) > 1 else value, node)

    def on_AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802
        value = self.expression(node.value) if node.value is not None else CONSTANT
        self.store(node.target, value, node)

    def on_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        value = self.expression(node.value)
        adds = isinstance(node.op, (ast.Add, ast.Sub))
        if not adds or isinstance(node.target, ast.Name):
            load = ast.copy_location(ast.parse(ast.unparse(node.target), mode="eval").body, node.target)
            ast.fix_missing_locations(load)
            value = join(value, self.expression(ast.increment_lineno(load, 0)))
        if isinstance(node.op, ast.Div):
            value = join(value, REAL)
        self.store(node.target, value, node, mode="add" if adds else "write")

    def store(self, target: ast.expr, value: Value, statement: ast.stmt, mode: accesses.Mode = "write") -> None:
        """Assign to a local, an element of a vector, or an array."""
        if isinstance(target, ast.Name):
            self.store_local(target.id, value, statement)
            return
        base = target.value if isinstance(target, (ast.Subscript, ast.Attribute)) else target
        array = self.expression(base) if isinstance(base, ast.Name) else self.expression(target)
        if array.kind == "array" and isinstance(target, ast.Subscript):
            self.expression(target.slice)
            self.touch(array.array, mode, target)
            constant = value.kind == "constant" and mode == "write" and array.array not in self.signature.in_place and not self.loop.parent
            if not constant and array.array not in self.integers:
                self.loop.beside.append(statement)
            if array.array not in self.signature.outputs:
                self.flag(
                    target,
                    f"{array.array} is written, but is not in writes; arguments of a call never change",
                    f"declare it: writes=(..., {array.array!r})",
                    fatal=True,
                )
            return
        if isinstance(target, ast.Subscript):
            self.element(target)
        if isinstance(base, ast.Name):
            self.store_local(base.id, join(array, value), statement)

    def store_local(self, name: str, value: Value, statement: ast.stmt) -> None:
        """Assign to a local: a new one of this loop, or one that the loops since its first assignment carry."""
        if value.kind == "array":
            self.flag(statement, "another name for an array hides reads and writes of it", "use the parameter itself")
        old = self.locals.get(name)
        if value.kind not in ("constant", "integer", "index") or (old is not None and old.kind in ("real", "vector")):
            self.loop.beside.append(statement)
        if isinstance(statement, ast.Assign) and self.is_static(statement.value):
            self.locals[name] = Value("constant", loop=self.loop)
            return
        self.loop.assignments += self.unrolled
        changing = self.stores[name] > 1 or self.unrolled > 1
        kind = "integer" if value.kind == "constant" and not self.is_float(statement) else value.kind
        kind = "real" if kind == "constant" else kind
        if old is None:
            self.locals[name] = Value(kind, loop=self.loop, changing=changing)
            return
        for loop in self.loops_around(old.loop):
            loop.carried.add(name)
        self.locals[name] = Value(join(old, Value(kind)).kind, loop=old.loop, changing=True)

    def is_float(self, statement: ast.stmt) -> bool:
        """True if the constant that is assigned is a float, so that the local has a derivative."""
        value = getattr(statement, "value", None)
        constants = [n.value for n in ast.walk(value) if isinstance(n, ast.Constant)] if value is not None else []
        return not constants or any(isinstance(c, float) for c in constants)

    # expressions

    def expression(self, node: ast.expr | None) -> Value:
        """The kind of an expression; adds a finding for each fault in it."""
        if node is None or isinstance(node, ast.Constant):
            return CONSTANT
        handler = getattr(self, f"on_{type(node).__name__}", None)
        if handler is not None:
            value: Value = handler(node)
            return value
        result = CONSTANT
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                result = join(result, self.expression(child))
        return INTEGER if isinstance(node, (ast.Compare, ast.BoolOp)) and result.kind != "constant" else result

    def on_Name(self, node: ast.Name) -> Value:  # noqa: N802
        known = self.locals.get(node.id)
        if known is not None:
            matters = known.kind in ("real", "vector") or (known.changing and known.kind in ("integer", "index"))
            if matters and not (self.depth == 0 and node.id in self.signature.parameters):
                for loop in self.loops_around(known.loop):
                    loop.borrowed.setdefault(node.id, node)
            return known
        thing = self.source.resolve(node.id)
        return self.outside(node, thing, node.id)

    def outside(self, node: ast.AST, thing: Any, name: str) -> Value:
        """A value from the module or the closure: a number, or something that has no place in a kernel here."""
        ti = engine.language()
        if isinstance(thing, (ti.Field, ti.ScalarNdarray)) or type(thing).__name__ in ("MatrixField", "StructField", "MatrixNdarray"):
            self.flag(
                node,
                f"{name} is a Taichi field from outside: it is not passed, so it gets no derivative, and dies with the next init",
                "pass its values as an array",
                fatal=True,
            )
        return CONSTANT

    def on_Attribute(self, node: ast.Attribute) -> Value:  # noqa: N802
        thing = self.resolve(node)
        if thing is not MISSING:
            return self.outside(node, thing, ast.unparse(node))
        base = self.expression(node.value)
        return INTEGER if base.kind == "array" else base

    def on_Subscript(self, node: ast.Subscript) -> Value:  # noqa: N802
        base = self.expression(node.value)
        if base.kind == "array":
            self.expression(node.slice)
            self.touch(base.array, "read", node)
            return INTEGER if base.array in self.integers else REAL
        if not (isinstance(node.value, ast.Attribute) and node.value.attr == "shape"):
            self.element(node)
        return INTEGER if base.kind == "index" else REAL if base.kind == "vector" else base

    def element(self, node: ast.Subscript) -> None:
        """An element of a local vector: its index must be a constant."""
        if self.expression(node.slice).kind != "constant":
            self.flag(
                node,
                "an element of a local vector at an index that is not a constant: Taichi's derivative is wrong, or ends the process",
                "loop with ti.static(range(...)), or keep the values in an array",
            )

    def on_IfExp(self, node: ast.IfExp) -> Value:  # noqa: N802
        if not self.is_static(node.test):
            self.expression(node.test)
        return join(self.expression(node.body), self.expression(node.orelse))

    def on_BinOp(self, node: ast.BinOp) -> Value:  # noqa: N802
        value = join(self.expression(node.left), self.expression(node.right))
        return REAL if isinstance(node.op, ast.Div) and value.kind == "integer" else value

    def on_ListComp(self, node: ast.ListComp) -> Value:  # noqa: N802
        for generator in node.generators:
            for name in (n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)):
                self.locals[name] = CONSTANT
        return self.expression(node.elt)

    def on_Call(self, node: ast.Call) -> Value:  # noqa: N802
        thing = self.resolve(node.func)
        if thing is MISSING:
            return self.method(node)
        if thing is engine.language().static:
            return CONSTANT
        name = operations.name_in_language(thing)
        if engine.present().is_function(thing) and name is None:
            return self.user_function(node, thing)
        if self.is_atomic(node):
            self.flag(node, "Taichi's reverse mode breaks where the result of an atomic is used", "use the atomic as a statement")
            return self.atomic(node)
        values = [self.expression(a) for a in (*node.args, *(k.value for k in node.keywords))]
        plain = getattr(thing, "__name__", "")
        if name is None and getattr(builtins, plain, None) is thing:
            name = plain
        return self.operation(node, name or "", join(CONSTANT, *values))

    def is_atomic(self, node: ast.Call) -> bool:
        return (operations.name_in_language(self.resolve(node.func)) or "").startswith("atomic_")

    def atomic(self, node: ast.Call) -> Value:
        """`ti.atomic_add(a[i], v)` and its like."""
        value = join(REAL, *(self.expression(a) for a in node.args[1:]))
        self.store(node.args[0], value, ast.copy_location(ast.Expr(node), node), mode="add")
        return self.operation(node, str(operations.name_in_language(self.resolve(node.func))), value)

    def operation(self, node: ast.Call, name: str, value: Value) -> Value:
        """A call of one of Taichi's own functions, or of a builtin that Taichi understands."""
        if name in operations.REFUSED:
            self.flag(node, *operations.REFUSED[name])
        elif name in ("int", "float", "cast", "range", "len", "print"):
            return INTEGER if name in ("int", "range", "len") else self.cast(node, name, value)
        elif name in operations.CELL_ONLY or name in operations.SMALL_ONLY:
            if value.kind not in ("constant", "integer", "index"):
                self.keep_last(node, name)
            return VECTOR if name in operations.SMALL_ONLY or name in ("Struct", "inverse", "solve", "normalize") else value
        elif name not in operations.ANYWHERE and name not in operations.NO_DERIVATIVE:
            self.flag(
                node, f"{ast.unparse(node.func)} is not known to be differentiated rightly", "use a function that is, or write it out"
            )
        elif name == "select":
            self.masked(node)
        if name in ("Vector", "Matrix") or name[:-1] in ("vec", "mat"):
            return INDEX if value.kind in ("integer", "index") else VECTOR
        return value

    def cast(self, node: ast.Call, name: str, value: Value) -> Value:
        """A conversion stops the derivative where it makes integers."""
        types = [self.resolve(a) for a in (node.func, *node.args[1:2])]
        whole = [t for t in types if t is int or str(t)[:1] in ("i", "u")]
        return INTEGER if whole and value.kind != "vector" else join(value, REAL) if name != "print" else CONSTANT

    def masked(self, node: ast.Call) -> None:
        """`ti.select` evaluates and differentiates both sides."""
        for side in node.args[1:]:
            for part in ast.walk(side):
                called = part.func if isinstance(part, ast.Call) else None
                name = getattr(called, "attr", getattr(called, "id", ""))
                power = isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow) and not isinstance(part.right, ast.Constant)
                divides = isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div) and not isinstance(part.right, ast.Constant)
                if name in operations.INFINITE_SLOPE or power or divides:
                    what = name or ("a power" if power else "a division")
                    self.flag(
                        node,
                        f"ti.select differentiates both sides, and {what} on the side not taken may make the gradient NaN",
                        "write `a if condition else b`, or an if",
                    )
                    return

    def keep_last(self, node: ast.AST, name: str) -> None:
        for loop in self.loops_around(None):
            loop.last_value.append((node, name))

    def method(self, node: ast.Call) -> Value:
        """A method of a vector or matrix."""
        if not isinstance(node.func, ast.Attribute):
            self.flag(node, f"{ast.unparse(node.func)} cannot be found when the kernel is checked", "define it before the first call")
            return REAL
        name = node.func.attr
        value = join(self.expression(node.func.value), *(self.expression(a) for a in node.args))
        if value.kind == "array":
            self.flag(node, f"{ast.unparse(node.func)} hides reads and writes of an array", "use the array's elements")
        if name in operations.METHODS_CELL_ONLY:
            self.keep_last(node, name)
        elif name not in operations.METHODS_ANYWHERE:
            self.flag(node, f"method {name} is not known to be differentiated rightly", "write it out")
        return value

    def user_function(self, node: ast.Call, thing: Any) -> Value:
        """Go through a `ti.func` where it is called."""
        values = [self.expression(a) for a in node.args]
        named = {k.arg: self.expression(k.value) for k in node.keywords if k.arg}
        if getattr(thing, "_is_real_function", False):
            self.flag(node, "Taichi does not differentiate a real_func, and raises", "make it a ti.func")
            return REAL
        if self.depth > DEEPEST_CALL:
            self.flag(node, "functions that call each other without end", "write a loop", fatal=True)
            return REAL
        source = Source.of(thing)
        names = [a.arg for a in source.tree.args.args]
        arguments = {**dict(zip(names, values, strict=False)), **named}
        shared = self.report, self.signature, self.integers
        inner = Walk(source, *shared, arguments, self.loop, self.depth + 1, self.unrolled, self.guarded)
        inner.block([s for s in source.tree.body if not self.is_docstring(s)])
        return join(CONSTANT, inner.returned)

    # helpers

    def touch(self, array: str, mode: accesses.Mode, node: ast.Subscript) -> None:
        """Record an access to an array."""
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        names = tuple(i.id if isinstance(i, ast.Name) else "" for i in index)
        plain = self.loop.parent is None and self.unrolled == 1 and self.depth == 0
        own = plain and bool(names) and names == self.loop.targets and not any(self.stores[n] for n in names)
        if not self.loop.targets:  # a kernel without loops: each statement runs once
            own = plain and all(isinstance(i, ast.Constant) for i in index)
        self.report.accesses.append(Access(array, mode, self.report.segments, own, self.apart(index), node, self.flag))

    def apart(self, index: list[ast.expr]) -> str | None:
        """The elements of an index that no two iterations of the top-level loop share, as text; None if they may share all."""
        body = self.loop
        while body.parent is not None:
            body = body.parent
        parts = []
        for target in body.targets:
            for position, element in enumerate(index):
                names = [n.id for n in ast.walk(element) if isinstance(n, ast.Name)]
                steady = all(n == target or self.locals.get(n, CONSTANT).kind == "constant" for n in names)
                shifts = all(isinstance(n.op, (ast.Add, ast.Sub)) for n in ast.walk(element) if isinstance(n, ast.BinOp))
                plain = not any(isinstance(n, ast.Subscript) for n in ast.walk(element))
                if names.count(target) == 1 and steady and shifts and plain and not self.stores[target]:
                    parts.append(f"{position}: {ast.unparse(element)}")
                    break
            else:
                return None
        return ", ".join(parts) if self.depth == 0 else None

    def is_static(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and self.resolve(node.func) is engine.language().static

    @staticmethod
    def is_docstring(node: ast.stmt) -> bool:
        return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)

    def trips(self, node: ast.expr) -> int | None:
        """The number of times that `range(...)` or `ti.ndrange(...)` runs, if its arguments are constants."""
        if not isinstance(node, ast.Call) or node.keywords:
            return None
        name = operations.name_in_language(self.resolve(node.func)) or getattr(self.resolve(node.func), "__name__", "")
        if name == "grouped" and len(node.args) == 1:
            return self.trips(node.args[0])
        try:
            values = [self.number(a) for a in node.args]
            if name == "range":
                return len(range(*values))
            if name == "ndrange":
                return int(np.prod([max(0, v[1] - v[0]) if isinstance(v, tuple) else max(0, v) for v in values]))
        except (TypeError, ValueError, ArithmeticError):
            return None
        return None

    def number(self, node: ast.expr) -> Any:
        """The value of a constant expression; raises ValueError where it is none."""
        if isinstance(node, ast.Tuple):
            return tuple(self.number(e) for e in node.elts)
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        values = {name: self.source.resolve(name) for name in names if name not in self.locals}
        allowed = (ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)
        if len(values) < len(names) or not all(isinstance(n, allowed) for n in ast.walk(node)):
            raise ValueError("not a constant")
        if not all(isinstance(v, (int, np.integer)) for v in values.values()):
            raise ValueError("not an integer")
        return eval(compile(ast.Expression(node), "<range>", "eval"), {"__builtins__": {}}, values)
