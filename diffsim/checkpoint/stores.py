"""Storage for the slow tiers of a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy.typing as npt

from diffsim.checkpoint.policy import Policy
from diffsim.checkpoint.schedule import AnySchedule
from diffsim.checkpoint.schedules.splits import Kept
from diffsim.checkpoint.storage.disk import DiskStore
from diffsim.checkpoint.storage.host import HostStore
from diffsim.checkpoint.storage.store import StateLayout, Store
from diffsim.errors import StorageError


def open_stores(
    schedule: AnySchedule,
    state: Callable[[], Sequence[npt.NDArray[Any]]],
    policy: Policy,
    key: str = "",
    again: bool = False,
) -> list[Store]:
    """Open a store for each tier of a schedule after the first. Tiers named "disk" are files, others are in host memory.

    Args:
        schedule: the schedule with the tiers.
        state: returns the arrays of a state.
        policy: contains the folder of files, and their compression.
        key: identifies this run, so that it finds its own file again after a crash; "": it does not search for one, and its files have
            no names.
        again: open the files that a run of this key left, with their complete states.

    Raises:
        StorageError: a file cannot be created, or has the wrong contents.
    """
    if not schedule.slow_tiers:
        return []
    layout = StateLayout.of(state())
    with ExitStack() as stack:
        stores: list[Store] = []
        for number, tier in enumerate(schedule.slow_tiers, 1):
            if tier.name == "disk" and not key:
                stores.append(stack.enter_context(DiskStore.nameless(policy.writable_folder(), layout, tier.slots, policy.compression)))
            elif tier.name == "disk":
                path = policy.file(f"states-{key[:12]}-{number}")
                reopened = _reopened(path, layout, tier.slots, policy, key) if again else None
                stores.append(stack.enter_context(reopened or DiskStore(path, layout, tier.slots, policy.compression, key)))
            else:
                stores.append(stack.enter_context(HostStore(layout, tier.slots)))
        stack.pop_all()
    return stores


def _reopened(path: Path, layout: StateLayout, slots: int, policy: Policy, key: str) -> DiskStore | None:
    """The store that a killed run left at a path, if it is usable."""
    try:
        return DiskStore.reopen(path, layout, slots, key, policy.compression) if path.exists() else None
    except StorageError:
        return None  # the file has another number of slots, or is damaged: creating a new one raises if it cannot replace it


def stored_states(stores: Sequence[Store]) -> tuple[Kept, ...]:
    """The states in the stores of slow tiers."""
    return tuple(Kept(step, slot, tier) for tier, store in enumerate(stores, 1) for slot, step in store.kept().items())
