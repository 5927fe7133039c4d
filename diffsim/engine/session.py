"""The settings of Taichi's program, and the lock around it. The program and its threads are global."""

from __future__ import annotations

import contextlib
import ctypes
import io
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

from diffsim.arguments import whole
from diffsim.engine.module import taichi
from diffsim.errors import BackendError, StaleValueError
from diffsim.system import (
    core_numbers,
    give_back_memory,
    own_threads,
    pin_thread,
    processor_vendor,
    register_bytes,
    register_forced,
    usable_cores,
)

ARCHES = ("cpu", "cuda", "vulkan")
PRECISIONS: dict[str, npt.DTypeLike] = {"f32": np.float32, "f64": np.float64}


class _Lock:
    """A re-entrant lock of threads, which a forked process cannot use."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        refuse_forked()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        self._lock = threading.RLock()


lock = _Lock()
"""Held around every call into Taichi, whose program and thread pool are global and not re-entrant."""


@dataclass(frozen=True)
class Settings:
    """The settings of an initialisation of Taichi.

    Attributes:
        arch: "cpu", "cuda" or "vulkan".
        precision: default precision of simulations.
        threads: number of CPU threads.
        register_bytes: width of the vector registers in the code of kernels on a CPU.
        generation: grows with every initialisation. Buffers of an older generation are invalid.
    """

    arch: str
    precision: str
    threads: int
    register_bytes: int
    generation: int


options_in_force: dict[str, str] = {}
"""The options of Taichi's present initialisation."""
before_start: list[Callable[[], None]] = []
"""Functions to call before Taichi is initialised anew, which ends all compiled kernels."""
_current: Settings | None = None  # read and written under `lock`, so that other threads wait while `init` works
_generations = itertools.count(1)
_started = False  # whether Taichi was ever initialised
_forked = False  # whether this process was forked from one in which it was initialised


def _after_fork() -> None:
    """Handle a child process: Taichi's threads do not exist there, and waiting for them never ends.

    The same wait would come at the end of the interpreter, which frees Taichi's program. So the program is never freed.
    """
    global _forked
    lock.renew()  # a thread that does not exist in the child may have held it
    if _started:
        from taichi.lang import impl

        _forked = True
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(impl.get_runtime().prog))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def refuse_forked() -> None:
    """Raise in a forked process, before it waits for a lock whose holder may not exist."""
    if _forked:
        raise BackendError(
            "expected a process in which diffsim was started, got one forked from it, in which Taichi's threads are missing; start "
            'processes with multiprocessing.get_context("spawn"), or fork before diffsim is first used'
        )


def init(arch: str = "auto", precision: str | None = None, threads: int | None = None, anew: bool = False) -> Settings:
    """Initialise Taichi, or initialise it anew. Optional: otherwise it happens on first use.

    A call with the present settings does nothing. Other settings free all kernels, which Taichi keeps until then, also those of deleted
    simulations. A call that fails changes nothing.

    Args:
        arch: "cpu", "cuda", "vulkan", or "auto": the environment's DIFFSIM_ARCH, else "cpu".
        precision: default precision of simulations, "f32" or "f64"; None: DIFFSIM_PRECISION, else "f32".
        threads: CPU threads; None: as many as the process may use (affinity and cgroup quota).
        anew: free all kernels also if the settings do not change.

    Returns:
        The present settings. A simulation whose kernels were freed raises `StaleValueError` when it is used.

    Raises:
        BackendError: an unknown arch or precision, more threads than usable cores, or a missing device.

    Example:
        import diffsim as ds

        settings = ds.init(arch="cpu", precision="f32")
        assert settings.threads >= 1
    """
    global _current, _started
    refuse_forked()
    if isinstance(arch, str) and arch == "auto":
        arch = os.environ.get("DIFFSIM_ARCH", "cpu")
    if precision is None:
        precision = os.environ.get("DIFFSIM_PRECISION", "f32")
    if not isinstance(arch, str) or arch not in ARCHES:
        raise BackendError(f"arch = {arch!r} is unknown; choose one of {', '.join(ARCHES)} or auto")
    if not isinstance(precision, str) or precision not in PRECISIONS:
        raise BackendError(f"precision = {precision!r} is unknown; choose f32 or f64")
    if arch == "vulkan" and precision == "f64":
        raise BackendError(
            "precision = 'f64' is not available on arch 'vulkan' (Taichi's Vulkan shaders have no f64 here); use f32 or the cpu"
        )
    cores = usable_cores()
    if threads is None:
        threads = cores
    threads = whole("threads", threads, 1, cores, "choose as many as the cores that this process may use, or fewer", BackendError)
    if not isinstance(anew, bool):
        raise BackendError(f"anew = {anew!r}, expected True or False")
    width = compiled_register_bytes()
    with lock:
        if not anew and _current is not None and (arch, precision, threads, width) == astuple(_current)[:-1]:
            return _current
        _require_device(arch, _current is not None)
        ti = taichi()
        options: dict[str, Any] = {"arch": getattr(ti, arch), "log_level": ti.ERROR, "default_ip": ti.i32, "fast_math": False}
        if arch == "cpu":
            # vector elements stay vectors; a loop over workers is shared out however few they are
            options |= {"cpu_max_num_threads": threads, "real_matrix_scalarize": False, "make_cpu_multithreading_loop": False}
            options |= {"advanced_optimization": False}  # LLVM does the same again; Taichi's own passes take most of a compilation
        else:
            options |= {"device_memory_fraction": 0.8} if arch == "cuda" else {}
        again, _started = _started, True
        try:
            _start(arch, threads, options)
        except BaseException:
            _current = None  # the former program has ended, and there is no new one
            raise
        if again:
            give_back_memory()
        _current = Settings(arch, precision, threads, width, next(_generations))
        return _current


