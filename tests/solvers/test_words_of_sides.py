"""Sides in the form of scenes, or in the words of another equation: the message has what to write, and that is taken."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

import diffsim as ds
from diffsim.boundary.wording import MEANINGS
from diffsim.errors import ParameterError
from diffsim.scene.words.equations import EQUATIONS, model_of
from diffsim.solvers.parts import flow_sides, gas_sides

GRID = ds.Grid((16, 20), 1.0, axes=("y", "x"))
SOLVERS: dict[str, tuple[Callable[..., Any], str, tuple[str, ...]]] = {
    "advection": (lambda sides: ds.solvers.Advection(GRID, 0.1, sides=sides), "sides", ("periodic", "wall", "inflow", "outflow")),
    "navier_stokes": (lambda sides: ds.solvers.NavierStokes(GRID, 0.1, sides=sides), "sides", flow_sides.WORDS),
    "euler": (lambda sides: ds.solvers.Euler(GRID, 0.1, sides=sides), "sides", gas_sides.WORDS),
    "shallow_water": (lambda sides: ds.solvers.ShallowWater(GRID, 0.1, sides=sides), "sides", ("periodic", "wall", "open", "tide")),
    "quasi_geostrophic": (
        lambda sides: ds.solvers.QuasiGeostrophic(GRID, 0.1, sides=sides),
        "sides",
        ("periodic", "slip", "no_slip"),
    ),
    "heat": (lambda boundary: ds.solvers.Heat(GRID, 0.1, boundary=boundary), "boundary", ("periodic", "mirror", "open")),
    "acoustic": (lambda boundary: ds.solvers.Acoustic(GRID, 0.1, boundary=boundary), "boundary", ("periodic", "mirror", "zero")),
    "burgers": (lambda boundary: ds.solvers.Burgers(GRID, 0.1, boundary=boundary), "boundary", ("periodic", "mirror", "zero")),
    "elastic": (lambda boundary: ds.solvers.Elastic(GRID, 0.1, boundary=boundary), "boundary", ("periodic", "zero")),
    "maxwell": (lambda boundary: ds.solvers.Maxwell(GRID, 0.1, boundary=boundary), "boundary", ("periodic", "pec")),
    "dg": (lambda boundary: ds.solvers.DGAcoustic(GRID, 0.01, boundary=boundary), "boundary", ("periodic", "wall", "outflow")),
}
OF_FLOWS = ("advection", "navier_stokes", "euler", "shallow_water", "quasi_geostrophic", "dg")


def message(call: Callable[..., Any], sides: Any) -> str:
    with pytest.raises(ParameterError) as caught:
        call(sides)
    return str(caught.value)


@pytest.mark.parametrize("name", SOLVERS)
def test_sides_by_names_of_axes_say_the_form_to_write(name: str) -> None:
    call, key, known = SOLVERS[name]
    joined, other = known[0], known[1]
    for sides in ({"y": joined, "x": other}, {"x": other, "y": joined}, {"y": joined, "x": [other, other]}):
        text = message(call, sides)
        assert re.search(rf"^{key} = \{{.*expected one entry, or one for each axis without its name, in the order", text), text
        form = re.search(rf"write {key} = (\(.*\)), and two sides", text)
        assert form is not None, text
        pair = (other, other) if isinstance(sides["x"], list) else other
        entries = ast.literal_eval(form[1])
        assert entries == ((joined, pair) if "order y, x" in text else (..., ...))  # without known axes walls would change places
    assert other in message(call, {"x": other}) and "write " in message(call, {"lon": other})


@pytest.mark.parametrize("name", OF_FLOWS)
@pytest.mark.parametrize("meaning", MEANINGS)
def test_words_of_other_equations_name_those_of_this_one(name: str, meaning: str) -> None:
    call, _, known = SOLVERS[name]
    alike = [word for word in known if word in MEANINGS[meaning]]
    for word in MEANINGS[meaning]:
        if word in known:
            continue
        for sides in (word, word.replace("_", "-").upper(), ("periodic", word)):
            text = message(call, sides)
            assert f"is unknown; choose one of {', '.join(known)}" in text
            assert text.endswith(f"; {meaning} is {' or '.join(alike)} here") is bool(alike), text
    assert not message(call, "somewhere").endswith("here")


@pytest.mark.parametrize("word", ["insulated", "No flux", "adiabatic", "cyclic"])
def test_words_of_rules(word: str) -> None:
    for call, key, _ in (SOLVERS["heat"], SOLVERS["acoustic"]):
        assert re.match(rf"{key} = .*; (a side without flux is mirror|a joined side is periodic) here", message(call, word))


@pytest.mark.parametrize("name", ["advection", "navier_stokes", "euler", "shallow_water", "quasi_geostrophic"])
def test_words_in_scenes(name: str) -> None:
    _, _, known = SOLVERS[name]
    model = model_of(name, EQUATIONS.packaged[name])
    for meaning, words in MEANINGS.items():
        alike = [word for word in known if word in words]
        for word in set(words) - set(known):
            for sides in (word, [known[0], word], [known[0], [known[1], word]], {"x": word}):
                with pytest.raises(ValidationError) as caught:
                    model.model_validate({"type": name, "sides": sides})
                assert (f"; {meaning} is {' or '.join(alike)} here" in str(caught.value)) is bool(alike)
                assert ("write a list with an entry for each axis, in the order of grid.axes" in str(caught.value)) is isinstance(
                    sides, dict
                )
