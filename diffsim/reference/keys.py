"""The keys of a scene file, from the schema of scenes: as tables for docs/scene.md, and as a text for a terminal.

A part of a scene is named by its path in the file without names of users, `sources.wavelet`. Where `type` chooses among several, its word
comes last: `equation.heat`. The meaning of a key is in the docstring of the part, or of the class whose argument it is:
`dt (s): time step` has the unit in brackets.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, TypeAdapter

from diffsim.boundary import KINDS
from diffsim.errors import ParameterError
from diffsim.reference.entries import items, sections
from diffsim.scene.schema import misfit_keys, parts, schema
from diffsim.scene.words import rule_keys, rules
from diffsim.scene.words.suggest import nearest

ROOT = "scene"
"""The name of the whole, and the beginning of names in a terminal."""
SHARED: Mapping[str, type[BaseModel]] = {"fields.resampled": parts.Resampled, "misfit": misfit_keys.MisfitModel}
"""Parts that stand in no file by themselves. Others are made of them."""
LIMITS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
MARKER = re.compile(r"^Keys: `python -m diffsim\.reference ([\w.]+)`(?: <!-- as (\w+) -->)?$", re.MULTILINE)
"""The place of a table in a page: the name of a part, and how the tables of others call it."""
OTHERS = re.compile(r"^<!-- others of ([\w.]+)(?: under (\w+))?(?: as (\w+))? -->\n\n", re.MULTILINE)
"""The place of sections of parts that a page does not have: their part, the beginning of their headings, their name in tables."""
HEAD = "| key | type | unit | default | meaning |\n|---|---|---|---|---|\n"
WIDTH = 110
"""Columns of a text."""


@dataclass(frozen=True)
class Key:
    """A key of a part.

    Attributes:
        name: the key.
        kind: type of its value.
        unit: of its value; "-": it has none.
        default: the value where the key is left out, or "required".
        meaning: its meaning.
    """

    name: str
    kind: str
    unit: str
    default: str
    meaning: str


@cache
def parts_of_scenes() -> dict[str, type[BaseModel]]:
    """Every part of a scene by its shortest name, level by level."""
    parts: dict[str, type[BaseModel]] = {ROOT: schema.Description}
    names: dict[type[BaseModel], str] = {schema.Description: ROOT}
    level: list[tuple[str, type[BaseModel]]] = [("", schema.Description)]
    while level:
        below = []
        for path, model in level:
            for field, others in _inside(model):
                for tag, other in others.items():
                    name = f"{path}.{field}.{tag}".strip(".")
                    if other not in names:
                        parts[name], names[other] = other, name
                        below.append((f"{path}.{field}".strip("."), other))
        level = below
    return parts | {name: model for name, model in SHARED.items() if model not in names}


def part_named(name: str) -> type[BaseModel]:
    """The part with a name, such as "scene.data" or "data".

    Raises:
        ParameterError: there is none.
    """
    short = name.removeprefix(f"{ROOT}.")
    known = parts_of_scenes()
    part = known.get(short) or _below(schema.Description, short.split("."))
    if part is None:
        names = [each if each == ROOT else f"{ROOT}.{each}" for each in known]
        raise ParameterError(f"{name}: expected a part of a scene, found none of that name; {nearest(f'{ROOT}.{short}', names)}")
    return part


def _below(model: type[BaseModel], path: list[str]) -> type[BaseModel] | None:
    """The part at a path that begins at a part."""
    inside = dict(_inside(model)).get(path[0], {})
    tag = ".".join(path[1:])
    if tag in inside or len(path) == 1:
        return inside.get(tag)
    return next((below for other in inside.values() if (below := _below(other, path[1:]))), None)


def keys_of(model: type[BaseModel], called: Callable[[type[BaseModel]], str]) -> list[Key]:
    """The keys of a part, but those that it shares with a part of its own name.

    Args:
        model: the part.
        called: how the type of a key calls a part.
    """
    names = {other.__name__: other for other in parts_of_scenes().values()}
    names |= {other.__name__: misfit_keys.MisfitModel for other in _plain_misfits()}
    left_out = {key for base in shared_with(model) for key in base.model_fields} - set(getattr(model, "options", ()))
    json_schema, texts, words = model.model_json_schema(), _texts(model), getattr(model, "words", {})
    keys = []
    for name, field in model.model_fields.items():
        if name in left_out:
            continue
        kind = _kind(json_schema["properties"][name], lambda each: called(names[each]))
        unit, meaning = texts.get(name, ("-", ""))
        if words.get(name):
            meaning += f' An axis of which it says nothing has "{words[name]}".'
        value = field.get_default(call_default_factory=True) if not field.is_required() else Parameter.empty
        keys.append(Key(name, kind, unit, _default(value), meaning))
    return [*keys[:1], *_rule_keys(), *keys[1:]] if model is rules.RuleModel else keys


def shared_with(model: type[BaseModel]) -> list[type[BaseModel]]:
    """Parts whose keys a part has too."""
    known = list(parts_of_scenes().values())
    return [base for base in model.__mro__[1:] if base in known]


def _plain_misfits() -> list[type[BaseModel]]:
    """Misfits without keys of their own."""
    models = [misfit_keys.model_of(*each) for each in misfit_keys.MISFITS.packaged.items()]
    return [model for model in models if not model.options]


def _inside(model: type[BaseModel]) -> Iterator[tuple[str, dict[str, type[BaseModel]]]]:
    """Fields of a part that are parts themselves: word of the type ("" if there is one part) -> the part."""
    for name, field in model.model_fields.items():
        models = list(dict.fromkeys(_models(field.annotation)))
        if model is schema.Description and name == "unknowns":
            by_kind: dict[str, type[BaseModel]] = {"": schema.UnknownModel}
            by_kind |= {kind: schema.unknown_of(kind, cls) for kind, cls in schema.PARAMETRISATIONS.packaged.items()}
            yield name, {kind: each for kind, each in by_kind.items() if not kind or each is not schema.UnknownModel}
        elif models:
            plain = _plain_misfits()
            yield name, {_word(each): each for each in models if each not in plain}


def _models(hint: Any) -> Iterator[type[BaseModel]]:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield hint
    elif get_origin(hint) is not Literal:
        for each in get_args(hint):
            yield from _models(each)


def _word(model: type[BaseModel]) -> str:
    """The word by which `type` names a part, "" if none does."""
    hint: Any = model.model_fields["type"].annotation if "type" in model.model_fields else None
    if get_origin(hint) is not Literal or model is schema.Maximise:  # of which there is one type
        return ""
    return str(get_args(hint)[0])


def _texts(model: type[BaseModel]) -> dict[str, tuple[str, str]]:
    """Key -> its unit and its meaning, from docstrings: those of the part come before those of the class whose arguments they are."""
    texts: dict[str, tuple[str, str]] = {}
    kind = getattr(model, "of", None) or getattr(model, "of_class", None)
    if isinstance(kind, type):
        texts |= described(kind.__doc__, "Args")
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base not in (BaseModel, *shared_with(model)):
            texts |= described(base.__doc__, "Attributes")
    return texts


def described(doc: str | None, section: str) -> dict[str, tuple[str, str]]:
    """Name -> unit and meaning of each entry in a section of a docstring."""
    listed = items(dict(sections(inspect.cleandoc(doc or ""))).get(section, ""))
    texts = {}
    for head, text in listed.items():
        name, _, unit = head.partition(" (")
        texts[name] = (unit.removesuffix(")") or "-", text)
    return texts


def _rule_keys() -> list[Key]:
    """The keys of the rules that diffsim has, each with the rules that have it."""
    by_name: dict[str, list[tuple[str, Key]]] = {}
    for kind, rule in KINDS.items():
        if not rule.__module__.startswith("diffsim."):
            continue
        texts = described(rule.__doc__, "Args")
        for name, key in rule_keys.keys_of(kind).items():
            default = Parameter.empty if key.needed else inspect.signature(rule).parameters[name].default
            words = "number or text" if key.type is rule_keys.NumberOrName else _kind(TypeAdapter(key.type).json_schema(), str)
            unit, text = texts.get(name, ("-", ""))
            by_name.setdefault(name, []).append((kind, Key(name, words, unit, _default(default), text)))
    keys = []
    for name, several in by_name.items():
        meaning = " ".join(f'"{kind}": {key.meaning}' for kind, key in several)
        kinds, units, defaults = (
            " or ".join(dict.fromkeys(getattr(key, each) for _, key in several)) for each in ("kind", "unit", "default")
        )
        keys.append(Key(name, kinds, units, defaults, meaning))
    return keys


def _default(value: Any) -> str:
    if value is Parameter.empty:
        return "required"
    if value is None or isinstance(value, BaseModel):
        return "none" if value is None else "its defaults"
    return f"`{json.dumps(value)}`"


def _kind(part: Mapping[str, Any], called: Callable[[str], str]) -> str:
    """A part of a JSON schema, in the words of a table."""
    if "$ref" in part:
        return called(part["$ref"].rsplit("/", 1)[1])
    if "enum" in part or "const" in part:
        return " or ".join(f"`{json.dumps(value)}`" for value in part.get("enum", [part.get("const")]))
    for several in ("anyOf", "oneOf"):
        if several in part:
            return " or ".join(dict.fromkeys(_kind(each, called) for each in part[several] if each.get("type") != "null"))
    match part["type"]:
        case "number" | "integer":
            return " ".join([part["type"], ", ".join(f"{sign} {part[name]:g}" for name, sign in LIMITS.items() if name in part)]).strip()
        case "string":
            return "text"
        case "boolean":
            return "`true` or `false`"
        case "object":
            return f"table of {_kind(part['additionalProperties'], called)}"
        case "array" if "prefixItems" in part and "$ref" in part["prefixItems"][0]:
            return f"pair of {_kind(part['prefixItems'][0], called)}"
        case "array" if "prefixItems" in part:
            return f"[{', '.join(_kind(each, called) for each in part['prefixItems'])}]"
        case "array" if part.get("maxItems") == 3 and part["items"]["type"] == "number":
            item = _kind(part["items"], called)
            return "point" if item == "number" else item.replace("number", "lengths")
        case _:
            return f"list of {_kind(part['items'], called)}"


def completed(page: str) -> str:
    """A page in Markdown with a section for each part that it has not, in place of `OTHERS`: so a new class needs no page."""
    present = {part_named(marker[1]) for marker in MARKER.finditer(page)}

    def sections_of(marker: re.Match[str]) -> str:
        inside = marker[1].removeprefix(f"{ROOT}.")
        others = {name: model for name, model in parts_of_scenes().items() if name.rpartition(".")[0] == inside and model not in present}
        return "".join(_section(name, model, *marker.groups("")[1:]) for name, model in others.items())

    return OTHERS.sub(sections_of, page)


def _section(name: str, model: type[BaseModel], under: str, called: str) -> str:
    """The section of a part: the first paragraph of its docstring, and the place of its table."""
    kind = _class_of(model)
    summary = dict(sections(inspect.cleandoc((kind or model).__doc__ or "")))[""].partition("\n\n")[0].replace("\n", " ")
    where = f" It is `{'.'.join(kind.__module__.split('.')[:2])}.{kind.__name__}`." if kind else ""
    place = f"Keys: `python -m diffsim.reference {ROOT}.{name}`" + (f" <!-- as {called} -->" if called else "")
    return f"### {f'{under} '.lstrip()}{name.rpartition('.')[2]}\n\n{summary}{where}\n\n{place}\n\n"


def _class_of(model: type[BaseModel]) -> type | None:
    """The class whose arguments are keys of a part; None: there is none."""
    kind = getattr(model, "of", None) or (getattr(model, "options", ()) and model.of_class)  # type: ignore[attr-defined]
    return kind if isinstance(kind, type) else None


def filled(page: str) -> str:
    """A page in Markdown with a table of keys in place of each `MARKER`. Its links lead to the sections with the tables of other parts."""
    page, places = completed(page), {}
    for marker in MARKER.finditer(page):
        heading = re.findall(
            r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page[: marker.start()], flags=re.DOTALL | re.MULTILINE), re.MULTILINE
        )[-1]
        anchor = heading.lower().replace(" ", "-")
        places[part_named(marker[1])] = f"[{marker[2] or marker[1].rpartition('.')[2]}](#{anchor})"
    return MARKER.sub(lambda marker: HEAD + "\n".join(map(_row, keys_of(part_named(marker[1]), places.__getitem__))), page)


def _row(key: Key) -> str:
    meaning = key.meaning.removesuffix(".")
    return f"| `{key.name}` | {key.kind} | {key.unit} | {key.default} | {meaning.replace('|', chr(92) + '|')} |"


def keys_text(name: str) -> str:
    """The keys of a part of a scene for a terminal.

    Raises:
        ParameterError: there is no part of this name.
    """
    model = part_named(name)
    titles = {other: title if title == ROOT else f"{ROOT}.{title}" for title, other in parts_of_scenes().items()}
    kind = _class_of(model)
    text = f"`python -m diffsim.reference {kind.__name__}` says more." if kind else ""
    lines = [titles[model], "", text or dict(sections(inspect.cleandoc(model.__doc__ or "")))[""], ""]
    for key in keys_of(model, titles.__getitem__):
        text = ", ".join(part for part in (key.kind, key.unit) if part != "-")
        lines.append(f"{key.name}: {text.replace('`', '')}; default {key.default.strip('`')}".replace("; default required", "; required"))
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", key.meaning)
        lines += textwrap.wrap(plain, WIDTH, initial_indent="    ", subsequent_indent="    ")
    some = f" {', '.join(schema.SHARED)}" if issubclass(model, schema.OwnUnknown) else ""
    lines += [f"And the keys{some} of {titles[base]}." for base in shared_with(model)]
    below = [title for title in titles.values() if title.startswith(f"{titles[model]}.") or (model is schema.Description and title != ROOT)]
    lines += ["", *textwrap.wrap("Parts: " + ", ".join(below), WIDTH, subsequent_indent="    ")] if below else []
    return "\n".join(lines) + "\n"
