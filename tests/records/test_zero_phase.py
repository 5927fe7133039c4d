"""The filter of traces: against SciPy's, its transpose, and refused arguments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal

import diffsim as ds
from diffsim.errors import DiffsimError
from diffsim.records import ZeroPhaseFilter

DT, SAMPLES = 4e-3, 200
BANDS = {"lowpass": {"lowpass": 12.0}, "highpass": {"highpass": 20.0}, "band": {"highpass": 8.0, "lowpass": 30.0}}


@pytest.mark.parametrize("corners", BANDS.values(), ids=BANDS)
def test_it_is_scipys_filter_forward_and_backward_over_traces_with_zeros_around(corners: dict[str, float]) -> None:
    traces = np.random.default_rng(0).standard_normal((SAMPLES, 3))
    kind = "bandpass" if len(corners) == 2 else next(iter(corners))
    sections = signal.butter(
        4, np.squeeze([corners[name] for name in ("highpass", "lowpass") if name in corners]), kind, fs=1 / DT, output="sos"
    )
    around = 40 * SAMPLES
    padded = np.pad(traces, [(around, around), (0, 0)])
    expected = signal.sosfiltfilt(sections, padded, axis=0, padlen=0)[around:-around]
    filtered = ZeroPhaseFilter(DT, SAMPLES, **corners)(traces)
    np.testing.assert_allclose(filtered, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("corners", BANDS.values(), ids=BANDS)
def test_its_transpose_is_itself(corners: dict[str, float]) -> None:
    rng = np.random.default_rng(1)
    v, w = rng.standard_normal((2, SAMPLES, 2))
    keep = ZeroPhaseFilter(DT, SAMPLES, **corners)
    value, pullback = ds.vjp(keep, v)
    np.testing.assert_allclose(pullback(w)[0], keep(w), rtol=0, atol=1e-13)
    assert np.sum(value * w) == pytest.approx(np.sum(v * keep(w)), rel=1e-12)


def test_nothing_comes_round_from_the_other_end() -> None:
    traces = np.zeros(SAMPLES)
    traces[-1] = 1.0
    assert np.abs(ZeroPhaseFilter(DT, SAMPLES, lowpass=20.0)(traces))[: SAMPLES // 2].max() < 1e-8


def test_the_gain_is_a_half_at_the_corner() -> None:
    t = DT * np.arange(4000)
    wave = np.sin(2 * np.pi * 12.0 * t)
    filtered = ZeroPhaseFilter(DT, 4000, lowpass=12.0)(wave)
    np.testing.assert_allclose(filtered[1000:-1000], 0.5 * wave[1000:-1000], atol=1e-6)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({}, "expected lowpass, highpass or both, got neither"),
        ({"lowpass": 125.0}, "lowpass: expected less than 125 Hz"),
        ({"highpass": -1.0}, "highpass"),
        ({"highpass": 20.0, "lowpass": 10.0}, "highpass: expected less than lowpass = 10 Hz, got 20"),
        ({"lowpass": 10.0, "order": 0}, "order"),
    ],
)
def test_refused(given: dict[str, float], match: str) -> None:
    with pytest.raises(DiffsimError, match=match):
        ZeroPhaseFilter(DT, SAMPLES, **given)
    with pytest.raises(DiffsimError, match="expected 200 samples"):
        ZeroPhaseFilter(DT, SAMPLES, lowpass=10.0)(np.zeros((10, 2)))
