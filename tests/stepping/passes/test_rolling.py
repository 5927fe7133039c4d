"""Values that nests keep as they go: the same operations on the same numbers, whether they are kept or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import div, weno5, where
from diffsim.expr.graph import Graph, Node, ordered
from diffsim.stepping.derive.adjoint import adjoint_program
from diffsim.stepping.ir.program import Nest, Program
from diffsim.stepping.passes import rolling, sharing
from diffsim.stepping.passes.search import Search, kept_values
from diffsim.stepping.passes.sharing import Classes, inlined
from tests.cases import CASES, Case
from tests.sampled import sampled
from tests.stepping.passes.test_sharing import Transport, traced
from tests.stepping.run_cases import outputs
from tests.steps import shallow_water

ALWAYS, NEVER = 100.0, 0.0


def kept(program: Program) -> list[Nest]:
    return [nest for nest in program.nests if nest.groups]


LEVELS = [
    Case(f"transport {n} {a}", lambda n=n, a=a: Transport(n, a), 6, {}, {}, {"u": (1.0, 0.5), "k": (1.0, 0.5)})
    for n in (1, 2, 3)
    for a in (0, 1)
]


KEEPING = {
    "oddities",
    "stretched",
    "stretched 1-D",
    "functions",
    "nonlinear zero",
    "nonlinear mirror",
    "nonlinear periodic",
    "sides 2-D",
    "numbers 2-D",
    "regions 2-D",
    "visco acoustic 2-D",
    "advection with an inlet",
}
"""Cases in which something can be kept. In the others there is nothing to compare."""


def test_which_cases_keep_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "WORTH", ALWAYS)
    found = {case.name for case in [*CASES, *LEVELS] if any(kept(program) for program in case.simulation()._stepper.programs)}
    assert found == KEEPING | {case.name for case in LEVELS}


IN_GATE = [case for case in [*CASES, *LEVELS] if case.name in ("visco acoustic 2-D", "nonlinear mirror", "stretched 1-D", "transport 3 1")]


@pytest.mark.parametrize(
    "case", sampled([*(case for case in CASES if case.name in KEEPING), *LEVELS], ids=lambda case: case.name, gate=IN_GATE)
)
def test_no_bit_depends_on_what_is_kept(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "WORTH", NEVER)
    plain = outputs(case, "f64")[0]
    monkeypatch.setattr(rolling, "WORTH", ALWAYS)
    found = outputs(case, "f64")[0]
    for name, values in plain.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


class Upwind(ds.Equation):
    """A substance that is carried by WENO 5."""

    def __init__(self, sides: str) -> None:
        self.grid, self.dt = ds.Grid((16, 16, 16), 1.0), 0.1
        self.states = {"c": ds.Variable(sides)}
        self.parameters = {"v": ds.Vector("zyx", "periodic" if sides == "periodic" else "zero")}

    def step(self, c: Any, v: Any) -> dict[str, Any]:
        faces = [weno5(c, axis) for axis in range(3)]
        return {"c": c - self.dt * div([v[axis] * where(v[axis] > 0, *sides) for axis, sides in enumerate(faces)])}


@pytest.fixture
def fluxes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Differentiate the flux through a face once for each of its two cells: it saves a sixth of a step in three dimensions."""
    monkeypatch.setattr(sharing, "FLUX", 0.2)


@pytest.mark.parametrize("sides", ["periodic", "mirror"])
def test_of_a_flux_in_three_dimensions_each_cell_keeps_some_thirty_values(sides: str) -> None:
    """Of WENO 5, in one loop, each for as many planes as it is read."""
    step = traced(Upwind(sides))
    (nest,) = kept(rolling.Rolling(step.graph, blocks=True).rolled(adjoint_program(step, ()).program))
    (group,) = nest.groups
    assert len(group.values) == 31 and group.low == (4, 4, 4) and group.high == (0, 0, 0)


@pytest.mark.usefixtures("fluxes_twice")
@pytest.mark.parametrize("sides", ["periodic", "mirror"])
def test_what_a_flux_in_three_dimensions_gives_is_kept_in_place_of_its_parts(sides: str) -> None:
    """Of WENO 5, six values an axis and a direction, in a loop of their own. Its parts would be 84, and take three times as long."""
    step = traced(Upwind(sides))
    (nest,) = kept(rolling.Rolling(step.graph, blocks=True).rolled(adjoint_program(step, ()).program))
    assert [len(group.values) for group in nest.groups] == [6] * 6
    assert sorted(group.low[0] + group.high[0] for group in nest.groups) == [0, 0, 0, 0, 5, 5]  # planes ahead, of those across planes
    values: dict[str, Node] = {name: node for group in nest.groups for name, node in group.values.items()}
    assert inlined(step.graph, nest.roots, values) == [assign.node for assign in nest.assigns]


