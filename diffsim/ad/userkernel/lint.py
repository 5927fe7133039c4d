"""Reads the source of a user's kernel: lets through constructs whose derivative by Taichi 1.7.4 is right, and no others.

Numbers at one call do not see what a branch hides, so these rules cannot be a comparison with differences. What Taichi itself refuses with
a clear message has no rule here.

The walk goes through each `ti.func` at its calls. It knows of each name whether it is an array, fixed when Taichi compiles,
or another local. Loops inside of the parallel one are let through only where they are all that the loop around them has:
then no local lives outside of the innermost body. Where one does, Taichi loses derivatives without an error, or overruns
the stack of a thread.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from diffsim import engine
from diffsim.ad.userkernel.signature import Signature
from diffsim.ad.userkernel.source import MISSING, Source
from diffsim.errors import KernelError

KNOWN = frozenset(
    {
        *("sin", "cos", "asin", "acos", "atan2", "sqrt", "log", "log2", "pow", "abs", "floor", "ceil", "fract", "sign", "raw_div"),
        *("exp", "tanh", "rsqrt", "max", "min", "clamp", "smoothstep", "select", "degrees", "radians", "mix", "zero", "one"),
        *("int", "float", "bool", "cast", "range", "len", "print", "ndrange", "grouped", "mod", "step", "loop_config"),
        *("identity", "unit", "diag", "rows", "static_print", "static_assert"),
        *("Vector", "Matrix", "Struct", "vec2", "vec3", "vec4", "mat2", "mat3", "mat4"),
        *("dot", "cross", "length", "distance", "normalize", "inverse", "determinant", "solve", "svd", "polar_decompose", "sym_eig"),
    }
)
"""Functions of Taichi whose reverse mode is right. Each was compared with differences; see the tests."""
METHODS = frozenset(
    {
        *("norm_sqr", "dot", "cross", "outer_product", "transpose", "trace", "sum", "cast", "norm", "normalized", "determinant"),
        *("inverse", "max", "min", "any", "all", "fill"),
    }
)
"""Methods of vectors and matrices."""
ADDING = ("atomic_add", "atomic_sub")
"""Right as statements. Taichi differentiates the other atomics as if they added."""
STATEMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.Pass, ast.Assert)
SHIFTS = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Add, ast.Sub, ast.USub, ast.expr_context)
"""Parts of an index that differs from iteration to iteration where the loop's variable does."""


class Finding(NamedTuple):
    """One construct that cannot stay.

    Attributes:
        file, line, text: its place, and the source line.
        wrong: the fault.
        remedy: the way round.
        fatal: the kernel must not even run forward; otherwise only its derivative is wrong.
    """

    file: str
    line: int
    text: str
    wrong: str
    remedy: str
    fatal: bool = False

    def __str__(self) -> str:
        return f"  {self.file}:{self.line}: {self.text}\n      {self.wrong}; {self.remedy}"


def refusal(name: str, findings: Sequence[Finding], action: str) -> KernelError:
    """The error that lists all findings: `action` is refused, such as "be differentiated"."""
    count = f"{len(findings)} construct{'s' if len(findings) > 1 else ''}"
    return KernelError(
        f"kernel {name} cannot {action}: expected source without constructs that Taichi 1.7.4 gets wrong, got {count}\n"
        + "\n".join(map(str, findings))
        + ("" if "run" in action else f"\n  Or give the derivative by hand: @{name}.adjoint")
    )


class Access(NamedTuple):
    """One access to an array.

    Attributes:
        segment: number of the top-level loop around it.
        own: it touches the cell of the loop's own indices, once in an iteration, and no other.
        apart: the part of the index that differs between iterations of the top-level loop, None if there is none: then two of
            them may meet in a cell.
    """

    walk: Walk
    node: ast.Subscript
    mode: Literal["read", "write", "add"]
    segment: int
    own: bool
    apart: str | None


@dataclass
class Report:
    """The state of the check of a kernel: findings, accesses by array in the order of the source, and the number of top-level loops."""

    findings: list[Finding] = field(default_factory=list)
    accesses: dict[str, list[Access]] = field(default_factory=dict)
    segments: int = 0


