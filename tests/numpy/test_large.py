"""Running sums and products of large arrays outside of derivatives: by the kernels of derivatives, in the form that NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim import kernels
from diffsim.numpy.running import LARGE

ROUND_OFF = {"f4": 2e-3, "f8": 1e-11}
"""Rounding of a million factors near 1 or terms around 1, relative."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were called."""
    operators: list[str] = []
    scan = kernels.scans.large.scan

    def counted(op, *args):
        operators.append(op.value([x.dtype for x in args[0]]).single)
        return scan(op, *args)

    monkeypatch.setattr(kernels.scans.large, "scan", counted)
    return operators


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((LARGE,), None), ((LARGE + 7,), 0), ((LARGE,), -1), ((2, LARGE // 2), 1), ((4, LARGE // 4), None)]
)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_large_arrays_are_those_of_numpy_but_for_round_off(name: str, shape, axis, dtype: str, calls: list[str]) -> None:
    x = np.random.default_rng(0).uniform(0.999, 1.001, shape).astype(dtype)
    result, wanted = getattr(dnp, name)(x, axis), getattr(np, name)(x, axis)
    assert calls == ["add" if name == "cumsum" else "mul"]
    assert type(result) is np.ndarray and (result.shape, result.dtype) == (wanted.shape, wanted.dtype) and result.flags.writeable
    assert np.allclose(result, wanted, rtol=ROUND_OFF[dtype], atol=0)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (lambda x: x[:-1], {}),
        (lambda x: x.reshape(2, -1), {"axis": 0}),
        (lambda x: np.repeat(x, 2)[::2], {}),
        (lambda x: x.astype(int), {}),
        (lambda x: x.astype(complex), {}),
        (lambda x: x.astype("f4"), {"dtype": "f8"}),
        (lambda x: x, {"out": np.empty(LARGE)}),
    ],
    ids=["smaller", "another axis", "strided", "integers", "complex", "wider", "out"],
)
def test_all_others_are_those_of_numpy(make, options, calls: list[str]) -> None:
    x = make(np.random.default_rng(0).uniform(0.999, 1.001, LARGE))
    assert np.array_equal(dnp.cumsum(x, **options), np.cumsum(x, **options)) and not calls


def test_the_value_alone_has_the_bits_of_the_value_with_its_gradient() -> None:
    x = np.random.default_rng(0).uniform(0.999, 1.001, LARGE)

    def value(x):
        return dnp.sum(dnp.cumprod(x) * x)

    assert value(x) == ds.value_and_grad(value)(x)[0]
