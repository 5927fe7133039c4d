"""Texts that identify code in every process."""

from __future__ import annotations

from typing import Any


def constant_text(constant: Any) -> str:
    """The `repr` of a constant of a function's code, but for sets, whose order differs from process to process: they are sorted."""
    if isinstance(constant, frozenset):
        return f"{{{', '.join(sorted(map(constant_text, constant)))}}}"
    return f"({', '.join(map(constant_text, constant))})" if isinstance(constant, tuple) else repr(constant)
