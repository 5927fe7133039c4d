"""How to call a public name: its signature, and those of its methods."""

from __future__ import annotations

import inspect
from typing import Any

LONGEST_SIGNATURE = 600
"""Characters; beyond, types and defaults are left out."""


def methods(kind: type) -> dict[str, str]:
    """Call of each public method and property that a class defines itself -> the first sentence of its docstring."""
    texts = {}
    for name, value in vars(kind).items():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        call = name if isinstance(value, property) else signature(name, function)
        texts[call] = inspect.cleandoc(function.__doc__).split("\n\n")[0].replace("\n", " ")
    return texts


def signature(name: str, value: Any) -> str:
    """A name with the arguments that it takes; that of a constant is its name alone."""
    try:
        call = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    if not (inspect.isclass(value) or inspect.isroutine(value)) or getattr(value, "_is_protocol", False):
        return name
    parameters = [p.replace(default=_Plain(p.default)) if p.default is not p.empty else p for p in call.parameters.values()]
    call = call.replace(parameters=parameters)
    if inspect.isclass(value):
        call = call.replace(return_annotation=call.empty)
    text = f"{name}{call}".replace("'", "").replace("(self, ", "(").replace("(self)", "()")
    if len(text) > LONGEST_SIGNATURE:
        text = f"{name}({', '.join(call.parameters)})"
    return text


class _Plain:
    """A default value that is shown without addresses and inner names."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        named = getattr(self.value, "__name__", None)
        text = named or repr(self.value).replace("mappingproxy({})", "{}")
        return text.replace("'", '"')
