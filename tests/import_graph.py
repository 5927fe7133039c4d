"""Which module of diffsim imports which: every import counts, at the top, under `TYPE_CHECKING` and inside functions."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

Graph = dict[str, set[str]]


@functools.cache
def imports_of(path: Path) -> ast.Module:
    """A module's import statements, wherever they stand, and its docstring, as the body of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = [node for node in tree.body[:1] if isinstance(node, ast.Expr)]
    return ast.Module([*texts, *(node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))], [])


def import_graph(root: Path) -> Graph:
    """Module -> modules it imports.

    A name that a package re-exports counts as an import of the module that the package has it from.

    Args:
        root: folder of the package.
    """
    trees = {_module(root, path): imports_of(path) for path in root.rglob("*.py")}
    exports = {name: _imported(name, tree, _is_package(root, name)) for name, tree in trees.items() if _is_package(root, name)}

    def origin(module: str, name: str) -> str:
        """The module that `from module import name` really needs."""
        if f"{module}.{name}" in trees:
            return f"{module}.{name}"
        source = exports.get(module, {}).get(name)
        return module if source is None or source == (module, name) else origin(*source)

    graph: Graph = {}
    for module, tree in trees.items():
        wanted = {origin(*source) for source in _sources(module, tree, _is_package(root, module))}
        graph[module] = {name for name in wanted if name in trees} - {module}
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """A shortest circle for each set of modules that reach one another, its first module again at the end."""
    reached = {module: _reached(graph, module) for module in graph}
    ways, seen = [], set()
    for module in sorted(graph):
        if module in reached[module] and module not in seen:
            seen |= {other for other in reached[module] if module in reached[other]}
            ways.append(_way_back(graph, module))
    return ways


def _reached(graph: Graph, start: str) -> set[str]:
    reached: set[str] = set()
    stack = [start]
    while stack:
        for other in graph[stack.pop()] - reached:
            reached.add(other)
            stack.append(other)
    return reached


def _way_back(graph: Graph, start: str) -> list[str]:
    paths = [[start]]
    for path in paths:  # grows as it is read: the shortest paths come first
        for other in sorted(graph[path[-1]]):
            if other == start:
                return [*path, start]
            if all(other not in known for known in paths):
                paths.append([*path, other])
    raise AssertionError(f"expected a way from {start} back to it, found none")


def _module(root: Path, path: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_package(root: Path, module: str) -> bool:
    return (root.parent.joinpath(*module.split(".")) / "__init__.py").exists()


def _sources(module: str, tree: ast.Module, package: bool) -> list[tuple[str, str]]:
    """(module, name) of each import."""
    names = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            names += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [(_from(module, node, package), alias.name) for alias in node.names]
    return names


def _imported(module: str, tree: ast.Module, package: bool) -> dict[str, tuple[str, str]]:
    """Name -> (module, name) that a module has it from."""
    return {
        alias.asname or alias.name: (_from(module, node, package), alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _from(module: str, node: ast.ImportFrom, package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    base = parts[: len(parts) - node.level + package]
    return ".".join([*base, *([node.module] if node.module else [])])
