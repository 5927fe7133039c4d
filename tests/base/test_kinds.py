"""Classes that are known by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from diffsim.base.kinds import Kinds
from diffsim.errors import ParameterError


class Tool:
    """A base whose subclasses may have names, in a registry that each test begins anew."""

    known: Kinds[Any]

    def __init_subclass__(cls, kind: str | None = None) -> None:
        Tool.known.enter(cls, kind)


@pytest.fixture(autouse=True)
def known() -> Kinds[Any]:
    Tool.known = Kinds("tool", taken=("any",))
    return Tool.known


def test_a_class_enters_itself(known: Kinds[Any]) -> None:
    class Hammer(Tool, kind="hammer"): ...

    class Mallet(Hammer, kind="mallet"): ...

    class Nameless(Hammer): ...

    assert list(known.items()) == [("hammer", Hammer), ("mallet", Mallet)]
    assert len(known) == 2 and "nameless" not in known and known.get("saw") is None
    assert repr(known) == "{'hammer': Hammer, 'mallet': Mallet}"


def test_it_is_read_only(known: Kinds[Any]) -> None:
    with pytest.raises(TypeError):
        known["hammer"] = Tool  # type: ignore[index]


def test_a_name_of_another_class_is_refused(known: Kinds[Any]) -> None:
    class Hammer(Tool, kind="hammer"): ...

    with pytest.raises(ParameterError, match=r"kind = 'hammer' of Axe, .* no other tool has, got that of .*Hammer in .*; choose another"):

        class Axe(Tool, kind="hammer"): ...

    assert known["hammer"] is Hammer


def define(kind: str | None) -> type[Tool]:
    """As a cell of a notebook that runs again."""

    class Saw(Tool, kind=kind): ...

    return Saw


def test_a_class_that_is_defined_again_replaces_the_first(known: Kinds[Any]) -> None:
    first, second = define("saw"), define("saw")
    assert first is not second and dict(known) == {"saw": second}
    renamed = define("fret_saw")
    assert dict(known) == {"fret_saw": renamed}
    define(None)
    assert not known


def test_a_class_that_is_defined_again_does_not_take_the_name_of_another(known: Kinds[Any]) -> None:
    class Hammer(Tool, kind="hammer"): ...

    saw = define("saw")
    with pytest.raises(ParameterError, match="choose another"):
        define("hammer")
    assert dict(known) == {"hammer": Hammer, "saw": saw}


def test_a_dataclass_with_slots_is_made_twice(known: Kinds[Any]) -> None:
    @dataclass(slots=True)
    class Ruler(Tool, kind="ruler"):
        length: float

    assert known["ruler"] is Ruler
    assert known["ruler"](0.3).length == 0.3


@pytest.mark.parametrize("kind", ["any", "two words", "", "4x", 3])
def test_values_that_are_no_names_are_refused(kind: Any, known: Kinds[Any]) -> None:
    with pytest.raises(ParameterError, match=r"of Saw, expected a name of letters, digits and underscores, other than 'any'; choose"):
        define(kind)
    assert not known
