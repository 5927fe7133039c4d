"""Everything that depends on the operating system: cores, registers, memory, files.

Every function works on every system. If a system lacks a feature (`fcntl`, `resource`, `/proc`, thread affinities, direct or positioned
input and output), results are less precise, but the import never fails. No other module calls the operating system directly.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import gc
import mmap
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import shown
from diffsim.errors import BackendError, PlanError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]
try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

ROOT, CORE = Path("/"), Path("sys/devices/system/cpu/cpu0")
REGISTERS = (16, 32, 64)
REGISTER_VARIABLE = "DIFFSIM_REGISTER_BYTES"
"""Environment variable that sets the width of registers, for tests of all widths on one machine."""
LAUNCHERS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "FLUX_JOB_SIZE")
"""Environment variables in which launchers of MPI state the number of processes: of MPICH and Intel MPI, Open MPI, MVAPICH, Slurm, Flux."""
LOCAL_LAUNCHERS = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE")
"""Those in which they state the number of processes on this machine."""
LOCAL_RANKS = ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "FLUX_TASK_LOCAL_ID")
"""Those in which they state the number of a process among those on its machine."""
USUAL_CACHE, USUAL_CORE_CACHE = 16 << 20, 1 << 20
"""Bytes of the last cache of a usual CPU, and of the largest that a core has to itself."""
CACHED = 0
DIRECT = getattr(os, "O_DIRECT", CACHED) if fcntl is not None else CACHED
"""Flags of a descriptor; `DIRECT` goes past the system's cache, in whole pages only. There is no such flag on macOS and Windows."""
LOCKS = fcntl is not None
"""True if `lock_file` works."""
SMALL_BLOCK = 1 << 30
"""Bytes up to which it is not asked how much memory there is."""
HUGE_PAGE = 1 << 21
"""Bytes of a huge page on x86-64 and, with pages of 4 KiB, on ARM. Elsewhere `clear_memory` only aligns more than it has to."""


# cores


def usable_cores() -> int:
    """Cores that this process may use: its affinity mask, cut by the cgroup's CPU quota (v2, then v1)."""
    cores = len(core_numbers()) or os.cpu_count() or 1
    quota = _cgroup_quota(ROOT)
    return max(1, min(cores, int(quota)) if quota else cores)


