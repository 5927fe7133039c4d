"""Cotangents of a run: of the final state, where the sweep starts, of the inputs, where it ends, and of the states between."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from diffsim.base import buffers
from diffsim.boundary import zero_rules
from diffsim.engine import check_generation
from diffsim.errors import StaleValueError
from diffsim.expr.evaluate import evaluate, pad
from diffsim.expr.graph import reads
from diffsim.stepping.derive.adjoint import Adjoint
from diffsim.stepping.derive.forward import receiver_points, receiver_stream, source_points, source_stream
from diffsim.stepping.derive.programs import Programs
from diffsim.stepping.ir.names import bar
from diffsim.stepping.run.launcher import Launcher
from diffsim.stepping.run.looks import size_of
from diffsim.stepping.run.storage import Storage
from diffsim.typing import Array


class Cotangents:
    """The values that adjoint steps propagate and add to."""

    def __init__(
        self, programs: Programs, launcher: Launcher, storage: Storage, receivers: tuple[str, ...], profiles: Mapping[str, Array]
    ) -> None:
        self.programs, self.launcher, self.storage, self.receivers, self._profiles = programs, launcher, storage, receivers, profiles
        self.step, self.delays = programs.step, programs.step.delays()
        self._rules = self.step.cotangent_rules
        active = sorted(self.step.active)
        self._of_coefficients = {name: bar(name) for name in active if name in self.step.coefficients}
        self._of_series = {name: bar(name) for name in active if name in self.step.series}
        self._bars = {state: bar(state) for state in self.delays}
        self._waiting: dict[str, dict[int, Array]] = {}  # state -> steps until its cotangent enters -> that cotangent

    @property
    def _adjoint(self) -> Adjoint:
        if self.programs.adjoint is None:
            raise StaleValueError("this stepper was built without its adjoint; build it with differentiable=True")
        return self.programs.adjoint

    @property
    def waiting(self) -> bool:
        """True if cotangents of delayed final states have still to enter, one step at a time."""
        return bool(self._waiting)

    def seed(self, final: Mapping[str, Array], traces: Mapping[str, Array], steps: int) -> None:
        """Start the reverse sweep from cotangents of the final state and of the traces. Entries left out count as zero.

        Args:
            final: cotangents of states, over the cells.
            traces: their cotangents, shape (steps + 1, receivers).
            steps: number of steps in the run.
        """
        launcher, dtype, delayed = self.launcher, self.launcher.layout.dtype, self._adjoint.delayed
        check_generation(launcher.generation)
        self.storage.require(self.storage.bars)
        trace_bars: dict[str, Array] = {}
        for state in self.receivers:
            nothing = np.zeros((steps + 1, launcher.points[receiver_points(state)].count), dtype)
            trace_bars[state] = np.ascontiguousarray(traces.get(state, nothing), dtype)
            launcher.put(bar(receiver_stream(state)), trace_bars[state])
        for forcing in self.step.forcings:
            launcher.put(bar(source_stream(forcing)), np.zeros((steps, launcher.points[source_points(forcing)].count), dtype))
        for name in self._of_coefficients.values():
            launcher.clear(name)
        for name in self._of_series.values():
            launcher.put_slim(name, None, launcher.arrays[name].shape[0])
        for name, ring in self.storage.bars.items():
            ring.clear()
            for level in ring.working[:-1]:
                launcher.clear(name, level)
        self._waiting = {}
        for state, (primary, late) in self.delays.items():
            if state in final and state not in self.receivers and state not in delayed and self.step.states[state].axes is None:
                self._put(self._bars[state], final[state])
                continue
            value = np.zeros(self.step.grid.shape, dtype)
            self.step.states[state].of_cells(value)[...] = final.get(state, 0)
            if state in self.receivers:
                launcher.points[receiver_points(state)].scatter(trace_bars[state][-1], value)
            if state not in delayed:
                self._put(self._bars[state], value)
            elif value.any():
                self._waiting.setdefault(primary, {})[late] = value

    def enter(self) -> None:
        """After one adjoint step, add the waiting cotangent of the state one step earlier, which is now the present state."""
        for primary, waiting in list(self._waiting.items()):
            value = waiting.pop(1, None)
            if value is not None:
                self._put(bar(primary), self._of(bar(primary)) + value)
            self._waiting[primary] = {late - 1: later for late, later in waiting.items()}
            if not self._waiting[primary]:
                del self._waiting[primary]

    def inputs(self) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
        """After the sweep: cotangents of the initial state, of the active coefficients, and of amplitudes and series."""
        coefficients = {name: buffers.copy(self.launcher.cells(summed)) for name, summed in self._of_coefficients.items()}
        memory, arrays = self.launcher.memory, self.launcher.arrays
        driven = {forcing: memory.read(arrays[bar(source_stream(forcing))]).copy() for forcing in self.step.forcings}
        driven |= {name: self.launcher.slim_cells(summed).copy() for name, summed in self._of_series.items()}
        return self.states(), coefficients, driven

    def states(self) -> dict[str, Array]:
        """Cotangents of the states at the present step, over the cells: the derivatives of the loss through later steps and traces."""
        states = {}
        for state, (primary, late) in self.delays.items():
            if state not in self._adjoint.delayed:
                states[state] = buffers.copy(self._of(self._bars[state]))
                continue
            total = self._waiting.get(primary, {}).get(late, np.zeros(self.step.grid.shape, self.launcher.layout.dtype))
            for other, (its_primary, its_late) in self.delays.items():
                if its_primary == primary and its_late >= late:
                    total = total + self._delayed(other, 1 + its_late - late)
            region = self.step.states[state].region
            states[state] = total if region is None else np.where(region.inside, total, 0)
        return states

    def sums(self) -> list[str]:
        """Arrays that adjoint steps add to: cotangents of coefficients, amplitudes and series."""
        return [*self.programs.coefficient_bars(), *self.driven()]

    def driven(self) -> list[str]:
        """Arrays of cotangents of amplitudes and series."""
        return [*(bar(source_stream(forcing)) for forcing in self.step.forcings), *self._of_series.values()]

    def arrays(self) -> dict[str, Array]:
        """Copies of all values that adjoint steps propagate: cotangents of the state, and sums for coefficients and amplitudes."""
        memory, arrays = self.launcher.memory, self.launcher.arrays
        values = {name: memory.read(arrays[name]) for name in self.sums()}
        for name, ring in self.storage.bars.items():
            values |= {f"{name}/{k}": memory.read(arrays[name], level) for k, level in enumerate(ring.working)}
        values |= {f"{name}/late {late}": value for name, waiting in self._waiting.items() for late, value in waiting.items()}
        return {name: buffers.copy(value) for name, value in values.items()}

    def put_back(self, arrays: Mapping[str, Array]) -> None:
        """Continue from the arrays of `arrays`, after `seed`."""
        self._waiting = {}
        for key, value in arrays.items():
            name, _, place = key.partition("/")
            if place.startswith("late "):
                self._waiting.setdefault(name, {})[int(place.removeprefix("late "))] = value
            else:
                level = self.storage.bars[name].working[int(place)] if place else None
                self.launcher.memory.write(self.launcher.arrays[name], value, level)

    def largest(self) -> float:
        """The largest magnitude in the state's present cotangent; NaN if a value is NaN."""
        sizes = [size_of(self.launcher, name, ring.working[ring.depth - 1]) for name, ring in self.storage.bars.items()]
        return float(np.max(sizes, initial=0.0))

    def _put(self, name: str, cells: Array) -> None:
        self.launcher.put_field(name, cells, self._rules, self.storage.bars[name].working[-1])

    def _of(self, name: str, later: int = 0) -> Array:
        """Cotangent of a state `later` steps after the present one, over the cells."""
        ring = self.storage.bars[name]
        return self.launcher.cells(name, ring.working[ring.depth - 1 - later])

    def _delayed(self, state: str, later: int) -> Array:
        """Cotangent of a delayed state, from those of its primary at a later time level."""
        node, shape, layout = self._adjoint.delayed[state], self.step.grid.shape, self.launcher.layout
        fields = dict(self._profiles)
        for name in reads([node]).keys() - self._profiles.keys():
            cells = self._of(name, later) if name in self.storage.bars else self.launcher.cells(name)
            fields[name] = pad(cells, layout.halo, zero_rules(len(shape)))  # it is read only in place
        return evaluate([node], fields, shape, layout.halo)[0].astype(layout.dtype)
