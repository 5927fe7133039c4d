"""Read a description from a TOML file, with one clear line for each error."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from diffsim.checkpoint.planning.memory import memory_text
from diffsim.errors import SceneError
from diffsim.messages import cut, name_shown, path_shown, printable, shown
from diffsim.scene.explain import explained
from diffsim.scene.schema import Description
from diffsim.scene.suggest import nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGED = Path(__file__).parents[1] / "scenes"
"""Scenes of an installed diffsim."""
CHECKOUT = Path(__file__).parents[2] / "scenes"
"""Scenes of a source checkout."""

MOST_BYTES = 1 << 20
"""Largest size of a scene file. Reading it takes a second."""
LONGEST_INTEGER = 128
"""Bits of the longest integer."""
DEEPEST = 16
"""Most levels of nested tables and lists."""

AnyDescription = TypeVar("AnyDescription", bound=Description)


def scene_files() -> dict[str, Path]:
    """Every scene that comes with diffsim, by name."""
    folder = PACKAGED if PACKAGED.is_dir() else CHECKOUT
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find_scene(scene: str | Path) -> Path:
    """The file of a scene, from a path or the name of a scene that comes with diffsim."""
    if not isinstance(scene, (str, Path)):
        raise SceneError(f"scene: expected the path of a TOML file or the name of a scene, found {shown(scene)}; give one of them")
    path = Path(scene)
    known = scene_files()
    if _is(Path.is_file, path):
        return path
    if str(scene) in known:
        return known[str(scene)]
    names, beside = ", ".join(known) or "none", Path(f"{path}.toml")
    remedy = f"did you mean {path_shown(beside)}?" if _is(Path.is_file, beside) else nearest(str(scene), known)
    found = "the folder" if _is(Path.is_dir, path) else "no"
    raise SceneError(f"scene: expected a TOML file or one of the scenes {names}, found {found} {path_shown(path)!r}; {remedy}")


def _is(kind: Callable[[Path], bool], path: Path) -> bool:
    """Whether there is a file or a folder of that name."""
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
        mistake = cut(printable(str(error)), 200)
        raise SceneError(f"scene: expected TOML in {where}, found a mistake: {mistake}; correct that line") from None
    except RecursionError:
        raise _too_deep(where) from None
    except ValueError as error:  # an integer that Python does not read, or an invalid date
        raise SceneError(f"scene: expected TOML in {where}, found a value that cannot be read: {error}; correct it") from None


def _require_modest(data: dict[str, Any], where: str) -> None:
    """Refuse tables that are deeper, and integers that are longer, than Python can print."""
    level: list[Any] = [data]
    for _ in range(DEEPEST):
        inner = [value for part in level for value in (part.values() if isinstance(part, dict) else part)]
        for value in inner:
            if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER:
                raise SceneError(f"scene: expected numbers that can be counted to in {where}, found {shown(value)}; correct it")
        level = [value for value in inner if isinstance(value, (dict, list))]
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
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string
    except (ValueError, RecursionError) as error:
        raise SceneError(
            f"--set {name_shown(key)}: expected a value, found {shown(text)}, which cannot be read ({error}); correct it"
        ) from None
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
