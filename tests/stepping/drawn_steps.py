"""Steps that are drawn by a number: states with any rules at any place of the cell, inputs of all kinds, sources and receivers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import diffsim as ds
import diffsim.expr as ex
import diffsim.numpy as dnp
from tests.stepping.drawn_program import Field, Line, Place, Scope, next_states
from tests.stepping.drawn_reference import JL, Decl, J, T, W, ext_axis

Side = tuple[Any, ...]
"""A rule at a side: its name and its values."""
Sides = tuple[tuple[Side, Side], ...]
"""The rules of the low and the high side of each axis."""
JOINED = ("periodic", "antiperiodic")
WITH_VALUES: dict[str, Callable[..., Any]] = {
    "dirichlet": ds.Dirichlet,
    "neumann": ds.Neumann,
    "robin": ds.Robin,
    "extrapolate": ds.Extrapolate,
}
DT = 0.1
STATES = ("u", "v", "w")


def rule_of(side: Side) -> Any:
    kind, *values = side
    return WITH_VALUES[kind](*values) if kind in WITH_VALUES else kind


def rules_of(sides: Sides) -> tuple[Any, ...]:
    return tuple(low[0] if low[0] in JOINED else (rule_of(low), rule_of(high)) for low, high in sides)


def variable_of(one: Decl, ndim: int, series: bool = False) -> ds.Variable:
    """The declaration of a field: of one that has a value for each step, if `series`."""
    if len(one.axes) == ndim and not series:
        return ds.Variable(rules_of(one.rules), location=one.loc)
    boundary: list[Any] = ["mirror"] * ndim
    for axis, rule in zip(one.axes, rules_of(one.rules), strict=True):
        boundary[axis] = rule
    return ds.Variable(tuple(boundary), axes=one.axes) if one.axes else ds.Variable(axes=())


class Symbols:
    """The operations of a step in diffsim, under the names of those in torch (`JL`)."""

    def __init__(self, solver: dict[str, Any]) -> None:
        self._solver = solver
        self.diff_centred, self.laplacian = ex.diff_centred, ex.laplacian
        self.where, self.min2, self.max2, self.arctan2 = ex.where, ex.minimum, ex.maximum, ex.arctan2

    def fn(self, name: str, x: Any) -> Any:
        return getattr(ex, name)(x)

    red = fn

    def limiter(self, name: str, a: Any, b: Any) -> Any:
        return getattr(ex, name)(a, b)

    def diff(self, x: Any, axis: int, place: Place, order: int = 2) -> Any:
        return ex.diff(x, axis=axis, order=order)

    def interpolate(self, x: Any, axis: int, place: Place, order: int = 2) -> Any:
        return ex.interpolate(x, axis=axis, order=order)

    def stage(self, x: Any, sides: Sides, place: Place) -> Any:
        return ds.stage(x, boundary=rules_of(sides))

    def repeat(self, count: int, body: Callable[..., list[Any]], fields: list[Any], like: list[Decl], laps: Any = None) -> list[Any]:
        options = {} if laps is None else {"laps": laps}

        def lap(*now: Any) -> Any:
            return tuple(body(*now)) if len(now) > 1 else body(*now)[0]

        after = ds.repeat(count, lap, *fields, boundary=rules_of(like[0].rules), **options)
        return list(after) if len(fields) > 1 else [after]

    def solve(self, operator: Callable[[Any], Any], right: Any, sides: Sides, place: Place) -> Any:
        return ds.solve(operator, right, boundary=rules_of(sides), **self._solver)

    def newton(self, residual: Callable[[Any], Any], guess: Any, sides: Sides, place: Place) -> Any:
        return ds.newton(residual, guess, boundary=rules_of(sides), tolerance=1e-14)

    def running_sum(self, x: Any, axis: int, reverse: bool, sides: Sides, place: Place) -> Any:
        return ds.running_sum(x, axis=axis, reverse=reverse, boundary=rules_of(sides))

    def host(self, function: Callable[..., Any], fields: list[Any], sides: Sides, place: Place) -> Any:
        return ds.host_stage(lambda x: function(dnp, x), fields[0], boundary=rules_of(sides))


class Case:
    """A step that is drawn by a number.

    Args:
        seed: the number.
        only: kinds of its statements; others become plain stages. None: all kinds.

    Attributes:
        decl: rules, place and axes of each field. All have the parameter "k"; "p" and "q" vary along one axis; "held", "heldp" are numbers
            that rules name; "num" is a state of one number.
        kinds: "state", "parameter" or "series", of each field.
        forced: the state that sources drive, or None.
        seen: the state that receivers record.
    """

    def __init__(self, seed: int, only: Sequence[str] | None = None) -> None:
        self.seed, self.only = seed, only
        self._generator = np.random.default_rng(seed)
        self.ndim = int(self._generator.choice([1, 2, 3], p=[0.45, 0.45, 0.1]))
        self.shape = tuple(int(n) for n in self._generator.integers(5, 10 if self.ndim < 3 else 7, self.ndim))
        self.h = tuple(float(x) for x in np.round(self._generator.uniform(0.6, 1.4, self.ndim), 2))
        self.steps = int(self._generator.integers(2, 5))
        self.solver: dict[str, Any] = {}
        self.decl: dict[str, Decl] = {}
        self.kinds: dict[str, str] = {}
        self._joined = [self._chance(0.35) for _ in range(self.ndim)]
        self._staggered, self._mirrors_alone, self._mirrors_beside_lines = self._chance(0.45), self._chance(0.3), self._chance(0.3)
        self._declare_inputs()
        self.states = STATES[: int(self._generator.integers(1, 4))]
        for name in self.states:
            place = self._place()
            self._declare(name, "state", self._sides(place, valued=True), place)
        if self._chance(0.2):
            self._declare("num", "state")
        self.forced = str(self._generator.choice(self.states)) if self._chance(0.4) else None
        self._reads_time = self._chance(0.3)
        self._program = int(self._generator.integers(1 << 30))
        self.sources, self.receivers = self._points(2), self._points(3)
        self.seen = str(self._generator.choice(self.states))

    @property
    def n_rec(self) -> int:
        return len(self.receivers)

    def _chance(self, part: float) -> bool:
        return bool(self._generator.random() < part)

    def _declare(self, name: str, kind: str, sides: Sides = (), place: Place = (), axes: tuple[int, ...] | None = None) -> None:
        self.decl[name] = Decl(sides, place, tuple(range(len(place))) if axes is None else axes)
        self.kinds[name] = kind

    def _declare_inputs(self) -> None:
        centre = (0,) * self.ndim
        self._declare("k", "parameter", self._sides(centre), centre)
        numbers = {"a": ("parameter", 0.6), "s": ("series", 0.5), "held": ("series", 0.25), "heldp": ("parameter", 0.15)}
        for name, (kind, part) in numbers.items():
            if self._chance(part):
                self._declare(name, kind)
        for name, kind, part in (("p", "parameter", 0.4 if self.ndim > 1 else 0.0), ("q", "series", 0.3)):
            if self._chance(part):
                axis = int(self._generator.integers(self.ndim))
                self._declare(name, kind, (self._sides(centre)[axis],), (0,), (axis,))
        if self._chance(0.3):
            place = self._place()
            self._declare("z", "parameter", self._sides(place), place)

    def _place(self) -> Place:
        return tuple(int(self._staggered and self._chance(0.4)) for _ in range(self.ndim))

    def _points(self, count: int) -> list[list[float]]:
        """Between the cells 1 and n - 2 of each axis."""
        places = self._generator.random((count, self.ndim))
        return [[float((1 + x * (n - 3)) * h) for x, n, h in zip(row, self.shape, self.h, strict=True)] for row in places]

    def _sides(self, place: Place, valued: bool = False) -> Sides:
        """Rules of each axis. `valued`: they may have values, and name inputs."""
        out: list[tuple[Side, Side]] = []
        for axis in range(self.ndim):
            if self._joined[axis]:
                kind = "antiperiodic" if self._chance(0.2) and not self._mirrors_alone else "periodic"
                out.append(((kind,), (kind,)))
            else:
                choices = self._choices(axis, place, valued)
                out.append((choices[self._generator.integers(len(choices))], choices[self._generator.integers(len(choices))]))
        return tuple(out)

    def _choices(self, axis: int, place: Place, valued: bool) -> list[Side]:
        lines = [name for name in ("p", "q") if name in self.decl]
        crossed = any(axis in self.decl[name].axes for name in lines)
        if self._mirrors_alone or (valued and self._mirrors_beside_lines and crossed):
            return [("mirror",)]
        choices: list[Side] = [("zero",), ("mirror",), ("mirror",), ("odd_image",), ("extrapolate", int(self._generator.integers(0, 3)))]
        if not valued:
            return choices
        choices += [("dirichlet", 0.3), ("neumann", -0.2), ("robin", 0.7, 0.4, 0.2)]
        if "held" in self.decl:
            choices += [("dirichlet", "held"), ("neumann", "held")] * 2
        if "heldp" in self.decl:
            choices += [("dirichlet", "heldp"), ("robin", 0.5, 0.5, "heldp")]
        for name in lines:
            (along,) = self.decl[name].axes
            even = self._mirrors_beside_lines and all(side == ("mirror",) for pair in self.decl[name].rules for side in pair)
            if axis != along and even and not place[along]:
                choices += [("dirichlet", name), ("neumann", name) if name == "q" else ("robin", 0.5, 0.2, name)]
        return choices

    # in diffsim

    def program(self, operations: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        """The next values of the states, by some operations on the present values of all fields. The same lines are drawn at each call."""
        fields = [Field(inputs[name], self.decl[name].loc) for name in (*self.states, "k", "z") if name in inputs]
        numbers = [inputs[name] for name in ("a", "s", "held", "heldp", "num", "t") if name in inputs]
        lines = [Line(inputs[name], self.decl[name].axes[0]) for name in ("p", "q") if name in inputs]
        scope = Scope(operations, np.random.default_rng(self._program), fields, numbers, lines)
        weight = Field(inputs["k"], self.decl["k"].loc)
        out = next_states(scope, {name: inputs[name] for name in self.states}, self.decl, weight, self.only)
        if self.forced is not None:
            out[self.forced] = out[self.forced] + DT * inputs["f"]
        if "num" in inputs:
            mean = operations.red("mean", scope.expression(2, self.decl[self.states[0]].loc))
            out["num"] = 0.5 * inputs["num"] + operations.fn("tanh", mean)
        return out

    def inputs(self) -> dict[str, Any]:
        """Values of all inputs, in [-1, 1], and of order 1 at sources."""
        generator = np.random.default_rng([self.seed, 1])
        values: dict[str, Any] = {}
        for name, one in self.decl.items():
            shape = (self.steps,) * (self.kinds[name] == "series") + tuple(self.shape[axis] for axis in one.axes)
            values[name] = generator.uniform(-1, 1, shape) if shape else float(generator.uniform(-1, 1))
        if self.forced is not None:
            values["f"] = generator.normal(size=(self.steps, len(self.sources)))
        return values

    def equation(self) -> ds.Equation:
        case = self
        names = [*self.decl, *(["f"] if self.forced is not None else []), *(["t"] if self._reads_time else [])]
        known = {"program": lambda inputs: case.program(Symbols(case.solver), inputs)}  # a step has the names of its fields as arguments
        exec(f"def step(self, {', '.join(names)}):\n    return program({{{', '.join(f'{m!r}: {m}' for m in names)}}})\n", known)

        class Drawn(ds.Equation):
            step: Any = known["step"]

            def __init__(self) -> None:
                self.grid, self.dt = ds.Grid(case.shape, case.h), DT
                self.states, self.parameters, self.series = (
                    {
                        name: variable_of(case.decl[name], case.ndim, wanted == "series")
                        for name, kind in case.kinds.items()
                        if kind == wanted
                    }
                    for wanted in ("state", "parameter", "series")
                )
                if case.forced is not None:
                    self.forcings = ("f",)

        return Drawn()

    def simulation(self, **options: Any) -> ds.Simulation:
        sources = {} if self.forced is None else {"f": self.sources}
        return ds.Simulation(self.equation(), sources=sources, receivers={self.seen: self.receivers}, **{"precision": "f64", **options})

    # in torch

    def _weights(self, point: Sequence[float], place: Place) -> np.ndarray:
        """The share of each cell in the linear interpolation to a point."""
        out = np.ones(())
        for x, n, h, at in zip(point, self.shape, self.h, place, strict=True):
            low, part = divmod(x / h - 0.5 * at, 1.0)
            line = np.zeros(n)
            line[int(low)], line[int(low) + 1] = 1 - part, part
            out = np.multiply.outer(out, line)
        return out

    def reference(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The states at the end and the traces, by torch."""
        operations = JL(self)
        states = {name: T(inputs[name]) for name, kind in self.kinds.items() if kind == "state"}
        seen = [T(self._weights(point, self.decl[self.seen].loc)) for point in self.receivers]
        traces = [[torch.sum(weights * states[self.seen]) for weights in seen]]
        for n in range(self.steps):
            operations.raw = {
                name: T(inputs[name])[n] if kind == "series" else T(inputs[name]) for name, kind in self.kinds.items() if kind != "state"
            }
            present = operations.raw | states
            around = {name: self._around(operations, name, present[name]) for name in self.decl}
            if self.forced is not None:
                weights = [T(self._weights(point, self.decl[self.forced].loc) / np.prod(self.h)) for point in self.sources]
                density = sum(inputs["f"][n, k] * each for k, each in enumerate(weights))
                around["f"] = J(operations, torch.nn.functional.pad(density, (W, W) * self.ndim))
            if self._reads_time:
                around["t"] = J(operations, T(n * DT))
            after = self.program(operations, around)
            for name in states:
                one = self.decl[name]
                states[name] = operations.edge(operations.crop(after[name]), one.rules, one.loc) if one.axes else after[name].a
            traces.append([torch.sum(weights * states[self.seen]) for weights in seen])
        return {"final": states, "traces": torch.stack([torch.stack(row) for row in traces])}

    def _around(self, operations: JL, name: str, value: torch.Tensor) -> Any:
        """A field with cells beyond all sides."""
        one = self.decl[name]
        if len(one.axes) == self.ndim:
            return operations.extend(value, one.rules, one.loc)
        if not one.axes:
            return J(operations, value)
        shape = [1] * self.ndim
        for position, axis in enumerate(one.axes):
            value = ext_axis(value, position, *one.rules[position], False, self.h[axis], {}, None)
            shape[axis] = value.shape[position]
        return J(operations, operations.full(value.reshape(shape)))
