"""Read a description from a TOML file, with one clear line for each error."""

from __future__ import annotations

import bisect
import errno
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from diffsim.base.arguments import path_of
from diffsim.base.messages import cut, name_shown, path_shown, printable, reason_shown, shown
from diffsim.checkpoint.planning.memory import memory_text
from diffsim.errors import SceneError
from diffsim.scene.schema.schema import Description
from diffsim.scene.schema.statement import statement_at
from diffsim.scene.words.explain import explained
from diffsim.scene.words.suggest import nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGED = Path(__file__).parents[2] / "scenes"
"""Scenes of an installed diffsim."""
CHECKOUT = Path(__file__).parents[3] / "scenes"
"""Scenes of a source checkout."""

MOST_BYTES = 1 << 20
"""Largest size of a scene file. Reading it takes a second."""
LONGEST_INTEGER = 128
"""Bits of the longest integer."""
DEEPEST = 16
"""Most levels of nested tables and lists."""

QUOTED = ('"', "'", "[", "{")
"""Beginnings of values that are no bare words."""

AnyDescription = TypeVar("AnyDescription", bound=Description)


def scene_files() -> dict[str, Path]:
    """Every scene that comes with diffsim, by name."""
    folder = PACKAGED if PACKAGED.is_dir() else CHECKOUT
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find_scene(scene: str | Path) -> Path:
    """The file of a scene, from a path or the name of a scene that comes with diffsim."""
    if not isinstance(scene, (str, Path)):
        raise SceneError(f"scene: expected the path of a TOML file or the name of a scene, found {shown(scene)}; give one of them")
    path = path_of("scene", scene)
    known = scene_files()
    if _is(Path.is_file, path):
        return path
    if str(scene) in known:
        return known[str(scene)]
    names, beside = ", ".join(known) or "none", Path(f"{path}.toml")
    remedy = f"did you mean {path_shown(beside)}?" if _is(Path.is_file, beside) else nearest(str(scene), known)
    seen = "the folder" if _is(Path.is_dir, path) else "no"
    raise SceneError(f"scene: expected a TOML file or one of the scenes {names}, found {seen} '{path_shown(path)}'; {remedy}")


def _is(kind: Callable[[Path], bool], path: Path) -> bool:
    """True if there is a file or a folder of that name."""
    try:
        return kind(path)
    except ValueError:  # it contains NUL
        return False
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return False


