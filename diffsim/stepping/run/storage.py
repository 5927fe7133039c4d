"""Memory of a step's fields: pools of time levels for states and cotangents, and single fields."""

from __future__ import annotations

import math
from collections.abc import Mapping

from diffsim.base import buffers
from diffsim.engine import backend
from diffsim.errors import PlanError, StaleValueError
from diffsim.stepping.derive.forward import ring_depths
from diffsim.stepping.derive.programs import Programs
from diffsim.stepping.ir.levels import Ring
from diffsim.stepping.run.launcher import Launcher
from diffsim.stepping.run.launches import Packed

PACKED = 2.5
"""Residuals are kept as cells alone where a field takes this many times the memory of its cells."""


class Storage:
    """The memory of a run, and its sizes.

    Attributes:
        rings: levels of each state with storage of its own.
        bars: levels of each cotangent.
        capacity: recorded steps for whose residuals there is memory.
        recorded: the steps for which memory was planned that keep values for their adjoints.
    """

    def __init__(self, programs: Programs, launcher: Launcher) -> None:
        self._programs, self._launcher, self._depths = programs, launcher, ring_depths(programs.step)
        depths = self._depths | (programs.adjoint.depths if programs.adjoint else {})
        self._working = {name: Ring.working_levels(depth, programs.in_place(name)) for name, depth in depths.items()}
        self.rings: dict[str, Ring] = {}
        self.bars: dict[str, Ring] = {}
        self.capacity = self.recorded = 0
        self._packs = self._may_pack()
        self._planned: tuple[object, ...] = ()  # what the last plan was for, and the arrays after it
        self._unneeded = False  # True if unused memory may be left of arrays that were exchanged, or of earlier simulations

    def plan(self, slots: int, recorded: int, exact: bool = False, undone: bool = False) -> None:
        """Allocate memory for `slots` saved states and for the values that `recorded` steps keep for their adjoints.

        Args:
            slots: number of saved states.
            recorded: number of recorded steps.
            exact: free memory in excess of that; otherwise it is kept for later runs.
            undone: also allocate a second state and the next level of its cotangents, for steps that will be undone.

        Raises:
            PlanError: an array would be too large.
            MemoryError: there is too little memory. All storage is freed.
        """
        wanted = slots, recorded, undone, self._launcher.bindings, len(self._launcher.arrays)
        if wanted == self._planned and not exact:
            return
        recorded = recorded if self._programs.needs_primal else 0
        second = int(undone and self._programs.needs_primal)
        slots += second
        most = max(slots * max(self._depths.values(), default=1) + 4, 0) + recorded
        if most * self._launcher.layout.tile_count >= 2**31:
            raise PlanError(
                f"{slots} slots and {recorded} recorded steps need {most} levels of {self._launcher.layout.tile_count} tiles, "
                f"more than the 2^31 tiles that an array can hold; use fewer slots, or checkpoint= a number of slots instead of storing all"
            )
        with_residuals = self._programs.records_residuals(recorded)
        read = self._programs.read_states[with_residuals]
        try:
            for name, depth in self._depths.items():
                levels = slots * depth + self._working[name] + (recorded if name in read else 0)
                if self._grow(name, levels, exact):
                    self.rings[name] = Ring(depth, self._programs.in_place(name), levels)
            self._plan_residuals(recorded if with_residuals else 0, exact)
            for name, depth in self._programs.adjoint.depths.items() if self._programs.adjoint else ():
                levels = self._working[name] + second
                if self._grow(name, levels, exact):
                    self.bars[name] = Ring(depth, self._programs.in_place(name), levels)
            if self._unneeded:  # all large arrays have their memory now
                buffers.release()
                self._unneeded = False
        except BaseException:  # with more levels in a ring than in its array, kernels would write past the end
            self.release()
            raise
        self.recorded = recorded
        self._planned = *wanted[:3], self._launcher.bindings, len(self._launcher.arrays)

    def _may_pack(self) -> bool:
        """True if residuals are kept as cells alone, and copied from and to one level between steps.

        That is where fields are much larger than their cells, and each step is several launches with calls of the host between.
        """
        residuals, layout = self._programs.with_residuals, self._launcher.layout
        if residuals is None or not backend().on_host or layout.nbytes < PACKED * self._cells_bytes():
            return False
        calls = [[*program.calls] for program in (residuals.forward, residuals.adjoint)]
        return all(calls) and all(call.total is None for each in calls for call in each)

    def _cells_bytes(self) -> int:
        return math.prod(self._launcher.layout.shape) * self._launcher.layout.dtype.itemsize

    def _plan_residuals(self, recorded: int, exact: bool) -> None:
        """Allocate memory for the residuals of `recorded` steps; with `exact` free that of others."""
        launcher, residuals = self._launcher, self._programs.with_residuals
        if residuals is None or not (recorded or exact):
            return
        if not recorded:
            unused = launcher.arrays.keys() & {*residuals.names}
            if unused:
                for name in unused:
                    del launcher.arrays[name]
                launcher.packed.clear()
                launcher.unbind()
                self.capacity, self._unneeded = 0, True
            return
        for name, rules in zip(residuals.names, residuals.rules, strict=True):
            if not self._packs:
                self._grow(name, recorded, exact)
                continue
            self._grow(name, 1, False)
            present = launcher.packed[name].rows.shape[0] if name in launcher.packed else 0
            if present < recorded or (present > recorded and exact):
                launcher.packed.pop(name, None)
                rows = launcher.memory.allocate((recorded, *launcher.layout.shape), launcher.layout.dtype)
                launcher.packed[name] = Packed(rows, rules)
                self._unneeded = self._unneeded or exact or present > 0
        self.capacity = launcher.packed[residuals.names[0]].rows.shape[0] if self._packs else launcher.arrays[residuals.names[0]].shape[0]

    def _grow(self, name: str, levels: int, exact: bool) -> bool:
        """Allocate an array of `levels` levels unless there is one. Return whether it was allocated."""
        present = self._launcher.arrays[name].shape[0] if name in self._launcher.arrays else 0
        if present == levels or (present > levels and not exact):
            return False
        self._launcher.allocate(name, (levels, *self._launcher.storage(name)))
        self._unneeded = self._unneeded or exact or present > 0
        return True

    def release(self) -> None:
        """Free the storage of all fields. `plan` allocates it anew, in the requested size."""
        arrays = self._launcher.arrays
        for name in self._programs.fields() & arrays.keys():
            del arrays[name]
        self._launcher.packed.clear()
        self.capacity = 0
        self._launcher.put_strips({}, 0)
        self._launcher.unbind()
        self.rings, self.bars = {}, {}

    def require(self, rings: Mapping[str, Ring]) -> None:
        """Raise unless the array of each ring has all of its levels."""
        for name, ring in rings.items():
            levels = self._launcher.arrays[name].shape[0] if name in self._launcher.arrays else 0
            if levels != ring.capacity:
                raise StaleValueError(
                    f"expected {ring.capacity} levels of storage for {name}, got {levels}: it was given back or exchanged; plan anew"
                )

    def state_bytes(self) -> int:
        """Bytes of one saved state."""
        return sum(depth * self._launcher.field_bytes(name) for name, depth in self._depths.items())

    def recorded_bytes(self, recorded: int = 2) -> int:
        """Bytes that each step keeps if `recorded` of them are recorded at a time: residuals, states, or none if the adjoint needs none."""
        if not self._programs.needs_primal:
            return 0
        with_residuals = self._programs.records_residuals(recorded)
        residuals = self._programs.with_residuals if with_residuals else None
        of_states = sum(map(self._launcher.field_bytes, self._programs.read_states[with_residuals]))
        if residuals and self._packs:
            return of_states + len(residuals.names) * self._cells_bytes()
        return of_states + sum(map(self._launcher.field_bytes, residuals.names if residuals else ()))

    def working_bytes(self) -> int:
        """Bytes of all other fields: the working state, cotangents, coefficients and their gradients, intermediate fields."""
        residuals = self._programs.with_residuals
        single = self._programs.fields() - self._working.keys() - set(residuals.names if residuals and not self._packs else ())
        levels = self._working | {name: self._launcher.stacks.get(name, 1) for name in single}
        return sum(count * self._launcher.field_bytes(name) for name, count in levels.items()) + self._launcher.table_bytes()

    def second_bytes(self) -> int:
        """Bytes that undoing needs in addition to strips: a second state, and one more level of cotangents; 0 if no gradient needs the
        states."""
        if self._programs.adjoint is None or not self._programs.needs_primal:
            return 0
        return self.state_bytes() + sum(map(self._launcher.field_bytes, self._programs.adjoint.depths))

    def second_copies(self) -> int:
        """Additional fields of the second run: changes of a state, gradients before and after a sample, and their differences."""
        return 1 + 4 * len(self._programs.coefficient_bars()) + 2 * len(self._depths) if self._programs.needs_primal else 0

    def allocated_bytes(self) -> int:
        """Bytes of all fields now."""
        packed = sum(each.rows.nbytes for each in self._launcher.packed.values())
        return packed + sum(self._launcher.nbytes(name) for name in self._programs.fields() if name in self._launcher.arrays)
