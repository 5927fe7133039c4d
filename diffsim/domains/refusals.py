"""Equations that cannot be divided into domains, refused by name before anything runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from diffsim.engine import backend
from diffsim.errors import ParameterError
from diffsim.stepping.derive.programs import Programs
from diffsim.stepping.trace.reductions import Reduction
from diffsim.stepping.trace.stages import StoredExpression
from diffsim.stepping.trace.trace import TracedStep


def require_local(step: TracedStep, programs: Programs, parts: Sequence[int]) -> None:
    """Raise ParameterError if a step reads all cells, or has parts that domains do not have.

    Sums over all cells are those of the totals of rows (planes in three dimensions), which a rank has to own as a whole.
    """
    remedy = "run it in one process"
    if not backend().on_host:
        raise ParameterError(f"domains on a GPU, expected a CPU; {remedy}, or call ds.init(arch='cpu')")
    others = [stage for stage in step.stages if not isinstance(stage, StoredExpression | Reduction)]
    if others:
        raise ParameterError(f"domains of a step with a stage of the kind {type(others[0]).__name__}, which reads all cells; {remedy}")
    profiles = [name for name, placed in step.states.items() if placed.axes]
    if profiles:
        raise ParameterError(f"domains of an equation with a state that varies along some axes only, {profiles[0]}; {remedy}")
    active = sorted(step.active & step.series.keys())
    if active:
        raise ParameterError(f"domains and a gradient for the series {active[0]}, expected none; leave it out of wrt, or {remedy}")
    for program in programs:
        if any(program.calls) or any(program.loops):
            raise ParameterError(f"domains of a step whose program {program.name} has a call of the host or a loop; {remedy}")
        if any(program.totals) and (len(parts) == 1 or math.prod(parts[1:]) > 1):
            by_rows, several = (math.prod(parts), *(1,) * (len(parts) - 1)), len(parts) > 1
            expected = f"cuts of its first axis alone, {by_rows}" if several else "a grid of more than one axis"
            raise ParameterError(
                f"domains = {tuple(parts)} of a step with a sum, a mean or a largest value of all cells, expected {expected}, since rows "
                f"are added up as in one process; {'cut so, or ' if several else ''}{remedy}"
            )


def require_open(step: TracedStep, parts: Sequence[int]) -> None:
    """Raise ParameterError if an axis is cut whose ends a boundary rule joins.

    Where not all fields are periodic there, one process adds the cotangents from beyond such ends to those of the cells inside, after all
    others. A box that went round would add them in the order of its other cells, so some of its bits would differ.
    """
    fields = [*step.states.values(), *step.coefficients.values(), *(field for stage in step.stages for field in stage.outputs)]
    for axis, count in enumerate(parts):
        if count > 1 and any(field.rules[axis][0].rule.joins for field in fields):
            raise ParameterError(
                f"domains = {tuple(parts)} cut axis {axis}, whose ends are joined (periodic), expected 1 there; cut another axis, or run "
                "it in one process"
            )
