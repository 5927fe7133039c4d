"""Defects that the test data of NumPy's own functions showed: `scripts/fuzz/numpy_suite.py` runs all of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.errors import DerivativeError

X = np.arange(1.0, 7.0) ** 1.5
SQUARE = np.array([[2.0, 1.0], [0.5, 3.0]])


def inside(function: Callable[[Any], Any], x: Any = X) -> Any:
    """The values that a function has inside of a derivative."""
    kept: list[Any] = []

    def run(v: Any) -> Any:
        kept.append(ds.stop_gradient(function(v)))
        return dn.sum(dn.abs(v))

    ds.grad(run)(x)
    result = kept[0]
    return [np.array(part) for part in result] if isinstance(result, tuple) else np.array(result)


def put(namespace: Any, x: Any, places: Any, values: Any, axis: Any) -> Any:
    out = namespace.array(x)
    namespace.put_along_axis(out, places, values, axis)
    return out


LINE = np.array([[1], [0]])
CASES: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "columns of a vector": (lambda n, x: x.reshape((2, 3), order="F"), X),
    "columns of a vector, by the function": (lambda n, x: n.reshape(x, (3, -1), order="F"), X),
    "columns in a small letter": (lambda n, x: x.reshape(2, 3).flatten("f"), X),
    "the usual order by None": (lambda n, x: x.reshape(2, 3).ravel(None), X),
    "a copy in another shape": (lambda n, x: x.reshape(3, 2, copy=True), X),
    "one line of places for all": (lambda n, x: put(n, x, np.array([[1]]), 5.0, 1), SQUARE),
    "places that values share": (lambda n, x: put(n, x * 2.0, LINE, np.array([[7.0], [8.0]]) * x, 0), SQUARE),
    "places of all entries": (lambda n, x: put(n, x, np.array([3, -4]), np.array([1.0, 2.0]), None), SQUARE),
    "axes by numbers": (lambda n, x: n.einsum(x, [7, 2], x, [2, 40], [40, 7]), SQUARE),
    "axes by numbers, in their order": (lambda n, x: n.einsum(x, [3, 1], x, [3, 2]), SQUARE),
    "axes by numbers and dots": (lambda n, x: n.einsum(x, [..., 0], [...]), SQUARE),
    "equal ratios in the plane": (lambda n, x: n.real(n.geomspace(1j * x[0], 16j * x[1] - 1, 5) * (1 + 2j)), X),
    "equal ratios up to the last": (lambda n, x: n.geomspace(x[0], 2.0 * x[1], 4), X),
    "axes of a range": (lambda n, x: n.moveaxis(x.reshape(1, 2, 3), range(2), (2, 1)), X),
    "a transform of a length as it is": (lambda n, x: n.real(n.fft.fft2(x.reshape(2, 3), s=(-1, 2))), X),
    "options by position": (lambda n, x: n.add.reduce(x, 0, None, None, True), X),
    "parts in a type": (lambda n, x: n.add.reduceat(x, [0, 2], 0, None), X),
    "no parts": (lambda n, x: n.add.reduceat(x, np.zeros(0, int)), X),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    function, x = CASES[name]
    wanted = function(np, x.copy())
    result = inside(lambda v: function(dn, v), x)
    assert result.shape == wanted.shape and result.dtype == wanted.dtype
    np.testing.assert_allclose(result, wanted, rtol=1e-13)
    rng = np.random.default_rng(0)
    w, direction, h = rng.standard_normal(wanted.shape), rng.standard_normal(x.shape), 1e-6
    slope = np.sum(ds.grad(lambda v: dn.sum(w * function(dn, v)))(x) * direction)
    above, below = (np.sum(w * function(np, x + s * direction)) for s in (h, -h))
    np.testing.assert_allclose(slope, (above - below) / (2.0 * h), rtol=1e-7, atol=1e-8)


RECORDS = [(1, 2.5), (3, 4.5)]
VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "whole numbers go down": lambda n, x: n.linspace(-1, 3, 8, dtype=int),
    "no step": lambda n, x: n.linspace(0, 1, 0, retstep=True)[1],
    "whole numbers of equal ratio": lambda n, x: n.geomspace(1, 1000, 4, dtype=int),
    "complex equal ratios": lambda n, x: n.geomspace(1 + 1j, 1000 + 1000j, 4),
    "an upper factor of a complex matrix": lambda n, x: n.linalg.cholesky(np.array([[4.0, 1j], [-1j, 3.0]]), upper=True),
    "sums of small integers": lambda n, x: n.einsum("ij->i", np.array([[100, 27], [1, 2]], "i1")),
    "integers of 64 bits": lambda n, x: n.array([1, 2**64 - 2], np.uint64),
    "integers beyond the digits of a float": lambda n, x: n.asarray([-1, 2**63 - 1, 3], np.int64),
    "records": lambda n, x: n.array(RECORDS, "i4,f8"),
    "choices in the type of the array": lambda n, x: n.choose([0, 1, 2], [np.ones(3, np.int32), -2, 4]),
    "nothing equals None": lambda n, x: x == None,  # noqa: E711 -- of each entry
    "everything is unlike None": lambda n, x: x != None,  # noqa: E711
    "nothing equals a text": lambda n, x: x == "a",
    "a number is not None": lambda n, x: x[0] == None,  # noqa: E711
    "conditions together": lambda n, x: n.logical_and.reduce([x > 1.5, x < 9.0]),
    "bits": lambda n, x: n.bitwise_or.accumulate(np.array([1, 2, 4])),
    "running maximum of small integers": lambda n, x: n.maximum.accumulate(np.array([1, 3, 2], "i1")),
    "parts of conditions": lambda n, x: n.logical_or.reduceat(x > 5.0, [0, 3]),
    "a component as an array": lambda n, x: n.cross([1, 2], [3, 5]),
    "direction of infinity": lambda n, x: n.sign(np.array([np.inf, -np.inf, 2.0]) + 0j),
    "the real part of a number": lambda n, x: n.real(x[1]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    function = VALUES[name]
    wanted, result = np.asarray(function(np, X)), inside(lambda v: function(dn, v))
    assert result.shape == wanted.shape and result.dtype == wanted.dtype
    if wanted.dtype.kind == "V":
        np.testing.assert_array_equal(result, wanted)
    else:
        np.testing.assert_allclose(result, wanted, rtol=1e-13, atol=1e-13)


def test_direction_of_differentiated_infinity() -> None:
    z = np.array([np.inf, -np.inf, 2.0, 0.0]) + 0j
    np.testing.assert_array_equal(inside(dn.sign, z), np.sign(z))


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "a diagonal of unlike lengths": (lambda x: dn.einsum("ii->i", x.reshape(2, 3)), ValueError, "axes of 2 and of 3"),
    "axes of unlike lengths": (lambda x: dn.einsum("i,i", x, x[:2]), ValueError, "axes of 6 and of 2"),
    "constants around edges": (lambda x: dn.pad(x, 1, "edge", constant_values=0), ValueError, "constant_values"),
    "a result in an array": (lambda x: dn.isposinf(x, dn.zeros(6, bool)), DerivativeError, "takes no out"),
    "parts in an array": (lambda x: dn.add.reduceat(x, [0, 2], 0, None, dn.zeros(2)), DerivativeError, "takes no out"),
    "an unknown order": (lambda x: x.flatten("x"), ValueError, "order"),
    "axes by too many numbers": (lambda x: dn.einsum(dn.ones((1,) * 27), list(range(27))), DerivativeError, "26 different"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    function, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        inside(function)


def test_a_product_without_axes_is_a_number() -> None:
    kept: list[Any] = []
    ds.grad(lambda x: kept.append(dn.einsum("ij,i->", np.eye(2, dtype="i1"), np.ones(2, "i1"))) or dn.sum(x))(X)
    assert type(kept[0]) is np.int8 and kept[0] == 2


def test_a_result_of_numpy_in_another_type_is_refused_each_time() -> None:
    """The first call of a form is compared with NumPy's; those that follow must not slip through."""
    for _ in range(3):
        with pytest.raises(DerivativeError, match="and int64"):
            inside(lambda x: dn.quantile([10, 11, 12], [0, 1]))


MANY_AXES = """
import numpy as np
import diffsim as ds

x, k = np.arange(12.0).reshape(3, 4), np.array([1, 1, 2]).reshape((1,) * 32 + (3,))
gradient = ds.grad(lambda a: (a[k] * np.array([1.0, 2.0, 3.0])[:, None]).sum())(x)
assert (gradient == np.array([[0.0], [3.0], [3.0]])).all()
wide = ds.grad(lambda a: (a[(0,) * 33 + ([1, 1, 3],)] * np.array([1.0, 2.0, 3.0])).sum())(np.arange(6.0).reshape((1,) * 33 + (6,)))
assert wide.ravel().tolist() == [0, 3, 0, 3, 0, 0]
none = ds.grad(lambda a: a[k].sum())(np.zeros((3, 0, 4)))
assert none.shape == (3, 0, 4)
"""


def test_indices_with_more_axes_than_numpy_can_add_at() -> None:
    """`np.add.at` ends the interpreter there."""
    done = subprocess.run([sys.executable, "-c", MANY_AXES], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
