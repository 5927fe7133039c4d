"""Compiles a user's kernel and launches it, forward and through Taichi's own reverse-mode transform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diffsim import engine
from diffsim.ad.userkernel.around import Around, require_unchanged
from diffsim.ad.userkernel.signature import Signature, is_real, type_name
from diffsim.ad.userkernel.source import Source
from diffsim.base.messages import shown
from diffsim.errors import DiffsimError, KernelError

ONE_VALUE = "diffsim_one_value"
"""Name of the annotation of a number that is passed as an array of one value, for its derivative."""

KEPT = 32
"""Kernels of a function, for other values from outside each, after which the first one is compiled anew."""


@dataclass
class Compiled:
    """The Taichi kernels of one function, for each look of the values of `names`, which it takes from outside; made anew when
    `diffsim.init` was called again."""

    source: Source
    signature: Signature
    names: Sequence[tuple[Source, str]]
    _kernels: dict[Any, Any] = field(default_factory=dict)
    _generation: int = -1

    def forward(self, arrays: Mapping[str, np.ndarray], around: Around) -> None:
        """Run the kernel on arrays, by name; those that it writes are changed. `around`: looks of the values from outside."""
        with self._as_kernel_error("run"), engine.hand_written(self.signature.default_float(arrays)):
            kernel = self._kernel(("forward", self.signature.default_float(arrays)), around)
            values = {name: arrays[name].item() if p.scalar else arrays[name] for name, p in self.signature.parameters.items()}
            if shares_memory():
                kernel(*values.values())
                engine.language().sync()
                return
            # copied both ways: Taichi does not copy an array that a kernel only writes to a GPU, so cells that it leaves out had any values
            held: dict[str, Any] = {name: value if np.isscalar(value) else _on_device(value) for name, value in values.items()}
            kernel(*held.values())
            for name in self.signature.outputs:
                arrays[name][...] = held[name].to_numpy()

    def reverse(
        self, arrays: Mapping[str, np.ndarray], cotangents: Mapping[str, np.ndarray], numbers: frozenset[str], around: Around
    ) -> dict[str, np.ndarray]:
        """Run Taichi's reverse kernel.

        Args:
            arrays: values of all parameters: inputs as they were, new outputs as they ended.
            cotangents: of the outputs.
            numbers: float numbers among the parameters whose cotangents are wanted.
            around: looks of the values from outside.

        Returns:
            Cotangents of every float array, and of `numbers`.
        """
        if engine.settings().arch == "vulkan":
            raise KernelError(
                f"kernel {self.signature.name} has no derivative on arch 'vulkan', where Taichi's is 0 without a word; give the adjoint by "
                "hand, or arch='cpu' to diffsim.init"
            )
        with self._as_kernel_error("be differentiated"), engine.hand_written(self.signature.default_float(arrays)):
            kernel = self._kernel(("reverse", self.signature.default_float(arrays), numbers), around, numbers)
            if shares_memory():
                return self._reverse_in_place(kernel, arrays, cotangents, numbers)
            held = {}
            for name, p in self.signature.parameters.items():
                if p.scalar and name not in numbers:
                    held[name] = arrays[name].item()
                else:
                    held[name] = _with_gradient(np.atleast_1d(arrays[name]) if p.scalar else arrays[name], cotangents.get(name))
            kernel.grad(*held.values())
            return {
                name: held[name].grad.to_numpy().reshape(arrays[name].shape)
                for name, p in self.signature.parameters.items()
                if is_real(arrays[name]) and (not p.scalar or name in numbers)
            }

    def _reverse_in_place(
        self, kernel: Any, arrays: Mapping[str, np.ndarray], cotangents: Mapping[str, np.ndarray], numbers: frozenset[str]
    ) -> dict[str, np.ndarray]:
        """Run the reverse kernel on the arrays themselves; those that it may write to again are copied."""
        held, gradients = {}, {}
        for name, p in self.signature.parameters.items():
            array = arrays[name].reshape(1) if name in numbers else arrays[name]
            held[name] = array.copy() if name in self.signature.outputs else array
            if is_real(array) and (not p.scalar or name in numbers):
                gradients[name] = np.array(cotangents[name], array.dtype, order="C") if name in cotangents else np.zeros_like(array)
        engine.launch_reverse(kernel, list(held.values()), [gradients.get(name) for name in held])
        return {name: gradient.reshape(arrays[name].shape) for name, gradient in gradients.items()}

    @contextmanager
    def _as_kernel_error(self, action: str) -> Iterator[None]:
        """Turn an error of the engine into one of diffsim."""
        try:
            yield
        except DiffsimError:
            raise
        except engine.present().failures as error:
            raise KernelError(
                f"kernel {self.signature.name} cannot {action}: {engine.present().title} says\n{str(error).strip()}\n"
                "expected source that it compiles; change it, or see docs/user_kernels.md"
            ) from error

    def _kernel(self, key: Any, around: Around, numbers: frozenset[str] = frozenset()) -> Any:
        """The Taichi kernel for `key` and the looks of the values from outside. A compiled kernel does not change."""
        now = engine.settings()
        if now.engine != self.signature.engine:
            raise KernelError(
                f"kernel {self.signature.name} is written for engine {shown(self.signature.engine)}, expected "
                f"{shown(now.engine)}, which runs; "
                f"call diffsim.init(engine={shown(self.signature.engine)}), or write it with `import {now.engine} as ti`"
            )
        generation = now.generation
        if generation != self._generation:
            self._kernels, self._generation = {}, generation
        require_unchanged(self.names, around)
        key = (key, tuple(around[source.function, name] for source, name in self.names))
        if key not in self._kernels:
            if len(self._kernels) == KEPT:
                del self._kernels[next(iter(self._kernels))]
            self._kernels[key] = self._compile(numbers)
        return self._kernels[key]

    def _compile(self, numbers: frozenset[str]) -> Any:
        ti = engine.language()
        if not numbers:
            return ti.kernel(self.source.evaluated())
        name = self.source.function.__name__
        text = "@ti.kernel\n" + self.source.indexed(numbers, ONE_VALUE)
        return engine.compile_kernel(text, name, {**self.source.namespace(), ONE_VALUE: ti.types.ndarray(ndim=1)})


def shares_memory() -> bool:
    """True if kernels work on the memory of NumPy arrays as it is."""
    return engine.settings().arch == "cpu"


def _with_gradient(array: np.ndarray, cotangent: np.ndarray | None) -> Any:
    """A Taichi array with these values, and a gradient that starts at the cotangent, or at zero."""
    held = _on_device(array, is_real(array))
    if cotangent is not None and is_real(array):
        held.grad.from_numpy(np.asarray(cotangent, array.dtype, order="C"))
    return held


def _on_device(array: np.ndarray, with_gradient: bool = False) -> Any:
    """A Taichi array with these values."""
    ti = engine.language()
    held = engine.engine_array(getattr(ti, type_name(array.dtype)), array.shape, with_gradient)
    held.from_numpy(array)
    return held
