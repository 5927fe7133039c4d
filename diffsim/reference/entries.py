"""The public names of diffsim with their docstrings, which have Google sections.

`Example:` holds Python that runs as it stands; tests/test_reference.py runs it. An example that shows several names is written at one of
them. The others refer to it by themselves, if it imports them, and else say ``See `name`.``
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

PACKAGES = (
    "diffsim",
    "diffsim.expr",
    "diffsim.integrators",
    "diffsim.layers",
    "diffsim.solvers",
    "diffsim.solvers.bodies",
    "diffsim.assimilate",
    "diffsim.chaos",
    "diffsim.losses",
    "diffsim.optimize",
    "diffsim.ocean",
    "diffsim.photonics",
    "diffsim.records",
    "diffsim.checkpoint",
    "diffsim.tile",
    "diffsim.plot",
)
OPTIONAL = {"diffsim.torch": "torch", "diffsim.jax": "jax", "diffsim.tesseract": "tesseract_core"}
"""Modules that need a package which may be missing. Then they have no page."""
FURTHER = ("diffsim.scene", "diffsim.boundary", "diffsim.domains", "diffsim.report")
"""Packages without a page, from which the other pages import a few names."""
NUMPY = "diffsim.numpy"
"""Its names are NumPy's, so its page lists them and tells the differences."""

SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Example")
"""Sections of a docstring, in the order in which they are shown."""


@dataclass(frozen=True)
class Entry:
    """A public name.

    Attributes:
        package: that exports it.
        name: as exported.
        value: the object of that name.
        doc: its docstring, indentation taken off; "" if it has none.
    """

    package: str
    name: str
    value: Any
    doc: str

    @cached_property
    def sections(self) -> dict[str, str]:
        """The text of each section; text in none of them is under ""."""
        return dict(sections(self.doc))

    @property
    def example(self) -> str:
        """The text of the example, "" if there is none."""
        return self.sections.get("Example", "")

    @property
    def shown_at(self) -> str | None:
        """The name whose example shows this one, where it has none of its own: of the same package, or with its package."""
        reference = re.fullmatch(r"See `([\w.]+)`\.", self.example)
        return reference[1] if reference else None


def packages() -> list[str]:
    """The public packages that can be imported here."""
    missing = [module for module, package in OPTIONAL.items() if importlib.util.find_spec(package) is None]
    return [package for package in (*PACKAGES, *OPTIONAL) if package not in missing]


def summary(package: str) -> str:
    """The first sentence of a package's docstring. The package is not imported."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    doc = inspect.cleandoc(ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or "")
    return doc.split("\n\n")[0].replace("\n", " ")


def public_names(package: str) -> list[str]:
    """The names that a package exports, without modules."""
    module = importlib.import_module(package)
    starred = getattr(module, "__all__", None)
    names = [*starred, *getattr(module, "HIDING", [])] if starred else [name for name in vars(module) if not name.startswith("_")]
    return [name for name in names if not inspect.ismodule(getattr(module, name)) and name != "__version__"]


def entries(package: str) -> list[Entry]:
    """The public names of a package, in the order of the alphabet."""
    module = importlib.import_module(package)
    names = ((name, getattr(module, name)) for name in sorted(public_names(package), key=str.lower))
    listed = [Entry(package, name, value, _doc(module, name, value)) for name, value in names]
    return [entry if entry.example else _referring(entry, listed) for entry in listed]


def _referring(entry: Entry, listed: list[Entry]) -> Entry:
    """An entry without an example, with a reference to the shortest example that imports its name."""
    names = rf"import .*\b{entry.name}\b|\bds\.{entry.name}\b"
    showing = [other for other in listed if re.search(names, other.example)]
    if not showing:
        return entry
    return replace(entry, doc=f"{entry.doc}\n\nExample:\n    See `{min(showing, key=lambda other: len(other.example)).name}`.")


def _doc(module: Any, name: str, value: Any) -> str:
    """The docstring of a class or function; of a constant or an alias, the text that follows its assignment."""
    if inspect.isclass(value) or inspect.isroutine(value):
        return inspect.cleandoc(value.__doc__ or "")
    return next((text for source in _sources(module, name) if (text := _text_after(source, name))), "")


def _sources(module: Any, name: str) -> Iterator[str]:
    """Sources of the modules that re-export a name, and of the one where it is written."""
    source = inspect.getsource(module)
    yield source
    origin = re.search(rf"^from (\S+) import (?:.*\b)?{name}\b", source, re.MULTILINE)
    if origin:
        yield from _sources(importlib.import_module(origin[1]), name)


def _text_after(source: str, name: str) -> str:
    body = ast.parse(source).body
    for node, following in pairwise(body):
        assigned = [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in assigned):
            text = following.value if isinstance(following, ast.Expr) else None
            return inspect.cleandoc(text.value) if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""
    return ""


def sections(doc: str) -> Iterator[tuple[str, str]]:
    """Pairs of a section's name and its text; text outside of sections comes first, under ""."""
    outside: list[str] = []
    parts: dict[str, list[str]] = {}
    lines = outside
    for line in doc.splitlines():
        head = re.fullmatch(rf"({'|'.join(SECTIONS)}):(?: (.*))?", line)
        if head:
            lines = parts.setdefault(head[1], [head[2]] if head[2] else [])
        elif line and not line.startswith(" ") and lines is not outside:
            lines = outside
            lines += ["", line]
        else:
            lines.append(line)
    yield "", "\n".join(outside).strip()
    for name, text in parts.items():
        yield name, textwrap.dedent("\n".join(text)).strip("\n")


def items(text: str) -> dict[str, str]:
    """Name -> text of a section that is a list, lines joined. A name that is followed by a unit, `dt (s): ...`, keeps it."""
    texts: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        head = re.match(r"([^\s:][^:]*): *(.*)", line)
        if head:
            name, line = head.groups()
        texts.setdefault(name, []).append(line.strip())
    return {name: " ".join(lines).strip() for name, lines in texts.items()}
