"""Numbers that must rise, such as times: which of them do not, and what is to be done about them."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

import numpy as np

from diffsim.base.arguments import plural
from diffsim.errors import DataError
from diffsim.typing import Array, IntArray

FEW = 0.1
"""Share of numbers up to which those out of order are wrong ones among others that rise; at least one."""

DIGITS = (6, 9, 12, 17)
"""Digits of numbers in messages: as many as tell them apart."""


def require_rising(values: Array, where: str, what: str = "times", entry: str = "sample", backwards: bool = False) -> None:
    """Refuse times, or other numbers along an axis, that are not finite or do not rise.

    Args:
        values: the numbers.
        where: the file, for the message.
        what: the numbers, for the message.
        entry: one of them.
        backwards: whether the file has them in the reverse order, in which the message counts.

    Raises:
        DataError: with the first number that is wrong, and a remedy that helps: wrong numbers are corrected, those that occur twice
            deleted, a clock that starts again is cut, and what is in no order is sorted.
    """
    if values.ndim != 1 or not len(values):
        raise DataError(f"{where}: expected a list of {what}, found the shape {values.shape}; give one for each {entry}")
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        more, at = _in_all(len(bad), entry), len(values) - 1 - bad[-1] if backwards else bad[0]
        raise DataError(f"{where}: expected finite {what}, found {values[bad[-backwards]]} at {entry} {at}{more}; correct it")
    falls = np.flatnonzero(np.diff(values) <= 0)
    if len(falls):
        raise DataError(f"{where}: expected {what} that {'fall' if backwards else 'rise'}, {_why(values, falls, entry, backwards)}")


def _why(values: Array, falls: IntArray, entry: str, backwards: bool) -> str:
    """The finding, and its remedy.

    Args:
        values: finite numbers.
        falls: entries after which these do not rise.
        entry: one of them.
        backwards: whether the file has them in the reverse order.
    """
    k, steps = int(falls[0]), np.diff(values)
    last = len(values) - 1
    first = last - k - 1 if backwards else k  # of the two entries in the file
    before, after = _apart(values[k], values[k + 1])[:: -1 if backwards else 1]
    if not steps[falls].any():
        more = f" ({len(falls)} such pairs in all)" if len(falls) > 1 else ""
        return f"found {before} at the {entry}s {first} and {first + 1}{more}; delete one of each pair"
    wrong, few = out_of_order(values), max(1, FEW * len(values)) if len(values) > 2 else 0
    if len(out_of_order(-values)) <= few < len(wrong):
        return f"found the other way, {before} and then {after} at {entry} {first + 1}; reverse them, with what belongs to them"
    if len(wrong) <= few:
        w = int(wrong[0])
        at = last - w if backwards else w
        return (
            f"found {_beside(values, wrong, w, backwards)} at {entry} {at}{_in_all(len(wrong), entry)}; correct it, or delete the {entry}"
        )
    parts = np.split(values, falls + 1)
    if len(parts) <= max(2, FEW * len(values)) and _overlap(parts):
        return (
            f"found {before} and then {after} at {entry} {first + 1}, where they start again (there are {len(parts)} such parts); cut the "
            "file there, or shift what follows"
        )
    remedy = "delete one of them" if values[k] == values[k + 1] else "sort them, with what belongs to them"
    return f"found {before} and then {after} at {entry} {first + 1}; {remedy}"


def out_of_order(values: Array) -> IntArray:
    """The fewest entries without which all others rise.

    They are those outside of a longest rising subsequence (Fredman 1975, doi:10.1016/0012-365X(75)90103-X), found with n log n comparisons.
    """
    tops: list[float] = []  # least last value of a rising subsequence of each length
    ends: list[int] = []  # the entry of this value
    before = np.full(len(values), -1)
    for k, value in enumerate(values.tolist()):
        length = bisect_left(tops, value)
        before[k] = ends[length - 1] if length else -1
        if length == len(tops):
            tops.append(value)
            ends.append(k)
        else:
            tops[length], ends[length] = value, k
    kept = np.zeros(len(values), bool)
    k = ends[-1]
    while k >= 0:
        kept[k] = True
        k = int(before[k])
    return np.flatnonzero(~kept)


def _beside(values: Array, wrong: IntArray, w: int, backwards: bool) -> str:
    """A wrong number, and the right ones on both sides of it, with as many digits as tell it apart."""
    right = np.setdiff1d(np.arange(len(values)), wrong)
    sides = {"after": right[right < w][-1:], "before": right[right > w][:1]}
    if backwards:
        sides = {"after": sides["before"], "before": sides["after"]}
    numbers = [values[w], *(values[side[0]] for side in sides.values() if len(side))]
    digits = next(d for d in DIGITS if d == DIGITS[-1] or len({f"{number:.{d}g}" for number in numbers}) == len(numbers))
    return f"{values[w]:.{digits}g} {' and '.join(f'{word} {values[side[0]]:.{digits}g}' for word, side in sides.items() if len(side))}"


def _overlap(parts: list[Array]) -> bool:
    """True if two parts that rise share a range of numbers, so that they cannot follow one another in any order."""
    spans = sorted((float(part[0]), float(part[-1])) for part in parts)
    return any(later[0] <= earlier[1] for earlier, later in pairwise(spans))


def _apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers with as many digits as tell them apart."""
    for digits in DIGITS:
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if one == other or texts[0] != texts[1]:
            break
    return texts


def _in_all(count: int, entry: str) -> str:
    return f" ({plural(count, entry)} in all)" if count > 1 else ""
