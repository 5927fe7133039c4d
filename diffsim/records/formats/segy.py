"""Records and sections in SEG-Y files.

A trace is a receiver's. Traces of one field record (bytes 9-12 of their headers) are a shot. Coordinates come from the headers, with their
scalars and units applied: x from GroupX, y from GroupY, z (downwards) from minus ReceiverGroupElevation. The place of a shot's source is
that of its first trace: x from SourceX, y from SourceY, z from SourceDepth minus SourceSurfaceElevation. Words that are 0 in every trace
say nothing. Traces that their headers call dead are gaps, and their headers say nothing about others. Numbers of either order of bytes
are read.

Reference: SEG Technical Standards Committee (2017), "SEG-Y_r2.0: SEG-Y revision 2.0 data exchange format", tables 2 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import path_shown, reason_shown
from diffsim.errors import DataError
from diffsim.records.conventions.dimensions import UP, by_name
from diffsim.records.conventions.places import in_unit, units_of
from diffsim.records.conventions.records import EVEN, Layout, Records, refuse
from diffsim.records.conventions.variables import Variable, require_room
from diffsim.records.formats.packages import package
from diffsim.typing import Array

FORMAT = slice(3224, 3226)
"""Bytes of the code of the samples' format, 1 to 16."""
KNOWN = (1, 2, 3, 5, 6, 8, 9, 10, 11, 12, 16)
"""Codes of formats that are read. 4 (fixed point with gain), 7 and 15 (3 bytes) are not."""
LENGTH_UNITS = {1: "m", 2: "ft"}
"""Measurement system of a file -> the unit of lengths."""
PLACE_UNITS = {2: "arcsecond", 3: "degree"}
"""Coordinate units of a trace (bytes 89-90) -> the unit of x and y; 1 is a length."""
SEXAGESIMAL = 4
"""Coordinate units for degrees, minutes and seconds as digits of one number."""
VALUE_UNITS = {1: "Pa", 2: "V", 3: "mV", 4: "A", 5: "m", 6: "m/s", 7: "m/s2", 8: "N", 9: "W"}
"""Code of the unit of a trace's values (bytes 203-204) -> the unit."""
SEGY_KEYS = ("values", "times", "receiver", "deviations", "weights", "stations", "order", "shape", "time_unit")
"""Parts of a layout that mean nothing in SEG-Y."""
DEAD = 2
"""Trace identification code (bytes 29-30 of a header) of a dead trace."""
AXES = {
    "x": ("SourceGroupScalar", {"GroupX": 1.0}),
    "y": ("SourceGroupScalar", {"GroupY": 1.0}),
    "z": ("ElevationScalar", {"ReceiverGroupElevation": -1.0}),
}
"""Axis -> the word of its scalar, and the header words of the receiver with their signs."""
SOURCES = {
    "x": ("SourceGroupScalar", {"SourceX": 1.0}),
    "y": ("SourceGroupScalar", {"SourceY": 1.0}),
    "z": ("ElevationScalar", {"SourceDepth": 1.0, "SourceSurfaceElevation": -1.0}),
}
"""The same of the source."""


