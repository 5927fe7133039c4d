"""Functions of kernels that differ in names, levels and numbers alone."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import diff, muscl
from diffsim.expr.graph import Graph
from diffsim.expr.shapes import arguments, shapes
from diffsim.stepping.source import functions
from diffsim.stepping.source.alike import Function, definitions, merged


class Gas(ds.Equation):
    """Shallow water over a plane bed by stages of Runge and Kutta with weights of their own, and a source that some of them leave out."""

    def __init__(self, shape: tuple[int, ...], weights: tuple[float, ...]) -> None:
        self.grid, self.dt, self.weights = ds.Grid(shape, 1.0), 0.05, weights
        self.states = {name: ds.Variable("periodic") for name in ("h", *(f"q{axis}" for axis in range(len(shape))))}
        self.parameters = {"g": ds.Variable("periodic")}

    def rates(self, states: list[Any], g: Any) -> list[Any]:
        rates: list[Any] = [0.0] * len(states)
        for axis in range(self.grid.ndim):
            low, high = zip(*(muscl(state, axis) for state in states), strict=True)
            gravity = g.across(axis)
            for k in range(len(states)):

                def flux(side: tuple[Any, ...], k: int = k, axis: int = axis, gravity: Any = gravity) -> Any:
                    speed = side[1 + axis] / side[0]
                    return speed * side[k] + (0.5 * gravity * side[0] ** 2 if k == 1 + axis else 0.0)

                rates[k] = rates[k] - diff(0.5 * (flux(low) + flux(high)) - 0.8 * (high[k] - low[k]), axis)
        return rates

    def step(self, g: Any, **states: Any) -> dict[str, Any]:
        start = now = list(states.values())
        for weight in self.weights:
            stages = [s + weight * self.dt * r for s, r in zip(start, self.rates(now, g), strict=True)]
            now = [ds.stage(stage, boundary="periodic") for stage in stages]
        return dict(zip(states, now, strict=True))


def lines_and_results(shape: tuple[int, ...], weights: tuple[float, ...], precision: Any) -> tuple[int, list[bytes]]:
    rng = np.random.default_rng(len(weights))
    inputs = {"g": rng.uniform(0.9, 1.1, shape), "h": rng.uniform(1.0, 1.2, shape), "q0": rng.uniform(-0.1, 0.1, shape)}
    if len(shape) > 1:
        inputs["q1"] = rng.uniform(-0.1, 0.1, shape)
    simulation = ds.Simulation(Gas(shape, weights), wrt=["g", "h", "q0"], precision=precision)
    solution, pullback = simulation.vjp(inputs, 4)
    gradient = pullback(ds.Solution({name: np.cos(7 * values) for name, values in solution.final.items()}))
    stepper = simulation._compiled.stepper
    assert stepper.adjoint is not None
    programs = stepper.forward, stepper.with_residuals.adjoint if stepper.with_residuals else stepper.adjoint.program
    lines = sum(stepper.launcher.source_of(program).source.count("\n") for program in programs)
    return lines, [np.ascontiguousarray(array).tobytes() for part in (solution.final, gradient) for _, array in sorted(part.items())]


@pytest.mark.parametrize(
    ("shape", "weights", "precision"),
    [
        ((50,), (0.5, 1.0), "f64"),
        pytest.param((19, 37), (1 / 3, 0.5, 1.0), "f64", marks=pytest.mark.slow),
        pytest.param((20, 33), (0.25, 0.5, 0.5, 1.0), "f32", marks=pytest.mark.slow),
    ],
)
def test_stages_share_functions_and_no_bit_changes(
    shape: tuple[int, ...], weights: tuple[float, ...], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffsim.stepping.source.tile_loops.reads_unaligned", lambda: False)
    monkeypatch.setattr("diffsim.stepping.source.tile_loops.FEW_DISPLACED", 0)
    few, results = lines_and_results(shape, weights, precision)
    monkeypatch.setattr(functions, "merged", lambda each, kernel, worth: (each, kernel))
    many, apart = lines_and_results(shape, weights, precision)
    assert few < (0.95 if len(weights) == 2 else 0.9) * many  # stages whose cotangents a choice may drop have guards, the last has none
    assert results == apart


def flood(method: str, ways: int) -> tuple[dict[int, int], list[bytes]]:
    """Lines of the forward step and of its adjoint, and the bits of states and gradients, of shallow water whose steps are cut."""
    shape, rng = (9, 21)[-ways:], np.random.default_rng(3)
    equation = ds.solvers.ShallowWater(ds.Grid(shape, 10.0), 1.0, method=method, drag="manning", substeps=4)  # type: ignore[arg-type]
    simulation = ds.Simulation(equation, wrt=["z", "eta", "manning"], precision="f64")
    inputs = {"z": rng.uniform(-2.0, 0.5, shape), "eta": rng.uniform(0.0, 0.8, shape), "manning": np.full(shape, 0.03)}
    solution, pullback = simulation.vjp(inputs, 3)
    gradient = pullback(ds.Solution({name: np.cos(7 * values) for name, values in solution.final.items()}))
    stepper = simulation._compiled.stepper
    assert stepper.adjoint is not None
    programs = stepper.forward, stepper.adjoint.program
    lines = {k: stepper.launcher.source_of(program).source.count("\n") for k, program in enumerate(programs)}
    return lines, [np.ascontiguousarray(array).tobytes() for part in (solution.final, gradient) for _, array in sorted(part.items())]


@pytest.mark.parametrize(("method", "ways"), [("rk2", 1), pytest.param("rk2", 2, marks=pytest.mark.slow)])
def test_the_laps_of_an_adjoint_share_functions_and_no_bit_changes(method: str, ways: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lap that runs again and a lap whose adjoint follows have the same nests, but at other levels; runs are written as they were."""
    few, results = flood(method, ways)
    monkeypatch.setattr(functions, "merged", lambda each, kernel, worth: (each, kernel))
    many, apart = flood(method, ways)
    assert few[0] == many[0] and few[1] < 0.95 * many[1]
    assert results == apart


