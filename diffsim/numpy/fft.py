"""Discrete Fourier transforms, named as in `numpy.fft`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import wrap
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.matrix import fft as transform
from diffsim.base.messages import shown
from diffsim.errors import DerivativeError
from diffsim.numpy.calling.dispatch import as_array, as_copied, axes_of, of_values, one_axis, outside, value_of
from diffsim.numpy.elementwise import conj, real
from diffsim.numpy.padding import pad
from diffsim.numpy.shapes.creation import asarray
from diffsim.numpy.shapes.joining import concatenate, flip, roll
from diffsim.numpy.shapes.shaping import moveaxis, ndim

fftfreq, rfftfreq = of_values(np.fft.fftfreq), of_values(np.fft.rfftfreq)


def _complex(x: Any) -> Any:
    value = value_of(x)
    if value.dtype.kind == "c":
        return value
    return st.astype(value, dtype=np.dtype(np.complex64 if value.dtype in (np.float32, np.float16) else np.complex128))


def _fit(x: Any, n: int, axis: int) -> Any:
    """`x` cut or filled with zeros to a length along an axis."""
    if n < 1:
        raise ValueError(f"a transform of length {n}, expected 1 at least")
    x = asarray(x)
    lead, length = (slice(None),) * axis, x.shape[axis]
    if n <= length:
        return x if n == length else x[(*lead, slice(n))]
    return pad(x, [(0, n - length if k == axis else 0) for k in range(x.ndim)])


def _scale(count: int, inverse: bool, norm: str | None) -> float:
    """Factor of NumPy's default for another normalisation."""
    match norm:
        case None | "backward":
            return 1.0
        case "ortho":
            return math.sqrt(count) if inverse else 1.0 / math.sqrt(count)
        case "forward":
            return float(count) if inverse else 1.0 / count
    raise ValueError(f"norm = {shown(norm)}, expected 'backward', 'ortho' or 'forward'")


def _places(x: Any, s: Any, axes: Any) -> list[int]:
    """The axes to transform, in their order: an axis may be named again."""
    rank = ndim(x)
    if axes is None:
        return list(range(rank) if s is None else range(rank - len(s), rank))
    return [one_axis(a, rank) for a in axes]


def _transformed(x: Any, lengths: Any, axes: list[int], norm: str | None, inverse: bool) -> Any:
    if not axes:
        return asarray(x)
    original = x
    for k, axis in enumerate(axes):
        x = x if lengths is None or lengths[k] in (None, -1) else _fit(x, lengths[k], axis)
    value = _complex(x)
    out = transform(value, axes=tuple(axes), inverse=inverse)
    scale = _scale(math.prod(value.shape[a] for a in axes), inverse, norm)
    return as_array(as_copied(out if scale == 1.0 else out * scale, original))


# complex


@outside(np.fft)
def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Transform along an axis."""
    return _transformed(a, [n], [one_axis(axis, ndim(a))], norm, False)


@outside(np.fft)
def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Inverse transform along an axis."""
    return _transformed(a, [n], [one_axis(axis, ndim(a))], norm, True)


@outside(np.fft)
def fftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Transform along several axes."""
    return _transformed(a, s, _places(a, s, axes), norm, False)


@outside(np.fft)
def ifftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Inverse transform along several axes."""
    return _transformed(a, s, _places(a, s, axes), norm, True)


@outside(np.fft)
def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """Transform along two axes."""
    return fftn(a, s, axes, norm)


@outside(np.fft)
def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """Inverse transform along two axes."""
    return ifftn(a, s, axes, norm)


# real


@outside(np.fft)
def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Transform of real numbers: frequencies from 0 up."""
    axis = one_axis(axis, ndim(a))
    out = fft(a, n, axis, norm)
    return as_copied(out[(slice(None),) * axis + (slice(out.shape[axis] // 2 + 1),)], a)


@outside(np.fft)
def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Inverse of `rfft`, of length n (even by default). Imaginary parts at frequency 0 and at n/2 do not count."""
    x = moveaxis(wrap(_complex(a)), axis, -1)
    length = 2 * (x.shape[-1] - 1) if n is None else int(n)
    half = _fit(x, length // 2 + 1 if length > 0 else length, x.ndim - 1)
    mirrored = conj(flip(half[..., 1 : (length + 1) // 2], -1))
    result = real(ifft(concatenate([half, mirrored], -1), None, -1, norm))
    if value_of(a).dtype == np.float16:
        result = result.astype(np.float16)
    return as_copied(moveaxis(result, -1, axis), a)


def _distinct(axes: list[int]) -> list[int]:
    if len(set(axes)) < len(axes):
        raise DerivativeError(
            f"axes = {axes} of a real transform name an axis twice, expected distinct ones; transform one after the other"
        )
    return axes


@outside(np.fft)
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Transform of real numbers along several axes, of which the last keeps frequencies from 0 up."""
    *others, last = _distinct(_places(a, s, axes))
    out = rfft(a, None if s is None else s[-1], last, norm)
    return _transformed(out, None if s is None else s[:-1], others, norm, False) if others else out


@outside(np.fft)
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Inverse of `rfftn`."""
    *others, last = _distinct(_places(a, s, axes))
    out = _transformed(a, None if s is None else s[:-1], others, norm, True) if others else a
    return irfft(out, None if s is None else s[-1], last, norm)


@outside(np.fft)
def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """Transform of real numbers along two axes, of which the last keeps frequencies from 0 up."""
    return rfftn(a, s, axes, norm)


@outside(np.fft)
def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """Inverse of `rfft2`."""
    return irfftn(a, s, axes, norm)


# of a signal that is symmetric, with a real spectrum

_OPPOSITE = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


@outside(np.fft)
def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The real transform of a signal that is conjugate symmetric, given by its first half."""
    return irfft(conj(asarray(a)), n, axis, _OPPOSITE.get(norm, norm))


@outside(np.fft)
def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Inverse of `hfft`."""
    return conj(rfft(a, n, axis, _OPPOSITE.get(norm, norm)))


# order of frequencies


def _centre(x: Any, axes: Any, sign: int) -> Any:
    x = asarray(x)
    places = axes_of(axes, x.ndim)
    return roll(x, tuple(sign * (x.shape[a] // 2) for a in places), places)


@outside(np.fft)
def fftshift(x: Any, axes: Any = None) -> Any:
    """Frequency 0 moved to the middle."""
    return _centre(x, axes, 1)


@outside(np.fft)
def ifftshift(x: Any, axes: Any = None) -> Any:
    """Inverse of `fftshift`."""
    return _centre(x, axes, -1)


__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2", "irfftn",
    "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
