"""Poles of a permittivity: currents of bound and free electrons, which a field drives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from diffsim.base.arguments import one_of, plural
from diffsim.base.messages import shown
from diffsim.errors import ParameterError, ShapeError
from diffsim.expr.components import Components
from diffsim.expr.symbol import Symbol
from diffsim.mesh.field import Location
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.stability import check_sign
from diffsim.stepping.declare.groups import Vector
from diffsim.typing import Array

Kind: TypeAlias = Literal["drude", "lorentz"]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pole:
    """One pole: J_t + γ J + w² P = wp² E, P_t = J; w = 0 for free electrons (Drude), which need no P.

    Attributes:
        number: from 1.
        kind: "drude" or "lorentz".
        region: cells in which it exists; None: all.
    """

    number: int
    kind: Kind
    region: Mask | None = field(default=None, repr=False)

    @property
    def resonant(self) -> bool:
        return self.kind == "lorentz"

    @property
    def wp(self) -> str:
        """The input with its plasma frequency."""
        return f"wp{self.number}"

    @property
    def numbers(self) -> tuple[str, ...]:
        """The inputs that are numbers."""
        return (f"gamma{self.number}", f"w{self.number}") if self.resonant else (f"gamma{self.number}",)

    def states(self, E: Vector, axes: str, walls: Sequence[str]) -> dict[str, Vector]:
        """Its states, which lie where E does, in the cells next to the pole."""
        region = {c: self.around(there.location or (), walls) for c, there in E.parts.items()}
        state = Vector(axes, "zero", "edges", components=E.layout.keys, region=region)
        return dict.fromkeys([f"{kind}{self.number}" for kind in ("JP" if self.resonant else "J")], state)

    def around(self, location: Location, walls: Sequence[str]) -> Mask | None:
        """The places of a component of E next to which the pole exists."""
        if self.region is None:
            return None
        faces = self.region
        for axis, (place, wall) in enumerate(zip(location, walls, strict=True)):
            if place:
                above = np.roll(faces, -1, axis)
                if wall != "periodic":
                    above[(slice(None),) * axis + (-1,)] = False
                faces = faces | above
        return faces

    def coefficients(self, strength: Components, given: Mapping[str, Symbol], dt: float) -> dict[str, Any]:
        """The coefficients of `advance`, from wp² where E lies."""
        k, loss = self.number, 0.5 * dt * given[f"gamma{self.number}"]
        factors: dict[str, Any] = {f"drive{k}": dt * strength / (1 + loss), f"keep{k}": (1 - loss) / (1 + loss)}
        return factors | ({f"pull{k}": dt * given[f"w{k}"] ** 2 / (1 + loss)} if self.resonant else {})

    def advance(self, E: Components, f: Mapping[str, Any], dt: float) -> tuple[Components, dict[str, Components]]:
        """The current half a step later, and the next values of the pole's states."""
        k = self.number
        J = f[f"keep{k}"] * f[f"J{k}"] + f[f"drive{k}"] * E
        if not self.resonant:
            return J, {f"J{k}": J}
        P = f[f"P{k}"]
        J = J - f[f"pull{k}"] * P
        return J, {f"J{k}": J, f"P{k}": P + dt * J}

    def check(self, parameters: Mapping[str, Array]) -> None:
        """Raise `ParameterError` if its inputs are not physical, or it has a strength where it does not exist."""
        for name in (self.wp, *self.numbers):
            check_sign(name, np.asarray(parameters[name]), "per unit of time", positive=False)
        if self.region is not None and np.any(parameters[self.wp][~self.region]):
            raise ParameterError(f"{self.wp} has values outside of the region of pole {self.number}, expected 0 there; widen the region")


def poles_of(kinds: Sequence[str], regions: Sequence[Mask | None] | None, grid: Grid) -> tuple[Pole, ...]:
    """The poles of an equation.

    Raises:
        ParameterError: an unknown kind, or not a region for each pole.
        ShapeError: a region that does not fit the grid.
    """
    if not isinstance(kinds, (tuple, list)):
        raise ParameterError(f"poles = {shown(kinds)}, expected a kind for each pole; write it like ('drude',)")
    if regions is not None and not isinstance(regions, (tuple, list)):
        raise ParameterError(f"regions = {shown(regions)}, expected a mask for each pole; write it like (metal,)")
    masks = [None] * len(kinds) if regions is None else list(regions)
    if len(masks) != len(kinds):
        raise ParameterError(f"regions of {plural(len(masks), 'pole')}, expected {len(kinds)}; give one a pole, None for all cells")
    poles = []
    for number, (kind, mask) in enumerate(zip(kinds, masks, strict=True), 1):
        if mask is not None and (np.shape(mask) != grid.shape or np.asarray(mask).dtype != np.bool_):
            raise ShapeError(f"region of pole {number}, expected True or False for each cell of {grid.shape}; compare, as in x < 1.0")
        region = None if mask is None else np.array(mask)
        poles.append(Pole(number, one_of(f"poles[{number - 1}]", kind, ("drude", "lorentz")), region))
    return tuple(poles)


def light_limit(curl: float, eps: float, poles: Sequence[Pole], parameters: Mapping[str, Array]) -> tuple[float, str]:
    """The largest stable time step, and the medium that sets it.

    Without losses a step is a leap-frog of E and all P, which is stable while dt² λ <= 4. λ is the largest eigenvalue of the matrix of
    their accelerations, symmetric in √ε E and P w / wp, and grows with each of its entries.

    Args:
        curl: largest eigenvalue of ∇ₕ×∇ₕ×.
        eps: the smallest permittivity.
        poles: of the medium.
        parameters: values of the inputs.
    """
    squares = [float(parameters[pole.wp].max()) ** 2 for pole in poles]
    matrix = np.zeros((len(poles) + 1,) * 2)
    matrix[0, 0] = (curl + sum(squares)) / eps
    for k, (pole, square) in enumerate(zip(poles, squares, strict=True), 1):
        w = float(np.max(parameters[f"w{pole.number}"])) if pole.resonant else 0.0
        matrix[k, k], matrix[0, k], matrix[k, 0] = w**2, -w * math.sqrt(square / eps), -w * math.sqrt(square / eps)
    strengths = "".join(f", {pole.wp} = {math.sqrt(square):.4g}" for pole, square in zip(poles, squares, strict=True))
    return 2 / math.sqrt(float(np.linalg.eigvalsh(matrix)[-1])), f"eps_min = {eps:.4g}{strengths}"
