"""Cases of which the gate runs some, and `pytest -m slow` the others; and many small cases in one test."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable
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


def named(case: Any) -> str:
    """A name of a case: functions by their modules and names, tuples by their entries."""
    if isinstance(case, tuple):
        return " ".join(map(named, case))
    return f"{getattr(case, '__module__', None)}.{case.__qualname__}" if hasattr(case, "__qualname__") else str(case)


def together(
    cases: Iterable[Any],
    name: Callable[[Any], str] = named,
    group: Callable[[Any], str] = lambda case: "all",
    gate: Container[Any] | None = None,
    apart: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator: one test for a group of cases, each of which takes less time than pytest takes for a test of its own.

    The function gets a case as its first argument, and fixtures or parameters as the others. The test runs all cases of the group, shows
    the first failure, and names all others.

    Args:
        cases: the cases.
        name: the name of a case.
        group: the group of a case.
        gate: cases that the gate runs, and the others are slow; None: the gate runs all.
        apart: a case is a tuple, whose entries are the first arguments of the function.
    """
    groups: dict[tuple[str, bool], list[Any]] = {}
    for case in cases:
        groups.setdefault((group(case), gate is None or case in gate), []).append(case)
    params = [
        pytest.param(members, id=label if kept else f"{label} further", marks=[] if kept else [pytest.mark.slow])
        for (label, kept), members in groups.items()
    ]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def whole(cases: list[Any], **others: Any) -> None:
            failures: list[tuple[str, BaseException]] = []
            for case in cases:
                try:
                    test(*(case if apart else (case,)), **others)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as failure:
                    failures.append((name(case), failure))
            if failures:
                names = ", ".join(each for each, _ in failures)
                raise AssertionError(f"{len(failures)} of {len(cases)} cases: {names}") from failures[0][1]

        for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(whole, attribute, getattr(test, attribute))
        others = list(inspect.signature(test).parameters.values())[len(next(iter(groups.values()))[0]) if apart else 1 :]
        first = inspect.Parameter("cases", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        whole.__signature__ = inspect.Signature([first, *others])  # type: ignore[attr-defined]
        whole.pytestmark = list(getattr(test, "pytestmark", []))  # type: ignore[attr-defined]
        return pytest.mark.parametrize("cases", params)(whole)

    return decorate
