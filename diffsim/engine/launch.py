"""Launches past the public interface of engines: arguments bound once, and reverse kernels on NumPy's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diffsim.engine.arrays import ALIGNMENT, Displaced
from diffsim.engine.engines import present
from diffsim.engine.session import check_generation, lock, settings


def launch_reverse(kernel: Any, arguments: Sequence[np.ndarray], gradients: Sequence[np.ndarray | None]) -> None:
    """Launch the engine's reverse transform of a kernel on NumPy arrays, on the CPU, without copying them.

    The public interface of engines passes no gradient of a NumPy array. Their own arrays have one, but each takes 0.2 ms to make
    and is filled and read by kernels.

    Args:
        kernel: a `ti.kernel`, made or looked up since the caller took `lock`: the engine cannot have been initialised anew since then.
        arguments: contiguous arrays for its arrays, 0-d arrays for its numbers.
        gradients: for each float array its gradient, added to; None for numbers and integers.
    """
    with lock:
        present().launch_reverse(kernel, arguments, gradients)


class BoundKernel:
    """A kernel with its arguments bound once: a launch costs 5 us instead of 15 us plus 4 us an argument.

    Values that change between launches are written into the bound control array. Arguments must stay where they are; this
    object keeps them alive.
    """

    def __init__(self, kernel: Any, arguments: Sequence[Any]) -> None:
        with lock:
            self.generation = settings().generation
            self.arguments = tuple(arguments)
            for index, argument in enumerate(arguments):
                if isinstance(argument, np.ndarray):
                    is_aligned = isinstance(argument, Displaced) or argument.ctypes.data % ALIGNMENT == 0
                    if not (argument.flags.c_contiguous and is_aligned):
                        raise ValueError(f"argument {index} of a bound kernel must be contiguous and {ALIGNMENT}-byte aligned")
            self._launch = present().bind(kernel, arguments)

    def __call__(self, *numbers: int) -> None:
        """Launch; `numbers` are the values of the kernel's integer arguments."""
        with lock:
            check_generation(self.generation)  # under the lock: its last holder may have initialised the engine anew
            self._launch(*numbers)
