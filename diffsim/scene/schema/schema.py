"""The schema of a scene. A TOML file and `Scene(...)` in Python give the same object. This module computes nothing."""

from __future__ import annotations

import math
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    Field,
    SerializeAsAny,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

import diffsim.ocean
import diffsim.photonics  # noqa: F401  # parametrisations of both enter themselves
from diffsim.base.messages import name_shown, shown
from diffsim.optimize.parametrise import KINDS, Parametrisation
from diffsim.scene.schema.misfit_keys import Misfits
from diffsim.scene.schema.parts import RECEIVER, FieldModel, PointSet, Sources, Where, located
from diffsim.scene.schema.penalty_keys import Penalties
from diffsim.scene.schema.search_keys import Accept, Certificate, Checkpoint, Optimise, Stage, UncertaintyModel
from diffsim.scene.words.domains import NUMBER
from diffsim.scene.words.equations import EquationModel
from diffsim.scene.words.model import (
    MOST,
    CellWidths,
    Count,
    CountOrNone,
    FileName,
    Flag,
    Frequencies,
    Model,
    Name,
    NotNegative,
    PathName,
    Paths,
    Point,
    Positive,
    Real,
    Reals,
    Start,
    Text,
    Widths,
)
from diffsim.scene.words.objects import is_object
from diffsim.scene.words.options import options_of
from diffsim.scene.words.own import Family
from diffsim.scene.words.rules import TIME
from diffsim.scene.words.typed import TypedModel, each_of, keys_made

PARAMETRISATIONS = Family("a parametrisation", "diffsim.parametrisations", KINDS, methods=("to_field", "from_field", "bounds"))
"""The parametrisations that scenes name by a word."""
SHARED = ("type", "of", "start", "mask")
"""Keys of an unknown with any parametrisation."""
GIVEN = ("shape", "dtype", "mask", "reference", "density", "grid")
"""Arguments of a parametrisation that the scene gives: shape and type of the field, the free cells, the start of the search, the grid."""

ROUND_OFF = 1e-6
"""Tolerance in steps: a duration that exceeds a whole number of steps by less than this is that number of steps."""


class GridModel(Model):
    """The grid: `shape`, and one of `spacing` (with `origin`) and `like`.

    Attributes:
        shape (cells): cells along each axis.
        axes: their names; none: the last of z, y, x. On a sphere they are a latitude and a longitude, in degrees.
        units: of the coordinates; none: m, degrees of latitudes and longitudes. Equations count in these and refuse others but for numbers;
            `maxwell` takes any.
        spacing (grid): distance of cell centres. Good: five cells a shortest wavelength at order 8, ten at order 2.
        origin (grid): centre of the first cell; none: 0.
        like: a [data set](#dataset) with coordinates, whose region the grid spans.
        around: the layer or sponge of the equation lies around these cells, not within them. Numbers of files continue there, and unknowns
            stay at their start.
        crs: map projection of the axes, as pyproj takes it, such as "EPSG:32654"; only files with another one ask for it.
    """

    shape: tuple[Count, ...] = Field(min_length=1, max_length=3)
    axes: tuple[Name, ...] | None = None
    units: tuple[Text, ...] | None = None
    spacing: Widths | None = None
    origin: Point | None = None
    like: Name | None = None
    around: Flag = False
    crs: Name | None = None

    @model_validator(mode="after")
    def _one_way(self) -> GridModel:
        if (self.spacing is None) == (self.like is None):
            raise ValueError(f"expected one of spacing and like, found {'none' if self.like is None else 'both'}; give one of them")
        if self.origin is not None and self.spacing is None:
            raise ValueError("expected origin together with spacing, found it with like; drop origin")
        ndim = len(self.shape)
        for name, least in (("axes", ndim), ("units", ndim), ("spacing", 1), ("origin", ndim)):
            value = getattr(self, name)
            if value is not None and len(value) not in {least, ndim}:
                raise ValueError(f"expected {name} with {ndim} entries, one an axis of shape, found {len(value)}; add or drop some")
        taken = {TIME, NUMBER}.intersection(self.axes or ())
        if taken:
            raise ValueError(
                f"expected axes of space, found {' and '.join(sorted(taken))}, which name something else in a scene; rename them"
            )
        return self


