"""Cases of which the gate runs some, and `pytest -m slow` the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int = 5, ids: Any = None) -> list[Any]:
    """The parameters of a test: the first of every few cases, and the others marked as slow."""
    params = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        marks = [pytest.mark.slow] if number % every else []
        params.append(pytest.param(*values, marks=marks, id=None if ids is None else ids(case)))
    return params
