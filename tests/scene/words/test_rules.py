"""Rules of sides in a scene: they are those of an equation in Python, and the inputs that they name can be known or searched for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import diffsim as ds
from diffsim import boundary
from diffsim.errors import ParameterError, SceneError
from diffsim.scene import Scene
from diffsim.scene.search.objective import Objective
from diffsim.scene.setup.fields import build_field
from diffsim.scene.setup.sizes import shares
from diffsim.scene.shots.truth import prepared, true_fields
from diffsim.scene.words.equations import EQUATIONS, model_of
from diffsim.scene.words.rule_keys import keys_of
from diffsim.scene.words.rules import RuleModel
from diffsim.solvers import Acoustic, Heat
from diffsim.typing import Array
from tests.sampled import sampled
from tests.scene.tiny import ACOUSTIC, DRIVEN, WAVE, as_toml, scene, tables

STEPS = 5
AcousticModel, HeatModel = model_of("acoustic", EQUATIONS.packaged["acoustic"]), model_of("heat", EQUATIONS.packaged["heat"])
Written = tuple[Any, ds.boundary.Rule]
"""A rule as a scene has it, and in Python."""


def drawn(rng: np.random.Generator) -> Written:
    """A rule at random, both ways."""
    x, y, order = (float(v) for v in (rng.uniform(-1, 1), rng.uniform(0.2, 2), rng.integers(0, 4)))
    tables: list[Written] = [
        ("zero", boundary.Zero()),
        ("mirror", ds.EvenImage()),
        ("odd_image", ds.OddImage()),
        ({"type": "odd_image"}, ds.OddImage()),
        ({"type": "dirichlet", "value": x}, ds.Dirichlet(x)),
        ({"type": "neumann", "flux": x}, ds.Neumann(x)),
        ({"type": "robin", "a": y, "b": 0.7, "value": x}, ds.Robin(y, 0.7, x)),
        ("extrapolate", ds.Extrapolate(0)),
        ({"type": "extrapolate", "order": int(order)}, ds.Extrapolate(int(order))),
        ({"type": "outflow", "speed": y}, ds.Outflow(y)),
    ]
    return tables[rng.integers(len(tables))]


def of_axis(rng: np.random.Generator) -> tuple[Any, Any]:
    """The rules of an axis at random, both ways."""
    if rng.uniform() < 0.2:
        return "periodic", "periodic"
    (low, high), both = (drawn(rng), drawn(rng)), rng.uniform() < 0.3
    return (low[0], (low[1], low[1])) if both else ([low[0], high[0]], (low[1], high[1]))


def member(seed: int) -> tuple[ds.Grid, Any, Any]:
    """A grid, and a boundary at random, both ways."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(5, (30, 14, 9)[seed % 3], 1 + seed % 3))
    grid = ds.Grid(shape, rng.uniform(0.5, 1.5, len(shape)))
    if seed % 7 == 6:
        table, rule = drawn(rng)
        return grid, table, rule
    pairs = {axis: of_axis(rng) for axis in grid.axes}
    return grid, {axis: table for axis, (table, _) in pairs.items()}, tuple(rules for _, rules in pairs.values())


@pytest.mark.parametrize("seed", sampled(range(14), 3))
@pytest.mark.parametrize("kind", [Heat, Acoustic])
def test_a_boundary_of_a_scene_is_that_of_python(kind: Any, seed: int) -> None:
    """Bit for bit, in one to three dimensions, with rules at random at all sides."""
    grid, table, rules = member(seed)
    model: Any = HeatModel(type="heat", boundary=table) if kind is Heat else AcousticModel(type="acoustic", order=4, boundary=table)
    others = {} if kind is Heat else {"order": 4}
    rng = np.random.default_rng(seed)
    state, coefficient = ("T", "kappa") if kind is Heat else ("p", "c")
    inputs = {state: rng.normal(size=grid.shape), coefficient: rng.uniform(0.1, 0.3, grid.shape)}
    result, wanted = (
        ds.Simulation(equation, precision="f64").run(inputs, STEPS).final[state]
        for equation in (model.build(grid, 0.1), kind(grid, 0.1, boundary=rules, **others))
    )
    np.testing.assert_array_equal(result, wanted, err_msg=f"{table}")


