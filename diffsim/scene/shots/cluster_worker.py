"""The part of a cluster that a worker does: it loads the parts that the head sent once, and runs shots with it."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from diffsim.base.system import available_memory, resident_memory, usable_cores
from diffsim.checkpoint import Policy
from diffsim.engine import compiled_register_bytes, init, settings
from diffsim.errors import WorkerError
from diffsim.scene.disk.versions import versions

T = TypeVar("T")

_turn = threading.Lock()
"""A worker runs one shot at a time, with all of its threads."""


@dataclass(frozen=True)
class Conditions:
    """Conditions that a worker must share with the head, so that its shots have the same bits.

    Attributes:
        arch: see `diffsim.init`.
        precision: see `diffsim.init`.
        threads: threads of a shot; None: as many as the worker has.
        register_bytes: width of the registers that kernels are written for.
        engine: see `diffsim.init`.
        versions: of diffsim, Python and the libraries.
        path: folders from which the head imports.
    """

    arch: str
    precision: str
    threads: int | None
    register_bytes: int
    engine: str
    versions: dict[str, str]
    path: tuple[str, ...]

    @classmethod
    def of_head(cls, threads: int | None) -> Conditions:
        """The conditions of a head with the present settings."""
        now = settings()
        return cls(now.arch, now.precision, threads, now.register_bytes, now.engine, versions(), tuple(sys.path))

    def meet(self) -> None:
        """Prepare this process.

        Raises:
            WorkerError: it differs from the head in a condition of the bits.
        """
        here = versions(self.engine)
        for name, version in self.versions.items():
            if here[name] != version:
                raise WorkerError(
                    f"expected {name} {version} at the worker {_address()}, which the head has, got {here[name]}; install the same"
                )
        if compiled_register_bytes(self.engine) != self.register_bytes:
            raise WorkerError(
                f"expected registers of {self.register_bytes} bytes at the worker {_address()}, which the head has, got "
                f"{compiled_register_bytes(self.engine)}; set DIFFSIM_REGISTER_BYTES to one number for head and workers"
            )
        sys.path += [folder for folder in self.path if folder not in sys.path and Path(folder).exists()]
        init(self.arch, self.precision, min(self.threads or _worker().state.nthreads, usable_cores()), engine=self.engine)


class Parcel:
    """Something on its way to a worker, which loads it at its first use and keeps it.

    Args:
        value: the sent object.
    """

    def __init__(self, value: Any) -> None:
        import cloudpickle

        self._content: bytes = cloudpickle.dumps(value)
        self._loaded: tuple[int, Any] | None = None

    def open(self) -> Any:
        """The value. It is loaded anew after `diffsim.init` changed settings, which ends the kernels in it.

        Raises:
            WorkerError: code that it needs cannot be imported here.
        """
        generation = settings().generation
        if self._loaded is None or self._loaded[0] != generation:
            try:
                self._loaded = generation, pickle.loads(self._content)
            except ImportError as error:
                raise WorkerError(
                    f"expected the module {error.name} at the worker {_address()}, which the scene needs, got none; install it there, or "
                    "keep it in a folder that head and workers share"
                ) from error
        return self._loaded[1]


class Shelf:
    """Objects that a worker keeps for its head."""

    def __init__(self) -> None:
        self._head = ""
        self._parcels: dict[int, Parcel] = {}

    def store(self, head: str, parcels: Mapping[int, Parcel], needed: Collection[int]) -> None:
        """Add parcels of a head, and drop those that it does not need any more. Those of another head are dropped."""
        kept = self._parcels if head == self._head else {}
        self._head, self._parcels = head, {**{number: kept[number] for number in kept.keys() & set(needed)}, **parcels}

    def find(self, head: str, numbers: Sequence[int]) -> list[Parcel] | None:
        """Parcels of a head; None: one of them is not here."""
        parcels = self._parcels
        return [parcels[number] for number in numbers] if head == self._head and set(numbers) <= parcels.keys() else None


_shelf = Shelf()


def store(head: str, parcels: Mapping[int, Parcel], needed: Collection[int]) -> None:
    """Add parcels to the shelf of this worker; see `Shelf.store`."""
    _shelf.store(head, parcels, needed)


def run_shots(
    function: Callable[..., Iterator[T]], conditions: Conditions, head: str, kept: Sequence[int], given: int, shots: Sequence[int]
) -> list[T] | None:
    """Run a function for some shots; see `diffsim.scene.shots.workers.Workers.run`.

    Returns:
        The results; None: this worker does not have all arguments, as the one for which they were sent has died.
    """
    with _turn:
        values = _shelf.find(head, [*kept, given])
        if values is None:
            return None
        conditions.meet()
        *parts, last = values
        return list(function(*(part.open() for part in parts), *map(_local, last.open()), shots))


def _local(value: Any) -> Any:
    """An argument as this process takes it.

    A worker that dies loses its shot anyway, so there are no copies of its sweep. States on disk go to the worker's own folder where the
    machine does not have that of the run.
    """
    if not isinstance(value, Policy):
        return value
    folder = value.folder
    if folder is not None and not folder.is_dir():
        folder = Path(_worker().local_directory)
    return replace(value, folder=folder, resume=0.0)


def available_here(dask_worker: Any) -> int:
    """Bytes of memory that this worker may still take, by the system and by its own limit. Dask gives the argument."""
    limit = dask_worker.memory_manager.memory_limit
    free = available_memory()
    return free if not limit else max(min(free, limit - resident_memory()), 0)


def _worker() -> Any:
    from distributed import get_worker

    return get_worker()


def _address() -> str:
    return str(_worker().address)