@pytest.mark.usefixtures("fluxes_twice")
def test_fluxes_between_walls_are_not_computed_beyond_the_sides_of_other_axes() -> None:
    """The cotangent of a flux is 0 at faces that no updated cell has."""
    step = traced(Upwind("mirror"))
    (nest,) = kept(rolling.Rolling(step.graph, blocks=True).rolled(adjoint_program(step, ()).program))
    for group in nest.groups:
        across = [axis for axis, ends in enumerate(group.support) if ends != (0, 0)]
        assert across in ([], [0], [1])  # those of rows are kept at cells of the row
        assert all(group.support[axis] in ((2, -2), (3, -3)) for axis in across)  # the faces of all cells, at the first cell that they read


@pytest.mark.usefixtures("fluxes_twice")
def test_derivatives_for_the_flow_are_computed_on_the_grid_alone() -> None:
    """They take a fifth of the operations. The substance is read outside the grid, the flow is not."""
    step = traced(Upwind("mirror"))
    first, second = rolling.Rolling(step.graph, blocks=True).rolled(adjoint_program(step, ()).program).nests
    assert [assign.target.array for assign in first.assigns] == ["vz bar", "vy bar", "vx bar"] and not first.swept
    assert [assign.target.array for assign in second.assigns] == ["c bar"] and second.swept


class Counted(dict[int, list[tuple[int, int]]]):
    """Arguments of classes, which count how often they are looked up."""

    count = 0

    def __getitem__(self, key: int) -> list[tuple[int, int]]:
        self.count += 1
        return super().__getitem__(key)