def read_segy(path: Path, layout: Layout) -> tuple[Records, ...]:
    """The records of each field record of a SEG-Y file.

    Raises:
        DataError: the file cannot be read, or its headers contradict each other.
    """
    where = path_shown(path)
    with _opened(path) as file:
        refuse(layout, where, "a SEG-Y file", SEGY_KEYS)
        values, headers = _traces(file, where)
        fields = package("segyio", "SEG-Y files").TraceField
        shots = _header(headers, fields.FieldRecord)
        dead = _header(headers, fields.TraceIdentificationCode) == DEAD
        live = [header for header, gone in zip(headers, dead, strict=True) if not gone] or headers
        step, notes = _step(file, live, layout.dt, where)
        delays = _header(headers, fields.DelayRecordingTime) * 1e-3 * _scales(headers, fields, "ScalarTraceHeader")
        units = _place_units(file, live, fields, where)
        wanted = units_of(layout.axes, layout.coordinate_units)
        coordinates, sources = (_places(words, headers, dead, fields, layout.places, units, wanted, where) for words in (AXES, SOURCES))
        unit = layout.unit or _value_unit(live, fields, where)
    if step <= 0:
        raise DataError(f"{where}: expected the time between samples in its header, found {step:g} s; give dt")
    out = []
    for shot in dict.fromkeys(shots.tolist()):
        chosen = np.flatnonzero(shots == shot)
        here = where if (shots == shot).all() else f"{where}, field record {shot}"
        alive = chosen[~dead[chosen]] if not dead[chosen].all() else chosen
        if len(set(delays[alive])) > 1:
            raise DataError(f"{here}: expected one delay of recording for its traces, found several; shift the traces to one start")
        times = delays[alive[0]] + step * np.arange(len(values))
        _require_one_source(sources, alive, here)
        own = None if coordinates is None else np.nan_to_num(coordinates[chosen])
        names = tuple(map(str, range(len(chosen))))
        source = None if sources is None else sources[alive[0]]
        records = Records(values[:, chosen], times, names, own, unit, where=here, source=source, notes=notes)
        out.append(records.silenced(tuple(name for name, gone in zip(names, dead[chosen], strict=True) if gone)))
    return tuple(out)


def _require_one_source(sources: Array | None, traces: npt.NDArray[np.int64], where: str) -> None:
    """Refuse a field record whose traces have sources at several places."""
    if sources is not None and np.any(np.nan_to_num(sources[traces] - sources[traces[0]])):
        raise DataError(
            f"{where}: expected one place of the source for the traces of a field record, found several; number the field records in bytes "
            "9-12 of the headers, one for each shot"
        )


def _step(file: Any, headers: list[Any], dt: float | None, where: str) -> tuple[float, tuple[str, ...]]:
    """The time between samples, s, and a note if the user gives another one than the headers.

    Args:
        file: the file.
        headers: of the traces that count.
        given: by the user, in place of those of the headers; None: none.
        where: the file, for messages.

    Raises:
        DataError: the headers of the file and of its traces have different ones, and the user gives none.
    """
    segyio = package("segyio", "SEG-Y files")
    of_traces = set(_header(headers, segyio.TraceField.TRACE_SAMPLE_INTERVAL).tolist()) - {0}
    of_file = {int(file.bin[segyio.BinField.Interval])} - {0}
    steps = sorted(of_traces | of_file)
    if dt is not None:
        others = [1e-6 * step for step in steps if abs(1e-6 * step - dt) > EVEN * dt]
        listed = " and ".join(f"{1e3 * step:g} ms" for step in others)
        note = f"{where}: dt = {1e3 * dt:g} ms is taken, where the headers have {listed} between samples"
        return dt, (note,) if others else ()
    if len(steps) > 1:
        listed = " and ".join(f"{step / 1000:g} ms" for step in sorted(of_traces)) or "none"
        own = " and ".join(f"{step / 1000:g} ms" for step in of_file) or "none"
        raise DataError(
            f"{where}: expected one time between samples, found {own} in the header of the file and {listed} in those of its traces; give "
            "the right one by dt"
        )
    return next(iter(steps), 0) * 1e-6, ()


def _value_unit(headers: list[Any], fields: Any, where: str) -> str:
    """The unit of the values that the traces state; "": they state none."""
    codes = set(_header(headers, fields.TraceValueMeasurementUnit).tolist())
    if len(codes) > 1:
        named = " and ".join(VALUE_UNITS.get(code, f"code {code}") for code in sorted(codes))
        raise DataError(f"{where}: expected one unit for the values of all traces, found {named}; give unit")
    return VALUE_UNITS.get(codes.pop(), "")


def _place_units(file: Any, headers: list[Any], fields: Any, where: str) -> dict[str, str]:
    """The unit of coordinates in the headers along each axis; "": they do not say."""
    length = LENGTH_UNITS.get(int(file.bin[package("segyio", "SEG-Y files").BinField.MeasurementSystem]), "")
    codes = set(_header(headers, fields.CoordinateUnits).tolist()) - {0}
    if len(codes) > 1 or SEXAGESIMAL in codes:
        written = "degrees, minutes and seconds in one number" if codes == {SEXAGESIMAL} else f"the codes {sorted(codes)}"
        raise DataError(
            f"{where}: expected coordinates as lengths, seconds of arc or degrees (CoordinateUnits 1 to 3 in all traces), found {written}; "
            "convert them, or give the points of receivers in the scene"
        )
    across = PLACE_UNITS.get(next(iter(codes), 1), length)
    return {"x": across, "y": across, "z": length}


