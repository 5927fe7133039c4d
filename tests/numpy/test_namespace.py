"""How the namespace behaves as a whole: NumPy's own functions, other names, errors, types of results."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.ad.arrays.array import Array
from diffsim.errors import DerivativeError


def inside(f: Callable[..., Any], *values: Any) -> Any:
    return ds.vjp(f, *values)[0]


def test_arrays_name_the_namespace() -> None:
    def f(x: Any) -> Any:
        assert x.__array_namespace__() is dn
        return x

    inside(f, np.ones(2))


def test_results_outside_are_numpy_arrays_and_inside_ours() -> None:
    assert type(dn.sin(np.ones(2))) is np.ndarray and type(dn.sum(np.ones(2))) is np.float64

    def f(x: Any) -> Any:
        assert isinstance(dn.zeros(2), Array) and isinstance(np.add(x, 1.0), Array)
        assert isinstance(x, dn.ndarray) and isinstance(np.ones(2), dn.ndarray) and not isinstance([1.0], dn.ndarray)
        return x

    inside(f, np.ones(2))


def test_an_array_that_outlives_its_derivative_is_refused() -> None:
    """Functions that are NumPy's own outside must not send it back and forth, nor take its values for constants."""
    kept: list[Any] = []
    ds.vjp(lambda x: (kept.append(x), x)[1], np.array([1.0, 4.0]))
    x = kept[0]
    functions = (dn.sqrt, dn.sum, dn.cumsum, np.sqrt, lambda a: dn.concatenate([a, a]), lambda a: dn.add.reduce(a), lambda a: dn.fft.fft(a))
    for f in functions:
        with pytest.raises(DerivativeError, match="a derivative that has ended"):
            f(x)


@pytest.mark.parametrize(
    "call",
    [lambda x: dn.linalg.eig(x), lambda x: dn.histogram2d(x[0], x[1]), lambda x: np.roots(x[0]), lambda x: dn.polyfit(x[0], [x[1]], 1)],
)
def test_functions_without_a_rule_say_so(call: Callable[[Any], Any]) -> None:
    with pytest.raises(DerivativeError, match=r"numpy\.[a-z0-9.]+ has no derivative in diffsim\.numpy; .* ds\.custom_vjp"):
        inside(call, np.eye(2))


def test_functions_without_a_rule_take_plain_values() -> None:
    def f(x: Any) -> Any:
        counts, _ = dn.histogram(dn.array([1.0, 2.0, 2.5]), 2)
        return x * counts[1] + dn.linalg.svd(dn.eye(2))[1][0]

    assert inside(f, 1.0) == 3.0
    with pytest.raises(AttributeError):
        dn.no_such_function  # noqa: B018 -- reading it raises


