"""Messages for invalid parts of a scene: a line for each problem with key, expected value, found value and remedy."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from diffsim.base.arguments import plural
from diffsim.base.messages import cut, name_shown, shown
from diffsim.base.quantities.units import is_unit
from diffsim.errors import DiffsimError, SceneError
from diffsim.scene.words.suggest import NO_SUGGESTION, nearest, taking

MOST_LETTERS = 40
"""Letters of a value that a remedy repeats."""
MOST_LINES = 10
"""Problems that one message lists."""

RENAMED: Mapping[str, Sequence[str]] = {
    **{"axes": ("order",), "band": ("key",), "key": ("values",)},
    **dict.fromkeys(("variable", "var", "column", "dataset"), ("key", "values")),
}
"""A key of before, or of other programs -> those that have its meaning, in tables that have one of them."""
_NUMBER = re.compile(r"\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*")
STATES = ("data", "receivers")
"""Sections with a table for each state; others have one for each name."""

ALONG_AXES = "max_length=3"
"""Length in the field of a list with an entry for each axis."""
OF_AXES = ("axes", "units")
"""Lists of texts with an entry for each axis."""
EXPECTED: Mapping[str, str] = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing_size": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_unicode": "text",
    "string_too_short": "text of at least {characters}",
    "string_too_long": "text of at most {max_length} characters",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "too_short": "a list of at least {items}",
    "too_long": "a list of at most {max_length} items",
    "greater_than": "a number greater than {gt:g}",
    "greater_than_equal": "a number greater than or equal to {ge}",
    "less_than": "a number less than {lt:g}",
    "less_than_equal": "a number less than or equal to {le}",
    "literal_error": "{expected}",
}
"""pydantic's name of a problem -> the expected value, with its limits."""


def explained(kind: type[BaseModel], error: ValidationError, root: str = "") -> str:
    """The message: a line for each problem, and how many more there are.

    Args:
        kind: the model.
        error: pydantic's error.
        root: key of the model itself; "": it is the whole scene.
    """
    problems = error.errors(include_url=False)
    lines = list(dict.fromkeys(islice((_explain(kind, problem, root) for problem in _merged(problems)), MOST_LINES)))
    left = len(problems) - MOST_LINES
    return "\n".join(lines + [f"and {left} more"] * (left > 0))


def _merged(problems: Sequence[ErrorDetails]) -> Iterator[ErrorDetails]:
    """The problems, with those of all members of a union merged into one."""
    last: ErrorDetails | None = None
    for problem in problems:
        name = str(problem["loc"][-1]) if problem["loc"] else ""
        if problem["type"] == "too_short" and len(problem["input"]) >= problem["ctx"]["min_length"]:
            continue  # its items are already reported
        member = name.startswith("literal[") or "constrained" in name or name in ("float", "int", "str", "bool")
        if not member:
            yield problem
            last = None
            continue
        merged = ErrorDetails(type="union_error", loc=problem["loc"][:-1], msg="", input=problem["input"])
        if last is None or last["loc"] != merged["loc"]:
            yield merged
        last = merged


def as_table(value: object) -> str:
    """The remedy where a table with a type is expected, and another value stands."""
    name = shown(value) if isinstance(value, str) and value.isprintable() else "..."
    return f"write {{type = {name}}} and its options"


def in_full(text: str) -> ValidationError:
    """Problems in final words, a line for each, for pydantic to carry."""
    lines = [PydanticCustomError("explained", "{line}", {"line": line}) for line in text.splitlines()]
    return ValidationError.from_exception_data("scene", [InitErrorDetails(type=line, input=None) for line in lines])