def read_section(path: Path) -> Array:
    """The samples of all traces, shape (samples, traces): a model down an axis and along another.

    Raises:
        DataError: the file cannot be read.
    """
    with _opened(path) as file:
        return _traces(file, path_shown(path))[0]


def _opened(path: Path) -> Any:
    segyio = package("segyio", "SEG-Y files")
    try:
        with path.open("rb") as file:
            head = file.read(FORMAT.stop + 1)
        code = head[FORMAT]
        little = not 1 <= int.from_bytes(code, "big") <= 16 and 1 <= int.from_bytes(code, "little") <= 16
        number = int.from_bytes(code, "little" if little else "big")
        if number in KNOWN or len(head) <= FORMAT.stop:
            return segyio.open(path, ignore_geometry=True, endian="little" if little else "big")
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        what = reason_shown(error)
        raise DataError(f"expected a SEG-Y file, found {path_shown(path)}, unreadable ({what}); write it again") from None
    raise DataError(  # segyio would take its samples for numbers in f32
        f"{path_shown(path)}: expected a SEG-Y file whose samples have a format code of {', '.join(map(str, KNOWN))}, found {number}; "
        "write it again with code 5 (IEEE, 4 bytes)"
    )


def _traces(file: Any, where: str) -> tuple[Array, list[Any]]:
    """Values, shape (samples, traces), and the headers."""
    try:
        require_room((len(file.samples), file.tracecount), where)
        values = np.asarray(file.trace.raw[:], float).T
        headers = [dict(header) for header in file.header]
    except (OSError, RuntimeError, ValueError, IndexError) as error:
        what = reason_shown(error)
        raise DataError(f"{where}: expected traces, found damage ({what}); copy the file again") from None
    return values, headers


def _header(headers: list[Any], word: Any) -> npt.NDArray[np.int64]:
    return np.array([int(header[word]) for header in headers], np.int64)


def _places(
    words: Mapping[str, tuple[str, Mapping[str, float]]],
    headers: list[Any],
    dead: npt.NDArray[np.bool_],
    fields: Any,
    axes: tuple[str, ...],
    units: dict[str, str],
    wanted: Sequence[str],
    where: str,
) -> Array | None:
    """Places of each trace in the wanted units, shape (traces, axes), NaN along axes whose words are zero in all traces that are not dead.

    None: the headers have none.
    """
    directions = [by_name(axis) for axis in axes]
    if not axes or any(direction not in words for direction in directions):
        return None
    columns = []
    for axis, direction, unit in zip(axes, directions, wanted, strict=True):
        scalar, signs = words[direction]
        raw = [_sign(axis) * sign * _header(headers, getattr(fields, word)) for word, sign in signs.items()]
        column = _scales(headers, fields, scalar) * sum(raw)
        stated = any(np.any(numbers[~dead]) for numbers in raw)
        place = f"{where}, {next(iter(signs))}"
        columns.append(in_unit(Variable(column, units[direction], ("",)), unit, place) if stated else np.full(len(headers), np.nan))
    places = np.stack(columns, axis=1)
    return places if np.isfinite(places).any() else None


def _sign(axis: str) -> float:
    """-1 for an axis of a grid that counts upwards, such as "height", since places along z are depths."""
    return -1.0 if axis.lower() in UP else 1.0


def _scales(headers: list[Any], fields: Any, scalar: str) -> Array:
    """The factor that a header's scalar stands for: a negative one divides, and 0 stands for 1."""
    scalars = _header(headers, getattr(fields, scalar)).astype(float)
    return np.where(scalars < 0, 1 / np.maximum(-scalars, 1), np.where(scalars > 0, scalars, 1.0))
