"""Loops that go beyond the grid skip values that are 0 or not needed there, and no bit changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import Binomial
from diffsim.expr import div, interpolate, sqrt, weno5, where
from diffsim.expr.graph import OPERATIONS, Graph, Node, ordered
from diffsim.stepping.ir.program import Program
from diffsim.stepping.passes import rolling
from diffsim.stepping.passes.beyond import _support
from tests.sampled import sampled

FIELDS = {"a": (True, True), "b": (True, False), "c": (False, False)}
"""Fields, and along which axes they are 0 outside the grid."""
FAR = 6


def drawn_expression(graph: Graph, rng: np.random.Generator) -> Node:
    """An expression of the fields at offsets of up to 2, whose operations keep zeros or do not."""
    nodes = [graph.read(str(rng.choice([*FIELDS])), tuple(int(o) for o in rng.integers(-2, 3, 2))) for _ in range(5)]
    nodes += [graph.const(float(rng.choice([0.0, 1.0, -2.5])))]

    def one() -> Node:
        return nodes[int(rng.integers(len(nodes)))]

    for _ in range(12):
        op = str(rng.choice(["add", "sub", "mul", "mul", "div", "min", "max", "abs", "guard", "guard", "choice", "exp"]))
        match op:
            case "guard":
                new = graph.apply("select", graph.all_zero([one() for _ in range(rng.integers(1, 3))]), graph.const(0), one())
            case "choice":
                new = graph.apply("select", graph.apply(str(rng.choice(["lt", "le", "eq"])), one(), one()), one(), one())
            case "div":
                new = graph.div(one(), graph.apply("exp", one()))
            case "abs" | "exp":
                new = graph.apply(op, one())
            case _:
                new = graph.apply(op, one(), one())
        nodes.append(new)
    return nodes[-1]


def evaluated(root: Node, fields: dict[str, np.ndarray], cells: tuple[int, int]) -> np.ndarray:
    """An expression at the cells of a grid and so far around it as fields are known for all offsets."""
    n, m = cells
    values: dict[int, Any] = {}
    for node in ordered([root]):
        if node.op == "const":
            values[node.id] = np.full((n + 2 * FAR, m + 2 * FAR), node.data)
        elif node.op == "read":
            name, (y, x) = node.data
            values[node.id] = fields[name][2 + y : 2 + y + n + 2 * FAR, 2 + x : 2 + x + m + 2 * FAR]
        else:
            values[node.id] = OPERATIONS[node.op].evaluate(*(values[each.id] for each in node.args))
    return np.broadcast_to(np.asarray(values[root.id], float), (n + 2 * FAR, m + 2 * FAR))


def test_an_expression_is_zero_outside_its_support() -> None:
    """Drawn expressions of fields of which some are 0 outside the grid. Many have bounds, and some have tight ones."""
    rng, bounded, tight = np.random.default_rng(0), 0, 0
    for _ in range(300):
        graph, cells = Graph(), (int(rng.integers(1, 6)), int(rng.integers(1, 6)))
        root = drawn_expression(graph, rng)
        if root.op == "const" or not any(node.op == "read" for node in ordered([root])):
            continue
        fields = {name: rng.uniform(0.5, 1.5, [n + 2 * (FAR + 2) for n in cells]) * rng.choice([-1, 1]) for name in FIELDS}
        for name, zero in FIELDS.items():
            for axis in (axis for axis, each in enumerate(zero) if each):
                inside = np.zeros(fields[name].shape[axis])
                inside[FAR + 2 : FAR + 2 + cells[axis]] = 1
                fields[name] *= inside.reshape([-1 if each == axis else 1 for each in range(2)])
        values = evaluated(root, fields, cells) != 0
        support = _support(root, Program("drawn", (), {}, 1, {}), FIELDS, {})
        inside = np.ones(values.shape, bool)
        for axis, ((low, high), n) in enumerate(zip(support, cells, strict=True)):
            at = np.arange(-FAR, n + FAR)
            inside &= np.expand_dims((at >= -low) & (at < n + high), 1 - axis)
        assert not (values & ~inside).any()
        bounded += not inside.all()
        tight += bool(values[inside].all()) and not inside.all() and bool(inside.any())
    assert bounded > 100 and tight > 40


class Carried(ds.Equation):
    """A substance in a flow, between sides of drawn kinds."""

    def __init__(self, rng: np.random.Generator, ndim: int) -> None:
        self.grid = ds.Grid(tuple(int(n) for n in rng.integers(6, [40, 20, 9][ndim - 1], ndim)), 1.0)
        self.dt, self.weno = 0.1, bool(rng.integers(2))
        words = ["mirror", "mirror", ds.Dirichlet("g"), ds.Neumann("g"), "zero"]
        pairs = [(words[int(rng.integers(5))], words[int(rng.integers(5))]) for _ in range(ndim)]
        sides: Any = tuple("periodic" if axis and rng.random() < 0.3 else pair for axis, pair in enumerate(pairs))
        self.states = {"c": ds.Variable(sides)}
        self.parameters = {"v": ds.Vector("zyx"[3 - ndim :], str(rng.choice(["mirror", "zero"]))), "g": ds.Variable(axes=())}

    def faces(self, c: Any, axis: int) -> Any:
        if self.weno:
            return weno5(c, axis)
        mean = interpolate(c, axis)
        return mean * mean / (mean * mean + (1 - mean) * (1 - mean)), sqrt(1 + mean * mean) / (2 + mean * mean)

    def step(self, c: Any, v: Any, g: Any) -> dict[str, Any]:
        through = [v[axis] * where(v[axis] > 0, *self.faces(c, axis)) for axis in range(self.grid.ndim)]
        return {"c": c - self.dt * div(through) + 0 * g}


def gradient(equation: ds.Equation, inputs: dict[str, Any], threads: int) -> tuple[list[np.ndarray], int]:
    """A gradient, and how many groups of kept values are computed in bounds."""
    ds.init(arch="cpu", precision="f64", threads=threads)
    simulation = ds.Simulation(equation, wrt=["c", "v", "g"], precision="f64")
    solution, pullback = simulation.vjp(inputs, 3, Binomial(3, 1))
    gradients = pullback(ds.Solution({"c": np.sin(3 * solution.final["c"])}))
    bounded = sum(np.isfinite(group.support).any() for p in simulation._stepper.programs for nest in p.nests for group in nest.groups)
    return [np.asarray(gradients[name]) for name in ("c", "v", "g")], bounded


@pytest.mark.gradients
@pytest.mark.parametrize("seeds", sampled([range(18, 20), range(30)]))
def test_no_bit_depends_on_values_that_are_skipped_beyond_the_grid(seeds: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn sides and small grids, with all values kept that could save anything."""
    monkeypatch.setattr(rolling, "WORTH", 100.0)
    some = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        equation = Carried(rng, 1 + seed % 3)
        shape = equation.grid.shape
        inputs = {"c": rng.normal(size=shape), "v": tuple(rng.normal(size=shape) for _ in shape), "g": 0.3}
        found, bounded = gradient(equation, inputs, 1 + seed % 2)
        with monkeypatch.context() as patch:
            patch.setattr(rolling, "with_supports", lambda nest, *_: nest)
            patch.setattr(rolling, "only_inside", lambda program, nest: [nest])
            plain, none = gradient(equation, inputs, 1)
        assert not none
        some += bounded > 0
        for one, other in zip(found, plain, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=f"{seed} {shape} {equation.weno} {equation.states['c'].boundary}")
    ds.init(arch="cpu", precision="f64")
    assert some >= len(seeds) // 3