def test_every_rule_with_a_name_can_be_written() -> None:
    public = {kind for name in ds.__all__ if isinstance(kind := getattr(ds, name), type) and issubclass(kind, boundary.Rule)}
    assert public | {boundary.Zero, boundary.Periodic} == set(boundary.KINDS.values())
    for kind, rule in boundary.KINDS.items():
        assert type(RuleModel(type=kind, **{name: 1.0 for name, key in keys_of(kind).items() if key.needed}).build()) is rule


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that a test defines have no names after it."""
    monkeypatch.setattr(boundary.KINDS, "_classes", dict(boundary.KINDS))


@pytest.fixture
def cooled(forget: None) -> type[boundary.Rule]:
    """A rule of a user's own with a name."""

    @dataclass(frozen=True)
    class Cooled(boundary.Condition, kind="cooled"):
        air: boundary.Value
        length: float = 0.5

        @property
        def weights(self) -> tuple[float, float]:
            return 1.0, self.length

        @property
        def given(self) -> boundary.Value:
            return self.air

        def unit(self, field: str) -> str:
            return f"{field} of air"

    return Cooled


def test_a_rule_of_ones_own_is_used_by_its_name(cooled: Any, tmp_path: Path) -> None:
    """It is Robin's here, whose value is the temperature of the air."""
    table = {"type": "cooled", "air": 0.3, "length": 0.7}
    model = HeatModel(type="heat", boundary={"x": ["mirror", table]})
    grid, rng = ds.Grid((5, 6), 1.0), np.random.default_rng(1)
    assert model.build(grid, 0.1).states["T"].boundary[1] == (ds.EvenImage(), cooled(0.3, 0.7))
    inputs = {"T": rng.normal(size=grid.shape), "kappa": rng.uniform(0.1, 0.3, grid.shape)}
    wanted = Heat(grid, 0.1, boundary=("mirror", ("mirror", ds.Robin(1.0, 0.7, 0.3))))
    result, expected = (ds.Simulation(case, precision="f64").run(inputs, STEPS).final["T"] for case in (model.build(grid, 0.1), wanted))
    np.testing.assert_array_equal(result, expected)
    case = scene(DRIVEN, equation__boundary={"x": ["mirror", table]})
    path = tmp_path / "cooled.toml"
    path.write_text(as_toml(tables(DRIVEN, equation__boundary={"x": ["mirror", table]})))
    assert Scene.load(path) == case
    assert case.model_dump(mode="json", exclude_unset=True)["equation"]["boundary"] == {"x": ["mirror", table]}


def test_an_input_that_a_rule_of_ones_own_names_is_searched_for(cooled: Any, driven: Objective) -> None:
    """As that of Robin's rule in its place, which is the same here."""
    heated = DRIVEN["equation"]["boundary"]["x"][0]
    rule = {"type": "cooled", "air": "air", "varies": ["time", "y"]}
    search = scene(DRIVEN, equation__boundary__x=[heated, rule]).objective("f64")
    assert search.problem.setup.unit("air") == "K of air"
    result, wanted = (each.evaluate(driven.problem.theta) for each in (search, driven))
    assert result.value == wanted.value
    np.testing.assert_array_equal(result.gradient, wanted.gradient)


KEYS: list[tuple[dict[str, Any], str, str]] = [
    ({"length": 1.0}, 'x: expected air of "cooled", found none', 'write {type = "cooled", air = 1.0}'),
    ({"air": 1.0, "lenth": 1.0}, "x.lenth: expected one of type, air, length, varies, found the unknown key 'lenth'", "mean length?"),
    ({"air": 1.0, "flux": 1.0}, 'x: expected no flux with "cooled", found one', "drop it"),
    ({"air": 1.0, "length": "far"}, "x.length: expected a number, found 'far'", "correct the value"),
    ({"air": 1.0, "length": float("nan")}, "x.length: expected a finite number, found nan", "correct the value"),
    ({"air": "two words"}, "x.air: expected a number or a name of letters", "choose another"),
    ({"air": "x" * 201}, "x.air: expected a number or a name of letters", "choose another"),
    ({"air": 1.0, "varies": []}, "x: expected varies together with the name of an input", "drop varies"),
]


