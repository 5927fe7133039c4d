"""Arguments for the kernels of the tables: away from kinks, none alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffsim.ad.userkernel import UserKernel

NUMBERS = {"k": 0.7, "n": 40}


def inputs_of(kernel: UserKernel, size: int = 6) -> list[Any]:
    """One value for each input: floats between 0.3 and 1.3, indices, or the number of that name."""
    random = np.random.default_rng(7)
    inputs: list[Any] = []
    for name in kernel.signature.inputs:
        parameter = kernel.signature.parameters[name]
        shape = (size,) * (1 if parameter.ndim is None else parameter.ndim)
        if parameter.scalar:
            inputs.append(NUMBERS[name])
        elif parameter.dtype is not None and parameter.dtype.kind == "i":
            inputs.append(random.integers(0, size, shape).astype(parameter.dtype))
        else:
            inputs.append(random.uniform(0.3, 1.3, shape).astype(parameter.dtype or np.float64))
    return inputs
