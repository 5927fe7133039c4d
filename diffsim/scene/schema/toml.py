"""A description as TOML, which reads back as the same description."""

from __future__ import annotations

import json
from typing import Any

from diffsim.scene.schema.schema import Description

WIDTH = 110
"""Longer lists of tables are written with one entry on each line."""


def to_toml(scene: Description) -> str:
    """The scene as text, without default values."""
    tables = scene.model_dump(mode="json", exclude_unset=True, exclude_none=True) | {"name": scene.name}
    plain = {key: value for key, value in tables.items() if not _is_section(value)}
    lines = [f"{_key(key)} = {_inline(value)}" for key, value in plain.items()]
    for key, value in tables.items():
        if key in plain:
            continue
        if isinstance(value, list):
            for entry in value:
                lines += ["", f"[[{_key(key)}]]", *(f"{_key(k)} = {_value(v)}" for k, v in entry.items())]
        elif all(isinstance(v, dict) for v in value.values()):  # named parts: fields, unknowns, ...
            for name, part in value.items():
                lines += ["", f"[{_key(key)}.{_key(name)}]", *(f"{_key(k)} = {_value(v)}" for k, v in part.items())]
        else:
            lines += ["", f"[{_key(key)}]", *(f"{_key(k)} = {_value(v)}" for k, v in value.items())]
    return "\n".join(lines) + "\n"


def _is_section(value: Any) -> bool:
    return (isinstance(value, dict) and bool(value)) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _value(value: Any) -> str:
    text = _inline(value)
    if isinstance(value, list) and len(text) > WIDTH:
        return "[\n" + "".join(f"  {_inline(entry)},\n" for entry in value) + "]"
    return text


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, str):
        # TOML's basic strings have JSON's escapes, and DEL must be escaped too
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "a").replace("-", "a").isalnum() else _inline(name)
