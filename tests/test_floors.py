"""Each module imports from lower floors only; siblings on a floor never import each other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import diffsim
from tests.import_graph import circles, import_graph, imports_of
from tests.sampled import together

ROOT = Path(diffsim.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
TOP = {"__init__.py", "__main__.py"}
"""Modules of the whole package: they may import any part."""
SAME_FLOOR_ALLOWED = {("errors", "typing"), ("typing", "errors")}
MOST_FILES = 20


def floors() -> dict[str, int]:
    """Part -> its floor, from the table of the page: 0 is the lowest. Folders end with a slash."""
    rows = re.findall(r"^\| (\d+[a-z]?) \| ((?:`[\w/]+` ?)+)\|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    labels = list(dict.fromkeys(label for label, _ in rows))
    return {part: labels.index(label) for label, parts in rows for part in re.findall(r"`([\w/]+)`", parts)}


FLOORS = floors()


def part(module: Path) -> str:
    """The innermost part of the table that a module belongs to, given by its path below the package."""
    name = module.with_suffix("").as_posix()
    matching = [one for one in FLOORS if one == name or (one.endswith("/") and f"{name}/".startswith(one))]
    assert matching, f"{module} is on no floor; add it to the table of docs/architecture.md"
    return max(matching, key=len)


def imports(path: Path) -> set[Path]:
    """Modules and packages of diffsim that a module imports, anywhere in it, as paths below the package."""
    names = set()
    for node in imports_of(path).body:
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    files = {name.split(".")[1:] and _file(name.split(".")[1:]) for name in names if name.split(".")[0] == "diffsim"}
    return {one for one in files if one and str(one) not in TOP}


def _file(pieces: list[str]) -> Path:
    """The module that holds a dotted name."""
    while pieces:
        path = Path(*pieces)
        if (ROOT / path).is_dir():
            return path / "__init__.py"
        if (ROOT / path).with_suffix(".py").is_file():
            return path.with_suffix(".py")
        pieces = pieces[:-1]
    return Path("__init__.py")


@together(sorted(ROOT.rglob("*.py")), lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    module = path.relative_to(ROOT)
    others = imports(path)
    if str(module) in TOP or not others:
        return
    here = part(module)
    for other in others:
        there = part(other)
        assert there == here or FLOORS[there] < FLOORS[here] or (here, there) in SAME_FLOOR_ALLOWED, (
            f"{module} on the floor of {here} imports {other} on the floor of {there}"
        )


def test_every_part_of_the_table_exists() -> None:
    missing = [one for one in FLOORS if not ((ROOT / one).is_dir() if one.endswith("/") else (ROOT / f"{one}.py").is_file())]
    assert not missing


def test_no_folder_has_too_many_files() -> None:
    count = {folder: len(list(folder.glob("*.py"))) for folder in (ROOT, *ROOT.rglob("*/"))}
    assert not {str(folder): number for folder, number in count.items() if number > MOST_FILES}


def test_every_folder_says_what_belongs_there() -> None:
    silent = [path for path in ROOT.rglob("__init__.py") if not ast.get_docstring(imports_of(path))]
    assert not silent


def test_each_engine_is_imported_in_one_file() -> None:
    def uses(path: Path) -> bool:
        nodes = imports_of(path).body
        modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        modules += [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
        return any(module.split(".")[0] in ("taichi", "quadrants") for module in modules)

    paths = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if uses(path)}
    assert paths == {"engine/taichi_engine.py", "engine/quadrants_engine.py"}


def test_imports_have_no_circles() -> None:
    rings = circles(import_graph(ROOT))
    assert not rings, "modules import each other in a circle:\n" + "\n".join(" -> ".join(circle) for circle in rings)


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
