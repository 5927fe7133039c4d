"""Arguments that a constructor does not have: the message says which one was meant."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import diffsim as ds
import diffsim.solvers
from diffsim.base.keywords import meant
from diffsim.errors import KeywordError
from diffsim.scene import Scene

SOLVERS = [each for each in vars(diffsim.solvers).values() if isinstance(each, type) and issubclass(each, ds.Equation)]
GRID = ds.Grid((6, 6), 1.0)


def words(kind: Any) -> set[str]:
    """The texts among the literals of an annotation."""
    return set(get_args(kind)) if get_origin(kind) is Literal else set().union(*map(words, get_args(kind)))


def only_words() -> list[Any]:
    """A solver, an argument, and a word that no other argument of it takes."""
    cases = []
    for solver in SOLVERS:
        taken = {name: words(kind) for name, kind in get_type_hints(solver.__init__).items()}
        for name, own in taken.items():
            others = set().union(*(each for other, each in taken.items() if other != name))
            cases += [(solver, name, word) for word in sorted(word for word in own - others if isinstance(word, str))]
    return cases


def test_a_word_under_a_wrong_name_suggests_the_argument_that_takes_it() -> None:
    cases = only_words()
    assert (ds.solvers.ReactionDiffusion, "kinetics", "gray_scott") in cases and len({solver for solver, _, _ in cases}) > 5
    for solver, name, word in cases:
        said = rf"^{solver.__name__} got qqq = {word!r}, which is no argument of it, expected some of grid, .*; did you mean {name}\?$"
        with pytest.raises(KeywordError, match=said):
            solver(GRID, dt=0.1, qqq=word)


def test_a_name_with_a_wrong_letter_suggests_the_right_one() -> None:
    for solver in SOLVERS:
        for name in [*inspect.signature(solver).parameters][2:]:
            wrong = f"{name[:-1]}{name[-1] * 2}".upper()
            close = [other for other in inspect.signature(solver).parameters if other.lower() == wrong.lower()]
            with pytest.raises(TypeError, match=rf"^{solver.__name__} got {wrong} = None, which .* {name}") as caught:
                solver(GRID, 0.1, **{wrong: None})
            if len(name) > 3 and not close:
                assert re.search(r"did you mean \w+\?$", str(caught.value)), (solver, name)


def test_a_scene_suggests_the_key_that_takes_the_word() -> None:
    with pytest.raises(ds.errors.SceneError, match=r"^equation.reaction: .* found the unknown key 'reaction'; did you mean kinetics\?$"):
        Scene.load("pattern", ['equation.reaction="gray_scott"'])
    with pytest.raises(ds.errors.SceneError, match=r"^equation.reaction: .* found the unknown key 'reaction'; choose one of these$"):
        Scene.load("pattern", ['equation.reaction="another"'])


def test_a_word_of_two_arguments_suggests_neither() -> None:
    kinds: dict[str, Any] = {"left": Literal["open", "shut"], "right": Literal["open"] | None, "count": int}
    assert meant("qqq", "open", kinds) == "" and meant("qqq", "shut", kinds) == "left" and meant("qqq", 3, kinds) == ""
    assert meant("Rihgt", "shut", kinds) == "right"


class Bare(ds.Equation):
    """It has no constructor."""

    grid, dt = GRID, 0.1

    def step(self, **fields: Any) -> dict[str, Any]:
        return fields


class Free(Bare):
    """It hands all on."""

    def __init__(self, *several: Any, **others: Any) -> None:
        self.all = several, others


class Unknown(Bare):
    """Its annotation names nothing."""

    def __init__(self, speed: Nowhere = 1) -> None:  # type: ignore[name-defined] # noqa: F821
        self.speed = speed


def test_classes_of_a_user_are_called_as_they_are_written() -> None:
    Bare()
    for arguments, keywords, wrong in (((1,), {}, "1 argument"), ((), {"speed": 2}, "speed")):
        with pytest.raises(TypeError, match=f"^Bare got {wrong}, expected no arguments; "):
            Bare(*arguments, **keywords)
    assert Free(1, a=2).all == ((1,), {"a": 2})
    with pytest.raises(KeywordError, match=r"did you mean speed\?$"):
        Unknown(sped=2)
    with pytest.raises(TypeError, match="positional"):
        Unknown(1, 2)
    whole = Unknown(speed=3)
    for other in (copy.copy(whole), copy.deepcopy(whole), pickle.loads(pickle.dumps(whole))):
        assert other.speed == 3
