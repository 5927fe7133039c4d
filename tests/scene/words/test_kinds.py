"""Classes of a user's own that name their kind: a scene knows them by it, as it knows those of diffsim."""

from __future__ import annotations

import copy
import importlib
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import new_class
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.boundary import KINDS as RULES
from diffsim.errors import ParameterError, SceneError
from diffsim.losses import L2Misfit, Penalty, Tikhonov, TraceMisfit
from diffsim.losses.data_misfit import KINDS as MISFIT_KINDS
from diffsim.losses.regularise import KINDS as PENALTY_KINDS
from diffsim.mesh.grid import Grid
from diffsim.optimize import NamedUnknown, Parametrisation
from diffsim.optimize.parametrise import KINDS as UNKNOWN_KINDS
from diffsim.reference import keys
from diffsim.scene import Scene
from diffsim.scene.disk.source import code_digest
from diffsim.scene.schema import misfit_keys, penalty_keys, schema
from diffsim.scene.schema.misfit_keys import MISFITS
from diffsim.scene.schema.penalty_keys import PENALTIES
from diffsim.scene.schema.schema import PARAMETRISATIONS
from diffsim.scene.schema.toml import to_toml
from diffsim.scene.words import equations
from diffsim.scene.words.equations import EQUATIONS
from diffsim.solvers import Heat, bodies
from diffsim.stepping.declare.equation import KINDS as EQUATION_KINDS
from tests.scene.tiny import HEAT

