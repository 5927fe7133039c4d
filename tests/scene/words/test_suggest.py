"""Remedies of unknown names."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from diffsim.errors import SceneError
from diffsim.scene import Scene
from diffsim.scene.words.suggest import taking


@pytest.mark.parametrize(("word", "remedy"), [("gray_scott", r"did you mean kinetics\?"), ("another", "choose one of these")])
def test_an_unknown_key_suggests_the_one_that_takes_its_word(word: str, remedy: str) -> None:
    with pytest.raises(SceneError, match=rf"^equation.reaction: .* found the unknown key 'reaction'; {remedy}$"):
        Scene.load("pattern", [f'equation.reaction="{word}"'])


def test_a_word_of_two_keys_suggests_neither() -> None:
    kinds: dict[str, Any] = {"left": Literal["open", "shut"], "right": Literal["open"] | None, "count": int}
    assert taking("open", kinds) == "" and taking("shut", kinds) == "left" and taking(3, kinds) == ""
