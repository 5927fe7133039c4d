"""Traces at the times of records: against NumPy, the transpose, and gaps that the gradient never sees."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import BarycentricInterpolator

import diffsim as ds
from diffsim.errors import DataError, ParameterError, ShapeError
from diffsim.losses import L2Misfit
from diffsim.records import Resampling

DT, STEPS = 0.3, 11
END = DT * STEPS
TIMES = [
    np.sort(np.random.default_rng(1).uniform(0, END, 40)),
    DT * np.arange(STEPS + 1),
    np.array([0.0]),
    np.array([END]),
    np.array([0.1, 0.1 + 1e-7, END - 1e-7, END + 1e-11]),
]


def through_six(times: np.ndarray, dt: float, trace: np.ndarray) -> np.ndarray:
    """The polynomial through the six samples around each time, by SciPy."""
    out = []
    for t in times:
        first = min(max(int(np.floor(t / dt + 1e-9)) - 2, 0), len(trace) - 6)
        own = slice(first, first + 6)
        out.append(float(BarycentricInterpolator(dt * np.arange(len(trace))[own], trace[own])(t)))
    return np.array(out)


@pytest.mark.parametrize(("samples", "inside", "everywhere"), [(10, 2.9e-4, 1.4e-3), (20, 4.7e-6, 2.3e-5)])
def test_the_error_of_a_sine(samples: int, inside: float, everywhere: float) -> None:
    """The figures of the docstring, for all phases; linear interpolation is off by 4.9e-2 and 1.2e-2."""
    steps = 12 * samples
    times = np.linspace(0, steps, 3001)
    at = Resampling(1.0, steps, times)
    phases = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    traces, exact = (np.sin(2 * np.pi * t[:, None] / samples + phases) for t in (np.arange(steps + 1.0), times))
    error = np.abs(at(traces) - exact).max(axis=1)
    assert error[(times >= 2) & (times <= steps - 2)].max() < inside and 0.5 * everywhere < error.max() < everywhere


@pytest.mark.parametrize("times", TIMES, ids=["random", "own", "first", "last", "close"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_polynomial_through_six_samples_and_its_transpose(times: np.ndarray, dtype: str) -> None:
    rng = np.random.default_rng(3)
    traces = rng.standard_normal((STEPS + 1, 5)).astype(dtype)
    at = Resampling(DT, STEPS, times)
    samples, pullback = ds.vjp(at, traces)
    expected = np.stack([through_six(times, DT, trace) for trace in traces.T.astype(float)], axis=1)
    np.testing.assert_allclose(samples, expected, rtol=0, atol=1e-9)  # a time is snapped to a sample
    moved = ds.jvp(at, (traces,), (rng.standard_normal(traces.shape).astype(dtype),))[1]
    bars = rng.standard_normal(samples.shape)
    (back,) = pullback(bars)
    assert back.dtype == dtype
    matrix = np.stack([at(row.reshape(-1, 1))[:, 0] for row in np.eye(STEPS + 1)], axis=1)
    np.testing.assert_allclose(back, matrix.T @ bars, rtol=0, atol=1e-13 if dtype == "float64" else 1e-5)
    assert moved.shape == samples.shape


def test_the_dot_product_in_f64() -> None:
    rng = np.random.default_rng(5)
    at = Resampling(DT, STEPS, TIMES[0])
    x, v = rng.standard_normal((2, STEPS + 1, 3))
    w = rng.standard_normal((len(TIMES[0]), 3))
    forward = float(np.sum(ds.jvp(at, (x,), (v,))[1] * w))
    assert forward == pytest.approx(float(np.sum(v * ds.vjp(at, x)[1](w)[0])), rel=1e-13)


def test_samples_at_times_of_the_run_are_the_same_bits() -> None:
    traces = np.random.default_rng(7).standard_normal((STEPS + 1, 2))
    np.testing.assert_array_equal(Resampling(DT, STEPS, DT * np.arange(STEPS + 1))(traces), traces)


def test_gaps_have_no_weight_and_no_nan() -> None:
    """The gradient is that of the samples that are there, worked out by hand."""
    rng = np.random.default_rng(9)
    times, traces = TIMES[0], rng.standard_normal((STEPS + 1, 4))
    data = rng.standard_normal((len(times), 4))
    data[rng.random(data.shape) < 0.4] = np.nan
    data[:, 2] = np.nan
    at, misfit = Resampling(DT, STEPS, times), L2Misfit(data, weight=2.0, mask=~np.isnan(data))
    value, gradient = ds.value_and_grad(lambda x: misfit(at(x)))(traces)
    residual = np.nan_to_num(at(traces) - data)
    assert value == pytest.approx(np.sum(residual**2), rel=1e-14)
    matrix = np.stack([at(row.reshape(-1, 1))[:, 0] for row in np.eye(STEPS + 1)], axis=1)
    np.testing.assert_allclose(gradient, 2.0 * matrix.T @ residual, rtol=0, atol=1e-13)
    assert not gradient[:, 2].any()


@pytest.mark.parametrize(
    ("times", "error", "message"),
    [
        ([-0.1, 1.0], ParameterError, r"times: expected 0 to 3.3 s, got -0.1 s"),
        ([0.1, 3.4], ParameterError, r"got 3.4 s; leave out"),
        ([1.0, 1.0], DataError, r"expected times that rise"),
        ([1.0, np.nan], DataError, r"expected finite times, found nan at sample 1"),
    ],
)
def test_times_that_are_refused(times: list[float], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Resampling(DT, STEPS, times)


@pytest.mark.parametrize("shape", [(STEPS, 2), (STEPS + 1,), (2, STEPS + 1, 1)])
def test_traces_of_another_run(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=rf"expected the shape \({STEPS + 1}, receivers\)"):
        Resampling(DT, STEPS, [0.5])(np.zeros(shape))
