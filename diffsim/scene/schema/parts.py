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

RECEIVER = "{receiver}"
"""A place in the path of records, for the name of a receiver."""


def located(path: str, info: ValidationInfo) -> str:
    """The full path of a file that a scene names; see `whole`."""
    context = info.context or {}
    return whole(path, context.get("folder"), context.get("read_below"))


class Gaussian(Model):
    """A bump, amplitude · exp(-½ Σ (x_a - centre_a)²/width_a²).

    Attributes:
        centre (grid): the middle.
        width (grid): standard deviation.
        amplitude (field): the height; may be negative.
        angle (degrees): from the first axis of the grid to the second.
    """

    centre: Point
    width: Widths
    amplitude: Real
    angle: Real = 0.0


class Box(Model):
    """The same value in every cell whose centre lies in a box.

    Attributes:
        lower (grid): least coordinates; cell centres on the edge are inside.
        upper (grid): greatest coordinates.
        amplitude (field): the value inside.
    """

    lower: Point
    upper: Point
    amplitude: Real


class Layers(Model):
    """Layers across an axis.

    Attributes:
        axis: name of the axis.
        tops (grid): coordinates where one layer ends and the next begins, rising; a cell centre on one belongs to the next.
        values (field): of the layers, one more than `tops`.
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
        method: of interpolation between given numbers; "mean": the mean of the numbers in a cell. A file over the cells of the grid is
            interpolated on the finer grid of the data only.
        extend: past the given numbers, those at their edge continue; none: a grid that reaches past them by more than half of one of their
            cells is refused.
        blur (grid): standard deviation of a Gaussian.
        scale: factor.
        offset: added then.
        thresholds: rising: numbers are put into classes, class k from threshold k - 1 up to below k.
        values (field): of the classes, one more than `thresholds`.
    """

    method: Literal["nearest", "linear", "cubic", "mean"] = "linear"
    extend: Literal["edge"] | None = None
    blur: NotNegative = 0.0
    scale: Real = 1.0
    offset: Real = 0.0
    thresholds: tuple[Real, ...] = ()
    values: tuple[Real, ...] = ()

    @field_validator("values", mode="before")
    @classmethod
    def _no_name(cls, values: object) -> object:
        if isinstance(values, str):
            raise ValueError(
                f"expected numbers, those of the classes between thresholds, found the text {shown(values)}; "
                f"the key `{'quantity' if 'quantity' in cls.model_fields else 'key'}` names what is read"
            )
        return values

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
        name: `matplotlib:topobathy`: `depth` (m, 0 on land) and `elevation` off Vancouver Island, latitude by longitude in degrees.
            `matplotlib:s1045`: `intensity` (0 to 1) of a slice through a head; no coordinates, stretched over the grid.
        quantity: which of its quantities; none: the first.
    """

    name: Name
    quantity: Name | None = None


class DataFile(Resampled):
    """A file with a field: over the cells of the scene's grid, or with coordinates of its own.

    Attributes:
        path: the file. For [inputs of sides](#inputs-of-sides) its axes are time steps and axes along the side.
        key: name of the array or variable, or number of the band of a GeoTIFF file, from 1; none: the only one (an `.npz` file needs it).
        coordinates: names of the variables of coordinates, one an axis, in the order of the grid's; none: those of the names of its axes.
        crs: map projection of the coordinates, as pyproj takes it, such as "EPSG:4326"; none: that of the grid. With one, `method` is
            "linear" or "nearest", and `grid.crs` is needed.
        spacing (grid): distance of its numbers, for a file without coordinates.
        origin (grid): coordinates of the first of them; none: 0.
        axes: names of the grid's axes in the order of the file, such as `["x", "z"]`; none: those of the file, else those of the grid where
            no other fits.
        shape: of a `.bin` file, in its order; none: that of the grid.
        unit: of its numbers, which are converted to that of the field; none: that of the file, else that of the field.
        missing (file): numbers that mean no number; none: those that the file names. A number that looks like such a one is then refused,
            and `[]` accepts it.
        fill (field): value where the file has no number, before `scale`; none: such a place on the grid is refused.
        start (s): of a series, the time in the file at which the run starts, or a date such as `"2011-03-11T05:46:23Z"` where the file has
            dates, which need one; none: 0.
        time_unit: of the times of a series, such as "min"; none: that of the file, else s.
        allow: accepts a series of which the run takes less than nine tenths ("outside"), and heights or depths that the file says to count
            the other way than the field ("sense").
    """

    path: PathName
    key: Name | None = None
    coordinates: tuple[Name, ...] = ()
    crs: Name | None = None
    spacing: Widths | None = None
    origin: Point | None = None
    axes: tuple[Name, ...] | None = None
    shape: tuple[Count, ...] | None = None
    unit: Name | None = None
    missing: Reals | None = None
    fill: Real | None = None
    start: Start | None = None
    time_unit: Name | None = None
    allow: tuple[Literal["outside", "sense"], ...] = ()

    @model_validator(mode="after")
    def _one_place(self) -> DataFile:
        if self.coordinates and self.spacing is not None:
            raise ValueError("expected either coordinates or spacing, found both; drop one")
        if self.origin is not None and self.spacing is None:
            raise ValueError("expected origin together with spacing, found it alone; add spacing")
        if self.crs is not None and (self.spacing is not None or self.method not in ("linear", "nearest")):
            odd = "spacing" if self.spacing is not None else f"method = {self.method!r}"
            raise ValueError(f'expected coordinates in the file and method "linear" or "nearest" with crs, found {odd}; drop it, or crs')
        return self

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str, info: ValidationInfo) -> str:
        return located(path, info)


class Ricker(Model):
    """A Ricker wavelet, amplitude · (1 - 2 a) exp(-a), a = (π frequency (t - delay))².

    Attributes:
        frequency (Hz): of the peak of the spectrum, which reaches to about 2.5 times it: the shortest wavelength is c / (2.5 frequency).
        delay (s): time of the peak; none: 1.2 / frequency, by when it has risen from nearly nothing.
        amplitude (source): the peak.
    """

    type: Literal["ricker"]
    frequency: Positive
    delay: Real | None = None
    amplitude: Real = 1.0


class Pulse(Model):
    """A Gaussian pulse, amplitude · exp(-½ (t - delay)²/width²).

    Attributes:
        delay (s): time of the peak. Good: 4 widths or more.
        width (s): standard deviation.
        amplitude (source): the peak.
    """

    type: Literal["pulse"]
    delay: Real
    width: Positive
    amplitude: Real = 1.0


class Sampled(Model):
    """A wavelet from a file of records, which holds one trace. Between samples it is a cubic spline, and 0 outside of them.

    Attributes:
        path: the file.
        values: name of the variable or column of values.
        times: name of the variable or column of times.
        dt (s): between samples, for a file without times.
        unit: of the values; none: as the file says. A source states no unit, so values whose file states one need it and `amplitude`.
        time_unit: of the times; none: as the file says, else s.
        start (s): time in the file at which the run starts, or a date where the file has dates.
        amplitude (source): a factor.
        allow: accepts a wavelet of which the run takes less than nine tenths ("outside"), and amplitudes that look like a fill value
            ("fill").
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
    allow: tuple[Literal["outside", "fill"], ...] = ()

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str, info: ValidationInfo) -> str:
        return located(path, info)


