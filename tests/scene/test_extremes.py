"""Numbers of a scene beyond any use: each is refused by name, noted, or gives a proper result of a search."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest

import diffsim as ds
from diffsim.errors import DiffsimError
from diffsim.scene.words.model import MOST
from tests.sampled import sampled
from tests.scene.mutations import at, full, places
from tests.scene.tiny import ACOUSTIC, DRIVEN, HEAT, WAVE

BASES = {"acoustic": ACOUSTIC, "heat": HEAT, "wave": WAVE, "driven": DRIVEN}
VALUES = (1e300, 1e50, 1e12, 1e-12, 1e-50, 1e-300, 5e-324, -1e12, -1e300)
HARMLESS = {"seed", "tolerance", "resume", "steps", "epsilon", "at_least", "at_most", "weight"}
"""Keys whose extremes ask for nothing wrong: another end of the search, an acceptance that fails, an answer by the penalty alone."""

FEW = 15


def base(name: str) -> dict[str, Any]:
    table = full(BASES[name])
    table.pop("data", None)
    table["optimise"]["iterations"] = 2
    return table


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def cases() -> list[tuple[str, tuple[Any, ...], float]]:
    every = []
    for name in BASES:
        tables = base(name)
        for path in places(tables):
            number = at(tables, path)
            if is_number(number):
                every += [(name, path, value) for value in VALUES if isinstance(number, float) or abs(value) >= 1]
    return random.Random(5).sample(every, len(every))


def changed(name: str, path: tuple[Any, ...], value: float) -> dict[str, Any]:
    tables = copy.deepcopy(base(name))
    at(tables, path[:-1])[path[-1]] = int(value) if isinstance(at(tables, path), int) else value
    return tables


def outcome(name: str, path: tuple[Any, ...], value: float) -> str:
    """The end of a scene: "refused", "noted", "works", or the defect."""
    key = next(each for each in reversed(path) if isinstance(each, str))
    try:
        result = ds.Scene(**changed(name, path, value)).run()
    except (DiffsimError, MemoryError) as error:
        said = str(error)
        return "refused" if "; " in said or "\n" in said else f"no remedy: {said}"
    except Warning as error:
        return f"warns: {error}"
    usual = set(usual_notes(name))
    if key in HARMLESS or any(note not in usual for note in result.notes):
        return "noted"
    begin, end = result.losses
    if end < 0.999 * begin or result.stopped.startswith("no lower loss") or "the whole search gained nothing" in result.stopped:
        return "works"  # or says by how much it did not
    return f"silent: {begin} -> {end}, {result.stopped}"


_usual: dict[str, tuple[str, ...]] = {}


def usual_notes(name: str) -> tuple[str, ...]:
    if name not in _usual:
        _usual[name] = ds.Scene(**base(name)).run().notes
    return _usual[name]


@pytest.mark.parametrize("most", sampled([FEW, None]))
def test_no_extreme_passes_in_silence(most: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcomes = {case: outcome(*case) for case in cases()[:most]}
    wrong = {case: what for case, what in outcomes.items() if what not in ("refused", "noted", "works")}
    assert not wrong, "\n".join(f"{'.'.join(map(str, path))} = {value} of {name}: {what}" for (name, path, value), what in wrong.items())
    assert len(outcomes) >= FEW


def test_data_of_too_many_steps_are_refused() -> None:
    tables = base("acoustic")
    tables["time"]["steps"] = MOST
    with pytest.raises(DiffsimError, match=r"truth.refine: expected at most 1e\+15 time steps of the data, found 1.5e\+15; lower it"):
        ds.Scene(**tables).run()