@pytest.mark.parametrize(("given", "expected", "remedy"), KEYS, ids=lambda v: None if isinstance(v, str) else str(v)[:60])
def test_keys_of_a_rule_of_ones_own_are_checked(cooled: Any, given: dict[str, Any], expected: str, remedy: str) -> None:
    with pytest.raises(SceneError) as caught:
        scene(DRIVEN, **one({"type": "cooled", **given}))
    message = str(caught.value)
    assert message.startswith(f"equation.boundary.{expected}") and remedy in message.removeprefix(expected) and "\n" not in message


def test_each_wrong_key_has_a_line(cooled: Any) -> None:
    with pytest.raises(SceneError) as caught:
        scene(DRIVEN, **one([{"type": "cooled", "air": [], "lenth": 1.0}, {"type": "outflow", "speed": "fast"}]))
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        f"equation.boundary.x[{key}" for key in ("0].air", "0].lenth", "1].speed")
    ]


def test_suggestions_have_rules_of_ones_own(cooled: Any) -> None:
    with pytest.raises(SceneError, match=r"x: expected one of zero, .*, cooled, found 'coold'; did you mean cooled\?"):
        scene(DRIVEN, **one("coold"))
    with pytest.raises(ParameterError, match=r"boundary = 'cooled', expected one of zero, .*; write Cooled\(air\)"):
        ds.Variable("cooled")


def test_keys_of_every_type(forget: None) -> None:
    @dataclass(frozen=True)
    class Made(boundary.Zero, kind="made"):
        cells: int
        sharp: bool
        name: str
        how: Literal["up", "down"]
        most: float | None = None

    arguments = {"cells": 3, "sharp": True, "name": "edge", "how": "down"}
    assert RuleModel(type="made", **arguments).build() == Made(3, True, "edge", "down")
    assert RuleModel(type="made", most=2, **arguments).build() == Made(3, True, "edge", "down", 2.0)
    written = '{type = "made", cells = 1, sharp = true, name = "...", how = "up"}'
    with pytest.raises(SceneError, match=re.escape(f'expected cells of "made", found none; write {written}')):
        RuleModel(type="made")
    for key, wrong, expected in (
        ("cells", 1.5, "an integer, found 1.5"),
        ("cells", 10**400, "at most 1e\\+15, found an integer of about 401 digits"),
        ("sharp", 1, "true or false, found 1"),
        ("name", 3, "text, found 3"),
        ("how", "dwn", "'up' or 'down', found 'dwn'; did you mean down"),
        ("most", "far", "a number, found 'far'"),
    ):
        with pytest.raises(SceneError, match=f"{key}: expected {expected}"):
            RuleModel(type="made", **arguments | {key: wrong})


def test_rules_that_a_scene_cannot_give_say_why(forget: None) -> None:
    @dataclass(frozen=True)
    class Listed(boundary.Zero, kind="listed"):
        cells: tuple[int, ...] = ()

    @dataclass(frozen=True)
    class Typed(boundary.Zero, kind="typed"):
        type: str = ""

    @dataclass(frozen=True)
    class Unknown(boundary.Zero, kind="unknown"):
        cells: Nowhere = 0  # type: ignore[name-defined]  # noqa: F821

    for kind, expected in (
        ("listed", r"cells of Listed: expected float, int, .* found tuple\[int, ...\]; change the type"),
        ("typed", "type of Typed: expected another name, for .*; rename the argument"),
        ("unknown", "argument of Unknown: expected one that is known .*name 'Nowhere' is not defined.*; import it"),
    ):
        with pytest.raises(SceneError, match=expected):
            RuleModel(type=kind)
        assert ds.Variable(kind).boundary is not None  # in Python it is a rule like any other


