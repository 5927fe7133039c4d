"""Launches past Taichi's public interface: arguments bound once, and reverse kernels on NumPy's arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim.engine.arrays import ALIGNMENT, Displaced
from diffsim.engine.kernels import functions_left_out
from diffsim.engine.module import taichi
from diffsim.engine.session import check_generation, lock, settings


class _Differentiated(np.ndarray):
    """Tells Taichi's argument mapper that this array comes with a gradient, as a tensor of torch would."""

    requires_grad = True


def launch_reverse(kernel: Any, arguments: Sequence[np.ndarray], gradients: Sequence[np.ndarray | None]) -> None:
    """Launch Taichi's reverse transform of a kernel on NumPy arrays, on the CPU, without copying them.

    Taichi's public interface passes no gradient of a NumPy array. Its own arrays have one, but each takes 0.2 ms to make
    and is filled and read by kernels.

    Args:
        kernel: a `ti.kernel`, made or looked up since the caller took `lock`: Taichi cannot have been initialised anew since then.
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
            with functions_left_out(primal):
                found = primal.ensure_compiled(*arguments)
            compiled = primal.compiled_kernels[found]
            context = compiled.make_launch_context()
            for index, (argument, declared) in enumerate(zip(arguments, primal.arguments, strict=True)):
                if isinstance(argument, int):
                    self._scalar = (index,)
                elif isinstance(argument, np.ndarray):
                    aligned = isinstance(argument, Displaced) or argument.ctypes.data % ALIGNMENT == 0
                    if not (argument.flags.c_contiguous and aligned):
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
        with lock:
            check_generation(self.generation)  # under the lock: its last holder may have initialised Taichi anew
            if scalar is not None:
                self._context.set_arg_int(self._scalar, scalar)
            self._launch()
