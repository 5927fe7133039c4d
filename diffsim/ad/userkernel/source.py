"""The source of a user's kernel or `ti.func`: its tree, its place, and the meanings of its names."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import symtable
import textwrap
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from diffsim import engine
from diffsim.base.messages import shown
from diffsim.errors import KernelError

MISSING = object()
"""The result of `Source.resolve` for a name that means nothing outside the function."""


def raw_function(thing: Any) -> types.FunctionType:
    """The plain Python function behind a `def`, a `@ti.kernel` or a `@ti.func`.

    Raises:
        KernelError: it is none of these, or a kernel that is a method.
    """
    if getattr(thing, "_is_classkernel", False):
        raise KernelError(f"{thing.__name__} is a method of a data-oriented class, expected a function; move it out of the class")
    if getattr(thing, "_primal", None) is not None:
        thing = thing._primal.func
    elif engine.present().is_function(thing):
        thing = engine.present().function_within(thing)
    if not isinstance(thing, types.FunctionType):
        raise KernelError(f"expected a function written with def, got {shown(thing)}; decorate the def itself")
    return thing


@dataclass(frozen=True)
class Source:
    """One function's source. Line numbers of `tree` count from the function's first line (its first decorator) as 1."""

    function: types.FunctionType
    lines: tuple[str, ...]
    first: int
    file: str

    @classmethod
    def of(cls, thing: Any) -> Source:
        """Read the source of a function.

        Raises:
            KernelError: there is none to read, as for code typed at a prompt or given by `python -c`.
        """
        function = raw_function(thing)
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError) as error:
            raise KernelError(
                f"the source of {function.__name__} cannot be found, and Taichi compiles source; put the function into a file"
            ) from error
        return cls(function, tuple(textwrap.dedent("".join(lines)).splitlines()), first, function.__code__.co_filename)

    @functools.cached_property
    def tree(self) -> ast.FunctionDef:
        """The function's syntax tree."""
        try:
            node = ast.parse("\n".join(self.lines)).body[0]
        except (SyntaxError, IndexError):
            node = None
        if not isinstance(node, ast.FunctionDef):
            raise KernelError(f"{self.function.__name__} ({self.file}:{self.first}) is not a def of its own; write it with def")
        return node

    @functools.cached_property
    def text(self) -> str:
        """The function without its decorators, from its `def` on."""
        return "\n".join(self.lines[self.tree.lineno - 1 :]) + "\n"

    @functools.cached_property
    def free_names(self) -> frozenset[str]:
        """Names that the function takes from outside, its annotations' included."""
        top = symtable.symtable(self.text, "<function>", "exec")
        names = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
        tables = [*top.get_children()]
        while tables:  # of the function, and of lambdas, comprehensions and functions in it
            table = tables.pop()
            names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
            tables += table.get_children()
        return frozenset(names)

    @functools.cached_property
    def dotted_names(self) -> frozenset[str]:
        """Names that the body takes from outside with the attributes that follow them, each as long as it is: `module.constant`."""
        names, inside = set(), set()
        for node in (n for statement in self.tree.body for n in ast.walk(statement)):  # outer nodes come before inner ones
            if id(node) in inside:
                continue
            thing: ast.AST = node
            while isinstance(thing, ast.Attribute):
                thing = thing.value
                inside.add(id(thing))
            if isinstance(thing, ast.Name) and thing.id in self.free_names and isinstance(node, (ast.Name, ast.Attribute)):
                names.add(ast.unparse(node))
        return frozenset(names)

    def resolve(self, name: str) -> Any:
        """The meaning of a name outside the function: in its closure, its module, or among the builtins; else `MISSING`."""
        closure = self.closure
        if name in closure:
            return closure[name]
        return self.function.__globals__.get(name, getattr(builtins, name, MISSING))

    def resolve_dotted(self, name: str) -> Any:
        """The same for a name with dots, as `module.constant`."""
        first, *rest = name.split(".")
        return functools.reduce(lambda thing, attribute: getattr(thing, attribute, MISSING), rest, self.resolve(first))

    @property
    def closure(self) -> dict[str, Any]:
        """The closed-over variables that have a value by now."""
        variables = {}
        for name, cell in zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True):
            try:
                variables[name] = cell.cell_contents
            except ValueError:  # named, but not assigned yet
                continue
        return variables

    def namespace(self) -> dict[str, Any]:
        """Everything that the function can see, for running its text elsewhere."""
        seen = {**self.function.__globals__, **self.closure}
        return {name: value for name, value in seen.items() if not name.startswith("__")}

    def evaluated(self) -> types.FunctionType:
        """The function with annotations that are objects even where the module postpones their evaluation."""
        f = self.function
        copy = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
        copy.__qualname__, copy.__module__, copy.__doc__ = f.__qualname__, f.__module__, f.__doc__
        copy.__annotations__ = inspect.get_annotations(f, globals=f.__globals__, locals=self.closure, eval_str=True)
        return copy

    def indexed(self, names: Iterable[str], annotation: str) -> str:
        """The text with each read of a scalar parameter `k` written `k[0]`, and its annotation replaced.

        So a scalar becomes an array of one value, which is the only way that Taichi gives it a derivative.
        """
        wanted = set(names)
        edits: list[tuple[int, int, int, str]] = []
        for argument in self.tree.args.args:
            if argument.arg in wanted and argument.annotation is not None:
                note = argument.annotation
                if note.lineno != note.end_lineno:
                    raise KernelError(f"the annotation of {argument.arg} in {self.function.__name__} spans lines; write it on one")
                edits.append((note.lineno, note.col_offset, note.end_col_offset or 0, annotation))
        for statement in self.tree.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and node.id in wanted:
                    edits.append((node.lineno, node.col_offset, node.end_col_offset or 0, f"{node.id}[0]"))
        lines = [line.encode() for line in self.lines]  # the tree counts columns in bytes
        for line, start, end, new in sorted(edits, reverse=True):
            old = lines[line - 1]
            lines[line - 1] = old[:start] + new.encode() + old[end:]
        return "\n".join(line.decode() for line in lines[self.tree.lineno - 1 :]) + "\n"