def test_a_word_is_a_rule_whose_arguments_have_defaults() -> None:
    cells = np.random.default_rng(0).normal(size=(6, 7))
    grid, inputs = ds.Grid((6, 7), 1.0), {"T": cells, "kappa": np.full((6, 7), 0.2)}
    for word, rule in (("odd_image", ds.OddImage()), ("extrapolate", ds.Extrapolate(0)), ("antiperiodic", ds.Antiperiodic())):
        result, wanted = (
            ds.Simulation(Heat(grid, 0.1, boundary=edge), precision="f64").run(inputs, STEPS).final["T"] for edge in (word, rule)
        )
        np.testing.assert_array_equal(result, wanted)


def test_axes_that_are_left_out_have_the_equations_own_rule() -> None:
    grid = ds.Grid((4, 5), 1.0)
    assert HeatModel(type="heat", boundary={"x": "zero"}).build(grid, 0.1).states["T"].boundary[0] == (ds.EvenImage(),) * 2
    assert AcousticModel(type="acoustic", boundary={"x": "mirror"}).build(grid, 0.1).states["p"].boundary[0] == (boundary.Zero(),) * 2


def test_words_and_lists_read_back_from_toml(tmp_path: Path) -> None:
    for table in ("zero", {"type": "extrapolate", "order": 2}, {"y": "periodic"}, {"x": ["mirror", {"type": "outflow", "speed": 1.0}]}):
        case = scene(DRIVEN, equation__boundary=table)
        assert case.model_dump(mode="json", exclude_unset=True)["equation"]["boundary"] == table
        path = tmp_path / "driven.toml"
        path.write_text(as_toml(tables(DRIVEN, equation__boundary=table)))
        assert Scene.load(path) == case


@pytest.fixture(scope="module")
def driven() -> Objective:
    return scene(DRIVEN).objective("f64")


def test_inputs_that_are_named_are_their_numbers(driven: Objective) -> None:
    """Where all are the same everywhere and at all times, the run is that of numbers."""
    setup, numbers = driven.problem.setup, {"lamp": 0.7, "edge": -0.3, "air": 1.4}
    inputs = {name: np.full(driven.problem.start[name].shape, value) for name, value in numbers.items()}
    (solution,) = setup.predict({**driven.problem.known, **inputs})
    rules = ((ds.Dirichlet(-0.3),) * 2, (ds.Neumann(0.7), ds.Robin(1.0, 0.5, 1.4)))
    plain = ds.Simulation(Heat(setup.grid, 0.2, rules), precision="f64")
    wanted = plain.run({"kappa": driven.problem.known["kappa"]}, setup.steps).final["T"]
    np.testing.assert_allclose(solution.final["T"], wanted, rtol=0, atol=1e-14 * np.abs(wanted).max())


def test_domains(driven: Objective) -> None:
    problem = driven.problem
    assert {name: values.shape for name, values in problem.start.items()} == {"lamp": (14,), "edge": (7,), "air": (14, 6)}
    assert {name: int(mask.sum()) for name, mask in problem.free.items()} == {"lamp": 14, "edge": 7, "air": 14 * 4 - 2 * 4}
    assert {name: problem.setup.unit(name) for name in problem.start} == {"lamp": "K/m", "edge": "K", "air": ""}
    grid = problem.setup.place("air", "").grid
    assert (grid.axes, grid.spacing, grid.origin) == (("time", "y"), (0.2, 0.8), (0.0, 0.0))


@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_those_of_differences(driven: Objective, seed: int) -> None:
    """Gradients of each unknown alone and of all together, along random directions, in f64."""
    rng, problem = np.random.default_rng(seed), driven.problem
    theta = problem.theta + 0.1 * rng.standard_normal(problem.theta.size)
    gradient = driven.evaluate(theta).gradient
    for part in (*problem.unknowns.slices.values(), slice(None)):
        direction = np.zeros(theta.size)
        direction[part] = rng.standard_normal(direction[part].size)
        h = 1e-5
        slope = (driven.value(theta + h * direction) - driven.value(theta - h * direction)) / (2 * h)
        assert gradient @ direction == pytest.approx(slope, rel=1e-7, abs=1e-10)


