"""How far steps read, and which ghost cells are computed and exchanged, against numbers by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.domains.boxes import Cuts
from diffsim.domains.cut import Cut
from diffsim.domains.pieces import Narrowing
from diffsim.domains.reach import Reach, deep_of, in_windows, reach_of
from diffsim.domains.widths import Widths, after, covers, lasts
from diffsim.expr import laplacian
from diffsim.stepping.derive.programs import Programs
from diffsim.stepping.ir.program import Nest, Program
from diffsim.stepping.trace.trace import TracedStep

SHAPE, OWN = (40, 48), (slice(0, 20), slice(0, 48))
"""A grid, and a box of owned cells at a cut along its first axis."""
UNCUT = 2**30
POINTS = np.array([1, 0])
"""Points may have a cell in the next box."""


def programs_of(equation: ds.Equation, seen: str) -> Programs:
    simulation = ds.Simulation(equation, receivers={seen: [[10.0, 10.0]]}, wrt=[])
    return Programs(simulation._compiled.step, (seen,), np.dtype(np.float32), differentiable=True)


def computed(program: Program) -> dict[str, int]:
    """Array -> rows beyond the owned ones that its nest computes."""
    nests = [operation for operation in program.operations if isinstance(operation, Nest)]
    rows = {a.target.array: 40 if nest.window is None else nest.window[0][1] for nest in nests for a in nest.assigns}
    return {name: last - OWN[0].stop for name, last in rows.items()}


def windows(programs: Programs, room: int, own: tuple[slice, slice] = OWN) -> dict[str, Program]:
    """The programs with windows for a box with so many rows of ghost cells."""
    reach, widest = reach_of(programs, POINTS), np.array([room, UNCUT])
    more = widest - reach.most
    lasting = (
        lasts(reach.states, widest, more + reach.of_states, reach.forward),
        lasts(reach.bars, widest, more + reach.of_bars, reach.later),
    )
    return in_windows(programs, reach, own, widest, POINTS, lasting)[0]


def exchanged(reach: Reach, steps: int, turns: int = 3) -> list[dict[tuple[str, int], int]]:
    """The states that each of some exchanges takes, with `steps` steps between two, and how many rows of ghost cells."""
    widest = np.array([(steps - 1) * reach.by_next[0] + reach.most[0], UNCUT])
    right = Widths(reach.states, widest, widest - reach.most + reach.of_states)
    out = []
    for _ in range(turns):
        for _ in range(steps):
            assert covers(right.now, reach.forward.by_any)
            right.advance(after(right.now, reach.forward))
        assert not covers(right.now, reach.forward.by_any)
        out.append({right.levels[number]: int(right.enough[number, 0]) for number in right.old()})
        right.exchanged(right.old())
    return out


def test_a_wave_exchanges_its_newest_pressure_alone() -> None:
    """Order 4 reads 2 cells away, the earlier pressure in place, and a point the pressure of the next cell after the step."""
    programs = programs_of(ds.solvers.Acoustic(ds.Grid(SHAPE, 10.0), 1e-3, order=4), "p")
    reach = reach_of(programs, POINTS)
    assert reach.states == (("p", 0), ("p", 1)) and reach.most.tolist() == [3, 2] and reach.by_next.tolist() == [2, 2]
    assert reach.of_states.tolist() == [[3, 2], [1, 0]]
    assert exchanged(reach, 1) == [{("p", 0): 3}] * 3
    assert exchanged(reach, 2) == [{("p", 0): 5}] * 3
    assert exchanged(reach, 3) == [{("p", 0): 7, ("p", 1): 5}] * 3
    for room, rows in ((3, 1), (5, 3)):  # for one step, and for two
        assert computed(windows(programs, room)["forward"]) == {"p": rows}


def test_windows_get_narrower_by_the_rows_that_have_gone_wrong() -> None:
    """Order 4: with three steps between exchanges a step computes 5 rows of ghost cells, then 3, and then the one of a point."""
    programs = programs_of(ds.solvers.Acoustic(ds.Grid(SHAPE, 10.0), 1e-3, order=4), "p")
    reach, widest = reach_of(programs, POINTS), np.array([7, UNCUT])
    nest = next(windows(programs, 7)["forward"].nests)
    assert nest.window is not None and nest.window[0] == (0, 25) and nest.narrowest == (0, 21)
    assert all(each.narrowest is None for each in windows(programs, 3)["forward"].nests)  # one step: nothing changes
    right = Widths(reach.states, widest, widest - reach.most + reach.of_states, np.array([[5, UNCUT]]))
    unused = []
    for _ in range(3):
        width = after(right.now, reach.forward)
        unused.append(right.unused(width))
        right.advance(width, unused[-1])
    assert unused == [0, 2, 4]
    assert Narrowing.of(unused) == Narrowing(0, 2) and Narrowing.of(unused).after(2).tolist() == [4, 2]
    assert (
        Narrowing.of([2, 3, 9]) == Narrowing(2, 1) and Narrowing.of([3, 1, 4]) == Narrowing(1, 0) and Narrowing.of([5]) == Narrowing(5, 0)
    )


def test_rows_go_wrong_beyond_the_side_of_the_grid_first() -> None:
    """Three steps of order 4 between exchanges, in a box of rows 3 to 36 of 40: 3 rows below and 4 above are ghost cells up to the sides.
    The windows of 5, 3 and 1 rows of ghost cells get narrower from 2 rows below the grid and from row 41.
    """
    programs = programs_of(ds.solvers.Acoustic(ds.Grid(SHAPE, 10.0), 1e-3, order=4), "p")
    nest = next(windows(programs, 7, (slice(3, 36), slice(0, 48)))["forward"].nests)
    assert nest.window == ((-2, 41), (0, 48)) and nest.narrowest == (2, 37)


def test_no_step_computes_what_the_next_exchange_replaces() -> None:
    """Order 8 with a layer reads psi 4 cells away for the next zeta. With one step between exchanges no ghost cell of it is computed."""
    layer = {"layer": 5, "layer_speed": 2500.0, "layer_frequency": 25.0}
    programs = programs_of(ds.solvers.Acoustic(ds.Grid(SHAPE, 10.0), 1e-3, order=8, **layer), "p")
    room = int(reach_of(programs, POINTS).most[0])
    assert room == 6
    once, again = windows(programs, room), windows(programs, room + 5)
    assert set(computed(once["forward"]).values()) == {1}  # for a point
    assert set(computed(once["adjoint"]).values()) == {0}
    assert set(computed(again["forward"]).values()) == {8}  # psi, as far as it is right


def test_elastic_waves_compute_velocities_as_far_as_stresses_read_them() -> None:
    """Order 4: velocities read stresses 2 cells away, then stresses read velocities 2 cells away. Those of the next step read the stress
    along the cut from its next but one cell, and the others in the plane of a velocity that is needed 2 cells away."""
    programs = programs_of(ds.solvers.Elastic(ds.Grid(SHAPE, 10.0), 1e-3, order=4), "vx")
    reach = reach_of(programs, POINTS)
    assert reach.most.tolist() == [4, 4]
    taken = exchanged(reach, 1)
    assert taken == [{("syy", 0): 4, ("sxy", 0): 4, ("sxx", 0): 2}] * 3
    rows = computed(windows(programs, 4)["forward"])
    assert {name: rows[name] for name in ("vy", "vx", "syy", "sxx", "sxy")} == {"vy": 2, "vx": 2, "syy": 0, "sxx": 0, "sxy": 0}


@pytest.mark.parametrize("room", [4, 8])
def test_windows_are_those_of_right_cells_in_each_program(room: int) -> None:
    """No nest computes rows that are wrong after a step, and each computes all rows of owned cells."""
    programs = programs_of(ds.solvers.Elastic(ds.Grid(SHAPE, 10.0), 1e-3, order=4), "vx")
    for name, program in windows(programs, room).items():
        for operation in program.operations:
            if isinstance(operation, Nest) and operation.window is not None:
                (first, last), across = operation.window
                assert first == 0 and across == (0, 48) and 0 <= last - OWN[0].stop <= room, name


class Sided(ds.Equation):
    """A step of short reach with any rules at its sides."""

    def __init__(self, grid: ds.Grid, low: Any, high: Any) -> None:
        self.grid, self.dt, self.parameters = grid, 0.1, {"k": ds.Variable("mirror")}
        self.states = {"u": ds.Variable(((low, high), *("zero",) * (grid.ndim - 1)))}

    def step(self, u: Any, k: Any) -> dict[str, Any]:
        return {"u": u + 0.1 * laplacian(k * u)}


RULES: dict[str, Any] = {
    "zero": "zero",
    "mirror": "mirror",
    "robin": ds.Robin(0.7, 0.4, 0.2),
    "extrapolate 1": ds.Extrapolate(1),
    "extrapolate 2": ds.Extrapolate(2),
}


@pytest.mark.parametrize("high", RULES)
@pytest.mark.parametrize("low", RULES)
def test_boxes_with_and_without_a_side_exchange_as_many_rows(low: str, high: str) -> None:
    """Values beyond a side may be made of several cells, and only some boxes lie at it."""
    step = ds.Simulation(Sided(ds.Grid((36, 12), 1.0), RULES[low], RULES[high]), wrt=["k"])._compiled.step

    def reach_in(part: TracedStep) -> Reach:
        return reach_of(Programs(part, (), np.dtype(np.float64), differentiable=True), POINTS, deep_of(step))

    whole, cuts = reach_in(step), Cuts((36, 12), (3, 1), (6, 0), (1, 1))
    for rank in range(3):
        here = reach_in(Cut(cuts.box(rank), step.grid).step(step))
        np.testing.assert_array_equal(here.of_states, whole.of_states)
        np.testing.assert_array_equal(here.of_bars, whole.of_bars)
