"""Writes into an array without axes: each way that NumPy has, inside of a derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as dnp

WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "put": lambda np, a, v: np.put(a, 0, v),
    "put of several": lambda np, a, v: np.put(a, [0, -1, 0], [v, 3.0, 2.0 * v]),
    "put that clips": lambda np, a, v: np.put(a, [5, -7], v, mode="clip"),
    "put of none": lambda np, a, v: np.put(a, [], v),
    "place": lambda np, a, v: np.place(a, True, v),
    "putmask": lambda np, a, v: np.putmask(a, True, v),
    "putmask of none": lambda np, a, v: np.putmask(a, False, v),
    "copyto": lambda np, a, v: np.copyto(a, v, where=True),
    "copyto of none": lambda np, a, v: np.copyto(a, v, where=numpy.array(False)),
    "add.at": lambda np, a, v: np.add.at(a, (), v),
    "an index": lambda np, a, v: a.__setitem__((), v),
    "a mask": lambda np, a, v: a.__setitem__(numpy.array(True), v),
    "all": lambda np, a, v: a.__setitem__(..., v),
    "flat": lambda np, a, v: a.flat.__setitem__(0, v),
    "fill": lambda np, a, v: a.fill(v),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_into_an_array_without_axes(name: str) -> None:
    def written(np: Any, x: Any) -> Any:
        a = np.array(x[0] * x[1])
        WRITES[name](np, a, x[2] * x[2])
        return a * x[0]

    x = numpy.array([2.0, 3.0, 5.0])
    value, gradient = ds.value_and_grad(lambda x: written(dnp, x))(x)
    assert value == written(numpy, x)
    steps = 1e-6 * numpy.eye(3)
    slopes = [(written(numpy, x + step) - written(numpy, x - step)) / 2e-6 for step in steps]
    numpy.testing.assert_allclose(gradient, slopes, rtol=1e-6)
