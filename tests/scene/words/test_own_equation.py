"""Equations of a user's own in scenes: how they are found, what their keys are, and that a resumed run notices their code."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import EntryPoint
from inspect import signature
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from annotated_types import Gt

import diffsim as ds
from diffsim.boundary import Boundary
from diffsim.errors import SceneError
from diffsim.expr import laplacian
from diffsim.scene import Scene
from diffsim.scene.disk.source import code_digest, modules_of
from diffsim.scene.setup.grids import refined
from diffsim.scene.setup.sizes import fine_steps
from diffsim.scene.words import own
from diffsim.scene.words.equations import EQUATIONS, model_of
from diffsim.solvers import Heat
from tests.scene.tiny import HEAT, as_toml, tables

PAGE = (Path(__file__).parents[3] / "docs" / "scene.md").read_text(encoding="utf-8")
(CODE,) = (block for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE) if "class Growth" in block)
(GROWTH,) = (block for block in re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE) if "growth:Growth" in block)
HERE = "tests.scene.words.test_own_equation"


FIXED = (ds.Dirichlet(1.0),) * 2


class Spread(ds.Equation):
    """uₜ = D ∇²u, with an argument of each kind."""

    stable_dt_power = 2.0
    in_cells = ("margin", "margins")

    def __init__(
        self,
        grid: ds.Grid,
        dt: float,
        D: float,
        name: str = "u",
        count: int = 3,
        on: bool = True,
        kind: Literal["plane", "sphere"] = "plane",
        lengths: tuple[float, ...] = (),
        pair: tuple[int, int] = (1, 2),
        names: list[str] | None = None,
        width: float | Literal["auto"] = "auto",
        top: Annotated[float, Gt(0)] | None = None,
        margin: int = 2,
        margins: tuple[int, ...] = (1, 3),
        plain=1.5,
        plain_list=(1, 2),
        function: Callable[[float], float] = abs,
        *,
        sides: Boundary = "mirror",
        fixed: Boundary = FIXED,
        parameters: dict[str, ds.Variable] = {},  # noqa: B006
        series: dict[str, ds.Variable] = {},  # noqa: B006
    ) -> None:
        self.grid, self.dt, self.D = grid, dt, D
        self.given = {key: value for key, value in locals().items() if key not in ("self", "grid", "dt", "__class__")}
        self.states = {"u": ds.Variable(fixed, unit="K"), "w": ds.Variable(sides, unit="Pa")}
        self.parameters, self.series = dict(parameters), dict(series)

    def step(self, u: Any, w: Any) -> dict[str, Any]:
        return {"u": u + self.dt * self.D * laplacian(u), "w": w + self.dt * self.D * laplacian(w)}

    def cell_lengths(self) -> tuple[float, ...]:
        return tuple(1000 * h for h in self.grid.spacing)

    def silent(self, parameters: Any) -> dict[str, Any]:
        return {"ice": np.arange(self.grid.shape[0])[:, None] + np.zeros(self.grid.shape) < 3}


class Bare(ds.Equation):
    """No argument for inputs of sides."""

    def __init__(self, grid, dt, boundary="mirror"):  # type: ignore[no-untyped-def]
        self.grid, self.dt, self.states = grid, dt, {"u": ds.Variable(boundary)}

    def step(self, u: Any) -> dict[str, Any]:
        return {"u": u}


class Nameless(Bare):
    def __init__(self, grid, dt, speed):  # type: ignore[no-untyped-def]
        super().__init__(grid, dt)


class Calls(Bare):
    def __init__(self, grid: ds.Grid, dt: float, speed: Callable[[float], float]) -> None:
        super().__init__(grid, dt)


class Typed(Bare):
    def __init__(self, grid: ds.Grid, dt: float, type: int) -> None:
        super().__init__(grid, dt)


class Unknown(Bare):
    def __init__(self, grid: ds.Grid, dt: float, speed: Missing = 1) -> None:  # type: ignore[name-defined]  # noqa: F821
        super().__init__(grid, dt)


class Gridless(Bare):
    def __init__(self, cells: int) -> None:
        super().__init__(ds.Grid((cells,), 1.0), 0.1)


class Refuses(Bare):
    def __init__(self, grid: ds.Grid, dt: float, speed: float = 1.0) -> None:
        super().__init__(grid, dt)
        raise ds.errors.ParameterError(f"speed = {speed}, expected less than dx / dt; lower it")


class Stepless(ds.Equation):
    pass


def spread(**options: Any) -> dict[str, Any]:
    """A scene with it."""
    return tables(
        HEAT,
        equation={"type": Spread, "D": 0.5} | options,
        unknowns={"u": {"start": {"constant": 0.0}}},
        truth__fields={"u": HEAT["truth"]["fields"]["T"]},
        misfit=[{"of": "final", "state": "u"}],
        penalty=[{"type": "tikhonov", "unknown": "u", "order": 1, "length": 1000.0, "weight": 1.0}],
    )


def message(equation: Any, **others: Any) -> str:
    with pytest.raises(SceneError) as caught:
        Scene(**spread() | {"equation": equation}, **others).problem()
    return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a scene and modules beside it, which are forgotten after the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def loaded(folder: Path, kind: str, allow_code: bool = True) -> Scene:
    path = folder / "scene.toml"
    path.write_text(as_toml(tables(spread(), equation={"type": kind, "D": 0.5})))
    return Scene.load(path, allow_code=allow_code)


@pytest.mark.slow
def test_the_example_of_the_page_runs_from_the_command(tmp_path: Path) -> None:
    """In an empty folder. A changed class is another run, also where the change is in a module that it uses."""
    (tmp_path / "growth.py").write_text(CODE.replace("import diffsim as ds", "import diffsim as ds\nimport helper"))
    (tmp_path / "helper.py").write_text("FACTOR = 1\n")
    (tmp_path / "growth.toml").write_text(GROWTH, encoding="utf-8")

    def diffsim(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "diffsim", "run", "growth.toml", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)

    done = diffsim("--allow-code")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "growth:Growth" in (tmp_path / "runs" / "growth" / "report.html").read_text(encoding="utf-8")
    (tmp_path / "helper.py").write_text("FACTOR = 2\n")
    changed = diffsim("--allow-code", "--resume", "--set", "optimise.iterations=9")
    assert changed.returncode == 2
    assert "found another; restore its settings" in changed.stderr and "the code of its classes" in changed.stderr
    (tmp_path / "helper.py").write_text("FACTOR = 1\n")
    resumed = diffsim("--allow-code", "--resume", "--set", "optimise.iterations=9")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr


def test_code_does_not_run_without_permission(folder: Path) -> None:
    (folder / "harmless.py").write_text("raise SystemExit('it ran')\n")
    with pytest.raises(
        SceneError, match=r"^equation\.type: expected permission to run the code of harmless, found none; .* add --allow-code"
    ):
        loaded(folder, "harmless:Growth", allow_code=False)
    with pytest.raises(SceneError, match=r"expected permission .* or give the class itself"):
        Scene(**spread() | {"equation": {"type": "harmless:Growth"}})


MODULE = """import diffsim as ds