def test_tiles_at_other_levels_are_those_of_one_function() -> None:
    """A position that two reads share where both fields have one level is one of its own where they have several."""

    def text(array: str, start: str) -> list[str]:
        positions = [f"    a0 = {start}at - 56", "    a1 = at - 56"] if start else ["    a0 = at - 56", "    a1 = a0"][:1]
        own = "a1" if start else "a0"
        reads = [f"    v0 = tile_from({array}, a0, 448)", f"    v1 = tile_from(b, {own}, 448)"]
        return [*positions, *reads, *(f"    v{k} = F({k}) * v{k - 1}" for k in range(2, 45)), "    b[at] = v44"]

    ring = Function("nest_0", {"u": "ring_of_u", "b": "field_of_b", "at": "ti.i32", "u_lap_1": "ti.i32"}, text("u", "u_lap_1 + "))
    field = Function("nest_1", {"s": "field_of_s", "b": "field_of_b", "at": "ti.i32"}, text("s", ""))
    ((one,), calls) = merged([ring, field], ["    called = nest_0(u, b, at, u_lap_1)", "    called = nest_1(s, b, at)"])
    assert one.body[:2] == ["    v0 = tile_from(u__array_0, u__start_0 + at - 56, 448)", "    v1 = tile_from(b__array_1, at - 56, 448)"]
    assert calls == ["    called = nest_0(u, u_lap_1, b, at)", "    called = nest_0(s, 0, b, at)"]


@pytest.mark.parametrize("name", ["data0", "beta0", "v1a0", "a00"])
def test_names_of_fields_may_contain_names_of_values(name: str) -> None:
    def text(array: str) -> list[str]:
        lines = ["    a0 = at - 56", f"    v0 = tile_from({array}, a0, 448)", *(f"    v{k} = F({k}) * v{k - 1}" for k in range(1, 45))]
        return [*lines, f"    {array}[at] = v44"]

    each = [Function(f"nest_{k}", {n: f"field_of_{n}", "at": "ti.i32"}, text(n)) for k, n in enumerate((name, "u"))]
    ((one,), calls) = merged(each, [f"    called = nest_0({name}, at)", "    called = nest_1(u, at)"])
    assert one.body[0] == f"    v0 = tile_from({name}__array_0, at - 56, 448)"
    assert calls == [f"    called = nest_0({name}, at)", "    called = nest_0(u, at)"]


def body(array: str, start: str, weight: float, lines: int = 45) -> list[str]:
    return [f"    v{k} = F({weight}) * {array}[{start}at + {k}]" for k in range(lines)] + [f"    {array}[{start}at] = v0"]


