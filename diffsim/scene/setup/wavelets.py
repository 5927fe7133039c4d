"""Wavelets: values over time, from a formula or a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.interpolate import CubicSpline

from diffsim.errors import DataError, SceneError
from diffsim.records.checks import FILL, OUTSIDE, require_share
from diffsim.records.conventions.fills import fill_shown, fill_value
from diffsim.records.conventions.records import Layout, Records
from diffsim.records.formats.raw import count_in
from diffsim.records.read import RAW, read_records
from diffsim.scene.schema.parts import Packet, Pulse, Ricker, Sampled, Wavelet
from diffsim.scene.setup.place import Place
from diffsim.scene.setup.start_time import after_start
from diffsim.scene.words.domains import NUMBER
from diffsim.scene.words.rules import TIME
from diffsim.typing import Array


def wavelet(part: Wavelet, place: Place) -> Array:
    if TIME not in place.grid.axes:
        has = "a number" if place.grid.axes == (NUMBER,) else f"one over {' and '.join(place.grid.axes)}"
        raise SceneError(f"{place.key}: expected a value that varies with time, found {has}; give it another way")
    axis = place.axis(TIME)
    shape = [-1 if a == axis else 1 for a in range(place.grid.ndim)]
    values = wavelet_values(part, place.grid.coordinates(axis), place.key, place.unit)
    return np.broadcast_to(values.reshape(shape), place.grid.shape).copy()


def wavelet_values(part: Wavelet, times: Array, key: str, unit: str = "") -> Array:
    """A wavelet at times in seconds, in this unit if a file states another one.

    Raises:
        SceneError: a value that is not finite; names the key.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # values that are not finite are refused below
        if isinstance(part, Ricker):
            a = (np.pi * part.frequency * (times - peak_of(part))) ** 2
            values = part.amplitude * (1 - 2 * a) * np.exp(-a)
        elif isinstance(part, Sampled):
            values = part.amplitude * _of_file(part, times, key, unit)
        elif isinstance(part, Packet):
            late = times - peak_of(part)
            values = part.amplitude * np.cos(2 * np.pi * part.frequency * late) * np.exp(-0.5 * (late / part.width) ** 2)
        else:
            values = part.amplitude * np.exp(-0.5 * ((times - peak_of(part)) / part.width) ** 2)
    if not np.isfinite(values).all():
        raise SceneError(f"{key}: expected finite amplitudes at all times, found {values[~np.isfinite(values)][0]}; correct its numbers")
    return values


def peak_of(part: Ricker | Pulse | Packet) -> float:
    """The time of the peak of a wavelet by a formula, s."""
    if part.delay is not None:
        return part.delay
    return 1.2 / part.frequency if isinstance(part, Ricker) else 5 * part.width


def records_of_wavelet(part: Sampled) -> tuple[Records, ...]:
    """The records of the file of a wavelet.

    Raises:
        DataError: the file cannot be read.
    """
    path = Path(part.path)
    shape = (count_in(path),) if path.suffix.lower() in RAW and path.is_file() else None
    return read_records(
        path, Layout(values=part.values, times=part.times, dt=part.dt, unit=part.unit, time_unit=part.time_unit, shape=shape)
    )


def sampled(part: Sampled, key: str, unit: str = "") -> tuple[Array, Array]:
    """Times and amplitudes of a wavelet from a file, on the clock of the run.

    Raises:
        SceneError: the file has none, or several; names the key.
    """
    try:
        every = records_of_wavelet(part)
        traces = sum(records.values.shape[1] for records in every)
        record = every[0]
        if traces != 1 or len(record.values) < 2:
            samples = len(record.values)
            raise SceneError(
                f"{key}.path: expected one trace of two samples or more in {record.where}, found {traces} of {samples}; cut it"
            )
        if record.unit and not unit and part.unit is None:
            raise DataError(
                f"{record.where}: expected amplitudes in the unit of the source, which the equation does not state, found {record.unit}; "
                f'convert them by amplitude, and give unit = "{record.unit}"'
            )
        record = record.in_unit(unit) if record.unit and unit else record
        times = after_start(record, part.start)
    except DataError as error:
        raise SceneError(f"{key}.path: {error}") from None
    values = record.values[:, 0]
    if not np.isfinite(values).all():
        raise SceneError(f"{key}.path: expected finite numbers in {record.where}, found gaps; fill them")
    fill = None if FILL in part.allow else fill_value(values, repeated=False)
    if fill is not None:
        raise SceneError(
            f"{key}.path: expected amplitudes in {record.where}, found {fill_shown(fill)}, which looks like a fill value; fill it, or "
            f'allow = ["{FILL}"]'
        )
    return times, values


def _of_file(part: Sampled, times: Array, key: str, unit: str) -> Array:
    own, values = sampled(part, key, unit)
    if OUTSIDE not in part.allow:
        _require_within(own, values, times, part, key)
    inside = (times >= own[0]) & (times <= own[-1])
    return np.where(inside, CubicSpline(own, values)(np.clip(times, own[0], own[-1])), 0.0)


def _require_within(own: Array, values: Array, times: Array, part: Sampled, key: str) -> None:
    """Refuse a wavelet of which the run takes a part. Zeros at its ends do not count."""
    live = np.flatnonzero(values)
    if len(live) and len(times) > 1:
        step = float(times[1] - times[0])
        remedy = "correct dt, time_unit or start" if part.dt is not None else "correct time_unit or start"
        around = own[live[0] : live[-1] + 1]
        within = int(((around >= -step) & (around <= times[-1] + step)).sum())
        try:
            require_share(within, len(around), f"samples of the wavelet, which lasts {around[-1] - around[0]:g} s,", remedy)
        except DataError as error:
            raise SceneError(f"{key}: {error}") from None
