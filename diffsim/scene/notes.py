"""Notes on a scene: what is no mistake, and yet spoils an answer."""

from __future__ import annotations

from collections.abc import Iterator

from diffsim.arguments import plural
from diffsim.scene.absorbed import absorbed
from diffsim.scene.assemble import Problem
from diffsim.scene.mutes import offsets

FAR = 5.0
"""Cells of an offset that is good."""


def notes_of(problem: Problem) -> list[str]:
    """A line for each note."""
    return [*absorbed(problem.setup, problem.free), *beside(problem)]


def beside(problem: Problem) -> Iterator[str]:
    """A line for each misfit of waves that has receivers within a cell of a source, where the amplitude has no limit on finer grids."""
    setup = problem.setup
    cell = min(setup.own[0].cell_lengths())
    for number, misfit in enumerate(problem.scene.misfit):
        least = 0.0 if misfit.offset is None else misfit.offset[0]
        if not setup.equation.speed or misfit.of != "traces" or least > cell or not setup.shots[0].sources:
            continue
        receivers = setup.receivers[misfit.state]
        near = [shot for shot, each in enumerate(setup.shots) if (offsets(setup, receivers, each.sources) < (1 - 1e-6) * cell).any()]
        if near:
            yield (
                f"misfit[{number}]: receivers of {misfit.state} within a cell of the source in {plural(len(near), 'shot')} (shot {near[0]} "
                "is one), whose records depend on the grid and outweigh all others; leave them out, such as by "
                f"offset = [{FAR * cell:g}, 1.0e6]"
            )
