"""The machine: arch, precision, threads, lanes, and every touch of Taichi's global state.

Taichi is imported and initialised on first use, never when diffsim is imported. All that diffsim needs of Taichi's
private interface (launching a kernel whose arguments were bound once) is in this file, so that a fork of Taichi could
take its place here.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import linecache
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.errors import BackendError, StaleValueError

ARCHES = ("cpu", "cuda", "vulkan")
PRECISIONS: dict[str, npt.DTypeLike] = {"f32": np.float32, "f64": np.float64}
ALIGNMENT = 64  # bytes: a full-width vector store to a less aligned buffer ends the process

lock = threading.RLock()
"""Held around every call into Taichi, whose program and thread pool are global and not re-entrant."""


@dataclass(frozen=True)
class Settings:
    """What Taichi was initialised with. `generation` grows with every initialisation; buffers of an older one are dead."""

    arch: str
    precision: str
    threads: int
    generation: int


_current: Settings | None = None
_generations = itertools.count(1)


def usable_cores() -> int:
    """Cores that this process may use: its affinity mask, cut by the cgroup's CPU quota (v2, then v1)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, min(cores, int(quota)) if quota else cores)


def _cgroup_quota() -> float | None:
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    try:
        base = Path("/sys/fs/cgroup/cpu")
        limit_us = int((base / "cpu.cfs_quota_us").read_text())
        return limit_us / int((base / "cpu.cfs_period_us").read_text()) if limit_us > 0 else None
    except (OSError, ValueError):
        return None


@functools.cache
def vector_bytes() -> int:
    """Width of the CPU's vector registers in bytes: 64 with AVX-512, 32 with AVX2, else 16."""
    try:
        flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "").split()
    except OSError:
        flags = []
    if "avx512f" in flags:
        return 64
    return 32 if "avx2" in flags else 16


def lanes(dtype: npt.DTypeLike) -> int:
    """Lanes of a tile of `dtype` on the present arch: as many as fill a vector register on a CPU, 1 on a GPU."""
    return vector_bytes() // np.dtype(dtype).itemsize if settings().arch == "cpu" else 1


def init(arch: str = "auto", precision: str | None = None, threads: int | None = None) -> Settings:
    """Initialise Taichi, or initialise it anew. Optional: otherwise it happens on first use.

    Args:
        arch: "cpu", "cuda", "vulkan", or "auto": the environment's DIFFSIM_ARCH, else "cpu".
        precision: default precision of simulations, "f32" or "f64"; None: DIFFSIM_PRECISION, else "f32".
        threads: CPU threads; None: as many as the process may use (affinity and cgroup quota).

    Returns:
        The settings in force. Simulations built before are dead: using one raises `StaleValueError`.

    Raises:
        BackendError: an unknown arch or precision, more threads than usable cores, or a device that is not there.
    """
    global _current
    if arch == "auto":
        arch = os.environ.get("DIFFSIM_ARCH", "cpu")
    precision = precision or os.environ.get("DIFFSIM_PRECISION", "f32")
    if arch not in ARCHES:
        raise BackendError(f"arch = {arch!r} is unknown; choose one of {', '.join(ARCHES)} or auto")
    if precision not in PRECISIONS:
        raise BackendError(f"precision = {precision!r} is unknown; choose f32 or f64")
    if arch == "vulkan" and precision == "f64":
        raise BackendError(
            "precision = 'f64' is not available on arch 'vulkan' (Taichi's Vulkan shaders have no f64 here); use f32 or the cpu"
        )
    cores = usable_cores()
    if threads is None:
        threads = cores
    if not isinstance(threads, int) or not 1 <= threads <= cores:
        raise BackendError(f"threads = {threads}, expected 1 to {cores} (the cores this process may use); lower it")
    with lock:
        ti = taichi()
        options: dict[str, Any] = {"arch": getattr(ti, arch), "log_level": ti.ERROR, "default_ip": ti.i32, "fast_math": False}
        if arch == "cpu":
            # vector elements stay vectors; a loop over workers is shared out however few they are
            options |= {"cpu_max_num_threads": threads, "real_matrix_scalarize": False, "make_cpu_multithreading_loop": False}
        else:
            options |= {"device_memory_fraction": 0.8} if arch == "cuda" else {}
        _current = None  # what was compiled before dies here, also if what follows fails
        before = _own_threads()
        with contextlib.redirect_stdout(io.StringIO()):  # it prints which arch it starts on, whatever its log level
            ti.init(**options)
        found = str(ti.cfg.arch).rpartition(".")[2]
        if found != ("x64" if arch == "cpu" else arch) and not (arch == "cpu" and found == "arm64"):
            raise BackendError(f"arch = {arch!r} is not to be had on this machine (Taichi fell back to {found}); use --arch cpu")
        if arch == "cpu":
            _spread(sorted(_own_threads() - before)[-threads:])
        _current = Settings(arch, precision, threads, next(_generations))
    return _current


