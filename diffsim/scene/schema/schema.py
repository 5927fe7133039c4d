"""The schema of a scene. A TOML file and `Scene(...)` in Python give the same object. This module computes nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    Field,
    SerializeAsAny,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from diffsim.base.messages import name_shown, shown
from diffsim.checkpoint.schedule import AUTO, KINDS
from diffsim.optimize import Parametrisation
from diffsim.photonics import Density
from diffsim.scene.schema.misfit_keys import Misfits
from diffsim.scene.schema.parts import FieldModel, PointSet, Sources, Where, located
from diffsim.scene.schema.penalty_keys import Penalties
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
from diffsim.scene.words.suggest import nearest
from diffsim.scene.words.typed import TypedModel, each_of, keys_made, model_of_table

PARAMETRISATIONS = Family(
    "a parametrisation",
    "diffsim.parametrisations",
    {"cells": Parametrisation, "density": Density},
    methods=("to_field", "from_field", "bounds"),
)
"""The parametrisations that scenes name by a word."""
SHARED = ("type", "of", "start", "mask")
"""Keys of an unknown with any parametrisation."""
GIVEN = ("shape", "dtype", "mask", "reference", "density")
"""Arguments of a parametrisation that the scene gives: shape and type of the field, the free cells, the start of the search."""

ROUND_OFF = 1e-6
"""Tolerance in steps: a duration that exceeds a whole number of steps by less than this is that number of steps."""


class GridModel(Model):
    """The grid: `shape`, and one of `spacing` (with `origin`), `span` and `like`.

    Attributes:
        shape: cells along each axis.
        axes: their names.
        units: units of the coordinates, an entry for each axis, for labels.
        spacing: distance of cell centres, one number or one an axis.
        origin: coordinates of the centre of the first cell.
        span: coordinates of the centres of the first and the last cell of each axis.
        like: a data set whose region the grid spans.
        around: the absorbing layer lies around these cells; False: within them.
    """

    shape: tuple[Count, ...] = Field(min_length=1, max_length=3)
    axes: tuple[Name, ...] | None = None
    units: tuple[Text, ...] | None = None
    spacing: Widths | None = None
    origin: Point | None = None
    span: tuple[tuple[Real, Real], ...] | None = None
    like: Name | None = None
    around: Flag = False

    @model_validator(mode="after")
    def _one_way(self) -> GridModel:
        given = [name for name in ("spacing", "span", "like") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"expected one of spacing, span and like, found {' and '.join(given) or 'none'}; give one of them")
        if self.origin is not None and self.spacing is None:
            raise ValueError(f"expected origin together with spacing, found it with {given[0]}; drop origin")
        ndim = len(self.shape)
        for name, least in (("axes", ndim), ("units", ndim), ("spacing", 1), ("origin", ndim), ("span", ndim)):
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
        dt: length of a step, s; None: it follows from the stable one.
        steps: number of steps. Give this or `duration`.
        duration: duration, s, rounded up to whole steps.
    """

    dt: Positive | None = None
    steps: Count | None = None
    duration: Positive | None = None

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
        fields: fields that differ from the scene's own fields. Every unknown must be here.
        refine: cells along an axis for each cell of the scene's grid; 1 makes the data on that grid (an inverse crime).
        dt_factor: time step of the data, in time steps of the scene; None: the value that keeps the stability number.
        noise: standard deviation of Gaussian noise on the data, as a fraction of their root mean square.
    """

    fields: dict[Name, FieldModel]
    refine: Annotated[float, Field(strict=True, ge=1, le=8)] = 1.5
    dt_factor: Positive | None = None
    noise: NotNegative = 0.0


class Data(Model):
    """Records of a state, from files.

    Attributes:
        path: one file for all shots, or one for each; where there is one shot, also a file for each receiver, or for some of them.
        values: name of the variable or column of values.
        times: name of the variable or column of times.
        receiver: name of the column of receivers of a CSV file in long form, and in `stations`.
        stations: a CSV file with the coordinates of the receivers.
        interpolation: between cells, for receivers that the files place; see `diffsim.Points`.
        axes: order of the file's axes "shot", "time" and "receiver"; None: as these, without shots for one.
        shape: of a `.bin` file, an entry for each of its axes.
        unit: of the values; None: as the file says, else that of the state.
        time_unit: of the times; None: as the file says, else s.
        dt: time between samples where a file has no times, s.
        start: time of the file at which the run starts, s, or a date where the file has dates.
        deviation: standard deviation of the noise, in the unit of the values.
        deviations: name of the variable or column of standard deviations, in place of `deviation`.
        weights: name of the variable or column of weights.
        missing: values that mean no sample, in the unit of the file.
        drop: names of traces that are left out of all shots, or with "SHOT:" before them, counted from 0, of one.
        allow: mismatches that are no error.
    """

    path: Paths
    values: Name | None = None
    times: Name | None = None
    receiver: Name | None = None
    stations: PathName | None = None
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
    allow: tuple[Literal["short", "zero", "clipped", "sources", "fill", "outside"], ...] = ()

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
        return self


class Monitor(Model):
    """A plane through which the power of a mode, or all power, is measured.

    Attributes:
        axis: across which it lies.
        at: where along it.
        low: least coordinate along the plane; None: the grid's.
        high: the greatest one.
        measure: "mode": the power of a mode of the waveguide at the start of the search; "power": all that passes.
        order: of the mode, 0 for the fundamental one.
        towards: where the power goes.
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
    """What a design is to make large.

    Attributes:
        type: "transmission".
        of: the monitor behind the design.
        over: the monitor before it, which measures a mode.
        frequency: one or several, 1/grid; the mean counts.
        weight: of 1 - transmission in the loss.
    """

    type: Literal["transmission"]
    of: Name
    over: Name
    frequency: Frequencies
    weight: NotNegative = 1.0


