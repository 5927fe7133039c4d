"""The boundary of a user is checked where it is given, by every solver and for every field."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import diffsim as ds
from diffsim import solvers
from diffsim.boundary import words as named
from diffsim.errors import ParameterError, ShapeError, TraceError

GRID = ds.Grid((12, 12), 10.0)
CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "Acoustic": {"boundary": named()},
    "Advection": {"sides": ("periodic", "wall", "inflow", "outflow"), "scheme": ("weno5", "muscl")},
    "Burgers": {"boundary": named(), "scheme": ("weno5", "muscl")},
    "Euler": {
        "sides": ("periodic", "wall", "open", "inflow", "reservoir", "outflow", "freestream"),
        "method": ("euler", "rk2", "rk3"),
        "scheme": ("muscl", "weno5"),
    },
    "ReactionDiffusion": {"boundary": named(), "kinetics": ("fisher", "allen_cahn", "gray_scott", "swift_hohenberg")},
    "Schroedinger": {},
    "Heat": {"boundary": named()},
    "Elastic": {"boundary": ("zero", "periodic")},
    "Maxwell": {"boundary": ("pec", "periodic")},
    "NavierStokes": {
        "sides": ("periodic", "no_slip", "slip", "moving", "inflow", "open", "outflow", "velocity"),
        "viscosity": ("constant", "field", "smagorinsky"),
        "bodies_method": ("sharp", "penalised"),
    },
    "QuasiGeostrophic": {"sides": ("periodic", "slip", "no_slip"), "viscosity": ("laplacian", "biharmonic")},
    "ViscoAcoustic": {"boundary": named()},
    "ShallowWater": {"sides": ("periodic", "wall", "open", "tide"), "method": ("euler", "rk2", "rk3"), "tide": ("cell", "side")},
    "LongWave": {"coordinates": ("plane", "sphere")},
}


def test_every_solver_is_here() -> None:
    classes = {n for n, v in vars(solvers).items() if inspect.isclass(v) and issubclass(v, ds.Equation) and v is not ds.Equation}
    own = {"DGAcoustic", "DGAdvection"}  # tests/solvers/dg
    without = {"Kolmogorov", "KuramotoSivashinsky", "Lorenz63", "Lorenz96", "Lorenz96TwoScale"}  # always periodic, or without neighbours
    assert classes == set(CHOICES) | own | without


@pytest.mark.parametrize("solver", CHOICES)
@pytest.mark.parametrize("wrong", ["absorbing", "Zero", "", None, 3, ("zero", "absorbing")])
def test_a_wrong_word_is_refused_when_the_equation_is_made(solver: str, wrong: Any) -> None:
    for argument, words in CHOICES[solver].items():
        with pytest.raises(ParameterError, match=f"{argument}.*{', '.join(words)}"):
            getattr(solvers, solver)(GRID, 1e-3, **{argument: wrong})
        getattr(solvers, solver)(GRID, 1e-3, **{argument: words[0]})


@pytest.mark.parametrize("solver", ["Acoustic", "Elastic", "Heat", "ViscoAcoustic"])
def test_a_wrong_number_of_boundaries_is_refused_when_the_equation_is_made(solver: str) -> None:
    with pytest.raises(ShapeError, match=r"3 entries, expected one rule, or 2"):
        getattr(solvers, solver)(GRID, 1e-3, boundary=("zero",) * 3)


class Own(ds.Equation):
    def __init__(self, **rules: Any) -> None:
        self.grid, self.dt = GRID, 1.0
        self.states = {"u": ds.Variable("mirror")}
        self.parameters = {"k": ds.Variable("mirror")}
        self.coefficient_boundaries = rules

    def coefficients(self, k: Any) -> Any:
        return {"half": 0.5 * k}

    def step(self, u: Any, half: Any) -> Any:
        return {"u": half * u}


def test_fields_and_coefficients_of_an_equation_of_ones_own() -> None:
    with pytest.raises(ParameterError, match=r"boundary = 'absorbing', expected one of zero, periodic, .*mirror"):
        ds.Variable("absorbing")  # type: ignore[arg-type]
    ds.Simulation(Own(half="mirror"))
    with pytest.raises(ParameterError, match=r"expected one of zero, periodic, .*mirror"):
        ds.Simulation(Own(half="absorbing"))
    with pytest.raises(TraceError, match="coefficient_boundaries names hlaf, expected coefficients: half"):
        ds.Simulation(Own(hlaf="mirror"))