def cores_of_rank() -> int:
    """Usable cores; if a launcher of MPI started several processes on this machine and left all cores to each, this one's share."""
    cores = usable_cores()
    bound = len(core_numbers()) < (os.cpu_count() or 1)
    return cores if bound else max(1, cores // local_ranks())


def core_numbers() -> list[int]:
    """The cores of this process's affinity mask; empty if the system does not report it, or cannot change it."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") and hasattr(os, "sched_setaffinity") else []


def own_threads() -> set[tuple[int, int]]:
    """Start and number of each thread of this process; empty if the system does not report them."""
    threads = set()
    with contextlib.suppress(OSError):
        for task in (ROOT / "proc/self/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                threads.add((int(fields[19]), int(task.name)))
    return threads


def pin_thread(thread: int, core: int) -> None:
    """Pin a thread to one core, if the system supports that."""
    if hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, {core})


def leave_core() -> None:
    """Let another process that waits for this core go on, if there is one and the system supports that."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()


def _cgroup_quota(root: Path) -> float | None:
    with contextlib.suppress(OSError, ValueError):
        limit, period = (root / "sys/fs/cgroup/cpu.max").read_text().split()
        return None if limit == "max" else int(limit) / int(period)
    with contextlib.suppress(OSError, ValueError):
        limit_us = int((root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text())
        return limit_us / int((root / "sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text()) if limit_us > 0 else None
    return None


def processor_vendor() -> str:
    """The CPU's maker as it names itself, such as AuthenticAMD; "" if the system does not say."""
    return platform.processor().rpartition(", ")[2] if sys.platform == "win32" else _of_processor("vendor_id")


def processor_name() -> str:
    """The CPU's name, family and model, as far as the system says."""
    number = "family {}, model {}".format(*map(_of_processor, ("cpu family", "model")))
    return f"{_of_processor('model name')} ({number})" if _of_processor("model name") else platform.processor() or platform.machine()


def _of_processor(name: str) -> str:
    """The entry of Linux for the first core; "" if there is none."""
    match = re.search(rf"^{name}[ \t]*:[ \t]*(.*\S)", _text(ROOT / "proc/cpuinfo"), re.MULTILINE)
    return match[1] if match else ""


def register_forced() -> bool:
    """True if DIFFSIM_REGISTER_BYTES overrides the CPU's width of registers."""
    return bool(os.environ.get(REGISTER_VARIABLE))


def register_bytes() -> int:
    """Width of the CPU's vector registers in bytes, as NumPy finds it: 64 with AVX-512, 32 with AVX2, else 16.

    The environment variable DIFFSIM_REGISTER_BYTES (16, 32 or 64) overrides it. Code for wider registers than the CPU's
    works too, because the compiler splits them.

    Raises:
        BackendError: the variable is something else.
    """
    forced = os.environ.get(REGISTER_VARIABLE)
    if forced:
        if forced not in map(str, REGISTERS):
            raise BackendError(f"{REGISTER_VARIABLE} = {shown(forced)}, expected one of 16, 32 and 64; correct or unset it")
        return int(forced)
    return _width(_features())


@functools.cache
def vector_registers() -> int:
    """Number of the CPU's vector registers: 32 with AVX-512, whose narrower registers are as many, and on ARM, else 16."""
    return 32 if platform.machine().lower() in ("aarch64", "arm64") or _width(_features()) == 64 else 16


def _features() -> list[str]:
    """The CPU's vector extensions, as NumPy finds them."""
    config = np.show_config(mode="dicts")
    extensions = config.get("SIMD Extensions", {}) if isinstance(config, dict) else {}
    return [*extensions.get("baseline", []), *extensions.get("found", [])]


def _width(features: Sequence[str]) -> int:
    """Register width by the names of features: since NumPy 2.4 those of AVX2 and AVX-512 are part of X86_V3 and X86_V4."""
    if any(name.startswith("AVX512") or name == "X86_V4" for name in features):
        return 64
    return 32 if {"AVX2", "X86_V3"} & set(features) else 16


def last_cache_bytes() -> int:
    """Bytes of the CPU's last cache, or a usual number of them where the system does not say."""
    return max(_caches(), default=("", "", USUAL_CACHE))[2]


def core_cache_bytes() -> int:
    """Bytes of the largest cache that a core of the CPU has to itself, or a usual number of them where the system does not say."""
    core = _text(ROOT / CORE / "topology/thread_siblings_list").strip()
    return max((size for _, shared, size in _caches() if shared == core), default=USUAL_CORE_CACHE)


def _caches() -> list[tuple[str, str, int]]:
    """The level of each cache of the first core, the processors that share it, and its bytes."""
    texts = [
        [_text(cache / what).strip() for what in ("level", "shared_cpu_list", "size")] for cache in (ROOT / CORE / "cache").glob("index*")
    ]
    sizes = [(level, shared, re.fullmatch(r"(\d+)K", size)) for level, shared, size in texts]
    return [(level, shared, int(size[1]) << 10) for level, shared, size in sizes if size]


# memory


class Reserve(Protocol):
    """Memory that this process keeps for later arrays."""

    @property
    def held(self) -> int:
        """Bytes of it."""

    def release(self) -> None:
        """Return it to the system."""


reserves: list[Reserve] = []
"""Their memory counts as available, since they return it before it would be missing. `give_back_memory` empties them."""


def clear_memory(size: int, used: int | None = None) -> npt.NDArray[np.uint8]:
    """Zeroed memory, whose pages the system gives when they are first touched. The pages are huge ones where it has them: a page of
    4 KiB takes 2 us at its first touch, and a huge one as long as 100 of them.

    Args:
        size: bytes.
        used: how many of them are used first, None: all. The pages of the others are not given with those.

    Raises:
        MemoryError: the system has too little.
    """
    if size > SMALL_BLOCK and size > total_memory():  # a system may promise more than it has, and end the process when it is used
        raise _too_little(size, f"it has {total_memory() / 1e9:.3g} GB")
    if not hasattr(mmap, "MADV_HUGEPAGE"):  # not Linux
        return np.zeros(size, np.uint8)
    pages = round((size if used is None else used) / HUGE_PAGE)  # the last one only if at least half of it is used
    try:
        mapped = mmap.mmap(-1, size + (HUGE_PAGE if pages else 0), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise _too_little(size, error.strerror if isinstance(error, OSError) and error.strerror else str(error)) from error
    block = np.frombuffer(mapped, np.uint8)
    start = -block.ctypes.data % HUGE_PAGE if pages else 0
    if pages:
        with contextlib.suppress(OSError):  # a system without huge pages
            mapped.madvise(mmap.MADV_HUGEPAGE, start, min(pages * HUGE_PAGE, len(mapped) - start))
    return block[start : start + size]


def _too_little(size: int, why: str) -> MemoryError:
    return MemoryError(
        f"expected {size / 1e9:.4g} GB of memory for one array, the system has too little ({why}); make the grid, the steps or the states "
        "that are kept fewer"
    )


def total_memory() -> int:
    """Bytes of memory that this process can ever have: the machine's, cut by the limits of its control groups (v1 or v2)."""
    import psutil

    limits = [limit for limit, _ in _group_limits(ROOT)]
    with contextlib.suppress(OSError, RuntimeError):  # on Linux, psutil reads /proc
        total: int = psutil.virtual_memory().total
        return min(total, *limits)
    return min(_sysconf_memory(("SC_PHYS_PAGES",)), *limits)


def available_memory() -> int:
    """Bytes that this process may still allocate without swapping or being killed.

    That is the smaller of the available memory of the system and the rest within the limits of the control groups, where file pages that
    the kernel can drop do not count as used, nor does memory that diffsim keeps for later arrays.

    Raises:
        PlanError: the system does not report its memory.

    Returns:
        Bytes.

    Example:
        from diffsim.checkpoint import AUTO_FRACTION, available_memory

        budget = int(AUTO_FRACTION * available_memory())  # the limit of a gradient with "auto"
        assert budget > 0
    """
    import psutil

    kept = sum(reserve.held for reserve in reserves)
    kept = min(kept, resident_memory()) if kept else 0  # nobody may have touched the kept memory
    room = [limit - used + kept for limit, used in _group_limits(ROOT)]
    with contextlib.suppress(OSError, RuntimeError):
        available: int = psutil.virtual_memory().available
        return max(min(available + kept, *room, sys.maxsize), 0)
    return max(min(_sysconf_memory(("SC_AVPHYS_PAGES", "SC_PHYS_PAGES")), *room, sys.maxsize), 0)


def resident_memory() -> int:
    """Resident bytes of this process; if the system does not report them, their peak so far."""
    import psutil

    with contextlib.suppress(OSError, psutil.Error):
        return int(psutil.Process().memory_info().rss)
    return peak_memory()


def peak_memory() -> int:
    """Peak resident bytes of this process since its start, or since `forget_peak`."""
    peak = _highest_resident()
    if peak is not None:
        return peak
    if resource is not None:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    import psutil

    with contextlib.suppress(OSError, psutil.Error):
        info = psutil.Process().memory_info()
        return int(getattr(info, "peak_wset", info.rss))  # the former on Windows
    return 0


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Look for no unreachable objects meanwhile: tracing and compiling make many objects that stay, and each look goes through all."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


def give_back_memory() -> None:
    """Return unused memory of diffsim, Python and the C library to the system, if they support that."""
    gc.collect()
    for reserve in reserves:
        reserve.release()
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library, or another system
        ctypes.CDLL(None).malloc_trim(0)


def forget_peak() -> bool:
    """Restart the count of `peak_memory`. Return whether the system supports that."""
    try:
        (ROOT / "proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return _highest_resident() is not None


def _highest_resident() -> int | None:
    size = _table(ROOT / "proc/self/status").get("VmHWM:")
    return None if size is None else size * 1024


def _sysconf_memory(names: Sequence[str]) -> int:
    known = getattr(os, "sysconf_names", {})
    for pages in names:
        if pages in known and "SC_PAGE_SIZE" in known:
            return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
    raise PlanError("expected the system to tell its memory, got nothing; give the memory as a size, such as '4 GB'")


def _group_limits(root: Path) -> list[tuple[int, int]]:
    """Limit and use of each control group around this process that has a limit, and one limit that none exceeds."""
    limits = [(sys.maxsize, 0)]
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            mount = root / "sys/fs/cgroup"
            names = ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = mount / path.strip("/")
        # The limit of any ancestor applies too. None is visible above the mount. Inside a container the path may be the
        # host's and not exist there: then the mount itself is ours.
        for folder in (group, *group.parents):
            if not folder.is_relative_to(mount):
                break
            limit, usage = _text(folder / names[0]).strip(), _text(folder / names[1]).strip()
            if limit.isdecimal() and usage.isdecimal():  # it exists, and is not "max"
                limits.append((int(limit), int(usage) - _table(folder / "memory.stat").get(names[2], 0)))
    return limits


def _table(path: Path) -> dict[str, int]:
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


# files


def free_disk(path: str | os.PathLike[str]) -> int:
    """Bytes that may be written to the disk of a path, which need not exist yet. Some systems reserve a part for their owner.

    Raises:
        OSError: not even the path's root exists.
    """
    place = Path(path).absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free


def lock_file(descriptor: int) -> bool:
    """Lock an open file for this descriptor alone, until it is closed or the process ends; False if another one has it.

    Raises:
        BackendError: the system has no such locks (see `LOCKS`).
        OSError: from the system.
    """
    if fcntl is None:
        raise BackendError(f"expected a POSIX system to lock a file, got {shown(os.name)}; keep its contents in memory")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def choose_way(descriptor: int, way: int) -> None:
    """Make a descriptor use the cache (`CACHED`) or bypass it (`DIRECT`), if the system has this choice."""
    if fcntl is not None and DIRECT != CACHED:
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~DIRECT | way)


def read_at(descriptor: int, view: memoryview, place: int) -> int:
    """Read from a place in a file into a buffer. Return the number of bytes. One thread at a time may use the descriptor."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [view], place)
    os.lseek(descriptor, place, os.SEEK_SET)
    with open(descriptor, "rb", buffering=0, closefd=False) as file:
        return file.readinto(view) or 0


def write_at(descriptor: int, data: memoryview, place: int) -> int:
    """Write at a place in a file. Return the number of bytes written. One thread at a time may use the descriptor."""
    if hasattr(os, "pwrite"):
        return os.pwrite(descriptor, data, place)
    os.lseek(descriptor, place, os.SEEK_SET)
    return os.write(descriptor, data)


def allocate_file(descriptor: int, path: Path, nbytes: int) -> None:
    """Make the open file at a path `nbytes` long, with space for all bytes on the disk.

    Raises:
        OSError: from the system; `ENOSPC` if there is too little room.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, nbytes)
        return
    if free_disk(path) < nbytes:  # macOS has no such call
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.ftruncate(descriptor, nbytes)


def sync_folder(folder: Path) -> None:
    """Wait until a rename in a folder is on disk, if the system supports that."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # not on Windows
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def launched_ranks() -> int | None:
    """The number of processes that a launcher of MPI started with this one; None: there was no launcher."""
    return _stated(LAUNCHERS)


def local_ranks() -> int:
    """The number of processes on this machine that a launcher of MPI started; 1 if there was no launcher, or if it does not say."""
    return _stated(LOCAL_LAUNCHERS) or 1


def local_rank() -> int:
    """The number of this process among those on this machine that a launcher of MPI started; 0 if there was no launcher, or if it does not
    say."""
    return _stated(LOCAL_RANKS) or 0


def _stated(names: Sequence[str]) -> int | None:
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdigit()), None)
