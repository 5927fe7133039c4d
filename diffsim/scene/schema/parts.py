"""The parts of a field of a scene, which are added, and the limits of the sum."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, ValidationInfo, field_validator, model_validator

from diffsim.base.messages import shown
from diffsim.scene.words.model import (
    Count,
    CountOrNone,
    Model,
    Name,
    NotNegative,
    PathName,
    Point,
    Positive,
    Real,
    Reals,
    Start,
    Widths,
    whole,
)


def located(path: str, info: ValidationInfo) -> str:
    """The full path of a file that a scene names; see `whole`."""
    context = info.context or {}
    return whole(path, context.get("folder"), context.get("read_below"))


class Gaussian(Model):
    """A bump, amplitude · exp(-½ Σ (x_a - centre_a)²/width_a²).

    Attributes:
        centre: its middle.
        width: standard deviation along each axis, in the grid's units.
        amplitude: its height; may be negative.
        angle: the widths' axes are turned by this, in degrees, from the first axis of the grid to the second.
    """

    centre: Point
    width: Widths
    amplitude: Real
    angle: Real = 0.0


class Box(Model):
    """The same value in every cell whose centre lies in a box.

    Attributes:
        lower: least coordinates.
        upper: greatest coordinates.
        amplitude: the value.
    """

    lower: Point
    upper: Point
    amplitude: Real


class Layers(Model):
    """Layers across an axis.

    Attributes:
        axis: name of the axis.
        tops: coordinates where one layer ends and the next begins, rising.
        values: of the layers, one more than `tops`.
    """

    axis: Name
    tops: tuple[Real, ...]
    values: tuple[Real, ...]

    @model_validator(mode="after")
    def _fits(self) -> Layers:
        if len(self.values) != len(self.tops) + 1:
            raise ValueError(
                f"expected one value more than tops, found {len(self.values)} values and {len(self.tops)} tops; add or drop some"
            )
        if list(self.tops) != sorted(set(self.tops)):
            raise ValueError(f"expected tops that rise, found {shown(list(self.tops))}; sort them")
        return self


class Resampled(Model):
    """Given numbers, interpolated to the grid and then converted.

    Attributes:
        method: of interpolation; "mean": the mean of what lies in a cell.
        extend: "edge": past the given numbers, those at their edge continue; None: a grid that reaches past them is refused.
        blur: standard deviation of a Gaussian applied on the grid, in the grid's units; 0 for none.
        scale: factor, after the blur.
        offset: number added after the factor.
        thresholds: if given, numbers between two thresholds become one value: `values[k]` from threshold k - 1 up to k.
        values: one more than `thresholds`.
    """

    method: Literal["nearest", "linear", "cubic", "mean"] = "linear"
    extend: Literal["edge"] | None = None
    blur: NotNegative = 0.0
    scale: Real = 1.0
    offset: Real = 0.0
    thresholds: tuple[Real, ...] = ()
    values: tuple[Real, ...] = ()

    @model_validator(mode="after")
    def _classes(self) -> Resampled:
        if (self.thresholds or self.values) and len(self.values) != len(self.thresholds) + 1:
            raise ValueError(
                f"expected one value more than thresholds, found {len(self.values)} values and {len(self.thresholds)} thresholds; "
                "add or drop some"
            )
        if list(self.thresholds) != sorted(set(self.thresholds)):
            raise ValueError(f"expected thresholds that rise, found {shown(list(self.thresholds))}; sort them")
        return self


class DataSet(Resampled):
    """A data set that every installation of diffsim has.

    Attributes:
        name: its name (one of `diffsim.scene.schema.data.DATASETS`).
        quantity: one of its quantities; None: the first.
    """

    name: Name
    quantity: Name | None = None


class DataFile(Resampled):
    """A file with a field: over the cells of the scene's grid, or with coordinates of its own.

    Attributes:
        path: the file; relative to the folder of the scene file.
        key: name of the array or variable, or number of the band.
        coordinates: names of the variables of coordinates, one an axis.
        spacing: distance of the file's numbers, in the grid's units, for a file without coordinates.
        origin: coordinates of the first of them; None: 0.
        axes: names of the grid's axes in the order of the file; None: that of the grid.
        shape: of a `.bin` file, in the order of the file; None: that of the grid.
        unit: of its numbers; None: as the file says, else that of the field.
        missing: values that mean no number, in the unit of the file; None: those that the file names. Then one that looks like such a
            value, -9999 beside depths of 100 m, is refused.
        fill: what stands where the file has no number; None: such a place is refused.
        allow: mismatches that are no error: "outside", a series of which the run takes less than nine tenths.
    """

    path: PathName
    key: Name | None = None
    coordinates: tuple[Name, ...] = ()
    spacing: Widths | None = None
    origin: Point | None = None
    axes: tuple[Name, ...] | None = None
    shape: tuple[Count, ...] | None = None
    unit: Name | None = None
    missing: Reals | None = None
    fill: Real | None = None
    allow: tuple[Literal["outside"], ...] = ()

    @model_validator(mode="after")
    def _one_place(self) -> DataFile:
        if self.coordinates and self.spacing is not None:
            raise ValueError("expected either coordinates or spacing, found both; drop one")
        if self.origin is not None and self.spacing is None:
            raise ValueError("expected origin together with spacing, found it alone; add spacing")
        return self

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str, info: ValidationInfo) -> str:
        return located(path, info)


class Ricker(Model):
    """A Ricker wavelet, amplitude · (1 - 2 a) exp(-a), a = (π frequency (t - delay))².

    Attributes:
        frequency: of the peak, Hz.
        delay: time of the peak, s; None: 1.2 / frequency, so that it starts near 0.
        amplitude: the peak.
    """

    type: Literal["ricker"]
    frequency: Positive
    delay: Real | None = None
    amplitude: Real = 1.0


class Pulse(Model):
    """A Gaussian pulse, amplitude · exp(-½ (t - delay)²/width²).

    Attributes:
        delay: time of the peak, s.
        width: standard deviation, s.
        amplitude: the peak.
    """

    type: Literal["pulse"]
    delay: Real
    width: Positive
    amplitude: Real = 1.0


class Sampled(Model):
    """A wavelet from a file of records, which holds one trace. Between samples it is a cubic spline, and 0 outside of them.

    Attributes:
        path: the file; relative to the folder of the scene file.
        values: name of the variable or column of values.
        times: name of the variable or column of times.
        dt: time between samples where the file has no times, s.
        unit: of the values; None: as the file says, else that of the source.
        time_unit: of the times; None: as the file says, else s.
        start: time of the file at which the run starts, s, or a date where the file has dates.
        amplitude: a factor.
        allow: mismatches that are no error: "outside", a wavelet of which the run takes less than nine tenths.
    """

    type: Literal["file"]
    path: PathName
    values: Name | None = None
    times: Name | None = None
    dt: Positive | None = None
    unit: Name | None = None
    time_unit: Name | None = None
    start: Start = 0.0
    amplitude: Real = 1.0
    allow: tuple[Literal["outside"], ...] = ()

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str, info: ValidationInfo) -> str:
        return located(path, info)


class Packet(Model):
    """A wave packet, amplitude · cos(2π frequency (t - delay)) exp(-½ (t - delay)²/width²).

    Attributes:
        frequency: in the middle of the spectrum, Hz.
        width: standard deviation of the envelope, s.
        delay: time of the peak, s; None: 5 widths, so that it starts near 0.
        amplitude: the peak.
    """

    type: Literal["packet"]
    frequency: Positive
    width: Positive
    delay: Real | None = None
    amplitude: Real = 1.0


Wavelet: TypeAlias = Annotated[Ricker | Pulse | Packet | Sampled, Field(discriminator="type")]


class FieldModel(Model):
    """A field over the cells, or values over time: the sum of its parts, then cut to `floor` and `ceil`.

    Attributes:
        constant: a constant.
        layers: layers across an axis.
        gaussians: bumps.
        boxes: blocks.
        dataset: one of the installed data sets.
        file: a file of the user.
        wavelet: a wavelet, for values over time.
        floor: least value.
        ceil: greatest value.
    """

    constant: Real | None = None
    layers: Layers | None = None
    gaussians: tuple[Gaussian, ...] = ()
    boxes: tuple[Box, ...] = ()
    dataset: DataSet | None = None
    file: DataFile | None = None
    wavelet: Wavelet | None = None
    floor: Real | None = None
    ceil: Real | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> FieldModel:
        if self.constant is None and not (self.layers or self.gaussians or self.boxes or self.dataset or self.file or self.wavelet):
            raise ValueError("expected at least one of constant, layers, gaussians, boxes, dataset, file and wavelet, found none; add one")
        if self.floor is not None and self.ceil is not None and self.floor > self.ceil:
            raise ValueError(f"expected floor <= ceil, found {self.floor:g} and {self.ceil:g}; exchange them")
        return self


class Where(Model):
    """A choice of cells: those that meet every condition given.

    Attributes:
        field: one of the scene's known fields, for `above` and `below`.
        of: a separate field, in place of `field`.
        above: least value of it.
        below: greatest value of it.
        margin: cells at each edge of the grid that are left out.
        lower: least coordinates.
        upper: greatest coordinates.
    """

    field: Name | None = None
    of: FieldModel | None = None
    above: Real | None = None
    below: Real | None = None
    margin: CountOrNone = 0
    lower: Point | None = None
    upper: Point | None = None

    @model_validator(mode="after")
    def _complete(self) -> Where:
        if self.field is not None and self.of is not None:
            raise ValueError("expected either field or of, found both; drop one")
        if (self.field is None and self.of is None) != (self.above is None and self.below is None):
            raise ValueError("expected a field together with above, below or both, found one without the other; complete it")
        return self


class LineOfPoints(Model):
    """Equally spaced points from `start` to `stop`, both included.

    Attributes:
        start: the first.
        stop: the last.
        count: number of points.
    """

    start: Point
    stop: Point
    count: Count


class PointSet(Model):
    """Positions, in the grid's units.

    Attributes:
        points: one by one.
        lines: many at once.
        interpolation: between cells, see `diffsim.Points`.
        dipole: direction of each, see `diffsim.Points`; None: they have none.
    """

    points: tuple[Point, ...] = ()
    lines: tuple[LineOfPoints, ...] = ()
    interpolation: Literal["linear", "sinc"] = "linear"
    dipole: Point | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> PointSet:
        if not (self.points or self.lines):
            raise ValueError("expected points or lines, found neither; add at least one point")
        return self


class GuidedMode(Model):
    """A mode of a waveguide, sent both ways from a line across it.

    Attributes:
        axis: along which the waveguide runs.
        at: of the line along that axis.
        frequency: of the mode, 1/grid.
        order: 0 for the fundamental mode.
    """

    axis: Name
    at: Real
    frequency: Positive
    order: CountOrNone = 0


class Sources(PointSet):
    """Sources of a forcing: points, or a mode of a waveguide.

    Attributes:
        wavelet: amplitude in time, of every source.
        fire: "together" in one shot, or "in turn": a shot for each source, over which the loss sums.
        mode: in place of points, the currents that send a mode of the waveguide at the start of the search.
    """

    wavelet: Wavelet
    fire: Literal["together", "in turn"] = "together"
    mode: GuidedMode | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> Sources:
        given = bool(self.points or self.lines)
        if given == (self.mode is not None):
            raise ValueError(f"expected points, lines or a mode, found {'both' if given else 'none'}; give one of them")
        if self.mode is not None and self.fire == "in turn":
            raise ValueError('expected a mode to fire "together", for its currents belong together, found "in turn"; drop fire')
        return self
