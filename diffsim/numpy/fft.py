"""Discrete Fourier transforms, named as in `numpy.fft`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from diffsim.ad.array import core, wrap
from diffsim.ad.core import bottom
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.matrix import fft as transform
from diffsim.numpy.elementwise import conj, real
from diffsim.numpy.shaping import concatenate, flip, moveaxis, pad, roll

fftfreq, rfftfreq = np.fft.fftfreq, np.fft.rfftfreq


def _complex(x: Any) -> Any:
    value = core(x)
    value = value if hasattr(value, "dtype") else np.asarray(value)
    if value.dtype.kind == "c":
        return value
    return st.astype(value, dtype=np.dtype(np.complex64 if value.dtype == np.float32 else np.complex128))


def _fit(x: Any, n: int | None, axis: int) -> Any:
    """`x` cut or filled with zeros to a length along an axis."""
    if n is None or n == bottom(core(x)).shape[axis]:
        return x
    x = moveaxis(x, axis, -1)
    length = x.shape[-1]
    x = x[..., :n] if n < length else pad(x, [(0, 0)] * (x.ndim - 1) + [(0, n - length)])
    return moveaxis(x, -1, axis)


def _scale(count: int, inverse: bool, norm: str | None) -> float:
    """What NumPy's default is multiplied by for another normalisation."""
    match norm:
        case None | "backward":
            return 1.0
        case "ortho":
            return math.sqrt(count) if inverse else 1.0 / math.sqrt(count)
        case "forward":
            return float(count) if inverse else 1.0 / count
    raise ValueError(f"norm = {norm!r}, expected 'backward', 'ortho' or 'forward'")


def _transformed(x: Any, lengths: Any, axes: Any, norm: str | None, inverse: bool) -> Any:
    rank = bottom(_complex(x)).ndim
    if axes is None:
        axes = range(rank) if lengths is None else range(rank - len(lengths), rank)
    places = tuple(int(a) % rank for a in axes)
    for k, a in enumerate(places):
        x = _fit(x, None if lengths is None else lengths[k], a)
    value = _complex(x)
    out = transform(value, axes=places, inverse=inverse)
    scale = _scale(math.prod(value.shape[a] for a in places), inverse, norm)
    return wrap(out if scale == 1.0 else out * scale)


def fft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Transform along an axis."""
    return _transformed(x, None if n is None else [n], [axis], norm, False)


def ifft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Inverse transform along an axis."""
    return _transformed(x, None if n is None else [n], [axis], norm, True)


def fftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Transform along several axes."""
    return _transformed(x, s, axes, norm, False)


def ifftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Inverse transform along several axes."""
    return _transformed(x, s, axes, norm, True)


def fft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """Transform along two axes."""
    return fftn(x, s, axes, norm)


def ifft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """Inverse transform along two axes."""
    return ifftn(x, s, axes, norm)


def rfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Transform of real numbers: frequencies from 0 up."""
    out = moveaxis(fft(x, n, axis, norm), axis, -1)
    return moveaxis(out[..., : out.shape[-1] // 2 + 1], -1, axis)


def irfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Inverse of `rfft`, of length n (even by default). Imaginary parts at frequency 0 and at n/2 do not count."""
    x = moveaxis(wrap(_complex(x)), axis, -1)
    length = 2 * (x.shape[-1] - 1) if n is None else int(n)
    half = _fit(x, length // 2 + 1, -1)
    mirrored = conj(flip(half[..., 1 : (length + 1) // 2], -1))
    return moveaxis(real(ifft(concatenate([half, mirrored], -1), None, -1, norm)), -1, axis)


def rfft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """Transform of real numbers along two axes, of which the last keeps frequencies from 0 up."""
    return rfftn(x, s, axes, norm)


def irfft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """Inverse of `rfft2`."""
    return irfftn(x, s, axes, norm)


def rfftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Transform of real numbers along several axes, of which the last keeps frequencies from 0 up."""
    places = list(range(bottom(core(x)).ndim)) if axes is None else list(axes)
    out = rfft(x, None if s is None else s[-1], places[-1], norm)
    return fftn(out, None if s is None else s[:-1], places[:-1], norm) if len(places) > 1 else out


def irfftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Inverse of `rfftn`."""
    places = list(range(bottom(core(x)).ndim)) if axes is None else list(axes)
    out = ifftn(x, None if s is None else s[:-1], places[:-1], norm) if len(places) > 1 else x
    return irfft(out, None if s is None else s[-1], places[-1], norm)


def _centre(x: Any, axes: Any, sign: int) -> Any:
    rank = bottom(core(x)).ndim
    for a in range(rank) if axes is None else np.atleast_1d(axes):
        n = bottom(core(x)).shape[int(a)]
        x = roll(x, n // 2 if sign > 0 else -(n // 2), int(a))
    return x


def fftshift(x: Any, axes: Any = None) -> Any:
    """Frequency 0 moved to the middle."""
    return _centre(x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """Inverse of `fftshift`."""
    return _centre(x, axes, -1)


