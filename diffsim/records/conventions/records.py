"""Records of one shot: what receivers measured, when and where, and how to find it in a file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from diffsim.base.messages import name_shown
from diffsim.base.quantities.units import conversion
from diffsim.errors import DataError
from diffsim.records.conventions.rising import require_rising
from diffsim.records.conventions.variables import listed
from diffsim.typing import Array

EVEN = 1e-6
"""Times are evenly spaced if no distance of two samples is off the mean by more than this part of it."""
MOST_PROBLEMS = 10
"""Problems that one message lists."""
MOST_NAMES = 5
"""Names of traces that one problem lists."""


@dataclass(frozen=True, eq=False)
class Records:
    """The measurements of the receivers of one shot.

    Attributes:
        values: shape (samples, receivers), f64. NaN where a receiver has no sample.
        times: of the samples, s, rising, shape (samples,). Receivers with times of their own have NaN at the times of others.
        names: names of the receivers; their numbers, from 0, if the file has none.
        coordinates: shape (receivers, axes), in the units that the layout asks for; None: the file has none.
        unit: of the values; "": the file does not say.
        deviation: standard deviation of each sample, in the unit of the values, shape (samples, receivers); None: not known.
        weight: weight of each sample, at least 0, same shape; None: 1.
        where: the file, for messages.
        source: coordinates of the shot's source, shape (axes,), NaN along an axis of which the file says nothing; None: it says nothing.
        dead: names of traces that are all gaps, on purpose.
        shot: number of the shot among several, from 0, for messages; None: there is one.
        epoch: the date of time 0, in UTC; None: the file has no dates.
        notes: lines about readings that differ from the statements of the file.

    Raises:
        DataError: shapes do not fit, or times do not rise.

    Example:
        import numpy as np

        import diffsim as ds

        records = ds.records.Records(np.array([[0.1, np.nan], [0.2, 0.4]]), times=np.array([0.0, 60.0]), names=("north", "south"))
        assert records.without(["north"]).values[1, 0] == 0.4
        tide = ds.records.Records(np.array([[120.0]]), times=np.array([0.0]), names=("north",), unit="cm")
        assert np.isclose(tide.in_unit("m").values[0, 0], 1.2)
    """

    values: Array
    times: Array
    names: tuple[str, ...]
    coordinates: Array | None = None
    unit: str = ""
    deviation: Array | None = None
    weight: Array | None = None
    where: str = "records"
    source: Array | None = None
    dead: tuple[str, ...] = ()
    shot: int | None = None
    epoch: np.datetime64 | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = (len(self.times), len(self.names))
        if self.values.shape != shape:
            raise DataError(
                f"{self.where}: expected values of shape (samples, receivers) = {shape}, found {self.values.shape}; transpose or crop them"
            )
        require_rising(self.times, self.where)
        if self.coordinates is not None and self.coordinates.shape[:1] != shape[1:]:
            rows = len(self.coordinates)
            raise DataError(f"{self.where}: expected coordinates of {shape[1]} receivers, found {rows}; give one row for each trace")
        for what, numbers in (("deviation", self.deviation), ("weight", self.weight)):
            if numbers is not None and numbers.shape != shape:
                raise DataError(
                    f"{self.where}: expected {what} of shape {shape}, found {numbers.shape}; give one for each sample or receiver"
                )

    def trace(self, number: int) -> str:
        """A trace in a message."""
        return f"{self.where}, trace {name_shown(self.names[number])}"

    def names_of(self, numbers: Sequence[int]) -> str:
        """The first of some traces in a message."""
        few = ", ".join(name_shown(self.names[number]) for number in numbers[:MOST_NAMES])
        return few if len(numbers) <= MOST_NAMES else f"{few}, ..."

    def to_drop(self, *numbers: int) -> str:
        """How a scene leaves out traces, of this shot alone where there are several."""
        prefix = "" if self.shot is None else f"{self.shot}:"
        names = [f'"{prefix}{self.names[number]}"' for number in numbers[:MOST_NAMES]]
        return f"drop = [{', '.join(names)}{', ...' if len(numbers) > MOST_NAMES else ''}]"

    def silenced(self, names: Collection[str]) -> Records:
        """The records with gaps in place of the traces of these names, which stay in their places."""
        which = np.array([name in names for name in self.names], bool)
        return replace(self, values=np.where(which, np.nan, self.values), dead=(*self.dead, *names))

    def alive(self) -> Records:
        """The records without the places of dead traces."""
        return self.at([number for number, name in enumerate(self.names) if name not in self.dead]) if self.dead else self

    def at(self, receivers: Sequence[int]) -> Records:
        """The records of some receivers."""
        keep = list(receivers)
        return replace(
            self,
            values=self.values[:, keep],
            names=tuple(self.names[number] for number in keep),
            coordinates=None if self.coordinates is None else self.coordinates[keep],
            deviation=None if self.deviation is None else self.deviation[:, keep],
            weight=None if self.weight is None else self.weight[:, keep],
        )

    def in_unit(self, unit: str) -> Records:
        """The records with values and deviations in another unit.

        Raises:
            DataError: the file does not state its unit, or it does not convert. `unit=` of `Layout` states it.
        """
        if not self.unit:
            raise DataError(f"{self.where}: expected the unit of the values, found none; give Layout(unit=...)")
        convert = conversion(self.unit, unit, self.where)
        deviation = None if self.deviation is None else convert.difference(self.deviation)
        return replace(self, values=convert(self.values), deviation=deviation, unit=unit)

    def without(self, names: Sequence[str]) -> Records:
        """The records of all receivers but those of these names.

        Raises:
            DataError: there is no receiver of a name, or none is left.
        """
        missing = [name for name in names if name not in self.names]
        if missing:
            raise DataError(
                f"{self.where}: expected traces of the names {listed(self.names)}, found no {name_shown(missing[0])}; correct it"
            )
        keep = [number for number, name in enumerate(self.names) if name not in names]
        if not keep:
            raise DataError(f"{self.where}: expected at least one trace, found that all are left out; keep some")
        return self.at(keep)


@dataclass(frozen=True)
class Layout:
    """Places of the parts of records in a file, and facts that the file does not state.

    Attributes:
        values: name of the variable, array or column of values; None: "values" ("value" of a CSV file in long form).
        times: name of the times; None: "times" or "time".
        receiver: name of the column of receivers of a CSV file in long form, and of the file of stations; None: "receiver". Of arrays the
            name of that of the receivers' names; None: one that belongs to the values, or has a name such as "station". A file of stations
            without a column of this name has one of its last part behind "/", or "receiver".
        deviations: name of the standard deviations; None: there are none.
        weights: name of the weights; None: there are none.
        axes: names of the axes of the grid, in their order; those of the coordinates of receivers too, unless `coordinates` has others.
        stations: a CSV file with the coordinates of the receivers; None: they are in the file of records.
        unit: of the values; None: as the file says. Without one the values are in the unit that the caller takes them for.
        time_unit: of the times; None: as the file says, else s.
        dt: time between samples, s, where a file has no times; of SEG-Y in place of that of the headers, which `Records.notes` says.
        order: of the axes "shot", "time" and "receiver" of the values, and of arrays along them; None: as the file says, else as these,
            and without shots where there is one.
        shape: of the values of a `.bin` file, in their order.
        coordinates: names of the coordinates of receivers in the file, or in `stations`, one for each of `axes`; none: `axes`.
        coordinate_units: the units in which coordinates are asked for, one for each axis; none: degrees along axes such as "lon" and
            "latitude", and m along others. Coordinates of which the file states no unit are in them.

    Example:
        import numpy as np

        import diffsim as ds

        np.save("traces.npy", np.zeros((4, 2)))
        layout = ds.records.Layout(dt=0.5, unit="cm")
        assert ds.records.read_records("traces.npy", layout)[0].times[-1] == 1.5
    """

    values: str | None = None
    times: str | None = None
    receiver: str | None = None
    deviations: str | None = None
    weights: str | None = None
    axes: tuple[str, ...] = ()
    stations: Path | None = None
    unit: str | None = None
    time_unit: str | None = None
    dt: float | None = None
    order: tuple[str, ...] | None = None
    shape: tuple[int, ...] | None = None
    coordinates: tuple[str, ...] = ()
    coordinate_units: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """Names of the coordinates of receivers in files, one for each axis.

        Raises:
            DataError: there are not as many as axes.
        """
        if self.coordinates and len(self.coordinates) != len(self.axes):
            axes = ", ".join(self.axes) or "none"
            raise DataError(
                f"coordinates: expected {len(self.axes)} names, one for each axis of the grid ({axes}), found {len(self.coordinates)}; "
                "correct them"
            )
        return self.coordinates or self.axes


def refuse(layout: Layout, where: str, what: str, keys: Sequence[str]) -> None:
    """Refuse parts of a layout that mean nothing in a file.

    Args:
        layout: as the user states it.
        where: the file.
        what: kind of the file, for the message.
        keys: names of these parts.
    """
    names = [key for key in keys if getattr(layout, key) is not None]
    if names:
        names = ["order of axes" if key == "order" else key for key in names]  # `order` of a layout, `axes` of a scene
        raise DataError(f"{where}: expected no {names[0]} for {what}, where it means nothing, found one; drop {' and '.join(names)}")


def even_spacing(times: Array, part: float = EVEN) -> float | None:
    """The time between samples, s; None: they are not evenly spaced to this part of it, or there is only one."""
    steps = np.diff(times)
    mean = float(np.mean(steps)) if len(steps) else 0.0
    return mean if len(steps) and np.max(np.abs(steps - mean)) <= part * mean else None


def distances(times: Array) -> str:
    """The range of the times between samples, for a message."""
    steps = np.diff(times)
    return f"{steps.min():g} to {steps.max():g} s apart"


def require_step(times: Array, dt: float | None, where: str, remedy: str = "drop dt") -> None:
    """Refuse a time between samples that contradicts the times of a file."""
    if dt is None or times.ndim != 1 or len(times) < 2:
        return
    step = even_spacing(np.unique(times))
    if step is None or abs(step - dt) > EVEN * dt:
        steps = "others" if step is None else f"{step:g} s"
        raise DataError(f"{where}: expected no dt beside the times of the file, found {dt:g} s where they have {steps}; {remedy}")


def on_one_clock(traces: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """All traces at the times of any of them.

    Args:
        traces: times and values of each, shapes (samples,) and (samples, ...).

    Returns:
        The times, and the values, shape (samples, traces, ...): NaN where a trace has no sample.
    """
    times = np.unique(np.concatenate([own for own, _ in traces]))
    values = np.full((len(times), len(traces), *traces[0][1].shape[1:]), np.nan)
    for number, (own, trace) in enumerate(traces):
        values[np.searchsorted(times, own), number] = trace
    return times, values
