"""Reads the source of a user's kernel: lets through constructs whose derivative by Taichi 1.7.4 is right, and no others.

The walk goes through each `ti.func` at its calls. It knows of each name whether it is an array, fixed when Taichi compiles,
or another local. Loops inside of the parallel one are let through only where they are all that the loop around them has:
then no local lives outside of the innermost body. Where one does, Taichi loses derivatives without an error, or overruns
the stack of a thread.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from diffsim import engine
from diffsim.ad.userkernel import accesses, operations
from diffsim.ad.userkernel.accesses import Access
from diffsim.ad.userkernel.findings import Finding
from diffsim.ad.userkernel.signature import Signature
from diffsim.ad.userkernel.source import MISSING, Source

DEEPEST_CALL = 30
SHIFTS = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Add, ast.Sub, ast.USub, ast.expr_context)
"""Parts of an index that differs from iteration to iteration where the loop's variable does."""
STATEMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.Pass, ast.Assert)


@dataclass
class Report:
    """The result of the check of a kernel. `findings` are in source order."""

    findings: list[Finding] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    segments: int = 0

    @property
    def fatal(self) -> list[Finding]:
        """Findings for which the kernel must not run at all."""
        return [f for f in self.findings if f.fatal]


def check(source: Source, signature: Signature) -> Report:
    """Go through a kernel and everything that it calls."""
    report = Report()
    arrays = {name: name for name, p in signature.parameters.items() if not p.scalar}
    Walk(source, report, signature, Scope(arrays, frozenset(signature.parameters))).kernel()
    integers = frozenset(n for n, p in signature.parameters.items() if p.dtype is not None and p.dtype.kind in "iu")
    accesses.judge(report.accesses, signature.in_place, integers)
    unique = {(f.file, f.line, f.wrong): f for f in report.findings}
    report.findings = sorted(unique.values(), key=lambda f: (f.file, f.line))
    return report


@dataclass(frozen=True)
class Scope:
    """Names at one place of a function, and the place.

    Attributes:
        arrays: parameters of the kernel, by the name that they have here.
        locals: names that are not taken from outside the function.
        fixed: locals that Taichi knows when it compiles, such as variables of unrolled loops.
        targets: variables of the top-level loop.
        loop: the innermost loop that is not unrolled.
        unrolled: it is in an unrolled loop.
        depth: number of `ti.func`s around it.
    """

    arrays: dict[str, str]
    locals: frozenset[str]
    fixed: frozenset[str] = frozenset()
    targets: tuple[str, ...] = ()
    loop: ast.For | None = None
    nested: bool = False
    unrolled: bool = False
    depth: int = 0

    def with_names(self, names: Iterable[str], fixed: Iterable[str] = ()) -> Scope:
        """The scope after these names were assigned, some of them to what is fixed."""
        return replace(self, locals=self.locals.union(names), fixed=self.fixed.difference(names).union(fixed))


