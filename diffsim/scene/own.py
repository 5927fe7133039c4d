"""Equations of a user's own: the class that a scene names."""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Callable
from functools import partial
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from diffsim.errors import DiffsimError, SceneError
from diffsim.messages import cut, path_shown, printable, shown
from diffsim.scene.suggest import nearest
from diffsim.stepping.equation import Equation

GROUP = "diffsim.equations"
"""Entry points of packages that have equations."""
CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
"""A class as a scene names it: "mypackage.module:Class"."""


def registered() -> dict[str, EntryPoint]:
    """Name -> entry point of each equation that an installed package has registered."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def equation_of(kind: str, packaged: tuple[str, ...], folder: Path | None, allow_code: bool) -> type[Equation]:
    """The class that a scene names, and that is none of diffsim's.

    Args:
        kind: "mypackage.module:Class", or a name that an installed package has registered.
        packaged: names of diffsim's own equations, for the message.
        folder: folder of the scene, from which modules are imported too; None: there is none.
        allow_code: whether "mypackage.module:Class" may be imported, which runs its code.

    Raises:
        SceneError: there is no such class, its code may not run or raises an error, or it is no equation.
    """
    if ":" in kind:
        return _imported(kind, folder, allow_code)
    entries = registered()
    if kind not in entries:
        known = (*packaged, *entries)
        raise SceneError(
            f"equation.type: expected one of {', '.join(known)}, or a class such as mypackage.module:Class, "
            f"found {shown(kind)}; {nearest(kind, known)}"
        )
    return require_equation(kind, _run(kind, entries[kind].module, entries[kind].load))


def _imported(kind: str, folder: Path | None, allow_code: bool) -> type[Equation]:
    if not CLASS.fullmatch(kind):
        raise SceneError(f"equation.type: expected a class such as mypackage.module:Class, found {shown(kind)}; correct the name")
    module, _, path = kind.partition(":")
    if not allow_code:
        raise SceneError(
            f"equation.type: expected permission to run the code of {module}, found none; if you trust it, add --allow-code to the "
            "command (in Python, allow_code=True of Scene.load), or give the class itself"
        )
    if folder is not None:
        _require_same(module.partition(".")[0], folder)
    found = _run(kind, module, lambda: importlib.import_module(module))
    for name in path.split("."):
        if not hasattr(found, name):
            known = [other for other, value in vars(found).items() if isinstance(value, type) and issubclass(value, Equation)]
            raise SceneError(
                f"equation.type: expected an equation of {module} ({', '.join(known) or 'it has none'}), found {shown(path)}; "
                f"{nearest(path, known)}"
            )
        found = getattr(found, name)
    return require_equation(kind, found)


def _require_same(name: str, folder: Path) -> None:
    """Make the folder of a scene one from which Python imports, and refuse a module there whose name another module has."""
    importlib.invalidate_caches()
    beside = PathFinder.find_spec(name, [str(folder)])
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # last, so that no file of it takes the place of a library's
    if beside is None or beside.origin is None:
        return
    other = sys.modules[name].__spec__ if name in sys.modules else PathFinder.find_spec(name)
    if other is None or other.origin is None or Path(other.origin).resolve() != Path(beside.origin).resolve():
        place = "built into Python" if other is None or other.origin is None else path_shown(Path(other.origin))
        raise SceneError(
            f"equation.type: expected one module of the name {name}, found {path_shown(Path(beside.origin))} and another one, {place}; "
            "rename that of the scene"
        )


def _run(kind: str, module: str, load: Callable[[], Any]) -> Any:
    """What `load` imports."""
    try:
        return load()
    except DiffsimError as error:
        raise SceneError(f"equation.type: {kind}: {error}") from error
    except Exception as error:  # the code of a user may raise anything
        missing = isinstance(error, ModuleNotFoundError) and error.name is not None and f"{module}.".startswith(f"{error.name}.")
        if missing:
            raise SceneError(
                f"equation.type: expected a module {module} beside the scene or installed, found none; correct the name, or install it"
            ) from None
        raise SceneError(
            f"equation.type: expected code of {kind} that can be imported, found {_last_line(error)}; correct the code"
        ) from error


def _last_line(error: Exception) -> str:
    """The last line of a traceback, and the place of the error."""
    text = cut(printable(traceback.format_exception_only(error)[-1].strip()), 200)
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError):
        file, line = error.filename, error.lineno
    else:
        file, line = (frames[-1].filename, frames[-1].lineno) if frames else (None, None)
    return f"{text} ({path_shown(Path(file))}, line {line})" if file else text


def require_equation(kind: str, found: Any) -> type[Equation]:
    """Refuse what is no class of an equation.

    Raises:
        SceneError: the message has `kind`, the name of it in the scene.
    """
    if isinstance(found, type) and issubclass(found, Equation):
        return found
    raise SceneError(
        f"equation.type: expected a class that derives from diffsim.Equation, found {kind}, which is {_what(found)}; derive it"
    )


def _what(found: Any) -> str:
    return f"the class {found.__name__}" if isinstance(found, type) else f"of type {type(found).__name__}"


def table_of(given: Any) -> Any:
    """The table of an equation that Python code gives as a class, or as a `functools.partial` of one with its options.

    Raises:
        SceneError: something else than a class of an equation.
    """
    if isinstance(given, partial):
        if given.args:
            raise SceneError(f"equation: expected a partial with options by name, found {shown(given.args[0])} without one; name it")
        return {"type": given.func, **given.keywords}
    if isinstance(given, type):
        return {"type": given}
    if isinstance(given, Equation):
        kind = type(given).__name__
        raise SceneError(
            f"equation: expected a class, for a scene builds it on more than one grid, found a {kind} with a grid; "
            f"give {kind}, or functools.partial({kind}, option=...)"
        )
    return given
