"""Invariances of the misfits of traces, their response to a shift, and traces of zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError
from diffsim.losses import CorrelationMisfit, DataMisfit, EnvelopeMisfit, HuberMisfit, L2Misfit, LogAmplitudeMisfit, WassersteinMisfit

TIMES = np.linspace(0.0, 2.0, 201)
KINDS: dict[str, Callable[..., DataMisfit]] = {
    "l2": L2Misfit,
    "huber": lambda data, **others: HuberMisfit(data, 0.3, **others),
    "envelope": EnvelopeMisfit,
    "log amplitude": LogAmplitudeMisfit,
    "correlation": CorrelationMisfit,
    "wasserstein": lambda data, **others: WassersteinMisfit(data, dt=0.01, **others),
}


def packet(delay: float, amplitude: float = 1.0, phase: float = 0.0) -> np.ndarray:
    """Some periods of 0.1 under a Gaussian."""
    t = TIMES - delay
    return amplitude * np.exp(-0.5 * (t / 0.15) ** 2) * np.cos(20 * np.pi * t + phase)


def minima(misfit: Any) -> int:
    """Local minima of the loss over delays, the ends left out."""
    losses = np.array([misfit(packet(delay)) for delay in np.linspace(0.6, 1.4, 161)])
    inner = losses[1:-1]
    return int(np.count_nonzero((inner < losses[:-2]) & (inner < losses[2:])))


def test_minima_over_a_shift() -> None:
    """Least squares and correlations have one at each period, envelopes and transport have that of the truth alone."""
    data = packet(1.0)
    assert minima(L2Misfit(data)) >= 5
    assert minima(CorrelationMisfit(data)) >= 5
    assert minima(EnvelopeMisfit(data)) == 1
    assert minima(WassersteinMisfit(data)) == 1


def test_transport_grows_with_the_square_of_a_shift() -> None:
    """A pulse that stands far out of the silence."""
    pulse = lambda delay: 1e3 * np.exp(-0.5 * ((TIMES - delay) / 0.05) ** 2)  # noqa: E731
    misfit = WassersteinMisfit(pulse(0.8), sharpness=1e8, dt=0.01)
    for shift in (0.1, 0.2, 0.4):
        assert misfit(pulse(0.8 + shift)) == pytest.approx(shift**2, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_perfect_prediction_and_one_of_zero(kind: str) -> None:
    data = np.stack([packet(0.8), packet(1.1, 0.3)], axis=1)
    misfit = KINDS[kind](data, normalise=True)
    value, gradient = ds.value_and_grad(misfit)(data)
    assert value == pytest.approx(0.0, abs=1e-14)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)
    value, gradient = ds.value_and_grad(misfit)(np.zeros_like(data))
    assert value == pytest.approx(1.0, rel=1e-14) and np.isfinite(gradient).all()


@pytest.mark.parametrize("kind", KINDS)
def test_traces_add_up_with_their_weights(kind: str) -> None:
    """A trace does not see another one, and one of weight 0, or outside of the mask, does not count, even of zeros."""
    data = np.stack([packet(0.8), packet(1.1), 0 * TIMES], axis=1)
    predicted = np.stack([packet(0.85, 2.0), packet(1.0, 0.5), packet(1.0)], axis=1)
    mask = np.broadcast_to([True, True, False], data.shape)
    several = KINDS[kind](data, weight=[2.0, 0.5, 3.0], mask=mask)(predicted)
    one = [float(KINDS[kind](data[:, k], weight=w)(predicted[:, k])) for k, w in enumerate([2.0, 0.5])]
    assert several == pytest.approx(sum(one), rel=1e-12)
    weighted = KINDS[kind](data, weight=[2.0, 0.5, 0.0])
    assert weighted(predicted) == pytest.approx(sum(one), rel=1e-12)
    gradient = ds.grad(weighted)(predicted)
    assert not gradient[:, 2].any() and gradient[:, :2].any(axis=0).all()


def test_invariances() -> None:
    data = packet(1.0) + packet(0.5, 0.3)
    predicted = packet(1.02) + packet(0.5, 0.4)
    misfit = CorrelationMisfit(data)
    assert misfit(predicted) > 1e-3
    for amplitude in (1e-6, 0.3, 1e6):
        assert misfit(amplitude * predicted) == pytest.approx(misfit(predicted), rel=1e-12)
        assert abs(ds.grad(misfit)(amplitude * predicted) @ predicted) < 1e-12 / amplitude
    for kind in (EnvelopeMisfit, LogAmplitudeMisfit):
        envelope = kind(packet(1.0), normalise=True)
        assert envelope(packet(1.0, phase=1.0)) < 1e-4 < 1e-2 < envelope(packet(1.0, 0.7))


def test_logarithms_count_weak_arrivals() -> None:
    """A factor of two in an arrival that is fifty times weaker."""
    data, predicted = packet(0.5) + packet(1.5, 0.02), packet(0.5) + packet(1.5, 0.04)
    same = packet(0.5, 2.0) + packet(1.5, 0.02)
    logarithm, squares = LogAmplitudeMisfit(data, level=1e-3), L2Misfit(data)
    assert logarithm(predicted) > 0.5 * logarithm(same)
    assert squares(predicted) < 1e-3 * squares(same)


@pytest.mark.parametrize("kind", [CorrelationMisfit, WassersteinMisfit])
def test_traces_of_zeros_have_no_shape(kind: type[DataMisfit]) -> None:
    with pytest.raises(ParameterError, match=r"expected traces that are not zero, .* trace 1 is, and 0 more; give them the weight 0"):
        kind(np.stack([packet(1.0), 0 * TIMES], axis=1))


@pytest.mark.parametrize("kind", [EnvelopeMisfit, LogAmplitudeMisfit])
def test_an_envelope_may_be_zero_but_not_all(kind: type[DataMisfit]) -> None:
    data = np.stack([packet(1.0), 0 * TIMES], axis=1)
    assert kind(data)(data) == 0.0 and np.isfinite(ds.grad(kind(data))(data)).all()
    with pytest.raises(ParameterError, match="not all zero"):
        kind(0 * TIMES)


@pytest.mark.parametrize("kind", ["envelope", "log amplitude", "wasserstein"])
def test_gaps_are_refused_where_samples_must_be_regular(kind: str) -> None:
    data = np.stack([packet(1.0), packet(0.9)], axis=1)
    mask = np.ones(data.shape, bool)
    mask[50, 1] = False
    with pytest.raises(ParameterError, match=r"expected traces without gaps, .* at sample 50 of trace 1; fill the gaps"):
        KINDS[kind](data, mask=mask)


@pytest.mark.parametrize(
    ("match", "make"),
    [
        ("delta", lambda: HuberMisfit(np.ones(3), 0.0)),
        ("level", lambda: EnvelopeMisfit(np.ones(3), -1.0)),
        ("sharpness", lambda: WassersteinMisfit(np.ones(3), 0.0)),
        ("dt", lambda: WassersteinMisfit(np.ones(3), dt=-1.0)),
        ("two samples", lambda: CorrelationMisfit(np.ones((1, 4)))),
        ("two samples", lambda: WassersteinMisfit(1.0)),
        ("normalise", lambda: HuberMisfit(np.zeros(3), 1.0, normalise=True)),
    ],
)
def test_refused(match: str, make: Callable[[], object]) -> None:
    with pytest.raises(ParameterError, match=match):
        make()