def _explain(kind: type[BaseModel], problem: ErrorDetails, root: str) -> str:
    """One line for one problem."""
    model, key = _walk(kind, problem["loc"], root)
    limits = problem.get("ctx", {})
    match problem["type"]:
        case "explained":
            return str(limits["line"])
        case "extra_forbidden":
            known = [*model.model_fields] if model else []
            name = str(problem["loc"][-1])
            meant = next((key for key in RENAMED.get(name, ()) if key in known), None)
            remedy = nearest(name, known, _deeper(model)) if meant is None else f"did you mean {meant}?"
            if remedy == NO_SUGGESTION and model and (word := taking(problem["input"], _annotations(model))):
                remedy = f"did you mean {word}?"
            return f"{key}: expected one of {', '.join(known)}, found the unknown key {shown(name)}; {remedy}"
        case "missing":
            return f"{key}: expected a value, found none; add the key"
        case "union_tag_invalid":
            tags = [tag.strip().strip("'") for tag in limits["expected_tags"].split(",")]
            return f"{key}.type: expected one of {', '.join(tags)}, found {shown(limits['tag'])}; {nearest(str(limits['tag']), tags)}"
        case "union_tag_not_found":
            return f"{key}.type: expected a value, found none; add the type"
        case "value_error":
            return f"{key}: {limits['error']}"
        case "union_error":
            choices = _unwrapped(model.model_fields[str(problem["loc"][-1])].annotation) if model else ()
            expected = " or ".join(_member(choice) for choice in choices)
            return f"{key}: expected {expected}, found {shown(problem['input'])}; correct the value"
    least = limits.get("min_length", 0)
    words = {**limits, "characters": plural(least, "character"), "items": plural(least, "item")}
    expected = EXPECTED.get(problem["type"], "another kind of value").format(**words)
    remedy = _chosen(problem) if problem["type"] == "literal_error" else "correct the value"
    name = str(problem["loc"][-1]) if problem["loc"] else ""
    field = model.model_fields.get(name) if model else None
    of_texts = field is not None and re.search(r"\bstr\b", str(field)) is not None
    of_numbers = problem["type"] == "tuple_type" and field is not None and not of_texts
    if isinstance(problem["input"], str) and (of_numbers or expected in ("a number", "an integer")):
        remedy = _as_number(problem["input"]) or remedy
    if problem["type"] == "tuple_type" and remedy == "correct the value" and type(problem["input"]) in (int, float, str):
        entry = shown(str(problem["input"]) if of_texts else problem["input"])
        remedy = f"write [{entry}]" if len(entry) <= MOST_LETTERS else "put it into brackets"
        if field is not None and (ALONG_AXES in str(field) or name in OF_AXES):
            remedy += ", with as many entries as the grid has axes"
    if expected == "a table":
        table = _kind_at(kind, problem["loc"])
        section, _, name = key.rpartition(".")
        if model is None and name in getattr(table, "model_fields", {}):  # the key of a table within, one level too high
            each = "STATE" if section in STATES else "NAME"
            return f"{key}: expected a table, found {shown(problem['input'])}; write {name} below [{section}.{each}], of which {each} it is"
        remedy = table_of(table, problem["input"])
    return f"{key}: expected {expected}, found {shown(problem['input'])}; {remedy}"


def _as_number(text: str) -> str:
    """The remedy for a number in a text, perhaps with a unit; "": the text has none."""
    match = _NUMBER.match(text)
    if match is None:
        return ""
    if match[0] == text:
        return f"write {cut(text.strip())}, without quotes"
    return "write the number alone, without quotes and in the unit of this key" if is_unit(text[match.end() :]) else ""


def table_of(kind: Any, value: object) -> str:
    """The remedy where a table of a model is expected: the table that says what the value says alone, else one of its keys.

    Args:
        kind: the model, or the members of a union by their tags.
        value: what stands there.
    """
    if isinstance(kind, dict):
        tag = next((tag for tag, each in kind.items() if _is_file(value) and "path" in each.model_fields), None)
        return as_table(value) if tag is None else f"write {{type = '{tag}', path = {shown(value)}}}"
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return "write a table, {name = value}"
    way = next((way for way, part in _ways(kind) if _takes(way[-1], part, value)), None)
    if way is not None:
        return f"write {_nested(way, value)}"
    first = next((name for name, field in kind.model_fields.items() if field.is_required()), next(iter(kind.model_fields)))
    return f"write {{{first} = ...}}"


def _is_file(value: object) -> bool:
    """True for a text like the name of a file, and not like a number with its unit."""
    return isinstance(value, str) and re.match(r"[^\d+-].*(/|\.[A-Za-z])|\.{1,2}/", value.strip()) is not None


def _takes(name: str, part: Any, value: object) -> bool:
    """True if a key is where a value stands that was written in place of the table around it."""
    if isinstance(value, str):
        words = get_args(part) if get_origin(part) is Literal else ()
        return value in words or name == ("path" if _is_file(value) else "type")
    return name == "constant" and isinstance(value, (int, float)) and not isinstance(value, bool)


