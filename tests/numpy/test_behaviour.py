"""Value, type, shape and refusals inside of a derivative are NumPy's, over axes, empty arrays, types, and values that are not finite."""

from __future__ import annotations

import itertools
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.errors import DerivativeError, DiffsimError
from tests.sampled import together

REDUCTIONS = (
    "sum", "prod", "max", "min", "mean", "var", "std", "ptp", "all", "any", "nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax",
    "nanmin", "median", "count_nonzero", "average",
)  # fmt: skip
ALONG = ("cumsum", "cumprod", "nancumsum", "nancumprod", "argmax", "argmin", "sort", "argsort", "flip", "diff")
AXES = (None, 0, 1, -1, 2, -3, (0, 1), (1, 0), (-1, 0), (0, 0), ())
TYPES = ("f2", "f4", "f8", "c8", "c16", "i2", "i8", "u1", "?")
SHAPES = ((3, 4), (0, 3), (2, 0), (3,), (), (1, 2, 2))


def values_of(shape: tuple[int, ...], dtype: str, special: bool, rng: np.random.Generator) -> np.ndarray:
    x = np.asarray(rng.integers(0, 5, shape) / (2.0 if dtype[0] in "fc" else 1.0))
    if special and dtype[0] in "fc" and x.size:
        x.flat[0], x.flat[-1] = np.nan, np.inf
    return (x + 0.5j * x).astype(dtype) if dtype[0] == "c" and not special else x.astype(dtype)


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs)
        except Exception as error:
            return error


def inside(function: Callable[..., Any]) -> Callable[..., Any]:
    """The value that a function has in a differentiated function."""
    return lambda *args, **kwargs: ds.vjp(lambda *args_: function(*args_, **kwargs), *args)[0]


