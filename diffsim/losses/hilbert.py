"""The Hilbert transform along time, as one operation."""

from __future__ import annotations

from typing import Any

import numpy

from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.core import Primitive
from diffsim.ad.ops.structure import linear
from diffsim.typing import Array


def _turned(traces: Array) -> Array:
    """Each frequency a quarter of a period later, by the discrete Fourier transform."""
    spectrum = -1j * numpy.fft.rfft(traces, axis=0)
    spectrum[0] = 0.0  # a constant has no transform
    if traces.shape[0] % 2 == 0:
        spectrum[-1] = 0.0  # nor has the highest frequency
    return numpy.fft.irfft(spectrum, traces.shape[0], axis=0)


_hilbert: Primitive = linear("hilbert", _turned, lambda ct, x, params: -_hilbert(ct))  # a quarter of a period earlier: minus that


def hilbert(traces: Any) -> Any:
    """The Hilbert transform along the first axis: the imaginary part of `scipy.signal.hilbert`, which takes a trace to be periodic."""
    return wrap(_hilbert(core(traces)))