def _own_threads() -> set[tuple[int, int]]:
    """Start and number of each thread of this process, where the system tells."""
    found = set()
    with contextlib.suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                found.add((int(fields[19]), int(task.name)))
    return found


def _spread(pool: Sequence[tuple[int, int]]) -> None:
    """Give each thread of Taichi's pool, those that it made last, a core of its own where there are as many as cores.

    Workers that wait for one another lose a scheduler tick, 4 ms, whenever two of them are woken on one core. Where there are more cores
    than workers that hardly happens, and the choice of cores is better left to the system, which sees other processes.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    if 1 < len(cores) == len(pool):
        for (_, thread), core in zip(pool, cores, strict=True):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, {core})


def settings() -> Settings:
    """The settings in force; initialises with defaults on first use."""
    return _current or init()


def check_generation(generation: int) -> None:
    """Raise unless buffers made under `generation` are still alive."""
    if settings().generation != generation:
        raise StaleValueError("this simulation was built before diffsim.init() was called again, which frees its kernels; build it anew")


@functools.cache
def taichi() -> Any:
    """The taichi module, imported without its banner."""
    if "taichi" not in sys.modules:  # once it is imported, the variable only makes `init` print that it has no effect
        os.environ.setdefault("ENABLE_TAICHI_HEADER_PRINT", "0")
        os.environ.setdefault("TI_LOG_LEVEL", "error")
    import taichi

    return taichi


def aligned(shape: Sequence[int], dtype: npt.DTypeLike) -> np.ndarray:
    """A zeroed C-contiguous array that starts on an `ALIGNMENT` boundary."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    raw = np.zeros(count * dtype.itemsize + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + count * dtype.itemsize].view(dtype).reshape(shape)


_source_names = itertools.count(1)


def compile_kernel(source: str, name: str, namespace: dict[str, Any]) -> Any:
    """Turn generated source of one kernel into a Taichi kernel.

    The text is registered with `linecache`, since Taichi reads the source of what it compiles and so do tracebacks.
    """
    filename = f"<diffsim {name} {next(_source_names)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    module = types.ModuleType(filename)
    module.__dict__.update(namespace, ti=taichi())
    exec(compile(source, filename, "exec", dont_inherit=True), module.__dict__)
    return getattr(module, name)


@contextlib.contextmanager
def hand_written(default_float: npt.DTypeLike, ad_stack_size: int = 0) -> Iterator[None]:
    """Compile and launch kernels that a user wrote, with the settings that they need. Holds `lock`.

    What `init` sets is for generated kernels. With `real_matrix_scalarize=False` Taichi's own derivative of any local
    vector is NaN or ends the process; untyped literals and locals take the default float type, and in f32 they would
    spoil f64 arrays in the eighth digit without a word. The settings are those of the whole program, hence put back.

    Args:
        default_float: type of untyped literals and locals.
        ad_stack_size: how often a local may be assigned in inner loops of a derivative; 0: Taichi's own default of 32.
            One assignment more overwrites the thread's stack.
    """
    from taichi.lang import impl

    ti = taichi()
    wanted: dict[str, Any] = {
        "default_fp": ti.f64 if np.dtype(default_float) == np.float64 else ti.f32,
        "real_matrix_scalarize": True,
        "force_scalarize_matrix": True,
        "make_cpu_multithreading_loop": True,
        "ad_stack_size": ad_stack_size,
    }
    with lock:
        settings()
        python_side, config = impl.get_runtime(), impl.current_cfg()
        shared = [getattr(ti.math, f"{kind}{n}") for kind in ("vec", "mat") for n in (2, 3, 4)]  # of the default type at import
        shared_before = [kind.dtype for kind in shared]
        before = {name: getattr(config, name) for name in wanted}
        float_before = python_side.default_fp
        try:
            for name, value in wanted.items():
                setattr(config, name, value)
            python_side.default_fp = wanted["default_fp"]
            for kind in shared:
                kind.dtype = wanted["default_fp"]
            yield
        finally:
            for name, value in before.items():
                setattr(config, name, value)
            python_side.default_fp = float_before
            for kind, dtype in zip(shared, shared_before, strict=True):
                kind.dtype = dtype


