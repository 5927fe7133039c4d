"""The keys of a search in a scene: its method and stages, its checkpoints, its uncertainty, its certificate and its verdict."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    Field,
    model_validator,
)

from diffsim.base.messages import shown
from diffsim.checkpoint.schedule import AUTO, KINDS
from diffsim.scene.schema.parts import Where
from diffsim.scene.words.model import (
    CellWidths,
    Count,
    Flag,
    Model,
    Name,
    NotNegative,
    Positive,
    Real,
    Widths,
)
from diffsim.scene.words.suggest import nearest

MethodName: TypeAlias = Literal["L-BFGS-B", "gauss-newton", "adam"]


class Optimise(Model):
    """How the loss is minimised.

    Attributes:
        method: "L-BFGS-B": quasi-Newton; "gauss-newton": steps by conjugate gradients; "adam": steps of about one length. All keep the
            bounds.
        iterations: at most. Most take one gradient each; with "gauss-newton" some products more.
        tolerance: stop when an iteration lowers the loss by no more than this fraction of its start; 0: until nothing is gained. "adam"
            stops after its iterations.
        rate: of "adam": about the change of each variable in an iteration, where 1 is the `scale` of the unknown.
        batch (shots): of "adam": shots of an evaluation, in an order that `seed` decides; each is taken once in an epoch. None: all shots.
    """

    method: MethodName = "L-BFGS-B"
    iterations: Count = 50
    tolerance: Annotated[float, Field(strict=True, ge=0, lt=1)] = 1e-9
    rate: Positive = 0.1
    batch: Count | None = None


class Stage(Model):
    """One of several searches. It starts from the answer of the one before.

    Attributes:
        lowpass (Hz): traces and predictions are filtered alike: corner frequency above which they are damped; none: no such corner.
        highpass (Hz): corner frequency below which they are damped.
        smooth (cells): by the name of an unknown: `smooth` of its variables in this stage; else that of the unknown.
        steepness: by the name of an unknown that is [a density](#density): `steepness` in this stage; else that of the unknown.
        jumps (1/field²): by the name of an unknown with jumps between [windows](#windows): their weight in this stage; else that of the
            unknown.
        method: none: that of `optimise`.
        iterations: at most; none: those of `optimise`.
        tolerance: none: that of `optimise`.
    """

    lowpass: Positive | None = None
    highpass: Positive | None = None
    smooth: dict[Name, CellWidths] = Field(default_factory=dict)
    steepness: dict[Name, Positive] = Field(default_factory=dict)
    jumps: dict[Name, Positive] = Field(default_factory=dict)
    method: MethodName | None = None
    iterations: Count | None = None
    tolerance: Annotated[float, Field(strict=True, ge=0, lt=1)] | None = None


def _known_schedule(name: str) -> str:
    if name not in (known := (AUTO, *KINDS)):
        raise ValueError(f"expected one of {', '.join(known)}, found {shown(name)}; {nearest(name, known)}")
    return name


ScheduleName: TypeAlias = Annotated[str, AfterValidator(_known_schedule)]


class PriorModel(Model):
    """Prior knowledge of an unknown: a Gaussian field around the answer's neighbourhood.

    Attributes:
        deviation (field): standard deviation of each value.
        length (m): correlation length, in seconds along time; none: values are independent. Good: the size of expected structures.
    """

    deviation: Positive
    length: Widths | None = None


class UncertaintyModel(Model):
    """The uncertainty of the answer.

    Attributes:
        rank: number of eigenpairs. The cost is 2 (rank + 10) products, each about two gradients. Enough where the last eigenvalue is well
            below 1.
        prior: by the name of an unknown: knowledge of it before the records. None: its tikhonov penalties; together they need one of order
            0, since orders 1 and 2 leave the mean free.
    """

    rank: Count = 40
    prior: dict[Name, PriorModel] = Field(default_factory=dict)


class Checkpoint(Model):
    """How the reverse sweep stores states of the forward run.

    Attributes:
        memory: the most memory of a gradient, such as `"4 GB"`; "auto": half of the available memory. `--memory 4GB` sets the same on the
            command line. Processes of `--workers 4` take a quarter each.
        slots (states): a number of states instead.
        schedule: the fastest within the memory, or the name of a [kind](checkpointing.md#which-schedule-is-for-what). Good: "auto".
        disk: the most that states may take in the folder of the run, such as `"20 GB"`; none: memory alone.
        compression: of states on disk; a number is a relative error, such as 1e-6.
        verify: compare states that are computed again with those of the first run, and raise if they differ.
        resume (s): between copies of the reverse sweep, from which a killed run resumes; 0: none.
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
            raise ValueError(f"expected memory or slots, found memory = {shown(self.memory)} and slots = {self.slots}; give one of them")
        kind = KINDS.get(self.schedule)
        if self.slots is not None and kind is not None and not kind.takes_slots:
            raise ValueError(f'expected no slots with schedule = "{self.schedule}", found slots = {self.slots}; leave slots out')
        if kind is not None and kind.needs_slow_tiers and self.disk is None:
            raise ValueError(f'expected disk with schedule = {shown(self.schedule)}, found none; add disk, such as disk = "20 GB"')
        if self.compression is not None and self.disk is None:
            raise ValueError("expected compression together with disk, found it alone; add disk, or drop compression")
        return self


class Certificate(Model):
    """How the gradient is checked.

    Attributes:
        steps: time steps of the check; none: those of the run. Good: a few hundred, with which something reaches the receivers.
        directions: random directions.
    """

    steps: Count | None = None
    directions: Annotated[int, Field(strict=True, ge=3, le=1000)] = 3


OF_RECORDS = ("misfit_over_noise", "variance_reduction", "lag", "peak")
"""Acceptance figures of the records of a state."""


class Accept(Model):
    """A figure that the answer must reach.

    "loss_reduction": loss at the start over loss at the answer.
    "misfit_over_noise": root mean square of the residual over that of the noise; 1 is a perfect fit.
    "correlation": of (answer - start) with (truth - start).
    "relative_error": ‖answer - truth‖ / ‖start - truth‖; 1 is as far as the start.
    "total": the sum over cells of answer - start, over that of truth - start.
    "distance": of the centre of |answer - start| from that of |truth - start|, in units of the grid.
    "transmission": of an objective, the mean over its frequencies.
    "feature_size": cells of the smallest bar or gap of a density.
    "variance_reduction": 1 - Σ w (data - prediction)² / Σ w data² of records with weights w; 1 is a perfect fit.
    "lag": time by which predictions come late, s.
    "peak": largest size of the prediction over that of the record.

    Attributes:
        quantity: which figure.
        of: the unknown, for figures of records the state, for "transmission" the monitor behind the design; not needed if there is only
            one.
        each: a line for each receiver, of "misfit_over_noise", "variance_reduction", "lag" and "peak"; none: of the last three their mean
            over the receivers, of a lag the largest size.
        within: cells that count, for "correlation", "relative_error", "total" and "distance"; none: the free cells.
        at_least: least value that passes.
        at_most: greatest value that passes; one of the two limits is needed. Alone it is a limit for the size of each lag.
    """

    quantity: Literal[
        "loss_reduction",
        "misfit_over_noise",
        "correlation",
        "relative_error",
        "total",
        "distance",
        "transmission",
        "feature_size",
        "variance_reduction",
        "lag",
        "peak",
    ]
    of: Name | None = None
    each: Literal["receiver"] | None = None
    within: Where | None = None
    at_least: Real | None = None
    at_most: Real | None = None

    @model_validator(mode="after")
    def _has_limit(self) -> Accept:
        if self.at_least is None and self.at_most is None:
            raise ValueError("expected at_least or at_most, found neither; give a limit")
        if self.each is not None and self.quantity not in OF_RECORDS:
            raise ValueError(f'expected each = "receiver" with {", ".join(OF_RECORDS)}, found it with {self.quantity}; drop each')
        return self
