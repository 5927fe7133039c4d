"""The working state of a stepper taken back, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from diffsim.expr.evaluate import evaluate, pad
from diffsim.field import zero_rules
from diffsim.stepping.launcher import Launcher
from diffsim.stepping.levels import Ring
from diffsim.stepping.program import Program
from diffsim.stepping.strips import damped_tiles, strip_rows
from diffsim.stepping.undo import Undo, strip
from diffsim.typing import Array, IntArray


class Backwards:
    """Undoes steps by their programs, and tells how far what comes out is from kept states.

    Args:
        how: a step is undone.
        forward: the forward program.
        launcher: of the stepper.
        profiles: one-axis fields with their halo.

    Attributes:
        keeping: whether going forward keeps, and going back takes, what damped cells lose, if room was made for it.
    """

    def __init__(self, how: Undo, forward: Program, launcher: Launcher, profiles: Mapping[str, Array]) -> None:
        self.how, self.keeping = how, True
        self._plain, self._striped = (forward, how.program), how.with_strips(forward)
        self._launcher, self._profiles = launcher, profiles
        self._sizes: dict[str, float] = {}  # largest value of each field that was seen since steps were undone

    @property
    def _programs(self) -> tuple[Program, Program]:
        return self._striped if self._launcher.strips and self.keeping else self._plain

    @property
    def forward(self) -> Program:
        """The program of steps that are to be undone."""
        return self._programs[0]

    def damped(self, coefficients: Mapping[str, Array], steps: int) -> dict[str, IntArray]:
        """Tiles of each state that are damped so much over a run that they cannot be computed backwards, by name of their strip.

        Args:
            coefficients: over the cells.
            steps: of the run.
        """
        layout, factors = self._launcher.layout, self.how.factors
        rules = zero_rules(len(layout.shape))
        fields = {**self._profiles, **{name: pad(np.asarray(cells), layout.halo, rules) for name, cells in coefficients.items()}}
        values = evaluate(list(factors.values()), fields, layout.shape, layout.halo)
        return {strip(state): damped_tiles(factor, steps, layout) for state, factor in zip(factors, values, strict=True)}

    def strip_bytes(self, coefficients: Mapping[str, Array], steps: int) -> int:
        """Bytes that all steps of a run keep of damped cells."""
        layout = self._launcher.layout
        return sum(strip_rows(self.damped(coefficients, steps), steps).values()) * layout.lanes * layout.dtype.itemsize

    def start(self, coefficients: Mapping[str, Array], steps: int) -> None:
        """Make room for what the steps of a run keep."""
        tiles = self.damped(coefficients, steps)
        self._launcher.put_strips(tiles if any(map(len, tiles.values())) else {}, steps)
        self._sizes.clear()
        self.keeping = True

    def undo(self, rings: Mapping[str, Ring], start: int, stop: int) -> None:
        """Take the working state back from step `stop` to `start`."""
        if not self._sizes:
            self._note_sizes({name: ring.working for name, ring in rings.items()})
        for ring in rings.values():
            ring.working.reverse()
        program = self._programs[1]
        self._launcher.sweep(
            program, stop - 1, stop - start, lambda done, count: {name: ring.advance(count) for name, ring in rings.items()}
        )
        for ring in rings.values():
            ring.working.reverse()

    def drift(self, rings: Mapping[str, Ring], slot: int) -> float:
        """How far the working state is from the kept one: the largest error of a field over the largest value that it had.

        That is its largest value in the final state and in the states that were compared in this sweep: a run that begins at rest has
        no size of its own at its beginning.
        """
        self._note_sizes({name: ring.slots[slot] for name, ring in rings.items()})
        found = 0.0
        for name, ring in rings.items():
            for level, kept in zip(ring.working, ring.slots[slot], strict=True):
                error = np.abs(self._launcher.cells(name, level) - self._launcher.cells(name, kept)).max()
                found = max(found, float(error) / self._sizes[name])
        return found

    def _note_sizes(self, levels: Mapping[str, Sequence[int]]) -> None:
        tiny = float(np.finfo(self._launcher.layout.dtype).tiny)
        for name, those in levels.items():
            present = max(float(np.abs(self._launcher.cells(name, level)).max()) for level in those)
            self._sizes[name] = max(self._sizes.get(name, tiny), present)
