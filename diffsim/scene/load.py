"""From a TOML file to a description, with one clear line for each thing that is wrong."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from diffsim.errors import SceneError
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

AnyDescription = TypeVar("AnyDescription", bound=Description)


def scene_files() -> dict[str, Path]:
    """Every scene that comes with diffsim, by name."""
    folder = PACKAGED if PACKAGED.is_dir() else CHECKOUT
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find_scene(scene: str | Path) -> Path:
    """The file of a scene, given as a path or as the name of one that comes with diffsim."""
    path = Path(scene)
    if path.is_file():
        return path
    known = scene_files()
    if str(scene) in known:
        return known[str(scene)]
    names = ", ".join(known) or "none"
    raise SceneError(f"scene: expected a TOML file or one of the scenes {names}, found no {str(scene)!r}; {nearest(str(scene), known)}")


def read_scene(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The tables of a scene file, with overrides such as "optimise.iterations=5" applied."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SceneError(f"scene: expected a readable TOML file, found {path} ({error}); correct the path or its permissions") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SceneError(f"scene: expected TOML in {path}, found a mistake: {error}; mend that line") from None
    for override in overrides:
        _override(data, override)
    data.setdefault("name", path.stem)
    return data


def validated(kind: type[AnyDescription], data: Mapping[str, Any], folder: Path) -> AnyDescription:
    """The description that `data` gives; paths in it start at `folder`.

    Raises:
        SceneError: with a line for each problem: the key, what was expected, what was found, a remedy.
    """
    try:
        return kind.model_validate(data, context={"folder": folder})
    except ValidationError as error:
        raise SceneError("\n".join(_explain(kind, problem) for problem in error.errors())) from None


def _override(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise SceneError(f"--set {override}: expected key=value with a dotted key, found no such thing; write --set optimise.iterations=5")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string
    place: Any = data
    for depth, name in enumerate(names):
        last, here = depth == len(names) - 1, ".".join(names[:depth]) or "the scene"
        if isinstance(place, list):
            if not name.isdecimal() or int(name) >= len(place):
                raise SceneError(f"--set {key}: expected an entry 0 to {len(place) - 1} of {here}, found {name!r}; correct the number")
            index: Any = int(name)
        elif isinstance(place, dict):
            index = name
            if not last:
                place.setdefault(name, {})
        else:
            raise SceneError(f"--set {key}: expected a table at {here}, found {place!r}; shorten the key")
        if last:
            place[index] = value
        else:
            place = place[index]


def _explain(kind: type[BaseModel], problem: ErrorDetails) -> str:
    """One line for one problem."""
    model, key = _walk(kind, problem["loc"])
    found = repr(problem["input"])
    found = found if len(found) <= 60 else found[:57] + "..."
    match problem["type"]:
        case "extra_forbidden":
            known = [*model.model_fields] if model else []
            name = str(problem["loc"][-1])
            return f"{key}: expected one of {', '.join(known)}, found the unknown key {name!r}; {nearest(name, known)}"
        case "missing":
            return f"{key}: expected a value, found none; add the key"
        case "union_tag_invalid":
            context = problem["ctx"]
            return f"{key}.type: expected one of {context['expected_tags']}, found {context['tag']!r}; choose one of these"
        case "union_tag_not_found":
            return f"{key}.type: expected a value, found none; add the type"
        case "value_error":
            return f"{key}: {problem['msg'].removeprefix('Value error, ')}"
    expected = problem["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    remedy = "choose one of these" if problem["type"] == "literal_error" else "correct the value"
    return f"{key}: expected {expected}, found {found}; {remedy}"


def _walk(kind: Any, location: Sequence[int | str]) -> tuple[type[BaseModel] | None, str]:
    """The model that holds the last entry of `location`, and the location as a reader writes it, without the unions' tags."""
    key, holder = "", None
    for step in location:
        kind = _unwrapped(kind)
        if isinstance(kind, dict):  # a union by tag: this step is the tag
            kind = kind.get(step)
            continue
        holder = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
        key += f"[{step}]" if isinstance(step, int) else f".{step}"
        if holder is not None:
            field = holder.model_fields.get(str(step))
            kind = field.annotation if field is not None else None
        else:
            arguments = [a for a in get_args(kind) if a is not Ellipsis]
            kind = arguments[-1] if arguments else None
    return holder, key.lstrip(".") or "scene"


def _unwrapped(kind: Any) -> Any:
    """`kind` without Annotated and None; a union of models becomes {tag: model}."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        members = [m for m in get_args(kind) if m is not type(None)]
        if len(members) == 1:
            return _unwrapped(members[0])
        return {get_args(m.model_fields["type"].annotation)[0]: m for m in members if isinstance(m, type) and issubclass(m, BaseModel)}
    return kind
