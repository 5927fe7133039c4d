"""The shots of a scene in several processes, by `dask.distributed`.

The head adds up the results in the order of the shots, whenever they arrive, so sums have the same bits as in one process. The data that a
worker needs go to it once. A shot of a worker that died is given to another one.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union
from weakref import WeakKeyDictionary

from diffsim.base.arguments import whole
from diffsim.base.messages import shown
from diffsim.base.packages import needed_by
from diffsim.base.start import ENDINGS
from diffsim.base.system import available_memory
from diffsim.engine import settings
from diffsim.errors import ParameterError, WorkerError
from diffsim.scene.disk.shot_progress import ShotProgress
from diffsim.scene.shots.cluster_worker import Conditions, Parcel, available_here, run_shots, store
from diffsim.scene.shots.workers import HERE, Workers

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")

Processes: TypeAlias = Union[int, str, "Client", None]
"""Processes for shots: a number of processes of this machine, the address of a scheduler of dask, or its client; None: this process."""

WANTED = 'a number of processes, the address of a scheduler of dask, such as "tcp://host:8786", or a distributed.Client'
PATIENCE = 60.0
"""Seconds to wait for a worker while there is none."""
MOST_DEATHS = 3
"""Workers that may die while they run a shot, before the run ends."""
SEND_SECONDS = 3
"""Seconds to wait for a worker to which something is sent. It may have died just then, or compile."""
LOOK = 0.5
"""Seconds between two looks at which workers there are."""


@contextmanager
def opened(workers: Processes, shots: int) -> Iterator[Workers]:
    """Runners of the shots of a scene. Processes that it starts end with the `with` block.

    Args:
        workers: a number of processes on this machine, the address of a dask scheduler, or a `distributed.Client`; None: this process.
        shots: number of shots. There is no use for more processes.

    Raises:
        MissingPackageError: `distributed` is not installed.
        ParameterError: `workers` is none of these.
        WorkerError: the processes cannot be started or reached.
    """
    if workers is None:
        yield HERE
        return
    with needed_by("workers="):
        import distributed
    with ExitStack() as stack:
        if isinstance(workers, int):
            crew = _local(workers, shots, stack)
        elif isinstance(workers, (str, distributed.Client)):
            client = stack.enter_context(_connected(workers)) if isinstance(workers, str) else workers
            crew = Cluster(lambda: client, Conditions.of_head(None))
        else:
            raise ParameterError(f"workers = {shown(workers)}, expected {WANTED}; give one of them")
        yield crew
        crew.close()


def _local(workers: int, shots: int, stack: ExitStack) -> Cluster:
    """Processes of this machine, which start when they are needed."""
    count = min(whole("workers", workers, 1, remedy=f"give {WANTED}"), shots)
    if settings().arch != "cpu":
        raise WorkerError(
            f"expected arch = 'cpu' for workers = {workers}, since processes cannot share a GPU, got {shown(settings().arch)}; "
            "give the address "
            "of a scheduler whose workers have a GPU each"
        )
    conditions = Conditions.of_head(max(1, settings().threads // count))
    return Cluster(lambda: stack.enter_context(_started(count)), conditions, count)


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    """A client of a scheduler."""
    from distributed import Client

    try:
        client = Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise WorkerError(
            f"expected a scheduler of dask at {shown(address)}, got none ({error}); start one there by `dask scheduler`"
        ) from error
    with client:
        yield client


@contextmanager
def _started(count: int) -> Iterator[Client]:
    """A client of processes that are started here, and end with the `with` block."""
    import dask
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {
        "distributed.worker.multiprocessing-method": "spawn",
        "distributed.nanny.pre-spawn-environ": {},  # dask would set them in this process too
        "distributed.scheduler.worker-ttl": None,  # a long kernel is no sign of death
    }
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(options))
        try:
            with _blocked():
                cluster = LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,
                )
                stack.enter_context(cluster)
        except (OSError, RuntimeError, TimeoutError) as error:
            raise WorkerError(
                f"expected {count} processes on this machine, got an error while they started ({shown(error)}); in a script, call run() "
                'below `if __name__ == "__main__":`'
            ) from error
        yield stack.enter_context(Client(cluster, set_as_default=False))


@contextmanager
def _blocked() -> Iterator[None]:
    """Signals that end this process wait until the end of the block. Processes that start within it never get them.

    Ctrl-C goes to all processes of a terminal. This one ends the others.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start, with the first process, would let the signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Cluster:
    """Processes that run shots.

    Args:
        connect: called at the first use; returns the client.
        conditions: conditions that the workers share with this process.
        sharing: see `Workers`.
    """

    def __init__(self, connect: Callable[[], Client], conditions: Conditions, sharing: int = 1) -> None:
        self.sharing, self.conditions, self.head = sharing, conditions, uuid.uuid4().hex
        self._connect = connect
        self._connected: Client | None = None
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._next = itertools.count()
        self._has: dict[str, set[int]] = {}

    @property
    def client(self) -> Client:
        """The client."""
        if self._connected is None:
            self._connected = self._connect()
        return self._connected

    def available(self) -> int | None:
        if self.sharing > 1:
            return available_memory() // self.sharing
        self.present()
        return min(self.client.run(available_here).values())

    def run(
        self,
        function: Callable[..., Iterator[T]],
        kept: Sequence[Any],
        given: Sequence[Any],
        shots: Sequence[int],
        progress: ShotProgress | None = None,
    ) -> Iterator[T]:
        return _Call(self, function, kept, given, shots, progress).results()

    def present(self) -> list[str]:
        """The addresses of the workers. It waits for one.

        Raises:
            WorkerError: there is none for a while, or the scheduler is gone.
        """
        began = time.monotonic()
        while True:
            if self.client.status != "running":
                raise WorkerError(f"expected the scheduler of dask at {self._where}, got no answer from it any more; start it again")
            workers = list(self.client.nthreads())
            if workers:
                return workers
            if time.monotonic() - began > PATIENCE:
                raise WorkerError(
                    f"expected workers of the scheduler at {self._where}, got none for {PATIENCE:.0f} s; start some by "
                    f"`dask worker {self._where}`"
                )
            time.sleep(LOOK)

    def numbers_of(self, kept: Sequence[Any], given: Any) -> dict[int, Any]:
        """The arguments of a call by number. That of an object that is kept stays the same."""
        for part in kept:
            if part not in self._numbers:
                self._numbers[part] = next(self._next)
        return {**{self._numbers[part]: part for part in kept}, next(self._next): given}

    def send(self, addresses: Sequence[str], values: Mapping[int, Any]) -> list[str]:
        """Send workers the parts that they do not have yet. Returns those that have all of it now."""
        import dask

        missing = {address: frozenset(values.keys() - self._has.get(address, ())) for address in addresses}
        for numbers in set(missing.values()) - {frozenset()}:
            parcels = {number: Parcel(values[number]) for number in numbers}
            needed = {*self._numbers.values(), *values}
            group = [address for address in addresses if missing[address] == numbers]
            with dask.config.set({"distributed.comm.timeouts.connect": SEND_SECONDS}):
                answers = self.client.run(store, self.head, parcels, needed, workers=group, on_error="return")
            for address, answer in answers.items():
                if isinstance(answer, OSError):  # it does not answer, or not in time
                    continue
                if isinstance(answer, Exception):
                    raise WorkerError(
                        f"expected the worker {address} to take the parts of the scene, got {shown(answer)}; install the same packages "
                        "there, or give it more memory"
                    ) from answer
                self._has[address] = self._has.get(address, set()) & needed | values.keys()
        return [address for address in addresses if values.keys() <= self._has.get(address, set())]

    def forget(self, address: str) -> None:
        """A worker does not have the parts that were sent to it."""
        self._has.pop(address, None)

    def close(self) -> None:
        """Let the workers drop the parts that were sent to them."""
        if self._connected is not None and self._connected.status == "running" and self._has:
            self._connected.run(store, self.head, {}, (), on_error="ignore")

    @property
    def _where(self) -> str:
        return str(self.client.scheduler.address) if self.client.scheduler is not None else "its address"