FAMILIES = {"equation": EQUATIONS, "misfit": MISFITS, "penalty": PENALTIES, "parametrisation": PARAMETRISATIONS}
BASES: dict[str, type] = {"equation": Heat, "misfit": TraceMisfit, "penalty": Tikhonov, "parametrisation": Parametrisation}
"""A class of diffsim of each family, to derive from: most have a kind themselves."""
WORDS = {
    "equation": "acoustic advection burgers dg_acoustic dg_advection elastic euler heat kolmogorov kuramoto_sivashinsky long_wave "
    "lorenz96 lorenz96_two_scale maxwell navier_stokes quasi_geostrophic reaction_diffusion schroedinger shallow_water visco_acoustic",
    "misfit": "cross_correlation envelope huber l2 log_amplitude wasserstein",
    "penalty": "tikhonov total_variation",
    "parametrisation": "cells density okada outline",
}
MODULE = """
import numpy
from scipy.optimize import Bounds

import diffsim.numpy as np
from diffsim.losses import DataMisfit, Penalty
from diffsim.optimize import NamedUnknown
from diffsim.solvers import Heat


class Rod(Heat, kind="rod"):
    def __init__(self, grid, dt, faster: float = 1.0):
        super().__init__(grid, faster * dt)
        self.dt = faster * dt


class Cubes(DataMisfit, kind="cubes"):
    def __init__(self, data, weight=1.0, mask=None, scale: float = 1.0):
        super().__init__(data, weight, mask)
        self.scale = scale

    def compare(self, values):
        return np.sum(self.weight * np.abs((values - self.data) / self.scale) ** 3)


class Mean(Penalty, kind="mean"):
    def __init__(self, mask, value: float = 0.0):
        self.mask, self.value = mask, value

    def __call__(self, field):
        return (np.mean(field[self.mask]) - self.value) ** 2


class Level(NamedUnknown, kind="level"):
    size = 1

    def __init__(self, reference, dtype, scale: float = 1.0):
        self.reference, self.dtype, self.scale = reference, dtype, scale

    def to_field(self, theta):
        return (self.reference + self.scale * theta[0]).astype(self.dtype)

    def from_field(self, field):
        return numpy.array([numpy.mean(field - self.reference) / self.scale])

    def bounds(self):
        return Bounds([-numpy.inf], [numpy.inf])
"""
GRID = Grid((8, 8), 10.0)
VALUES = np.random.default_rng(1).uniform(0.5, 1.5, GRID.shape)
NAMES = {"rod": "Rod", "cubes": "Cubes", "mean": "Mean", "level": "Level"}


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes that a test defines have no names after it."""
    for known in (EQUATION_KINDS, MISFIT_KINDS, PENALTY_KINDS, UNKNOWN_KINDS):
        monkeypatch.setattr(known, "_classes", dict(known))


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of a user's own, imported."""
    (tmp_path / "mine_kinds.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("mine_kinds")
    del sys.modules["mine_kinds"]


def tables(name: Callable[[str], Any] = str) -> dict[str, Any]:
    """A scene with a class of each family.

    Args:
        name: kind -> what `type` says.
    """
    scene = copy.deepcopy(HEAT) | {"equation": {"type": name("rod"), "faster": 0.5}, "accept": []}
    scene["unknowns"]["T"] = {"type": name("level"), "scale": 2.0, "start": {"constant": 0.5}}
    scene["misfit"] = [{"type": name("cubes"), "scale": 2.0, "of": "final", "state": "T"}]
    scene["penalty"] = [{"type": name("mean"), "value": 1.0, "unknown": "T", "weight": 1e-3}]
    scene["optimise"] = {"iterations": 2}
    return scene


def classes(scene: Scene) -> list[type]:
    return [scene.equation.of_class, scene.misfit[0].of_class, scene.penalty[0].of_class, scene.unknowns["T"].of_class]


def derived(name: str, base: type, module: str = __name__, **keywords: str) -> type:
    """A class that derives from a base."""
    return new_class(name, (base,), keywords, lambda body: body.update(__module__=module))


@pytest.mark.parametrize("family", FAMILIES)
def test_packaged_classes_enter_themselves_and_are_sorted(family: str) -> None:
    assert " ".join(FAMILIES[family].packaged) == WORDS[family]
    assert FAMILIES[family].words == FAMILIES[family].packaged
    assert all(FAMILIES[family].name_of(kind) == word for word, kind in FAMILIES[family].packaged.items())


def filled(model: Any, **given: Any) -> Any:
    """A model of a part, with the numbers 1, 2, ... for the keys that its class needs."""
    needed = [name for name, field in model.model_fields.items() if field.is_required() and name not in given]
    return model(**given, **{name: 1.0 + number for number, name in enumerate(needed)})


@pytest.mark.parametrize("word", EQUATIONS.packaged)
def test_a_scene_builds_each_packaged_equation(word: str) -> None:
    kind = EQUATIONS.packaged[word]
    grid = ds.Grid((40,), 10.0) if word in ("kuramoto_sivashinsky", "lorenz96", "lorenz96_two_scale") else GRID
    options = {"waves": 2} if word == "kolmogorov" else {}
    assert type(filled(equations.model_of(word, kind), type=word, **options).build(grid, 1e-6)) is kind


@pytest.mark.parametrize("word", MISFITS.packaged)
def test_a_scene_builds_each_packaged_misfit(word: str) -> None:
    kind = MISFITS.packaged[word]
    model = filled(misfit_keys.model_of(word, kind), type=word, of="traces", state="p")
    misfit = model.instance(data=VALUES, weight=1.0, mask=np.ones(GRID.shape, bool), dt=0.1)
    assert type(misfit) is kind and np.isfinite(misfit(VALUES + 0.1))


@pytest.mark.parametrize("word", PENALTIES.packaged)
def test_a_scene_builds_each_packaged_penalty(word: str) -> None:
    model = filled(penalty_keys.model_of(word, PENALTIES.packaged[word]), type=word, unknown="c", weight=2.0)
    penalty = model.built(np.zeros(GRID.shape), np.ones(GRID.shape, bool), (10.0, 10.0))
    assert np.isfinite(penalty(VALUES)) and np.isfinite(ds.grad(penalty)(VALUES)).all()


@pytest.mark.parametrize("word", PARAMETRISATIONS.packaged)
def test_a_scene_builds_each_packaged_parametrisation(word: str) -> None:
    kind = PARAMETRISATIONS.packaged[word]
    options = {"centres": [[30.0, 35.0]]} if word == "okada" else {}
    model = filled(schema.unknown_of(word, kind), type=word, **options)
    start = bodies.cylinder(GRID, (30.0, 35.0), 20.0) if word == "outline" else np.full(GRID.shape, 1.5)
    unknown = model.instance(shape=GRID.shape, dtype=np.float64, mask=np.ones(GRID.shape, bool), reference=start, grid=GRID)
    assert type(unknown) is kind and unknown.to_field(np.zeros(unknown.size)).shape == GRID.shape


@pytest.mark.parametrize("family", FAMILIES)
def test_a_subclass_without_a_kind_has_none(family: str) -> None:
    before = FAMILIES[family].words
    kind = derived("Derived", BASES[family])
    assert FAMILIES[family].words == before
    assert FAMILIES[family].name_of(kind) == f"{__name__}:Derived"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_kind_that_another_class_has_is_refused(family: str) -> None:
    word, other = next(iter(FAMILIES[family].packaged.items()))
    with pytest.raises(
        ParameterError, match=rf"kind = '{word}' of Other, expected a name that no other {family} has, got that of {other.__name__} in"
    ):
        derived("Other", BASES[family], kind=word)
    assert FAMILIES[family].words[word] is other


def test_a_class_of_diffsim_keeps_its_name_though_it_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(EQUATION_KINDS._classes, "heat")

    class Warm(Heat, kind="heat"): ...

    with pytest.raises(ParameterError, match=r"kind = 'heat' of Warm, .* got that of Later in diffsim\.solvers\.later; choose another"):
        derived("Later", Heat, "diffsim.solvers.later", kind="heat")
    assert EQUATION_KINDS["heat"] is Warm


@pytest.mark.parametrize("family", FAMILIES)
def test_a_kind_of_a_user_is_a_word_but_no_packaged_one(family: str) -> None:
    kind = derived("Made", BASES[family], kind="a_made_one")
    assert list(FAMILIES[family].words) == sorted(["a_made_one", *WORDS[family].split()])
    assert " ".join(FAMILIES[family].packaged) == WORDS[family]
    assert FAMILIES[family].find("a_made_one", "key", None, False) is kind
    assert FAMILIES[family].name_of(kind) == f"{__name__}:Made", "which a process that has not imported it can import"
    with pytest.raises(SceneError, match="a_made_one"):
        FAMILIES[family].find("a_mad_one", "key", None, False)


def test_the_reference_has_packaged_classes_only(mine: Any) -> None:
    keys.parts_of_scenes.cache_clear()
    assert not {"equation.rod", "misfit.cubes", "penalty.mean", "unknowns.level"} & set(keys.parts_of_scenes())


def test_a_scene_is_the_same_by_kind_and_by_module(mine: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(to_toml(Scene(**tables())), encoding="utf-8")
    by_kind = Scene.load(path)
    by_module = Scene(**tables(lambda kind: getattr(mine, NAMES[kind])))
    assert classes(by_kind) == classes(by_module) == [getattr(mine, name) for name in NAMES.values()]
    assert by_kind.equation.type == "rod" and by_module.equation.type == "mine_kinds:Rod"
    assert all(code_digest(kind) for kind in classes(by_kind)), "they are no code of diffsim's"
    assert pickle.loads(pickle.dumps(by_kind)) == by_kind
    outcomes = [scene.run(tmp_path / name, precision="f64") for name, scene in (("a", by_kind), ("b", by_module))]
    first, second = (np.load(tmp_path / name / "result.npz") for name in "ab")
    assert outcomes[0].history[-1].loss < outcomes[0].history[0].loss
    assert first.files == second.files and all(np.array_equal(first[name], second[name]) for name in first.files)


def loss(made: Scene) -> float:
    objective = made.objective("f64")
    return objective.value(objective.problem.theta)


def test_it_goes_to_a_process_that_has_not_imported_the_class(mine: Any) -> None:
    scene = Scene(**tables())
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(loss, scene).result(300) == loss(scene)


def test_a_process_that_has_not_imported_the_class_says_so(mine: Any, tmp_path: Path) -> None:
    """Also when it resumes a run that another process began."""
    path, folder = tmp_path / "mine.toml", tmp_path / "run"
    path.write_text(to_toml(Scene(**tables())), encoding="utf-8")
    Scene.load(path).run(folder)
    command = [sys.executable, "-m", "diffsim", "run", str(path), "--out", str(folder), "--resume"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    for line, word, kind in zip(
        lines[-4:], ("equation", "unknowns.T", "misfit[0]", "penalty[0]"), ("rod", "level", "cubes", "mean"), strict=True
    ):
        assert f"{word}.type: expected one of " in line and f"found '{kind}'; " in line, done.stderr
        assert line.endswith("(a kind of your own is known where its module has been imported)")


def test_a_kind_that_a_scene_cannot_build_is_refused_where_it_is_named() -> None:
    class Bare(TraceMisfit, kind="bare"):
        def __init__(self) -> None: ...

    with pytest.raises(SceneError, match=r"misfit\[0\]: expected a constructor of Bare with the argument data, found none; add it"):
        Scene(**copy.deepcopy(HEAT) | {"misfit": [{"type": "bare", "of": "final", "state": "T"}]})


@pytest.mark.parametrize(("family", "base"), [("penalty", Penalty), ("parametrisation", NamedUnknown)])
def test_a_class_with_a_kind_and_without_its_methods_is_refused_where_it_is_named(family: str, base: type) -> None:
    bare = derived("Bare", base, kind="bare")
    assert FAMILIES[family].words["bare"] is bare and not FAMILIES[family].accepts(bare)
    with pytest.raises(
        SceneError, match=rf"part\.type: expected a {family}, which is a class with .*, found bare, which is the class Bare; write"
    ):
        FAMILIES[family].find("bare", "part", None, False)


def test_families_do_not_share_names() -> None:
    class Zero(L2Misfit, kind="zero"): ...

    assert MISFITS.words["zero"] is Zero and RULES["zero"] is not Zero and "zero" not in EQUATIONS.words
