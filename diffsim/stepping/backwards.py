"""The working state of a stepper taken back, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from diffsim.expr.evaluate import evaluate, pad
from diffsim.field import Rules
from diffsim.stepping.launcher import Launcher
from diffsim.stepping.levels import Ring
from diffsim.stepping.program import Program
from diffsim.stepping.strips import damped_tiles, strip_rows
from diffsim.stepping.undo import Undo, strip
from diffsim.typing import Array, IntArray

SAMPLE = 16
"""Steps after which sizes are taken, which costs about as much as a step."""


class Backwards:
    """Undoes steps by their programs, and tells by kept states what rounding errors do to the gradient.

    Args:
        how: a step is undone.
        forward: the forward program.
        launcher: of the stepper.
        profiles: one-axis fields with their halo.
        rules: of the coefficients outside the grid.

    Attributes:
        keeping: whether going forward keeps, and going back takes, what damped cells lose, if room was made for it.
    """

    def __init__(self, how: Undo, forward: Program, launcher: Launcher, profiles: Mapping[str, Array], rules: Mapping[str, Rules]) -> None:
        self.how, self.keeping = how, True
        self._plain = self._striped = forward, how.program
        self._launcher, self._profiles, self._rules = launcher, profiles, rules
        self._forget()

    @property
    def _programs(self) -> tuple[Program, Program]:
        return self._striped if self.keeping else self._plain

    @property
    def forward(self) -> Program:
        """The program of steps that are to be undone."""
        return self._programs[0]

    def damped(self, coefficients: Mapping[str, Array], steps: int) -> dict[str, IntArray]:
        """Tiles that are damped so much over a run that they cannot be computed backwards, of each state that has some.

        Args:
            coefficients: over the cells.
            steps: of the run.
        """
        layout, factors = self._launcher.layout, self.how.factors
        padded = {name: pad(np.asarray(coefficients[name]), layout.halo, rules) for name, rules in self._rules.items()}
        fields = {**self._profiles, **padded}
        values = evaluate(list(factors.values()), fields, layout.shape, layout.halo)
        tiles = {state: damped_tiles(factor, steps, layout) for state, factor in zip(factors, values, strict=True)}
        return {state: found for state, found in tiles.items() if len(found)}

    def strip_bytes(self, coefficients: Mapping[str, Array], steps: int) -> int:
        """Bytes that all steps of a run keep of damped cells."""
        layout = self._launcher.layout
        return sum(strip_rows(self.damped(coefficients, steps), steps).values()) * layout.lanes * layout.dtype.itemsize

    def start(self, coefficients: Mapping[str, Array], steps: int) -> None:
        """Make room for what the steps of a run keep."""
        tiles = self.damped(coefficients, steps)
        self._launcher.put_strips({strip(state): found for state, found in tiles.items()}, steps)
        self._striped = self.how.with_strips(self._plain[0], tuple(tiles)) if tiles else self._plain
        self.keeping = True
        self._forget()

    def undo(self, rings: Mapping[str, Ring], cotangent: Callable[[str], Array], start: int, stop: int) -> None:
        """Take the working state back from step `stop` to `start`; `cotangent` gives that of a state after them, over the cells."""
        for ring in rings.values():
            ring.working.reverse()
        program = self._programs[1]
        self._launcher.sweep(
            program, stop - 1, stop - start, lambda done, count: {name: ring.advance(count) for name, ring in rings.items()}
        )
        for ring in rings.values():
            ring.working.reverse()
        self._undone += stop - start
        if self._undone in (1, 2, 4, 8) or self._undone - self._noted >= SAMPLE:
            self._note(rings, cotangent)

    def drift(self, rings: Mapping[str, Ring], cotangent: Callable[[str], Array], slot: int) -> float:
        """About the relative error of the gradient over the steps undone since it was last asked; NaN if a number is not one.

        It is that of the products of states and cotangents, if all states were as far from the true ones as the working one is from the
        kept one.
        """
        self._note(rings, cotangent)
        errors = {}
        for name, ring in rings.items():
            pairs = zip(ring.working, ring.slots[slot], strict=True)
            errors[name] = max_abs(self._launcher.cells(name, level) - self._launcher.cells(name, kept) for level, kept in pairs)
        wrong, right = sum(error * self._weights[name] for name, error in errors.items()), self._products
        self._forget()
        if wrong == 0.0:
            return 0.0
        return wrong / right if right else math.inf

    def _forget(self) -> None:
        self._undone = self._noted = 0  # steps
        self._weights: dict[str, float] = {}  # sizes of each state's cotangents, summed over steps
        self._products = 0.0  # of sizes of states and of their cotangents, likewise

    def _note(self, rings: Mapping[str, Ring], cotangent: Callable[[str], Array]) -> None:
        """Add the steps undone since the last time, all with the sizes that states and cotangents have now."""
        steps, self._noted = self._undone - self._noted, self._undone
        for name, ring in rings.items():
            weight = steps * max_abs([cotangent(name)])
            self._weights[name] = self._weights.get(name, 0.0) + weight
            self._products += weight * max_abs([self._launcher.cells(name, ring.working[-1])])


def max_abs(arrays: Iterable[Array]) -> float:
    """The largest magnitude; NaN if a number is not one."""
    return float(np.max([max(a.max(), -a.min()) if np.isfinite(a.max()) else math.nan for a in arrays]))