def _ways(kind: type[BaseModel]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The keys of a model, then those of the models in it, as their names from its top, and what each takes."""
    parts = {name: _unwrapped(field.annotation) for name, field in kind.model_fields.items()}
    yield from (((name,), part) for name, part in parts.items())
    for name, part in parts.items():
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield from (((name, *way), inner) for way, inner in _ways(part))


def _nested(way: Sequence[str], value: object) -> str:
    """Tables one in another, as TOML writes them in a line."""
    text = shown(value)
    for name in reversed(way):
        text = f"{{{name} = {text}}}"
    return text


def _chosen(problem: ErrorDetails) -> str:
    """The remedy for a word that is not one of the expected words."""
    word = problem["input"]
    return nearest(word, re.findall("'(.*?)'", problem["ctx"]["expected"])) if isinstance(word, str) else "choose one of these"


def _annotations(model: type[BaseModel]) -> dict[str, Any]:
    """The annotations of the keys of a model."""
    return {name: field.annotation for name, field in model.model_fields.items()}


def _deeper(model: type[BaseModel] | None) -> dict[str, str]:
    """The keys of the sections in a model, and how they are written in it."""
    sections = {name: _unwrapped(field.annotation) for name, field in model.model_fields.items()} if model else {}
    kinds = {name: kind for name, kind in sections.items() if isinstance(kind, type) and issubclass(kind, BaseModel)}
    return {key: f"{name}.{key}" for name, kind in kinds.items() for key in kind.model_fields}


def _member(kind: Any) -> str:
    """A member of a union, as text."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return "a number > 0" if kind is float else "true or false" if kind is bool else ", ".join(map(repr, get_args(kind)))


def _kind_at(kind: Any, location: Sequence[int | str]) -> Any:
    """The model at the end of a location, or the members of a union by their tags."""
    holder, _ = _walk(kind, location, "")
    if holder is not None:
        return _unwrapped(holder.model_fields[str(location[-1])].annotation) if str(location[-1]) in holder.model_fields else None
    outer = _kind_at(kind, location[:-1]) if location else None
    return _unwrapped([a for a in get_args(outer) if a is not Ellipsis][-1]) if get_args(outer) else None


def _walk(kind: Any, location: Sequence[int | str], root: str) -> tuple[type[BaseModel] | None, str]:
    """The model that holds the last entry of `location`, and the location as a reader writes it, without the unions' tags."""
    key, holder = root, None
    for step in location:
        kind = _unwrapped(kind)
        if isinstance(kind, dict):  # a union by tag: this step is the tag
            kind = kind.get(step)
            continue
        if step == "[key]":  # the name itself is wrong
            continue
        holder = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
        key += f"[{step}]" if isinstance(step, int) else f".{name_shown(step)}"
        if holder is not None:
            field = holder.model_fields.get(str(step))
            kind = field.annotation if field is not None else None
        else:
            arguments = [a for a in get_args(kind) if a is not Ellipsis]
            kind = arguments[-1] if arguments else None
    return holder, key.lstrip(".") or "scene"


def _unwrapped(kind: Any) -> Any:
    """`kind` without Annotated and None; a union by tag becomes {tag: member}, another one the tuple of its members."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        tagged = {tag.tag: m for m in get_args(kind) for tag in getattr(m, "__metadata__", ()) if isinstance(tag, Tag)}
        if tagged:
            return tagged
        members = [m for m in get_args(kind) if m is not type(None)]
        if len(members) == 1:
            return _unwrapped(members[0])
        models = {m for m in members if isinstance(m, type) and issubclass(m, BaseModel)}
        if not models:
            return tuple(members)
        return {get_args(m.model_fields["type"].annotation)[0]: m for m in members if m in models}
    return kind


@contextmanager
def prefix_error(key: str, kind: type[DiffsimError] = DiffsimError) -> Iterator[None]:
    """Prefix the messages of errors with a key of the scene."""
    try:
        yield
    except SceneError:
        raise
    except kind as error:
        raise SceneError("\n".join(f"{key}: {line}" for line in str(error).splitlines())) from error