def test_levels_names_and_numbers_become_arguments() -> None:
    ring = Function("nest_0", {"u": "ring_of_u", "at": "ti.i32", "u_at_1": "ti.i32"}, body("u", "u_at_1 + ", 0.5))
    field = Function("nest_1", {"s": "field_of_s", "at": "ti.i32"}, body("s", "", 0.25))
    other = Function("nest_2", {"s": "field_of_s", "at": "ti.i32"}, body("s", "", 0.25, 46))
    kernel = ["    called = nest_0(u, ti.max(j, 2), u_at_1)", "        called = nest_1(s, j)", "called = nest_2(s, j)"]
    ((one, left), calls) = merged([ring, field, other], kernel)
    assert left == other and one.kinds == {"u__array_0": "Array", "u__start_0": "ti.i32", "at": "ti.i32", "c0": "F"}
    assert one.body == [line.replace("F(0.5)", "c0") for line in body("u__array_0", "u__start_0 + ", 0.5)]
    assert calls == [
        "    called = nest_0(u, u_at_1, ti.max(j, 2), F(0.5))",
        "        called = nest_0(s, 0, j, F(0.25))",
        "called = nest_2(s, j)",
    ]


def test_a_loop_is_in_a_function_with_one_call() -> None:
    """LLVM puts it in the place of that call, where addresses of arrays are values. In other functions each access reads them anew."""
    loop = ["    for j in range(lo, hi):", "        u[j] = F(2.0) * u[j]"]
    twice = Function("nest_0", {"u": "field_of_u", "lo": "ti.i32", "hi": "ti.i32"}, loop)
    once = Function("nest_1", twice.kinds, loop)
    plain = Function("nest_2", {"u": "field_of_u"}, ["    u[0] = F(2.0) * u[0]"])
    kernel = [f"called = {name}" for name in ("nest_0(u, 1, 2)", "nest_0(v, 1, 2)", "nest_1(u, lo, hi)", "nest_2(u)", "nest_2(v)")]
    lines = definitions([twice, once, plain], kernel)
    assert lines == [
        *Function("nest_0_lines", twice.kinds, loop).lines,
        *Function("nest_0", twice.kinds, ["    called = nest_0_lines(u, lo, hi)"]).lines,
        *once.lines,
        *plain.lines,
    ]


def calls_and_loops(source: str) -> dict[str, tuple[int, bool]]:
    """Function of a source -> its calls, and whether it has loops."""
    bodies = re.findall(r"^def (\w+)\(.*?\) -> ti.i32:\n((?:    .*\n|\n)*)", source, re.MULTILINE)
    loop = re.compile(r"^ +(for|while) ", re.MULTILINE)
    return {name: (len(re.findall(rf"called = {name}\(", source)), bool(loop.search(body))) for name, body in bodies}


@pytest.mark.parametrize("ways", [1, 2])
def test_loops_of_a_step_are_in_functions_with_one_call(ways: int) -> None:
    grid = ds.Grid((9, 21)[-ways:], 10.0)
    simulation = ds.Simulation(ds.solvers.ShallowWater(grid, 0.1, method="rk2"), wrt=["z", "eta"], precision="f64")
    shared = 0
    for kind in ("forward", "vjp"):
        for name, (calls, loops) in calls_and_loops(simulation.source(kind)).items():
            assert calls == 1 or not loops, f"{kind}: {name}"
            shared += calls > 1
    assert shared > 3


def test_functions_that_differ_in_the_order_of_their_arguments_are_not_one() -> None:
    """Two arrays of the one are one array in the other."""
    text = [f"    v{k} = a[at + {k}] * b[at + {k}]" for k in range(45)]
    two = Function("nest_0", {"a": "field_of_a", "b": "field_of_b", "at": "ti.i32"}, text)
    same = Function("nest_1", {"a": "field_of_a", "at": "ti.i32"}, [line.replace("b[", "a[") for line in text])
    turned = Function("nest_2", {"a": "field_of_a", "b": "field_of_b", "at": "ti.i32"}, [text[0].replace("b[", "a["), *text[1:]])
    assert len(merged([two, same, turned], [])[0]) == 3


def test_shapes_see_neither_fields_nor_numbers_nor_the_order_of_operands() -> None:
    graph = Graph()
    a, b, beside = graph.read("a", (0,)), graph.read("b", (0,)), graph.read("a", (1,))
    first = graph.add(graph.mul(graph.const(2.0), graph.sub(a, beside)), b)
    second = graph.add(a, graph.mul(graph.sub(b, graph.read("b", (1,))), graph.const(3.0)))
    third = graph.add(graph.mul(graph.const(2.0), graph.sub(beside, a)), b)
    known = shapes([first, second, third])
    assert known[first.id] == known[second.id] != known[third.id]
    assert [known[n.id] for n in arguments(first, known)] == [known[n.id] for n in arguments(second, known)]
