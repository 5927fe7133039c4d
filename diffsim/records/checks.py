"""Problems of records, one line for each trace: the file, the trace, a remedy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import plural
from diffsim.errors import DataError
from diffsim.mesh.angles import LONGITUDES
from diffsim.mesh.grid import Grid
from diffsim.records.conventions.fills import fill_shown, fill_value
from diffsim.records.conventions.places import TURN
from diffsim.records.conventions.records import MOST_PROBLEMS, Records
from diffsim.typing import Array

CLIPPED = 4
"""A trace is clipped if it stays at its greatest or least value for this many samples."""
SHORT, ZERO, CLIP, SOURCES, RECEIVERS, FILL, OUTSIDE = "short", "zero", "clipped", "sources", "receivers", "fill", "outside"
ALLOWED = (SHORT, ZERO, CLIP, SOURCES, RECEIVERS, FILL, OUTSIDE)
"""Mismatches that can be allowed: records that end before the run, traces of zeros or clipped ones, sources or receivers elsewhere, fill
values, and records of which the run takes a small part."""
DROP = "\0drop"
"""The place of a remedy that depends on the trace."""
SHARE = 0.9
"""The least share of the samples of a file that lies within the run."""


def require_sound(records: Records, end: float, allow: Collection[str] = (), spacing: float = 0.0) -> None:
    """Refuse records that cannot be compared with a run.

    Args:
        records: of one shot; time 0 is the start of the run.
        end: end of the run, s.
        allow: some of `ALLOWED`.
        spacing: records may end this many seconds before the run.

    Raises:
        DataError: with a line for each problem, at most `MOST_PROBLEMS` of them.
    """
    _refuse(list(problems(records, end, allow, spacing)))


def problems(records: Records, end: float, allow: Collection[str] = (), spacing: float = 0.0) -> Iterator[str]:
    """A line for each problem; see `require_sound`."""
    times = records.times
    last = float(times[np.isfinite(records.values).any(axis=1)][-1]) if np.isfinite(records.values).any() else float(times[-1])
    inside = (times >= 0) & (times <= end)
    if SHORT not in allow and last < end - max(spacing, _spacing(times)):
        yield (
            f"{records.where}: expected records up to the end of the run at {end:g} s, found their last sample at {last:g} s; run shorter, "
            f'correct start, or allow = ["{SHORT}"]'
        )
    live = [number for number, name in enumerate(records.names) if name not in records.dead]
    if not live:
        yield f"{records.where}: expected at least one trace that is not dead, found none; leave out the shot"
    alike: dict[str, list[int]] = {}
    for number in live:
        problem = _problem(records, number, inside, end, allow)
        if problem is not None:
            alike.setdefault(problem.replace(records.to_drop(number), DROP), []).append(number)
    lost = bool(alike)
    yield from (_of_traces(records, numbers, text, len(live)) for text, numbers in alike.items())
    inside_share = share_within(times, np.isfinite(records.values).sum(axis=1), end)
    if not lost and OUTSIDE not in allow and inside_share < SHARE:
        remedy = f'correct time_unit or start, run longer, or allow = ["{OUTSIDE}"]'
        if times[0] <= 0 and last >= end and np.count_nonzero(inside) > 1:
            remedy = f'if the records are longer than the run, allow = ["{OUTSIDE}"] takes their part; else correct time_unit or start'
        yield (
            f"{records.where}: expected most samples during the run (0 to {end:g} s), found {inside_share:.3g} of them there, and all from "
            f"{times[0]:g} to {times[-1]:g} s; {remedy}"
        )


def _of_traces(records: Records, numbers: list[int], text: str, count: int) -> str:
    """One line for all traces with the same problem."""
    if len(numbers) == 1:
        return f"{records.trace(numbers[0])}: {text.replace(DROP, records.to_drop(numbers[0]))}"
    which = f"all {count} traces" if len(numbers) == count else f"{len(numbers)} of {count} traces, {records.names_of(numbers)}"
    remedy = "correct the file" if len(numbers) == count else records.to_drop(*numbers)
    return f"{records.where}, {which}: {text.replace(DROP, remedy)}"


def share_within(times: Array, counts: npt.NDArray[np.integer], end: float) -> float:
    """The share of samples that lies between 0 and the end of a run.

    Args:
        times: s, shape (samples,).
        counts: number of samples, without gaps, at each of them.
        end: s.
    """
    inside = (times >= 0) & (times <= end)
    return float(counts[inside].sum()) / max(int(counts.sum()), 1)


def require_share(within: int, every: int, what: str, remedy: str) -> None:
    """Refuse numbers over time of which the run takes less than `SHARE`.

    Args:
        within: how many are within the run.
        every: their number.
        what: the numbers, such as "samples of the wavelet".
        remedy: for the message.
    """
    if within < SHARE * every:
        raise DataError(f'expected most {what} during the run, found {within} of {every}; {remedy}, or allow = ["{OUTSIDE}"]')


def _problem(records: Records, number: int, inside: np.ndarray, end: float, allow: Collection[str]) -> str | None:
    """The problem of one trace, or None."""
    values = records.values[:, number]
    there = np.isfinite(values)
    if np.isinf(values).any():
        k = int(np.flatnonzero(np.isinf(values))[0])
        return f"expected numbers, or gaps as NaN, found {values[k]} at {records.times[k]:g} s; write NaN where there is no sample"
    if not there.any():
        return f"expected samples, found gaps only; {records.to_drop(number)}"
    if not (there & inside).any():
        first, last = records.times[there][[0, -1]]
        return f"expected samples during the run (0 to {end:g} s), found them from {first:g} to {last:g} s; correct start or time_unit"
    if ZERO not in allow and not values[there].any():
        return f'expected a signal, found zeros only; {records.to_drop(number)}, or allow = ["{ZERO}"]'
    if CLIP not in allow and (limit := clipped_at(values[there])) is not None:
        return (
            f"expected a trace that is not clipped, found {CLIPPED} or more samples on end at {limit:g}; "
            f'{records.to_drop(number)}, or allow = ["{CLIP}"]'
        )
    for what, numbers, least in (("deviation", records.deviation, "above 0"), ("weight", records.weight, "of at least 0")):
        if numbers is not None:
            own = numbers[there, number]
            bad = ~np.isfinite(own) | ((own <= 0) if what == "deviation" else (own < 0))
            if bad.any():
                return f"expected a {what} {least} for each sample, found {own[bad][0]:g}; correct it"
    return None


def require_measured(records: Records, allow: Collection[str] = ()) -> None:
    """Refuse traces with fill values, such as -9999 where there is no sample.

    Args:
        records: of one shot, in the unit of the file.
        allow: some of `ALLOWED`.

    Raises:
        DataError: with a line for each such trace, at most `MOST_PROBLEMS` of them.
    """
    if FILL in allow:
        return
    lines = []
    for number, values in enumerate(records.values.T):
        fill = fill_value(values[np.isfinite(values)])
        if fill is not None:
            filled = np.flatnonzero(values == fill)
            lines.append(
                f"{records.trace(number)}: expected measured values, found {fill_shown(fill)} at {plural(len(filled), 'sample')} from "
                f"{records.times[filled[0]]:g} s on, which looks like a fill value; missing = {fill_shown(fill)} makes gaps of them, "
                f'allow = ["{FILL}"] takes them as they are'
            )
    _refuse(lines)


def clipped_at(values: Array) -> float | None:
    """The greatest or least value of a trace if it stays there, as an amplifier at its limit does; None: it does not.

    A trace that rests at 0, or never changes, is not clipped.
    """
    for limit in (values.max(), values.min()):
        if limit == 0 or (values == limit).all():
            continue
        run = longest = 0
        for at in values == limit:
            run = run + 1 if at else 0
            longest = max(longest, run)
        if longest >= CLIPPED:
            return float(limit)
    return None


def require_inside(records: Records, lower: Array, upper: Array, axes: tuple[str, ...]) -> None:
    """Refuse receivers outside of a grid.

    Args:
        records: with coordinates.
        lower: coordinates of the first cell centre.
        upper: coordinates of the last cell centre.
        axes: names of the axes.

    Raises:
        DataError: with a line for each such receiver, at most `MOST_PROBLEMS` of them.
    """
    assert records.coordinates is not None
    lines = []
    for number, place in enumerate(records.coordinates):
        for axis, x, low, high in zip(axes, place, lower, upper, strict=True):
            if not low <= x <= high:
                turned = axis.lower() in LONGITUDES and any(low <= x + turn <= high for turn in (TURN, -TURN))
                remedy = f"add or subtract {TURN:g} degrees in the grid or the file" if turned else "enlarge the grid"
                lines.append(
                    f"{records.trace(number)}: expected a receiver on the grid, {axis} from {low:g} to {high:g}, found {axis} = {x:g}; "
                    f"{remedy}, or {records.to_drop(number)}"
                )
                break
    _refuse(lines)


def require_sources(every: Sequence[Records], places: Array, grid: Grid, allow: Collection[str] = ()) -> None:
    """Refuse records whose files place a source further than a cell from that of the shot they are compared with.

    Args:
        every: records of each shot, in the order of the shots.
        places: of the shots' sources, shape (shots, axes).
        grid: its axes and cells.
        allow: some of `ALLOWED`.

    Raises:
        DataError: with a line for each such shot, at most `MOST_PROBLEMS` of them.
    """
    if SOURCES in allow:
        return
    lines = []
    for shot, (records, place) in enumerate(zip(every, places, strict=True)):
        if records.source is None:
            continue
        known = np.flatnonzero(np.isfinite(records.source))
        if np.any(np.abs(records.source - place)[known] > (1 + 1e-9) * np.array(grid.spacing)[known]):
            expected, source = (", ".join(f"{grid.axes[a]} = {at[a]:g}" for a in known) for at in (place, records.source))
            lines.append(
                f"{records.where}: expected the source of shot {shot} of the scene, {expected}, found {source} in the header; shots "
                f'pair by their order: reorder or correct the sources, or allow = ["{SOURCES}"]'
            )
    _refuse(lines)


def require_receivers(records: Records, points: Array, grid: Grid, allow: Collection[str] = ()) -> None:
    """Refuse records whose file places a receiver further than a cell from the point of the scene that it is compared with.

    Args:
        records: of one shot, with longitudes on the turn of the grid.
        points: of the receivers in the scene, shape (receivers, axes).
        grid: its axes and cells.
        allow: some of `ALLOWED`.

    Raises:
        DataError: with a line for each such receiver, at most `MOST_PROBLEMS` of them.
    """
    places = records.coordinates
    if RECEIVERS in allow or places is None or places.shape != points.shape:
        return
    known = np.flatnonzero(np.any(np.nan_to_num(places) != 0, axis=0))  # headers without a coordinate have zeros
    apart = np.abs(places - points)[:, known] > (1 + 1e-9) * np.array(grid.spacing)[known]
    lines = []
    for number in np.flatnonzero(apart.any(axis=1)):
        if records.names[number] in records.dead:
            continue
        expected, own = (", ".join(f"{grid.axes[a]} = {at[number][a]:g}" for a in known) for at in (points, places))
        lines.append(
            f"{records.trace(int(number))}: expected a receiver at point {number} of the scene, {expected}, found it at {own} in the file; "
            f'traces pair with points by their order: correct the points, leave them out, or allow = ["{RECEIVERS}"]'
        )
    _refuse(lines)


def _refuse(lines: list[str]) -> None:
    """Raise an error with the first of these lines, if there are any."""
    if lines:
        left = len(lines) - MOST_PROBLEMS
        raise DataError("\n".join(lines[:MOST_PROBLEMS] + [f"and {left} more"] * (left > 0)))


def _spacing(times: Array) -> float:
    """The largest distance of neighbouring samples, s."""
    return float(np.diff(times).max()) if len(times) > 1 else 0.0
