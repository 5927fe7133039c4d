#!/usr/bin/env python3
"""Write docs/api/ from the docstrings: a page for each public package, and an index.

    python scripts/reference.py            write the pages
    python scripts/reference.py --check    say which pages are stale, and exit with 1 if any is

A docstring has Google sections. `Example:` holds Python that runs as it stands; `tests/test_reference.py` runs it. An example that shows
several names is written at one of them, and the others say ``See `name`.``
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "api"
PACKAGES = (
    "diffsim",
    "diffsim.expr",
    "diffsim.integrators",
    "diffsim.layers",
    "diffsim.solvers",
    "diffsim.losses",
    "diffsim.optimize",
    "diffsim.photonics",
    "diffsim.records",
    "diffsim.checkpoint",
    "diffsim.tile",
    "diffsim.plot",
)
OPTIONAL = {"diffsim.torch": "torch", "diffsim.jax": "jax"}
"""Modules that need a package which may be missing. Their pages are then left as they are."""
NUMPY = "diffsim.numpy"
"""Its names are NumPy's, so its page lists them and tells what departs."""

HEADER = "<!-- Written by scripts/reference.py from the docstrings; edit those. -->\n\n"
SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Example")
LISTS = ("Args", "Attributes", "Raises")
LONGEST_SIGNATURE = 600
"""Characters; beyond, types and defaults are left out."""


@dataclass(frozen=True)
class Entry:
    """A public name.

    Attributes:
        package: that exports it.
        name: as exported.
        value: what it stands for.
        doc: its docstring, indentation taken off; "" if it has none.
    """

    package: str
    name: str
    value: Any
    doc: str

    @property
    def sections(self) -> dict[str, str]:
        """The text of each section; what stands in none of them is under ""."""
        return dict(_sections(self.doc))

    @property
    def example(self) -> str:
        """The text of the example, "" if there is none."""
        return self.sections.get("Example", "")

    @property
    def shown_at(self) -> str | None:
        """The name whose example shows this one, where it has none of its own."""
        found = re.fullmatch(r"See `(\w+)`\.", self.example)
        return found[1] if found else None


def packages() -> list[str]:
    """The public packages that can be imported here."""
    missing = [module for module, package in OPTIONAL.items() if importlib.util.find_spec(package) is None]
    return [package for package in (*PACKAGES, *OPTIONAL) if package not in missing]


def public_names(package: str) -> list[str]:
    """What a package exports, without modules."""
    module = importlib.import_module(package)
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return [name for name in names if not inspect.ismodule(getattr(module, name)) and name != "__version__"]


def entries(package: str) -> list[Entry]:
    """The public names of a package, in the order of the alphabet."""
    module = importlib.import_module(package)
    found = ((name, getattr(module, name)) for name in sorted(public_names(package), key=str.lower))
    return [Entry(package, name, value, _doc(module, name, value)) for name, value in found]


def pages() -> dict[str, str]:
    """Name of each file in docs/api/ -> its text."""
    found = {f"{package}.md": HEADER + _page(package) for package in packages()}
    return found | {f"{NUMPY}.md": HEADER + _names_page(NUMPY), "README.md": HEADER + _index()}


def _doc(module: Any, name: str, value: Any) -> str:
    """The docstring of a class or function; of a constant or an alias, the text that follows its assignment."""
    if inspect.isclass(value) or inspect.isroutine(value):
        return inspect.cleandoc(value.__doc__ or "")
    return next((found for source in _sources(module, name) if (found := _text_after(source, name))), "")


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


def _sections(doc: str) -> Iterator[tuple[str, str]]:
    """Pairs of a section's name and its text; text outside of sections comes first, under ""."""
    outside: list[str] = []
    found: dict[str, list[str]] = {}
    lines = outside
    for line in doc.splitlines():
        head = re.fullmatch(rf"({'|'.join(SECTIONS)}):(?: (.*))?", line)
        if head:
            lines = found.setdefault(head[1], [head[2]] if head[2] else [])
        elif line and not line.startswith(" ") and lines is not outside:
            lines = outside
            lines += ["", line]
        else:
            lines.append(line)
    yield "", "\n".join(outside).strip()
    for name, text in found.items():
        yield name, textwrap.dedent("\n".join(text)).strip("\n")


def _page(package: str) -> str:
    module = importlib.import_module(package)
    found = entries(package)
    links = ", ".join(f"[`{entry.name}`](#{entry.name.lower()})" for entry in found)
    head = f"# `{package}`\n\n{inspect.cleandoc(module.__doc__ or '')}\n\n{links}\n"
    return "\n".join([head, *map(_entry, found)])