def test_penalties_are_means_over_time_and_along_a_side(driven: Objective) -> None:
    """Lengths in seconds along time; differences between free values alone."""
    problem = driven.problem
    (_, lamp), (_, air) = problem.penalties.values()
    ramp = problem.start["lamp"] + 3.0 * 0.2 * np.arange(14)
    assert lamp(ramp) == pytest.approx(0.5 * 1e-4 * (0.4 * 3.0) ** 2 * 13 / 14, rel=1e-12)
    free = problem.free["air"]
    rows, columns = (np.flatnonzero(free.any(axis=axis)) for axis in (1, 0))
    plane = problem.start["air"] + 2.0 * 0.2 * np.arange(14)[:, None] + 0.5 * 0.8 * np.arange(6)
    steep = np.zeros((len(rows), len(columns)))
    steep[:-1] += (0.4 * 2.0) ** 2
    steep[:, :-1] += (2.0 * 0.5) ** 2
    expected = 1e-4 * np.mean(np.sqrt(steep + 0.1**2) - 0.1)
    assert air(plane) == pytest.approx(expected, rel=1e-12)


def test_a_history_of_few_values() -> None:
    regions = {"layers": {"axis": "time", "tops": [0.5, 1.5], "values": [0.0, 1.0, 2.0]}}
    problem = scene(DRIVEN, unknowns__lamp={"start": {"constant": 0.5}, "regions": regions}).problem("f64")
    theta = problem.theta
    theta[problem.unknowns.slices["lamp"]] = [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(problem.unknowns.split(theta)["lamp"], 0.5 + np.repeat([1.0, 2.0, 3.0], [3, 5, 6]))


def test_a_number_can_be_unknown() -> None:
    rule = {"type": "robin", "a": 1.0, "b": 0.5, "value": "air", "varies": []}
    case = scene(
        DRIVEN,
        equation__boundary={"x": rule},
        unknowns={"air": {"start": {"constant": 0.0}}},
        truth={"refine": 1.0, "noise": 0.01, "fields": {"air": {"constant": 3.0}}},
        penalty=[{"type": "tikhonov", "unknown": "air", "weight": 1e-8}],
        accept=[{"quantity": "relative_error", "at_most": 0.05}],
    )
    assert case.problem("f64").theta.shape == (1,)
    assert [line for line in case.gradcheck() if not line.passed] == []
    outcome = case.run(precision="f64")
    assert outcome.passed
    assert outcome.unknowns["air"].answer.shape == (1,)


def test_waves_from_a_piston() -> None:
    """Boundary inputs of the acoustic equation, several shots: a history at one side, and a profile for all steps at another."""
    rules = {"x": [{"type": "dirichlet", "value": "piston"}, "mirror"], "z": {"type": "neumann", "flux": "leak", "varies": ["x"]}}
    case = scene(
        ACOUSTIC,
        equation={"type": "acoustic", "order": 4, "boundary": rules},
        fields={"c": {"constant": 2000.0}},
        unknowns={"piston": {"start": {"constant": 0.0}, "scale": 1e-3}, "leak": {"start": {"constant": 0.0}, "scale": 1e-3}},
        truth__fields={
            "piston": {"wavelet": {"type": "ricker", "frequency": 30.0, "amplitude": 1e-2}},
            "leak": {"gaussians": [{"centre": [70.0], "width": 20.0, "amplitude": 1e-4}]},
        },
        penalty=[],
        accept=[],
    )
    assert {name: values.shape for name, values in case.problem("f64").start.items()} == {"piston": (24,), "leak": (15,)}
    assert [line for line in case.gradcheck() if not line.passed] == []


class Decay(ds.Equation):
    """uₜ = D ∇²u - rate u + push, with a rate that varies along x, a number D and a push at each time."""

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {"u": ds.Variable("mirror", unit="1")}
        self.parameters = {"rate": ds.Variable("mirror", axes=(1,), unit="1/s"), "D": ds.Variable(axes=(), unit="m²/s")}
        self.series = {"push": ds.Variable(unit="1/s")}

    def step(self, u: Any, rate: Any, D: Any, push: Any) -> dict[str, Any]:
        return {"u": u + self.dt * (D * ds.expr.laplacian(u) - rate * u + push)}


def test_an_equation_of_ones_own_has_parameters_along_few_axes() -> None:
    table = tables(
        DRIVEN,
        equation=Decay,
        fields={"u": {"gaussians": [{"centre": [2.0, 3.0], "width": 1.0, "amplitude": 1.0}]}},
        receivers={"u": DRIVEN["receivers"]["T"]},
        unknowns={"rate": {"start": {"constant": 0.3}}, "D": {"start": {"constant": 0.2}}, "push": {"start": {"constant": 0.0}}},
        truth__fields={"rate": {"constant": 0.5}, "D": {"constant": 0.3}, "push": {"constant": 0.1}},
        misfit=[{"of": "traces", "state": "u"}],
        penalty=[{"type": "tikhonov", "unknown": "rate", "order": 1, "weight": 1e-4}],
        accept=[{"quantity": "loss_reduction", "at_least": 10.0}],
    )
    case = Scene(**table)
    assert {name: values.shape for name, values in case.problem("f64").start.items()} == {"rate": (7,), "D": (1,), "push": (14,)}
    assert [line for line in case.gradcheck() if not line.passed] == []
    outcome = case.run(precision="f64")
    assert outcome.passed and not outcome.background.keys() - {"u"}


def test_without_noise_and_refinement_the_truth_fits_exactly() -> None:
    case = scene(DRIVEN, truth__refine=1.0, truth__noise=0.0, penalty=[], unknowns__lamp__smooth=0.0, unknowns__air__mask=None)
    objective = case.objective("f64")
    truth = true_fields(case, objective.problem.setup)
    np.testing.assert_allclose(truth["lamp"], 3 * np.exp(-0.5 * ((0.2 * np.arange(14) - 1.2) / 0.5) ** 2), rtol=1e-12)
    assert objective.value(objective.problem.unknowns.join(truth)) < 1e-25
    assert objective.value(objective.problem.theta) > 1e-3


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "lamp.npy"


def from_file(path: Path, **changes: Any) -> Scene:
    file = {"path": str(path), "allow": ["outside"]}
    table = {"unknowns__lamp": None, "truth__fields__lamp": None, "fields__lamp": {"file": file}}
    return scene(DRIVEN, penalty=[], accept=[], **table, **changes)


@pytest.mark.parametrize("length", [14, 20])
def test_a_history_from_a_file(here: Path, length: int) -> None:
    """Each step has its value, in the data as well; values after the run are not read."""
    values = np.random.default_rng(0).normal(size=length)
    np.save(here, values)
    case = from_file(here)
    problem = case.problem("f64")
    np.testing.assert_array_equal(problem.known["lamp"], values[:14])
    fine, inputs = prepared(case, problem.setup)
    times = fine.times()[:-1]
    np.testing.assert_allclose(inputs["lamp"], np.interp(times, 0.2 * np.arange(14), values[:14]), rtol=1e-12, atol=1e-12)
    shorter = from_file(here, certificate={"steps": 5})
    assert shorter.gradcheck().passed


def test_a_history_of_which_the_run_takes_a_small_part_is_refused(here: Path) -> None:
    np.save(here, np.ones(20))
    fields = {"fields__lamp": {"file": {"path": str(here)}}, "unknowns__lamp": None, "truth__fields__lamp": None}
    with pytest.raises(
        SceneError, match=r'fields\.lamp\.file\.path: expected most time steps of .* found 14 of 20; .* allow = \["outside"\]'
    ):
        scene(DRIVEN, penalty=[], accept=[], **fields).problem("f64")
    np.save(here, np.ones(15))
    case = scene(DRIVEN, penalty=[], accept=[], **fields, certificate={"steps": 5})
    assert case.gradcheck().passed  # the whole run takes enough of it


def test_files_of_histories_that_do_not_fit(here: Path) -> None:
    for values, expected in (
        (np.ones(13), r"fields.lamp.file.path: expected the shape \(14,\), or more time steps, .*; give a value for each step"),
        (np.ones((14, 1)), r"expected the shape \(14,\), or more time steps"),
        (np.full(14, np.nan), "expected finite numbers"),
    ):
        np.save(here, values)
        with pytest.raises(SceneError, match=expected):
            from_file(here).problem("f64")
    np.save(here, np.asfortranarray(np.ones((20, 6))))
    with pytest.raises(SceneError, match="expected C order"):
        scene(DRIVEN, unknowns__air=None, penalty=[], fields__air={"file": {"path": str(here)}}).problem("f64")


def one(rule: Any, axis: str = "x") -> dict[str, Any]:
    return {"equation__boundary": {axis: rule}, "unknowns": {"T": {"start": {"constant": 0.0}}}, "penalty": [], "accept": []}


KNOWN = ", ".join(boundary.KINDS)
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"equation__boundary": "miror"}, f"equation.boundary: expected one of {KNOWN}, found 'miror'", "did you mean mirror?"),
    (one("even_image"), f"equation.boundary.x: expected one of {KNOWN}, found 'even_image'", "did you mean mirror?"),
    (one(["mirror", "outflo"]), f"equation.boundary.x[1]: expected one of {KNOWN}, found 'outflo'", "did you mean outflow?"),
    (one(["periodic", "mirror"]), 'equation.boundary.x: expected "periodic" on both sides', 'write "periodic" for the axis'),
    (one(["mirror"]), "equation.boundary.x: expected one rule, or a list of two, [low side, high side], found 1", "add or drop some"),
    (one("mirror", "w"), "equation.boundary.w: expected one of the axes y, x, found 'w'", "choose one of these"),
    (one("dirichlet"), 'equation.boundary.x: expected value of "dirichlet", found none', 'write {type = "dirichlet", value = 1.0}'),
    (one({"type": "neumann", "value": 1.0}), 'equation.boundary.x: expected flux of "neumann", found none', "write {type"),
    (one({"type": "mirror", "value": 1.0}), 'equation.boundary.x: expected no value with "mirror", found one', "drop it"),
    (one({"type": "dirichlt", "value": 1.0}), f"equation.boundary.x.type: expected one of {KNOWN}, found", "did you mean dirichlet?"),
    (one({"type": "neumann", "flx": 1.0}), "equation.boundary.x.flx: expected one of type, flux, varies, found", "did you mean flux?"),
    (
        one({"type": "extrapolate", "order": 4}),
        "equation.boundary.x: order of Extrapolate = 4, expected a whole number from",
        "give",
    ),
    (one({"type": "outflow", "speed": -1.0}), "equation.boundary.x: speed of Outflow = -1.0, expected a number of at least 0", "give"),
    (one({"value": 1.0}), "equation.boundary.x.type: expected a value, found none", "add the key"),
    (one(3), "equation.boundary.x: expected a rule, such as", "write one"),
    ({**one(3), "equation__boundary": ["mirror", "zero"]}, "equation.boundary: expected a rule, such as", "name the axis of a list"),
    (one({"type": "robin", "a": 1.0, "b": -1.0, "value": 0.0}), "equation.boundary.x: Robin has a = 1 and b = -1", "correct the signs"),
    (one({"type": "dirichlet", "value": "a b"}), "equation.boundary.x.value: expected a number or a name", "choose another"),
    (one({"type": "dirichlet", "value": 1.0, "varies": []}), "equation.boundary.x: expected varies together with the name", "drop varies"),
    (one({"type": "dirichlet", "value": "left"}), "fields.left: expected a series, which has values for each", "add [fields.left]"),
    (one({"type": "dirichlet", "value": "left", "varies": ["y"]}), "fields.left: expected a field, for the", "add [fields.left]"),
    (one({"type": "dirichlet", "value": "left", "varies": ["x"]}), "equation.boundary.x.varies: expected some of time, y", "choose"),
    (one({"type": "dirichlet", "value": "left", "varies": ["tme"]}), "equation.boundary.x.varies: expected some of", "did you mean time?"),
    (one({"type": "dirichlet", "value": "kappa"}), "equation: series names kappa, expected a name other than T, kappa, q", "rename it"),
    (
        one([{"type": "dirichlet", "value": "air"}, {"type": "dirichlet", "value": "air", "varies": []}]),
        "equation.boundary.x[1].varies: expected ['time'] for air, as at equation.boundary.x[0], found []",
        "give both the same",
    ),
    (one({"type": "outflow", "speed": 1e9}), "equation: Outflow(1e+09) along axis 1 moves 2e+08 cells a step", "lower dt"),
    (
        {"fields__kappa": {"wavelet": {"type": "pulse", "delay": 1.0, "width": 1.0}}},
        "fields.kappa.wavelet: expected a value that",
        "give it",
    ),
    ({"equation__boundary": "mirror"}, "unknowns.lamp: expected one of kappa, T, found 'lamp'", "name it in a rule of equation.boundary"),
    ({"unknowns__lamp__mask": {"field": "kappa", "above": 0.1}}, "unknowns.lamp.mask.field: expected a known field (start)", "choose"),
    ({"unknowns__lamp__smooth": [1.0, 2.0]}, "unknowns.lamp: smooth", ";"),
    ({"penalty__0__length": [1.0, 2.0]}, "penalty[0]: length: expected one number, or 1, one an axis, got 2", "add or drop some"),
    ({"truth__fields__lamp": None}, "truth.fields.lamp: expected the hidden truth of this unknown, found none", "add [truth.fields.lamp]"),
    ({"unknowns__edge__start": {"gaussians": [{"centre": [1.0, 1.0], "width": 1.0, "amplitude": 1.0}]}}, "unknowns.edge.start.", "add or"),
]