class Time(Model):
    """Time steps.

    Attributes:
        dt (s): time step. One that is not stable is refused, and the stable one named. None: 0.9 of it for waves, with the speed of the
            start, the upper bound or the truth, whichever is largest; half of it for diffusion.
        steps: how many.
        duration (s): instead: how long, rounded up to whole steps.
        windows: number of [windows](#windows), each of these steps, one after another. More than one is for chaotic systems.
    """

    dt: Positive | None = None
    steps: Count | None = None
    duration: Positive | None = None
    windows: Count = 1

    @model_validator(mode="after")
    def _one_length(self) -> Time:
        if (self.steps is None) == (self.duration is None):
            raise ValueError("expected either steps or duration, found " + ("both" if self.steps else "neither") + "; give one of them")
        if self.dt is None and self.duration is None:
            raise ValueError("expected duration where dt is left out, found steps; give dt, or duration")
        if self.duration is not None and self.dt is not None and self.duration / self.dt > MOST:
            raise ValueError(f"expected at most {MOST:g} steps, found a duration of {self.duration / self.dt:g} of them; raise dt")
        return self

    @property
    def count(self) -> int:
        """Number of steps."""
        if self.steps is not None:
            return self.steps
        assert self.duration is not None
        return max(1, math.ceil(self.duration / self.step - ROUND_OFF))

    @property
    def step(self) -> float:
        """Length of a step, s, once it is known; see `diffsim.scene.setup.resolved`."""
        assert self.dt is not None
        return self.dt


class Truth(Model):
    """The hidden truth. The data are made from it, on a finer grid with another time step, and with noise.

    Attributes:
        fields: `[truth.fields.c]`: the truth of every unknown, and whatever else differs from `[fields]`.
        refine: cells along an axis for one of the scene's; 1 is the same grid (an inverse crime, good for finding mistakes). The time step
            is divided by it, for `heat` by its square, which keeps the stability number.
        noise: standard deviation of Gaussian noise, as a fraction of the root mean square of the data. Good: 0.01 to 0.05.
    """

    fields: dict[Name, FieldModel]
    refine: Annotated[float, Field(strict=True, ge=1, le=8)] = 1.5
    noise: NotNegative = 0.0