def _entry(entry: Entry) -> str:
    parts = [f"## {entry.name}", f"```python\n{_signature(entry.name, entry.value)}\n```"]
    found = entry.sections
    parts.append(found[""])
    parts += [f'**Kind**: `"{kind}"`' for kind in _kinds(entry.value)]
    parts += [_section(name, found[name]) for name in SECTIONS if found.get(name)]
    if inspect.isclass(entry.value):
        methods = _methods(entry.value)
        parts += ["**Methods**\n\n" + methods] if methods else []
    return "\n\n".join(parts) + "\n"


def _kinds(value: Any) -> list[str]:
    """The names by which rules and schedules are requested, of one class."""
    from diffsim import boundary, checkpoint  # late: `main` puts this tree on the path

    return [kind for known in (boundary.KINDS, checkpoint.KINDS) for kind, cls in known.items() if cls is value]


def _section(name: str, text: str) -> str:
    if name in LISTS:
        text = _bullets(text)
    elif name == "Example" and not text.startswith("See `"):
        text = f"```python\n{text}\n```"
    return f"**{name}**\n\n{text}"


def _bullets(text: str) -> str:
    """Entries `name: text` as a list; lines that go on are indented."""
    lines = [
        re.sub(r"^([^\s:][^:]*):", r"- `\1`:", line) if not line.startswith(" ") else f"  {line.strip()}" for line in text.splitlines()
    ]
    return "\n".join(lines)


def _methods(kind: type) -> str:
    own = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
    lines = []
    for name, value in own.items():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not inspect.isfunction(function) or not function.__doc__:
            continue
        summary = inspect.cleandoc(function.__doc__).split("\n\n")[0].replace("\n", " ")
        call = name if isinstance(value, property) else _signature(name, function).replace("self, ", "").replace("(self)", "()")
        lines.append(f"- `{call}`: {summary}")
    return "\n".join(lines)


def _signature(name: str, value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    if not (inspect.isclass(value) or inspect.isroutine(value)) or getattr(value, "_is_protocol", False):
        return name
    parameters = [p.replace(default=_Plain(p.default)) if p.default is not p.empty else p for p in signature.parameters.values()]
    signature = signature.replace(parameters=parameters)
    if inspect.isclass(value):
        signature = signature.replace(return_annotation=signature.empty)
    text = f"{name}{signature}".replace("'", "")
    if len(text) > LONGEST_SIGNATURE:
        text = f"{name}({', '.join(signature.parameters)})"
    return text


class _Plain:
    """A default value that is shown without addresses and inner names."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        named = getattr(self.value, "__name__", None)
        text = named or repr(self.value).replace("mappingproxy({})", "{}")
        return text.replace("'", '"')


def _names_page(package: str) -> str:
    module = importlib.import_module(package)
    names = ", ".join(f"`{name}`" for name in sorted(public_names(package), key=str.lower))
    return f"# `{package}`\n\n{inspect.cleandoc(module.__doc__ or '')}\n\nEach of these is as NumPy's of the same name:\n\n{names}\n"


def _docstring(package: str) -> str:
    """The docstring of a module, which is not imported."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    return inspect.cleandoc(ast.get_docstring(ast.parse(Path(spec.origin).read_text())) or "")


def _index() -> str:
    lines = ["# Reference", "", "Each example on these pages is run by the tests.", ""]
    for package in (*PACKAGES, *OPTIONAL, NUMPY):
        summary = _docstring(package).split("\n\n")[0].replace("\n", " ")
        lines.append(f"- [`{package}`]({package}.md): {summary}")
    return "\n".join(lines) + "\n"


def stale() -> list[str]:
    """Pages that are not what the docstrings give."""
    wanted = pages()
    there = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    unknown = {f"{module}.md" for module in OPTIONAL} - wanted.keys()
    return sorted(name for name in (wanted.keys() | there.keys()) - unknown if wanted.get(name) != there.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a page is stale")
    sys.path.insert(0, str(ROOT))  # this tree, whatever is installed
    if parser.parse_args().check:
        old = stale()
        print(f"stale: {', '.join(old)}; run python scripts/reference.py" if old else "all pages are up to date")
        return 1 if old else 0
    FOLDER.mkdir(exist_ok=True)
    for name in stale():
        text = pages().get(name)
        (FOLDER / name).unlink() if text is None else (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
