"""Numbers that stand where a file has none, such as -9999, though nothing in the file says so."""

from __future__ import annotations

import numpy as np

from diffsim.typing import Array

SIZES = (
    *(99.99, 999.0, 999.25, 999.9, 999.99, 9999.0, 9999.9, 9999.99, 99999.0, 999999.0),
    *(32767.0, 32768.0, 65535.0, 2147483647.0, 2147483648.0, 9.99e8),
    *(1e20, 9.999e20, 1e30, 9.99e33, 1e35, 1e36, 9.96921e36, 1.70141e38, 3.4028235e38),
)
"""Sizes of numbers that files have where there is no number, of either sign."""
USUAL = np.unique([-99.0, -99.9, *(sign * size for size in SIZES for sign in (-1.0, 1.0))])
"""The usual fill values, rising."""
NINES = np.array([sign * size for size in (9.9, 9.99, 9.999, 9.9999, 99.0, 99.9, 99.999, 999.999) for sign in (-1.0, 1.0)])
"""Fill values of narrow columns, of either sign. As measured numbers are of these sizes, they count where they are repeated."""
ALIKE = 1e-6
"""Relative difference within which a number is a given one, since files keep numbers in f32."""
FAR, USUAL_FAR = 100.0, 2.0
"""A repeated number is a fill value from the first multiple of the largest other number on, a usual one from the second."""
MEASURED = 9999.0
"""A positive number below this one, such as a density of 999, is a fill value only if it is `USUAL_FAR` times as large as all others."""
DISTINCT = 10
"""With fewer different numbers beside it, nothing says how far these lie from each other."""
NEAR = 0.01
"""Numbers are near another one within this part of the range of all others."""
OFTEN = 4
"""A number occurs often from this count on."""


def fill_value(values: Array, repeated: bool = True) -> float | None:
    """A number that stands for a missing one; None: all are measured.

    It is one of `USUAL` that is twice as large as all others, or lies further from them than they lie from each other, or lies between
    them and occurs more often than all others near it. A measured number does so by chance with a very small probability. It may be one of
    `NINES` that is repeated and lies beyond all others, further from them than they lie from each other. If `repeated`,
    it may also be any number that is repeated exactly and 100 times as large as all others.

    Args:
        values: finite numbers.
        repeated: as above.
    """
    if not len(values):
        return None
    rising = np.sort(values, axis=None)
    room = ALIKE * np.abs(USUAL)
    begins, ends = np.searchsorted(rising, USUAL - room, "left"), np.searchsorted(rising, USUAL + room, "right")
    usual = [(int(begin), int(end)) for begin, end in zip(begins, ends, strict=True) if end > begin]
    largest = float(rising[0] if abs(rising[0]) > abs(rising[-1]) else rising[-1])
    begin, end = int(np.searchsorted(rising, largest, "left")), int(np.searchsorted(rising, largest, "right"))
    rest = max((abs(float(side[k])) for side in (rising[:begin], rising[end:]) if len(side) for k in (0, -1)), default=0.0)
    if any(first <= begin < last for first, last in usual) and (abs(largest) >= USUAL_FAR * rest and largest):
        return largest
    if repeated and rest and end - begin > 1 and abs(largest) >= FAR * rest:
        return largest
    nines = np.isclose(largest, NINES, rtol=ALIKE, atol=0.0).any() and end - begin > 1
    if nines and _is_apart(rising, begin, end, rest if repeated else 0.0):
        return largest
    return next((float(rising[first]) for first, last in usual if _stands_out(rising, first, last)), None)


def _is_apart(rising: Array, first: int, last: int, rest: float) -> bool:
    """True if the largest number lies further from the others than they lie from each other; of few others, if it is `USUAL_FAR` times as
    large.

    Args:
        rising: all numbers.
        first: where the largest begins among them.
        last: where it ends.
        rest: size of the largest of the others; 0: few others say nothing.
    """
    others = rising[:first] if rising[first] > 0 else rising[last:]
    if not len(others) or len(others) != len(rising) - (last - first):
        return False  # as large of the other sign
    steps = np.diff(others)
    if np.count_nonzero(steps) < DISTINCT:
        return bool(rest and abs(rising[first]) >= USUAL_FAR * rest)
    gap = rising[first] - others[-1] if rising[first] > 0 else others[0] - rising[first]
    return bool(gap > steps.max())


def _stands_out(rising: Array, first: int, last: int) -> bool:
    """True if a usual fill value lies apart from the other numbers, or among them and occurs too often.

    Args:
        rising: all numbers.
        first: where it begins among them.
        last: where it ends.
    """
    below, above = rising[:first], rising[last:]
    steps = np.concatenate([np.diff(below), np.diff(above)])
    if 0 < rising[first] < MEASURED or np.count_nonzero(steps) < DISTINCT:
        return False
    if not len(above):
        return bool(rising[first] - below[-1] > steps.max())
    if not len(below):
        return bool(above[0] - rising[last - 1] > steps.max())
    reach = NEAR * (above[-1] - below[0])
    near = np.searchsorted(rising, rising[last - 1] + reach, "right") - np.searchsorted(rising, rising[first] - reach, "left")
    return last - first >= OFTEN and 2 * (last - first) > int(near)


def fill_shown(fill: float) -> str:
    """A fill value for a message, with few digits and yet so many that `missing` finds it."""
    texts = (f"{fill:.{digits}g}" for digits in range(6, 17))
    return next((text for text in texts if abs(float(text) - fill) <= 0.5 * ALIKE * abs(fill)), f"{fill!r}")
