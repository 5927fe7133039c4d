"""Map times to pool levels, so that saving and loading a state moves no data.

A ring is the storage of one state and of its earlier values. Its levels are used in turns while the working state
advances. If a slot or an adjoint still needs a level, that level is skipped and another one is used. So a checkpoint is
a list of level numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from diffsim.errors import ScheduleError
from diffsim.typing import IntArray


class RingState(NamedTuple):
    """The levels of a ring in which no slot is in use: those of the working state, held ones, free ones."""

    users: list[int]
    free: list[int]
    held: list[tuple[int, list[int]]]
    working: list[int]


class Ring:
    """Levels of one state.

    Args:
        depth: number of time levels in the state.
        in_place: whether a step may overwrite the oldest of them.
        capacity: number of levels in the pool.
    """

    def __init__(self, depth: int, in_place: bool, capacity: int) -> None:
        self.depth = depth
        self.in_place = in_place
        self.capacity = capacity
        self._order = list(range(capacity))[::-1]  # of free levels, the next one last
        self.clear()

    @staticmethod
    def period(depth: int, in_place: bool) -> int:
        """Levels that a long advance uses in turns."""
        return depth if in_place and depth else depth + 1

    @staticmethod
    def working_levels(depth: int, in_place: bool) -> int:
        """Levels that advancing needs in addition to the kept ones. The end of a held advance stays while the working state goes on from
        there; if a state is one level, that takes another one."""
        return max(Ring.period(depth, in_place), min(depth, 1) + 1)

    def clear(self) -> None:
        """Free every state. The working state gets the first levels, oldest first."""
        depth, others = self.depth, self.capacity - self.depth
        self.users = [1] * depth + [0] * others
        self.free = self._order[:others]
        self.slots: dict[int, list[int]] = {}
        self.held: list[tuple[int, list[int]]] = []  # first step and levels of each advance that is held, the newest last
        self.working: list[int] = [*range(depth)]

    def present(self) -> RingState:
        """A copy of what it holds while no slot is in use, for `restore`."""
        assert not self.slots
        return RingState([*self.users], [*self.free], [*self.held], [*self.working])

    def restore(self, state: RingState) -> None:
        """Hold again what `present` returned, while no slot is in use."""
        assert not self.slots
        users, free, held, working = state
        self.users, self.free, self.held, self.working = [*users], [*free], [*held], [*working]

    def _take(self) -> int:
        if not self.free:
            return self._take_all(1)[0]  # which raises
        level = self.free.pop()
        self.users[level] = 1
        return level

    def _take_all(self, count: int) -> list[int]:
        """Levels that nobody uses, for one user each."""
        if count > len(self.free):
            raise ScheduleError(
                f"no free level among {self.capacity}: the schedule keeps more states than it announced in `slots` and `recorded`"
            )
        start = len(self.free) - count
        levels = self.free[start:][::-1]
        del self.free[start:]
        for level in levels:
            self.users[level] = 1
        return levels

    def _drop(self, level: int) -> None:
        self.users[level] -= 1
        if not self.users[level]:
            self.free.append(level)

    def _next(self, in_place: bool) -> int:
        """Level of the next time. The working window moves by one."""
        oldest = self.working[0]
        if in_place and self.users[oldest] == 1:
            level = oldest
        else:
            level = self._take()
            self._drop(oldest)
        self.working = [*self.working[1:], level]
        return level

    def advance(self, steps: int, apart: bool = False) -> IntArray:
        """Level table of an advance, of length steps + depth. Entry e belongs to time (now - depth + 1 + e).

        `apart`: whether no step overwrites the state before it, though other programs may.
        """
        in_place = self.in_place and not apart
        if not (self.slots or self.held):  # each level has one user, so they are taken in turns from the first step on
            turns = self.working if in_place else [*self.working, self._take()]
            levels = (turns * (1 + (steps + self.depth) // len(turns)))[: steps + self.depth]
            self._settle(turns, levels[steps:])
            return np.array(levels, np.int32)
        levels = list(self.working)
        settled = min(steps, 2 * self.depth + 2)  # by then no level of the window belongs to a slot
        levels += [self._next(in_place) for _ in range(settled)]
        if steps > settled:  # from here on the levels repeat
            cycle = levels[-Ring.period(self.depth, in_place) :]
            laps, rest = divmod(steps - settled, len(cycle))
            levels += cycle * laps + cycle[:rest]
            self._settle(cycle, levels[-self.depth :])
        return np.array(levels, np.int32)

    def _settle(self, cycle: list[int], window: list[int]) -> None:
        """Keep the levels of `window` as the working state, and free the other levels of `cycle`."""
        self.working = window
        for level in cycle:
            if level not in window and self.users[level]:
                self._drop(level)
            elif level in window and not self.users[level]:
                self.free.remove(level)
                self.users[level] = 1

    def hold(self, steps: int, start: int) -> IntArray:
        """Level table of an advance from step `start` that keeps every state until it is dropped."""
        levels = [*self.working, *self._take_all(steps)]
        self.working = levels[steps:]
        for level in self.working:  # all levels are held, and these are the working state too
            self.users[level] += 1
        self.held.append((start, levels))
        return np.array(levels, np.int32)

    def held_before(self, stop: int, steps: int) -> IntArray:
        """Levels of times stop - 1, stop - 2, ... of the newest held advance, which the adjoints of `steps` steps read."""
        start, levels = self.held[-1]
        last = stop - 1 - start + self.depth - 1
        first = last - steps - self.depth + 2
        return np.array(levels[first : last + 1][::-1], np.int32)

    def release_end(self) -> None:
        """Free the end of the newest held advance for the working state, which goes on from there: no adjoint of its steps reads it."""
        if self.held and self.held[-1][1][-1:] == self.working[-1:]:
            self._drop(self.held[-1][1].pop())

    def drop_newest(self) -> None:
        """Free the newest held advance."""
        users, levels = self.users, self.held.pop()[1]
        self.free += [level for level in levels if users[level] == 1]
        for level in levels:
            users[level] -= 1

    def renew(self) -> list[int]:
        """Unshared levels for the working state before it is written, oldest first."""
        for level in self.working:
            self._drop(level)
        self.working = [self._take() for _ in range(self.depth)]
        return self.working

    def save(self, slot: int) -> None:
        self.slots[slot] = list(self.working)
        for level in self.working:
            self.users[level] += 1

    def load(self, slot: int) -> None:
        kept = self.slots[slot]
        for level in kept:
            self.users[level] += 1
        for level in self.working:
            self._drop(level)
        self.working = list(kept)

    def fork(self, slot: int) -> list[int]:
        """Levels for another state in `slot` before it is written, oldest first."""
        self.slots[slot] = [self._take() for _ in range(self.depth)]
        return self.slots[slot]

    def exchange(self, slot: int) -> None:
        """Swap the working state and the state in `slot`."""
        self.working, self.slots[slot] = self.slots[slot], self.working

    def release(self, slot: int) -> None:
        for level in self.slots.pop(slot):
            self._drop(level)


class ResidualLevels:
    """The levels of the residuals of recorded steps. What is recorded last is reversed first, so the levels form a stack.

    Args:
        capacity: levels.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._ends = [0]  # end of the levels of each recorded advance, the newest last

    def hold(self, steps: int) -> IntArray:
        """Levels for the residuals of `steps` steps."""
        begin = self._ends[-1]
        if begin + steps > self.capacity:
            raise ScheduleError(f"no free level among {self.capacity}: the schedule records more steps than it announced in `recorded`")
        self._ends.append(begin + steps)
        return np.arange(begin, begin + steps, dtype=np.int32)

    def held_before(self, last: int, steps: int) -> IntArray:
        """Levels of `steps` steps of the newest held advance, in descending order from its step number `last` - 1."""
        end = self._ends[-2] + last
        return np.arange(end - 1, end - steps - 1, -1, dtype=np.int32)

    def drop_newest(self) -> None:
        """Free the levels of the newest held advance."""
        self._ends.pop()
