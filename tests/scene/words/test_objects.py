"""Objects in the place of classes: misfits, penalties and parametrisations with a state of their own."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim.numpy as dnp
from diffsim.errors import SceneError
from diffsim.losses import HuberMisfit, L2Misfit, SmoothedTotalVariation
from diffsim.optimize import Parametrisation
from diffsim.scene import Scene
from diffsim.scene.disk.folder import identify
from diffsim.scene.schema.toml import to_toml
from tests.sampled import sampled
from tests.scene.tiny import ACOUSTIC, scene
from tests.scene.words.test_own_parts import Level, Scaled, Typeless, warm

HERE = "tests.scene.words.test_objects"


class Scattered:
    """Squares over the variance of each receiver, which the object holds."""

    def __init__(self, deviation: Any) -> None:
        self.deviation = deviation

    def __call__(self, predicted: Any, data: Any, mask: Any = True) -> Any:
        return 0.5 * dnp.sum(dnp.where(mask, (predicted - data) / self.deviation, 0.0) ** 2)


class Near:
    """Half the squared distance from a field, and from the start of the search as far as `share` says."""

    def __init__(self, field: Any, share: float = 0.0) -> None:
        self.field, self.share = field, share

    def __call__(self, field: Any, reference: Any) -> Any:
        return 0.5 * dnp.sum((field - (1 - self.share) * self.field - self.share * reference) ** 2)


class Greedy(Near):
    def __call__(self, field: Any, more: Any) -> Any:  # type: ignore[override]
        return dnp.sum(field * more)


class Closed(Near):
    def __reduce__(self) -> Any:
        raise TypeError("a handle of a file")


def heard(**misfit: Any) -> Scene:
    return scene(ACOUSTIC, misfit=[{"of": "traces", "state": "p"} | misfit], penalty=[])


def test_a_misfit_gets_the_data_of_each_shot() -> None:
    deviation = 1.0 + np.arange(5.0)
    mine = heard(type=Scattered(deviation), window=[0.0, 0.03]).objective("f64")
    theirs = heard(type="l2", window=[0.0, 0.03]).objective("f64")
    evaluation, other = mine.evaluate(mine.problem.theta), theirs.evaluate(theirs.problem.theta)
    assert evaluation.value != pytest.approx(other.value, rel=1e-3)
    data, predicted = mine.observed.traces["p"][:, :16], evaluation.predicted["traces", "p"][:, :16]
    expected = np.sum(((predicted - data) / deviation) ** 2) / np.sum((data / deviation) ** 2)
    assert evaluation.value == pytest.approx(expected, rel=1e-10)
    plain = heard(type=Scattered(1.0), window=[0.0, 0.03]).objective("f64")
    np.testing.assert_allclose(plain.evaluate(plain.problem.theta).gradient, other.gradient, rtol=1e-9, atol=1e-14)


def test_a_penalty_is_called_with_the_field() -> None:
    near = Near(np.full((12, 11), 2.0), share=0.5)
    objective = warm({}, {"type": near, "weight": 3.0}).objective("f64")
    field = np.random.default_rng(1).standard_normal((12, 11))
    values, bars = objective.penalty({"T": field, "kappa": field})
    (value,) = values.values()
    assert value == pytest.approx(1.5 * np.sum((field - 1.25) ** 2), rel=1e-12)
    np.testing.assert_allclose(bars["T"], 3.0 * (field - 1.25), rtol=1e-12)
    assert warm({}, {"type": SmoothedTotalVariation(1.0, (1.0, 1.0), 0.1), "weight": 2.0}).objective("f64").penalty({"T": field})


@pytest.mark.parametrize("made", sampled([Parametrisation((12, 11), np.float64, scale=0.2, reference=0.5), None]))
def test_a_parametrisation_is_used_as_it_is(made: Parametrisation | None) -> None:
    mask = np.ones((12, 11), bool)
    mine = warm({"type": made or Scaled(mask.shape, mask, np.full((12, 11), 0.5), np.float64, 0.2)}).objective("f64")
    theirs = warm({"scale": 0.2}).objective("f64")
    theta = mine.problem.theta + 0.3
    np.testing.assert_allclose(mine.evaluate(theta).gradient, theirs.evaluate(theta).gradient, rtol=1e-10, atol=1e-14)


def test_the_state_belongs_to_the_identity_of_a_run(tmp_path: Path) -> None:
    first, same, other = (heard(type=Scattered(np.full(5, value))) for value in (1.0, 1.0, 2.0))
    assert identify(first, "f64") == identify(same, "f64") != identify(other, "f64")
    assert first.misfit == same.misfit != other.misfit
    assert first.misfit[0].type.startswith(f"{HERE}:Scattered object ")
    first.run(tmp_path, precision="f64")
    with pytest.raises(SceneError, match=r"--resume: expected in .* a run of this scene, precision and arch, found another"):
        other.run(tmp_path, resume=True, precision="f64")
    assert same.run(tmp_path, resume=True, precision="f64").loss_parts
    with pytest.raises(SceneError, match=r"type: expected a class, found '.*cattered object .*', which no file can hold; give the object"):
        Scene.load(tmp_path / "scene.toml", allow_code=True)


def test_another_process_finds_the_same_state(tmp_path: Path) -> None:
    case = heard(type=Scattered(np.arange(1.0, 6.0)))
    (tmp_path / "scene").write_bytes(pickle.dumps(case))
    code = (
        "import pickle, sys; from tests.scene.words.test_objects import *; from diffsim.scene.words.typed import PartObject\n"
        "found = pickle.loads(open(sys.argv[1], 'rb').read()).misfit[0]\n"
        "print(found.type, found.instance(data=1.0)(np.zeros(5)), heard(type=Scattered(np.arange(1.0, 6.0))).misfit[0].type)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "scene")], capture_output=True, text=True, check=True
    ).stdout.split()
    name = case.misfit[0].type.split()
    assert printed[:3] == name == printed[4:] and float(printed[3]) == pytest.approx(0.5 * sum(1 / k**2 for k in range(1, 6)))


@pytest.mark.parametrize(
    ("misfit", "expected"),
    [
        (L2Misfit([1.0]), "misfit[0]: type: expected an object that is called with predictions and data, for a scene has the data of each"),
        (
            HuberMisfit([1.0], delta=1.0),
            "one of HuberMisfit, which is called without data; give HuberMisfit itself, or a functools.partial of",
        ),
        (Level(1.0), "found one of Level, which is called without data; let __call__ take data"),
        (print, "misfit[0].type: expected a misfit, which is a class with __call__, found"),
        (3, "misfit[0].type: expected text, found 3"),
        (Parametrisation((3,)), "misfit[0].type: expected text, found Parametrisation"),
        (Closed(1.0), "misfit[0].type: expected an object that can be pickled, by which a resumed run knows it again, found"),
    ],
)
def test_objects_that_are_no_misfits(misfit: Any, expected: str) -> None:
    with pytest.raises(SceneError) as caught:
        heard(type=misfit)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("unknown", "penalty", "expected"),
    [
        (
            {},
            {"type": Greedy(1.0), "weight": 1.0},
            "called with arguments of weight, spacing, reference, mask, found more; give it a default",
        ),
        ({}, {"type": Near(1.0), "weight": 1.0, "share": 0.5}, "penalty[0].share: expected one of type, unknown, of, weight, found"),
        (
            {"type": Parametrisation((12, 11)), "mask": {"margin": 2}},
            None,
            "unknowns.T: expected no mask with an object, which has its own",
        ),
        ({"type": Parametrisation((12, 11)), "scale": 2.0}, None, "unknowns.T: expected no scale with Parametrisation, whose constructor"),
        ({"type": Typeless(1.0)}, None, "unknowns.T.type: expected a parametrisation, which is a class with to_field"),
    ],
)
def test_keys_that_objects_do_not_have(unknown: dict[str, Any], penalty: dict[str, Any] | None, expected: str) -> None:
    with pytest.raises(SceneError) as caught:
        warm(unknown, *([penalty] if penalty else []))
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_an_object_is_written_by_its_name() -> None:
    case = warm({}, {"type": Near(1.0), "weight": 1.0})
    assert f'type = "{HERE}:Near object ' in to_toml(case)
