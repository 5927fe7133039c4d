"""Other thread counts, lane counts and arches: the same numbers."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from diffsim.system import usable_cores
from tests.arches import require_vulkan
from tests.cases import CASES
from tests.stepping.run_cases import outputs

SINGLE = 2e-5  # relative error of f32 after some 20 steps, against f64
LOOSE = 4e-4  # Vulkan lets its drivers round sines and arcs to 2^-11
ROUND_OFF = 1e-12
FEW = (
    "acoustic 2-D mixed",
    "acoustic 3-D",
    "nonlinear mirror",
    "acoustic 1-D",
    "functions",
    "numbers 2-D",
    "loop 2-D",
    "stretched",
    "long wave on the sphere",
    "sides 2-D",
    "sides 3-D",
    "numbers 3-D",
)


LONG = {"numbers 3-D"}
"""Cases that a software driver takes more than half a minute to compile."""


def run_cases(*arguments: str) -> dict[str, float | str]:
    done = subprocess.run([sys.executable, "-m", "tests.stepping.run_cases", *arguments], capture_output=True, text=True, timeout=600)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not lines:
        raise RuntimeError((done.stdout + done.stderr)[-2000:])
    return json.loads(lines[0].removeprefix("RESULT "))


@pytest.mark.skipif(usable_cores() < 2, reason="one core only: there is no second thread to compare")
@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_the_number_of_threads_changes_no_bit(precision: str) -> None:
    assert run_cases("cpu", "1", precision, "digest", *FEW) == run_cases("cpu", "2", precision, "digest", *FEW)


@pytest.mark.parametrize("lanes", [1, 2, 16])
@pytest.mark.parametrize("name", FEW[:8])
def test_every_lane_count_agrees(name: str, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffsim.stepping.stepper.lanes", lambda dtype: lanes)
    case = next(c for c in CASES if c.name == name)
    found, wanted = outputs(case, "f64")
    for key in wanted:
        assert np.abs(found[key] - wanted[key]).max() <= ROUND_OFF * np.abs(wanted[key]).max(), key


def test_gpu_kernels_on_vulkan() -> None:
    require_vulkan()
    names = {case.name for case in CASES} - LONG
    errors = run_cases("vulkan", "-", "f32", "error", *names)
    assert set(errors) == names
    most = dict.fromkeys(errors, SINGLE) | {"functions": LOOSE}
    assert {name: error for name, error in errors.items() if not error <= most[name]} == {}


@pytest.mark.gpu
def test_gpu_kernels_on_cuda() -> None:
    errors = run_cases("cuda", "-", "f64", "error")
    assert {name: error for name, error in errors.items() if not error <= ROUND_OFF} == {}


def test_f32_is_as_exact_as_f32_can_be() -> None:
    errors = run_cases("cpu", "-", "f32", "error", *FEW)
    assert {name: error for name, error in errors.items() if not error <= SINGLE} == {}