class UnknownModel(TypedModel):
    """An unknown field or source, and the optimiser's variables that replace it.

    Attributes:
        type: "cells": a variable for each cell or region; or a class, or an object of one.
        of: for a forcing: its "wavelet" (None means the same), or the "amplitudes" of its points; None for a field.
        start: start of the search; None: the field of this name in `fields`, the wavelet in `sources`, or amplitudes of 1.
        transform: "identity": start + scale · theta; "log": start · exp(scale · theta); "logit": between the bounds.
        lower: least value allowed.
        upper: greatest value allowed.
        scale: the change for theta = 1.
        smooth: theta is smoothed by a Gaussian of this standard deviation, in cells.
        mask: the free cells; None: all.
        regions: cells with equal values of this field form a region with one unknown value. Cells with negative values do not change.
            None: every cell is free.
        precondition: "energy": variables count more where the forward field at the start of a stage is weak; None: all count the same.
        depth: the gradient is multiplied by this power of the depth, the distance from the first side of the first axis.
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
    return keys_made(OwnUnknown, name, kind, PARAMETRISATIONS, options_of(kind, GIVEN, taken, "type"))


UnknownModel.model_of = unknown_of


def _one_unknown(given: Any, key: str, context: Mapping[str, Any]) -> UnknownModel:
    return model_of_table(given, key, PARAMETRISATIONS, UnknownModel, context)


def _unknowns(given: Any, inner: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """The unknowns, each with the keys of its parametrisation."""
    if not isinstance(given, dict) or not given:
        return inner(given)
    keys = {name: f"unknowns.{name_shown(str(name))}" for name in given}
    found = each_of(given, info, keys, _one_unknown)
    return inner(dict(zip(given, found, strict=True)))


Unknowns: TypeAlias = Annotated[dict[Name, SerializeAsAny[UnknownModel]], Field(min_length=1), WrapValidator(_unknowns)]

MethodName: TypeAlias = Literal["L-BFGS-B", "gauss-newton", "adam"]


class Optimise(Model):
    """How the loss is minimised.

    Attributes:
        method: "L-BFGS-B"; "gauss-newton": steps by conjugate gradients; "adam": steps of about one length.
        iterations: at most.
        tolerance: stop when an iteration lowers the loss by no more than this fraction of its start.
        rate: of "adam": about the change of each variable in an iteration.
        batch: of "adam": number of shots of an evaluation; None: all.
    """

    method: MethodName = "L-BFGS-B"
    iterations: Count = 50
    tolerance: Annotated[float, Field(strict=True, ge=0, lt=1)] = 1e-9
    rate: Positive = 0.1
    batch: Count | None = None


class Stage(Model):
    """One of several searches. It starts from the answer of the one before.

    Attributes:
        lowpass: data and predictions are filtered: corner frequency above which the gain falls, Hz.
        highpass: corner frequency below which the gain falls, Hz.
        smooth: unknown -> standard deviation of the smoothing of its theta, in cells; else that of the unknown.
        steepness: unknown with a density -> steepness of its projection; else that of the unknown.
        method: None: that of `optimise`.
        iterations: at most; None: those of `optimise`.
        tolerance: None: that of `optimise`.
    """

    lowpass: Positive | None = None
    highpass: Positive | None = None
    smooth: dict[Name, CellWidths] = Field(default_factory=dict)
    steepness: dict[Name, Positive] = Field(default_factory=dict)
    method: MethodName | None = None
    iterations: Count | None = None
    tolerance: Annotated[float, Field(strict=True, ge=0, lt=1)] | None = None


def _known_schedule(name: str) -> str:
    if name not in (known := (AUTO, *KINDS)):
        raise ValueError(f"expected one of {', '.join(known)}, found {shown(name)}; {nearest(name, known)}")
    return name


ScheduleName: TypeAlias = Annotated[str, AfterValidator(_known_schedule)]


class PriorModel(Model):
    """What is known of an unknown before the records: a Gaussian field around the answer's neighbourhood.

    Attributes:
        deviation: its standard deviation, unit of the field.
        length: its correlation length, m, along time s; None: each value is independent.
    """

    deviation: Positive
    length: Widths | None = None


class UncertaintyModel(Model):
    """The uncertainty of the answer.

    Attributes:
        rank: number of directions that the records may tell about.
        prior: unknown -> what is known of it before the records; else its tikhonov penalties say.
    """

    rank: Count = 40
    prior: dict[Name, PriorModel] = Field(default_factory=dict)


class Checkpoint(Model):
    """How the reverse sweep stores states of the forward run.

    Attributes:
        memory: the most memory of a gradient: "auto", or a size such as "4 GB".
        slots: a number of states, in place of `memory`.
        schedule: the fastest within the memory ("auto"), or a kind of schedule; see `diffsim.checkpoint.Policy`.
        disk: the most disk space for states in the folder of the run, such as "20 GB"; None: states stay in memory.
        compression: compression of states on disk: "lossless", or a relative error such as 1e-6; None: no compression.
        verify: compare repeated states with those of the first run.
        resume: seconds between copies of the reverse sweep, from which a killed run resumes; 0: no copies.
    """

    memory: Name = "auto"
    slots: Count | None = None
    schedule: ScheduleName = AUTO
    disk: Name | None = None
    compression: Literal["lossless"] | Positive | None = None
    verify: Flag = True
    resume: NotNegative = 60.0

    @model_validator(mode="after")
    def _together(self) -> Checkpoint:
        if self.slots is not None and self.memory.strip().lower() != "auto":
            raise ValueError(f"expected memory or slots, found memory = {self.memory!r} and slots = {self.slots}; give one of them")
        kind = KINDS.get(self.schedule)
        if self.slots is not None and kind is not None and not kind.takes_slots:
            raise ValueError(f'expected no slots with schedule = "{self.schedule}", found slots = {self.slots}; leave slots out')
        if kind is not None and kind.needs_slow_tiers and self.disk is None:
            raise ValueError(f'expected disk with schedule = {self.schedule!r}, found none; add disk, such as disk = "20 GB"')
        if self.compression is not None and self.disk is None:
            raise ValueError("expected compression together with disk, found it alone; add disk, or drop compression")
        return self


class Certificate(Model):
    """How the gradient is checked.

    Attributes:
        steps: time steps of the check; None: as many as the run's.
        directions: random directions of the Taylor tests.
    """

    steps: Count | None = None
    directions: Annotated[int, Field(strict=True, ge=3, le=1000)] = 3


class Accept(Model):
    """A figure that the answer must reach.

    Attributes:
        quantity: the figure.
            "loss_reduction": loss at the start over loss at the answer.
            "misfit_over_noise": root mean square of the residual over that of the noise; 1 is a perfect fit.
            "correlation": of (answer - start) with (truth - start).
            "relative_error": ‖answer - truth‖ / ‖start - truth‖; 1 is as far as the start.
            "total": the sum over cells of answer - start, over that of truth - start.
            "distance": of the centre of |answer - start| from that of |truth - start|, in units of the grid.
            "transmission": of an objective, the mean over its frequencies.
            "feature_size": cells of the smallest bar or gap of a density.
        of: the unknown, for "misfit_over_noise" the state, for "transmission" the monitor; not needed if there is only one.
        within: the cells that count; None: the free cells.
        at_least: least value that passes.
        at_most: greatest value that passes.
    """

    quantity: Literal[
        "loss_reduction", "misfit_over_noise", "correlation", "relative_error", "total", "distance", "transmission", "feature_size"
    ]
    of: Name | None = None
    within: Where | None = None
    at_least: Real | None = None
    at_most: Real | None = None

    @model_validator(mode="after")
    def _has_limit(self) -> Accept:
        if self.at_least is None and self.at_most is None:
            raise ValueError("expected at_least or at_most, found neither; give a limit")
        return self


class Description(Model):
    """A scene: a question to physics, with everything needed to answer it.

    Attributes:
        name: a short name for folders, not a path. The default is the name of the file.
        title: one line.
        summary: the question, in a few sentences.
        seed: seed of all random numbers.
        grid: see `GridModel`. The other parts have models too.
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

    def stages(self) -> tuple[Stage, ...]:
        """The stages of the search, at least one, with what they take over from `optimise`."""
        inherited = self.optimise.model_dump(include={"method", "iterations", "tolerance"})
        return tuple(
            stage.model_copy(update={key: value for key, value in inherited.items() if getattr(stage, key) is None})
            for stage in self.stage or (Stage(),)
        )

    @model_validator(mode="after")
    def _one_loss(self) -> Description:
        if bool(self.misfit) == bool(self.maximise):
            found = "both" if self.misfit else "neither"
            raise ValueError(f"expected [[misfit]], which compares with data, or [[maximise]] for a design, found {found}; give one")
        if bool(self.monitors) != bool(self.maximise):
            raise ValueError("expected [monitors.NAME] together with [[maximise]], found one without the other; add or drop one")
        if self.maximise:
            given = [name for name in ("truth", "data", "receivers", "uncertainty") if getattr(self, name)]
            if given:
                raise ValueError(f"expected no {given[0]} with [[maximise]], for a design has no data, found it; drop {given[0]}")
        return self

    @model_validator(mode="after")
    def _has_data(self) -> Description:
        if self.maximise:
            return self
        if self.truth is None and not self.data:
            raise ValueError("expected [truth], [data.STATE] or both, found neither; add what the answer is to be compared with")
        return self
