"""An entry of the reference by its name, as a text for a terminal."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterable, Iterator

from diffsim.base.messages import reason_shown
from diffsim.errors import ParameterError
from diffsim.reference.entries import FURTHER, NUMPY, OPTIONAL, PACKAGES, Entry, entries, packages, public_names, summary
from diffsim.reference.keys import ROOT as SCENE
from diffsim.reference.keys import keys_text
from diffsim.reference.pages import kinds
from diffsim.reference.signatures import methods, signature
from diffsim.scene.words.suggest import nearest

WIDTH = 110
"""Columns of the text."""
ROOT = "diffsim"


def entry_text(name: str) -> str:
    """The entry of a name in the reference.

    Args:
        name: a package, `diffsim.losses` or `losses`; a public name, `diffsim.losses.L2Misfit`, or the end of one, `L2Misfit`; a method,
            `Simulation.value_and_grad`; a part of a scene file, `scene.data`.

    Raises:
        ParameterError: there is no such name, or several parts have one.
    """
    wanted = name.strip().removesuffix("()")
    wanted = f"{ROOT}.{wanted[3:]}" if wanted.startswith("ds.") else wanted
    if wanted.split(".")[0] == SCENE:
        return keys_text(wanted)
    if wanted in (*PACKAGES, *OPTIONAL, *FURTHER, NUMPY):
        return _package_text(wanted)
    matches = dict(_matches(wanted, packages()))
    if not matches and f"{ROOT}.{wanted}" in (*PACKAGES, *OPTIONAL):
        return _package_text(f"{ROOT}.{wanted}")
    matches = matches or dict(_matches(wanted, FURTHER))
    if not matches:
        known = [f"{entry.package}.{entry.name}" for package in (*FURTHER, *packages()) for entry in _entries(package, "")]
        short = {title.rpartition(".")[2]: title for title in reversed(known)}
        remedy = nearest(wanted.rpartition(".")[2], [], short)
        remedy = f"python -m {ROOT}.reference {ROOT} lists names" if remedy.startswith("choose") else remedy
        raise ParameterError(f"{name}: expected a public name of {ROOT}, found none of that name; {remedy}")
    if len(matches) > 1:
        raise ParameterError(f"{name}: expected one name, found {' and '.join(matches)}; give one of them in full")
    return next(iter(matches.values()))


def _matches(wanted: str, among: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Full name and text of all in these packages that ends with a name. A name that several packages export comes once."""
    seen: list[object] = []
    outer, _, last = wanted.rpartition(".")
    for package in among:
        if package in OPTIONAL and not wanted.startswith(package):
            continue  # their packages take long to import
        for entry in _entries(package, wanted):
            title, value, text = f"{package}.{entry.name}", entry.value, ""
            if _ends(title, wanted):
                text = _entry_text(entry)
            elif inspect.isclass(value) and _ends(title, outer) and not last.startswith("_"):
                title, value = f"{title}.{last}", inspect.getattr_static(value, last, None)
                text = "" if value is None else _method_text(entry, last)
            if text and not any(value is other for other in seen):
                seen.append(value)
                yield title, text
    if not seen and _ends(f"{NUMPY}.{last}", wanted) and last in public_names(NUMPY):
        yield f"{NUMPY}.{last}", f"{NUMPY}.{last}\n\nIt is as NumPy's of the same name, with derivatives.\n"


def _entries(package: str, wanted: str) -> list[Entry]:
    """The entries of a package; none where another package that it needs is broken, unless the name that is wanted is in it."""
    try:
        return entries(package)
    except Exception as error:  # the import of a broken package may raise anything
        if wanted.startswith(f"{package}."):
            raise ParameterError(
                f"{wanted}: expected {package} to be there, got {type(error).__name__} on import ({reason_shown(error)}); "
                "install what it needs anew"
            ) from error
        return []


def _ends(title: str, wanted: str) -> bool:
    return bool(wanted) and f".{title}".endswith(f".{wanted}")


def _package_text(package: str) -> str:
    module = importlib.import_module(package)
    lines = [package, "", inspect.cleandoc(module.__doc__ or ""), ""]
    if package == NUMPY:
        names = ", ".join(sorted(public_names(package), key=str.lower))
        return "\n".join([*lines, "Each of these is as NumPy's of the same name:", "", textwrap.fill(names, WIDTH)]) + "\n"
    for entry in entries(package):
        first = entry.sections[""].split("\n\n")[0].replace("\n", " ")
        lines.append(textwrap.shorten(f"{entry.name}: {first}", WIDTH, placeholder=" ..."))
    if package == ROOT:
        others = [other for other in (*packages(), NUMPY) if other != ROOT]
        lines += ["", "Packages:", *(textwrap.shorten(f"{other}: {summary(other)}", WIDTH, placeholder=" ...") for other in others)]
    return "\n".join(lines) + "\n"


def _entry_text(entry: Entry) -> str:
    parts = [f"{entry.package}.{entry.name}", signature(entry.name, entry.value)]
    parts += [f'Kind: "{kind}"' for kind in kinds(entry.value)]
    parts.append(entry.doc)
    own = methods(entry.value) if inspect.isclass(entry.value) else {}
    if own:
        parts.append("Methods:\n" + "\n".join(f"    {call}\n        {text}" for call, text in own.items()))
    return "\n\n".join(parts) + "\n"


def _method_text(entry: Entry, method: str) -> str:
    value = getattr(entry.value, method)
    function = value.fget if isinstance(value, property) else value
    call = method if isinstance(value, property) else signature(method, value)
    return "\n\n".join([f"{entry.package}.{entry.name}.{method}", call, inspect.cleandoc(getattr(function, "__doc__", None) or "")]) + "\n"