class _Differentiated(np.ndarray):
    """Tells Taichi's argument mapper that this array comes with a gradient, as a tensor of torch would."""

    requires_grad = True


def launch_reverse(kernel: Any, arguments: Sequence[np.ndarray], gradients: Sequence[np.ndarray | None]) -> None:
    """Launch Taichi's reverse transform of a kernel on NumPy arrays, on the CPU, without copying them.

    Taichi's public interface passes no gradient of a NumPy array. Its own arrays have one, but each takes 0.2 ms to make
    and is filled and read by kernels.

    Args:
        kernel: a `ti.kernel`.
        arguments: contiguous arrays for its arrays, 0-d arrays for its numbers.
        gradients: for each float array its gradient, added to; None for numbers and integers.
    """
    from taichi.lang import impl

    with lock:
        adjoint = kernel.grad
        marked: list[Any] = []
        for argument, gradient, declared in zip(arguments, gradients, adjoint.arguments, strict=True):
            number = not isinstance(declared.annotation, taichi().types.ndarray)
            marked.append(argument.item() if number else argument if gradient is None else argument.view(_Differentiated))
        compiled = adjoint.compiled_kernels[adjoint.ensure_compiled(*marked)]
        context = compiled.make_launch_context()
        setters = {"f": context.set_arg_float, "i": context.set_arg_int, "u": context.set_arg_uint}
        for index, (argument, gradient) in enumerate(zip(marked, gradients, strict=True)):
            if isinstance(argument, np.ndarray):
                slope = 0 if gradient is None else int(gradient.ctypes.data)
                context.set_arg_external_array_with_shape((index,), int(argument.ctypes.data), argument.nbytes, argument.shape, slope)
            else:
                setters[arguments[index].dtype.kind]((index,), argument)
        program = impl.get_runtime().prog
        program.launch_kernel(program.compile_kernel(program.config(), program.get_device_caps(), compiled), context)


class BoundKernel:
    """A kernel with its arguments bound once: a launch costs 5 us instead of 15 us plus 4 us an argument.

    What changes between launches is written into the bound control array. Arguments must stay where they are; this
    object keeps them alive.
    """

    def __init__(self, kernel: Any, arguments: Sequence[Any]) -> None:
        from taichi.lang import impl

        with lock:
            self.generation = settings().generation
            self.arguments = tuple(arguments)
            primal = kernel._primal
            compiled = primal.compiled_kernels[primal.ensure_compiled(*arguments)]
            context = compiled.make_launch_context()
            for index, (argument, declared) in enumerate(zip(arguments, primal.arguments, strict=True)):
                if isinstance(argument, int):
                    self._scalar = (index,)
                elif isinstance(argument, np.ndarray):
                    if not argument.flags.c_contiguous or argument.ctypes.data % ALIGNMENT:
                        raise ValueError(f"argument {index} of a bound kernel must be contiguous and {ALIGNMENT}-byte aligned")
                    element_dims = getattr(declared.annotation.dtype, "ndim", 0)
                    shape = argument.shape[: argument.ndim - element_dims]
                    context.set_arg_external_array_with_shape((index,), int(argument.ctypes.data), argument.nbytes, shape, 0)
                else:
                    context.set_arg_ndarray((index,), argument.arr)
            program = impl.get_runtime().prog
            data = program.compile_kernel(program.config(), program.get_device_caps(), compiled)
            self._context = context
            self._launch: Callable[[], None] = functools.partial(program.launch_kernel, data, context)

    def __call__(self, scalar: int | None = None) -> None:
        """Launch; `scalar` is the value of the kernel's one integer argument, if it has one."""
        check_generation(self.generation)
        with lock:
            if scalar is not None:
                self._context.set_arg_int(self._scalar, scalar)
            self._launch()
