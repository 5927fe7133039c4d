"""Tables of the packaged scenes, the solvers and the methods in time, made from their files. Pages have them between markers."""

from __future__ import annotations

import inspect
import re
from typing import Any

from diffsim import solvers
from diffsim.integrators import TABLEAUX
from diffsim.reference.entries import entries
from diffsim.scene import Scene, scene_files
from diffsim.stepping.declare.equation import Equation

PLACE = re.compile(r"<!-- (\w+): made by (?:[^>]*) -->\n.*?<!-- end -->", re.DOTALL)
"""A list in a page, between its markers."""
MADE_BY = "scripts/lists.py"


def scenes() -> str:
    """A table of the packaged scenes: name, question, equation and unknowns. A file begins with the question."""
    lines = ["| scene | question | equation | unknowns |", "|---|---|---|---|"]
    for name, path in scene_files().items():
        scene = Scene.load(path)
        question = path.read_text(encoding="utf-8").partition("?")[0].removeprefix("#").strip() + "?"
        unknowns = ", ".join(f"`{unknown}`" for unknown in scene.unknowns)
        lines.append(f"| `{name}` | {question} | `{scene.equation.type}` in {len(scene.grid.shape)}-D | {unknowns} |")
    return "\n".join(lines)


def equations() -> str:
    """A table of the solvers: the class and the first sentence of its docstring."""
    lines = ["| solver | what it solves |", "|---|---|"]
    for entry in entries(solvers.__name__):
        value: Any = entry.value
        if inspect.isclass(value) and issubclass(value, Equation):
            sentence = entry.sections[""].split("\n\n")[0].replace("\n", " ")
            lines.append(f"| `{entry.name}` | {sentence.removesuffix('.')} |")
    return "\n".join(lines)


def methods() -> str:
    """A table of the methods in time of `diffsim.integrators.TABLEAUX`."""
    lines = [
        "| method | order | rates a step | convex: Euler steps | linear part | decay, dt λ | oscillation, dt λ | when to take it |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, one in TABLEAUX.items():
        part = "exact" if one.exponential else "implicit" if one.implicit else "-"
        convex, real, imaginary = (f"{value:.10g}" if value else "-" for value in (one.ssp, one.real, one.imaginary))
        lines.append(f"| `{name}` | {one.order} | {one.stages} | {convex} | {part} | {real} | {imaginary} | {one.take} |")
    return "\n".join(lines)


LISTS = {"scenes": scenes, "solvers": equations, "methods": methods}


def filled(page: str) -> str:
    """A page with its lists as they are made from the files."""
    return PLACE.sub(lambda marker: f"<!-- {marker[1]}: made by {MADE_BY} -->\n{LISTS[marker[1]]()}\n<!-- end -->", page)
