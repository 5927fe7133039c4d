"""Undo steps: run the working state of a stepper backwards."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from diffsim.boundary import Rules
from diffsim.expr.evaluate import evaluate, pad
from diffsim.stepping.derive.undo import Undo
from diffsim.stepping.ir.levels import Ring
from diffsim.stepping.ir.names import strip
from diffsim.stepping.ir.program import Program
from diffsim.stepping.run.launcher import Launcher
from diffsim.stepping.run.rounding import Rounding
from diffsim.stepping.run.strips import damped_tiles, strip_rows
from diffsim.typing import Array, IntArray


class Backwards:
    """Undoes steps by running programs.

    Args:
        how: the programs that undo a step.
        forward: the forward program.
        launcher: launcher of the stepper.
        profiles: one-axis fields with their halo.
        rules: boundary rules of the coefficients.
        rounding: the second run backwards; None: the gradient does not depend on the states.

    Attributes:
        keeping: whether the forward run stores the values of damped cells, and the run backwards restores them. That needs allocated
            memory.
    """

    def __init__(
        self,
        how: Undo,
        forward: Program,
        launcher: Launcher,
        profiles: Mapping[str, Array],
        rules: Mapping[str, Rules],
        rounding: Rounding | None,
    ) -> None:
        self.how, self.keeping, self.rounding = how, True, rounding
        self._plain = self._striped = forward, how.program
        self._launcher, self._profiles, self._rules = launcher, profiles, rules

    @property
    def _programs(self) -> tuple[Program, Program]:
        return self._striped if self.keeping else self._plain

    @property
    def forward(self) -> Program:
        """The forward program of steps that will be undone."""
        return self._programs[0]

    def damped(self, coefficients: Mapping[str, Array], steps: int) -> dict[str, IntArray]:
        """Tiles that are damped too much in a run to be computed backwards, for each state with such tiles."""
        layout, factors = self._launcher.layout, self.how.factors
        padded = {name: pad(np.asarray(coefficients[name]), layout.halo, rules) for name, rules in self._rules.items()}
        fields = {**self._profiles, **padded}
        values = evaluate(list(factors.values()), fields, layout.shape, layout.halo)
        tiles = {
            state: self._launcher.stored_tiles(state, damped_tiles(factor, steps, layout))
            for state, factor in zip(factors, values, strict=True)
        }
        return {state: each for state, each in tiles.items() if len(each)}

    def strip_bytes(self, coefficients: Mapping[str, Array], steps: int) -> int:
        """Bytes of the stored damped cells of all steps of a run."""
        layout = self._launcher.layout
        return sum(strip_rows(self.damped(coefficients, steps), steps).values()) * layout.lanes * layout.dtype.itemsize

    def start(self, coefficients: Mapping[str, Array], steps: int) -> None:
        """Allocate memory for the stored damped cells of a run."""
        tiles = self.damped(coefficients, steps)
        self._launcher.put_strips({strip(state): each for state, each in tiles.items()}, steps)
        self._striped = self.how.with_strips(self._plain[0], tuple(tiles)) if tiles else self._plain
        self.keeping = True

    def undo(self, rings: Mapping[str, Ring], start: int, stop: int) -> None:
        """Undo the working state from step `stop` to `start`, and also the second state that measures rounding errors, if it is used."""
        if self.rounding is None:
            self._undo(rings, start, stop)
            return
        if not self.rounding.forked:
            self.rounding.fork(rings)
        self._undo(rings, start, stop)
        with self.rounding.second(rings):
            self._undo(rings, start, stop)
        self.rounding.note_undone(stop - start)

    def _undo(self, rings: Mapping[str, Ring], start: int, stop: int) -> None:
        for ring in rings.values():
            ring.working.reverse()
        program = self.how.program
        apart = {name: not program.in_place(name) for name in rings}
        self._launcher.sweep(
            self._programs[1], stop - 1, stop - start, lambda done, count: {n: ring.advance(count, apart[n]) for n, ring in rings.items()}
        )
        for ring in rings.values():
            ring.working.reverse()
