"""States in the host's memory: for models on another device, or for compressed states."""

from __future__ import annotations

import numpy as np

from diffsim.checkpoint.schedule import require_count
from diffsim.checkpoint.storage.compression import SCRATCH, Compression, decode
from diffsim.checkpoint.storage.store import State, StateLayout, Store, require_kept, require_slot, require_step, row_buffer
from diffsim.errors import StaleValueError


class HostStore(Store):
    """A `Store` in memory, without background work.

    Without compression the memory of all slots is allocated and touched when the store is created, and `read` does not copy. With
    compression a slot takes the size of its compressed state, at most the size of the state.

    Args:
        layout: layout of the states.
        slots: most states stored.
        compression: compression of the states; None: no compression.

    Raises:
        ScheduleError: `slots` is not a positive integer.

    Example:
        import tempfile
        from pathlib import Path

        import numpy as np

        from diffsim.checkpoint import DiskStore, HostStore, StateLayout, Store

        state = [np.random.default_rng(1).random((30, 40)), np.arange(5)]
        layout = StateLayout.of(state)
        with tempfile.TemporaryDirectory() as folder:
            for each in (HostStore(layout, slots=3), DiskStore(Path(folder) / "states", layout, slots=3)):
                store: Store = each
                with store:
                    store.write(1, 40, state)  # slot 1 keeps the state of step 40
                    assert store.kept() == {1: 40}
                    assert all((a == b).all() for a, b in zip(store.read(1, 40), state))
    """

    def __init__(self, layout: StateLayout, slots: int, compression: Compression | None = None) -> None:
        self.layout = layout
        self.slots = require_count("slots", slots)
        self.compression = compression
        self._steps: dict[int, int] = {}
        self._rows: dict[int, np.ndarray] = {}  # by slot, packed or not
        self._packed: dict[int, list[bytes]] = {}
        self._staging: np.ndarray | None = None
        self._closed = False
        if compression is None:
            self._rows = {slot: row_buffer(layout.row_bytes) for slot in range(self.slots)}
        else:
            self._staging = row_buffer(layout.row_bytes)

    @staticmethod
    def planned_bytes(layout: StateLayout, slots: int, compression: Compression | None = None) -> int:
        """Most bytes of memory of such a store. With compression, that is the case of incompressible states."""
        return slots * layout.row_bytes if compression is None else (slots + 1) * layout.row_bytes + SCRATCH

    @property
    def nbytes(self) -> int:
        """See `Store`."""
        rows = sum(row.nbytes for row in self._rows.values()) + sum(len(part) for parts in self._packed.values() for part in parts)
        return rows + (0 if self._staging is None else self._staging.nbytes)

    def write(self, slot: int, step: int, arrays: State) -> None:
        """See `Store`.

        Raises:
            ScheduleError: there is no such slot, or the step is negative.
            ShapeError: the state is of another layout.
            StaleValueError: the store is closed.
        """
        self._require_open("write")
        require_slot(slot, self.slots)
        require_step(step)
        self.layout.check(arrays)
        self._steps.pop(slot, None)  # if this is interrupted, the slot does not hold a partial state
        if self.compression is None:
            self.layout.pack(arrays, self._rows[slot])
        else:
            self._drop(slot)
            parts = self._encoded(self.compression, arrays)
            if parts is None:
                self._rows[slot] = row_buffer(self.layout.row_bytes)
                self.layout.pack(arrays, self._rows[slot])
            else:
                self._packed[slot] = parts
        self._steps[slot] = step

    def fetch(self, slot: int) -> None:
        """Do nothing, because the state is in memory."""
        self._require_open("fetch")
        require_slot(slot, self.slots)
        require_kept(slot, self._steps.get(slot))

    def read(self, slot: int, step: int) -> list[np.ndarray]:
        """See `Store`.

        Raises:
            ScheduleError: the slot keeps another state, or none.
            StaleValueError: the store is closed.
        """
        self._require_open("read")
        require_slot(slot, self.slots)
        require_kept(slot, self._steps.get(slot), step)
        if slot in self._packed and self._staging is not None:
            decode(self._packed[slot], self.layout.views(self._staging))
            return self.layout.constants(self._staging)
        return self.layout.constants(self._rows[slot])

    def free(self, slot: int) -> None:
        """See `Store`.

        Raises:
            ScheduleError: the slot is empty.
            StaleValueError: the store is closed.
        """
        self._require_open("free")
        require_slot(slot, self.slots)
        require_kept(slot, self._steps.pop(slot, None))
        if self.compression is not None:
            self._drop(slot)

    def kept(self) -> dict[int, int]:
        """See `Store`."""
        self._require_open("kept")
        return dict(self._steps)

    def close(self, keep: bool = False) -> None:
        """See `Store`."""
        self._closed = True
        self._steps.clear()
        self._rows.clear()
        self._packed.clear()
        self._staging = None

    def _encoded(self, compression: Compression, arrays: State) -> list[bytes] | None:
        """The parts of the stream, or None if they are no smaller than the state."""
        parts, size = [], 0
        for part in compression.encode(arrays):
            size += len(part)
            if size >= self.layout.nbytes:
                return None
            if part:
                parts.append(part)
        return parts

    def _drop(self, slot: int) -> None:
        self._packed.pop(slot, None)
        self._rows.pop(slot, None)

    def _require_open(self, call: str) -> None:
        if self._closed:
            raise StaleValueError(f"expected an open store, got {call}() on a closed one; make a new HostStore")