WRONG: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: dn.sum(x, axis=2), np.exceptions.AxisError, "axis 2 is out of bounds, expected -2 to 1 of an array with 2 axes"),
    (lambda x: dn.max(x, axis=-3), np.exceptions.AxisError, "axis -3"),
    (lambda x: dn.cumsum(x, axis=5), np.exceptions.AxisError, "axis 5"),
    (lambda x: dn.sort(x, axis=2), np.exceptions.AxisError, "axis 2"),
    (lambda x: dn.fft.fft(x, axis=2), np.exceptions.AxisError, "axis 2"),
    (lambda x: dn.sum(x, axis=(0, 0)), ValueError, "twice"),
    (lambda x: dn.transpose(x, (0,)), ValueError, "2 axes"),
    (lambda x: dn.concatenate([x, x[0]]), ValueError, r"\(2, 3\), \(3,\)"),
    (lambda x: dn.concatenate([x, x], axis=2), np.exceptions.AxisError, "axis 2"),
    (lambda x: dn.stack([x, x[:, :2]]), ValueError, r"\(2, 3\), \(2, 2\)"),
    (lambda x: dn.reshape(x, (4, 2)), ValueError, "cannot reshape"),
    (lambda x: dn.squeeze(x, 0), ValueError, "length 1"),
    (lambda x: dn.split(x, 2, axis=1), ValueError, "3 cannot be split into 2"),
    (lambda x: x + np.ones(2), ValueError, "could not be broadcast"),
    (lambda x: dn.matmul(x, x), ValueError, "mismatch"),
    (lambda x: dn.matmul(x, 2.0), ValueError, r"use \*"),
    (lambda x: dn.tensordot(x, x, 1), ValueError, r"\(2, 3\)"),
    (lambda x: dn.einsum("ij,jk", x), ValueError, "2 operands, got 1"),
    (lambda x: dn.einsum("i", x), ValueError, "2 axes"),
    (lambda x: dn.linalg.inv(x), np.linalg.LinAlgError, "square"),
    (lambda x: dn.linalg.inv(x[:, :2] * 0.0), np.linalg.LinAlgError, "inv of a singular matrix"),
    (lambda x: dn.linalg.svd(x), DerivativeError, r"svd with full_matrices=True .* pass full_matrices=False"),
    (lambda x: dn.linalg.svd(x[:, :2], hermitian=True), DerivativeError, "svd with hermitian=True .* take eigh"),
    (lambda x: dn.linalg.svd(x * 1j), DerivativeError, "svd of complex matrices"),
    (lambda x: dn.linalg.qr(x.T, "complete"), DerivativeError, "mode='complete' of matrices of shape .* expected mode='reduced' or 'r'"),
    (lambda x: dn.linalg.qr(x, "raw"), DerivativeError, "mode='raw'"),
    (lambda x: dn.linalg.norm(x * 1j, 2), DerivativeError, "svd of complex matrices"),
    (lambda x: dn.linalg.cholesky(x[:, :2] * 1j), DerivativeError, "complex"),
    (lambda x: dn.fft.fft(x, 0), ValueError, "length 0"),
    (lambda x: dn.fft.fft(x, norm="other"), ValueError, "'ortho'"),
    (lambda x: dn.take(x, 6), IndexError, "6 is out of bounds"),
    (lambda x: dn.pad(x, 1, mode=lambda *args: None), DerivativeError, "mode of pad is a function"),
    (lambda x: dn.quantile(x, 1.5), ValueError, r"\[0, 1\]"),
    (lambda x: dn.quantile(x, 0.5, method="lower"), DerivativeError, "linear"),
    (lambda x: dn.gradient(x, 1.0, 2.0, 3.0), ValueError, "3 spacings"),
    (lambda x: dn.max(x[:0], axis=0), ValueError, "empty|zero-size"),
    (lambda x: dn.max(x, where=[True, False, True]), ValueError, "initial"),
    (lambda x: dn.clip(x, 0.0, 1.0, out=x), DerivativeError, "takes no out = "),
    (lambda x: dn.sin(x, x, x), TypeError, "positional arguments"),
    (lambda x: dn.sin(x, where=x > 0), DerivativeError, "numpy.where"),
    (lambda x: dn.logaddexp.reduce(x), DerivativeError, "ds.reduce"),
    (lambda x: dn.multiply.at(x, 0, 2.0), DerivativeError, "reduce_by_index"),
    (lambda x: dn.add(np.ones(3), x, out=np.ones((2, 3))), DerivativeError, "NumPy array"),
    (lambda x: np.add(x, x, out=np.ones((2, 3))), DerivativeError, "NumPy array"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_errors_name_the_mistake(case: int) -> None:
    call, kind, text = WRONG[case]
    with pytest.raises(kind, match=text):
        inside(call, np.arange(6.0).reshape(2, 3))


def test_universal_functions_write_where_they_are_told() -> None:
    def f(x: Any) -> Any:
        out = dn.zeros(3)
        dn.multiply(x, 2.0, out=out)
        np.sin(x, out=out, where=x > 1.0)
        return out

    value, pullback = ds.vjp(f, np.array([0.5, 1.5, 1.0]))
    np.testing.assert_allclose(value, [1.0, np.sin(1.5), 2.0], rtol=1e-15)
    np.testing.assert_allclose(pullback(np.ones(3))[0], [2.0, np.cos(1.5), 2.0], rtol=1e-15)


def test_parts_of_complex_arrays_are_views() -> None:
    def f(x: Any) -> Any:
        z = x * (1.0 + 1.0j)
        z.real[0] = 5.0 * x[1]
        dn.imag(z)[1] += 1.0
        return z.real, z.imag

    (re, im), pullback = ds.vjp(f, np.array([1.0, 2.0]))
    assert re.tolist() == [10.0, 2.0] and im.tolist() == [1.0, 3.0]
    assert pullback((np.array([1.0, 10.0]), np.array([100.0, 1000.0])))[0].tolist() == [100.0, 1015.0]


def test_descending_sort_keeps_equal_entries_in_order() -> None:
    x = np.array([1.0, 3.0, 1.0, 3.0, 2.0])
    assert dn.argsort(x, descending=True).tolist() == [1, 3, 4, 0, 2]
    assert dn.sort(x, descending=True).tolist() == [3.0, 3.0, 2.0, 1.0, 1.0]


def test_divmod_and_reflected_operators() -> None:
    assert inside(lambda x: operator.matmul(np.ones((2, 2)), x), np.ones(2)).tolist() == [2.0, 2.0]
    assert [v.tolist() for v in inside(lambda x: divmod(np.array([5.0, 7.0]), x), np.array([2.0, 4.0]))] == [[2.0, 1.0], [1.0, 3.0]]
