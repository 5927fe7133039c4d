"""A model of what a step costs in domains, by which the number of steps between exchanges is chosen."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from diffsim.domains.boxes import Box, Cuts
from diffsim.domains.reach import Reach
from diffsim.domains.widths import UNCUT, Widths, after
from diffsim.engine import backend
from diffsim.stepping.derive.programs import Programs
from diffsim.stepping.source.wavefront import ways
from diffsim.stepping.trace.trace import TracedStep
from diffsim.typing import IntArray

CELLS_OF_EXCHANGE, CELLS_OF_VALUE = 2e4, 0.25
"""Costs of an exchange and of each value that it sends, in cells that a step computes in the same time. The second is an upper estimate:
along the last axis, and where the other rank is waited for, values cost several times what they cost along the first one."""
TOGETHER = 0.8
"""Cost of a cell whose steps are computed together, in those of a cell alone."""


def steps_together(programs: Programs, boxes: int) -> frozenset[int]:
    """The numbers of steps that boxes of a grid compute together, by those of as many slabs of the grid.

    Args:
        programs: of a step on the whole grid.
        boxes: their number.
    """
    sweeps = ways(programs.forward, programs.stored_fields(), boxes * (backend().threads or 1), 1)
    return frozenset(each.steps for each in sweeps if each.steps > 1)


def step_cost(cuts: Cuts, steps: int, step: TracedStep, reach: Reach, margin: IntArray, together: Collection[int] = ()) -> float:
    """Approximate time of a step of the slowest box, in cells, with its share of an exchange after `steps` steps.

    An exchange costs as much as computing `CELLS_OF_EXCHANGE` cells, and each value that it sends as much as `CELLS_OF_VALUE`. The values
    of absorbing layers are not counted. Along the first axis the cells computed get fewer from step to step, so half of them count.

    Args:
        cuts: the boxes.
        steps: steps between exchanges.
        step: the step.
        reach: of the step.
        margin: ghost cells in addition to those of the steps, along each axis.
        together: the numbers of steps that are computed together, each at `TOGETHER` of its cost alone.
    """
    alone = steps
    for count in sorted(together, reverse=True):
        alone %= count
    cell = (alone + TOGETHER * (steps - alone)) / steps
    widest = np.where(np.array(cuts.parts) > 1, np.array(cuts.ghosts) - margin, UNCUT)
    right = Widths(reach.states, widest, widest - reach.most + reach.of_states)
    for _ in range(steps):
        right.advance(after(right.now, reach.forward))
    sent = [right.enough[number].tolist() for number in right.old() if step.states[right.levels[number][0]].region is None]
    costs = []
    for box in map(cuts.box, range(cuts.count)):
        narrower = np.where((np.arange(len(cuts.grid)) == 0) & (len(cuts.grid) > 1), (steps - 1) * reach.by_next // 2, 0)
        far = np.maximum(np.array(cuts.ghosts) - margin - reach.most - narrower, 0).tolist()
        values = sum(_cells(box, widths) - _cells(box) for widths in sent)
        costs.append(cell * _cells(box, far) + (CELLS_OF_EXCHANGE + CELLS_OF_VALUE * values) / steps)
    return max(costs)


def _cells(box: Box, far: Sequence[int] | None = None) -> int:
    """The cells that a box owns, and its ghost cells up to these distances."""
    ends = zip(box.own, box.wide, far or (0,) * len(box.own), strict=True)
    return math.prod(min(end + w, last) - max(begin - w, first) for (begin, end), (first, last), w in ends)