@pytest.mark.parametrize(("changes", "expected", "remedy"), REFUSED, ids=lambda v: None if isinstance(v, str) else str(v)[:60])
def test_boundaries_that_cannot_be(changes: dict[str, Any], expected: str, remedy: str) -> None:
    with pytest.raises(SceneError) as caught:
        scene(DRIVEN, **changes | ({"truth__fields__T": {"constant": 1.0}} if "T" in changes.get("unknowns", {}) else {})).objective("f64")
    message = str(caught.value)
    assert message.startswith(expected) and remedy in message.removeprefix(expected) and "\n" not in message
    assert ";" in message


def test_long_waves_say_why_they_take_no_rule() -> None:
    with pytest.raises(SceneError, match=r"equation: expected no boundary with long_wave, .* found 'mirror'; drop it"):
        scene(WAVE, equation__boundary="mirror")


def test_histories_count_as_memory() -> None:
    """Start, truth and gradient of each value of an unknown history, and its values at the times of the finer run."""
    cases = scene(DRIVEN), scene(DRIVEN, equation__boundary="mirror")
    named, plain = (sum(share.size for share in shares(each, "f64") if share.key == "time.steps") for each in cases)
    assert named - plain == 8 * (1 + 6) * (3 * 14 + 32)


def test_a_run_is_resumed_with_the_same_bits(tmp_path: Path) -> None:
    whole = scene(DRIVEN).run(tmp_path / "whole", precision="f64")
    scene(DRIVEN, optimise__iterations=3).run(tmp_path / "part", precision="f64")
    resumed = scene(DRIVEN).run(tmp_path / "part", resume=True, precision="f64")
    assert resumed.history[-1].loss == whole.history[-1].loss
    for name, unknown in whole.unknowns.items():
        np.testing.assert_array_equal(resumed.unknowns[name].answer, unknown.answer)
    assert [axis.name for axis in whole.unknowns["air"].axes] == ["time", "y"]
    assert set(whole.background) == {"kappa"}
    assert whole.passed


def test_values_at_fine_times(driven: Objective) -> None:
    """The truth is made at the times of the finer run, not interpolated from those of the scene."""
    fine, inputs = prepared(driven.problem.scene, driven.problem.setup)
    times: Array = fine.equation.dt * np.arange(fine.steps)
    assert len(inputs["lamp"]) == fine.steps > 2 * driven.problem.setup.steps
    np.testing.assert_allclose(inputs["lamp"], 3 * np.exp(-0.5 * ((times - 1.2) / 0.5) ** 2), rtol=1e-12)
    place = fine.place("edge", "")
    np.testing.assert_array_equal(inputs["edge"], build_field(driven.problem.scene.truth.fields["edge"], place))


def test_slots_where_every_step_is_kept_anyway() -> None:
    """The gradient by values of sides alone needs no states, so any number of slots keeps all."""
    assert scene(DRIVEN, checkpoint={"slots": 3}, optimise__iterations=1).run(precision="f64").history[-1].iteration == 1
