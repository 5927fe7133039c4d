"""Records out of named arrays: which dimension of the values is time, which is the receivers, which is the shots."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from diffsim.base.messages import name_shown, shown
from diffsim.base.quantities.meaning import POINTS, RUNS
from diffsim.base.quantities.named import is_times, unit_of_times
from diffsim.base.quantities.units import differences_in, factor
from diffsim.errors import DataError
from diffsim.records.conventions.clock import SINCE, WORDS, Clock, of_numbers
from diffsim.records.conventions.dimensions import FileDimension, along_axis, direction_of, listed_order
from diffsim.records.conventions.places import in_unit, units_of
from diffsim.records.conventions.records import Layout, Records, require_step
from diffsim.records.conventions.variables import Variable, Variables, in_scope, is_count, is_of_time, listed, pick, require_no_other_unit
from diffsim.typing import Array

SHOT, TIME, RECEIVER = ORDER = ("shot", "time", "receiver")
"""Dimensions of records, in their order."""
SHOTS = RUNS | {"shots", "source", "sources", "event", "events", "runs", "fire", "ffid", "field_record"}
RECEIVERS = (POINTS | {f"{word}s" for word in POINTS} | {"sta", "recv", "rec", "obs"}) - SHOTS
NAMES = frozenset({"name", "names", "id", "ids", "code", "codes", "label", "labels"})
"""Names of arrays of names of receivers, beside those in `RECEIVERS` and such as "station_name"."""
Roles = tuple[str, ...]
"""A dimension of records for each of an array; "": not known."""


@dataclass(frozen=True, eq=False)
class _Lengths:
    """Names and lengths that are known before the values are read.

    Attributes:
        time: the dimension of the times; "": the file has no name for it.
        samples: number of times; None: there are none.
        receiver: the dimension of coordinates of receivers; "": none.
        receivers: their number; None: there are none.
        order: as the user states it; None: not stated.
    """

    time: str
    samples: int | None
    receiver: str
    receivers: int | None
    order: Roles | None


def records_of(variables: Variables, layout: Layout) -> tuple[Records, ...]:
    """The records of each shot.

    The dimensions are known by their names, by the order that the layout states, and by the lengths of times and coordinates. Where they
    are not, they are (samples, receivers) or (shots, samples, receivers).
    """
    name = layout.values or "values"
    what = f"{variables.where}, {name_shown(name)}"
    traces = pick(variables, name, "values")
    if traces.values.ndim not in (1, 2, 3) or 0 in traces.values.shape:
        raise DataError(
            f"{what}: expected the axes (samples, receivers) or (shots, samples, receivers), found {traces.values.shape}; reshape it"
        )
    clock, time = _times(variables, layout)
    places, receiver = _coordinates(variables, layout)
    samples = None if clock is None else len(np.atleast_1d(clock.times))
    known_before = _Lengths(time, samples, receiver, None if places is None else len(places), layout.order)
    roles = _roles(variables, name, traces, known_before, what)
    values = _arranged(traces.values, roles)
    if clock is None:
        assert layout.dt is not None
        clock = Clock(layout.dt * np.arange(values.shape[1]))
        _require_no_others(variables, layout, values.shape[1])
    shots, samples, receivers = values.shape
    if samples != len(clock.times):
        raise DataError(
            f"{variables.where}: expected {len(clock.times)} samples, one for each time, found values of shape {traces.values.shape}, "
            "which should be (samples, receivers) or (shots, samples, receivers); state another order, or crop them"
        )
    require_no_other_unit(traces.typed, "unit", layout.unit, what)
    unit = traces.unit if layout.unit is None else layout.unit
    after = replace(known_before, samples=samples, receivers=receivers)
    names = _names(variables, name, layout.receiver, traces, roles, receivers)
    deviation = _spread(variables, layout.deviations, traces, roles, after, values.shape, unit)
    weight = _spread(variables, layout.weights, traces, roles, after, values.shape, None)
    return tuple(
        Records(
            values[shot],
            clock.times,
            names,
            places,
            unit,
            None if deviation is None else deviation[shot],
            None if weight is None else weight[shot],
            where=variables.where if shots == 1 else f"{variables.where}, shot {shot}",
            epoch=clock.epoch,
        )
        for shot in range(shots)
    )


def _names(variables: Variables, name: str, stated: str | None, values: Variable, roles: Roles, count: int) -> tuple[str, ...]:
    """Names of the receivers: texts of the file, one for each and none twice; else their numbers, from 0.

    Args:
        variables: of the file.
        name: of the values.
        stated: name of the array of names, as the user gives it; None: one that belongs to the values, or is named like one of names.
        values: the values.
        roles: of their dimensions.
        count: number of receivers.
    """
    axis = values.axes[roles.index(RECEIVER)] if RECEIVER in roles else ""
    likely = [
        *variables.belongings(name),
        *filter(None, [in_scope(variables.names, name, axis)]),
        *filter(is_name_of_receivers, variables.names),
    ]
    for each in likely if stated is None else [stated]:
        labels = variables.labels(each) if each in variables.names else None
        if labels is None or (axis and labels.axis not in ("", axis)):
            continue
        if len(labels.texts) == count == len(set(labels.texts) - {""}):
            return labels.texts
    if stated is not None:
        raise DataError(
            f"{variables.where}: expected {count} different texts, one for each receiver, in {name_shown(stated)}, found others; "
            f"name one of the variables {listed(variables.names)}, or leave out receiver"
        )
    return tuple(map(str, range(count)))


def is_name_of_receivers(name: str) -> bool:
    """True if an array is named like one of names of receivers, such as "station_name"."""
    first, _, last = name.rpartition("/")[2].lower().rpartition("_")
    return last in RECEIVERS | NAMES if not first else first in RECEIVERS and last in NAMES


def _times(variables: Variables, layout: Layout) -> tuple[Clock | None, str]:
    """Times, and the name of their axis; None where `dt` stands in for them."""
    group = (layout.values or "").rpartition("/")[0]
    near = [f"{group}/{word}" for word in WORDS[:2]] if group else []
    name = layout.times or next((name for name in (*near, *WORDS[:2]) if name in variables.names), None)
    if name is None and layout.dt is None:
        name = _times_by_what_they_hold(variables, layout.values or "values")
    if name is None:
        if layout.dt is None:
            raise DataError(
                f"{variables.where}: expected the times of the samples among its variables {listed(variables.names)}, found no times; "
                "name them, or give dt"
            )
        if layout.time_unit is not None:
            raise DataError(
                f"{variables.where}: expected no time_unit without times, found {shown(layout.time_unit)} beside dt, which is in s; drop it"
            )
        return None, ""
    times, what = pick(variables, name, "times"), f"{variables.where}, {name_shown(name)}"
    if times.values.ndim != 1:
        raise DataError(f"{what}: expected a list of times, found the shape {times.values.shape}; give one for each sample")
    axis = times.axes[0]
    clock = Clock(times.values, times.epoch)
    require_no_other_unit(times.typed, "time_unit", layout.time_unit, what, times.epoch is not None)
    if times.epoch is None:
        clock = of_numbers(times.values, times.unit, layout.time_unit, what, times.calendar, name.rpartition("/")[2])
    require_step(clock.times, layout.dt, what)
    return clock, axis


def _times_by_what_they_hold(variables: Variables, values: str) -> str | None:
    """The only array beside the values whose name means times, or that has dates or a unit of time; None: there is none.

    It is a list that rises, along a dimension of the values that is none of receivers or shots. Where dimensions have no names, a unit of
    time without a date is not enough, for delays of receivers have one.

    Raises:
        DataError: there are several.
    """
    traces = pick(variables, values, "values")
    group = values.rpartition("/")[0]
    out = []
    for name in variables.names:
        before, _, last = name.rpartition("/")
        if name == values or before not in ("", group) or not variables.may_be_list(name):
            continue
        try:
            times = variables.read(name)
        except DataError:  # texts
            continue
        if times.values.ndim != 1 or not (np.diff(times.values) > 0).all():
            continue
        axis = times.axes[0]
        along = axis in traces.axes and axis.lower() not in RECEIVERS | SHOTS if axis else len(times.values) in traces.values.shape
        named = last.lower() in WORDS[:2] or is_times(last)
        if along and (named or (is_of_time(times) and (axis or times.epoch is not None or SINCE in times.unit))):
            out.append(name)
    if len(out) > 1:
        raise DataError(f"{variables.where}: expected one array of times, found {' and '.join(map(name_shown, out))}; name one by times")
    return out[0] if out else None


def _require_no_others(variables: Variables, layout: Layout, samples: int) -> None:
    """Refuse a time between samples that contradicts the times of an array whose name means them, such as "t" or "Time", or that has
    dates, or a unit of time.

    An array of such a name is something else, such as temperatures, where it has other than one number for each sample, a unit that is none
    of time, or the numbers of the samples.
    """
    group = (layout.values or "").rpartition("/")[0]
    for name in variables.names:
        before, _, last = name.rpartition("/")
        usual = last == WORDS[2] or last.lower() in WORDS[:2]
        if before != group or name == layout.values or not variables.may_be_list(name):
            continue
        try:
            times = variables.read(name)
            if not (usual or is_times(last) or (times.values.ndim == 1 and is_of_time(times) and (np.diff(times.values) > 0).all())):
                continue
            unit = times.unit.partition(" since ")[0].strip()
            seconds = 1.0 if times.epoch is not None else factor(unit or unit_of_times(last), "s")
            clock = Clock(times.values * seconds, times.epoch)
        except DataError:  # texts, or another unit
            continue
        if times.values.shape == (samples,) and not (times.epoch is None and is_count(times)):
            where, short = f"{variables.where}, {name_shown(name)}", name_shown(name)
            remedy = f'give times = "{short}" in place of dt, or rename {short} if it has no times'
            require_step(clock.times, layout.dt, where, remedy)


def _coordinates(variables: Variables, layout: Layout) -> tuple[Array | None, str]:
    """Coordinates of the receivers in the unit of the layout, and the name of their dimension.

    They are an array for each axis, or one array `coordinates`.
    """
    axes, units = layout.axes, units_of(layout.axes, layout.coordinate_units)
    group = (layout.values or "").rpartition("/")[0]
    names = [f"{group}/{name}" if f"{group}/{name}" in variables.names else name for name in layout.places]
    if layout.coordinates and layout.stations is None:
        columns = [pick(variables, name, "coordinates") for name in names]
        shapes = [column.values.shape for column in columns]
        if any(len(shape) != 1 for shape in shapes) or len(set(shapes)) > 1:
            raise DataError(
                f"{variables.where}: expected a list of one number for each receiver under the names {', '.join(names)}, found the shapes "
                f"{', '.join(map(str, shapes))}; name others as coordinates"
            )
    if axes and all(name in variables.names for name in names):
        columns = [variables.read(name) for name in names]
        if any(column.values.ndim != 1 for column in columns) or len({len(column.values) for column in columns}) > 1:
            return None, ""  # coordinates of something else
        if len({column.axes for column in columns}) > 1:
            return None, ""
        numbers = [
            along_axis(FileDimension(name.rpartition("/")[2], column), axis, unit, f"{variables.where}, {name_shown(name)}")
            for column, axis, unit, name in zip(columns, axes, units, names, strict=True)
        ]
        return np.stack(numbers, axis=1), columns[0].axes[0]
    if "coordinates" not in variables.names:
        return None, ""
    places = variables.read("coordinates")
    if places.values.ndim != 2 or (axes and places.values.shape[1] != len(axes)):
        raise DataError(
            f"{variables.where}, coordinates: expected the shape (receivers, {len(axes) or 'axes'}), found {places.values.shape}; "
            "reshape them"
        )
    one = set(units).pop() if len(set(units)) == 1 else ""
    return in_unit(places, one, f"{variables.where}, coordinates"), places.axes[0]


def _roles(variables: Variables, name: str, variable: Variable, before: _Lengths, what: str) -> Roles:
    """The dimension of records that each dimension of the values is.

    Raises:
        DataError: several are possible, and the values differ between them.
    """
    named = [_named(variables, name, axis, before) for axis in variable.axes]
    for role in set(named) - {""}:
        if named.count(role) > 1:
            raise DataError(
                f"{what}: expected one dimension of each kind, found {' and '.join(variable.axes)}; rename one, or give their order"
            )
    if before.order is not None:
        _require_order(before.order, variable, what)
        for axis, own, stated in zip(variable.axes, named, before.order, strict=True):
            if own not in ("", stated):
                raise DataError(
                    f"{what}: expected the order of the file, where {name_shown(axis)} is the {own}, found the order "
                    f"{listed_order(before.order)}; drop the order, or correct it"
                )
        return before.order
    shape = variable.values.shape
    wanted = (TIME, RECEIVER) if len(shape) == 2 else ORDER if len(shape) == 3 else (TIME,)
    if len(shape) == 2 and SHOT in named:
        wanted = (SHOT, TIME) if RECEIVER not in named else (SHOT, RECEIVER)
    orders = [order for order in itertools.permutations(wanted) if all(own in ("", role) for own, role in zip(named, order, strict=True))]
    lengths = {TIME: before.samples, RECEIVER: before.receivers}
    fitting = [order for order in orders if all(lengths.get(role) in (None, n) for role, n in zip(order, shape, strict=True))]
    if not fitting:
        return orders[0] if orders else wanted  # a later check names the misfit
    first = fitting[0]
    alike = [order for order in fitting[1:] if _lengths(order, shape) == _lengths(first, shape)]
    for other in alike:  # nothing later would notice the wrong one
        if not np.array_equal(_arranged(variable.values, first), _arranged(variable.values, other), equal_nan=True):
            raise DataError(
                f"{what}: expected names of the dimensions of its numbers of shape {shape}, found none, and the orders "
                f"({', '.join(first)}) and ({', '.join(other)}) both fit; give the order of its axes, "
                f"{listed_order(first)} or {listed_order(other)}"
            )
    if first != wanted and len(fitting) > 1 + len(alike):
        raise DataError(
            f"{what}: expected the order {', '.join(wanted)} or names of its dimensions, found the shape {shape}; give the order of its "
            f"axes, {listed_order(first)} or {listed_order(fitting[-1])}"
        )
    return first


def _named(variables: Variables, name: str, axis: str, before: _Lengths) -> str:
    """The dimension of records that a dimension is by its name; "": it does not say."""
    if not axis:
        return ""
    small, own = axis.lower(), variables.along(name, axis)
    if axis == before.time or small in WORDS or small in ("sample", "samples") or (own is not None and direction_of(own) == "t"):
        return TIME
    if axis == before.receiver or small in RECEIVERS:
        return RECEIVER
    return SHOT if small in SHOTS else ""


def _require_order(order: Roles, variable: Variable, what: str) -> None:
    if sorted(order) not in (sorted(ORDER), sorted(ORDER[1:])):
        raise DataError(
            f"{what}: expected an order of {', '.join(ORDER)}, found {', '.join(order)}; name each once, shot only if there are some"
        )
    if variable.values.ndim != len(order):
        raise DataError(f"{what}: expected {len(order)} axes ({', '.join(order)}), found {variable.values.shape}; correct the order")


def _lengths(order: Roles, shape: Sequence[int]) -> dict[str, int]:
    return dict(zip(order, shape, strict=True))


def _arranged(values: Array, roles: Roles) -> Array:
    """Values with the axes (shots, samples, receivers), of length 1 where they have none."""
    present = [role for role in ORDER if role in roles]
    turned = np.transpose(values, [roles.index(role) for role in present])
    return turned[tuple(slice(None) if role in roles else None for role in ORDER)]


def _spread(
    variables: Variables, name: str | None, values: Variable, roles: Roles, known_now: _Lengths, shape: tuple[int, ...], unit: str | None
) -> Array | None:
    """Numbers that belong to the values, such as deviations, for each sample; None: there are none.

    Dimensions have the meaning that their names, or the same shape, have for the values. One number for each receiver is enough.

    Args:
        variables: of the file.
        name: of the numbers.
        values: the values.
        roles: of their dimensions.
        known_now: lengths of all dimensions.
        shape: of the values, (shots, samples, receivers).
        unit: to convert the numbers to, as differences; None: they are pure numbers.
    """
    if name is None:
        return None
    variable, what = pick(variables, name, "weights" if unit is None else "deviations"), f"{variables.where}, {name_shown(name)}"
    numbers = variable.values
    if unit is not None:
        numbers = differences_in(unit, numbers, variable.unit, what)
    named = dict(zip(values.axes, roles, strict=True))
    own = tuple(named.get(axis, "") or _named(variables, name, axis, known_now) if axis else "" for axis in variable.axes)
    if "" in own or len(set(own)) < len(own):
        if numbers.shape == values.values.shape:
            own = roles
        elif numbers.ndim < 2:
            own = (RECEIVER,) * numbers.ndim
        elif numbers.ndim == 2:
            own = tuple(role for role in roles if role != SHOT)
        else:
            own = ORDER
    try:
        return np.broadcast_to(_arranged(numbers, own) if numbers.ndim else numbers, shape)
    except (ValueError, IndexError):
        raise DataError(
            f"{what}: expected one number for each receiver or sample of the shape {shape}, found {variable.values.shape}; reshape it"
        ) from None
