"""A misfit, a penalty, an unknown or a rule of a user's own that fails in a run: one line with the key of the scene."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds

import diffsim.numpy as dnp
from diffsim import boundary
from diffsim.errors import DiffsimError, SceneError
from diffsim.optimize import NonFiniteError
from diffsim.scene import Scene
from tests.scene.tiny import HEAT, tables


def failing(how: str, values: Any) -> Any:
    """A number of some values, or what goes wrong in its place."""
    if how == "TypeError":
        return len(3)  # type: ignore[arg-type]
    if how == "KeyError":
        return {}["q"]
    if how == "shape":
        return dnp.sum(values[1:] - values[:-2])
    if how == "nan":
        return dnp.sum(values) * np.nan
    if how == "slope":
        return dnp.sqrt(0.0 * dnp.sum(values))
    if how == "array":
        return values
    if how == "nothing":
        return None
    return dnp.sum(values**2)


WAYS = {
    "TypeError": r"{key}: {name}.__call__ raised TypeError: object of type 'int' has .* \(.*failing_parts.py, line \d+\), expected",
    "KeyError": r"{key}: {name}.__call__ raised KeyError: 'q' \(.*, line \d+\), expected .*; correct",
    "shape": r"{key}: .*shapes? .*",
    "nan": r"{key}: expected a finite value of .*, got nan; correct its code",
    "slope": r"{key}: expected a finite gradient of .*, got one that is not, where its value is 0; correct its code",
    "array": r"{key}: expected one number from __call__, got an array of shape .*; let it return one",
    "nothing": r"{key}: expected one number from __call__, got None; let it return one",
}


class Compared:
    def __init__(self, data: Any, how: str = "") -> None:
        self.data, self.how = data, how

    def __call__(self, predicted: Any) -> Any:
        return failing(self.how, predicted - self.data)


class Small:
    def __init__(self, mask: Any, how: str = "") -> None:
        self.how = how

    def __call__(self, field: Any) -> Any:
        return failing(self.how, field)


def warm(misfit: dict[str, Any] | None = None, penalty: dict[str, Any] | None = None, **others: Any) -> Scene:
    """The failing part comes second, after one that does not fail."""
    misfits = [{"of": "final", "state": "T"}, *([{"of": "final", "state": "T", "normalise": False, **misfit}] if misfit else [])]
    penalties = [{"type": "tikhonov", "unknown": "T", "order": 1, "length": 3.0, "weight": 0.1}]
    penalties += [{"unknown": "T", "weight": 1.0, **penalty}] if penalty else []
    return Scene(**tables(HEAT, misfit=misfits, penalty=penalties, accept=[], **others))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("part", ["misfit", "penalty", "penalty of variables"])
def test_a_part_that_fails(part: str, way: str) -> None:
    kind = Compared if part == "misfit" else Small
    table = {"type": kind, "how": way} | ({"of": "variables"} if "variables" in part else {})
    case = warm(**{part.partition(" ")[0]: table})
    expected = WAYS[way].format(key=re.escape(f"{part.partition(' ')[0]}[1]"), name=kind.__name__)
    with pytest.raises(DiffsimError, match=f"^{expected}") as caught:
        case.value_and_grad()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("part", ["misfit", "penalty"])
def test_a_call_without_its_argument(part: str) -> None:
    class Silent(Compared if part == "misfit" else Small):  # type: ignore[misc]
        def __call__(self) -> Any:  # type: ignore[override]
            return 0.0

    with pytest.raises(SceneError, match=rf"^{part}\[1\]: .*Silent.__call__ takes \(\), expected a function of 1 argument, \(\w+\); write"):
        warm(**{part: {"type": Silent}}).objective()


class Later(Small):
    """It fails away from the start."""

    def __call__(self, field: Any) -> Any:
        return dnp.sum(dnp.where(dnp.abs(field) > 0.01, np.nan, field**2))


def test_a_search_keeps_its_last_good_place(tmp_path: Any) -> None:
    """The error has the iteration, and the place is saved, as for every search that is no longer finite."""
    with pytest.raises(
        NonFiniteError, match=r"^iteration 1, evaluation 2: .*penalty\[1\]: expected a finite value of .* got nan"
    ) as caught:
        warm(penalty={"type": Later}).run(tmp_path / "out")
    assert caught.value.last_good is not None and (tmp_path / "out" / "last.npz").exists()


class Shifted:
    """m = m_start + theta, with a failure."""

    def __init__(self, mask: Any, reference: Any, how: str = "") -> None:
        self.mask, self.reference, self.how, self.size = mask, reference, how, int(mask.sum())

    def to_field(self, theta: Any) -> Any:
        if self.how == "to_field":
            raise ZeroDivisionError("to")
        field = dnp.array(self.reference)
        field[self.mask] = self.reference[self.mask] + theta
        return field

    def from_field(self, field: Any) -> Any:
        if self.how == "from_field":
            raise ZeroDivisionError("from")
        return (field - self.reference)[self.mask]

    def bounds(self) -> Bounds:
        if self.how == "bounds":
            raise ZeroDivisionError("bounds")
        return Bounds(np.full(self.size, -np.inf), np.full(self.size, np.inf))


@pytest.mark.parametrize("method", ["to_field", "from_field", "bounds"])
def test_an_unknown_that_fails(method: str, tmp_path: Any) -> None:
    case = warm(unknowns__T={"type": Shifted, "how": method, "start": {"constant": 0.5}})
    with pytest.raises(SceneError, match=rf"^unknowns\.T: Shifted\.{method} raised ZeroDivisionError: \w+ \(.*, line \d+\), expected"):
        case.run(tmp_path / "out")


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that a test defines have no names after it."""
    monkeypatch.setattr(boundary.KINDS, "_classes", dict(boundary.KINDS))


def broken(what: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        raise LookupError(what)

    return method


@pytest.mark.parametrize(("method", "place"), [("ghost", ""), ("weights", ""), ("given", r"\.x\[1\]"), ("__post_init__", r"\.x\[1\]")])
def test_a_rule_that_fails(forget: None, method: str, place: str) -> None:
    """In a run, or while the scene is read, where the place of the rule is known."""
    attribute = broken(method) if method in ("ghost", "__post_init__") else property(broken(method))
    base = {"weights": property(lambda self: (1.0, 0.5)), "given": property(lambda self: 0.0), "__annotations__": {"air": "float"}}
    dataclass(frozen=True)(type("Cooled", (boundary.Condition,), base | {method: attribute}, kind="cooled"))
    message = rf"equation\.boundary{place}: Cooled\.\w+ raised LookupError: {method} \(.*, line \d+\), expected"
    with pytest.raises(SceneError, match=message) as caught:
        warm(equation={"type": "heat", "boundary": {"x": ["mirror", {"type": "cooled", "air": 0.3}]}}).value_and_grad()
    assert str(caught.value).count("equation.boundary") == 1
