"""Each module imports from lower floors only; siblings on a floor never import each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import diffsim
from tests.import_graph import circles, import_graph

ROOT = Path(diffsim.__file__).parent
FLOORS = [
    {"errors", "typing", "start", "version"},
    {"messages"},
    {"units"},
    {"quantities"},
    {"arguments", "copies", "kinds", "packages", "summary"},
    {"system"},
    {"buffers"},
    {"engine"},
    {"grid", "field", "boundary"},
    {"expr", "linear"},
    {"kernels", "stepping"},
    {"checkpoint", "integrators", "layers"},
    {"ad"},
    {"numpy"},
    {"tile"},
    {"preconditioners"},
    {"simulation"},
    {"solvers", "losses", "plot", "records"},
    {"certificate", "tune"},
    {"optimize"},
    {"photonics"},
    {"scene"},
    {"report", "torch", "jax", "parallel"},
    {"cli"},
]
TOP = {"__init__", "__main__"}
SAME_FLOOR_ALLOWED = {
    ("errors", "typing"),
    ("field", "grid"),
    ("typing", "errors"),
}


def part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def floor(name: str) -> int:
    return next(number for number, names in enumerate(FLOORS) if name in names)


def imports(path: Path) -> set[str]:
    """Parts of diffsim that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        for name in names:
            pieces = name.split(".")
            if pieces[0] == "diffsim":
                found |= {pieces[1]} if len(pieces) > 1 else {a.name for a in node.names}
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    here = part(path)
    if here in TOP:
        return
    for other in imports(path) - {here, "__version__"}:
        assert floor(other) < floor(here) or (here, other) in SAME_FLOOR_ALLOWED, f"{path} on floor {here} imports {other}"


def test_each_engine_is_imported_in_one_file() -> None:
    def uses(path: Path) -> bool:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        modules += [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
        return any(module.split(".")[0] in ("taichi", "quadrants") for module in modules)

    found = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if uses(path)}
    assert found == {"engine/taichi_engine.py", "engine/quadrants_engine.py"}


def test_imports_have_no_circles() -> None:
    found = circles(import_graph(ROOT))
    assert not found, "modules import each other in a circle:\n" + "\n".join(" -> ".join(circle) for circle in found)


def test_circles_are_found_whatever_the_kind_of_import(tmp_path: Path) -> None:
    package = tmp_path / "made"
    sources = {
        "__init__": "from made.inner import Thing",
        "inner/__init__": "from made.inner.thing import Thing as Thing",
        "inner/thing": "def late():\n    from made import user\nclass Thing: ...",
        "user": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made import Thing",
        "alone": "import made.user\nfrom .inner import thing",
    }
    for name, text in sources.items():
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    graph = import_graph(package)
    assert graph["made.alone"] == {"made.user", "made.inner.thing"}
    assert circles(graph) == [["made.inner.thing", "made.user", "made.inner.thing"]]
