"""Storage for the slow tiers of a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

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
    state: Callable[[], Sequence[npt.NDArray]],
    policy: Policy,
    key: str = "",
    again: bool = False,
) -> list[Store]:
    """A store for each tier of a schedule after the first; tiers named "disk" are files, the others in host memory.

    Args:
        schedule: whose tiers.
        state: gives the arrays of a state.
        policy: says where files go, and how they are compressed.
        key: what tells this run from others, so that it finds its own file again after a crash; "": it will not look for one, and its
            files have no names.
        again: take files that a run of this key left as they are, with the states that are whole.

    Raises:
        StorageError: a file cannot be made, or is not what it should be.
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
                found = _found(path, layout, tier.slots, policy, key) if again else None
                stores.append(stack.enter_context(found or DiskStore(path, layout, tier.slots, policy.compression, key)))
            else:
                stores.append(stack.enter_context(HostStore(layout, tier.slots)))
        stack.pop_all()
    return stores


def _found(path: Path, layout: StateLayout, slots: int, policy: Policy, key: str) -> DiskStore | None:
    """What a killed run left at a path, if it is of use."""
    try:
        return DiskStore.reopen(path, layout, slots, key, policy.compression) if path.exists() else None
    except StorageError:
        return None  # of another number of slots, or damaged: a new file tells if it cannot take its place


def found_states(stores: Sequence[Store]) -> tuple[Kept, ...]:
    """What the stores of slow tiers hold."""
    return tuple(Kept(step, slot, tier) for tier, store in enumerate(stores, 1) for slot, step in store.kept().items())
