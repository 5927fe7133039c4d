"""Processes by MPI. `mpi4py` is imported here alone, when domains are asked for."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

from diffsim.base.packages import needed_by
from diffsim.base.system import launched_ranks, leave_core, local_rank
from diffsim.domains.ranks import Alone, Ranks
from diffsim.errors import DiffsimError, MissingPackageError, ParameterError
from diffsim.typing import Array

Value = TypeVar("Value")
WRONG_USE = 2
"""Exit status after an error of diffsim."""
FORWARDING = 0.3
"""Seconds in which the launcher passes on what a rank wrote before the rank ends all: it may drop what has not left the pipe then."""
PATIENCE = 1.0
"""Seconds that other ranks leave rank 0 to report an error that all have."""


class MpiRanks:
    """All processes that a launcher of MPI has started.

    An error that leaves the program on one rank ends all of them.
    """

    launched = True

    def __init__(self, communicator: Any) -> None:
        from mpi4py import MPI

        self._communicator, self._all_done = communicator, MPI.Request.Testall
        self.rank, self.size = communicator.rank, communicator.size

    def gathered(self, value: Value) -> list[Value]:
        every: list[Value] = self._communicator.allgather(value)
        return every

    def exchanged(self, outgoing: Mapping[int, Sequence[Array]], incoming: Mapping[int, Sequence[Array]]) -> None:
        requests = [self._communicator.Irecv(values, sender) for sender, each in incoming.items() for values in each]
        requests += [self._communicator.Isend(values, to) for to, each in outgoing.items() for values in each]
        while not self._all_done(requests):  # a wait inside of MPI keeps the core, which another rank may need to go on
            leave_core()

    def shared(self, values: Array, root: int) -> Array:
        self._communicator.Bcast(values, root)
        return values

    def abort(self, status: int) -> None:
        self._communicator.Abort(status)

    def group(self, size: int) -> MpiRanks:
        return MpiRanks(self._communicator.Split(self.rank // size, self.rank))


_known: list[Ranks] = []


def ranks() -> Ranks:
    """The processes of this program: one, unless a launcher of MPI started it.

    Raises:
        MissingPackageError: a launcher started it, and mpi4py is not installed, or finds no MPI.
        ParameterError: mpi4py is built for another MPI than the launcher's.
        SystemExit: an error of these in another process than the first one of this machine, which reports it for all of them.
    """
    if not _known:
        try:
            _known.append(_found())
        except DiffsimError:
            if local_rank():
                raise SystemExit(WRONG_USE) from None
            raise
    return _known[0]


@contextmanager
def in_groups(size: int) -> Iterator[Ranks]:
    """Divide the processes into groups of neighbouring numbers. Inside of the `with` block, `ranks` has those of this group.

    Args:
        size: processes of a group.

    Returns:
        All processes.

    Raises:
        ParameterError: their number is no multiple of `size`.
    """
    everyone = ranks()
    if not everyone.launched or everyone.size == size:
        yield everyone
        return
    if everyone.size % size:
        least = max(everyone.size // size, 1) * size
        raise ParameterError(
            f"domains of {size} boxes, expected a multiple of {size} ranks, got {everyone.size}; start the program with "
            f"mpiexec -n {least}, or {least + size} for {least // size + 1} groups of shots"
        )
    _known[0] = everyone.group(size)
    try:
        yield everyone
    finally:
        _known[0] = everyone


def _found() -> Ranks:
    launched = launched_ranks()
    if launched is None and "mpi4py.MPI" not in sys.modules:
        return Alone()
    with needed_by("a simulation over many processes"):
        try:
            from mpi4py import MPI
        except ModuleNotFoundError:
            raise
        except (ImportError, RuntimeError) as error:  # the package is there, and the library of MPI is not
            first_line = str(error).partition("\n")[0]
            raise MissingPackageError(
                f"a simulation over many processes expected an MPI that mpi4py can load, found none ({first_line}); "
                "install one beside it: python -m pip install mpich",
                name="mpich",
            ) from None
    world = MPI.COMM_WORLD
    if launched is not None and launched > 1 and world.size == 1:
        raise ParameterError(
            f"expected mpi4py for the MPI whose launcher started {launched} processes, got one for {MPI.get_vendor()[0]}, which sees one "
            "process; start with the mpiexec of that MPI, or install mpi4py for the other"
        )
    if world.size == 1:
        return Alone(launched=launched is not None)
    _end_together(world)
    return MpiRanks(world)


def end_all_ranks(error: BaseException) -> bool:
    """End all ranks with the message of an error, if there are several. Return whether there are."""
    several = any(known.size > 1 for known in _known)
    if several:
        sys.excepthook(type(error), error, error.__traceback__)
    return several


def leave_together(status: int) -> int:
    """End all ranks, if there are several, where one leaves the program early and says why itself. Return the status."""
    for known in _known:
        if known.size > 1:
            sys.stdout.flush()
            sys.stderr.flush()
            time.sleep(PATIENCE)  # others may have been interrupted too, and say so
            known.abort(status)
    return status


def _end_together(world: Any) -> None:
    """Let an error that leaves the program on one rank end all ranks, with the message of that rank."""

    def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if world.rank:
            time.sleep(PATIENCE)  # most errors are those of all ranks, and rank 0 then ends the others
        if isinstance(error, DiffsimError):
            sys.stderr.write(f"diffsim: rank {world.rank} of {world.size}: {kind.__name__}: {error}\n")
        else:
            traceback.print_exception(kind, error, trace)
        sys.stderr.flush()
        time.sleep(FORWARDING)
        world.Abort(WRONG_USE if isinstance(error, DiffsimError) else 1)

    sys.excepthook = report
