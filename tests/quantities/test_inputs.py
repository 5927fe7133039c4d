"""Quantities and labelled arrays are taken as what they say, by every input of the library, or are refused in one line."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.quantities.inputs import targets
from tests.quantities.members import Member, members, require
from tests.sampled import sampled

for package in ("pint", "astropy", "xarray", "torch", "jax"):
    pytest.importorskip(package)

ALL = [member for target in targets() for member in members(target)]


@cache
def wanted(target: int) -> Any:
    return TARGETS[target].take(TARGETS[target].numbers)


TARGETS = {id(member.target): member.target for member in ALL}


def test_there_are_enough() -> None:
    assert len(ALL) > 400 and sum(member.taken for member in ALL) > 200 and sum(not member.taken for member in ALL) > 100


@pytest.mark.parametrize("member", sampled(ALL, every=11, ids=str))
def test_an_input_is_taken_as_what_it_says(member: Member) -> None:
    require(member, wanted(id(member.target)))