class Other: ...

class Mine(ds.Equation):
    def __init__(self, grid, dt): ...
    def step(self): ...
"""


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("absent:Mine", "", "expected a module absent beside the scene or installed, found none; correct the name, or install it"),
        ("absent.py:Mine", "", "expected a module absent.py beside the scene or installed, found none; write absent:Mine"),
        ("mine.deep:Mine", "", "expected a module mine.deep beside the scene or installed, found none"),
        ("mine:Min", MODULE, "expected an equation of mine (Equation, Mine), found 'Min'; did you mean Mine?"),
        (
            "mine:Other",
            MODULE,
            "expected a class that derives from diffsim.Equation, found mine:Other, which is the class Other; derive it",
        ),
        ("mine:ds", MODULE, "found mine:ds, which is of type module"),
        ("mine:", MODULE, "expected a class such as mypackage.module:Class, found 'mine:'; correct the name"),
        ("a/b:Mine", MODULE, "expected a class such as mypackage.module:Class, found 'a/b:Mine'"),
        ("mine:Mine", "\n1 / 0\n", "found ZeroDivisionError: division by zero ("),
        ("mine:Mine", "def broken(:\n", "found SyntaxError: "),
        ("mine:Mine", "import not_there_at_all\n", "found ModuleNotFoundError: No module named 'not_there_at_all' ("),
        ("json:Mine", "", "expected one module of the name json, found "),
    ],
)
def test_each_wrong_class_is_named(folder: Path, kind: str, text: str, expected: str) -> None:
    (folder / f"{'json' if kind.startswith('json') else 'mine'}.py").write_text(
        text.replace("import diffsim as ds", "import diffsim as ds\nfrom diffsim import Equation")
    )
    with pytest.raises(SceneError) as caught:
        loaded(folder, kind)
    assert str(caught.value).startswith("equation.type: ") and expected in str(caught.value)
    assert "\n" not in str(caught.value)
    if text not in ("", MODULE):
        assert f"mine.py, line {1 + text.startswith(chr(10))})" in str(caught.value)


def test_a_class_is_found_beside_the_scene_and_in_packages(folder: Path) -> None:
    (folder / "mine_beside.py").write_text(f"from {HERE} import Spread\n\n\nclass Near(Spread):\n    class Nested(Spread):\n        pass\n")
    for kind in ("mine_beside:Near", "mine_beside:Near.Nested", f"{HERE}:Spread"):
        equation = loaded(folder, kind).equation
        assert equation.type == equation.title == kind == f"{equation.of_class.__module__}:{equation.of_class.__qualname__}"


def test_registered_equations_have_names(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    entries = [EntryPoint("spread", f"{HERE}:Spread", EQUATIONS.group), EntryPoint("gone", "not_there:Class", EQUATIONS.group)]
    monkeypatch.setattr(own, "entry_points", lambda group: entries if group == "diffsim.equations" else [])
    case = loaded(folder, "spread", allow_code=False)
    assert case.equation.of_class is Spread and case.equation.title == f"spread ({HERE}:Spread)"
    assert case.problem("f64").setup.equation.given["D"] == 0.5
    with pytest.raises(
        SceneError, match=r"expected one of acoustic, .*, spread, gone, or a class .*, found 'spred'; did you mean spread\?"
    ):
        loaded(folder, "spred")
    with pytest.raises(SceneError, match=r"equation.type: expected a module not_there beside the scene or installed"):
        loaded(folder, "gone")


GIVEN = {
    "name": "v",
    "count": 4,
    "on": False,
    "kind": "sphere",
    "lengths": [1.0, 2],
    "pair": [3, 4],
    "names": ["a"],
    "width": 2.0,
    "top": 3,
    "plain": 2.5,
    "plain_list": [5],
}


def test_options_are_the_arguments_of_the_constructor() -> None:
    built = Scene(**spread(**GIVEN)).equation.build(ds.Grid((6, 7), 1.0), 0.1)
    assert isinstance(built, Spread)
    expected = GIVEN | {"lengths": (1.0, 2.0), "pair": (3, 4), "plain_list": (5,)}
    assert {key: built.given[key] for key in GIVEN} == expected
    plain = Scene(**spread()).equation.build(ds.Grid((6, 7), 1.0), 0.1)
    defaults = {key: value.default for key, value in signature(Spread).parameters.items()}
    assert {key: plain.given[key] for key in GIVEN} == {key: defaults[key] for key in GIVEN}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"D": "fast"}, "equation.D: expected a number, found 'fast'"),
        ({"count": 1.5}, "equation.count: expected an integer, found 1.5"),
        ({"on": 1}, "equation.on: expected true or false, found 1"),
        ({"name": 3}, "equation.name: expected text, found 3"),
        ({"kind": "plan"}, "equation.kind: expected 'plane' or 'sphere', found 'plan'; did you mean plane?"),
        ({"lengths": [1.0, "a"]}, "equation.lengths[1]: expected a number, found 'a'"),
        ({"lengths": 1.0}, "equation.lengths: expected a list, found 1.0"),
        ({"pair": [1]}, "equation.pair[1]: expected a value, found none"),
        ({"names": [1]}, "equation.names[0]: expected text, found 1"),
        ({"width": "wide"}, "equation.width: expected a number or 'auto', found 'wide'; correct the value"),
        ({"top": 0.0}, "equation.top: expected a number greater than 0, found 0.0"),
        ({"plain": "x"}, "equation.plain: expected a number, found 'x'"),
        ({"plain_list": [1.5]}, "equation.plain_list[0]: expected an integer, found 1.5"),
        ({"sides": "mirrored"}, "equation.sides: expected one of zero, "),
        ({"sides": {"y": "mirror", "x": {"type": "dirichlet"}}}, 'equation.sides.x: expected value of "dirichlet", found none'),
        ({"fixed": {"x": "mirror"}}, "equation.fixed: expected a rule for each axis, found none for y; add it"),
        ({"cuont": 3}, "equation.cuont: expected one of type, D, name, "),
        (
            {"function": 3},
            "equation: expected no function, an argument of Spread that a scene cannot give, found 3; drop it, or annotate it",
        ),
        ({"grid": 3}, "equation.grid: expected one of type, D, "),
        ({"series": 3}, "equation.series: expected one of type, D, "),
        ({"boundary": "mirror"}, f"equation: expected no boundary with {HERE}:Spread, which sets the rules of its edges itself"),
    ],
)
def test_each_wrong_option_is_named(options: dict[str, Any], expected: str) -> None:
    text = message({"type": Spread, "D": 0.5} | options)
    assert text.startswith(expected) and "\n" not in text and "; " in text


@pytest.mark.parametrize(
    ("equation", "expected"),
    [
        (Spread, "equation.D: expected a value, found none; add the key"),
        (
            Nameless,
            "equation: argument speed of Nameless: expected an annotation or a default for the values of a scene, found neither",
        ),
        (Calls, "equation: argument speed of Calls: expected float, int, bool, str, Literal, "),
        (Typed, "equation: argument type of Typed: expected another name, for a scene cannot have this one as a key; rename the argument"),
        (Unknown, "equation: type of an argument of Unknown: expected one that is known where the module is read, found none"),
        (Gridless, "equation: expected a constructor of Gridless with the arguments grid and dt, found 1 argument (cells); begin it"),
        (Refuses, "equation: speed = 1.0, expected less than dx / dt; lower it"),
        (Stepless, "equation: expected an equation with its step, found Stepless, which has none; write its method step"),
        (int, "equation.type: expected a class that derives from diffsim.Equation, found "),
        (partial(Spread, 3), "equation: expected a partial with options by name, found 3 without one; name it"),
        (
            Bare(ds.Grid((5,), 1.0), 0.1),
            "equation: expected a class, for a scene builds it on more than one grid, found a Bare with a grid",
        ),
        ("heat", "equation: expected a table or a class of an equation, found 'heat'; write {type = 'heat'} and its options"),
        ({"type": 3}, "equation.type: expected text, found 3"),
        (
            {"type": Bare, "boundary": {"type": "dirichlet", "value": "lamp"}},
            "equation.boundary: expected a number, for Bare takes no inputs",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_each_wrong_constructor_is_named(equation: Any, expected: str) -> None:
    text = message(equation)
    assert text.startswith(expected) and "\n" not in text


def test_all_problems_have_their_lines() -> None:
    with pytest.raises(SceneError) as caught:
        Scene(**spread(count=1.5, on=2) | {"seed": "x"})
    keys = [line.split(":")[0] for line in str(caught.value).splitlines()]
    assert keys == ["seed", "equation.count", "equation.on"]


def test_rules_of_several_options_name_inputs_with_units() -> None:
    """Each has the unit of the state whose sides have its rule."""
    lamp, heater = ({"type": "dirichlet", "value": name} for name in ("lamp", "heater"))
    case = Scene(**spread(sides={"x": ["mirror", lamp]}, fixed=heater | {"varies": []}))
    equation = case.equation.build(ds.Grid((6, 7), 1.0, axes=("y", "x")), 0.1)
    assert {name: variable.unit for name, variable in equation.series.items()} == {"lamp": "Pa"}
    assert {name: variable.unit for name, variable in equation.parameters.items()} == {"heater": "K"}
    assert equation.states["w"].boundary == ((ds.EvenImage(),) * 2, (ds.EvenImage(), ds.Dirichlet("lamp")))
    assert equation.states["u"].boundary == ((ds.Dirichlet("heater"),) * 2,) * 2


def test_attributes_of_an_equation_that_a_scene_reads() -> None:
    case = Scene(**spread(margin=4))
    assert case.truth is not None
    assert fine_steps(case, case.truth) == np.ceil(10 * 1.5**2)
    grid = ds.Grid((12, 11), 1.0)
    options = case.equation.build(refined(grid, 1.5), 0.1, 1.5).given
    assert options["margin"] == 6 and options["margins"] == (2, 4)  # 1.5 and 4.5, rounded to even
    problem = case.problem("f64")
    (penalty,) = (each for _, each in problem.penalties.values())
    slope = np.arange(12.0)[:, None] * np.ones(11)  # 1 from cell to cell, over 1000 m each, which is `length`
    np.testing.assert_allclose(float(penalty(slope)), 0.5 * 11 / 12)
    receivers = tables(spread(), receivers={"u": {"points": [[5.0, 5.0], [1.0, 5.0]]}})
    with pytest.raises(SceneError, match=r"receivers\.u: point 1, expected a place where the states change, found ice at y = 1, x = 5"):
        Scene(**receivers).problem()
    default = Bare(grid, 0.1)
    assert default.cell_lengths() == (1.0, 1.0) and default.silent({}) == {} and (default.stable_dt_power, default.in_cells) == (1, ())


def test_python_takes_the_class() -> None:
    written = Scene(**spread())
    assert Scene(**spread() | {"equation": partial(Spread, D=0.5)}) == written
    assert written.equation.type == f"{HERE}:Spread"
    assert Scene(**tables(HEAT) | {"equation": Heat}) == Scene(**tables(HEAT))
    assert Scene(**spread() | {"equation": written.equation}) == written
    assert written.model_dump(mode="json", exclude_unset=True)["equation"] == {"type": f"{HERE}:Spread", "D": 0.5}


def loss(made: Scene) -> float:
    objective = made.objective("f64")
    return objective.value(objective.problem.theta)


def test_a_scene_goes_to_another_process() -> None:
    case = Scene(**spread(sides={"y": "zero", "x": ["mirror", "zero"]}))
    assert pickle.loads(pickle.dumps(case)) == case
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(loss, case).result(300) == loss(case)


def test_packaged_equations_have_no_digest_and_others_that_of_their_modules(folder: Path) -> None:
    assert all(code_digest(kind) is None for kind in EQUATIONS.packaged.values())
    files = {name: folder / f"{name}.py" for name in ("mine_used", "mine_top", "mine_aside")}
    files["mine_used"].write_text("FACTOR = 1\n")
    files["mine_aside"].write_text("FACTOR = 1\n")
    files["mine_top"].write_text(
        f"from mine_used import FACTOR\nimport numpy as np\nfrom {HERE} import Spread\n\n\nclass Near(Spread):\n    pass\n"
    )
    equation = loaded(folder, "mine_top:Near").equation.of_class
    modules = modules_of(equation)
    assert {"mine_top", "mine_used", HERE, "tests.scene.tiny"} <= modules.keys()
    assert all(name.startswith(("mine_top", "mine_used", "tests")) for name in modules)
    before = code_digest(equation)
    files["mine_aside"].write_text("FACTOR = 2\n")
    assert code_digest(equation) == before
    files["mine_used"].write_text("FACTOR = 2\n")
    assert code_digest(equation) != before


@pytest.mark.parametrize("change", [("2.0 *", "3.0 *"), ("def step", "power = 2\n\n    def step"), ("b=1", "b=2"), ("u + ", "u - ")])
def test_code_without_a_file_has_a_digest(change: tuple[str, str]) -> None:
    text = "class Cell(Bare):\n    def __init__(self, grid, dt, b=1): ...\n\n    def step(self, u):\n        return {'u': u + 2.0 * u}\n"

    def digest(source: str) -> str | None:
        names: dict[str, Any] = {"Bare": Bare, "__name__": "__notebook__"}
        exec(source, names)
        return code_digest(names["Cell"])

    assert digest(text) == digest(text) != digest(text.replace(*change))


def test_a_model_is_made_once() -> None:
    assert model_of("heat", Heat) is model_of("heat", Heat)
