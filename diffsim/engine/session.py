"""The settings of the engine's program, and the lock around it. The program and its threads are global."""

from __future__ import annotations

import atexit
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import whole
from diffsim.base.messages import shown
from diffsim.base.system import (
    core_numbers,
    cores_of_rank,
    give_back_memory,
    own_threads,
    pin_thread,
    processor_vendor,
    register_bytes,
    register_forced,
    usable_cores,
)
from diffsim.engine import engines
from diffsim.engine.cache import remove_temporary
from diffsim.engine.interface import Engine
from diffsim.engine.tuning import tuned
from diffsim.errors import BackendError, StaleValueError

ARCHES = ("cpu", "cuda", "vulkan")
PRECISIONS: dict[str, npt.DTypeLike] = {"f32": np.float32, "f64": np.float64}


class _Lock:
    """A re-entrant lock of threads, which a forked process cannot use.

    Attributes:
        prepare: prepares a thread that enters for calls into the engine.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.prepare: Callable[[], None] | None = None

    def __enter__(self) -> None:
        refuse_forked()
        self._lock.acquire()
        try:
            if self.prepare is not None:
                self.prepare()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        self._lock = threading.RLock()


lock = _Lock()
"""Held around every call into an engine, whose program and thread pool are global and not re-entrant."""


@dataclass(frozen=True)
class Settings:
    """The settings of an initialisation.

    Attributes:
        arch: "cpu", "cuda" or "vulkan".
        precision: default precision of simulations.
        threads: number of CPU threads.
        register_bytes: width of the vector registers that kernels are written for on a CPU.
        engine: that compiles and runs kernels, "taichi" or "quadrants".
        generation: grows with every initialisation. Buffers of an older generation are invalid.
    """

    arch: str
    precision: str
    threads: int
    register_bytes: int
    engine: str
    generation: int


options_in_force: dict[str, str] = {}
"""The options of the present initialisation."""
before_start: list[Callable[[], None]] = []
"""Functions to call before an engine is initialised anew, which ends all compiled kernels."""
_current: Settings | None = None  # read and written under `lock`, so that other threads wait while `init` works
_generations = itertools.count(1)
_running: Engine | None = None  # the engine that was initialised last
_forked = False  # whether this process was forked from one in which an engine was initialised


def _after_fork() -> None:
    """Handle a child process: the engine's threads do not exist there, and waiting for them never ends.

    The same wait would come at the end of the interpreter, which frees the engine's program. So the program is never freed.
    """
    global _forked
    lock.renew()  # a thread that does not exist in the child may have held it
    if _running is not None:
        _forked = True
        _running.never_free()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def refuse_forked() -> None:
    """Raise in a forked process, before it waits for a lock whose holder may not exist."""
    if _forked:
        raise BackendError(
            "expected a process in which diffsim was started, got one forked from it, in which the engine's threads are missing; start "
            'processes with multiprocessing.get_context("spawn"), or fork before diffsim is first used'
        )


def require_precision(arch: str, precision: str) -> None:
    """Refuse a precision that an arch has not.

    Raises:
        BackendError: f64 on Vulkan, whose drivers need not have it.
    """
    if arch == "vulkan" and precision == "f64":
        raise BackendError("precision = 'f64' is not available on arch 'vulkan' (Vulkan shaders have no f64 here); use f32 or the cpu")


def init(
    arch: str = "auto", precision: str | None = None, threads: int | None = None, anew: bool = False, engine: str = "auto"
) -> Settings:
    """Initialise the engine that runs kernels, or initialise it anew. Optional: otherwise it happens on first use.

    A call with the present settings does nothing. Other settings free all kernels, which the engine keeps until then, also those of deleted
    simulations. A call that fails changes nothing.

    Args:
        arch: "cpu", "cuda", "vulkan", or "auto": the environment's DIFFSIM_ARCH, else "cpu".
        precision: default precision of simulations, "f32" or "f64"; None: DIFFSIM_PRECISION, else "f32".
        threads: CPU threads; None: as many as the process may use (affinity and cgroup quota), and under a launcher of MPI its share.
        anew: free all kernels also if the settings do not change.
        engine: "taichi", "quadrants", or "auto": the environment's DIFFSIM_ENGINE, else "taichi". Kernels of your own need the engine
            whose language they are written in.

    Returns:
        The present settings. A simulation whose kernels were freed raises `StaleValueError` when it is used.

    Raises:
        BackendError: an unknown arch, precision or engine, more threads than usable cores, or a missing device.
        MissingPackageError: the package of the engine is not installed.

    Example:
        import diffsim as ds

        settings = ds.init(arch="cpu", precision="f32")
        assert settings.threads >= 1
    """
    global _current, _running
    refuse_forked()
    engine = engines.name_of(engine)
    if isinstance(arch, str) and arch == "auto":
        arch = os.environ.get("DIFFSIM_ARCH", "cpu")
    if precision is None:
        precision = os.environ.get("DIFFSIM_PRECISION", "f32")
    if not isinstance(arch, str) or arch not in ARCHES:
        raise BackendError(f"arch = {shown(arch)} is unknown; choose one of {', '.join(ARCHES)} or auto")
    if not isinstance(precision, str) or precision not in PRECISIONS:
        raise BackendError(f"precision = {shown(precision)} is unknown; choose f32 or f64")
    require_precision(arch, precision)
    cores = usable_cores()
    if threads is None:
        threads = cores_of_rank()
    threads = whole("threads", threads, 1, cores, "choose as many as the cores that this process may use, or fewer", BackendError)
    if not isinstance(anew, bool):
        raise BackendError(f"anew = {shown(anew)}, expected True or False")
    width = compiled_register_bytes(engine)
    with lock:
        if not anew and _current is not None and (arch, precision, threads, width, engine) == astuple(_current)[:-1]:
            return _current
        chosen = engines.load(engine)
        _require_device(chosen, arch, _current is not None)
        ti = chosen.language
        options: dict[str, Any] = {"arch": getattr(ti, arch), "log_level": ti.ERROR, "default_ip": ti.i32, "fast_math": False}
        options |= {"advanced_optimization": False}  # compilers behind the engine do the same; its own passes take most of a compilation
        if arch == "cpu":
            # vector elements stay vectors; a loop over workers is shared out however few they are
            options |= {"cpu_max_num_threads": threads, "real_matrix_scalarize": False, "make_cpu_multithreading_loop": False}
        elif arch == "cuda":
            options |= {"device_memory_fraction": 0.8}
        before, _running = _running, chosen
        try:
            _start(before, chosen, arch, threads, options)
        except BaseException:
            _current = None  # the former program has ended, and there is no new one
            raise
        if before is not None:
            give_back_memory()
        _current = Settings(arch, precision, threads, width, engine, next(_generations))
        return _current


def compiled_register_bytes(engine: str | None = None) -> int:
    """Width of the vector registers that kernels are written for, by the engine of this name, else the present one.

    DIFFSIM_REGISTER_BYTES sets it, else the measurement of `diffsim tune` (`tuned`), else a rule (`usual_register_bytes`).
    """
    name = engine or engines.chosen()
    measured = None if register_forced() else tuned(name)
    return usual_register_bytes(name) if measured is None else measured.register_bytes


def usual_register_bytes(engine: str) -> int:
    """The CPU's width of registers (`diffsim.base.system.register_bytes`), but for AMD's processors with AVX-512 with an engine that takes
    them for their predecessor (`Engine.llvm`)."""
    width = register_bytes()
    misread = processor_vendor() == "AuthenticAMD" and not register_forced() and engines.ENGINES[engine].llvm < engines.FIRST_LLVM_OF_ZEN_4
    return min(width, 32) if misread else width


def _start(before: Engine | None, chosen: Engine, arch: str, threads: int, options: dict[str, Any]) -> None:
    """Start an engine's program. All kernels that were compiled before end here."""
    for forget in before_start:
        forget()
    if before is not None and before is not chosen:
        before.stop()
    engines.use(chosen)
    options_in_force.clear()
    options_in_force.update({name: str(value) for name, value in sorted(options.items())})
    threads_before = own_threads()
    lock.prepare = None
    started = chosen.start(options)
    if chosen.cuda is not None:
        lock.prepare = chosen.cuda.adopt
    if started != arch:
        raise _missing(arch, f"{chosen.title} fell back to {started}")
    if arch == "cpu":
        _spread(sorted(own_threads() - threads_before)[-threads:])


