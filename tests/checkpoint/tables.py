"""Optima by dynamic programming, straight from their definitions, for comparison with closed forms and schedules."""

from __future__ import annotations

import functools


@functools.cache
def splits_table(most_steps, most_slots):
    """(steps, slots) -> fewest advances that reverse a segment from its first state, the state kept in one of the slots."""
    table = {}
    for slots in range(1, most_slots + 1):
        table[1, slots] = 0
        for steps in range(2, most_steps + 1):
            right = [k for k in range(1, steps) if slots > 1 or k == steps - 1]  # without a slot, only a single step on the right
            table[steps, slots] = min(k + table[k, slots] + (table[steps - k, slots - 1] if slots > 1 else 0) for k in right)
    return table


@functools.cache
def gaps_table(most_steps, most_slots):
    """(steps, slots) -> fewest advances that reverse a run which has ended, from any choice of at most that many kept states."""
    best = splits_table(most_steps, most_slots)
    table = {}
    for slots in range(1, most_slots + 1):
        for steps in range(1, most_steps + 1):
            choices = [best[steps, slots]]
            if slots > 1:
                choices += [best[k, slots] + table[steps - k, slots - 1] for k in range(1, steps)]
            table[steps, slots] = min(choices)
    return table
