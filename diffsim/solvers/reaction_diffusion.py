"""Substances that react and diffuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, Literal, TypeAlias

from diffsim.base.arguments import names, one_of
from diffsim.base.messages import shown
from diffsim.boundary import Boundary, per_axis
from diffsim.errors import ParameterError
from diffsim.expr.operators import diff, interpolate, laplacian
from diffsim.expr.symbol import Symbol
from diffsim.expr.vectors import div
from diffsim.integrators import imex_ars222
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.stability import check_common, check_sign
from diffsim.stepping.declare.equation import Equation, Variable
from diffsim.typing import Array

Rates: TypeAlias = Callable[..., Mapping[str, Any]]
"""(species and constants by name) -> the rate of change of each species, without diffusion."""


def fisher(u: Symbol, r: Symbol) -> dict[str, Symbol]:
    """Logistic growth up to 1."""
    return {"u": r * u * (1 - u)}


def allen_cahn(u: Symbol, r: Symbol) -> dict[str, Symbol]:
    """Two phases, -1 and 1, that are both stable."""
    return {"u": r * (u - u**3)}


def gray_scott(u: Symbol, v: Symbol, F: Symbol, k: Symbol) -> dict[str, Symbol]:
    """A substance that is fed, and one that uses it to grow."""
    used = u * v**2
    return {"u": F * (1 - u) - used, "v": used - (F + k) * v}


def swift_hohenberg(u: Symbol, r: Symbol, g: Symbol) -> dict[str, Symbol]:
    """Growth and saturation beside the linear part that makes rolls."""
    return {"u": r * u + g * u**2 - u**3}


@dataclass(frozen=True)
class Kinetics:
    """How substances react.

    Attributes:
        rates: their rates of change.
        species: names of the substances.
        rolls: the linear part that is taken implicitly is -(1 + ∇²)² and no diffusion.
    """

    rates: Rates
    species: tuple[str, ...]
    rolls: bool = False


KINETICS = {
    "fisher": Kinetics(fisher, ("u",)),
    "allen_cahn": Kinetics(allen_cahn, ("u",)),
    "gray_scott": Kinetics(gray_scott, ("u", "v")),
    "swift_hohenberg": Kinetics(swift_hohenberg, ("u",), rolls=True),
}


class ReactionDiffusion(Equation, kind="reaction_diffusion"):
    """Substances that react with each other and diffuse, in one to three dimensions.

        u_t = ∇·(D ∇u) + f(u)

    An implicit-explicit Runge-Kutta method, second order in time (`imex_ars222`): diffusion is taken implicitly, so that it does not limit
    the time step, and reactions explicitly. Differences in space are of second order, and a `D` that varies is averaged to the faces. One
    linear system for each substance and stage: by transforms where `D` is a number.

    The kinetics that have a name, with their inputs:

    - "fisher": f = r u (1 - u), a population that spreads; `r` (1/s).
    - "allen_cahn": f = r (u - u³), two phases with fronts between them, √(2 D / r) wide; `r` (1/s).
    - "gray_scott": f = F (1 - u) - u v² and u v² - (F + k) v for `u` and `v`; feed rate `F` and rate of decay `k` (1/s).
    - "swift_hohenberg": u_t = r u - (1 + ∇²)² u + g u² - u³, rolls of the wave length 2π; `r` and `g`, and no diffusivity.

    Inputs: the initial substances, the constants of the kinetics, and the diffusivity of each substance (m²/s): `D`, or of several `D_u`,
    `D_v` and so on. Constants and diffusivities are numbers, or fields at cell centres if they are in `fields`.

    Args:
        grid: one to three axes, spacing in metres ("swift_hohenberg": in units of the wave length over 2π).
        dt: time step, s. Reactions limit it: stable while dt times their fastest decay is below 2.
        kinetics: a name, or a function of the substances and of constants by name, which returns the rate of each substance. It is written
            like a step: arithmetic and functions of `diffsim.expr`.
        species: names of the substances of a function; its other arguments are constants.
        fields: the constants and diffusivities that vary from cell to cell.
        boundary: values of the substances outside the grid, see `diffsim.Variable`; "mirror" lets nothing through.

    Raises:
        ParameterError: an argument out of range, or names that the kinetics do not have; by a run, a diffusivity below 0.

    Good values: "gray_scott" with dx = 1, dt = 1, D_u = 0.16, D_v = 0.08, F of 0.02 to 0.06 and k of 0.05 to 0.065; "swift_hohenberg" with
        dx = 0.7, dt = 0.1 and r of 0.1 to 0.3; three cells across a front.

    Reference: Ascher, Ruuth and Spiteri (1997), Appl. Numer. Math. 25, 151-167, doi:10.1016/S0168-9274(97)00056-1, for the method; Pearson
        (1993), Complex patterns in a simple system, Science 261, 189-192, doi:10.1126/science.261.5118.189; Swift and Hohenberg (1977),
        Phys. Rev. A 15, 319-328, doi:10.1103/PhysRevA.15.319.

    Example:
        import numpy as np

        import diffsim as ds

        def brusselator(x, y, a, b):
            return {"x": a - (b + 1) * x + x**2 * y, "y": b * x - x**2 * y}

        # Which supply b of a reaction in a dish keeps this much of y? Newton's method on its derivative.
        dish = ds.solvers.ReactionDiffusion(ds.Grid((24, 24), spacing=0.5), dt=0.05, kinetics=brusselator, species=("x", "y"))
        run = ds.Simulation(dish, wrt=["b"], precision="f64")
        x, supply = 1.0 + 0.1 * np.random.default_rng(0).standard_normal((24, 24)), 1.5
        for _ in range(5):
            start = {"x": x, "y": np.full((24, 24), 1.5), "a": 1.0, "b": supply, "D_x": 0.1, "D_y": 0.8}
            value, gradient = run.value_and_grad(lambda found: found.final["y"].mean(), start, steps=100)
            supply -= (value - 1.6) / gradient["b"]
        assert abs(value - 1.6) < 1e-6
    """

    optional: Mapping[str, str] = {
        **dict.fromkeys(("F", "k", "v"), 'kinetics = "gray_scott"'),
        "g": 'kinetics = "swift_hohenberg"',
        "r": 'kinetics = "fisher", "allen_cahn" or "swift_hohenberg"',
        "D": 'kinetics = "fisher" or "allen_cahn"',
        "D_[uv]": 'kinetics = "gray_scott"',
    }

    def __init__(
        self,
        grid: Grid,
        dt: float,
        kinetics: Literal["fisher", "allen_cahn", "gray_scott", "swift_hohenberg"] | Rates = "fisher",
        species: tuple[str, ...] | list[str] = ("u",),
        fields: tuple[str, ...] | list[str] = (),
        boundary: Boundary = "mirror",
    ) -> None:
        self.grid, self.dt = grid, check_common(grid, dt)
        own = Kinetics(kinetics, names("species", species, '("u", "v")')) if callable(kinetics) else None
        self.kinetics = own or KINETICS[one_of("kinetics", kinetics, tuple(KINETICS))]
        constants = _constants(self.kinetics)
        self.diffusivities = {} if self.kinetics.rolls else {name: f"D_{name}" for name in self.kinetics.species}
        if len(self.diffusivities) == 1:
            self.diffusivities = dict.fromkeys(self.diffusivities, "D")
        inputs = dict.fromkeys(constants, "1/s") | dict.fromkeys(self.diffusivities.values(), "m²/s")
        if len(inputs) < len(constants) + len(self.diffusivities):
            raise ParameterError(f"kinetics with the arguments {', '.join(constants)}, expected none of the diffusivities; rename them")
        self.fields = names("fields", fields, '("F", "k")')
        if unknown := [name for name in self.fields if name not in inputs]:
            raise ParameterError(f"fields names {', '.join(unknown)}, expected some of {', '.join(inputs)}; correct the names")
        self.states = {name: Variable(boundary, unit="1") for name in self.kinetics.species}
        around = tuple("periodic" if low.joins else "mirror" for low, _ in per_axis(boundary, grid.ndim))
        self.parameters = {name: Variable(around, unit=unit, axes=None if name in self.fields else ()) for name, unit in inputs.items()}

    def step(self, **now: Symbol) -> dict[str, Symbol]:
        constants = {name: now[name] for name in _constants(self.kinetics)}

        def rate(u: dict[str, Symbol]) -> Mapping[str, Any]:
            return self.kinetics.rates(**u, **constants)

        def spread(D: Symbol, varies: bool) -> Callable[[Symbol], Symbol]:
            if not varies:
                return lambda x: D * laplacian(x)
            return lambda x: div([interpolate(D, axis) * diff(x, axis) for axis in range(self.grid.ndim)])

        def rolls(x: Symbol) -> Symbol:
            return -(x + 2 * laplacian(x) + laplacian(laplacian(x)))

        linear = {name: spread(now[D], D in self.fields) for name, D in self.diffusivities.items()} or {"u": rolls}
        return imex_ars222(rate, linear, {name: now[name] for name in self.kinetics.species}, self.dt)

    def check(self, parameters: Mapping[str, Array]) -> None:
        for name in self.diffusivities.values():
            check_sign(f"diffusivity {name}", parameters[name], "m²/s", positive=False)


def _constants(kinetics: Kinetics) -> tuple[str, ...]:
    """The arguments of the rates that are no species.

    Raises:
        ParameterError: a species is no argument, or an argument cannot be given by name.
    """
    arguments = signature(kinetics.rates).parameters
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    missing = [name for name in kinetics.species if name not in arguments]
    if missing or not kinetics.species or any(argument.kind not in by_name for argument in arguments.values()):
        raise ParameterError(
            f"kinetics({', '.join(arguments)}) with species = {shown(kinetics.species)}, expected each of these and constants as arguments "
            "by name; write it like def rates(u, v, F, k), species=('u', 'v')"
        )
    return tuple(name for name in arguments if name not in kinetics.species)
