"""Quantities and labelled arrays are taken with their units and labels, by every input of the library, or are refused in one line."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.base.quantities.inputs import pair, soil, targets
from tests.base.quantities.members import Member, members, require

for package in ("pint", "astropy", "xarray", "torch", "jax"):
    pytest.importorskip(package)

ALL = [member for target in targets() for member in members(target)]


@cache
def wanted(target: int) -> Any:
    return TARGETS[target].take(TARGETS[target].numbers)


TARGETS = {id(member.target): member.target for member in ALL}


@pytest.fixture(scope="module", autouse=True)
def _built_now(_cpu: None) -> None:
    """Simulations that were built while tests were collected end with the settings of another module."""
    soil.cache_clear()
    pair.cache_clear()


def cases() -> list[Any]:
    """The gate runs the first member of each label, and of the rest a few."""
    seen: set[str] = set()
    params = []
    for number, member in enumerate(ALL):
        marks = [pytest.mark.slow] if member.label in seen and number % 20 else []
        params.append(pytest.param(member, marks=marks, id=str(member)))
        seen.add(member.label)
    return params


def test_there_are_enough() -> None:
    assert len(ALL) > 400 and sum(member.taken for member in ALL) > 200 and sum(not member.taken for member in ALL) > 100


@pytest.mark.parametrize("member", cases())
def test_an_input_is_taken_with_its_unit_and_labels(member: Member) -> None:
    require(member, wanted(id(member.target)))
