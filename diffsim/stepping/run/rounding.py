"""Estimate the error of the gradient by rounding errors of states computed backwards, with a second run backwards that rounds differently.

A state that is computed backwards has rounding errors e, and the true state is not available for comparison. If the last bits of a
state are changed, the same steps round differently, with errors e' of the same size that are independent of e. So the adjoints of the
two states differ by about as much as either differs from the truth. These differences are summed, with their signs, over a
sample of the steps. At a kept state e is known, and shows whether e' had the same size.

Reference: Vignes, A stochastic arithmetic for reliable scientific computation, Mathematics and Computers in Simulation 35 (1993) 233 - 261,
doi:10.1016/0378-4754(93)90003-D. Departure: there are two runs, and the first one gives the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np

from diffsim.boundary import Rules
from diffsim.stepping.ir.levels import Ring
from diffsim.stepping.run.launcher import Launcher
from diffsim.typing import Array

SECOND = -1
"""Slot of the second state, and of the cotangents while its adjoint is computed. Schedules number their slots from 0."""
SPACING = 24
"""Largest mean number of steps between two samples. A sample takes about as long as 20 steps."""
ALIKE = 10.0
"""Largest ratio of a rounding error to the difference of the two runs that is accepted."""
CAUTION = 3.0
"""Safety factor. Over 600 random runs, with a sample every 12 steps, the estimate without it was 0.8 to 136 times the error."""

Rings = Mapping[str, Ring]


@dataclass
class Results:
    """Results of the adjoint of a step: sums over steps, rows of a stream, and the newest cotangents that depend on states."""

    sums: dict[str, Array]
    rows: dict[str, Array]
    cotangents: dict[str, Array]


class Rounding:
    """The second run, and the differences of its gradients from those of the first.

    Args:
        launcher: launcher of the stepper.
        rules: boundary rules of the states.
        sums: fields to which adjoint steps add: gradients of coefficients.
        streams: arrays in which each adjoint step writes its row: gradients of amplitudes.
        carried: cotangents of states that depend on the states themselves (nonlinear steps); else none.

    Attributes:
        forked: whether there is a second state now.
    """

    def __init__(
        self, launcher: Launcher, rules: Mapping[str, Rules], sums: Sequence[str], streams: Sequence[str], carried: Sequence[str]
    ) -> None:
        self._launcher, self._rules, self._sums, self._streams, self._carried = launcher, rules, sums, streams, carried
        self._signs: Array | None = None
        self.begin()

    def begin(self) -> None:
        """Begin a reverse sweep."""
        self.errors = np.zeros((len(self._sums) + len(self._streams) + 1, 2))
        """Largest entry and Euclidean norm of the error of each sum and stream. The last row has relative errors of the cotangents."""
        self._random = np.random.default_rng(0)
        self._end_interval()

    def _end_interval(self) -> None:
        self.forked = False
        self._undone = self._covered = self._since = 0
        self._gap = 1.0
        self._differences: dict[str, Array] = {}

    def fork(self, rings: Rings) -> None:
        """Copy the working state to the second state, with the newest values changed at random by half a unit in the last place."""
        self.forked = True
        for name, ring in rings.items():
            kept = list(ring.working)
            for level, copy in zip(kept, ring.fork(SECOND), strict=True):
                cells = self._launcher.cells(name, level)
                self._launcher.put_field(name, cells + cells * self._halves(cells) if level == kept[-1] else cells, self._rules[name], copy)

    def _halves(self, cells: Array) -> Array:
        """-1, 0 or 1 at random, times half of the relative distance of two numbers."""
        if self._signs is None:
            half = cells.dtype.type(np.finfo(cells.dtype).eps / 2)
            self._signs = np.random.default_rng(0).integers(-1, 1, cells.shape, np.int8, endpoint=True) * half
        return self._signs

    def drop(self, rings: Rings) -> None:
        """Free the second state. If no kept state was reached since it was made, errors count with their largest accepted size."""
        self._add_differences(ALIKE * self._undone / max(self._covered, 1))
        for ring in rings.values():
            if SECOND in ring.slots:
                ring.release(SECOND)
        self._end_interval()

    def second(self, rings: Rings) -> AbstractContextManager[None]:
        """Make the second state the working state inside of the `with` block."""
        return _exchanged(rings, SECOND)

    def wants(self) -> bool:
        """True if the adjoint of this step, whose state was computed backwards, is to be computed for both states."""
        self._since += 1
        return self._since >= self._gap

    def sample(self, rings: Rings, bars: Rings, step: int, adjoint: Callable[[], None]) -> None:
        """Compute the adjoint of a step, and note the difference from the adjoint with the second state."""
        second = self._aside(rings, bars, SECOND, step, adjoint)
        adjoint()
        self._note(second, self._results(bars, step), self._since)
        self._covered += self._since
        self._since = 0
        self._gap = min(2 * self._gap, SPACING * self._random.uniform(0.7, 1.3))

    def _aside(self, rings: Rings, bars: Rings, slot: int | None, step: int, adjoint: Callable[[], None]) -> Results:
        """Results of the adjoint of a step with the state in a slot (None: the working state). Its effects are undone afterwards."""
        memory, arrays = self._launcher.memory, self._launcher.arrays
        sums = {name: memory.read(arrays[name]).copy() for name in self._sums}
        rows = {name: memory.read(arrays[name])[step].copy() for name in self._streams}
        for ring in bars.values():
            ring.save(SECOND)
        with nullcontext() if slot is None else _exchanged(rings, slot):
            adjoint()
        results = self._results(bars, step)
        for ring in bars.values():
            ring.load(SECOND)
            ring.release(SECOND)
        for name, value in sums.items():
            memory.write(arrays[name], value)
        for name, row in rows.items():
            stream = memory.read(arrays[name])
            stream[step] = row
            if stream is not arrays[name]:  # a copy from a GPU
                memory.write(arrays[name], stream)
        return results

    def _results(self, bars: Rings, step: int) -> Results:
        return Results(
            {name: self._launcher.cells(name).copy() for name in self._sums},
            {name: self._stream(name)[step].copy() for name in self._streams},
            {name: self._launcher.cells(name, bars[name].working[-1]).copy() for name in self._carried},
        )

    def _stream(self, name: str) -> Array:
        """The values of a stream at all steps, those of a series without its halo. Memory beside the cells belongs to no gradient."""
        launcher = self._launcher
        return launcher.slim_cells(name) if name in launcher.slim else launcher.memory.read(launcher.arrays[name])

    def _note(self, one: Results, other: Results, steps: float) -> None:
        """Note the difference of two states' adjoints, for `steps` steps. It overwrites `one`."""
        for name, value in one.sums.items():
            value -= other.sums[name]
            value *= steps
            if name in self._differences:
                value += self._differences[name]
            self._differences[name] = value
        for place, (name, row) in enumerate(one.rows.items(), len(self._sums)):
            largest, root = _sizes(row - other.rows[name])
            self.errors[place] = max(self.errors[place, 0], largest), math.hypot(self.errors[place, 1], math.sqrt(steps) * root)
        for name, value in one.cotangents.items():
            value -= other.cotangents[name]
            self.errors[-1] += steps * _ratio(_sizes(value), _sizes(other.cotangents[name]))

    def note_undone(self, steps: int) -> None:
        """Note that `steps` steps were undone in both runs."""
        self._undone += steps

    def compare(self, rings: Rings, bars: Rings, slot: int, step: int, adjoint: Callable[[], None]) -> None:
        """At a kept state, add the errors of the steps since the last one. They are scaled up if the true error of the working state is
        larger.

        Steps after the last sample count like this step, whose true error is known.
        """
        mine, true = self._aside(rings, bars, None, step, adjoint), self._aside(rings, bars, slot, step, adjoint)
        with np.errstate(invalid="ignore", over="ignore"):
            scale = float(np.max([1.0, *(self._misjudged(name, ring, slot) for name, ring in rings.items())]))
            if scale > ALIKE:  # both runs have the same error, so this step represents all of them
                self._covered, scale = 0, 1.0
            self._note(mine, true, max(self._undone - self._covered, 1))
            self._add_differences(scale)

    def _misjudged(self, name: str, ring: Ring, slot: int) -> float:
        """The ratio of the errors of the first run to the differences of the two runs."""
        first, kept, second = (self._launcher.cells(name, levels[-1]) for levels in (ring.working, ring.slots[slot], ring.slots[SECOND]))
        return float(np.max(_ratio(math.sqrt(2) * _sizes(first - kept), _sizes(second - first))))

    def _add_differences(self, scale: float) -> None:
        for place, name in enumerate(self._sums):
            if name in self._differences:
                self.errors[place] += scale * _sizes(self._differences.pop(name))

    def drift(self, rings: Rings) -> float:
        """A cautious estimate of the relative error of the gradient at the end of a sweep; NaN if a value is NaN."""
        self.drop(rings)
        written = [*map(self._launcher.cells, self._sums), *map(self._stream, self._streams)]
        of_sums = [_ratio(error, _sizes(values)) for error, values in zip(self.errors, written, strict=False)]
        return CAUTION * float(np.max([*of_sums, np.zeros(2)]) + np.max(self.errors[-1]))


@contextmanager
def _exchanged(rings: Rings, slot: int) -> Iterator[None]:
    """Make the state in a slot the working state inside of the `with` block."""
    for ring in rings.values():
        ring.exchange(slot)
    try:
        yield
    finally:
        for ring in rings.values():
            ring.exchange(slot)


def _sizes(values: Array) -> Array:
    """The largest magnitude and the Euclidean norm."""
    flat = values.ravel()
    return np.array([max(flat.max(), -flat.min()) if flat.size else 0.0, np.sqrt(np.einsum("i,i->", flat, flat, dtype=np.float64))])


def _ratio(error: Array, size: Array) -> Array:
    """error / size, 0 where there is no error."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(error == 0.0, 0.0, error / size)
