"""A digest of the code of a class that a scene names, by which a resumed run notices that it changed."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from diffsim.base.code import constant_text


def code_digest(kind: type) -> str | None:
    """Digest of the code of a class; None: it is one of diffsim's.

    The code is that of `modules_of`. Of a class without a file, as in a notebook, it is that of its methods.
    """
    classes = _own_classes(kind)
    if not classes:
        return None
    digest, modules = hashlib.sha256(), modules_of(kind)
    for each in classes:
        if each.__module__ not in modules:
            digest.update("\n".join(_methods(each)).encode())
    for name in sorted(modules):
        digest.update(name.encode() + modules[name].read_bytes())
    return digest.hexdigest()


def modules_of(kind: type) -> dict[str, Path]:
    """Name and file of each module of a class, without diffsim's.

    They are the modules of the class and of its bases, and those that they import if these lie in the same package, or in the same folder
    and are not installed.
    """
    modules: dict[str, Path] = {}
    for each in _own_classes(kind):
        _collect(sys.modules.get(each.__module__), modules)
    return modules


def _own_classes(kind: type) -> list[type]:
    """The class and its bases without those of diffsim and of Python."""
    return [each for each in kind.__mro__ if not _is_foreign(each.__module__)]


def _is_foreign(module: str) -> bool:
    """True if a module is of diffsim or of Python, whose versions are compared."""
    top = module.partition(".")[0]
    return top == "diffsim" or top in sys.stdlib_module_names


def _collect(module: ModuleType | None, modules: dict[str, Path]) -> None:
    """Add a module that has a file, and those of its own that it imports."""
    file = getattr(module, "__file__", None)
    if module is None or module.__name__ in modules or file is None or not Path(file).is_file():
        return
    modules[module.__name__] = Path(file)
    for name in _imports(module, Path(file)):
        other = sys.modules.get(name)
        if other is not None and _belongs(other, module):
            _collect(other, modules)


def _imports(module: ModuleType, file: Path) -> Iterator[str]:
    """Names of all that a module imports: modules and their members."""
    if file.suffix != ".py":
        return
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError:  # it was changed after it was imported
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), module.__package__)
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def _belongs(other: ModuleType, module: ModuleType) -> bool:
    """True if a module is of the same package as another, or of the same project."""
    name, file = other.__name__, getattr(other, "__file__", None)
    if file is None or _is_foreign(name):
        return False
    folder = Path(str(module.__file__)).resolve().parent
    return name.partition(".")[0] == module.__name__.partition(".")[0] or (
        Path(file).resolve().is_relative_to(folder) and not _is_installed(Path(file))
    )


def _is_installed(file: Path) -> bool:
    paths = sysconfig.get_paths()
    return any(file.resolve().is_relative_to(Path(paths[name]).resolve()) for name in ("purelib", "platlib", "stdlib"))


def _methods(kind: type) -> Iterator[str]:
    """The code of a class without a file."""
    for name, value in sorted(vars(kind).items()):
        function = inspect.unwrap(getattr(value, "__func__", value)) if callable(getattr(value, "__func__", value)) else None
        code = getattr(function, "__code__", None)
        if code is not None:
            yield f"{name}: {_code(code)} {getattr(function, '__defaults__', None)!r}"
        elif isinstance(value, (int, float, str, tuple, bool)):
            yield f"{name}: {value!r}"


def _code(code: CodeType) -> str:
    """The instructions of a function, without its place in a file."""
    constants: list[Any] = [_code(each) if isinstance(each, CodeType) else constant_text(each) for each in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_varnames, constants))