class Packet(Model):
    """A wave packet, amplitude · cos(2π frequency (t - delay)) exp(-½ (t - delay)²/width²).

    Attributes:
        frequency (Hz): in the middle of the spectrum, whose power falls to 1/e at a distance of 1 / (2π width).
        width (s): standard deviation of the envelope. Good: one to three periods.
        delay (s): time of the peak; none: 5 widths, by when it has risen from nearly nothing.
        amplitude (source): the peak.
    """

    type: Literal["packet"]
    frequency: Positive
    width: Positive
    delay: Real | None = None
    amplitude: Real = 1.0


Wavelet: TypeAlias = Annotated[Ricker | Pulse | Packet | Sampled, Field(discriminator="type")]


class Outline(Model):
    """The signed distance to an ellipse or a circle, negative inside: exact on the outline of an ellipse, and everywhere for a circle.

    Attributes:
        centre (grid): the middle.
        half_axes (grid): half of its extent along each axis; one number: a circle.
        angle (degrees): from the first axis of the grid to the second.
    """

    centre: Point
    half_axes: Widths
    angle: Real = 0.0


LIMITS = ("floor", "ceil")
"""Keys of a field that are no parts of the sum."""


class FieldModel(Model):
    """A field over the cells, or values over time: the sum of its parts, then cut to `floor` and `ceil`.

    Attributes:
        constant (field): the same everywhere.
        layers: layers across an axis.
        gaussians: bumps.
        boxes: blocks.
        dataset: a data set that is at hand wherever diffsim is installed.
        file: a file of your own.
        wavelet: in time, for values that vary with it.
        bodies: the distance to the nearest outline of bodies in a flow, negative inside.
        floor (field): least value.
        ceil (field): greatest value.
    """

    constant: Real | None = None
    layers: Layers | None = None
    gaussians: tuple[Gaussian, ...] = ()
    boxes: tuple[Box, ...] = ()
    dataset: DataSet | None = None
    file: DataFile | None = None
    wavelet: Wavelet | None = None
    bodies: tuple[Outline, ...] = ()
    floor: Real | None = None
    ceil: Real | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> FieldModel:
        *parts, last = [name for name in type(self).model_fields if name not in LIMITS]
        if all(getattr(self, name) in (None, ()) for name in (*parts, last)):
            raise ValueError(f"expected at least one of {', '.join(parts)} and {last}, found none; add one")
        if self.floor is not None and self.ceil is not None and self.floor > self.ceil:
            raise ValueError(f"expected floor <= ceil, found {self.floor:g} and {self.ceil:g}; exchange them")
        return self