def require_same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, ZeroDivisionError):
        return  # of an empty average; NaN or nothing is as good
    if isinstance(wanted, Exception):
        kinds = tuple(k for k in (TypeError, ValueError, IndexError) if isinstance(wanted, k)) or (Exception,)
        assert isinstance(found, (*kinds, DiffsimError)), f"gave {found!r} where NumPy raises {wanted!r}"
        return
    if isinstance(found, Exception):
        raise found
    assert np.shape(found) == np.shape(wanted)
    assert np.asarray(found).dtype == np.asarray(wanted).dtype
    tolerance = {"f2": 2e-3, "f4": 1e-6, "c8": 1e-6}.get(np.asarray(wanted).dtype.str[1:], 1e-13)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def cases(name: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    rng = np.random.default_rng(3)
    for shape, dtype, special in itertools.product(SHAPES, TYPES, (False, True)):
        if special and dtype[0] not in "f":
            continue
        for axis, keepdims in itertools.product(AXES, (False, True)):
            if keepdims and name in (*ALONG, "ptp" if len(shape) > 2 else "", "argmax", "argmin"):
                continue
            options = {"kind": "stable"} if name == "argsort" else {"keepdims": True} if keepdims else {}
            yield values_of(shape, dtype, special, rng), {"axis": axis} | options


@pytest.mark.parametrize("name", [*REDUCTIONS, *ALONG])
def test_along_axes(name: str) -> None:
    for x, options in cases(name):
        if name == "median" and not x.size and options["axis"] == ():
            continue  # NumPy fails to reshape
        if name == "diff" and (options["axis"] is None or isinstance(options["axis"], tuple)):
            continue
        wanted, result = outcome(getattr(np, name), x, **options), outcome(inside(getattr(dn, name)), x, **options)
        try:
            require_same(result, wanted)
        except Exception as error:
            raise AssertionError(f"{name} of {x!r} with {options}") from error


def test_interp_with_repeated_and_infinite_nodes() -> None:
    rng = np.random.default_rng(0)
    points = [-np.inf, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.5, 4.0, np.inf, np.nan]
    for _ in range(400):
        xp = np.sort(rng.choice([-np.inf, -1.0, 0.0, 0.0, 1.0, 1.0, 2.0, np.inf], rng.integers(1, 6)))
        fp = rng.choice([0.0, 1.0, 2.0, -1.0, 3.0, np.inf, np.nan], xp.size, p=[0.2, 0.2, 0.2, 0.15, 0.15, 0.05, 0.05])
        x = rng.choice(points, 4)
        wanted = outcome(np.interp, x, xp, fp)
        np.testing.assert_allclose(outcome(inside(dn.interp), x, xp, fp), wanted, rtol=1e-13)
    gradient = ds.grad(lambda x, xp: dn.sum(dn.interp(x, xp, np.array([0.0, 1.0, 5.0, 7.0]))), (0, 1))
    x, xp = np.array([0.5, 1.0, 9.0]), np.array([0.0, 1.0, 1.0, 3.0])
    assert gradient(x, xp)[0].tolist() == [1.0, 1.0, 0.0]
    assert np.isfinite(gradient(x, np.array([-np.inf, 0.0, 1.0, np.inf]))[1]).all()


PAIR = np.array([1.0, -1.0])
CALLS: tuple[tuple[Callable[..., Any], np.ndarray], ...] = (
    (lambda np, x: np.geomspace(x, [4.0, -9.0], 3, axis=-1), PAIR),
    (lambda np, x: np.logspace(x, x + 1, 3, base=np.array([2.0, 3.0]), axis=-1), PAIR),
    (lambda np, x: np.mean(x), np.full(70_000, 2.0, np.float16)),
    (lambda np, x: np.var(x), np.linspace(0, 20, 3000).astype(np.float16)),
    (lambda np, x: np.nanvar(x, ddof=2), PAIR),
    (lambda np, x: np.nanstd(x, ddof=3), PAIR),
    (lambda np, x: np.bincount([0, 2, 2], weights=x), PAIR),
    (lambda np, x: np.bincount([0, 2], weights=x), PAIR),
    (lambda np, x: np.bincount([0, 2], weights=x * 1j), PAIR),
    (lambda np, x: np.bincount(np.array([0.5, 2.0]), weights=x), PAIR),
    (lambda np, x: np.pad(x, {0: 1}), PAIR),
    (lambda np, x: np.pad(x, {-1: (0, 2)}), PAIR),
    (lambda np, x: np.pad(x, {3: 1}), PAIR),
    (lambda np, x: np.pad(x, 1.5), PAIR),
    (lambda np, x: np.pad(x, -1), PAIR),
    (lambda np, x: np.average(x, weights=[1, 2]), PAIR),
    (lambda np, x: np.average(x, weights=[1, 2, 3]), PAIR),
    (lambda np, x: np.delete(x, []), PAIR),
    (lambda np, x: np.choose(x > 0, [x, 2 * x]), PAIR),
    (lambda np, x: np.add.reduceat(x, [0, 1]), PAIR),
    (lambda np, x: np.multiply.reduceat(x, [1, 0, 1]), np.array([2.0, 3.0, 4.0])),
    (lambda np, x: np.fmin.reduce(x), np.array([np.nan, 3.0, 4.0])),
    (lambda np, x: np.fmax.reduce(x, axis=1), np.array([[np.nan, 3.0], [np.nan, np.nan], [1.0, 2.0]])),
    (lambda np, x: np.matmul(x, x, out=np.zeros(())), PAIR),
    (lambda np, x: np.matmul(x[:, None], x[None], out=np.zeros((2, 2))), PAIR),
    (lambda np, x: np.sum(np.sum(x), axis=1), PAIR),
    (lambda np, x: np.mean(x[0], axis=0), PAIR),
    (lambda np, x: np.sum(x[0], axis=0), PAIR),
    (lambda np, x: np.where(False, x / 0.0, 0), np.array(2.0)),
    (lambda np, x: np.mean(x[x > 5]), PAIR),
    (lambda np, x: np.convolve(x, [1.0, 2.0, 3.0]), PAIR),
    (lambda np, x: np.convolve(x, []), PAIR),
    (lambda np, x: np.convolve(x[None], x), PAIR),
    (lambda np, x: np.correlate(x, [1.0j, 2.0, 3.0], "same"), PAIR),
    (lambda np, x: np.interp(x * 1j, [0.0, 1.0], [0.0, 1.0]), PAIR),
    (lambda np, x: np.fabs(x * 1j), PAIR),
    (lambda np, x: np.modf(x * 1j), PAIR),
)


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_single_calls(number: int) -> None:
    call, x = CALLS[number]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        require_same(outcome(inside(lambda x: call(dn, x)), x), outcome(call, np, x))
        if not isinstance(outcome(call, np, x), Exception):
            value, pullback = ds.vjp(lambda x: call(dn, x), x)
            assert np.shape(pullback(np.ones_like(value))[0]) == x.shape


def test_a_padded_number_is_an_array_of_its_own() -> None:
    def edited(x: Any) -> Any:
        y = dn.asarray(x)
        padded = dn.pad(y, 0)
        padded[...] = 7.0
        return y + 0.0

    assert ds.vjp(edited, np.array(2.0))[0] == 2.0


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("lengths", [(6, 3), (3, 6), (5, 5), (1, 4), (9000, 4200)])
def test_convolutions_and_their_transposes(mode: Any, lengths: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    x, w = (rng.normal(size=n) for n in lengths)
    value, pullback = ds.vjp(lambda x, w: dn.convolve(x, w, mode), x, w)
    np.testing.assert_allclose(value, np.convolve(x, w, mode), rtol=1e-12, atol=1e-12)
    bar, x_dot, w_dot = rng.normal(size=value.shape), rng.normal(size=x.shape), rng.normal(size=w.shape)
    moved = np.convolve(x_dot, w, mode) + np.convolve(x, w_dot, mode)
    x_bar, w_bar = pullback(bar)
    np.testing.assert_allclose(x_bar @ x_dot + w_bar @ w_dot, bar @ moved, rtol=1e-9)


def test_a_long_convolution_needs_no_matrix() -> None:
    """40 000 x 1000 entries would take 320 MB."""
    x, w = np.ones(40_000), np.ones(1000)
    tracemalloc.start()
    ds.grad(lambda x, w: dn.sum(dn.convolve(x, w)), (0, 1))(x, w)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6


def test_derivatives_of_a_bessel_function_are_its_neighbours_at_any_order() -> None:
    """At 0 too, where (n even) the n-th derivative of I₀ is the binomial of n over n / 2, over 2ⁿ."""
    f: Any = dn.i0
    for wanted in (1.0, 0.0, 1 / 2, 0.0, 3 / 8, 0.0, 5 / 16):
        assert np.isclose(f(np.float64(0.0)), wanted, rtol=1e-15, atol=0.0)
        f = ds.grad(f)


def test_an_unwrapped_angle_follows_its_entries() -> None:
    angles = np.cumsum(np.full(30, 0.9))
    wrapped = (angles + np.pi) % (2 * np.pi) - np.pi
    value, pullback = ds.vjp(dn.unwrap, wrapped)
    assert np.allclose(np.diff(value), 0.9) and np.array_equal(pullback(np.arange(30.0))[0], np.arange(30.0))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("period", [np.inf, np.nan, 2 * np.pi])
@pytest.mark.parametrize("first", [np.inf, -np.inf, np.nan, 1.0])
def test_the_first_angle_is_itself(first: float, period: float) -> None:
    """Nothing is added to it, not even a difference of infinities."""
    angles = np.array([first, 2.0, 9.0])
    value, pullback = ds.vjp(lambda p, period: dn.unwrap(p, period=period), angles, np.float64(period))
    assert np.array_equal(value, np.unwrap(angles, period=period), equal_nan=True)
    assert np.array_equal(pullback(np.array([1.0, 0.0, 0.0]))[0], [1.0, 0.0, 0.0])


@pytest.mark.parametrize("bias", [False, True, 0, 1, None, "", (), {}, 0.0, np.False_])
def test_a_covariance_compares_its_bias_as_numpy_does(bias: Any) -> None:
    """It divides by one less than the number of observations where the bias equals 0, and other values that are false do not."""
    x = np.arange(8.0).reshape(2, 4) ** 2
    assert np.allclose(ds.jvp(lambda x: dn.cov(x, bias=bias), (x,), (x,))[0], np.cov(x, bias=bias), rtol=1e-14, atol=0.0)


def test_a_histogram_of_weights_is_linear_in_them_and_constant_in_the_entries() -> None:
    rng = np.random.default_rng(0)
    entries, weights = rng.normal(size=300), rng.normal(size=300)
    edges = [-1.0, -0.2, 0.1, 2.0]
    value, pullback = ds.vjp(lambda x, w: dn.histogram(x, edges, weights=w)[0], entries, weights)
    assert np.allclose(value, np.histogram(entries, edges, weights=weights)[0])
    x_bar, w_bar = pullback(np.array([1.0, 10.0, 100.0]))
    place = np.searchsorted(edges, entries, side="right")
    assert not x_bar.any() and np.array_equal(w_bar, np.array([0.0, 1.0, 10.0, 100.0, 0.0])[place])


def test_padding_by_a_function_is_refused() -> None:
    with pytest.raises(DerivativeError, match="mode of pad is a function, expected the name of a mode"):
        ds.grad(lambda x: dn.sum(dn.pad(x, 1, lambda row, width, axis, options: None)))(np.ones(3))


SUMS = {"i,i": 2, "...i,...i": 2, "i->": 1, "i,i,i->": 3, "ij,ij": 2, "i,ij,j": 3, ",": 2, "ii": 1}


@together([(text, optimize, dtype) for text in SUMS for optimize in (False, True, "greedy") for dtype in (int, bool)], apart=True)
def test_sums_without_axes_are_numbers_or_arrays_as_in_numpy(text: str, optimize: Any, dtype: type) -> None:
    """With a plan of several products NumPy's result is an array without axes. Integers are not differentiated, so they keep their kind."""
    shapes = [(2,) * len(letters.replace("...", "")) for letters in text.removesuffix("->").split(",")]
    arguments: list[np.ndarray] = [np.ones(shape, dtype) for shape in shapes]
    numbers: list[bool] = []

    def f(x: Any, *values: Any) -> Any:
        numbers.append(isinstance(dn.einsum(text, *values, optimize=optimize), np.generic))
        return x

    ds.vjp(f, 1.0, *arguments)
    assert len(arguments) == SUMS[text] and numbers == [isinstance(np.einsum(text, *arguments, optimize=optimize), np.generic)]
