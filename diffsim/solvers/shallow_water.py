"""Nonlinear shallow water: run-up, floods, tides, storm surges, and tsunamis up to the coast."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from diffsim.base.arguments import flag, one_of, positive
from diffsim.boundary import Dirichlet, Extrapolate, OddImage
from diffsim.errors import ParameterError
from diffsim.expr.functions import maximum, minimum
from diffsim.expr.limiters import van_albada
from diffsim.expr.operators import add
from diffsim.expr.symbol import Symbol
from diffsim.integrators import euler, ssp_rk2, ssp_rk3
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.shallow import GRAVITY, Faces, crossing, half_steps, level_half_steps, slowed, velocity
from diffsim.solvers.parts.stability import check_common, check_sign, check_step
from diffsim.solvers.parts.staggered import words_of
from diffsim.stepping.declare.equation import Equation, Variable
from diffsim.stepping.trace.stages import stage
from diffsim.typing import Array, Positive

Word: TypeAlias = Literal["periodic", "wall", "open", "tide"]
Sides: TypeAlias = Word | tuple[Word | tuple[Word, Word], ...]
"""The sides of a sea: one word, or one an axis, where a pair is that of the low and the high side."""

WORDS = ("periodic", "wall", "open", "tide")
METHODS = {"euler": euler, "rk2": ssp_rk2, "rk3": ssp_rk3}
COURANT = 0.5
"""The largest dt Σ (|v| + sqrt(g h)) / dx for which no depth becomes negative."""


@dataclass(frozen=True)
class Bed:
    """The bed of a step.

    Attributes:
        z: height, m.
        slopes: change over half a cell along each axis, m.
        banks: the higher bed of each cell and the one below it along each axis, m.
    """

    z: Symbol
    slopes: Sequence[Symbol]
    banks: Sequence[Symbol]


class ShallowWater(Equation, kind="shallow_water"):
    def __init__(
        self,
        grid: Grid,
        dt: float,
        sides: Sides = "wall",
        method: Literal["euler", "rk2", "rk3"] = "rk2",
        drag: Literal["none", "manning", "quadratic"] = "none",
        thin: Positive = 1e-3,
        negligible: Positive = 1e-3,
        fastest: Positive | None = None,
    ) -> None:
        self.grid, self.dt = grid, check_common(grid, dt)
        if grid.ndim > 2 or None in grid.uniform_spacing:
            raise ParameterError(f"grid with {grid.ndim} axes, expected 1 or 2 of uniform cells; take such a grid")
        self.axes = "yx"[-grid.ndim :]
        self.sides = words_of(sides, self.axes, WORDS)
        self.method = METHODS[one_of("method", method, tuple(METHODS))]
        self.second = method != "euler"
        self.thin = positive("thin", thin, "give a depth below which water hardly moves, m", "m")
        self.limiter = van_albada(positive("negligible", negligible, "give a difference between neighbours that needs no limiter", "m"))
        self.fastest = None if fastest is None else positive("fastest", fastest, "give the largest |v| + sqrt(g h)", "m/s")
        self.drag = one_of("drag", drag, ("none", "manning", "quadratic"))
        tides = [(axis, high) for axis, pair in enumerate(self.sides) for high in (0, 1) if pair[high] == "tide"]
        self.tides = {side: "tide" if len(tides) == 1 else f"tide_{self._side(*side)}" for side in tides}
        self.momenta = tuple(f"q{axis}" for axis in self.axes)
        still, level = self._rules(), tuple(self._rule(axis, None) for axis in range(grid.ndim))
        self.states = {"eta": Variable(self._rules(tides=True), unit="m")}
        self.states |= {name: Variable(self._rules(axis), unit="m²/s") for axis, name in enumerate(self.momenta)}
        self.parameters = {"z": Variable(still, unit="m")}
        if self.drag != "none":
            self.parameters |= {"manning": Variable(still, unit="s/m^(1/3)")} if drag == "manning" else {"drag": Variable(still)}
        self.series = {
            name: Variable("mirror", unit="m", axes=tuple(other for other in range(grid.ndim) if other != axis))
            for (axis, _), name in self.tides.items()
        }
        handed = {name: one.boundary for name, one in self.parameters.items()}
        self.coefficient_boundaries = handed
        for axis in range(grid.ndim):
            self.coefficient_boundaries |= {f"bank{axis}": still}
            if self.second:
                self.coefficient_boundaries |= {f"slope{axis}": self._slopes(axis, False)}

    def _side(self, axis: int, high: int) -> str:
        return f"{'high' if high else 'low'}_{self.axes[axis]}"

    def _rule(self, axis: int, of: int | None, tides: bool = False) -> Any:
        """The rules along an axis of a level, or of the velocity along axis `of`."""

        def rule(word: str, high: int) -> Any:
            if word == "wall" and of == axis:
                return OddImage()
            if word == "tide" and tides:
                return Dirichlet(self.tides[axis, high])
            return Extrapolate(0) if word == "open" else "mirror"

        pair = self.sides[axis]
        return "periodic" if pair[0] == "periodic" else tuple(rule(word, high) for high, word in enumerate(pair))

    def _rules(self, of: int | None = None, tides: bool = False) -> tuple[Any, ...]:
        return tuple(self._rule(axis, of, tides) for axis in range(self.grid.ndim))

    def _slopes(self, along: int, odd: bool, of: int | None = None) -> tuple[Any, ...]:
        """The rules of slopes along an axis: those of a value that is even at a wall are odd there."""

        def rule(word: str) -> Any:
            return "zero" if word == "open" else "mirror" if odd else OddImage()

        rules = list(self._rules(of))
        pair = self.sides[along]
        rules[along] = "periodic" if pair[0] == "periodic" else tuple(rule(word) for word in pair)
        return tuple(rules)

    def coefficients(self, z: Symbol, **others: Symbol) -> dict[str, Symbol]:
        out = {"z": z, **others}
        for axis in range(self.grid.ndim):
            out[f"bank{axis}"] = maximum(z, z.shifted(axis, -1))
            if self.second:
                out[f"slope{axis}"] = half_steps(z, axis, self.limiter)
        return out

    def step(self, eta: Symbol, z: Symbol, **others: Symbol) -> dict[str, Symbol]:
        axes = range(self.grid.ndim)
        bed = Bed(z, [others.get(f"slope{axis}") for axis in axes], [others[f"bank{axis}"] for axis in axes])
        state = {"eta": stage(maximum(eta, z), boundary=eta), **{name: others[name] for name in self.momenta}}
        state = self._dragged(state, z, others, store=True)
        state = self.method(lambda now: self.rate(now, bed), state, self.dt)
        return self._dragged(state, z, others)

    def _dragged(self, state, z, others, store=False):
        if self.drag == "none":
            return state
        h = maximum(state["eta"] - z, 0.0)
        q = slowed([state[name] for name in self.momenta], h, self.thin, 0.5 * self.dt, others.get("manning"), others.get("drag"))
        if store:
            q = [stage(one, boundary=others[name]) for name, one in zip(self.momenta, q)]
        return {"eta": state["eta"], **dict(zip(self.momenta, q, strict=True))}

    def rate(self, now: Mapping[str, Symbol], bed: Bed) -> dict[str, Symbol]:
        h = maximum(now["eta"] - bed.z, 0.0)
        level = h + bed.z
        velocities = list(map(velocity(h, self.thin), (now[name] for name in self.momenta)))
        v = [stage(one, boundary=now[name]) for one, name in zip(velocities, self.momenta, strict=True)]
        change: dict[str, list[Symbol]] = {name: [] for name in self.states}
        for axis, name in enumerate(self.momenta):
            crossed, tilt = self._crossing(level, h, v, axis, bed)

            def gain(lost: Symbol, gained: Symbol | None = None, axis: int = axis) -> Symbol:
                return ((lost if gained is None else gained).shifted(axis, -1) - lost) / self.grid.spacing[axis]

            change["eta"].append(gain(crossed.water))
            pushed = crossed.push_below + crossed.push_above.shifted(axis, -1)
            if tilt is not None:
                pushed = pushed + 2 * GRAVITY * h * tilt
            change[name] += [gain(crossed.along), -1 / self.grid.spacing[axis] * pushed]
            if crossed.across is not None:
                change[self.momenta[1 - axis]].append(gain(crossed.across))
        return {name: add(parts) for name, parts in change.items()}

    def _crossing(self, level: Symbol, h: Symbol, v: Sequence[Symbol], axis: int, bed: Bed):
        if not self.second:
            faces = [Faces.of(f, None, axis) for f in (level, h, *v)]
            tilt = None
        else:
            tilt = stage(level_half_steps(level, bed.banks[axis], axis, self.limiter), boundary=self._slopes(axis, False))
            deeper = maximum(minimum(tilt - bed.slopes[axis], h), -h)
            slopes = [stage(half_steps(f, axis, self.limiter), boundary=self._slopes(axis, k == axis, k)) for k, f in enumerate(v)]
            faces = [Faces.of(f, half, axis) for f, half in zip((level, h, *v), (tilt, deeper, *slopes), strict=True)]
        levels, depths, *speeds = faces
        across = speeds[1 - axis] if len(speeds) == 2 else None
        return crossing(levels, depths, speeds[axis], across), tilt

    def check(self, parameters: Mapping[str, Array]) -> None:
        for name in ("manning", "drag"):
            if name in parameters:
                check_sign(name, parameters[name], "", positive=False)
        deepest = -float(parameters["z"].min())
        speed = self.fastest or math.sqrt(GRAVITY * max(deepest, 0.0))
        if speed:
            check_step(self.dt, COURANT / (speed * sum(1 / h for h in self.grid.spacing)), f"a speed of {speed:.4g} m/s")
