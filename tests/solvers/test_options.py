"""A field that a solver has under an option alone: errors about its name say the option."""

from __future__ import annotations

import copy
import inspect
import itertools
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import diffsim as ds
from diffsim.errors import DiffsimError, ParameterError, SceneError
from diffsim.scene.schema.schema import Description
from diffsim.scene.search.assemble import assemble
from diffsim.simulation.prepared import checks
from diffsim.stepping.declare.equation import Equation, option_of
from diffsim.typing import Array
from tests.scene.tiny import WAVE

MORE: dict[str, list[Any]] = {
    "gravity": [(0.0, -9.8)],
    "layers": [(500.0, 2000.0)],
    "gravities": [(0.02,)],
    "f0": [1e-4],
    "scalars": [("c",), ("T",)],
    "poles": [("drude",), ("lorentz",)],
    "Q": [50.0],
    "frequency": [1.0],
}
"""Values of options whose types do not list them."""
LINES = ("Lorenz96", "Lorenz96TwoScale", "KuramotoSivashinsky")
"""Solvers of one axis alone."""
UNREACHED = {f'{count} of "{word}" in sides' for count in ("one side", "several sides") for word in ("inflow", "tide")}
"""Texts of options that the values of single arguments do not reach."""
SOLVERS = {
    name: one
    for name, one in vars(ds.solvers).items()
    if inspect.isclass(one) and issubclass(one, Equation) and "grid" in inspect.signature(one).parameters and not name.startswith("DG")
}


def values_of(hint: Any) -> list[Any]:
    """The values that a type lists, those of the parts of a union included."""
    if hint is bool:
        return [True]
    if typing.get_origin(hint) is typing.Literal:
        return list(typing.get_args(hint))
    return [value for part in typing.get_args(hint) if typing.get_origin(part) is typing.Literal for value in typing.get_args(part)]


def fields_of(equation: Equation) -> set[str]:
    return {*equation.states, *equation.parameters, *equation.series, *equation.forcings, *equation.initials}


def with_options(solver: type[Equation]) -> Iterator[tuple[dict[str, Any], Equation]]:
    """A solver with each option, each pair of them, and the three that make layers, the plain one first."""
    hints = typing.get_type_hints(solver.__init__)
    plain = {"grid": ds.Grid((40,) if solver.__name__ in LINES else (13, 14), 0.1), "dt": 1e-3}
    single = [{name: value} for name, hint in hints.items() for value in (*values_of(hint), *MORE.get(name, []))]
    layers = {name: MORE[name][0] for name in ("layers", "gravities", "f0")}
    further = [layers, {**layers, "mean_flow": True, "sides": "periodic"}] if "layers" in hints else []
    pairs = ({**a, **b} for a, b in itertools.combinations(single, 2) if a.keys() != b.keys())
    for options in itertools.chain([{}], single, pairs, further):
        try:
            yield options, solver(**plain, **options)
        except (DiffsimError, ValueError):
            continue


@pytest.mark.parametrize("name", SOLVERS)
def test_every_field_of_an_option_has_a_text_with_this_option(name: str) -> None:
    plain, least, variants = set[str](), dict[str, list[dict[str, Any]]](), list(with_options(SOLVERS[name]))
    for options, equation in variants:
        fields = fields_of(equation)
        plain = plain or fields
        for field in fields - plain:
            ways = least.setdefault(field, [options])
            if len(options) == len(ways[0]) and options not in ways:
                ways.append(options)
    for field, ways in least.items():
        text = option_of(variants[0][1], field)
        assert any(all(argument in text for argument in way) for way in ways), (field, ways[:3], text)
        with pytest.raises(ParameterError) as caught:
            ds.Simulation(variants[0][1], wrt=[field])
        assert f"{name} has {field} with {text}" in str(caught.value)
    lost = {
        (field, tuple(options)) for options, equation in variants for field in plain - fields_of(equation) if not option_of(equation, field)
    }
    assert not {field for field, _ in lost}, lost
    used = {option_of(equation, field) for _, equation in variants for field in {*least, *plain}}
    assert set(variants[0][1].optional.values()) - used <= UNREACHED | {"bodies and its name in scalars and fluxes"}