class Data(Model):
    """Records of a state, from files.

    Attributes:
        path: one file for all shots (it needs no brackets), or one for each; of one shot also a file for each receiver, or for some.
            `{receiver}` in it stands for the name of each of the `stations`, such as `"gauges/{receiver}.hdf5"`.
        values: name of the variable or column of values; none: "values", in a long CSV file "value".
        times: name of the variable or column of times; none: "times" or "time".
        receiver: name of the column of receivers, in a long CSV file and in `stations`; none: "receiver". Of NPZ, HDF5 and NetCDF the
            variable of their names; `stations` may then have a column of its last part, or "receiver".
        stations: a CSV file with a row for each receiver: its name, and its coordinates in columns named like the axes of the grid. It may
            have the columns of `window`, `weights` and `deviations` too.
        coordinates: names of the coordinates of receivers in the files or `stations`, one an axis, in the order of the grid's; none: those
            of its axes.
        crs: map projection of these coordinates, as pyproj takes it, such as "EPSG:4326"; they are brought to `grid.crs`. None: they are
            those of the grid.
        window: columns of `stations` with the first and the last time of each receiver that counts, s or dates of the clock of the files.
        interpolation: of receivers that the files place, see [points](#points); of `[receivers.STATE]` it stands there.
        axes: order of the axes of values in a NPY, NPZ, HDF5 or `.bin` file; none: shot, time, receiver.
        shape: of a `.bin` file, in its order.
        unit: of the values, such as "cm"; they are converted to that of the state. None: that of the file, else that of the state.
        time_unit: of the times, such as "min"; none: that of the file, else s.
        dt (s): between samples, for a file without times; of SEG-Y in place of that of the headers, which is noted.
        start (s): time in the file at which the run starts, or a date such as `"2011-03-11T05:46:23Z"` where the file has dates.
        deviation (as values): standard deviation of the noise. The misfit of a sample is divided by its square.
        deviations: instead: name of the variable or column of standard deviations, of the files or of `stations`.
        weights: name of the variable or column of weights, which multiply the misfit of a sample, of the files or of `stations`.
        missing (file): values that mean no sample, such as `-9999`; one may be given without a list.
        drop: names of traces to leave out; without names, their numbers from 0. `"3:5"` leaves out trace 5 of shot 3 alone, shots counted
            from 0.
        allow: accept records that end before the run, traces of zeros, traces that stay at their greatest value, files that place sources
            or receivers elsewhere (or all receivers in one cell), values that look like fill values, records of which the run takes less
            than nine tenths.
    """

    path: Paths
    values: Name | None = None
    times: Name | None = None
    receiver: Name | None = None
    stations: PathName | None = None
    coordinates: tuple[Name, ...] = ()
    crs: Name | None = None
    window: tuple[Name, Name] | None = None
    interpolation: Literal["linear", "sinc"] = "linear"
    axes: tuple[Literal["shot", "time", "receiver"], ...] | None = None
    shape: tuple[Count, ...] | None = None
    unit: Name | None = None
    time_unit: Name | None = None
    dt: Positive | None = None
    start: Start = 0.0
    deviation: Positive | None = None
    deviations: Name | None = None
    weights: Name | None = None
    missing: Reals = ()
    drop: tuple[Name, ...] = ()
    allow: tuple[Literal["short", "zero", "clipped", "sources", "receivers", "fill", "outside"], ...] = ()

    @field_validator("path")
    @classmethod
    def _absolute(cls, paths: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        return tuple(located(path, info) for path in paths)

    @field_validator("stations")
    @classmethod
    def _absolute_stations(cls, path: str | None, info: ValidationInfo) -> str | None:
        return None if path is None else located(path, info)

    @model_validator(mode="after")
    def _one_deviation(self) -> Data:
        if self.deviation is not None and self.deviations is not None:
            raise ValueError("expected either deviation or deviations, found both; drop one")
        for key, asks in ((f"path with {RECEIVER}", any(RECEIVER in path for path in self.path)), ("window", self.window is not None)):
            if asks and self.stations is None:
                raise ValueError(f"expected stations together with {key}, whose rows it needs, found none; add stations")
        return self


class Monitor(Model):
    """A plane through which the power of a mode, or all power, is measured.

    Attributes:
        axis: across which the plane lies.
        at (grid): where along it; the nearest cells are taken.
        low (grid): least coordinate along the plane, for "power"; none: the grid's.
        high (grid): the greatest one.
        measure: "mode": the power of a mode of the waveguide that crosses the plane at the start of the search; "power": all that passes,
            less the power that comes back.
        order: of the mode; 0 is the fundamental one.
        towards: coordinates to which the power goes.
    """

    axis: Name
    at: Real
    low: Real | None = None
    high: Real | None = None
    measure: Literal["mode", "power"] = "mode"
    order: CountOrNone = 0
    towards: Literal["greater", "smaller"] = "greater"

    @model_validator(mode="after")
    def _fits(self) -> Monitor:
        if self.measure == "mode" and (self.low is not None or self.high is not None):
            raise ValueError('expected low and high with measure = "power", for a mode reaches across the grid, found a mode; drop them')
        return self


class Maximise(Model):
    """A quantity that a design makes large.

    Attributes:
        type: the power at one monitor over that at another one.
        of: the monitor behind the design.
        over: the monitor before it, with `measure = "mode"`, which tells sent from returning waves.
        frequency (1/grid): one, or several, whose mean counts. The source must have them all.
        weight: of 1 - transmission in the loss.
    """

    type: Literal["transmission"]
    of: Name
    over: Name
    frequency: Frequencies
    weight: NotNegative = 1.0


class Minimise(Model):
    """A recorded state that a design makes small: its mean over receivers and times.

    Attributes:
        state: such as `force_x`, with [receivers](#points) of its own.
        window (s): first and last time that count; none: all times.
        weight (1/state): of the mean in the loss; it may be negative, for a state that is to be large.
    """

    state: Name
    window: tuple[Real, Real] | None = None
    weight: Real = 1.0

    @model_validator(mode="after")
    def _rising(self) -> Minimise:
        if self.window is not None and not self.window[0] <= self.window[1]:
            raise ValueError(f"expected a window whose end is not before its beginning, found {shown(list(self.window))}; exchange them")
        return self


class UnknownModel(TypedModel):
    """An unknown field or source, and the optimiser's variables that replace it.

    Attributes:
        type: "cells": a variable for each cell or region; "okada": [an uplift by faults](#uplift-by-faults); "density":
            [a density](#density); or [a parametrisation of your own](#a-penalty-or-a-parametrisation-of-your-own).
        of: for a [source](#a-source-as-an-unknown): its "wavelet", or "amplitudes", a factor for each point; none: the wavelet.
            Not for fields.
        start (field): start of the search, and the values of cells that are not free; none: the field of this name in `[fields]`, for a
            source its wavelet or 1.
        transform: "identity": start + scale · theta. "log": start · exp(scale · theta), for positive fields that range over decades.
            "logit": between `lower` and `upper`, both needed, and the start strictly inside.
        lower (field): least value allowed.
        upper (field): greatest value allowed; keep it within the stability limit of `time.dt`.
        scale: the change that theta = 1 stands for: in the unit of the field for "identity", else a number. Good: the change to be
            expected, 0.1 to 0.3 for "log" and "logit".
        smooth (cells): theta is smoothed by a Gaussian of this standard deviation, so smooth changes are tried first. Good: a quarter of
            the shortest wavelength. With bounds it needs "logit".
        mask: free cells; none: all.
        regions: instead of a value a cell: cells of equal value of this field form a region with one unknown value; negative ones stay at
            the start. The start of a region is that of its first cell.
        precondition: variables count more where the forward field at the start of a stage is weak: the gradient is divided by the energy of
            the compared states, smoothed over 2 cells, at least 0.01 of its largest; none: all count the same.
        depth: the gradient is multiplied by this power of the depth, counted along the first axis from its first side. 1 is usual where all
            sources and receivers are at the surface.
        jumps (1/field²): weight of half the sum of the squares of the jumps between [windows](#windows), of a state.
    """

    of_class = Parametrisation

    type: str = "cells"
    of: Literal["wavelet", "amplitudes"] | None = None
    start: FieldModel | None = None
    transform: Literal["identity", "log", "logit"] = "identity"
    lower: Real | None = None
    upper: Real | None = None
    scale: Positive = 1.0
    smooth: CellWidths = (0.0,)
    mask: Where | None = None
    regions: FieldModel | None = None
    precondition: Literal["energy"] | None = None
    depth: NotNegative = 0.0
    jumps: Positive | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> UnknownModel:
        if self.regions is not None and any(self.smooth):
            raise ValueError("expected either regions or smooth, found both; a value a region needs no smoothing")
        return self


class OwnUnknown(UnknownModel):
    """An unknown with a parametrisation of the user's own. It has the keys `SHARED`, and the arguments of its class."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        for name in given if isinstance(given, dict) else ():
            if name == "mask" and is_object(given.get("type", "")):
                raise ValueError(f"expected no mask with an object, which has its own free cells, found {shown(given[name])}; drop it")
            if name in UnknownModel.model_fields and name not in (*SHARED, *cls.options):
                kind = cls.of_class.__name__
                raise ValueError(
                    f"expected no {name} with {kind}, whose constructor has no such argument, found {shown(given[name])}; drop it"
                )
        return given


@cache
def unknown_of(name: str, kind: type) -> type[UnknownModel]:
    """The model of the keys of an unknown with a parametrisation.

    Raises:
        SceneError: a scene cannot build it.
    """
    if is_object(name):
        return keys_made(OwnUnknown, name, kind, PARAMETRISATIONS, {})
    if kind is Parametrisation:
        return UnknownModel
    taken = {*dir(TypedModel), *SHARED}
    return keys_made(OwnUnknown, name, kind, PARAMETRISATIONS, options_of(kind, GIVEN, taken, "type: "))


UnknownModel.model_of = unknown_of


def _unknowns(given: Any, inner: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """The unknowns, each with the keys of its parametrisation."""
    if not isinstance(given, dict) or not given:
        return inner(given)
    keys = {name: f"unknowns.{name_shown(str(name))}" for name in given}
    models = each_of(given, info, keys, PARAMETRISATIONS, UnknownModel)
    return inner(dict(zip(given, models, strict=True)))


Unknowns: TypeAlias = Annotated[dict[Name, SerializeAsAny[UnknownModel]], Field(min_length=1), WrapValidator(_unknowns)]


class Description(Model):
    """A scene: a question to physics, with everything needed to answer it.

    Attributes:
        name: a short name for folders. The default for a file is its own name without `.toml`.
        title: one line, for the report and `diffsim list`.
        summary: the question in a few sentences, for the report.
        seed: of all random numbers: the noise, and the directions of the certificate.
        grid: where.
        time: when.
        equation: the physics there; or [an equation of your own](#an-equation-of-your-own).
        fields: known inputs: `[fields.kappa]`. A parameter of the equation and an input that a rule names must be here or unknown; an
            initial field that is not is 0.
        sources: point sources of a forcing: `[sources.f]`.
        receivers: where a state is recorded: `[receivers.p]`. None: where the records in `[data]` say.
        monitors: planes at which [a design](#a-design) is measured: `[monitors.out]`.
        truth: fields that the data are computed from; needed where there are no records.
        data: records from files: `[data.p]`.
        unknowns: the unknown fields and sources: `[unknowns.c]`; at least one, several are found together.
        misfit: `[[misfit]]`, at least one but for [a design](#a-design); the loss is their sum and that of the penalties.
        maximise: `[[maximise]]`, in place of misfits: quantities that [a design](#a-design) makes large.
        minimise: `[[minimise]]`, in place of misfits: recorded states that [a design](#a-design) makes small.
        penalty: `[[penalty]]`: prior knowledge of an unknown.
        optimise: how the loss is minimised.
        stage: `[[stage]]`: searches one after another, each from the answer of the one before.
        checkpoint: memory of a gradient.
        certificate: how the gradient is checked.
        accept: `[[accept]]`: figures that the answer must reach.
        uncertainty: standard deviations of the answer; none: they are not measured.
    """

    name: FileName = "scene"
    title: Text = ""
    summary: Text = ""
    seed: CountOrNone = 0
    grid: GridModel
    time: Time
    equation: EquationModel
    fields: dict[Name, FieldModel] = Field(default_factory=dict)
    sources: dict[Name, Sources] = Field(default_factory=dict)
    receivers: dict[Name, PointSet] = Field(default_factory=dict)
    monitors: dict[Name, Monitor] = Field(default_factory=dict)
    truth: Truth | None = None
    data: dict[Name, Data] = Field(default_factory=dict)
    unknowns: Unknowns
    misfit: Misfits = ()
    maximise: tuple[Maximise, ...] = ()
    minimise: tuple[Minimise, ...] = ()
    penalty: Penalties = ()
    optimise: Optimise = Optimise()
    stage: tuple[Stage, ...] = ()
    checkpoint: Checkpoint = Checkpoint()
    certificate: Certificate = Certificate()
    accept: tuple[Accept, ...] = ()
    uncertainty: UncertaintyModel | None = None

    @field_validator("sources")
    @classmethod
    def _one_in_turn(cls, sources: dict[str, Sources]) -> dict[str, Sources]:
        turns = [name for name, s in sources.items() if s.fire == "in turn"]
        if len(turns) > 1:
            raise ValueError(f'expected at most one forcing that fires "in turn", found {" and ".join(turns)}; let one fire together')
        return sources

    @property
    def design(self) -> bool:
        """True if something is made as large or small as can be, without data."""
        return bool(self.maximise or self.minimise)

    @property
    def kind_of_design(self) -> str:
        """The table of the objectives of a design, for messages."""
        return "[[maximise]]" if self.maximise else "[[minimise]]"

    def classes(self) -> tuple[tuple[str, type], ...]:
        """The key of each part that has a class, and the class, which may be a user's own."""
        unknowns = ((f"unknowns.{name}", model.of_class) for name, model in self.unknowns.items())
        misfits = ((f"misfit[{number}]", model.of_class) for number, model in enumerate(self.misfit))
        penalties = ((f"penalty[{number}]", model.of_class) for number, model in enumerate(self.penalty))
        return ("equation", self.equation.of_class), *unknowns, *misfits, *penalties

    def stages(self) -> tuple[Stage, ...]:
        """The stages of the search, at least one, with the settings that they take over from `optimise`."""
        inherited = self.optimise.model_dump(include={"method", "iterations", "tolerance"})
        return tuple(
            stage.model_copy(update={key: value for key, value in inherited.items() if getattr(stage, key) is None})
            for stage in self.stage or (Stage(),)
        )

    @model_validator(mode="after")
    def _one_loss(self) -> Description:
        if bool(self.misfit) == self.design:
            present = "both" if self.misfit else "neither"
            raise ValueError(
                f"expected [[misfit]], which compares with data, or [[maximise]] or [[minimise]] for a design, found {present}; give one"
            )
        if bool(self.monitors) != bool(self.maximise):
            raise ValueError("expected [monitors.NAME] together with [[maximise]], found one without the other; add or drop one")
        if self.design:
            without = ("truth", "data", "uncertainty", *(() if self.minimise else ("receivers",)))
            needless = [name for name in without if getattr(self, name)]
            if needless:
                kind = self.kind_of_design
                raise ValueError(f"expected no {needless[0]} with {kind}, for a design has no data, found it; drop {needless[0]}")
        return self

    @model_validator(mode="after")
    def _has_data(self) -> Description:
        if self.design:
            return self
        if self.truth is None and not self.data:
            raise ValueError("expected [truth], [data.STATE] or both, found neither; add the data of the comparison")
        return self
