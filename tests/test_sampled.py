"""Many small cases in one test."""

from __future__ import annotations

import inspect
import json
import pickle
from typing import Any

import pytest

from tests.sampled import together


def test_all_cases_that_fail_are_named() -> None:
    seen = []

    @together(["one", "two", "three"])
    def test(case: str, length: int) -> None:
        seen.append(case)
        assert len(case) == length

    with pytest.raises(AssertionError, match="2 of 3 cases: one, two") as raised:
        test(["one", "two", "three"], length=5)
    assert seen == ["one", "two", "three"]
    assert isinstance(raised.value.__cause__, AssertionError)
    test(["one", "two"], length=3)


def test_groups_are_parameters_and_those_beside_the_gate_are_slow() -> None:
    @together(["fft.a", "linalg.a", "fft.b"], group=lambda case: case.partition(".")[0], gate={"fft.a", "linalg.a"})
    def test(case: str) -> None: ...

    ((mark),) = test.pytestmark  # type: ignore[attr-defined]
    params = {each.id: (each.values[0], [each.name for each in each.marks]) for each in mark.args[1]}
    assert params == {"fft": (["fft.a"], []), "linalg": (["linalg.a"], []), "fft further": (["fft.b"], ["slow"])}


def test_the_entries_of_a_case_are_arguments() -> None:
    @together([("one", 3), ("three", 3)], apart=True)
    def test(case: str, length: int, most: int) -> None:
        assert len(case) == length <= most

    assert [*inspect.signature(test).parameters] == ["cases", "most"]
    test([("one", 3)], most=3)
    with pytest.raises(AssertionError, match="1 of 2 cases: three 3"):
        test([("one", 3), ("three", 3)], most=9)


def test_functions_are_named_with_their_modules() -> None:
    """Two of one name are two failures."""

    @together([json.dumps, pickle.dumps])
    def test(case: Any) -> None:
        raise AssertionError

    with pytest.raises(AssertionError, match=r"2 of 2 cases: json.dumps, _pickle.dumps"):
        test([json.dumps, pickle.dumps])
