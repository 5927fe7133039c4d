"""Steady problems that are drawn by a number: elliptic operators of all kinds, of one field or two, with any rules at the sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import diffsim as ds
from tests.stepping.drawn_program import Field, Place, Scope
from tests.stepping.drawn_reference import JL, Decl, J, T, ext_axis
from tests.stepping.drawn_steps import Side, Sides, Symbols, variable_of

ITERATIONS = 3
"""Iterations by torch from a solution of diffsim. The last two are differentiated."""
NONLINEAR = ("cube", "exp", "quotient", "tanh")


class Problem:
    """A steady problem that is drawn by a number.

    Args:
        seed: the number.

    Attributes:
        decl: rules, place and axes of each field. "k" and "s" are fields, "p" varies along one axis, "a" and "held" are numbers.
        states: the unknowns.
        linear: whether the residuals are linear.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self._generator = seed, np.random.default_rng([seed, 7])
        self.ndim = int(self._generator.choice([1, 2, 3], p=[0.35, 0.5, 0.15]))
        self.shape = tuple(int(n) for n in self._generator.integers(4, 9 if self.ndim < 3 else 6, self.ndim))
        self.h = tuple(float(x) for x in np.round(self._generator.uniform(0.3, 1.4, self.ndim), 2))
        self.linear = self._chance(0.5)
        self.constant = self.linear and self._chance(0.3)
        self.method: Any = "lu" if self._chance(0.2) else "bicgstab" if self._chance(0.15) else "auto"
        self.decl: dict[str, Decl] = {}
        centre = (0,) * self.ndim
        self._joined = [self._chance(0.25) for _ in range(self.ndim)]
        for name in ("a", "held"):
            self.decl[name] = Decl((), (), ())
        self.decl["k"] = Decl(self._sides(centre), centre, tuple(range(self.ndim)))
        self.decl["s"] = Decl(self._sides(centre), centre, tuple(range(self.ndim)))
        if self.ndim > 1 and self._chance(0.5):
            axis = int(self._generator.integers(self.ndim))
            self.decl["p"] = Decl((self._sides(centre)[axis],), (0,), (axis,))
        self.states = ("u", "v")[: 1 + self._chance(0.3)]
        for name in self.states:
            place = tuple(int(self._chance(0.25)) for _ in range(self.ndim))
            self.decl[name] = Decl(self._sides(place, valued=True), place, tuple(range(self.ndim)))
        self._program = int(self._generator.integers(1 << 30))

    def _chance(self, part: float) -> bool:
        return bool(self._generator.random() < part)

    def _sides(self, place: Place, valued: bool = False) -> Sides:
        out: list[tuple[Side, Side]] = []
        for axis in range(self.ndim):
            if self._joined[axis]:
                kind = ("antiperiodic",) if self._chance(0.15) else ("periodic",)
                out.append((kind, kind))
                continue
            order = 1 if valued else int(self._generator.integers(0, 3))
            choices: list[Side] = [("zero",), ("mirror",), ("odd_image",), ("extrapolate", order)]
            if valued:
                choices += [("dirichlet", 0.3), ("dirichlet", "held"), ("neumann", -0.2)]
                choices += [("robin", 0.7, 0.4, 0.2), ("robin", 0.5, 0.5, "held")]
                if "p" in self.decl and self.decl["p"].axes != (axis,) and not place[self.decl["p"].axes[0]]:
                    choices += [("dirichlet", "p"), ("neumann", "p"), ("robin", 0.5, 0.2, "p")]
            low, high = (choices[self._generator.integers(len(choices))] for _ in range(2))
            out.append((low, high))
        return tuple(out)

    def residuals(self, operations: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        """The residual of each state. The same lines are drawn at each call."""
        generator = np.random.default_rng(self._program)
        fields = [Field(inputs[name], self.decl[name].loc) for name in ("k", "s")]
        scope = Scope(operations, generator, fields, [inputs["a"], inputs["held"]], [])
        return {name: self._residual(scope, name, inputs) for name in self.states}

    def _residual(self, scope: Scope, name: str, inputs: dict[str, Any]) -> Any:
        operations, x, place = scope.operations, inputs[name], self.decl[name].loc
        at = [1 - place[axis] for axis in range(self.ndim)]
        total: Any = 0.0
        flux_of = scope.one(("interpolated", "plain", "harmonic")) if not self.constant else "plain"
        conductivity = 1 + 0.8 * operations.fn("tanh", inputs["k"])  # positive
        grows = not self.linear and scope.chance(0.5)
        for axis in range(self.ndim):
            between = tuple(at[axis] if each == axis else place[each] for each in range(self.ndim))
            part = scope.one((0.3, 1.0, 2.5))
            slope = operations.diff(x, axis, place)
            if flux_of != "plain":
                weight: Any = scope.leaf(between, [Field(1 / conductivity if flux_of == "harmonic" else conductivity, (0,) * self.ndim)])
                slope = slope / weight if flux_of == "harmonic" else weight * slope
            if grows:
                slope = slope * operations.interpolate(1 + 0.2 * x * x, axis, place)
            total = total + part * operations.diff(slope, axis, between)
        if self.ndim > 1 and scope.chance(0.4):  # an anisotropic part
            total = total + 0.15 * operations.diff_centred(operations.diff_centred(x, 0), 1)
        if scope.chance(0.5):
            speed = 0.5 if self.constant else 0.5 * operations.fn("sin", scope.leaf(place))
            axis = scope.below(self.ndim)
            total = total + (speed * operations.diff_centred(x, axis) if scope.chance(0.5) else operations.diff_centred(speed * x, axis))
        if scope.chance(0.6):
            total = total - (scope.one((0.2, 1.0)) if self.constant or scope.chance(0.5) else inputs["a"] * inputs["a"] + 0.2) * x
        if not self.linear:
            kind = scope.one(NONLINEAR)
            total = (
                total
                - 0.4
                * {
                    "cube": lambda: x * x * x,
                    "exp": lambda: operations.fn("exp", 0.5 * x),
                    "quotient": lambda: x / (1 + x * x),
                    "tanh": lambda: scope.leaf(place) * operations.fn("tanh", x),
                }[kind]()
            )
        for other in self.states:
            if other != name:
                total = total + 0.3 * scope.leaf(place, [Field(inputs[other], self.decl[other].loc)])
        source = scope.leaf(place) * (1 + 0.5 * inputs["a"])
        if scope.chance(0.3):
            source = source * scope.leaf(place)
        if "p" in inputs:
            line, (axis,) = inputs["p"], self.decl["p"].axes
            source = source + (operations.interpolate(line, axis, (0,) * self.ndim) if place[axis] else line)
        return total + source

    def inputs(self) -> dict[str, Any]:
        generator = np.random.default_rng([self.seed, 8])
        values: dict[str, Any] = {}
        for name, one in self.decl.items():
            shape = tuple(self.shape[axis] for axis in one.axes)
            values[name] = generator.uniform(-1, 1, shape) if shape else float(generator.uniform(-1, 1))
        return values

    def simulation(self) -> Any:
        case = self
        names = [*self.decl]
        known = {"program": lambda inputs: case.residuals(Symbols({}), inputs)}
        exec(f"def residual(self, {', '.join(names)}):\n    return program({{{', '.join(f'{m!r}: {m}' for m in names)}}})\n", known)

        class Drawn(ds.Steady):
            residual: Any = known["residual"]
            method = case.method
            tolerance = 1e-14 if not case.linear else None

            def __init__(self) -> None:
                self.grid = ds.Grid(case.shape, case.h)
                self.states = {name: variable_of(case.decl[name], case.ndim) for name in case.states}
                self.parameters = {name: variable_of(case.decl[name], case.ndim) for name in case.decl if name not in case.states}

        return ds.steady(Drawn(), wrt=[name for name in self.decl if name not in self.states], precision="f64")

    # in torch

    def system(self, inputs: dict[str, Any]) -> Any:
        """The residuals of all unknowns as a function of them, as one row of numbers. Where a rule gives a value, that is the equation."""
        operations = JL(self)
        operations.raw = {name: T(inputs[name]) for name in self.decl if name not in self.states}
        size = int(np.prod(self.shape))

        def around(name: str, value: torch.Tensor) -> Any:
            one = self.decl[name]
            if not one.axes:
                return J(operations, value)
            if len(one.axes) == self.ndim:
                return operations.extend(value, one.rules, one.loc)
            (axis,) = one.axes
            value = ext_axis(value, 0, *one.rules[0], False, self.h[axis], {}, None)
            return J(operations, operations.full(value.reshape([-1 if each == axis else 1 for each in range(self.ndim)])))

        known = {name: around(name, operations.raw[name]) for name in operations.raw}

        def function(row: torch.Tensor) -> torch.Tensor:
            own = {name: row[n * size : (n + 1) * size].reshape(self.shape) for n, name in enumerate(self.states)}
            here = {name: around(name, value) for name, value in own.items()}
            rows = []
            for name, value in self.residuals(operations, known | here).items():
                one, here_value = self.decl[name], own[name]
                held = [self._held(high, at) for (_, high), at in zip(one.rules, one.loc, strict=True)]
                on_side = torch.zeros(self.shape, dtype=torch.bool)
                for axis, holds in enumerate(held):
                    on_side.movedim(axis, 0)[-1] |= holds
                missing = here_value - operations.edge(here_value, one.rules, one.loc)
                rows.append(torch.where(on_side, missing, operations.crop(value)).ravel())
            return torch.cat(rows)

        return function

    @staticmethod
    def _held(high: Side, at: int) -> bool:
        """True if a rule gives the last value of a field on faces."""
        return bool(at) and high[0] in ("dirichlet", "odd_image")

    def reference(self, inputs: dict[str, Any], start: dict[str, Any]) -> tuple[dict[str, torch.Tensor], float]:
        """The solution next to `start`, and the condition number of its derivative."""
        function = self.system(inputs)
        x = torch.cat([T(start[name]).ravel() for name in self.states])
        condition = float("inf")
        for number in range(ITERATIONS):
            if number <= ITERATIONS - 2:
                x = x.detach()
            jacobian = torch.func.jacfwd(function)(x)
            if number == 0:
                condition = float(torch.linalg.cond(jacobian.detach()))
                if not condition < 1e12:
                    break
            x = x - torch.linalg.solve(jacobian, function(x))
        size = int(np.prod(self.shape))
        return {name: x[n * size : (n + 1) * size].reshape(self.shape) for n, name in enumerate(self.states)}, condition
