"""A digest of the code of an equation, by which a resumed run notices that it changed."""

from __future__ import annotations

import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from diffsim.stepping.equation import Equation


def code_digest(equation: type[Equation]) -> str | None:
    """Digest of the modules of an equation; None: it is one of diffsim's.

    They are the modules of the class and of its bases, and those that they use if these lie in the same package, or in the same folder
    and are not installed. The code of a class without a file, as in a notebook, is that of its methods.
    """
    classes = [kind for kind in equation.__mro__ if not _is_foreign(kind.__module__)]
    if not classes:
        return None
    digest = hashlib.sha256()
    modules: dict[str, Path] = {}
    for kind in classes:
        _collect(sys.modules.get(kind.__module__), modules)
        if kind.__module__ not in modules:
            digest.update("\n".join(_methods(kind)).encode())
    for name in sorted(modules):
        digest.update(name.encode() + modules[name].read_bytes())
    return digest.hexdigest()


def _is_foreign(module: str) -> bool:
    """Whether a module is of diffsim or of Python, whose versions are compared."""
    top = module.partition(".")[0]
    return top == "diffsim" or top in sys.stdlib_module_names


def _collect(module: ModuleType | None, found: dict[str, Path]) -> None:
    """Add a module that has a file, and those of its own that it uses."""
    file = getattr(module, "__file__", None)
    if module is None or module.__name__ in found or file is None or not Path(file).is_file():
        return
    found[module.__name__] = Path(file)
    for other in _used(module):
        if _belongs(other, module):
            _collect(other, found)


def _used(module: ModuleType) -> Iterator[ModuleType]:
    """The modules of all that is named in a module."""
    for value in list(vars(module).values()):
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str) and (other := sys.modules.get(name)) is not None:
            yield other


def _belongs(other: ModuleType, module: ModuleType) -> bool:
    """Whether a module is of the same package as another, or of the same project."""
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
    constants: list[Any] = [_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_varnames, constants))