@pytest.mark.parametrize("name", SOLVERS)
def test_a_misspelt_name_is_not_one_of_an_option(name: str) -> None:
    """Two letters exchanged, one twice, one in another case, and sides and axes that the grid has not."""
    variants = list(with_options(SOLVERS[name]))
    every = set[str]().union(*(fields_of(equation) for _, equation in variants))
    free = "kappa_", "heat_", "beta_"  # what follows is the name of a scalar, which may be any
    for options, equation in variants[::7]:
        for field in sorted(every):
            wrong = {field[1::-1] + field[2:], field.swapcase(), field + "s", field.replace("low", "lwo")}
            wrong |= set() if field[-1].isdigit() else {field + field[-1]}
            wrong |= {field.replace("_x", "_z").replace("_y", "_z")} if equation.grid.ndim < 3 else set()
            for misspelt in wrong - every:
                scalar = name == "NavierStokes" and (misspelt.startswith(free) or misspelt.endswith(("_wall", "_flux")))
                assert scalar or option_of(equation, misspelt) == "", (misspelt, options)


def test_an_option_of_sides_says_how_many() -> None:
    grid = ds.Grid((6, 8), 0.1)
    one = ds.solvers.NavierStokes(grid, 0.01, ("slip", ("inflow", "open")))
    two = ds.solvers.NavierStokes(grid, 0.01, ("slip", ("inflow", "inflow")))
    assert (
        option_of(one, "inflow_low_x") == 'several sides of "inflow" in sides'
        and option_of(two, "inflow") == 'one side of "inflow" in sides'
    )
    assert option_of(one, "inflow_low_z") == option_of(one, "fz") == option_of(one, "w") == ""
    assert "fluxes" in option_of(one, "T_flux") and option_of(one, "inflow_hihg_x") == ""


def test_a_misspelt_name_beside_one_of_an_option() -> None:
    sea = ds.solvers.ShallowWater(ds.Grid((20,), 1.0), 0.05)
    with pytest.raises(ParameterError, match=r'ShallowWater has manning with drag = "manning"; correct mannig$'):
        ds.Simulation(sea, wrt=["manning", "mannig"])


@pytest.mark.parametrize("table", ["fields", "unknowns"])
def test_a_scene_says_the_option_in_its_own_words(table: str) -> None:
    scene = copy.deepcopy(WAVE)
    scene[table]["uplift"] = {"constant": 0.5} if table == "fields" else {"start": {"constant": 0.5}}
    scene["truth"]["fields"]["uplift"] = {"constant": 0.5}
    with pytest.raises(SceneError, match=rf"^{table}.uplift: expected one of .*, found 'uplift'; \[equation\] has it with uplift = true$"):
        assemble(Description.model_validate(scene), "f32")


class Mixed(ds.Equation):
    """States of which `initial` computes one, a vector, and a parameter that an option gives."""

    dt, optional = 0.1, {"drag": "friction = true"}

    def __init__(self) -> None:
        self.grid = ds.Grid((5, 7), 1.0)
        self.states = {"u": ds.Variable("mirror"), "v": ds.Vector("yx", "mirror")}
        self.parameters = {"k": ds.Variable("mirror")}

    def initial(self, k: Array) -> dict[str, Array]:
        return {"u": 2.0 * k}

    def step(self, u: Any, v: Any, k: Any) -> dict[str, Any]:
        return {"u": u * k, "v": v}


KINDS_OF_NAMES = {"v": "v has the components vy, vx; give", "u": r"gives u: leave it out", "drag": "Mixed has drag with friction = true"}
UNKNOWN = ["kk", "zz", *KINDS_OF_NAMES]


@pytest.mark.parametrize("names", [names for count in range(1, 6) for names in itertools.combinations(UNKNOWN, count)], ids="-".join)
def test_each_unknown_name_has_its_own_remedy(names: tuple[str, ...]) -> None:
    """Also beside unknown names of other kinds, and those of no kind."""
    with pytest.raises(ParameterError) as caught:
        checks.check_names("inputs", names, ["k", "vy", "vx"], "inputs", Mixed())
    remedy = str(caught.value).split("expected some of these; ")[1]
    rest = [name for name in names if name not in KINDS_OF_NAMES]
    for name, words in KINDS_OF_NAMES.items():
        assert (words in remedy) == (name in names)
    if rest:
        assert remedy.endswith("correct the name" if len(rest) == len(names) else f"; correct {', '.join(sorted(rest))}")
    else:
        assert "correct" not in remedy