def check(source: Source, signature: Signature) -> list[Finding]:
    """Go through a kernel and everything that it calls. The findings are in the order of the source."""
    report, body = Report(), source.tree.body
    arrays = {name: name for name, p in signature.parameters.items() if not p.scalar}
    Walk(source, report, signature, Scope(arrays, frozenset(signature.parameters), room=body)).block(body)
    integers = {n for n, p in signature.parameters.items() if p.dtype is not None and p.dtype.kind in "iu"}
    for array, accesses in report.accesses.items():
        _judge(array, accesses, array in integers, array in signature.in_place)
    unique = {(f.file, f.line, f.wrong): f for f in report.findings}
    return sorted(unique.values(), key=lambda f: (f.file, f.line))


def _judge(array: str, accesses: Sequence[Access], integers: bool, in_place: bool) -> None:
    """Flag a read of a written array that would give another value in reverse, and writes that may meet in a cell.

    The reverse kernel reads primal values again from the arrays, after the forward kernel has finished. An array that is
    updated in place is put back to its values from before, and a new output keeps its final values. So each must be read only
    where that value is the one that the forward kernel read.
    """
    reads, writes = [a for a in accesses if a.mode == "read"], [a for a in accesses if a.mode != "read"]
    for first in {w.segment: w for w in reversed(writes) if w.mode == "write"}.values():
        apart = {w.apart for w in writes if w.segment == first.segment}
        if not integers and (len(apart) > 1 or None in apart):  # reverse does not go through iterations backwards
            first.walk.flag(
                first.node,
                f"another iteration of the top-level loop may write to this cell of {array}, and the order of iterations is not kept",
                "assign only at the loop's own indices, the same way each time, or add with +=",
            )
    if not reads or not writes:
        return
    own = len(writes) == 1 and all(a.own and a.segment == writes[0].segment for a in accesses)
    wrong = None
    if integers:
        wrong = f"{array} holds integers, is read and written, and is written a second time in reverse"
    elif in_place and not (own and accesses[-1].mode != "read"):
        wrong = f"{array} is overwritten with values of it; reverse reads other values than forward, silently"
    elif not in_place and writes[-1].segment >= reads[0].segment and not (own and accesses[0].mode == "write"):
        wrong = f"{array} is read before its last write; reverse reads other values than forward, silently"
    if wrong:
        reads[0].walk.flag(reads[0].node, wrong, f"write to another array than {array}, in a kernel or a top-level loop of its own")