def _end() -> None:
    """Remove the temporary folder of compiled kernels, if there is one. The program, which writes kernels when it ends, ends before."""
    global _current, _running
    if _forked or _running is None or _running.cache is None or not _running.cache.temporary:
        return  # of a forked process, the folder is that of its parent
    with lock:
        for forget in before_start:
            forget()
        _running.stop()
        _current = _running = None
        remove_temporary()


atexit.register(_end)  # at import, so that functions which use diffsim at the end come before it


def _missing(arch: str, why: str) -> BackendError:
    return BackendError(f"arch = {shown(arch)} is not available on this machine ({why}); give arch='cpu' (--arch cpu to the command)")


def _require_device(engine: Engine, arch: str, running: bool) -> None:
    """Raise unless the engine can run on a GPU's arch.

    An engine ends a running program before it searches for a device. So if a program runs, the device is first tried in a separate process.
    """
    if arch == "cpu":
        return
    if not engine.finds_driver(arch):
        raise _missing(arch, f"{engine.title} finds no driver for it")
    if running and subprocess.run([sys.executable, "-c", engine.trial(arch)], capture_output=True).returncode:
        raise _missing(arch, f"{engine.title}'s driver for it finds no device")


def _spread(pool: Sequence[tuple[int, int]]) -> None:
    """Give each thread of the engine's pool, those that it made last, a core of its own where there are as many as cores.

    Workers that wait for one another lose a scheduler tick, 4 ms, whenever two of them are woken on one core. Where there are more cores
    than workers that hardly happens, and the choice of cores is better left to the system, which sees other processes.
    """
    cores = core_numbers()
    if 1 < len(cores) == len(pool):
        for (_, thread), core in zip(pool, cores, strict=True):
            pin_thread(thread, core)


def settings() -> Settings:
    """The present settings. It initialises with defaults on first use, and waits for an initialisation in progress."""
    with lock:
        return init() if _current is None else _current


def running_on_host() -> bool:
    """True if the engine is initialised, and its kernels work on the memory of NumPy arrays."""
    with lock:
        return _current is not None and _current.arch == "cpu"


def kept_in() -> str:
    """The folder in which the present program keeps compiled kernels, and whether it goes with this process."""
    settings()
    folder = engines.present().cache
    return "" if folder is None else f"{folder.path}{', which goes with the process' if folder.temporary else ''}"


def check_generation(generation: int) -> None:
    """Raise unless buffers made under `generation` are still alive. Who holds `lock` can rely on it until the lock is released."""
    current = _current if _current is not None else settings()
    if current.generation != generation:
        raise StaleValueError("this simulation was built before diffsim.init() changed settings, which frees its kernels; build it anew")
