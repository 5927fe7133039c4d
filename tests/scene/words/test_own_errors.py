"""Errors of Python from the methods of a user's own equation: one line that names the method, from Python and from the command."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.command.cli import main
from diffsim.errors import ParameterError, SceneError
from diffsim.expr import laplacian
from diffsim.scene import Scene
from diffsim.scene.words.own_errors import named_errors
from tests.scene.tiny import HEAT, as_toml, tables

ERRORS = {
    "ValueError": "ValueError('D is {}')",
    "TypeError": "TypeError('no\\nline')",
    "KeyError": "KeyError('q')",
    "FileNotFoundError": "OSError(2, 'gone')",
    "Own": "type('Own', (Exception,), {})('own')",
}
"""Name of an error -> the expression that makes it."""

CODE = """\
import diffsim as ds
from diffsim.expr import laplacian


class Spread(ds.Equation):
    def __init__(self, grid: ds.Grid, dt: float, D: float = 0.5, fail: str = "") -> None:
        self.grid, self.dt, self.D, self.fail = grid, dt, D, fail
        self.states = {"u": ds.Variable("mirror")}
        self.parameters, self.initials = {"k": ds.Variable("mirror")}, {"u": ds.Variable("mirror")}
        self._fail("__init__")

    def _fail(self, method):
        if method == self.fail:
            raise ERROR  # here

    def coefficients(self, k):
        self._fail("coefficients")
        return {"kd": k * self.dt}

    def initial(self, u):
        self._fail("initial")
        return {"u": u}

    def check(self, parameters):
        self._fail("check")

    def check_start(self, parameters, states):
        self._fail("check_start")

    def check_end(self, parameters, final):
        self._fail("check_end")

    def step(self, u, kd):
        self._fail("step")
        return {"u": u + kd * laplacian(u)}
"""
METHODS = ("__init__", "coefficients", "initial", "check", "check_start", "check_end", "step")
"""Methods that the scene calls."""


def scene(kind: Any, **options: Any) -> dict[str, Any]:
    return tables(
        HEAT,
        equation={"type": kind} | options,
        unknowns={"u": {"start": {"constant": 0.0}}},
        truth__fields={"u": HEAT["truth"]["fields"]["T"]},
        fields={"k": {"constant": 0.5}},
        misfit=[{"of": "final", "state": "u"}],
        penalty=[{"type": "tikhonov", "unknown": "u", "order": 1, "length": 1000.0, "weight": 1.0}],
    )


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """A function that writes a scene and its module, for the name of a method that fails and of its error."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", {name: each for name, each in sys.modules.items() if name != "own_spread"})

    def write(method: str, error: str) -> Path:
        (tmp_path / "own_spread.py").write_text(CODE.replace("ERROR", ERRORS[error]))
        path = tmp_path / "scene.toml"
        path.write_text(as_toml(scene("own_spread:Spread", fail=method)))
        return path

    return write


@pytest.mark.parametrize(("method", "error"), [(m, e) for i, m in enumerate(METHODS) for e in list(ERRORS)[i % 2 :: 2]])
def test_the_command_names_the_method(
    written: Callable[[str, str], Path], capsys: pytest.CaptureFixture[str], method: str, error: str
) -> None:
    path = written(method, error)
    command = "run" if method == "check_end" else "gradcheck" if method == "check" else "plan"
    more = ["--out", str(path.parent / "out")] if command == "run" else []
    assert main([command, str(path), "--allow-code", *more]) == 2
    text = capsys.readouterr().err.splitlines()[-1]  # a run says before it what it does
    assert re.fullmatch(rf"diffsim: equation: Spread\.{method} raised [^\n]*{error}[^\n]*, line \d+\), expected [^\n]*", text), text
    line = 1 + next(n for n, each in enumerate(CODE.splitlines()) if f'self._fail("{method}")' in each)
    assert f"own_spread.py, line {line})" in text


@pytest.mark.parametrize("call", [Scene.problem, Scene.plan, Scene.objective, Scene.value_and_grad, Scene.gradcheck, Scene.run])
def test_each_call_of_a_scene_names_the_method(written: Callable[[str, str], Path], call: Callable[[Scene], Any]) -> None:
    with pytest.raises(SceneError, match=r"^equation: Spread\.check raised ValueError: D is \{\} \(.*line \d+\), expected") as caught:
        call(Scene.load(written("check", "ValueError"), allow_code=True))
    assert isinstance(caught.value.__cause__, ValueError)


class Late(ds.Equation):
    """A check that fails at negative values, which no start has."""

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt, self.states, self.parameters = grid, dt, {"u": ds.Variable("mirror")}, {"k": ds.Variable("mirror")}

    def check_end(self, parameters: Any, final: Any) -> None:
        if np.min(final["u"]) < -1:
            raise ZeroDivisionError("late")

    def step(self, u: Any, k: Any) -> dict[str, Any]:
        return {"u": u + self.dt * k * laplacian(u)}


def test_a_later_value_of_a_search() -> None:
    """The shots of an objective are run after the scene has been put together, perhaps in another process."""
    objective = Scene(**scene(Late)).objective()
    objective(objective.problem.theta)
    with pytest.raises(SceneError, match=r"^equation: Late\.check_end raised ZeroDivisionError: late"):
        objective(objective.problem.theta - 1e6)


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


class Kinds(Late):
    """A method of each kind that raises."""

    @property
    def a_property(self) -> None:
        raise ValueError("x")

    @functools.cached_property
    def a_cached_property(self) -> None:
        raise ValueError("x")

    @classmethod
    def a_class_method(cls) -> None:
        raise ValueError("x")

    @staticmethod
    def a_static_method() -> None:
        raise ValueError("x")

    @wrapped
    def a_wrapped_method(self) -> None:
        raise ValueError("x")

    def refuses(self) -> None:
        raise ParameterError("speed = 3")

    def is_full(self) -> None:
        raise MemoryError


def called(equation: ds.Equation, name: str) -> None:
    getattr(equation, name)()


@pytest.mark.parametrize("name", [name for name in vars(Kinds) if name.startswith("a_")])
def test_each_kind_of_method(name: str) -> None:
    equation = Kinds(ds.Grid((4,), 1.0), 0.1)
    with pytest.raises(SceneError, match=rf"^equation: Kinds\.{name} raised ValueError: x"), named_errors([("equation", Kinds)]):
        called(equation, name)


@pytest.mark.parametrize(("name", "error"), [("refuses", ParameterError), ("is_full", MemoryError)])
def test_errors_that_say_enough_stay(name: str, error: type[Exception]) -> None:
    with pytest.raises(error), named_errors([("equation", Kinds)]):
        getattr(Kinds(ds.Grid((4,), 1.0), 0.1), name)()


@pytest.mark.parametrize("kind", [Kinds, ds.solvers.Heat])
def test_errors_from_elsewhere_stay(kind: type[ds.Equation]) -> None:
    with pytest.raises(ValueError, match="could not convert"), named_errors([("equation", kind)]):
        float("x")