def read_scene(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The tables of a scene file, with overrides such as "optimise.iterations=5" applied."""
    if isinstance(overrides, str):
        raise SceneError(f"overrides: expected a list of texts, found the text {shown(overrides)}; write [{shown(overrides)}]")
    where = path_shown(path)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise SceneError(
                f"scene: expected a file of at most {memory_text(MOST_BYTES)}, found more in {where}; keep arrays in NumPy files"
            )
        text = content.decode("utf-8-sig")  # Windows' editors begin with a byte-order mark
    except OSError as error:
        raise SceneError(f"scene: expected a readable TOML file, found {where} ({error}); correct the path or its permissions") from None
    except UnicodeDecodeError as error:
        raise SceneError(f"scene: expected text in {where}, found bytes that are no UTF-8 ({error.reason}); save it as UTF-8") from None
    data = _parsed(text, where)
    for override in overrides:
        _override(data, override)
    _require_modest(data, where)
    data.setdefault("name", path.stem)
    return data


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        mistake, place = reason_shown(error), re.search(r"at line (\d+), column (\d+)", str(error))
        key, begun = _statement(text, *([int(place[1]), int(place[2])] if place else [None]))
        remedy = "correct that line" if place and begun == int(place[1]) else f"it is in what begins in line {begun}; correct it"
        raise SceneError(f"{key}: expected TOML in {where}, found a mistake: {mistake}; {remedy}") from None
    except RecursionError:
        raise _too_deep(where) from None
    except ValueError as error:  # an integer that Python does not read, or an invalid date
        key, _ = _statement(text, _first_unreadable(text))
        raise SceneError(f"{key}: expected TOML in {where}, found a value that cannot be read: {_reason(error)}; correct it") from None


def _first_unreadable(text: str) -> int:
    """The line of the first value that follows TOML's grammar and that Python cannot read."""
    lines = text.split("\n")

    def reached(count: int) -> bool:
        try:
            tomllib.loads("\n".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            return False
        except ValueError:
            return True
        return False

    return 1 + bisect.bisect_left(range(1, len(lines) + 1), True, key=reached)


def _statement(text: str, line: int | None = None, column: int | None = None) -> tuple[str, int]:
    """The key of the statement at a place, and the line where it begins; "scene" where it has no key.

    Args:
        text: the text.
        line: of the place, counted from 1; None: the end of the text.
        column: of the place, counted from 1; None: the end of the line.
    """
    lines = text.replace("\r\n", "\n").split("\n")  # as TOML counts them
    if line is not None:
        lines = [*lines[: line - 1], lines[line - 1][: None if column is None else column - 1]]
    before = "\n".join(lines)
    statement = statement_at(text.replace("\r\n", "\n"), len(before))
    return name_shown(statement.key) if statement.key else "scene", statement.line


def _reason(error: ValueError) -> str:
    """Without the advice of Python to allow more digits."""
    return cut(printable(str(error).partition(";")[0]), 200)


def _require_modest(data: dict[str, Any], where: str) -> None:
    """Refuse tables that are deeper, and integers that are longer, than Python can print."""
    level: list[tuple[str, Any]] = [("", data)]
    for _ in range(DEEPEST):
        inner = [
            (f"{name}.{key}" if isinstance(part, dict) and name else f"{name}[{key}]" if name else str(key), value)
            for name, part in level
            for key, value in (part.items() if isinstance(part, dict) else enumerate(part))
        ]
        for name, value in inner:
            if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER:
                raise SceneError(
                    f"{name_shown(name)}: expected a number that can be counted to in {where}, found {shown(value)}; correct it"
                )
        level = [(name, value) for name, value in inner if isinstance(value, (dict, list))]
    if level:
        raise _too_deep(where)


def _too_deep(where: str) -> SceneError:
    return SceneError(f"scene: expected tables and lists at most {DEEPEST} deep in {where}, found deeper ones; no key needs them")


def validated(
    kind: type[AnyDescription], data: Mapping[str, Any], folder: Path, read_below: Path | None = None, allow_code: bool = False
) -> AnyDescription:
    """The description that `data` gives.

    Args:
        kind: kind of description.
        data: its tables.
        folder: folder to which its paths are relative.
        read_below: files that it names must lie in this folder; None: anywhere.
        allow_code: whether it may name classes to import.

    Raises:
        SceneError: with a line for each problem: the key, what was expected, what was found, a remedy.
    """
    try:
        return kind.model_validate(data, context={"folder": folder, "read_below": read_below, "allow_code": allow_code})
    except ValidationError as error:
        raise SceneError(explained(kind, error)) from None


def _override(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    names = key.strip().split(".")
    if len(names) > DEEPEST:
        raise SceneError(f"--set {name_shown(key)}: expected a key of at most {DEEPEST} names, found {len(names)}; shorten it")
    if not equals or not all(names):
        raise SceneError(
            f"--set {name_shown(override)}: expected key=value with a dotted key, found no value; write --set optimise.iterations=5"
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError) as error:
        bare = isinstance(error, tomllib.TOMLDecodeError) and not text.strip().startswith(QUOTED)
        if not bare:
            reason = _reason(error) if isinstance(error, ValueError) else "it is too deep"
            raise SceneError(
                f"--set {name_shown(key)}: expected a value, found {shown(text)}, which cannot be read ({reason}); correct it"
            ) from None
        value = text.strip()  # a bare word is a string
    place: Any = data
    for depth, name in enumerate(names):
        last, here = depth == len(names) - 1, ".".join(names[:depth]) or "the scene"
        if isinstance(place, list):
            if not name.isdecimal() or len(name) > 9 or int(name) >= len(place):
                raise SceneError(
                    f"--set {name_shown(key)}: expected an entry 0 to {len(place) - 1} of {name_shown(here)}, found {shown(name)}; "
                    "correct the number"
                )
            index: Any = int(name)
        elif isinstance(place, dict):
            index = name
            if not last:
                place.setdefault(name, {})
        else:
            raise SceneError(f"--set {name_shown(key)}: expected a table at {name_shown(here)}, found {shown(place)}; shorten the key")
        if last:
            place[index] = value
        else:
            place = place[index]