@pytest.mark.slow
@pytest.mark.gradients
@pytest.mark.parametrize("method", ["euler", "rk2"])
def test_a_flood_has_the_same_gradient_with_loops_for_what_is_not_needed_outside(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    sea = ds.solvers.ShallowWater(ds.Grid((13, 21), 10.0), 0.1, method=method, drag="manning")
    inputs = {"z": rng.uniform(-3, 1, (13, 21)), "eta": rng.uniform(-1, 1, (13, 21)), "manning": rng.uniform(0.02, 0.04, (13, 21))}

    def found(threads: int) -> tuple[list[np.ndarray], int]:
        ds.init(arch="cpu", precision="f64", threads=threads)
        simulation = ds.Simulation(sea, wrt=["z", "eta", "manning"], precision="f64")
        solution, pullback = simulation.vjp(inputs, 4, Binomial(4, 1))
        gradients = pullback(ds.Solution({name: np.sin(3 * value) for name, value in solution.final.items()}))
        return [*gradients.values()], sum(1 for program in simulation._stepper.programs for _ in program.nests)

    apart, nests = found(2)
    monkeypatch.setattr(rolling, "only_inside", lambda program, nest: [nest])
    together, fewer = found(1)
    assert nests > fewer or method == "euler"
    for one, other in zip(apart, together, strict=True):
        np.testing.assert_array_equal(one, other)