@dataclass(frozen=True)
class _Running:
    """A shot under way: its place among those of the call, and its worker."""

    place: int
    address: str


class _Call:
    """One evaluation: a function for some shots.

    Every worker has one shot at a time, so all are busy until the last shots, and a worker that dies takes no other shot with it.

    Args:
        cluster: the processes.
        function: see `Workers.run`.
        kept: see there.
        given: see there.
        shots: see there.
        progress: see there.
    """

    def __init__(
        self,
        cluster: Cluster,
        function: Callable[..., Iterator[T]],
        kept: Sequence[Any],
        given: Sequence[Any],
        shots: Sequence[int],
        progress: ShotProgress | None,
    ) -> None:
        self._cluster, self._function, self._shots, self._progress = cluster, function, shots, progress
        self._values = cluster.numbers_of(kept, tuple(given))
        self._waiting = deque(range(len(shots)))
        self._running: dict[Future, _Running] = {}
        self._early: dict[int, Any] = {}
        self._failed: dict[int, Future] = {}
        self._deaths: Counter[int] = Counter()
        self._finished = 0

    def results(self) -> Iterator[Any]:
        """The results, in the order of the shots. That of a later shot waits for those before it, and so does its error."""
        try:
            for place in range(len(self._shots)):
                self._submit()
                while place not in self._early:
                    if place in self._failed:
                        self._failed[place].result()  # raises
                    self._collect()
                    self._submit()
                yield self._early.pop(place)
        finally:
            if self._running and self._cluster.client.status == "running":
                self._cluster.client.cancel(list(self._running))

    def _submit(self) -> None:
        """Give every idle worker a shot."""
        if not self._waiting:
            return
        cluster, busy = self._cluster, {running.address for running in self._running.values()}
        idle = [address for address in cluster.present() if address not in busy][: len(self._waiting)]
        *kept, changing = self._values
        for address in cluster.send(idle, self._values):
            place = self._waiting.popleft()
            future = cluster.client.submit(
                run_shots,
                self._function,
                cluster.conditions,
                cluster.head,
                kept,
                changing,
                [self._shots[place]],
                key=f"diffsim-{self._function.__name__}-{uuid.uuid4().hex}",
                pure=False,
                workers=[address],
            )
            self._running[future] = _Running(place, address)

    def _collect(self) -> None:
        """Wait for a result, or until it is time to look at the workers again."""
        import distributed

        client = self._cluster.client
        if not self._running:  # no worker took the sent parts
            time.sleep(LOOK)
        with client.as_current(), suppress(TimeoutError, asyncio.TimeoutError, distributed.CancelledError):
            distributed.wait(list(self._running), timeout=LOOK, return_when="FIRST_COMPLETED")
        present = self._cluster.present()
        for future, running in list(self._running.items()):
            if future.done():
                self._take(future, self._running.pop(future))
            elif running.address not in present:
                client.cancel([future])
                self._bury(self._running.pop(future))

    def _take(self, future: Future, running: _Running) -> None:
        """Take the result of a shot, or note that it failed, or run it again."""
        from distributed import KilledWorker

        if future.status == "error" and isinstance(future.exception(), KilledWorker):  # `allowed-failures` of dask is low
            self._bury(running)
            return
        if future.status == "lost":  # with its worker; dask waits for another one of the same address
            self._cluster.client.cancel([future])
            self._bury(running)
            return
        if future.status != "finished":
            self._failed[running.place] = future
            self._waiting = deque(place for place in self._waiting if place < running.place)  # no later one is needed
            return
        results = self._fetched(future, running.address)
        if results is None:
            self._cluster.forget(running.address)  # perhaps it was started again, under the same address
            self._bury(running)
            return
        (self._early[running.place],) = results
        self._finished += 1
        if self._progress is not None:
            self._progress.finished(self._finished)

    def _fetched(self, future: Future, address: str) -> list[Any] | None:
        """The result of a shot that its worker has; None if the worker dies before it has sent it. Dask then waits for another worker of
        this address, and there may never be one."""
        client = self._cluster.client
        coming = asyncio.run_coroutine_threadsafe(client.gather(future, asynchronous=True), client.loop.asyncio_loop)
        while not wait([coming], timeout=LOOK).done:
            if address not in self._cluster.present():
                coming.cancel()
                client.cancel([future])
                return None
        results: list[Any] | None = coming.result()
        return results

    def _bury(self, running: _Running) -> None:
        """The worker of a shot has died: another one takes the shot, next of all.

        Raises:
            WorkerError: it is not the first one that died with this shot, nor the second or third.
        """
        self._deaths[running.place] += 1
        if self._deaths[running.place] > MOST_DEATHS:
            raise WorkerError(
                f"expected a result of shot {self._shots[running.place]}, got {MOST_DEATHS + 1} workers that died while they ran it; if "
                "the system ended them, memory may be short: take fewer workers or a smaller checkpoint.memory"
            )
        self._waiting.appendleft(running.place)