def compiled_register_bytes() -> int:
    """Width of the vector registers in the code of kernels.

    It is the CPU's (`diffsim.system.register_bytes`), but for AMD's processors with AVX-512: Taichi's LLVM 15 is older than they are, takes
    them for their predecessor, and uses AVX2.
    """
    width = register_bytes()
    return min(width, 32) if processor_vendor() == "AuthenticAMD" and not register_forced() else width


def _start(arch: str, threads: int, options: dict[str, Any]) -> None:
    """Start Taichi's program. All kernels that were compiled before end here."""
    from taichi.lang import impl

    ti = taichi()
    for forget in before_start:
        forget()
    options_in_force.clear()
    options_in_force.update({name: str(value) for name, value in sorted(options.items())})
    before = own_threads()
    with contextlib.redirect_stdout(io.StringIO()):  # it prints which arch it starts on, whatever its log level
        ti.init(**options)
    found = str(ti.cfg.arch).rpartition(".")[2]
    if found != ("x64" if arch == "cpu" else arch) and not (arch == "cpu" and found == "arm64"):
        raise _missing(arch, f"Taichi fell back to {found}")
    impl.get_runtime().materialize()  # left to the first kernel, it would fail on any thread but this one
    if arch == "cpu":
        _spread(sorted(own_threads() - before)[-threads:])


def _missing(arch: str, why: str) -> BackendError:
    return BackendError(f"arch = {arch!r} is not available on this machine ({why}); give arch='cpu' (--arch cpu to the command)")


def _require_device(arch: str, running: bool) -> None:
    """Raise unless Taichi can run on a GPU's arch.

    Taichi ends a running program before it searches for a device. So if a program runs, the device is first tried in a separate process.
    """
    if arch == "cpu":
        return
    ti = taichi()
    if not ti.lang.misc.is_arch_supported(getattr(ti, arch)):
        raise _missing(arch, "Taichi finds no driver for it")
    if running:
        trial = f"import taichi as ti; ti.init(arch=ti.{arch}); raise SystemExit(ti.cfg.arch != ti.{arch})"
        if subprocess.run([sys.executable, "-c", trial], capture_output=True).returncode:
            raise _missing(arch, "Taichi's driver for it finds no device")


def _spread(pool: Sequence[tuple[int, int]]) -> None:
    """Give each thread of Taichi's pool, those that it made last, a core of its own where there are as many as cores.

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


def check_generation(generation: int) -> None:
    """Raise unless buffers made under `generation` are still alive. Who holds `lock` can rely on it until the lock is released."""
    if settings().generation != generation:
        raise StaleValueError("this simulation was built before diffsim.init() changed settings, which frees its kernels; build it anew")
