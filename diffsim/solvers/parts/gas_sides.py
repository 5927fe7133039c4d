"""Sides of a gas: rules of density, velocities and pressure from words, the inputs that they name, and the gas that faces on them see.

Where gas flows through a side, the gas on its face is made of what is given and of what comes from inside. A wave that leaves the grid
changes the gas inside along its isentrope: pressure and the velocity U into the grid go together as

    U = Uᵢ + 2 cᵢ / (γ - 1) ((p / pᵢ)^((γ - 1) / 2γ) - 1)

from those of the cell next to the side (i). Both are the same on the other side of a contact, where gas of another density enters:

    inflow       ρ and v given; U of the side gives the pressure
    reservoir    ρ₀ and p₀ of gas at rest given, from which it enters without losses: U² / 2 + c² / (γ - 1) = c₀² / (γ - 1), along the
                 isentrope of the reservoir; at most sonic. Where U at p₀ would be below 0, an outflow into p₀
    outflow      p given, which gives U and, along the isentrope, ρ; at least the pressure at which gas leaves at the speed of sound, and
                 all from inside where it leaves faster. With a length of relaxation L, p on the side is that inside and dx / L of the way
                 to the given one: the wave A that comes back follows dA/dt = -(c - u) / L times the sum of both waves
    freestream   ρ, v and p beyond the side given; the Riemann solver decides what of them enters

Reference: Toro (2009), Riemann Solvers and Numerical Methods for Fluid Dynamics, 3rd edition, Springer, section 3.1 for the invariants,
    doi:10.1007/b79761; Rudy and Strikwerda (1980), A nonreflecting outflow boundary condition for subsonic Navier-Stokes calculations,
    J. Comput. Phys. 36, 55-70, doi:10.1016/0021-9991(80)90174-6, for the relaxation; Hirsch
    (1990), Numerical Computation of Internal and External Flows, volume 2, Wiley, section 19.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim.boundary import Extrapolate, OddImage
from diffsim.errors import ParameterError
from diffsim.expr.functions import maximum, minimum, sqrt, where
from diffsim.expr.symbol import Symbol
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.shallow import Faces
from diffsim.solvers.parts.stability import check_sign
from diffsim.solvers.parts.staggered import LowSide
from diffsim.stepping.declare.equation import Profile, Variable
from diffsim.typing import Array

WORDS = ("periodic", "wall", "open", "inflow", "reservoir", "outflow", "freestream")
GIVEN = {"inflow": "rho v", "reservoir": "rho p", "outflow": "p", "freestream": "rho v p"}
"""Given states at sides that gas flows through; v stands for all velocities."""
LEAST = 0.2
"""Smallest speed of sound that a wave leaves behind inside, over that before: much weaker than any that lets gas flow through a side."""

Gas = tuple[Symbol, list[Symbol], Symbol]
"""Density, velocities in the order of the axes, and pressure."""


@dataclass(frozen=True)
class GasSides:
    """The sides of a gas.

    Attributes:
        grid: of the gas.
        words: those of the low and the high side of each axis.
        gamma: ratio of specific heats.
        weighted: axes with gravity.
        relaxation: length L of the relaxation at an "outflow", m; 0: none.
    """

    grid: Grid
    words: tuple[tuple[str, str], ...]
    gamma: float
    weighted: tuple[int, ...] = ()
    relaxation: float = 0.0

    @property
    def velocities(self) -> tuple[str, ...]:
        """The velocity along each axis."""
        return ("w", "v", "u")[-self.grid.ndim :]

    def through(self) -> list[tuple[int, int]]:
        """Sides that gas flows through by what is given there: axis, and whether it is the high one."""
        return [(axis, high) for axis, pair in enumerate(self.words) for high in (0, 1) if pair[high] in GIVEN]

    def name(self, axis: int, high: int) -> str:
        """The name of a side, such as "low_x"."""
        return f"{'high' if high else 'low'}_{'zyx'[-self.grid.ndim :][axis]}"

    def names(self, axis: int, high: int) -> dict[str, str]:
        """The inputs of a side by the states that they are values of, such as {"p": "p_high_x"}."""
        states = GIVEN[self.words[axis][high]].replace("v", " ".join(self.velocities)).split()
        return {state: f"{state}_{self.name(axis, high)}" for state in states}

    def inputs(self) -> dict[str, Variable]:
        """All inputs of sides: a value for each cell of the side."""
        units = {"rho": "kg/m³", "p": "Pa"}
        inputs: dict[str, Variable] = {}
        for axis, high in self.through():
            others = tuple(other for other in range(self.grid.ndim) if other != axis)
            rules = tuple("periodic" if pair[0] == "periodic" else "mirror" for pair in self.words)
            inputs |= {name: Variable(rules, unit=units.get(state, "m/s"), axes=others) for state, name in self.names(axis, high).items()}
        return inputs

    def profiles(self) -> dict[str, Profile]:
        """Profiles that are 1 in cells whose upper face is a side that gas flows through, and in cells next to open sides."""
        profiles: dict[str, Profile] = {}
        for axis, high in self.through():
            last = (np.arange(n := self.grid.shape[axis]) == n - 1).astype(float)
            profiles[f"at_{self.name(axis, high)}"] = Profile(axis, last) if high else LowSide(axis, np.zeros(n))
        for axis, pair in enumerate(self.words):
            if any(map(self._flat, pair)):
                beside = np.zeros(self.grid.shape[axis])
                beside[[-high for high in (0, 1) if self._flat(pair[high])]] = 1.0
                profiles[self._beside(axis)] = Profile(axis, beside)
        return profiles

    def _flat(self, word: str) -> bool:
        """True where waves leave through a side, so that cells next to it give their means to its faces."""
        return word == "open" or (word == "outflow" and self.relaxation > 0)

    def _beside(self, axis: int) -> str:
        """The name of a profile that is 1 in the cells next to sides that waves leave through across an axis, such as "open_x"."""
        return f"open_{'zyx'[-self.grid.ndim :][axis]}"

    def kept(self, f: Symbol, flat: Symbol | float, axis: int, now: Mapping[str, Symbol]) -> Symbol:
        """A reconstruction along an axis, but `flat` in the cells next to sides across it that waves leave through.

        The limited slopes of density, velocity and pressure there are in other proportions than those of a wave that leaves. What they
        hold of a wave into the grid entered, as nothing beyond the side cancels it.
        """
        return where(now[self._beside(axis)] > 0.5, flat, f) if any(map(self._flat, self.words[axis])) else f

    def rules(self, of: int | None = None, pressure: bool = False) -> tuple[Any, ...]:
        """The rules of a density, of the pressure, or of the velocity along axis `of`.

        Where gas flows through a side by what is given, slopes next to it are those of the cells inside. A pressure that carries gas has
        none there but that of its weight.
        """

        def rule(word: str, axis: int) -> Any:
            if word in GIVEN:
                return Extrapolate(0 if pressure and axis in self.weighted else 1)
            return Extrapolate(0) if word == "open" else OddImage() if axis == of else "mirror"

        return tuple("periodic" if pair[0] == "periodic" else tuple(rule(word, k) for word in pair) for k, pair in enumerate(self.words))

    def slopes(self, axis: int, of: int | None = None, pressure: bool = False) -> tuple[Any, ...]:
        """The rules of slopes along an axis: those of a field that is even at a side are odd there.

        An open side continues the last cell; the pressure, where gas has weight, as it is on the side.
        """

        def rule(word: str) -> Any:
            if word != "wall":
                return OddImage() if pressure and axis in self.weighted else "zero"
            return "mirror" if axis == of else OddImage()

        pair, rules = self.words[axis], list(self.rules(of, pressure))
        rules[axis] = "periodic" if pair[0] == "periodic" else tuple(map(rule, pair))
        return tuple(rules)

    def weight(self, axis: int) -> tuple[Any, ...]:
        """The rules of the rise of pressure by gravity over a cell, whose mean over both cells at a face is 0 on a side."""
        rules: list[Any] = list(self.rules())
        rules[axis] = "periodic" if self.words[axis][0] == "periodic" else OddImage()
        return tuple(rules)

    def seen(self, rho: Faces, v: Sequence[Faces], p: Faces, axis: int, now: Mapping[str, Symbol]) -> tuple[Faces, list[Faces], Faces]:
        """The gas on both sides of faces across an axis, with that at sides which gas flows through."""
        fields = [rho, *v, p]
        for side, high in self.through():
            if side != axis:
                continue
            here = now[f"at_{self.name(axis, high)}"] > 0.5
            first, *middle, last = (one.below if high else one.above for one in fields)
            gas = self._on(axis, high, (first, middle, last), now)
            values, both = [gas[0], *gas[1], gas[2]], self.words[axis][high] != "freestream"
            fields = [
                Faces(
                    where(here, value, one.below) if both or not high else one.below,
                    where(here, value, one.above) if both or high else one.above,
                )
                for value, one in zip(values, fields, strict=True)
            ]
        return fields[0], fields[1:-1], fields[-1]

    def _on(self, axis: int, high: int, inside: Gas, now: Mapping[str, Symbol]) -> Gas:
        """The gas on a side, or beyond a "freestream"."""
        k, word = self.gamma - 1, self.words[axis][high]
        stated = {state: now[name] for state, name in self.names(axis, high).items()}
        if word == "freestream":
            return stated["rho"], [stated[name] for name in self.velocities], stated["p"]
        rho, v, p = inside
        sign = -1.0 if high else 1.0
        speed, c = sign * v[axis], sqrt(self.gamma * p / rho)
        if word == "inflow":
            entering = sign * stated[self.velocities[axis]]
            cooler = maximum(1 + 0.5 * k * (entering - speed) / c, LEAST)
            return stated["rho"], [stated[name] for name in self.velocities], p * cooler ** (2 * self.gamma / k)
        if word == "reservoir":
            square = self.gamma * stated["p"] / stated["rho"]  # of c₀
            slow = speed - 2 / k * c
            there = c * (stated["p"] / p) ** (0.5 * k / self.gamma)  # c of the gas inside at the pressure of the reservoir
            total = 2 * there * there + k * square
            root = sqrt(k * square * maximum(total - 0.5 * k * k * slow * slow, LEAST * k * square))
            slowest = math.sqrt(2 / (2 + k))  # c / c₀ of gas that enters at the speed of sound
            ratio = maximum((root - k * slow * there) / total, slowest)
            entering = sign * minimum(slow + 2 / k * there * ratio, slowest * sqrt(square))
            density = stated["rho"] * ratio ** (2 / k)
            along = [entering if way == axis else 0.0 * one for way, one in enumerate(v)]
            enters = [density, *along, stated["p"] / stated["rho"] * ratio * ratio * density]
            density, v, pressure = self._leaving(axis, sign, inside, stated["p"])
            leaves = slow + 2 / k * there < 0  # with the pressure of the reservoir on the side, where both are the same at rest
            gas = [where(leaves, *both) for both in zip((density, *v, pressure), enters, strict=True)]
            return gas[0], gas[1:-1], gas[-1]
        outside = p + self.grid.spacing[axis] / self.relaxation * (stated["p"] - p) if self.relaxation else stated["p"]
        return self._leaving(axis, sign, inside, outside)

    def _leaving(self, axis: int, sign: float, inside: Gas, outside: Symbol) -> Gas:
        """The gas on a side with a pressure outside; `sign` is -1 at the high side."""
        k, (rho, v, p) = self.gamma - 1, inside
        speed, c = sign * v[axis], sqrt(self.gamma * p / rho)
        sonic = 2 / (2 + k) * (c - 0.5 * k * speed)
        least = p * maximum(sonic / c, LEAST) ** (2 * self.gamma / k)
        faster = -speed >= c
        pressure = where(faster, p, maximum(outside, least))
        density = where(faster, rho, rho * (pressure / p) ** (1 / self.gamma))
        sound = sqrt(self.gamma * pressure / density)
        return density, [one - sign * 2 / k * (c - sound) if way == axis else one for way, one in enumerate(v)], pressure

    def check(self, values: Mapping[str, Array]) -> None:
        """Raise `ParameterError` unless given densities and pressures are above 0, and an inflow flows in."""
        for axis, high in self.through():
            for state, name in self.names(axis, high).items():
                if name not in values:
                    continue
                if state in ("rho", "p"):
                    check_sign(name, values[name], "kg/m³" if state == "rho" else "Pa")
                elif self.words[axis][high] == "inflow" and state == self.velocities[axis]:
                    entering = float((-values[name] if high else values[name]).min())
                    if entering < 0:
                        bound = "at most" if high else "at least"
                        raise ParameterError(
                            f"{name} flows out of the grid at {-entering:.4g} m/s, expected {bound} 0 at an inflow; change its sign, "
                            "or take 'outflow'"
                        )

    def speeds(self, values: Mapping[str, Array], sound: float, series: Mapping[str, Array] | None = None) -> list[float]:
        """The largest |v| + c of what is given at sides, along each axis, m/s.

        Args:
            values: of inputs that are constant in time, in all cells.
            sound: c where the pressure is not given, m/s.
            series: shape (steps, cells of the side). Without them sides with an input that has a series are left out.
        """
        fastest, series = [0.0] * self.grid.ndim, series or {}
        for axis, high in self.through():
            names = self.names(axis, high)
            if not all(name in values or name in series for name in names.values()):
                continue
            on = {state: series[name] if name in series else values[name].take(0, axis) for state, name in names.items()}
            c = np.sqrt(self.gamma * on["p"] / on["rho"]) if {"p", "rho"} <= on.keys() else np.array(sound)
            for way, velocity in enumerate(self.velocities):
                if velocity in on:
                    fastest[way] = max(fastest[way], float((np.abs(on[velocity]) + c).max()))
                elif self.words[axis][high] == "reservoir":
                    fastest[way] = max(fastest[way], float(c.max()))
        return fastest

    def check_states(
        self, values: Mapping[str, Array], states: Mapping[str, Array], when: str, series: Mapping[str, Array] | None = None
    ) -> None:
        """Raise `ParameterError` where an inflow is faster than sound in the cell next to it, so that nothing comes from inside.

        States of a part of the grid, which need not reach the sides, are not checked.

        Args:
            values: of inputs that are constant in time, in all cells.
            states: that the inflows are compared with.
            when: the time of these states, "start" or "end".
            series: shape (steps, cells of the side), of which the first step counts.
        """
        series = series or {}
        for axis, high in self.through() if states["p"].shape == self.grid.shape else ():
            name = self.names(axis, high).get(self.velocities[axis], "")
            if self.words[axis][high] == "inflow" and (name in values or name in series):
                beside = -1 if high else 0
                sound = np.sqrt(self.gamma * states["p"].take(beside, axis) / states["rho"].take(beside, axis))
                entering = series[name][0] if name in series else values[name].take(beside, axis)
                excess = float((np.abs(entering) - sound).max())
                if excess > 0:
                    raise ParameterError(
                        f"{name} is faster than sound in a cell next to this inflow by {excess:.4g} m/s at the {when} of the run, expected "
                        "slower: the pressure comes from inside; take 'freestream', where it is given too"
                    )
