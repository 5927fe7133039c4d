"""Equations that cannot be divided into domains, refused by name before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from diffsim.boundary import Periodic
from diffsim.engine import backend
from diffsim.errors import ParameterError
from diffsim.expr.graph import Offset, reads
from diffsim.stepping.derive.programs import Programs
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.stages import StoredExpression
from diffsim.stepping.trace.trace import TracedMap, TracedStep


def require_local(step: TracedStep, maps: Iterable[TracedMap], programs: Programs) -> None:
    """Raise ParameterError if a step reads all cells, or has parts that domains do not have."""
    remedy = "run it in one process"
    if not backend().on_host:
        raise ParameterError(f"domains on a GPU, expected a CPU; {remedy}, or call ds.init(arch='cpu')")
    others = [stage for stage in step.stages if not isinstance(stage, StoredExpression)]
    if others:
        raise ParameterError(f"domains of a step with a stage of the kind {type(others[0]).__name__}, which reads all cells; {remedy}")
    numbers = [name for name, placed in step.states.items() if placed.axes is not None]
    if numbers:
        raise ParameterError(f"domains of an equation with a state that is a number, {numbers[0]}; {remedy}")
    active = sorted(step.active & step.series.keys())
    if active:
        raise ParameterError(f"domains and a gradient for the series {active[0]}, expected none; leave it out of wrt, or {remedy}")
    for program in programs:
        if any(program.totals) or any(program.calls) or any(program.loops):
            raise ParameterError(f"domains of a step whose program {program.name} has a sum over all cells or a loop; {remedy}")


def joined_axes(step: TracedStep, programs: Programs, parts: Sequence[int]) -> tuple[bool, ...]:
    """Whether the ends of each axis are joined. Those of an axis that is cut must be so for all fields that are read beyond them."""
    fields: dict[str, Placed] = {**step.states, **step.coefficients, **step.series}
    fields |= {field.name: field for stage in step.stages for field in stage.outputs}
    offsets: dict[str, set[Offset]] = {}
    for node in step.expressions().values():
        for name, each in reads([node]).items():
            offsets.setdefault(name, set()).update(each)
    out = []
    for axis, count in enumerate(parts):
        joined = any(field.rules[axis][0].rule.joins for field in fields.values())
        out.append(joined)
        if not joined or count == 1:
            continue
        for name, each in offsets.items():
            if not any(offset[axis] for offset in each):
                continue
            if name in fields and isinstance(fields[name].rules[axis][0].rule, Periodic):
                continue
            if name in step.profiles and (step.profiles[name].axis != axis or np.ptp(step.profiles[name].values) == 0):
                continue
            raise ParameterError(
                f"domains along axis {axis}, whose ends are joined, expected periodic fields alone to be read beyond them, got {name}; cut "
                "another axis"
            )
    return tuple(out)
