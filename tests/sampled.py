"""Cases of which the gate runs some, and `pytest -m slow` the others."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int = 5, ids: Any = None, gate: Container[Any] | None = None) -> list[Any]:
    """The parameters of a test: those of the gate, or the first of every few cases, and the others marked as slow."""
    params = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        marks = [pytest.mark.slow] if (number % every if gate is None else case not in gate) else []
        params.append(pytest.param(*values, marks=marks, id=None if ids is None else ids(case)))
    return params