@dataclass(frozen=True)
class Scope:
    """Names at one place of a function, and the place.

    Attributes:
        arrays: parameters of the kernel, by the name that they have here.
        locals: names that are not taken from outside the function.
        fixed: locals that Taichi knows when it compiles, such as variables of unrolled loops.
        room: statements among which a loop may stand that is not unrolled.
        targets: variables of the top-level loop; None outside of it.
        own: the place runs once in an iteration of the top-level loop.
        unrolled: it is in an unrolled loop.
        chain: the `ti.func`s around it.
    """

    arrays: dict[str, str]
    locals: frozenset[str]
    fixed: frozenset[str] = frozenset()
    room: Sequence[ast.stmt] = ()
    targets: tuple[str, ...] | None = None
    own: bool = True
    unrolled: bool = False
    chain: tuple[Any, ...] = ()

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

    # statements

    def block(self, statements: list[ast.stmt]) -> None:
        for node in statements:
            if isinstance(node, (ast.Break, ast.Continue)) and self.scope.unrolled:
                continue
            if not isinstance(node, STATEMENTS) and not (isinstance(node, ast.Return) and self.scope.chain):
                name = type(node).__name__.lower()
                self.flag(node, f"the derivative of {name} is not known to be right", "use for loops and if, and write results to arrays")
            elif not isinstance(node, ast.Assert):
                self.visit(node)

    def visit(self, node: ast.AST | None) -> None:
        """Go through a statement or an expression; adds a finding for each fault in it."""
        handler = getattr(self, f"on_{type(node).__name__}", None)
        if handler is not None:
            handler(node)
        elif node is not None:
            for child in ast.iter_child_nodes(node):
                self.visit(child)

    def on_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        call = node.value
        if isinstance(call, ast.Call) and len(call.args) == 2 and _name_in_language(self.resolve(call.func)) in ADDING:
            self.visit(call.args[1])
            self.store(call.args[0], "add")
        else:
            self.visit(call)

    def on_If(self, node: ast.If) -> None:  # noqa: N802
        self.visit(node.test)
        room = self.scope.room
        decided = self.is_static(node.test) and self.scope.targets is None and node in room  # when Taichi compiles
        for branch in (node.body, node.orelse):
            self.scope = replace(self.scope, room=branch if decided else ())
            self.block(branch)
        self.scope = replace(self.scope, room=room)

    def on_For(self, node: ast.For) -> None:  # noqa: N802
        outside, names, top = self.scope, _names(node.target), self.scope.targets is None
        if self.is_static(node.iter):
            inside = replace(outside.with_names(names, [n for n in names if n not in self.assigned]), unrolled=True, room=(), own=False)
        else:
            if node not in outside.room:
                self.flag(
                    node,
                    "an inner loop beside other statements is differentiated wrongly, or ends the process",
                    "ti.static(range(...)) unrolls a short loop; or let the inner loop be all that the loop around it has",
                )
            self.report.segments += top
            grouped = isinstance(node.iter, ast.Call) and _name_in_language(self.resolve(node.iter.func)) == "grouped"
            array = node.iter.args[0] if isinstance(node.iter, ast.Call) and grouped else node.iter
            if self.array_of(array) is None:  # a loop over the cells of an array reads none of its values
                self.visit(node.iter)
            room = node.body if len(node.body) == 1 and not outside.chain else ()
            inside = replace(outside.with_names(names), unrolled=False, room=room, own=outside.own and top)
            inside = replace(inside, targets=names) if top else inside
        self.scope = inside
        self.block(node.body)
        self.scope = replace(outside, fixed=outside.fixed & self.scope.fixed)

    def on_Assign(self, node: ast.Assign) -> None:  # noqa: N802
        self.visit(node.value)
        for target in node.targets:
            for part in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                self.store(part, "write")

    def on_AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802
        self.visit(node.value)
        self.store(node.target, "write")

    def on_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        self.visit(node.value)
        adds = isinstance(node.op, (ast.Add, ast.Sub))
        if not adds and isinstance(node.target, ast.Subscript):
            self.visit(node.target)
        self.store(node.target, "add" if adds else "write")

    def store(self, target: ast.expr, mode: Literal["write", "add"]) -> None:
        """Assign to a local, an element of a vector, or an array."""
        array = self.array_of(target.value) if isinstance(target, ast.Subscript) else None
        if isinstance(target, ast.Name):
            self.scope = self.scope.with_names([target.id])
        elif isinstance(target, ast.Subscript) and array is not None:
            self.visit(target.slice)
            self.touch(array, mode, target)
            if array not in self.signature.outputs:
                wrong = f"{array} is written, but is not in writes; arguments of a call never change"
                self.flag(target, wrong, f"declare it: writes=(..., {array!r})", fatal=True)
        else:
            self.visit(target)

    # expressions

    def on_Name(self, node: ast.Name) -> None:  # noqa: N802
        if self.array_of(node) is not None:
            self.flag(node, f"{node.id} without an index hides reads and writes of an array", "use the array's elements")

    def on_Attribute(self, node: ast.Attribute) -> None:  # noqa: N802
        if self.array_of(node.value) is None or node.attr != "shape":
            self.visit(node.value)

    def on_Subscript(self, node: ast.Subscript) -> None:  # noqa: N802
        array = self.array_of(node.value)
        self.visit(node.slice)
        if array is not None:
            self.touch(array, "read", node)
            return
        self.visit(node.value)
        if not self.is_fixed(node.slice):
            self.flag(
                node,
                "an element of a local vector at an index that is not a constant: Taichi's derivative is wrong, or ends the process",
                "loop with ti.static(range(...)), or keep the values in an array",
            )

    def on_ListComp(self, node: ast.ListComp) -> None:  # noqa: N802
        outside = self.scope
        for generator in node.generators:
            self.visit(generator.iter)
            fixed = isinstance(generator.iter, ast.Call) and all(map(self.is_fixed, generator.iter.args))
            self.scope = self.scope.with_names(_names(generator.target), _names(generator.target) if fixed else ())
        self.visit(node.elt)
        self.scope = outside

    def on_Call(self, node: ast.Call) -> None:  # noqa: N802
        thing = self.resolve(node.func)
        if self.is_static(node):
            return
        name = _name_in_language(thing)
        if engine.present().is_function(thing) and name is None:
            self.user_function(node, thing)
            return
        for argument in (*node.args, *(k.value for k in node.keywords)):
            self.visit(argument)
        if thing is MISSING and isinstance(node.func, ast.Attribute):
            self.visit(node.func.value)
            known = node.func.attr in METHODS
        else:
            plain = getattr(thing, "__name__", "")
            known = (plain if getattr(builtins, plain, None) is thing else name) in KNOWN
        if not known:
            wrong = f"the derivative of {ast.unparse(node.func)} is not known to be right"
            self.flag(node, wrong, "write it with others, or pass its values as an array")

    def user_function(self, node: ast.Call, thing: Any) -> None:
        """Go through a `ti.func` where it is called."""
        source = Source.of(thing)
        if source.function in self.scope.chain:
            self.flag(node, "functions that call each other without end", "write a loop", fatal=True)
            return
        names = [a.arg for a in source.tree.args.args]
        values = {**dict(zip(names, node.args, strict=False)), **{k.arg: k.value for k in node.keywords if k.arg}}
        arrays = {name: array for name, value in values.items() if (array := self.array_of(value)) is not None}
        for name, value in values.items():
            if name not in arrays:
                self.visit(value)
        chain = (*self.scope.chain, source.function)
        scope = replace(self.scope, arrays=arrays, locals=frozenset(names), fixed=frozenset(), room=(), own=False, chain=chain)
        inner = Walk(source, self.report, self.signature, scope)
        templates = {a.arg for a in source.tree.args.args if isinstance(a.annotation, ast.Call) and inner.names("template", a.annotation)}
        fixed = [n for n in templates if n in values and n not in arrays and n not in inner.assigned and self.is_fixed(values[n])]
        inner.scope = inner.scope.with_names((), fixed)
        inner.block(source.tree.body)

    # helpers

    def touch(self, array: str, mode: Literal["read", "write", "add"], node: ast.Subscript) -> None:
        """Record an access to an array."""
        here = self.scope
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        names = tuple(i.id if isinstance(i, ast.Name) else "" for i in index)
        own = here.own and names == here.targets and not any(map(self.assigned.__contains__, names))
        if here.targets is None:  # a kernel without loops: each statement runs once
            own = here.own and all(isinstance(i, ast.Constant) for i in index)
        self.report.accesses.setdefault(array, []).append(Access(self, node, mode, self.report.segments, own, self.apart(index)))

    def apart(self, index: list[ast.expr]) -> str | None:
        """The elements of an index that no two iterations of the top-level loop share, as text; None if they may share all."""
        here, parts = self.scope, []
        for target in here.targets or ():
            for position, element in enumerate(index):
                names = [n.id for n in ast.walk(element) if isinstance(n, ast.Name)]
                steady = all(n == target or n not in here.locals or (n in here.fixed and not here.unrolled) for n in names)
                shifts = all(isinstance(n, SHIFTS) or self.resolve(n) is not MISSING for n in ast.walk(element))
                if names.count(target) == 1 and steady and shifts and target not in self.assigned:
                    parts.append(f"{position}: {ast.unparse(element)}")
                    break
            else:
                return None
        return None if here.chain else ", ".join(parts)

    def array_of(self, node: ast.AST) -> str | None:
        """The parameter of the kernel that an expression names, if it is an array."""
        return self.scope.arrays.get(node.id) if isinstance(node, ast.Name) else None

    def is_fixed(self, node: ast.AST) -> bool:
        """True if Taichi knows the value of an expression when it compiles."""
        if any(isinstance(n, (ast.Call, ast.Subscript)) for n in ast.walk(node)):
            return self.is_static(node)
        return not {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & (self.scope.locals - self.scope.fixed)

    def resolve(self, node: ast.AST) -> Any:
        """The Python object that an expression names, or MISSING for a local or a computed one."""
        if isinstance(node, ast.Name):
            return MISSING if node.id in self.scope.locals else self.source.resolve(node.id)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            return MISSING if base is MISSING else getattr(base, node.attr, MISSING)
        if isinstance(node, ast.Call) and _name_in_language(self.resolve(node.func)) in ("vector", "matrix"):
            return engine.language().Vector  # `ti.types.vector(...)` within a kernel counts as the type that it makes
        return MISSING

    def names(self, name: str, call: ast.Call) -> bool:
        """True if a call is one of the engine's function of this name."""
        return self.resolve(call.func) is getattr(engine.language(), name)

    def is_static(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self.names("static", node)


def _name_in_language(thing: Any) -> str | None:
    """The name of one of the engine's own functions or types, or None for anything else."""
    if not engine.present().is_own(str(getattr(thing, "__module__", None) or type(thing).__module__ or "")):
        return None
    return getattr(thing, "__name__", "Matrix" if hasattr(thing, "n") and hasattr(thing, "m") else "cast")


def _names(node: ast.AST) -> tuple[str, ...]:
    return tuple(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
