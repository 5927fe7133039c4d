"""Penalties and parametrisations of a user's own in scenes."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds

import diffsim.numpy as dnp
from diffsim.errors import SceneError
from diffsim.losses import Tikhonov
from diffsim.optimize import Parametrisation
from diffsim.scene import Scene
from diffsim.scene.disk.folder import identify
from diffsim.scene.schema.toml import to_toml
from diffsim.scene.search.certificate import certify
from diffsim.scene.words import own
from tests.scene.tiny import HEAT, scene

HERE = "tests.scene.words.test_own_parts"
PAGE = (Path(__file__).parents[3] / "docs" / "scene.md").read_text(encoding="utf-8")


class Level:
    """½ Σ (m - value)² over the free cells."""

    def __init__(self, mask: Any, value: float = 1.0) -> None:
        self._mask, self._value = mask, value

    def __call__(self, field: Any) -> Any:
        return 0.5 * dnp.sum((field[self._mask] - self._value) ** 2)


class Rough(Tikhonov):
    """Slopes with a factor."""

    def __init__(self, weight: Any, spacing: Any, reference: Any, mask: Any, factor: float) -> None:
        super().__init__(factor * weight, spacing, 1, reference, mask)


class Scaled:
    """m = m_start + scale · theta in the free cells."""

    def __init__(self, shape: Any, mask: Any, reference: Any, dtype: Any, scale: float = 1.0, power: int = 1) -> None:
        self._mask, self._reference, self._scale, self._dtype, self.power = mask, reference, scale, dtype, power
        self.size = int(mask.sum())
        assert shape == mask.shape == reference.shape

    def to_field(self, theta: Any) -> Any:
        field = dnp.array(self._reference.astype(self._dtype))
        field[self._mask] = self._reference[self._mask] + self._scale * theta**self.power
        return field

    def from_field(self, field: Any) -> Any:
        return (field - self._reference)[self._mask] / self._scale

    def bounds(self) -> Bounds:
        return Bounds(np.full(self.size, -2.0), np.full(self.size, 2.0))


class Typeless:
    def __init__(self, strength) -> None: ...  # type: ignore[no-untyped-def]

    def __call__(self, field: Any) -> Any:
        return field


def warm(unknown: dict[str, Any], *penalties: dict[str, Any], **others: Any) -> Scene:
    tables = {"unknowns__T": {"start": {"constant": 0.5}} | unknown, "penalty": [{"unknown": "T"} | table for table in penalties]}
    return scene(copy.deepcopy(HEAT), **tables, accept=[], **others)


def test_penalties() -> None:
    """One that is a sum, and one that is an integral with a spacing and a weight."""
    sums = {"type": Level, "value": 2.0, "weight": 0.3}
    slopes = {"type": Rough, "factor": 2.0, "length": 3.0, "weight": 0.7}
    packaged = {"type": "tikhonov", "order": 1, "length": 3.0, "weight": 1.4}
    mask = {"margin": 2}
    objective = warm({"mask": mask}, sums, slopes).objective("f64")
    free = objective.problem.free["T"]
    field = np.random.default_rng(1).standard_normal(free.shape)
    values, bars = objective.penalty({"T": field, "kappa": field})
    plain, plain_bars = warm({"mask": mask}, packaged).objective("f64").penalty({"T": field, "kappa": field})
    first, second = values.values()
    assert first == pytest.approx(0.3 * 0.5 * np.sum((field[free] - 2.0) ** 2), rel=1e-12)
    assert second == pytest.approx(sum(plain.values()), rel=1e-12)
    expected = 0.3 * np.where(free, field - 2.0, 0.0) + plain_bars["T"]
    np.testing.assert_allclose(bars["T"], expected, rtol=1e-12, atol=1e-14)


def test_a_parametrisation_gives_the_gradient_of_the_packaged_one() -> None:
    mask = {"margin": 3}
    mine = warm({"type": Scaled, "scale": 0.2, "mask": mask}).objective("f64")
    theirs = warm({"scale": 0.2, "mask": mask}).objective("f64")
    theta = mine.problem.theta + 0.3 * np.random.default_rng(1).standard_normal(mine.problem.theta.size)
    assert mine.problem.theta.size == theirs.problem.theta.size == mine.problem.free["T"].sum() + 2
    evaluation, expected = mine.evaluate(theta), theirs.evaluate(theta)
    assert evaluation.value == pytest.approx(expected.value, rel=1e-12)
    np.testing.assert_allclose(evaluation.gradient, expected.gradient, rtol=1e-10, atol=1e-14)
    assert mine.problem.unknowns.bounds().lb[0] == -2.0


def test_both_in_a_file_and_in_python(tmp_path: Path) -> None:
    case = warm({"type": Scaled, "power": 3}, {"type": Level, "weight": 1.0})
    (tmp_path / "s.toml").write_text(to_toml(case), encoding="utf-8")
    loaded = Scene.load(tmp_path / "s.toml", allow_code=True)
    assert (loaded.unknowns, loaded.penalty) == (case.unknowns, case.penalty)
    assert pickle.loads(pickle.dumps(case)).unknowns == case.unknowns
    theta = loaded.problem("f64").theta + 0.5
    assert loaded.problem("f64").unknowns.split(theta)["T"].ravel() == pytest.approx(0.5 + 0.5**3)
    with pytest.raises(SceneError) as caught:
        Scene.load(tmp_path / "s.toml")
    assert str(caught.value).splitlines()[0].startswith(f"unknowns.T.type: expected permission to run the code of {HERE}, found none")
    assert str(caught.value).splitlines()[1].startswith(f"penalty[0].type: expected permission to run the code of {HERE}, found none")


def test_the_certificate_of_both() -> None:
    assert certify(warm({"type": Scaled, "scale": 0.2, "power": 3}, {"type": Level, "weight": 0.01})).passed


def test_a_stage_goes_on_from_the_answer_before() -> None:
    case = warm({"type": Scaled, "scale": 0.2}, stage=[{"iterations": 2}, {"iterations": 1}])
    losses = [progress.loss for progress in case.run(precision="f64").history]
    assert len(losses) == 5 and losses[3] == pytest.approx(losses[2], rel=1e-9) and losses[4] < losses[2] < losses[1] < losses[0]


@pytest.mark.parametrize("kind", [Level, Scaled])
def test_their_code_belongs_to_the_identity_of_a_run(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    case = warm({"type": Scaled}, {"type": Level, "weight": 1.0})
    before = identify(case, "f64")
    monkeypatch.setattr("diffsim.scene.disk.folder.code_digest", lambda each: "changed" if each is kind else None)
    changed = identify(case, "f64")
    monkeypatch.setattr("diffsim.scene.disk.folder.code_digest", lambda each: None)
    assert changed not in (before, identify(case, "f64"))


@pytest.mark.parametrize(
    ("unknown", "penalty", "expected"),
    [
        (
            {"type": "cell"},
            None,
            "unknowns.T.type: expected one of cells, density, okada, outline, or a class such as mypackage.module:Class, found 'cell'; did",
        ),
        ({"type": 3}, None, "unknowns.T.type: expected text, found 3"),
        (
            {"type": Level},
            None,
            "unknowns.T.type: expected a parametrisation, which is a class with to_field and from_field and bounds, found",
        ),
        ({"type": Scaled, "scale": "x"}, None, "unknowns.T.scale: expected a number, found 'x'"),
        (
            {"type": Scaled, "lower": 0.0},
            None,
            "unknowns.T: expected no lower with Scaled, whose constructor has no such argument, found 0.0",
        ),
        ({"type": Scaled, "powr": 2}, None, "unknowns.T.powr: expected one of "),
        ({}, {"type": "tikonov", "weight": 1.0}, "penalty[0].type: expected one of tikhonov, total_variation, or a class such as"),
        ({}, {"weight": 1.0}, "penalty[0].type: expected a value, found none; add the type"),
        ({}, {"type": Level}, "penalty[0].weight: expected a value, found none"),
        ({}, {"type": Level, "weight": 1.0, "length": 2.0}, "penalty[0].length: expected one of type, unknown, of, weight, value"),
        ({}, {"type": Typeless, "weight": 1.0}, "penalty[0]: type: argument strength of Typeless: expected an annotation or a default"),
        ({}, {"type": Rough, "factor": 1.0, "weight": 1.0, "length": [1.0, 1.0, 1.0]}, "penalty[0]: length: expected one number, or 2"),
    ],
)
def test_each_mistake_is_one_line(unknown: dict[str, Any], penalty: dict[str, Any] | None, expected: str) -> None:
    with pytest.raises(SceneError) as caught:
        warm(unknown, *([penalty] if penalty else [])).problem("f64")
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_registered_classes_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {
        "diffsim.penalties": [EntryPoint("level", f"{HERE}:Level", "")],
        "diffsim.parametrisations": [EntryPoint("scaled", f"{HERE}:Scaled", "")],
    }
    monkeypatch.setattr(own, "entry_points", lambda group: entries.get(group, []))
    case = warm({"type": "scaled"}, {"type": "level", "weight": 1.0})
    assert case.unknowns["T"].of_class is Scaled and case.penalty[0].of_class is Level
    assert case.unknowns["kappa"].of_class is Parametrisation


def test_the_examples_of_the_page_run_from_the_command(tmp_path: Path) -> None:
    """A misfit, a penalty and a parametrisation of a user's own, in one scene."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)

    def block(kind: str, having: str) -> str:
        (text,) = (text for each, text in blocks if each == kind and having in text)
        return text

    whole = block("toml", "Where was the plate heated")
    without = re.sub(r"(\[unknowns\.T\]|\[\[penalty\]\]|\[\[misfit\]\]).*\n(?:.+\n)+", "", whole)
    assert not re.search("unknowns.T|penalty|misfit]]", without)
    (tmp_path / "robust.py").write_text(block("python", "class LogMisfit"), encoding="utf-8")
    (tmp_path / "shapes.py").write_text(block("python", "class Cosines"), encoding="utf-8")
    parts = (without, block("ini", "robust:LogMisfit"), block("ini", "shapes:Cosines"))
    (tmp_path / "plate.toml").write_text("\n".join(parts), encoding="utf-8")
    command = [sys.executable, "-m", "diffsim", "run", "plate.toml", "--allow-code"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


class Squares:
    """A misfit that forgets to add up."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __call__(self, predicted: Any) -> Any:
        return (predicted - self._data) ** 2


class Words(Squares):
    def __call__(self, predicted: Any) -> Any:
        return "much"


class Slopes:
    """A penalty that forgets to add up."""

    def __call__(self, field: Any) -> Any:
        return dnp.diff(field, axis=0) ** 2


class Nothing:
    """A penalty that forgets to return."""

    def __call__(self, field: Any) -> None:
        dnp.sum(field)


class Rows(Scaled):
    """A parametrisation whose vector is a table."""

    def from_field(self, field: Any) -> Any:
        return super().from_field(field)[:, None]


class Flat(Scaled):
    """A parametrisation whose field is a vector."""

    def to_field(self, theta: Any) -> Any:
        return super().to_field(theta).reshape(-1)


class Short(Scaled):
    """A parametrisation with bounds for one unknown."""

    def bounds(self) -> Bounds:
        return Bounds([-2.0], [2.0])


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(("kind", "found"), [(Squares, r"an array of shape \(\d+, \d+\)"), (Words, "'much'")])
def test_a_misfit_that_gives_no_number(kind: type, found: str, normalise: bool) -> None:
    table = {"of": "final", "state": "T"}
    case = warm({}, misfit=[table, {**table, "type": kind, "normalise": normalise}])
    with pytest.raises(SceneError, match=rf"^misfit\[1\]: expected one number from __call__, got {found}; let it return one[^\n]*$"):
        case.objective("f64").evaluate(case.problem("f64").theta)


@pytest.mark.parametrize(("kind", "found"), [(Slopes, "an array of shape"), (Nothing, "None")])
def test_a_penalty_that_gives_no_number(kind: type, found: str) -> None:
    case = warm({}, {"type": "tikhonov", "weight": 1.0}, {"type": kind, "weight": 1.0})
    with pytest.raises(SceneError, match=rf"^penalty\[1\]: expected one number from __call__, got {found}.*; let it return one"):
        case.objective("f64").evaluate(case.problem("f64").theta)


@pytest.mark.parametrize(("kind", "method"), [(Rows, "from_field"), (Flat, "to_field"), (Short, r"bounds\(\).lb")])
def test_a_parametrisation_that_gives_another_shape(kind: type, method: str) -> None:
    with pytest.raises(
        SceneError, match=rf"^unknowns\.T: {method}: expected the shape \(.*\), .*, got \(.*\); correct the returned array$"
    ):
        warm({"type": kind}).problem("f64")
