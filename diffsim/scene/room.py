"""Check the disk space of a run before the data are made."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from diffsim.base.system import free_disk
from diffsim.checkpoint.storage.aside import ENDING
from diffsim.checkpoint.storage.failure import failure, no_room
from diffsim.scene.disk.folder import JOURNAL, JOURNALS
from diffsim.scene.disk.outcome import RESULT
from diffsim.scene.search.assemble import Problem

NUMBER = 8
"""Bytes of a number in the results."""
FIELDS = 7
"""Arrays of an unknown in the results: start, answer, truth, two gradients, and two deviations."""
COMPARED = 3
"""Arrays of a comparison: data, and the predictions of start and answer."""
EVALUATIONS = 100
"""Most evaluations for which space in the journal is required. Many searches end before their last iteration."""


def require_room(problem: Problem, folder: Path) -> None:
    """Refuse a run whose files do not fit on the disk.

    Files of an earlier part of this run are reused or deleted before their space is needed, so they count as free. Results do not count as
    free, because the new ones are written before the old ones are deleted.

    Raises:
        StorageError: the disk has too little space, or a file would be too large. The message names the file and the space.
    """
    files = wanted(problem)
    largest = max(files, key=lambda name: files[name])
    total = sum(max(size - _there(folder, name), 0) for name, size in files.items())
    if free_disk(folder) < total:
        raise no_room(folder / largest, f"making room for a run that writes {len(files)} files", total, _full())
    try:
        with tempfile.TemporaryFile(dir=folder, prefix=".room.", suffix=ENDING) as file:
            os.truncate(file.fileno(), files[largest])  # fails if files may not be so large
    except OSError as error:
        raise failure(folder / largest, "making room for it", error, files[largest]) from error


def wanted(problem: Problem) -> dict[str, int]:
    """The files of a run that grow with the scene, and their largest sizes in bytes."""
    scene, setup = problem.scene, problem.setup
    cells, shots, size = setup.grid.size, len(setup.shots), problem.theta.size
    unknown = sum(values.size for values in problem.start.values())
    numbers = FIELDS * unknown + sum(values.size for values in problem.known.values())
    seen = 0
    for of, state in {(misfit.of, misfit.state) for misfit in scene.misfit}:
        times = max(setup.steps + 1, len(setup.data[state].times) if state in setup.data else 0)
        seen += shots * (times * len(setup.receivers[state]) if of == "traces" else cells)
    iterations = sum(min((stage.iterations or 0) + 1, EVALUATIONS) for stage in scene.stages())
    sizes: dict[str, int] = {RESULT: NUMBER * (numbers + COMPARED * seen), JOURNAL: NUMBER * size * iterations}
    if problem.policy.resume:
        sizes["sweep"] = 2 * NUMBER * (seen + unknown + cells * len(setup.equation.states))  # the last one and the next
    slots = sum(tier.slots for tier in problem.schedule.slow_tiers if tier.name == "disk")
    if slots:
        sizes["states"] = setup.simulation.sizes(setup.steps).on_disk(slots)
    return sizes


def _there(folder: Path, name: str) -> int:
    """Bytes of the existing files of one kind in the folder, which are reused or deleted."""
    patterns = {JOURNAL: JOURNALS, "sweep": "sweep-*", "states": "states-*"}
    paths = folder.glob(patterns[name]) if name in patterns else ()
    return sum(path.stat().st_size for path in paths if path.is_file())


def _full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
