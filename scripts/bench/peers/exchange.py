"""How a peer is called: `python by_NAME.py PROBLEM.npz RESULT.npz`, needing only NumPy beside the peer itself.

A peer's script has the packages that it needs in its head (inline script metadata), a function for each kind of work, and
`serve({kind: function})`. The function gets the `Problem` and returns a call: the whole work, from NumPy arrays to NumPy arrays. `serve`
calls it once, writes its result to RESULT.npz, and then once for each line of its input. Each call is answered by one line of JSON.
The output of the peer itself goes to its error output.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Results = dict[str, np.ndarray]


class Cannot(Exception):  # noqa: N818 - an answer, not a mistake
    """The peer has no means for this work; the message says which."""


class Problem:
    """The arrays and the settings of a problem.

    Attributes:
        kind: of work, such as "acoustic".
        gradient: whether a gradient is asked for, instead of the forward run alone.
        slots: states that a gradient may keep; 0: everything is stored.
        threads: that the peer may use.
        settings: the rest: steps, order, spacing and the like.
    """

    def __init__(self, path: str) -> None:
        with np.load(path) as file:
            self._arrays = {name: file[name] for name in file.files}
        self.settings: dict[str, Any] = json.loads(str(self._arrays.pop("settings")))
        self.kind: str = self.settings["kind"]
        self.gradient: bool = self.settings["gradient"]
        self.slots: int = self.settings["slots"]
        self.threads: int = self.settings["threads"]

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    @property
    def steps(self) -> int:
        return int(self.settings["steps"])

    def segments(self) -> list[tuple[int, int]]:
        """First and last step of `slots` runs of steps, as equal as they can be."""
        bounds = np.linspace(0, self.steps, self.slots + 1).round().astype(int)
        return list(itertools.pairwise(bounds.tolist()))


WEIGHTS = {4: (-5 / 2, 4 / 3, -1 / 12), 8: (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)}
"""Second difference by order: weight of the cell, then of both neighbours at distance 1, 2, ..."""


def waves(problem: Problem, shift: list[float], component: int | None = None) -> np.ndarray:
    """The waves of an initial velocity in a periodic box of side 2π, each without divergence: a cos(k·x + φ).

    Args:
        problem: has "numbers" k, "amplitudes" a and "phases" φ.
        shift: of the places along x, y, z from the corners of the cells, in cells.
        component: one of the velocity; None: all.

    Returns:
        Shape (wave, component, n, n, ...), axes x, y, z; without the second axis for one component.
    """
    n = problem.settings["n"]
    places = np.meshgrid(*[2 * np.pi / n * (np.arange(n) + part) for part in shift], indexing="ij")
    angle = np.tensordot(problem["numbers"], np.stack(places), axes=1) + problem["phases"].reshape(-1, *[1] * len(shift))
    wave, size = np.cos(angle), problem["amplitudes"]
    return (
        np.stack([wave * size[:, c].reshape(-1, *[1] * len(shift)) for c in range(len(shift))], axis=1)
        if component is None
        else (wave * size[:, component].reshape(-1, *[1] * len(shift)))
    )


def serve(work: Mapping[str, Callable[[Problem], Callable[[], Results]]]) -> None:
    """Do the work of the command line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    problem = Problem(sys.argv[1])

    def answer(**said: object) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    begin = time.perf_counter()
    try:
        if problem.kind not in work:
            raise Cannot(f"no {problem.kind}")
        call = work[problem.kind](problem)
        results = call()
    except Cannot as refusal:
        answer(cannot=str(refusal))
        return
    first = time.perf_counter() - begin
    np.savez(sys.argv[2], **results)  # type: ignore[arg-type]
    del results
    answer(first=first)
    for _ in sys.stdin:
        begin, used = time.perf_counter(), time.process_time()
        call()
        answer(seconds=time.perf_counter() - begin, processor=time.process_time() - used)
