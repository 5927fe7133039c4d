"""Misspelt options of a user's class give a warning, for each class of diffsim and each of its options; a user's own attributes none."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest

import diffsim as ds
from diffsim.base.messages import silenced
from diffsim.boundary import Rule
from diffsim.checkpoint.schedule import AnySchedule
from diffsim.errors import MisspeltWarning
from diffsim.expr import laplacian
from diffsim.losses import DataMisfit
from diffsim.optimize import NamedUnknown

BASES = (ds.Equation, ds.Steady, ds.ODE, ds.solvers.Heat, Rule, AnySchedule, DataMisfit, NamedUnknown)
GRID = ds.Grid((5,), 1.0)


def options(base: type) -> list[tuple[str, Any]]:
    """The public attributes and methods of a class, with their defaults."""
    return [(name, getattr(base, name)) for name in dir(base) if not name.startswith("_") and len(name) > 4]


def misspellings(name: str) -> Iterator[str]:
    """One letter left out, doubled, exchanged with the next, or replaced, at a drawn place each; and a capital."""
    rng = np.random.default_rng(len(name))
    k = int(rng.integers(1, len(name) - 2))
    yield name[:k] + name[k + 1 :]
    yield name[:k] + name[k] + name[k:]
    if len(name) > 7:
        yield name[:k] + name[k + 1] + name[k] + name[k + 2 :]
        yield name[:k] + "x" + name[k + 1 :]
    yield name.capitalize()


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_a_misspelt_option_gives_a_warning(base: type) -> None:
    warned = 0
    for right, usual in options(base):
        for wrong in misspellings(right):
            if hasattr(base, wrong) or "__" in wrong:
                continue
            with pytest.warns(MisspeltWarning, match=rf"Own sets {wrong}, which .* expected \w+, as {base.__name__} has it; re") as caught:
                type("Own", (base,), {wrong: usual})
            assert [each.filename for each in caught] == [__file__]
            warned += 1
    assert warned > 5


@pytest.mark.parametrize("base", [ds.Equation, ds.Steady, ds.solvers.Heat], ids=lambda base: base.__name__)
def test_so_is_one_of_an_option_without_a_default(base: type) -> None:
    for wrong in misspellings("states"):
        with pytest.warns(MisspeltWarning, match=f"Own sets {wrong}, .* expected states, as {base.__name__} has it; rename it states"):
            type("Own", (base,), {wrong: {"u": ds.Variable("zero")}})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        type("Own", (base,), {"state": lambda self: {}})  # a method of the user's own


@pytest.mark.parametrize("prefix", ["max_", "num_", "n_"])
def test_so_is_one_with_the_prefix_of_a_number(prefix: str) -> None:
    with pytest.warns(MisspeltWarning, match=f"Own sets {prefix}iterations, .* expected iterations, as Steady has it"):
        type("Own", (ds.Steady,), {f"{prefix}iterations": 5})


def an_equation(**attributes: Any) -> Any:
    """An object of a class whose constructor sets attributes."""

    class Wall(ds.Steady):
        def __init__(self) -> None:
            self.grid, self.states = GRID, {"T": ds.Variable("zero")}
            for name, value in attributes.items():
                setattr(self, name, value)

        def residual(self, T: Any) -> Any:
            return laplacian(T) + 1.0

    return Wall()


@pytest.mark.parametrize("right", ["tolerance", "iterations", "method", "preconditioner", "stable_dt_power", "time_unit"])
def test_so_is_one_of_an_object(right: str) -> None:
    usual = {"tolerance": 1e-6, "preconditioner": ds.BlockJacobi((2,))}.get(right, getattr(ds.Steady, right))
    for wrong in misspellings(right):
        with pytest.warns(MisspeltWarning, match=rf"Wall sets {wrong}, which its module does not read, expected {right}, as Steady has it"):
            ds.steady(an_equation(**{wrong: usual}))
        ds.steady(an_equation(**{wrong: usual, right: usual}))  # beside the option itself, it is no misspelling of it


def test_so_is_one_of_an_object_of_a_packaged_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffsim.base.misspelt._warned", WeakKeyDictionary())
    heat = ds.solvers.Heat(GRID, 0.1)
    heat.tolerence = 1e-6
    ds.Simulation(heat)  # which has no tolerance
    heat.stable_dt_powr = 1.0
    with pytest.warns(MisspeltWarning, match="expected stable_dt_power, as Heat has it"):
        ds.Simulation(heat)


def test_a_boundary_belongs_to_a_field() -> None:
    for name in ("boundary", "boundry", "boundarys"):
        with pytest.warns(MisspeltWarning, match=rf"Own sets {name}, which .* expected boundary as an argument of Variable; wr"):
            type("Own", (ds.Steady,), {name: "mirror"})
        with pytest.warns(MisspeltWarning, match=rf"Own sets {name}, .* expected boundary as an argument of Heat; give it to super"):
            type("Own", (ds.solvers.Heat,), {name: "mirror"})


def _warnings(code: Any) -> list[str]:
    """The beginnings of the warnings of a call, under the filter that Python has by default."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        code()
    return [str(each.message).partition(",")[0] for each in caught if each.category is MisspeltWarning]


@pytest.mark.parametrize("slots", [False, True])
def test_each_class_and_name_gives_one_warning(slots: bool) -> None:
    """That of a dataclass with slots is made a second time, which gives none."""

    def define() -> None:
        @dataclasses.dataclass(slots=slots)
        class Own(ds.Equation):
            states = {"u": ds.Variable("zero")}  # noqa: RUF012
            grid: Any = GRID
            dt: float = 1.0
            forcing: tuple[str, ...] = ()
            uniforms: tuple[str, ...] = dataclasses.field(default_factory=tuple)

            def coeficients(self, **fields: Any) -> Any:
                return {}

            def step(self, u: Any) -> Any:
                return {"u": u}

        own.append(Own())

    own: list[Any] = []
    assert _warnings(define) == ["Own sets forcing", "Own sets coeficients"]
    with silenced():
        assert not _warnings(lambda: ds.Simulation(own[0]))
    assert _warnings(lambda: ds.Simulation(own[0])) == ["Own sets uniforms"] * (not slots)  # without a slot for it
    own[0].profile = {}
    assert _warnings(lambda: ds.Simulation(own[0])) == ["Own sets profile"]
    assert not _warnings(lambda: ds.Simulation(own[0]))
    assert len(_warnings(define)) == 2  # another class


class Reads(ds.Steady):
    """Attributes with names like those of options, each of which something reads."""

    speeds = "fast"
    unit_time = "h"
    tolerances = 1e-3
    iteration = 3

    def __init__(self) -> None:
        self.grid, self.states = GRID, {"T": ds.Variable("zero")}
        self.methods = getattr(self, "tolerances")  # noqa: B009

    def residual(self, T: Any) -> Any:
        return laplacian(T) + self.iteration


def test_an_attribute_that_is_read_is_the_users_own() -> None:
    reads = Reads()
    ds.steady(reads)
    assert reads.speeds == "fast" and reads.methods == 1e-3


def test_values_of_another_kind_are_the_users_own() -> None:
    for name, value in {"speeds": (1, 2), "methods": ["lu"], "group": "A", "checks": [1], "check_state": lambda self: 1}.items():
        type("Own", (ds.Steady,), {name: value})