class Where(Model):
    """A choice of cells: those that meet every condition given.

    Attributes:
        field: one of the known `[fields]`, or `"start"`, that of the unknown itself, for `above` and `below`.
        of: in its place a field made for the purpose.
        above (field): least value of it.
        below (field): greatest value of it.
        margin (cells): left out at every edge of the grid.
        lower (grid): least coordinates.
        upper (grid): greatest coordinates.
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
        start (grid): the first.
        stop (grid): the last.
        count: how many, both included.
    """

    start: Point
    stop: Point
    count: Count


class PointSet(Model):
    """Positions, in the grid's units.

    Attributes:
        points (grid): one by one.
        lines: many at once.
        interpolation: between cells. Good: "sinc" for waves, which takes eight cells along each axis
            ([acoustic.md](acoustic.md#sources-and-receivers-between-cells)).
        dipole: a direction, whose length counts: sources push along it, receivers record the derivative along it; none: they have none.
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
        at (grid): of the line along that axis.
        frequency (1/grid): of the mode.
        order: 0 is the fundamental mode.
    """

    axis: Name
    at: Real
    frequency: Positive
    order: CountOrNone = 0


class Sources(PointSet):
    """Sources of a forcing: points, or a mode of a waveguide.

    Attributes:
        wavelet: amplitude in time, the same for every point.
        fire: in one shot; or a shot for each point, over which the loss sums. One forcing may fire in turn, others join every shot.
        mode: in place of points: the currents that send a mode of a waveguide, for `maxwell` on two axes.
    """

    wavelet: Wavelet
    fire: Literal["together", "in turn"] = "together"
    mode: GuidedMode | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> Sources:
        placed = bool(self.points or self.lines)
        if placed == (self.mode is not None):
            raise ValueError(f"expected points, lines or a mode, found {'both' if placed else 'none'}; give one of them")
        if self.mode is not None and self.fire == "in turn":
            raise ValueError('expected a mode to fire "together", for its currents belong together, found "in turn"; drop fire')
        return self
