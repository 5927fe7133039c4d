"""Sides of an incompressible flow: rules of velocities, pressure and scalars from words, and the inputs that they name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim.base.messages import shown
from diffsim.boundary import Dirichlet, Neumann, Open, per_axis
from diffsim.errors import ParameterError
from diffsim.mesh.grid import Grid
from diffsim.stepping.declare.equation import Variable
from diffsim.typing import Array

WORDS = ("periodic", "no_slip", "slip", "moving", "inflow", "open", "outflow", "velocity")
FREE = ("open", "outflow")
"""Sides where the pressure is 0."""
UNBALANCED = {4: 1e-5, 8: 1e-12}
"""Part of the fluid that crosses all sides which may stay inside, by the bytes of a value: rounding, which the projection allows too."""
STEEPEST = 2.0
"""Steepest slope of a distance at an outline; the least is its inverse, by which a resistance moves a wall by 0.7 of a cell."""
CROSSED = (*FREE, "inflow", "velocity")
"""Sides that fluid crosses."""


@dataclass(frozen=True)
class FlowSides:
    """The sides of a flow.

    Attributes:
        axes: a letter for each axis.
        words: those of the low and the high side of each axis.
    """

    axes: str
    words: tuple[tuple[str, str], ...]

    @property
    def velocities(self) -> tuple[str, ...]:
        """The velocity along each axis."""
        return tuple({"x": "u", "y": "v", "z": "w"}[axis] for axis in self.axes)

    def of(self, *words: str) -> list[tuple[int, int]]:
        """Sides that have one of some words: axis, and whether it is the high one."""
        return [(axis, high) for axis, pair in enumerate(self.words) for high in (0, 1) if pair[high] in words]

    def name(self, axis: int, high: int) -> str:
        """The name of a side, such as "low_x"."""
        return f"{'high' if high else 'low'}_{self.axes[axis]}"

    def inlets(self) -> dict[tuple[int, int], str]:
        """Sides through which a given velocity flows, and the input that it is."""
        sides = self.of("inflow")
        names = {side: "inflow" if len(sides) == 1 else f"inflow_{self.name(*side)}" for side in sides}
        return names | {side: f"{self.velocities[side[0]]}_{self.name(*side)}" for side in self.of("velocity")}

    def velocity(self, k: int) -> tuple[Any, ...]:
        """The rules of a component of the velocity, for each axis."""
        return self._rules(lambda axis, high: self._velocity(self.words[axis][high], k, axis, high))

    def _velocity(self, word: str, k: int, axis: int, high: int) -> Any:
        name = self.velocities[k]
        if word in FREE:
            return Open(f"{name}_low" if k == axis else "")
        if k == axis:
            return Dirichlet(self.inlets().get((axis, high), 0.0))
        if word == "slip":
            return Neumann(0.0)
        return Dirichlet(f"{name}_{self.name(axis, high)}" if word in ("moving", "velocity") else 0.0)

    def pressure(self) -> tuple[Any, ...]:
        """The rules of the pressure: 0 where the flow is free."""
        return self._rules(lambda axis, high: Dirichlet(0.0) if self.words[axis][high] in FREE else Neumann(0.0))

    def scalar(self, name: str) -> tuple[Any, ...]:
        """The rules of a scalar: its value where fluid flows in; elsewhere nothing diffuses through."""
        inlets = self.inlets()
        return self._rules(lambda axis, high: Dirichlet(f"{name}_{self.name(axis, high)}") if (axis, high) in inlets else Neumann(0.0))

    def _rules(self, rule: Any) -> tuple[Any, ...]:
        return tuple("periodic" if pair[0] == "periodic" else (rule(axis, 0), rule(axis, 1)) for axis, pair in enumerate(self.words))

    def with_rule(self, rule: Any) -> tuple[Any, ...]:
        """One rule for all sides that are not periodic."""
        return tuple("periodic" if pair[0] == "periodic" else rule for pair in self.words)

    def inputs(self) -> dict[str, Variable]:
        """Inputs of the velocities on sides."""
        inputs = {name: self.on_side(axis, "m/s") for (axis, _), name in self.inlets().items()}
        for axis, high in self.of("velocity"):
            inputs |= {name: self.on_side(axis, "m/s", k) for k, name in self._along(axis, high).items()}
        for axis, high in self.of("moving"):
            inputs |= {name: Variable(axes=(), unit="m/s") for name in self._along(axis, high).values()}
        return inputs

    def inputs_of_scalar(self, name: str, rules: Any) -> dict[str, Variable]:
        """Inputs that the rules of a scalar name: a value for each cell of a side.

        Raises:
            ParameterError: a name is that of sides of two axes, or the scalar is periodic where the flow is not.
        """
        inputs: dict[str, Variable] = {}
        for axis, (pair, words) in enumerate(zip(per_axis(rules, len(self.axes)), self.words, strict=True)):
            if pair[0].joins != (words[0] == "periodic"):
                raise ParameterError(
                    f"scalar {name} and sides along {self.axes[axis]} = {shown(words)}, expected both periodic there, or none; correct one"
                )
            for rule in pair:
                if rule.named and inputs.setdefault(str(rule.given), self.on_side(axis, "")) != self.on_side(axis, ""):
                    raise ParameterError(f"{rule.given} of scalar {name} is the value of sides of two axes, expected one; rename it on one")
        return inputs

    def on_side(self, axis: int, unit: str, along: int | None = None) -> Variable:
        """A value for each cell of a side across an axis, at centres, or on the upper faces `along` another axis.

        Beyond the ends of its side it is what the velocity is there.
        """
        rules = {"no_slip": Dirichlet(0.0), "inflow": Dirichlet(0.0)} if unit == "m/s" else {}
        across = tuple(other for other in range(len(self.axes)) if other != axis)
        ends = self._rules(lambda other, high: rules.get(self.words[other][high], Neumann(0.0)))
        place = tuple(int(other == along) for other in range(len(self.axes)))
        return Variable(tuple("mirror" if other == axis else pair for other, pair in enumerate(ends)), place, unit, across)

    def speeds(self) -> list[tuple[int, str]]:
        """The axis of each velocity of fluid that crosses a side, and its name. A wall that moves brings none in."""
        along = [pair for side in self.of("velocity") for pair in self._along(*side).items()]
        return [(axis, name) for (axis, _), name in self.inlets().items()] + along

    def check_balance(self, grid: Grid, values: Mapping[str, Array], bodies: bool = False) -> None:
        """Raise unless as much fluid leaves as enters, where no side is open: the velocities across the sides are all given.

        Args:
            grid: of uniform cells.
            values: of the inputs across sides: a value for each cell of a side, of a series behind an axis of steps. Where they are those
                of a box of a process, nothing is judged.
            bodies: whether bodies may cover parts of the sides. Then only fluid that enters through all sides, or leaves, is refused.
        """
        if self.of(*FREE):
            return
        allowed = UNBALANCED[min(np.asarray(value).itemsize for value in values.values())] if values else 0.0
        through: dict[str, Array] = {}  # m³/s into the grid (m²/s in two dimensions), one number or one a step
        for (axis, high), name in self.inlets().items():
            value, cells = np.asarray(values[name], float), tuple(n for other, n in enumerate(grid.shape) if other != axis)
            if value.shape[-len(cells) :] != cells or value.ndim - len(cells) > 1:
                return
            area = math.prod(h for other, h in enumerate(grid.spacing) if other != axis)
            through[self.name(axis, high)] = (-area if high else area) * value.sum(axis=tuple(range(-len(cells), 0))) + 0.0
        net, size = sum(through.values()), sum(np.abs(one) for one in through.values())
        wrong = np.atleast_1d((np.abs(net) >= (1 - allowed) * size) & (size > 0) if bodies else np.abs(net) > allowed * size)
        if wrong.any():
            step = int(wrong.argmax())
            each = ", ".join(f"{np.broadcast_to(one, wrong.shape)[step]:.4g} through {side}" for side, one in through.items())
            when = f" in step {step}" if np.ndim(net) else ""
            unit = "m³/s" if len(self.axes) == 3 else "m²/s"
            raise ParameterError(
                f"sides: fluid enters with {each} ({unit}){when}, and no side is open, expected a sum of 0; give another side "
                '"outflow" or "open", or velocities that let as much out'
            )

    def _along(self, axis: int, high: int) -> dict[int, str]:
        """Inputs with the velocities along a side, by their axes."""
        return {k: f"{name}_{self.name(axis, high)}" for k, name in enumerate(self.velocities) if k != axis}


def check_slope(phi: Array, spacing: Sequence[float]) -> None:
    """Raise ParameterError if the slope of a distance to bodies is far from 1 at their outline, where a resistance reads lengths.

    Values far away may be infinite. Without an outline, as in a box of a process, nothing is judged.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        parts = [np.gradient(phi.astype(float), h, axis=axis) for axis, h in enumerate(spacing) if phi.shape[axis] > 1]
        slopes = np.sqrt(sum(part**2 for part in parts))
    at_outline: list[float] = []
    for axis, n in enumerate(phi.shape):
        low, high = (tuple([slice(None)] * axis + [part]) for part in (slice(0, n - 1), slice(1, n)))
        crossed = (phi[low] < 0) != (phi[high] < 0)
        if crossed.any():
            at_outline.extend(np.fmax(slopes[low], slopes[high])[crossed])
    slope = float(np.median(at_outline)) if at_outline else 1.0
    if not 1 / STEEPEST <= slope <= STEEPEST:
        scaled = f"divide phi by {slope:.3g}, or " if 0 < slope < np.inf else ""
        raise ParameterError(
            f"phi changes by {slope:.3g} m a metre at the outline of the bodies, expected about 1 ({1 / STEEPEST:g} to {STEEPEST:g}) with "
            f'bodies_method = "penalised", which reads distances; {scaled}take one of diffsim.solvers.bodies'
        )


def check_outline(phi: Array, around: FlowSides) -> None:
    """Raise ParameterError unless the distance to bodies has a body, fluid and an outline, and no side that fluid crosses is all body."""
    least, most = float(phi.min()), float(phi.max())
    if not least < 0:
        raise ParameterError(
            f"phi has no cell below 0, its least is {least:.4g}, expected a body that contains the centre of a cell; take smaller cells, "
            "or leave out bodies"
        )
    if not most > 0:
        raise ParameterError(
            f"phi has no cell above 0, its largest is {most:.4g}, expected fluid somewhere; change the sign: phi is negative inside of the "
            "body"
        )
    if ((phi == least) | (phi == most)).all():
        raise ParameterError(
            f"phi has only the values {least:.4g} and {most:.4g}, expected a signed distance in metres, not a mask; take one of "
            "diffsim.solvers.bodies"
        )
    for axis, high in around.of(*CROSSED):
        if (phi.take(-high, axis) < 0).all():
            raise ParameterError(
                f"phi is below 0 along the whole side {around.name(axis, high)} ({around.words[axis][high]}), expected fluid there; change "
                "the sign: phi is negative inside of the body"
            )
