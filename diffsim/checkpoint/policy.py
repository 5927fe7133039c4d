"""The user's settings for checkpointing."""

from __future__ import annotations

import functools
import operator
import tempfile
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from diffsim.base.arguments import function, path_of
from diffsim.base.messages import shown
from diffsim.checkpoint.planning.memory import parse_memory
from diffsim.checkpoint.progress import OnProgress
from diffsim.checkpoint.schedule import AUTO, KINDS, AnySchedule, Schedule, require_count, require_schedule
from diffsim.checkpoint.schedules.binomial import Binomial
from diffsim.checkpoint.storage.compression import Compression
from diffsim.checkpoint.storage.failure import failure
from diffsim.errors import ParameterError


@runtime_checkable
class Planned(Protocol):
    """A finished plan, such as a `Plan`."""

    def as_policy(self) -> Policy:
        """The policy that runs the plan."""


@dataclass(frozen=True)
class Policy:
    """How to store the states that a reverse sweep needs.

    Args:
        memory: the most memory that the gradient may take, such as "4 GB" or bytes; None: half of the available memory.
        slots: states kept in memory, in place of as many as `memory` allows.
        schedule: "auto" (the fastest within the memory), the name of a kind (one of `diffsim.checkpoint.KINDS`), a `Schedule`, or an
            `OnlineSchedule`.
        disk: the most bytes for states on disk; None: states stay in memory.
        host: the most bytes for states in the host's memory, in addition to `memory`, for models on another device; None: no states there.
        folder: folder for the file of states on disk, and for the copies of the reverse sweep.
        compression: compression of states on disk; None: no compression.
        verify: compare repeated states with those of the first run.
        resume: seconds between copies of the reverse sweep in `folder`, from which the same call resumes after the process was
            killed; 0: no copies. Only simulations accept it, and not if their run ends by a condition (`until=`).
        progress: called now and then with the share of the work that is done and the seconds left, such as a `ProgressBar`. It is for
            runs that `diffsim.grad` and the like differentiate, which have no `on_progress`.

    Raises:
        ParameterError: a value is invalid, or two contradict each other.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.checkpoint import Policy

        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((40,), spacing=0.05), dt=0.1))
        inputs = {"kappa": np.full(40, 5e-3), "T": np.linspace(0.0, 1.0, 40)}
        policy = Policy(slots=6, schedule="binomial", verify=True)

        def loss(solution):
            return (solution.final["T"] ** 2).sum()

        value, gradient = rod.value_and_grad(loss, inputs, steps=60, checkpoint=policy)
        stored = rod.value_and_grad(loss, inputs, steps=60, checkpoint=Policy(schedule="store_all"))[1]
        assert (gradient["kappa"] == stored["kappa"]).all()  # the same bits
    """

    memory: str | int | None = None
    slots: int | None = None
    schedule: str | AnySchedule = AUTO
    disk: str | int | None = None
    host: str | int | None = None
    folder: Path | None = None
    compression: Compression | None = None
    verify: bool = True
    resume: float = 0.0
    progress: OnProgress | None = None

    def __post_init__(self) -> None:
        for size in (self.memory, self.disk, self.host):
            if size is not None:
                parse_memory(size)
        self._check_kinds()
        if self.memory is not None and self.slots is not None:
            raise ParameterError(
                f"expected memory or slots, got memory = {shown(self.memory)} and slots = {shown(self.slots)}; give one of them"
            )
        if self.slots is not None and isinstance(self.schedule, str) and self.schedule != AUTO and not KINDS[self.schedule].takes_slots:
            raise ParameterError(
                f'expected no slots with schedule = "{self.schedule}", which keeps every step, got {shown(self.slots)}; leave slots out'
            )
        if self.disk is not None and self.folder is None:
            raise ParameterError("expected a folder for the states on disk, got none; give folder=")
        if self.resume and self.folder is None:
            raise ParameterError("expected a folder for the copies of the reverse sweep, got none; give folder=")

    def _check_kinds(self) -> None:
        """Refuse values of the wrong type."""
        if not isinstance(self.schedule, str):
            require_schedule(self.schedule, f"a kind of schedule ({_names()}) or a schedule")
        elif self.schedule != AUTO and self.schedule not in KINDS:
            raise ParameterError(f"schedule = {shown(self.schedule)} is unknown; choose one of {_names()}, or give a Schedule")
        if self.slots is not None:
            require_count("slots", self.slots)
        if self.compression is not None and (isinstance(self.compression, str) or not hasattr(self.compression, "encode")):
            raise ParameterError(
                f"expected Lossless(), Lossy(relative_error) or None as compression, got {shown(self.compression)}; give one"
            )
        if not isinstance(self.verify, bool):
            raise ParameterError(f"expected verify to be True or False, got {shown(self.verify)}; give one of them")
        number = isinstance(self.resume, (int, float, np.integer, np.floating)) and not isinstance(self.resume, bool)
        if not number or not 0.0 <= self.resume < float("inf"):
            raise ParameterError(f"expected resume to be seconds between copies, 0 for none, got {shown(self.resume)}; give a number")
        function("progress", self.progress, "ProgressBar()")
        if self.folder is not None:
            if not isinstance(self.folder, (str, PathLike)):
                raise ParameterError(f"expected the path of a folder, got {shown(self.folder)}; give folder= a path")
            object.__setattr__(self, "folder", path_of("folder", self.folder))

    @classmethod
    def of(cls, checkpoint: Any) -> Policy:
        """The policy for a `checkpoint=` argument: a policy, "auto", a size, a number of slots, a schedule, or a plan.

        Raises:
            ParameterError: none of these.
        """
        wanted = "'auto', a size such as '4 GB', a number of states, a schedule, a Policy or a Plan"
        if isinstance(checkpoint, Policy):
            return checkpoint
        if isinstance(checkpoint, str):
            if checkpoint.strip().lower() == AUTO:
                return _default()
            if checkpoint.strip().isidentifier():
                kinds = f"={shown(checkpoint)})" if checkpoint in KINDS else f"=...) with one of {_names()}"
                raise ParameterError(
                    f"expected {wanted} as checkpoint, got {shown(checkpoint)}; for a kind of schedule write Policy(schedule{kinds}"
                )
            return cls(memory=checkpoint)
        if isinstance(checkpoint, Planned) and not isinstance(checkpoint, type):
            return checkpoint.as_policy()
        try:
            slots = None if isinstance(checkpoint, (bool, type)) else operator.index(checkpoint)
        except TypeError:
            slots = None
        return cls(schedule=require_schedule(checkpoint, f"{wanted} as checkpoint")) if slots is None else cls(slots=slots)

    @property
    def runs_backwards(self) -> bool:
        """True if the requested schedule undoes steps."""
        if isinstance(self.schedule, str):
            return self.schedule != AUTO and KINDS[self.schedule].runs_backwards
        return self.schedule.runs_backwards

    def for_rest(self, steps: int) -> Policy:
        """The same policy for the first `steps` steps of the run."""
        if not isinstance(self.schedule, Schedule):
            return self if self.slots is None else replace(self, slots=min(self.slots, steps))
        shorter = self.schedule.shortened(steps)
        if shorter is None:
            return replace(self, schedule=Binomial(steps, max(min(self.schedule.slots, steps), 1)), slots=None)
        return replace(self, schedule=shorter)

    def file(self, name: str) -> Path:
        """The path of a file in the folder. The folder is created if necessary."""
        return self.writable_folder() / name

    def writable_folder(self) -> Path:
        """The folder, created if necessary. If none was given: the system's folder of temporary files, for files without a name."""
        folder = Path(tempfile.gettempdir()) if self.folder is None else self.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise failure(folder, "making the folder", error) from error
        return folder

    def __repr__(self) -> str:
        changed = [f for f in fields(self) if getattr(self, f.name) != f.default]
        return f"Policy({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in changed)})"


@functools.cache
def _default() -> Policy:
    return Policy()


def _names() -> str:
    """The names that `schedule=` accepts, as text."""
    return ", ".join((AUTO, *KINDS))


Checkpoint: TypeAlias = str | int | AnySchedule | Policy | Planned
"""The values of a `checkpoint=` argument: "auto", a size such as "4 GB", a number of slots, a schedule, a policy, or a `Plan`.

Example:
    import numpy as np

    import diffsim as ds
    from diffsim.checkpoint import Binomial, Checkpoint

    rod = ds.Simulation(ds.solvers.Heat(ds.Grid((40,), spacing=0.05), dt=0.1))
    inputs = {"kappa": np.full(40, 5e-3), "T": np.linspace(0.0, 1.0, 40)}
    requests: list[Checkpoint] = ["auto", "50 MB", 6, Binomial(60, 4)]
    results = [rod.value_and_grad(lambda end: end.final["T"][3], inputs, steps=60, checkpoint=each) for each in requests]
    assert all((gradient["T"] == results[0][1]["T"]).all() for _, gradient in results)
"""