class Walk:
    """One function's body."""

    def __init__(self, source: Source, report: Report, signature: Signature, scope: Scope) -> None:
        self.source, self.report, self.signature = source, report, signature
        loops = [n for n in ast.walk(source.tree) if isinstance(n, (ast.For, ast.comprehension))]
        targets = {id(n) for loop in loops for n in ast.walk(loop.target)}
        stores = [n for n in ast.walk(source.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        self.assigned = Counter(n.id for n in stores if id(n) not in targets)
        self.scope = scope.with_names(self.assigned)

    def flag(self, node: ast.AST, wrong: str, remedy: str, fatal: bool = False) -> None:
        """Add a finding."""
        line = getattr(node, "lineno", 1)
        text = self.source.lines[line - 1].strip()
        self.report.findings.append(Finding(self.source.file, self.source.first + line - 1, text, wrong, remedy, fatal))

    def resolve(self, node: ast.AST) -> Any:
        """The Python object that an expression names, or MISSING for a local or a computed one."""
        if isinstance(node, ast.Name):
            return MISSING if node.id in self.scope.locals else self.source.resolve(node.id)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            return MISSING if base is MISSING else getattr(base, node.attr, MISSING)
        if isinstance(node, ast.Call) and operations.name_in_language(self.resolve(node.func)) in ("vector", "matrix"):
            return engine.language().Vector  # `ti.types.vector(...)` within a kernel counts as the type that it makes
        return MISSING

    # statements

    def kernel(self) -> None:
        """A kernel's body: top-level loops only, or no loop at all."""
        returns = self.source.tree.returns
        if returns is not None and not (isinstance(returns, ast.Constant) and returns.value is None):
            self.flag(self.source.tree, "a kernel's return value has no place here", "write it to an array named in writes", fatal=True)
        body = list(self.outermost(self.source.tree.body))
        loops = [s for s in body if isinstance(s, ast.For) and not self.is_static(s.iter)]
        others = [s for s in body if not isinstance(s, ast.For) and self.has_effect(s)]
        if loops and others:
            self.flag(others[0], "beside a top-level loop Taichi differentiates no other statement, and raises", "move it into the loop")
        for statement in body:
            if statement in loops:
                self.top_level_loop(statement)
            else:
                self.statement(statement)

    def outermost(self, statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
        """Statements of a kernel's body, those under an `if` that is decided when Taichi compiles among them."""
        for statement in statements:
            if isinstance(statement, ast.If) and self.is_static(statement.test):
                yield from self.outermost((*statement.body, *statement.orelse))
            else:
                yield statement

    def has_effect(self, statement: ast.stmt) -> bool:
        """True if a statement beside top-level loops is more than a setting, an assertion, a constant or a text."""
        if isinstance(statement, ast.Assign):
            return not self.is_static(statement.value)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            return self.language_name(statement.value) not in operations.STATEMENTS
        return not isinstance(statement, (ast.Pass, ast.Assert)) and not self.is_text(statement)

    def top_level_loop(self, node: ast.For) -> None:
        """A loop whose iterations are shared out over threads."""
        self.report.segments += 1
        outside = self.scope
        self.loop_head(node.iter)
        self.scope = replace(outside.with_names(_names(node.target)), targets=_names(node.target), loop=node)
        self.block(node.body)
        self.scope = outside

    def loop_head(self, node: ast.expr) -> None:
        """The range of a loop; `for i in x` and `for cell in ti.grouped(x)` read no value of an array."""
        array = node
        if isinstance(node, ast.Call) and len(node.args) == 1 and self.language_name(node) == "grouped":
            array = node.args[0]
        if self.array_of(array) is None:
            self.expression(node)

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        """Dispatch on the kind of statement."""
        if isinstance(node, (ast.Break, ast.Continue)) and self.scope.unrolled:
            return
        if isinstance(node, ast.Return) and self.scope.depth:
            self.expression(node.value)
        elif not isinstance(node, STATEMENTS):
            name = type(node).__name__.lower()
            self.flag(node, f"the derivative of {name} is not known to be right", "use for loops and if, and write results to arrays")
        elif not isinstance(node, (ast.Pass, ast.Assert)):
            getattr(self, f"on_{type(node).__name__}")(node)

    def on_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        call = node.value
        if isinstance(call, ast.Call) and len(call.args) == 2 and self.language_name(call) in operations.ADDING:
            self.expression(call.args[1])
            self.store(call.args[0], "add")
        elif not (isinstance(call, ast.Call) and self.language_name(call) in operations.STATEMENTS):
            self.expression(call)

    def on_If(self, node: ast.If) -> None:  # noqa: N802
        self.expression(node.test)
        self.block(node.body)
        self.block(node.orelse)

    def on_For(self, node: ast.For) -> None:  # noqa: N802
        outside = self.scope
        if self.is_static(node.iter):
            names = _names(node.target)
            self.scope = replace(outside.with_names(names, [n for n in names if n not in self.assigned]), unrolled=True)
        else:
            if outside.loop is None or outside.loop.body != [node] or outside.depth:
                self.flag(
                    node,
                    "an inner loop beside other statements is differentiated wrongly, or ends the process",
                    "ti.static(range(...)) unrolls a short loop; or let the inner loop be all that the loop around it has",
                )
            self.loop_head(node.iter)
            self.scope = replace(outside.with_names(_names(node.target)), loop=node, nested=True, unrolled=False)
        self.block(node.body)
        self.scope = replace(outside, fixed=outside.fixed & self.scope.fixed)

    def on_Assign(self, node: ast.Assign) -> None:  # noqa: N802
        self.expression(node.value)
        for target in node.targets:
            for part in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                self.store(part, "write", fixed=self.is_static(node.value))

    def on_AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802
        self.expression(node.value)
        self.store(node.target, "write")

    def on_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        self.expression(node.value)
        adds = isinstance(node.op, (ast.Add, ast.Sub))
        if not adds and isinstance(node.target, ast.Subscript):
            self.expression(node.target)
        self.store(node.target, "add" if adds else "write")

    def store(self, target: ast.expr, mode: accesses.Mode, fixed: bool = False) -> None:
        """Assign to a local, an element of a vector, or an array."""
        if isinstance(target, ast.Name):
            self.scope = self.scope.with_names([target.id], [target.id] if fixed and self.assigned[target.id] == 1 else [])
            return
        array = self.array_of(target.value) if isinstance(target, ast.Subscript) else None
        if isinstance(target, ast.Subscript) and array is not None:
            self.expression(target.slice)
            self.touch(array, mode, target)
            if array not in self.signature.outputs:
                self.flag(
                    target,
                    f"{array} is written, but is not in writes; arguments of a call never change",
                    f"declare it: writes=(..., {array!r})",
                    fatal=True,
                )
        else:
            self.expression(target)

    # expressions

    def expression(self, node: ast.AST | None) -> None:
        """Go through an expression; adds a finding for each fault in it."""
        handler = getattr(self, f"on_{type(node).__name__}", None)
        if handler is not None:
            handler(node)
        elif node is not None:
            for child in ast.iter_child_nodes(node):
                self.expression(child)

    def array_of(self, node: ast.AST) -> str | None:
        """The parameter of the kernel that an expression names, if it is an array."""
        return self.scope.arrays.get(node.id) if isinstance(node, ast.Name) else None

    def is_fixed(self, node: ast.AST) -> bool:
        """True if Taichi knows the value of an expression when it compiles."""
        if self.is_static(node):
            return True
        if any(isinstance(n, (ast.Call, ast.Subscript)) for n in ast.walk(node)):
            return False
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        return not names & (self.scope.locals - self.scope.fixed)

    def on_Name(self, node: ast.Name) -> None:  # noqa: N802
        if self.array_of(node) is not None:
            self.flag(node, f"{node.id} without an index hides reads and writes of an array", "use the array's elements")
        elif node.id not in self.scope.locals:
            self.outside(node, self.source.resolve(node.id))

    def outside(self, node: ast.AST, thing: Any) -> None:
        """Refuse Taichi's fields from the module or the closure."""
        ti = engine.language()
        if isinstance(thing, (ti.Field, ti.ScalarNdarray)) or type(thing).__name__ in ("MatrixField", "StructField", "MatrixNdarray"):
            name = ast.unparse(node)
            self.flag(
                node,
                f"{name} is a Taichi field from outside: it is not passed, so it gets no derivative, and dies with the next init",
                "pass its values as an array",
                fatal=True,
            )

    def on_Attribute(self, node: ast.Attribute) -> None:  # noqa: N802
        thing = self.resolve(node)
        if thing is not MISSING:
            self.outside(node, thing)
        elif self.array_of(node.value) is None or node.attr != "shape":
            self.expression(node.value)

    def on_Subscript(self, node: ast.Subscript) -> None:  # noqa: N802
        array = self.array_of(node.value)
        self.expression(node.slice)
        if array is not None:
            self.touch(array, "read", node)
            return
        self.expression(node.value)
        if not self.is_fixed(node.slice):
            self.flag(
                node,
                "an element of a local vector at an index that is not a constant: Taichi's derivative is wrong, or ends the process",
                "loop with ti.static(range(...)), or keep the values in an array",
            )

    def on_ListComp(self, node: ast.ListComp) -> None:  # noqa: N802
        outside = self.scope
        for generator in node.generators:
            self.expression(generator.iter)
            fixed = isinstance(generator.iter, ast.Call) and all(map(self.is_fixed, generator.iter.args))
            self.scope = self.scope.with_names(_names(generator.target), _names(generator.target) if fixed else ())
        self.expression(node.elt)
        self.scope = outside

    def on_Call(self, node: ast.Call) -> None:  # noqa: N802
        thing = self.resolve(node.func)
        if self.is_static(node):
            return
        name = operations.name_in_language(thing)
        if engine.present().is_function(thing) and name is None:
            self.user_function(node, thing)
            return
        for argument in (*node.args, *(k.value for k in node.keywords)):
            self.expression(argument)
        if thing is MISSING and isinstance(node.func, ast.Attribute):
            self.expression(node.func.value)
            known = node.func.attr in operations.METHODS
        else:
            plain = getattr(thing, "__name__", "")
            known = (plain if getattr(builtins, plain, None) is thing else name) in operations.KNOWN
        if not known:
            self.flag(
                node,
                f"the derivative of {ast.unparse(node.func)} is not known to be right",
                "write it with others, or pass its values as an array",
            )

    def user_function(self, node: ast.Call, thing: Any) -> None:
        """Go through a `ti.func` where it is called."""
        if getattr(thing, "_is_real_function", False):
            self.flag(node, "Taichi does not differentiate a real_func, and raises", "make it a ti.func")
            return
        if self.scope.depth > DEEPEST_CALL:
            self.flag(node, "functions that call each other without end", "write a loop", fatal=True)
            return
        source = Source.of(thing)
        names = [a.arg for a in source.tree.args.args]
        values = {**dict(zip(names, node.args, strict=False)), **{k.arg: k.value for k in node.keywords if k.arg}}
        arrays = {name: array for name, value in values.items() if (array := self.array_of(value)) is not None}
        for value in values.values():
            if self.array_of(value) is None:
                self.expression(value)
        scope = replace(self.scope, arrays=arrays, locals=frozenset(names), fixed=frozenset(), depth=self.scope.depth + 1)
        inner = Walk(source, self.report, self.signature, scope)
        templates = {a.arg for a in source.tree.args.args if a.annotation is not None and inner.is_template(a.annotation)}
        fixed = [n for n in templates if n in values and n not in arrays and n not in inner.assigned and self.is_fixed(values[n])]
        inner.scope = inner.scope.with_names((), fixed)
        inner.block(source.tree.body)

    # helpers

    def touch(self, array: str, mode: accesses.Mode, node: ast.Subscript) -> None:
        """Record an access to an array."""
        here = self.scope
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        own = not (here.nested or here.unrolled or here.depth)
        if here.targets:
            names = tuple(i.id if isinstance(i, ast.Name) else "" for i in index)
            own = own and names == here.targets and not any(map(self.assigned.__contains__, names))
        else:  # a kernel without loops: each statement runs once
            own = own and all(isinstance(i, ast.Constant) for i in index)
        self.report.accesses.append(Access(array, mode, self.report.segments, own, self.apart(index), node, self.flag))

    def apart(self, index: list[ast.expr]) -> str | None:
        """The elements of an index that no two iterations of the top-level loop share, as text; None if they may share all."""
        here, parts = self.scope, []
        for target in here.targets:
            for position, element in enumerate(index):
                names = [n.id for n in ast.walk(element) if isinstance(n, ast.Name)]
                steady = all(n == target or n not in here.locals or (n in here.fixed and not here.unrolled) for n in names)
                shifts = all(isinstance(n, SHIFTS) or self.resolve(n) is not MISSING for n in ast.walk(element))
                if names.count(target) == 1 and steady and shifts and target not in self.assigned:
                    parts.append(f"{position}: {ast.unparse(element)}")
                    break
            else:
                return None
        return ", ".join(parts) if here.depth == 0 else None

    def language_name(self, node: ast.Call) -> str | None:
        """The name of the engine's function that is called, if it is one."""
        return operations.name_in_language(self.resolve(node.func))

    def is_static(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self.resolve(node.func) is engine.language().static

    def is_template(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and self.resolve(node.func) is engine.language().template

    @staticmethod
    def is_text(node: ast.stmt) -> bool:
        return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _names(node: ast.AST) -> tuple[str, ...]:
    return tuple(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
