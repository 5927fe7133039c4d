"""Classes of a user's own: named by the key `type` of a scene."""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from diffsim.base.kinds import Kinds
from diffsim.base.messages import cut, path_shown, printable, shown
from diffsim.base.misspelt import is_packaged
from diffsim.errors import DiffsimError, SceneError
from diffsim.scene.words.objects import is_object
from diffsim.scene.words.suggest import nearest
from diffsim.stepping.declare.equation import Equation

CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
"""A class as a scene names it: "mypackage.module:Class"."""


@dataclass(frozen=True, eq=False)
class Family:
    """A kind of part of a scene whose `type` names a class.

    Attributes:
        noun: such as "an equation".
        group: entry points of packages that have such classes.
        kinds: word of a scene -> class, of those that name their kind.
        base: the class that all derive from; None: any class with the methods.
        methods: names of the methods that a class needs.
    """

    noun: str
    group: str
    kinds: Kinds[Any]
    base: type | None = None
    methods: tuple[str, ...] = ()

    @property
    def words(self) -> dict[str, type]:
        """Word of a scene -> class, of all that name their kind and have been imported, by the word."""
        return dict(sorted(self.kinds.items()))

    @property
    def packaged(self) -> dict[str, type]:
        """Word of a scene -> class of diffsim, by the word."""
        return {word: kind for word, kind in self.words.items() if is_packaged(kind)}

    def accepts(self, value: Any) -> bool:
        """True if it is a class of this family."""
        if not isinstance(value, type) or (self.base is not None and not issubclass(value, self.base)):
            return False
        written = {name: next((vars(kind)[name] for kind in value.__mro__ if name in vars(kind)), None) for name in self.methods}
        return all(each is not None and not getattr(each, "__isabstractmethod__", False) for each in written.values())

    def require(self, key: str, name: str, value: Any) -> type:
        """Refuse a value that is no class of this family.

        Args:
            key: key of the part in the scene, such as "misfit[0]".
            name: name of the class in the scene.
            value: the named object.
        """
        if self.accepts(value):
            return value
        what = f"found {name}, which is {_what(value)}"
        if self.base is not None:
            raise SceneError(f"{key}.type: expected a class that derives from diffsim.{self.base.__name__}, {what}; derive it")
        raise SceneError(f"{key}.type: expected {self.noun}, which is a class with {' and '.join(self.methods)}, {what}; write it so")

    def name_of(self, kind: type) -> str:
        """The name of a class as a scene has it: the word of a packaged one, else such as "mypackage.module:Class".

        A process that has not imported a user's class does not know its word, but can import it by this name.
        """
        return next((word for word, each in self.packaged.items() if each is kind), f"{kind.__module__}:{kind.__qualname__}")

    def registered(self) -> dict[str, EntryPoint]:
        """Name -> entry point of each class that an installed package has registered."""
        return {entry.name: entry for entry in entry_points(group=self.group)}

    def find(self, name: str, key: str, folder: Path | None, allow_code: bool) -> type:
        """The class that a scene names.

        Args:
            name: a word of `words`, "mypackage.module:Class", or a name that an installed package has registered.
            key: key of the part in the scene.
            folder: folder of the scene, from which modules are imported too; None: there is none.
            allow_code: whether "mypackage.module:Class" may be imported, which runs its code.

        Raises:
            SceneError: there is no such class, its code may not run or raises an error, or it is of another kind.
        """
        if name in self.kinds:
            return self.require(key, name, self.kinds[name])
        if is_object(name):
            raise SceneError(f"{key}.type: expected a class, found {shown(name)}, which no file can hold; give the object in Python")
        if ":" in name:
            return self._imported(name, key, folder, allow_code)
        entries = self.registered()
        if name not in entries:
            known = (*self.words, *entries)
            raise SceneError(
                f"{key}.type: expected one of {', '.join(known)}, or a class such as mypackage.module:Class, "
                f"found {shown(name)}; {nearest(name, known)} (a kind of your own is known where its module has been imported)"
            )
        return self.require(key, name, _run(key, name, entries[name].module, entries[name].load))

    def _imported(self, name: str, key: str, folder: Path | None, allow_code: bool) -> type:
        if not CLASS.fullmatch(name):
            raise SceneError(f"{key}.type: expected a class such as mypackage.module:Class, found {shown(name)}; correct the name")
        module, _, path = name.partition(":")
        if not allow_code:
            raise SceneError(
                f"{key}.type: expected permission to run the code of {module}, found none; if you trust it, add --allow-code to the "
                "command (in Python, allow_code=True of Scene.load), or give the class itself"
            )
        if folder is not None:
            _require_same(key, module.partition(".")[0], folder)
        loaded = _run(key, name, module, lambda: importlib.import_module(module))
        for part in path.split("."):
            if not hasattr(loaded, part):
                known = [other for other, value in vars(loaded).items() if self.accepts(value)]
                raise SceneError(
                    f"{key}.type: expected {self.noun} of {module} ({', '.join(known) or 'it has none'}), found {shown(path)}; "
                    f"{nearest(path, known)}"
                )
            loaded = getattr(loaded, part)
        return self.require(key, name, loaded)


def _require_same(key: str, name: str, folder: Path) -> None:
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
            f"{key}.type: expected one module of the name {name}, found {path_shown(Path(beside.origin))} and another one, {place}; "
            "rename that of the scene"
        )


def _run(key: str, name: str, module: str, load: Callable[[], Any]) -> Any:
    """Modules that `load` imports."""
    try:
        return load()
    except DiffsimError as error:
        raise SceneError(f"{key}.type: {name}: {error}") from error
    except Exception as error:  # the code of a user may raise anything
        missing = isinstance(error, ModuleNotFoundError) and error.name is not None and f"{module}.".startswith(f"{error.name}.")
        if missing:
            remedy = f"write {name.replace('.py:', ':', 1)}" if module.endswith(".py") else "correct the name, or install it"
            raise SceneError(f"{key}.type: expected a module {module} beside the scene or installed, found none; {remedy}") from None
        raise SceneError(
            f"{key}.type: expected code of {name} that can be imported, found {_last_line(error)}; correct the code"
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


def _what(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"


def unfolded(key: str, given: Any) -> dict[str, Any]:
    """The keys that a class, or a `functools.partial` of one with its options, stands for.

    Raises:
        SceneError: an option of the partial has no name.
    """
    if not isinstance(given, partial):
        return {"type": given}
    if given.args:
        raise SceneError(f"{key}: expected a partial with options by name, found {shown(given.args[0])} without one; name it")
    return {**given.keywords, "type": given.func}


def table_of(given: Any) -> Any:
    """The table of an equation that Python code gives as a class, or as a `functools.partial` of one with its options.

    Raises:
        SceneError: something else than a class of an equation.
    """
    if isinstance(given, (partial, type)):
        return unfolded("equation", given)
    itself = given.get("type") if isinstance(given, dict) else given
    if isinstance(itself, Equation):
        kind = type(itself).__name__
        raise SceneError(
            f"equation: expected a class, for a scene builds it on more than one grid, found a {kind} with a grid; "
            f"give {kind}, or functools.partial({kind}, option=...)"
        )
    return given
