"""The form of the sums of an adjoint, on which last bits depend, is the same in a batch and in a box of a domain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import diffsim as ds
from diffsim.domains.boxes import Cuts
from diffsim.domains.cut import Cut
from diffsim.expr.graph import Offset
from diffsim.stepping.derive.adjoint import adjoint_program
from diffsim.stepping.derive.forms import nests_of
from diffsim.stepping.derive.reverse import Reverse
from diffsim.stepping.passes.rolling import Rolling
from diffsim.stepping.trace.batched import Batched, why_not_batched
from diffsim.stepping.trace.trace import TracedStep
from diffsim.stepping.trace.tracing import trace_coefficients, trace_step
from tests.cases import CASES
from tests.sampled import sampled
from tests.stepping.drawn_fluxes import Fluxes

DRAWN = {
    f"drawn {number}": lambda number=number: Fluxes(number, ndim=1 + number % 2, alone=True)
    for number in (*range(1, 3), *range(5, 9), *range(10, 19))
}
EQUATIONS = {case.name: case.equation for case in CASES} | DRAWN
IN_TURNS = ("stretched", "advection with an inlet", "drawn 1", "drawn 15")
"""In the gate: those whose adjoints have both forms at different costs."""


def traced(equation: ds.Equation) -> TracedStep:
    coefficients = trace_coefficients(equation)
    return trace_step(equation, coefficients.placed, groups=coefficients.groups)


def costs(step: TracedStep, points_last: bool = False) -> list[float]:
    """The costs of both forms, on which the choice depends; none where there is one form."""
    adjoint, rolling = adjoint_program(step, (), points_last=points_last), Rolling(step.graph, True)
    if adjoint.alternative is None:
        return []
    return [rolling.cost(nests_of(step.graph, each)) for each in (adjoint.program, adjoint.alternative)]


def boxes(step: TracedStep) -> Iterator[TracedStep]:
    """The same step in two of three boxes: at a side, and between two cuts."""
    shape = step.grid.shape
    for cut in [axis for axis, n in enumerate(shape) if axis not in step.joined and n > 6][:1]:
        parts = tuple(3 if axis == cut else 1 for axis in range(len(shape)))
        cuts = Cuts(shape, parts, tuple(2 * (count > 1) for count in parts), (2,) * len(shape))
        for rank in range(2):
            yield Cut(cuts.box(rank), step.grid).step(step)


def contributions(step: TracedStep) -> dict[str, dict[Offset, int]]:
    """The ids of what cells give to the cotangents of fields. Nodes keep their ids in a box."""
    sweep = Reverse(step, {name: step.outputs[name] for name in step.states})
    for stage in sweep.stages():
        assert stage.outputs
    return {name: {offset: node.id for offset, node in terms.items()} for name, terms in sweep.terms.items()}


@pytest.mark.parametrize("name", sampled(EQUATIONS, gate=IN_TURNS))
def test_the_form_is_that_of_the_step_alone(name: str) -> None:
    step = traced(EQUATIONS[name]())
    expected = costs(step)
    in_place = costs(step, points_last=True)  # as on large grids, of which a box may be small
    assert [each - in_place[0] for each in in_place] == [each - expected[0] for each in expected]
    if why_not_batched(step) is not None:
        return
    for other in (Batched(step.grid, 3).step(step), *boxes(step)):
        assert costs(other) == expected


@pytest.mark.parametrize("number", sampled((2, 5, 10, 14, 15, 28, 36), gate=(2, 10, 15)))
def test_cells_of_a_box_give_what_they_give_in_the_whole_grid(number: int) -> None:
    """Derivatives that may be infinite beyond a side are guarded, and not split into terms, in boxes without that side as well."""
    step = traced(Fluxes(number, ndim=2 if number == 15 else 1, alone=True))
    expected = contributions(step)
    for box in boxes(step):
        assert contributions(box) == expected


@pytest.mark.filterwarnings("ignore::diffsim.errors.LongStepWarning")
@pytest.mark.parametrize("number", sampled(range(1, 41), gate=(5,)))
def test_runs_of_drawn_fluxes_have_the_bits_that_each_has_alone(number: int) -> None:
    equation, generator = Fluxes(number, ndim=1 + number % 2, alone=True), np.random.default_rng(number)
    runs = [equation.inputs(run, dry=0.2) for run in range(2)]
    simulation = ds.Simulation(equation, wrt=tuple(runs[0]), precision="f64")
    batch = ds.Batch(simulation, 2)
    both, pull = batch.vjp({name: np.stack([run[name] for run in runs]) for name in runs[0]}, 2)
    seeds = {name: generator.normal(size=np.shape(value)) for name, value in both.final.items()}
    gradient = pull(ds.Solution(final=seeds))
    for k, run in enumerate(runs):
        solution, back = simulation.vjp(run, 2)
        for name, value in solution.final.items():
            np.testing.assert_array_equal(both.final[name][k], value, err_msg=name)
        for name, bar in back(ds.Solution(final={name: seed[k] for name, seed in seeds.items()})).items():
            np.testing.assert_array_equal(gradient[name][k], bar, err_msg=name)
