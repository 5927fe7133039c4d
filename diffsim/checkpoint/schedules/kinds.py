"""The kinds of schedule that have a name. Only this table lists the names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from diffsim.checkpoint.planning.request import Request
from diffsim.checkpoint.schedule import AnySchedule
from diffsim.checkpoint.schedules.binomial import Binomial
from diffsim.checkpoint.schedules.mixed import Mixed
from diffsim.checkpoint.schedules.multi_tier import MultiTier
from diffsim.checkpoint.schedules.online import Online
from diffsim.checkpoint.schedules.reversible import Reversible
from diffsim.checkpoint.schedules.spilling import Spilling
from diffsim.checkpoint.schedules.store_all import StoreAll

AUTO = "auto"
"""The name that requests the fastest kind within the memory."""


class Kind(Protocol):
    """A class of schedules that can be made for a request."""

    takes_slots: bool
    needs_slow_tiers: bool
    runs_backwards: bool
    online: bool

    def fitted(self, request: Request) -> AnySchedule | int:
        """The best schedule of this kind within the memory, or the least memory that it needs.

        Raises:
            PlanError: no memory is enough.
        """


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "store_all": StoreAll,
        "binomial": Binomial,
        "online": Online,
        "multi_tier": MultiTier,
        "spilling": Spilling,
        "mixed": Mixed,
        "reversible": Reversible,
    }
)
"""The class of each name that `schedule=` of a `Policy` may be.

Example:
    from diffsim.checkpoint import KINDS, Binomial, Policy

    assert KINDS["binomial"] is Binomial
    policies = [Policy(slots=8, schedule=name) for name, kind in KINDS.items() if kind.takes_slots and not kind.needs_slow_tiers]
    assert len(policies) >= 2
"""
NAMES = (AUTO, *KINDS)
"""The names that `schedule=` accepts."""
