"""Differences between a CPU and a GPU, in one place."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from diffsim.base.system import vector_registers
from diffsim.engine import session
from diffsim.engine.arrays import CudaMemory, DeviceMemory, HostMemory, Memory
from diffsim.engine.engines import language
from diffsim.engine.session import PRECISIONS, Settings

NUMBERS = tuple(map(np.dtype, ("f4", "f8", "i4", "i8", "u1", "?")))


TILE_BYTES = {16: 16, 32: 64, 64: 64}
"""Bytes of a tile by the bytes of a register. Two registers of 32 bytes share the computation of addresses."""
MANY_REGISTERS = 32
"""So many vector registers hold the values of long loops in tiles of two registers. With fewer, narrow tiles wait less for memory."""


class Backend(ABC):
    """Where kernels run.

    Args:
        settings: that the engine was initialised with.

    Attributes:
        on_host: whether kernels work on the memory of NumPy arrays as it is.
        memory: where arrays of kernels live.
        precisions: that kernels compute in.
        numbers: types of elements that kernels of plain arrays take.
        longest_loop: turns that one thread may take in a kernel; None: as many as it likes.
        ends_nests: whether loops within one another are counted together, so that long ones end without a word.
        most_arrays: arrays that a loop of a kernel may use; None: as many as it likes.
    """

    on_host: bool
    precisions: Collection[str] = tuple(PRECISIONS)
    numbers: Collection[np.dtype] = NUMBERS
    longest_loop: int | None = None
    ends_nests = False
    most_arrays: int | None = None

    def __init__(self, settings: Settings, memory: Memory) -> None:
        self.settings, self.memory = settings, memory

    @property
    @abstractmethod
    def threads(self) -> int | None:
        """Threads to share work out to; None where each cell may have one."""

    @abstractmethod
    def lanes(self, dtype: npt.DTypeLike, narrow: bool = False) -> int:
        """Lanes of a tile of `dtype`, which fill one register if it is to be narrow and registers are few."""

    @property
    def reads_unaligned(self) -> bool:
        """True if a tile across the edge of two tiles is best read from memory as it is, and not put together from both."""
        return False

    @abstractmethod
    def wait(self) -> None:
        """Return when all that was launched is done."""


class Cpu(Backend):
    """Threads of this process; a launch returns when it is done."""

    on_host = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, HostMemory())

    @property
    def threads(self) -> int | None:
        return self.settings.threads

    def lanes(self, dtype: npt.DTypeLike, narrow: bool = False) -> int:
        width = self.settings.register_bytes
        few = vector_registers() < MANY_REGISTERS
        return (width if narrow and few else TILE_BYTES[width]) // np.dtype(dtype).itemsize

    @property
    def reads_unaligned(self) -> bool:
        return self.settings.register_bytes < 64  # wider loads cross a line of the cache; a step with few of them reads so all the same

    def wait(self) -> None:
        pass


class Gpu(Backend):
    """A device with memory of its own, which works on while a launch has returned."""

    on_host = False
    longest_loop = 1_000_000  # one thread of a GPU is slow

    def __init__(self, settings: Settings, memory: DeviceMemory | None = None) -> None:
        super().__init__(settings, memory or DeviceMemory())

    @property
    def threads(self) -> int | None:
        return None

    def lanes(self, dtype: npt.DTypeLike, narrow: bool = False) -> int:
        return 1

    def wait(self) -> None:
        with session.lock:
            language().sync()


class Cuda(Gpu):
    """A device of NVIDIA."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, CudaMemory())


class Vulkan(Gpu):
    """Vulkan shaders: no numbers of 8 or 64 bits here.

    Mesa's software driver ends a nest of loops, without a word, after 65 535 turns of all together, and of a loop with more than 32 arrays
    it takes wrong ones, or ends the process. Taichi does not ask a driver for its limit.
    """

    precisions = ("f32",)
    numbers = (np.dtype(np.float32), np.dtype(np.int32))
    longest_loop = 65_000
    ends_nests = True
    most_arrays = 32


_KINDS: dict[str, type[Cpu] | type[Gpu]] = {"cpu": Cpu, "cuda": Cuda, "vulkan": Vulkan}
_present: Cpu | Gpu | None = None


def backend() -> Backend:
    """That of the settings in force; initialises the engine with defaults on first use."""
    global _present
    settings = session.settings()
    if _present is None or _present.settings is not settings:
        _present = _KINDS[settings.arch](settings)
    return _present


def lanes(dtype: npt.DTypeLike, narrow: bool = False) -> int:
    """Lanes of a tile of `dtype` on the present arch: as many as fill one vector register on a CPU, or two short ones unless it is to be
    narrow; 1 on a GPU."""
    return backend().lanes(dtype, narrow)


def reads_unaligned() -> bool:
    """True if kernels read tiles that are not aligned; see `Backend.reads_unaligned`."""
    return backend().reads_unaligned


def clock() -> float:
    """Seconds, for differences of times: all that was launched is done."""
    if _present is not None and not _present.on_host:
        _present.wait()
    return time.perf_counter()
