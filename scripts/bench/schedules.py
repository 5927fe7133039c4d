"""Costs of iterating over schedules: microseconds an action, planning time, advances, and peak memory.

    python scripts/bench/schedules.py [--steps N] [--slots S]

Times are CPU time of this process. A target of 2 us an action holds for each; Binomial over 10^6 steps in 50 slots is to take 12 s at most.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

from diffsim.checkpoint import Advance, Binomial, Mixed, MultiTier, Online, Reversible, Spilling, Tier
from diffsim.checkpoint.schedules.gaps import reverse_gaps
from diffsim.checkpoint.schedules.splits import Kept

TRACED_STEPS = 50_000
"""Actions under tracemalloc, which slows them tenfold."""


def online_actions(slots: int, steps: int) -> Iterator[Any]:
    """Yield the actions of an online schedule whose run ends after `steps` steps."""
    reached = 0
    for action in Online(slots).online_actions(lambda: steps if reached >= steps else None):  # noqa: B023
        if type(action) is Advance:
            reached = max(reached, action.stop)
        yield action


def cases(steps: int, slots: int) -> dict[str, Callable[[], Iterator[Any]]]:
    """Return the function that makes each schedule, plans it and begins to iterate."""
    disk = Tier("disk", 1000, 5.0, 5.0)
    return {
        "Binomial": lambda: Binomial(steps, slots).actions(),
        "reverse_gaps": lambda: reverse_gaps([Kept(steps * n // slots, n) for n in range(slots)], steps, slots),
        "Online": lambda: online_actions(slots, steps),
        "MultiTier": lambda: MultiTier(steps, (Tier("ram", slots), disk)).actions(),
        "Spilling": lambda: Spilling(steps, slots, Tier("disk", steps, 30.0, 30.0)).actions(),
        "Mixed": lambda: Mixed(steps, slots).actions(),
        "Reversible": lambda: Reversible(steps).actions(),
    }


def measure(begin: Callable[[], Iterator[Any]]) -> tuple[float, float, int, int, float]:
    """Return seconds to the first action, seconds in all, actions, advances, and MB in use at most over the first actions."""
    started = time.process_time()
    actions = begin()
    first = next(actions)
    planned = time.process_time() - started
    count, advances = 1, first.stop - first.start if type(first) is Advance else 0
    for action in actions:
        count += 1
        if type(action) is Advance:
            advances += action.stop - action.start
    total = time.process_time() - started
    tracemalloc.start()
    for _, _ in zip(begin(), range(TRACED_STEPS), strict=False):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return planned, total, count, advances, peak / 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10**6)
    parser.add_argument("--slots", type=int, default=50)
    arguments = parser.parse_args()
    print(f"{arguments.steps} steps, {arguments.slots} slots")
    print(f"{'':14}{'plan s':>9}{'all s':>9}{'actions':>12}{'us each':>9}{'advances':>12}{'MB':>8}")
    for name, begin in cases(arguments.steps, arguments.slots).items():
        planned, total, count, advances, peak = measure(begin)
        each = (total - planned) / count * 1e6
        print(f"{name:14}{planned:9.3f}{total:9.2f}{count:12}{each:9.3f}{advances:12}{peak:8.2f}", flush=True)


if __name__ == "__main__":
    main()
