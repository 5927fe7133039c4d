"""What is wrong with a part of a scene, in diffsim's words: a line for each problem with key, expected, found, remedy."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from diffsim.scene.shown import name_shown, shown
from diffsim.scene.suggest import nearest

MOST_LINES = 10
"""Problems that one message lists."""

EXPECTED: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "int_type": lambda _: "integer",
    "int_from_float": lambda _: "integer",
    "int_parsing_size": lambda _: "integer",
    "float_type": lambda _: "number",
    "finite_number": lambda _: "finite number",
    "bool_type": lambda _: "boolean",
    "string_type": lambda _: "text",
    "string_unicode": lambda _: "text",
    "string_too_short": lambda limits: f"text of {_least(limits['min_length'], 'character')}",
    "string_too_long": lambda limits: f"text of at most {limits['max_length']} characters",
    "tuple_type": lambda _: "list",
    "dict_type": lambda _: "table",
    "model_type": lambda _: "table",
    "model_attributes_type": lambda _: "table",
    "too_short": lambda limits: f"list of {_least(limits['min_length'], 'item')}",
    "too_long": lambda limits: f"list of at most {limits['max_length']} items",
    "greater_than": lambda limits: f"greater than {limits['gt']:g}",
    "greater_than_equal": lambda limits: f"greater than or equal to {limits['ge']}",
    "less_than": lambda limits: f"less than {limits['lt']:g}",
    "less_than_equal": lambda limits: f"less than or equal to {limits['le']}",
    "literal_error": lambda limits: limits["expected"],
}
"""pydantic's name of a problem -> what was expected."""


def explained(kind: type[BaseModel], error: ValidationError) -> str:
    """The message: a line for each problem, and how many more there are."""
    problems = error.errors(include_url=False)
    lines = list(dict.fromkeys(islice((_explain(kind, problem) for problem in _merged(problems)), MOST_LINES)))
    left = len(problems) - MOST_LINES
    return "\n".join(lines + [f"and {left} more"] * (left > 0))


def _merged(problems: Sequence[ErrorDetails]) -> Iterator[ErrorDetails]:
    """The problems, where those with each of the members of a union are one."""
    last: ErrorDetails | None = None
    for problem in problems:
        name = str(problem["loc"][-1]) if problem["loc"] else ""
        if problem["type"] == "too_short" and len(problem["input"]) >= problem["ctx"]["min_length"]:
            continue  # of items that were told already
        member = name.startswith("literal[") or "constrained" in name or name in ("float", "int", "str")
        if not member:
            yield problem
            last = None
            continue
        merged = ErrorDetails(type="union_error", loc=problem["loc"][:-1], msg="", input=problem["input"])
        if last is None or last["loc"] != merged["loc"]:
            yield merged
        last = merged


def _least(count: int, what: str) -> str:
    return f"at least {count} {what}{'' if count == 1 else 's'}"


def _explain(kind: type[BaseModel], problem: ErrorDetails) -> str:
    """One line for one problem."""
    model, key = _walk(kind, problem["loc"])
    limits = problem.get("ctx", {})
    match problem["type"]:
        case "extra_forbidden":
            known = [*model.model_fields] if model else []
            name = str(problem["loc"][-1])
            return f"{key}: expected one of {', '.join(known)}, found the unknown key {shown(name)}; {nearest(name, known)}"
        case "missing":
            return f"{key}: expected a value, found none; add the key"
        case "union_tag_invalid":
            return f"{key}.type: expected one of {limits['expected_tags']}, found {shown(limits['tag'])}; choose one of these"
        case "union_tag_not_found":
            return f"{key}.type: expected a value, found none; add the type"
        case "value_error":
            return f"{key}: {limits['error']}"
        case "union_error":
            choices = _unwrapped(model.model_fields[str(problem["loc"][-1])].annotation) if model else ()
            expected = " or ".join(_member(choice) for choice in choices)
            return f"{key}: expected {expected}, found {shown(problem['input'])}; correct the value"
    tell = EXPECTED.get(problem["type"])
    expected = "another kind of value" if tell is None else tell(limits)
    remedy = "choose one of these" if problem["type"] == "literal_error" else "correct the value"
    return f"{key}: expected {expected}, found {shown(problem['input'])}; {remedy}"


def _member(kind: Any) -> str:
    """A member of a union, in words."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return "a number > 0" if kind is float else ", ".join(map(repr, get_args(kind)))


def _walk(kind: Any, location: Sequence[int | str]) -> tuple[type[BaseModel] | None, str]:
    """The model that holds the last entry of `location`, and the location as a reader writes it, without the unions' tags."""
    key, holder = "", None
    for step in location:
        kind = _unwrapped(kind)
        if isinstance(kind, dict):  # a union by tag: this step is the tag
            kind = kind.get(step)
            continue
        if step == "[key]":  # the name itself is what is wrong
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
    """`kind` without Annotated and None; a union of models becomes {tag: model}, another one the tuple of its members."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        members = [m for m in get_args(kind) if m is not type(None)]
        if len(members) == 1:
            return _unwrapped(members[0])
        models = {m for m in members if isinstance(m, type) and issubclass(m, BaseModel)}
        if not models:
            return tuple(members)
        return {get_args(m.model_fields["type"].annotation)[0]: m for m in members if m in models}
    return kind
