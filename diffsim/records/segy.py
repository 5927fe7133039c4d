"""Records and sections in SEG-Y files.

A trace is a receiver's. Traces of one field record (bytes 9-12 of their headers) are a shot. Coordinates come from the headers, with their
scalars applied: x from GroupX, y from GroupY, z (downwards) from minus ReceiverGroupElevation. The place of a shot's source is that of its
first trace: x from SourceX, y from SourceY, z from SourceDepth minus SourceSurfaceElevation. Words that are 0 in every trace say nothing.
Traces that their headers call dead are gaps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.errors import DataError
from diffsim.messages import cut, path_shown, printable
from diffsim.records.packages import package
from diffsim.records.records import Layout, Records
from diffsim.records.variables import require_room
from diffsim.typing import Array

DEAD = 2
"""Trace identification code (bytes 29-30 of a header) of a dead trace."""
AXES = {"x": ("GroupX", "SourceGroupScalar", 1.0), "y": ("GroupY", "SourceGroupScalar", 1.0)}
AXES["z"] = ("ReceiverGroupElevation", "ElevationScalar", -1.0)
"""Axis -> its header word, the word of its scalar, and its sign."""
SOURCES = {
    "x": ("SourceGroupScalar", {"SourceX": 1.0}),
    "y": ("SourceGroupScalar", {"SourceY": 1.0}),
    "z": ("ElevationScalar", {"SourceDepth": 1.0, "SourceSurfaceElevation": -1.0}),
}
"""Axis -> the word of its scalar, and the header words of the source with their signs."""


def read_segy(path: Path, layout: Layout) -> tuple[Records, ...]:
    """The records of each field record of a SEG-Y file.

    Raises:
        DataError: the file cannot be read.
    """
    where = path_shown(path)
    with _opened(path) as file:
        values, step, headers = _traces(file, where)
        fields = package("segyio", "SEG-Y files").TraceField
        shots = _header(headers, fields.FieldRecord)
        delays = _header(headers, fields.DelayRecordingTime) * 1e-3
        coordinates = _coordinates(headers, fields, layout.axes)
        dead = _header(headers, fields.TraceIdentificationCode) == DEAD
        sources = _sources(headers, fields, layout.axes)
    step = layout.dt or step
    if step <= 0:
        raise DataError(f"{where}: expected the time between samples in its header, found {step:g} s; give dt")
    out = []
    for shot in dict.fromkeys(shots.tolist()):
        chosen = np.flatnonzero(shots == shot)
        here = where if (shots == shot).all() else f"{where}, field record {shot}"
        if len(set(delays[chosen])) > 1:
            raise DataError(f"{here}: expected one delay of recording for its traces, found several; shift the traces to one start")
        times = delays[chosen[0]] + step * np.arange(len(values))
        own = None if coordinates is None else coordinates[chosen]
        names = tuple(map(str, range(len(chosen))))
        source = None if sources is None else sources[chosen[0]]
        found = Records(values[:, chosen], times, names, own, layout.unit or "", where=here, source=source)
        out.append(found.silenced(tuple(name for name, gone in zip(names, dead[chosen], strict=True) if gone)))
    return tuple(out)


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
        return segyio.open(path, ignore_geometry=True)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        what = cut(printable(str(error)), 200)
        raise DataError(f"expected a SEG-Y file, found {path_shown(path)}, unreadable ({what}); write it again") from None


def _traces(file: Any, where: str) -> tuple[Array, float, list[Any]]:
    """Values, shape (samples, traces), the time between samples in s, and the headers."""
    try:
        require_room((len(file.samples), file.tracecount), where)
        values = np.asarray(file.trace.raw[:], float).T
        step = float(file.bin[package("segyio", "SEG-Y files").BinField.Interval]) * 1e-6
        headers = [dict(header) for header in file.header]
    except (OSError, RuntimeError, ValueError, IndexError) as error:
        what = cut(printable(str(error)), 200)
        raise DataError(f"{where}: expected traces, found damage ({what}); copy the file again") from None
    return values, step, headers


def _header(headers: list[Any], word: Any) -> npt.NDArray[np.int64]:
    return np.array([int(header[word]) for header in headers], np.int64)


def _coordinates(headers: list[Any], fields: Any, axes: tuple[str, ...]) -> Array | None:
    if not axes or any(axis not in AXES for axis in axes):
        return None
    columns = []
    for axis in axes:
        word, scalar, sign = AXES[axis]
        columns.append(sign * _scales(headers, fields, scalar) * _header(headers, getattr(fields, word)))
    found = np.stack(columns, axis=1)
    return found if np.any(found) else None  # a file without coordinates has zeros


def _sources(headers: list[Any], fields: Any, axes: tuple[str, ...]) -> Array | None:
    """Places of the source of each trace, shape (traces, axes), NaN along axes whose words are zero in all traces."""
    if not axes or any(axis not in SOURCES for axis in axes):
        return None
    columns = []
    for axis in axes:
        scalar, words = SOURCES[axis]
        raw = [sign * _header(headers, getattr(fields, word)) for word, sign in words.items()]
        known = any(np.any(numbers) for numbers in raw)
        columns.append(_scales(headers, fields, scalar) * sum(raw) if known else np.full(len(headers), np.nan))
    found = np.stack(columns, axis=1)
    return found if np.isfinite(found).any() else None


def _scales(headers: list[Any], fields: Any, scalar: str) -> Array:
    """The factor that a header's scalar stands for: a negative one divides, and 0 stands for 1."""
    scalars = _header(headers, getattr(fields, scalar)).astype(float)
    return np.where(scalars < 0, 1 / np.maximum(-scalars, 1), np.where(scalars > 0, scalars, 1.0))
