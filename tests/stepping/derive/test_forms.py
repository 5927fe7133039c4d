"""The form of the sums of an adjoint, on which last bits depend, is the same in a batch, in a box of a domain, and for any number of threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import diffsim as ds
from diffsim.domains.boxes import Cuts
from diffsim.domains.cut import Cut
from diffsim.stepping.derive.adjoint import adjoint_program
from diffsim.stepping.derive.forms import nests_of, without_sides
from diffsim.stepping.passes.rolling import Rolling
from diffsim.stepping.trace.batched import Batched, why_not_batched
from diffsim.stepping.trace.trace import TracedStep
from diffsim.stepping.trace.tracing import trace_coefficients, trace_step
from tests.cases import CASES
from tests.sampled import sampled
from tests.stepping.drawn_fluxes import Fluxes

DRAWN = {f"drawn {number}": lambda number=number: Fluxes(number, ndim=1 + number % 2, alone=True) for number in (*range(1, 3), *range(5, 9), *range(10, 19))}
EQUATIONS = {case.name: case.equation for case in CASES} | DRAWN
IN_TURNS = ("stretched", "advection with an inlet", "drawn 1", "drawn 15")
"""In the gate: those whose adjoints have both forms at different costs."""


def traced(equation: ds.Equation) -> TracedStep:
    coefficients = trace_coefficients(equation)
    return trace_step(equation, coefficients.placed, groups=coefficients.groups)


def costs(step: TracedStep) -> list[float]:
    """The costs of both forms, on which the choice depends; none where there is one form."""
    split, whole = (adjoint_program(without_sides(step), (), whole=whole) for whole in (False, True))
    rolling = Rolling(step.graph, True)
    return [rolling.cost(nests_of(step.graph, each.program)) for each in (split, whole)] if split.splits else []


def others(step: TracedStep) -> Iterator[TracedStep]:
    """The same step of several runs, and in boxes."""
    if why_not_batched(step) is None:
        yield Batched(step.grid, 3).step(step)
        shape = step.grid.shape
        open_axes = [axis for axis, n in enumerate(shape) if axis not in step.joined and n > 6]
        for cut in open_axes[:1]:
            parts = tuple(3 if axis == cut else 1 for axis in range(len(shape)))
            cuts = Cuts(shape, parts, tuple(2 * (count > 1) for count in parts), (2,) * len(shape))
            for rank in range(2):
                yield Cut(cuts.box(rank), step.grid).step(step)


@pytest.mark.parametrize("name", sampled(EQUATIONS, gate=IN_TURNS))
def test_the_form_is_that_of_the_step_alone(name: str) -> None:
    step = traced(EQUATIONS[name]())
    expected = costs(step)
    for other in others(step):
        assert costs(other) == expected


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
