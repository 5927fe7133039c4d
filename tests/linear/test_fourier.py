"""Fourier transforms by SciPy's compiled functions, and by its public ones where those are others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import fft

from diffsim.linear import fourier

CASES = [((6, 5), (0, 1)), ((4, 6, 3), (0, 1, 2)), ((4, 6, 3), (1,)), ((7,), (0,)), ((5, 4, 6), (0, 2))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ways", ["compiled", "public"])
def test_transforms_have_the_bits_of_scipy(ways: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if ways == "public":
        monkeypatch.setattr(fourier, "compiled", lambda: None)
    for shape, axes in CASES:
        values = np.random.default_rng(1).standard_normal((2 * shape[0], *shape[1:])).astype(dtype)[::2]  # not contiguous
        hat = fourier.forward(values, axes)
        np.testing.assert_array_equal(hat, fft.rfftn(values, axes=axes, norm="ortho"))
        back = fourier.backward(hat, axes, shape[axes[-1]])
        assert back.dtype == values.dtype and hat.dtype == fourier.COMPLEX[values.dtype]
        np.testing.assert_array_equal(back, fft.irfftn(hat, [shape[a] for a in axes], axes=axes, norm="ortho"))


def test_compiled_functions_that_give_something_else_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    pypocketfft = pytest.importorskip("scipy.fft._pocketfft.pypocketfft")
    if fourier.compiled.__wrapped__() is None:
        pytest.skip("this SciPy has other functions, so the public ones are taken")

    def twice(values: Any, axes: Any, forward: bool, norm: int, out: Any, workers: int) -> None:
        out[...] = 2 * fft.rfftn(values, axes=axes, norm="ortho")

    def other(values: Any, axes: Any) -> None:
        """A function with other arguments."""

    for replaced in (twice, other):
        with monkeypatch.context() as changed:
            changed.setattr(pypocketfft, "r2c", replaced)
            assert fourier.compiled.__wrapped__() is None
    with monkeypatch.context() as changed:
        changed.delattr(pypocketfft, "c2r")
        assert fourier.compiled.__wrapped__() is None
