"""Every function of the namespace, with each argument exchanged in turn, does inside of a derivative as NumPy does."""

from __future__ import annotations

import pytest

import diffsim.numpy as dn
from tests.sampled import sampled

from .table import ENTRIES
from .test_complete import PASSED_ON
from .variants import Call, calls_of, chosen, departures

CALLS = chosen(calls_of(ENTRIES), 1)
NAMES = sorted({call.name for call in CALLS})

FURTHER = {"logsumexp", "cummax", "cummin"}
KNOWN: dict[str, set[str]] = {
    # A whole number that no type of NumPy's holds makes arrays of Python objects.
    **{f"{name}.outer": {"B = huge int: dtype"} for name in ("add", "multiply", "maximum")},
    **{name: {"x1 = huge int: raised"} for name in ("maximum", "minimum")},
    **{name: {"x2 = huge int: raised"} for name in ("fmax", "fmin", "copysign")},
    "clip": {"a = huge int: raised"},
    # The entries around that are filled with zeros are multiplied by infinity.
    **{name: {"v = inf: value"} for name in ("convolve", "correlate")},
    # Nodes that do not increase, for which NumPy promises nothing.
    "interp": {"xp = reversed: value"},
    # diffsim takes the symmetric part of a matrix that is not symmetric.
    "linalg.eigh": {"a = reversed: value", "UPLO = 'U': value", "UPLO = 'u': value"},
    "linalg.eigvalsh": {"a = reversed: value"},
    # A negative number in an unsigned type is undefined.
    "mean": {"dtype = 'u1': value"},
    # NumPy puts an array into an array of objects.
    "pad": {"array = object: value"},
    # NumPy takes a leading axis of length 1 at some indices only.
    **{f"{name}.at": {"b = axis in front: accepted"} for name in ("add", "subtract")},
    # Which of the entries below the place comes first is open.
    "partition": {"a = inf: value"},
}
"""Known differences: argument = value: how."""


def test_every_function_is_exchanged() -> None:
    names = set(dn.__all__) - PASSED_ON - {"fft", "linalg", "special"}
    names |= {f"linalg.{n}" for n in dn.linalg.__all__ if n.islower()} | {f"fft.{n}" for n in dn.fft.__all__}
    assert sorted(names - set(NAMES)) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", sampled(CALLS, ids=lambda call: call.name))
def test_variants(call: Call) -> None:
    seen = {(f"{what}: {kind}", text) for what, kind, text in departures(call) if kind != "refused"}
    assert {what for what, _ in seen} <= KNOWN.get(call.name, set()), seen


@pytest.mark.filterwarnings("ignore")
def test_known_departures_are_there() -> None:
    for call in CALLS:
        if call.name in KNOWN:
            seen = {f"{what}: {kind}" for what, kind, _ in departures(call) if kind != "refused"}
            assert KNOWN[call.name] <= seen, call.name


@pytest.mark.filterwarnings("ignore")
def test_unsupported_arguments_are_named() -> None:
    """A refusal that NumPy does not share names the refused argument, and a remedy."""
    for call in CALLS[:: len(CALLS) // 40]:
        for what, kind, text in departures(call):
            assert kind != "refused" or "; " in text or "expected" in text, (call.name, what, text)