@pytest.mark.parametrize("seed", range(3))
def test_a_choice_costs_the_same_whatever_was_tried_before(seed: int) -> None:
    """Random choices, each a few values away from the last one, by one search, and each by a search of its own. The first one has to look
    at far fewer values."""
    rng, step = np.random.default_rng(seed), traced(shallow_water.STEP.equation((12, 16)))
    nests = adjoint_program(step, ()).program.nests
    roots = max(([assign.node for assign in nest.assigns] for nest in nests), key=lambda each: len(ordered(each)))
    classes = Classes(step.graph)
    once = Search(classes, roots)
    once._parts = together = Counted(once._parts)
    may = sorted(set().union(*map(once._keepable, once._uses)))
    choice, apart = set(rng.choice(may, len(may) // 4, replace=False).tolist()), 0
    for number in range(24):
        choice = choice ^ {int(rng.choice(may))} if number % 3 else choice - {min(choice)}
        fresh = Search(classes, roots)
        fresh._parts = alone = Counted(fresh._parts)
        assert once.cost(choice) == fresh.cost(choice) and once.layers(choice) == fresh.layers(choice)
        apart += alone.count
    assert together.count < 0.15 * apart


def test_what_is_kept_can_be_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "WORTH", ALWAYS)
    some = 0
    for equation in [Transport(2), Transport(3), *(case.equation() for case in CASES)]:
        step = traced(equation)
        program = rolling.Rolling(step.graph, blocks=True).rolled(adjoint_program(step, ()).program)
        for nest in kept(program):
            values: dict[str, Node] = {name: node for group in nest.groups for name, node in group.values.items()}
            assert inlined(step.graph, nest.roots, values) == [assign.node for assign in nest.assigns]
            some += 1
    assert some > 5


def test_a_costly_flux_is_kept_and_a_cheap_stencil_is_not() -> None:
    costly = ds.Simulation(Transport(2))._stepper
    assert costly.adjoint is not None
    assert kept(costly.adjoint.program)
    cheap = ds.Simulation(ds.solvers.Acoustic(ds.Grid((20, 21), 10.0), 1e-3, order=8))._stepper
    assert not any(kept(program) for program in cheap.programs)


def test_the_cut_keeps_what_is_cheapest() -> None:
    """What is computed then is hardly more than one of each operation."""
    step = traced(Transport(1))
    (nest,) = rolling.Rolling(step.graph, blocks=False).rolled(adjoint_program(step, ()).program).nests
    whole = rolling.cost([a.node for a in nest.assigns])
    values = [node for group in nest.groups for node in group.values.values()]
    assert rolling.cost([*values, *nest.roots]) < 0.75 * whole


def test_nests_of_one_program_keep_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stages with the same flux, wanted by one of them at more rows: a ring for each."""

    class Stages(Transport):
        def step(self, u: ds.expr.Symbol, k: ds.expr.Symbol) -> dict[str, ds.expr.Symbol]:
            flux = k * u / (1.0 + u * u) + (u + k.shifted(0, 1)) / (2.0 + u.shifted(0, 1) ** 2)
            near = ds.stage(u - 0.1 * (flux - flux.shifted(0, -1)), "mirror")
            far = near + 0.1 * (flux.shifted(0, 3) - flux.shifted(0, -3)) / (2.0 + flux * flux)
            return {"u": far - 0.1 * (near - near.shifted(0, 1)) * flux}

    case = Case("stages", lambda: Stages(1), 5, {}, {}, {"u": (1.0, 0.5), "k": (1.0, 0.5)})
    monkeypatch.setattr(rolling, "WORTH", ALWAYS)
    names = [name for nest in case.simulation()._stepper.forward.nests for group in nest.groups for name in group.values]
    assert len(names) == len(set(names)) > 1
    found, wanted = outputs(case, "f64")
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-12 * np.abs(values).max(), err_msg=name)


def _computed_again(program: Program, graph: Graph) -> int:
    """Quotients and roots that a loop body computes at more than one cell."""
    classes, again = Classes(graph), 0
    for nest in program.nests:
        for nodes in ([*nest.roots], *([*group.values.values()] for group in nest.groups)):
            cells: dict[int, set[tuple[int, ...]]] = {}
            for node in ordered(nodes):
                if node.op in ("div", "sqrt") and classes.anchor(node) is not None:
                    number, where = classes.of(node)
                    cells.setdefault(number, set()).add(where)
            again += sum(len(each) > 1 for each in cells.values())
    return again


def test_kept_values_compute_each_flux_once() -> None:
    """Cotangents are sums over the lower and the upper faces along each axis. The cut keeps these sums, which need a flux at two cells."""
    simulation = shallow_water.STEP.simulation()
    programs = simulation._stepper.programs
    assert programs.adjoint is not None and kept(programs.adjoint.program)
    assert _computed_again(programs.adjoint.program, simulation._step.graph) == 0


def _flux(graph: Graph, cell: int) -> Node:
    """A flux whose constants `Graph.apply` would gather, as in a nest for the interior of the grid."""
    exactly = graph.apply_exactly
    u, v = graph.read("u", (cell, 0)), graph.read("u", (cell + 1, 0))
    slope = exactly("mul", graph.const(0.5), exactly("mul", graph.const(0.25), exactly("sub", v, u)))
    return exactly(
        "div", slope, exactly("sqrt", exactly("add", exactly("add", graph.const(1), exactly("mul", u, u)), exactly("mul", v, v)))
    )


def test_values_of_an_interior_are_kept() -> None:
    graph = Graph()
    here, below, above = (_flux(graph, cell) for cell in (0, -1, 1))
    root = graph.apply_exactly("add", graph.apply_exactly("sub", here, below), graph.apply_exactly("mul", above, here))
    classes = Classes(graph)
    groups, roots, _ = rolling._groups(classes, [root], kept_values(classes, [root]), 1, "kept")
    assert len(groups) == 1 and len(roots) == 1
    (value,) = groups[0].values.values()
    assert value in (here, below, above)


def test_long_sums_over_cells_are_split() -> None:
    """Each level of a transform adds the level before at two cells: 2^30 paths, 60 values; and a sum of 2000 terms."""
    graph = Graph()
    low = high = graph.apply("sqrt", graph.read("u", (0, 0)))
    for level in range(30):
        low, high = graph.add(low, graph.shift(high, (1, 0))), graph.sub(low, graph.shift(high, (0, level % 2)))
    terms = graph.sum(graph.apply("sqrt", graph.read(f"v{k}", (k % 3, 0))) for k in range(2000))
    choice = Search(Classes(graph), [graph.mul(low, high), graph.mul(terms, terms)])
    assert all(len(choice._terms(key)) <= 2000 for key in choice._uses)
