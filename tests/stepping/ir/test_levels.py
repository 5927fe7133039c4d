"""Pool levels: a state that is kept is never written over."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from diffsim.errors import ScheduleError
from diffsim.stepping.ir.levels import Ring
from tests.sampled import together

KINDS = [(1, True), (1, False), (2, True), (2, False), (3, True), (3, False)]


@together(itertools.product(KINDS, (1, 3, 5, 8, 9, 17, 40), ((True, False), (False, False), (False, True))), apart=True)
def test_a_long_advance_is_many_short_ones(kind: tuple[int, bool], steps: int, way: tuple[bool, bool]) -> None:
    """Also where no level is shared, whose long advance is in closed form, and the short ones are not."""
    (depth, in_place), (saved, apart) = kind, way
    long, short = Ring(depth, in_place, 4 * depth + 4), Ring(depth, in_place, 4 * depth + 4)
    if saved:
        long.save(0)
    short.save(0)
    if not saved:  # a slot that shares no level with the working state
        short.slots[0] = []
        for level in short.working:
            short._drop(level)
    table = long.advance(steps, apart)
    expected = [*short.working, *(short.advance(1, apart)[-1] for _ in range(steps))]
    assert list(table) == expected
    assert (long.working, long.users, sorted(long.free)) == (short.working, short.users, sorted(short.free))


@pytest.mark.parametrize(("depth", "in_place"), KINDS)
def test_saved_and_held_levels_are_left_alone(depth: int, in_place: bool) -> None:
    """Random walk over all calls, with the time that each level holds tracked beside it."""
    rng = np.random.default_rng(depth + 10 * in_place)
    ring = Ring(depth, in_place, 4 * depth + Ring.working_levels(depth, in_place) + 6)
    holds = dict(zip(ring.working, range(-depth + 1, 1), strict=True))
    now, kept = 0, {}
    for _ in range(400):
        match rng.integers(4):
            case 0:
                steps = int(rng.integers(1, 12))
                for entry, level in enumerate(ring.advance(steps)[depth:]):
                    holds[int(level)] = now + 1 + entry
                now += steps
            case 1 if len(kept) < 4:
                slot = next(s for s in range(4) if s not in kept)
                ring.save(slot)
                kept[slot] = now
            case 2 if kept:
                slot = int(rng.choice(list(kept)))
                ring.load(slot)
                now = kept[slot]
                if rng.random() < 0.6:
                    ring.release(slot)
                    del kept[slot]
            case 3:
                steps = int(rng.integers(1, 6))
                table = ring.hold(steps, now)
                for entry, level in enumerate(table[depth:]):
                    holds[int(level)] = now + 1 + entry
                now += steps
                assert [holds[int(level)] for level in ring.held_before(now, steps)] == list(range(now - 1, now - steps - depth, -1))
                ring.drop_newest()
        assert [holds[level] for level in ring.working] == list(range(now - depth + 1, now + 1))
        for slot, step in kept.items():
            assert [holds[level] for level in ring.slots[slot]] == list(range(step - depth + 1, step + 1))
    for slot in kept:
        ring.release(slot)
    assert len(ring.free) + depth == ring.capacity


@pytest.mark.parametrize(("depth", "in_place"), KINDS)
def test_a_run_may_be_held_in_free_slots_and_go_on(depth: int, in_place: bool) -> None:
    ring = Ring(depth, in_place, 3 * depth + Ring.working_levels(depth, in_place))
    ring.save(0)
    ring.advance(3)
    levels = {*ring.hold(2, 3).tolist()}
    assert ring.advance(1)[-1] not in levels


@pytest.mark.parametrize("depth", [1, 2])
def test_an_advance_may_leave_what_others_overwrite(depth: int) -> None:
    ring, plain = Ring(depth, True, 2 * depth + 1), Ring(depth, False, 2 * depth + 1)
    for each in (ring, plain):
        each.save(0)
    assert list(ring.advance(5, apart=True)) == list(plain.advance(5))
    table = ring.advance(3)
    assert len({*table.tolist()}) == depth


def test_more_states_than_announced_raise() -> None:
    ring = Ring(2, True, 4)
    ring.save(0)
    ring.advance(2)
    ring.save(1)
    with pytest.raises(ScheduleError, match="keeps more states than it announced"):
        ring.advance(1)
