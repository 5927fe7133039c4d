"""The pages of the reference in Markdown: one for each public package, and an index."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

from diffsim import boundary, checkpoint
from diffsim.reference.entries import NUMPY, OPTIONAL, PACKAGES, SECTIONS, Entry, entries, packages, public_names, summary
from diffsim.reference.signatures import methods, signature

LISTS = ("Args", "Attributes", "Raises")
"""Sections that are lists of names with their texts."""


def pages() -> dict[str, str]:
    """Name of each file -> its text; README.md is the index."""
    texts = {f"{package}.md": _page(package) for package in packages()}
    return texts | {f"{NUMPY}.md": _names_page(NUMPY), "README.md": _index()}


def kinds(value: Any) -> list[str]:
    """The names by which rules and schedules are requested, of one class."""
    return [kind for known in (boundary.KINDS, checkpoint.KINDS) for kind, cls in known.items() if cls is value]


def _page(package: str) -> str:
    module = importlib.import_module(package)
    listed = entries(package)
    links = ", ".join(f"[`{entry.name}`](#{entry.name.lower()})" for entry in listed)
    head = f"# `{package}`\n\n{inspect.cleandoc(module.__doc__ or '')}\n\n{links}\n"
    return "\n".join([head, *map(_entry, listed)])


def _entry(entry: Entry) -> str:
    parts = [f"## {entry.name}", f"```python\n{signature(entry.name, entry.value)}\n```"]
    texts = entry.sections
    parts.append(texts[""])
    parts += [f'**Kind**: `"{kind}"`' for kind in kinds(entry.value)]
    parts += [_section(name, texts[name]) for name in SECTIONS if texts.get(name)]
    own = methods(entry.value) if inspect.isclass(entry.value) else {}
    if own:
        parts.append("**Methods**\n\n" + "\n".join(f"- `{call}`: {text}" for call, text in own.items()))
    return "\n\n".join(parts) + "\n"


def _section(name: str, text: str) -> str:
    if name in LISTS:
        text = _bullets(text)
    elif name == "Example" and not text.startswith("See `"):
        text = f"```python\n{text}\n```"
    return f"**{name}**\n\n{text}"


def _bullets(text: str) -> str:
    """Entries `name: text` as a list; lines that go on are indented."""
    lines = [
        re.sub(r"^([^\s:(][^:(]*?)( \([^)]*\))?:", r"- `\1`\2:", line) if not line.startswith(" ") else f"  {line.strip()}"
        for line in text.splitlines()
    ]
    return "\n".join(lines)


def _names_page(package: str) -> str:
    module = importlib.import_module(package)
    names = ", ".join(f"`{name}`" for name in sorted(public_names(package), key=str.lower))
    return f"# `{package}`\n\n{inspect.cleandoc(module.__doc__ or '')}\n\nEach of these is as NumPy's of the same name:\n\n{names}\n"


def _index() -> str:
    lines = ["# Reference", "", "Each example on these pages is run by the tests.", ""]
    there = packages()
    for package in (*PACKAGES, *OPTIONAL, NUMPY):
        here = package == NUMPY or package in there
        name = f"[`{package}`]({package}.md)" if here else f"`{package}` (no page, for {OPTIONAL[package]} is not installed)"
        lines.append(f"- {name}: {summary(package)}")
    return "\n".join(lines) + "\n"
