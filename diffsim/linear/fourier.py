"""Fourier transforms of real arrays along several axes, by SciPy, with orthonormal factors.

SciPy's public functions look for other libraries and check their arguments for 10 us a call, where the transform of 64 x 64 numbers takes
18. So the compiled functions behind them are called, where they give the same bits in a trial. Other versions of SciPy may have others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

ORTHONORMAL, ONE_THREAD = 1, 1
COMPLEX: dict[np.dtype, np.dtype] = {np.dtype(np.float32): np.dtype(np.complex64), np.dtype(np.float64): np.dtype(np.complex128)}


class Compiled(NamedTuple):
    """Functions that write into their argument `out`: from real to complex numbers, and back."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]


def forward(values: npt.NDArray, axes: tuple[int, ...]) -> npt.NDArray:
    """The coefficients of real values, along the last of the axes those that are not conjugates of others."""
    functions = compiled()
    if functions is None or values.dtype not in COMPLEX:
        return _public_forward(values, axes)
    return _forward(functions, values, axes)


def backward(coefficients: npt.NDArray, axes: tuple[int, ...], last: int) -> npt.NDArray:
    """The values of coefficients of `forward`; `last`: their number along the last of the axes."""
    functions = compiled()
    if functions is None or coefficients.dtype not in COMPLEX.values():
        return _public_backward(coefficients, axes, last)
    return _backward(functions, coefficients, axes, last)


@functools.cache
def compiled() -> Compiled | None:
    """SciPy's compiled functions; None if it has none that give what its public functions give."""
    try:
        from scipy.fft._pocketfft import pypocketfft

        functions = Compiled(pypocketfft.r2c, pypocketfft.c2r)
        for dtype in COMPLEX:
            values = np.random.default_rng(0).standard_normal((6, 4, 5)).astype(dtype)
            for axes in ((0, 1, 2), (0, 1), (2,)):
                hat = _forward(functions, values, axes)
                back = _backward(functions, hat, axes, values.shape[axes[-1]])
                wanted = _public_forward(values, axes)
                if not (np.array_equal(hat, wanted) and np.array_equal(back, _public_backward(wanted, axes, values.shape[axes[-1]]))):
                    return None
    except (ImportError, AttributeError, TypeError, ValueError, RuntimeError):
        return None
    return functions


def _forward(functions: Compiled, values: npt.NDArray, axes: tuple[int, ...]) -> npt.NDArray:
    last, shape = axes[-1], values.shape
    out = np.empty((*shape[:last], shape[last] // 2 + 1, *shape[last + 1 :]), COMPLEX[values.dtype])
    functions.forward(values, axes, True, ORTHONORMAL, out, ONE_THREAD)
    return out


def _backward(functions: Compiled, coefficients: npt.NDArray, axes: tuple[int, ...], last: int) -> npt.NDArray:
    along, shape = axes[-1], coefficients.shape
    out = np.empty((*shape[:along], last, *shape[along + 1 :]), coefficients.real.dtype)
    functions.backward(coefficients, axes, last, False, ORTHONORMAL, out, ONE_THREAD)
    return out


def _public_forward(values: npt.NDArray, axes: tuple[int, ...]) -> npt.NDArray:
    from scipy import fft

    return fft.rfftn(values, axes=axes, norm="ortho")


def _public_backward(coefficients: npt.NDArray, axes: tuple[int, ...], last: int) -> npt.NDArray:
    from scipy import fft

    return fft.irfftn(coefficients, [*(coefficients.shape[axis] for axis in axes[:-1]), last], axes=axes, norm="ortho")
