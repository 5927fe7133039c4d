"""Other thread counts, lane counts and arches: the same numbers."""

from __future__ import annotations

import functools
import importlib
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.base.system import usable_cores
from diffsim.engine import lanes, settings
from tests.arches import require_vulkan
from tests.cases import CASES, Case
from tests.sampled import sampled
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
LEFT_OUT = {"numbers 3-D", "sides 1-D", "sides 3-D", "stretched 1-D", "nonlinear zero", "nonlinear periodic"}
FIRST_ON_VULKAN = ("acoustic 2-D mixed", "acoustic 3-D", "heat 2-D", "nonlinear mirror", "functions", "loop 2-D")
"""Each kind of kernel. A software driver takes up to half a minute to compile a case, so those are left out of which others have it all:
`walls 3-D` and `sides 2-D` for the other rules at sides."""
ON_VULKAN = [
    pytest.param(FIRST_ON_VULKAN, id="first"),
    pytest.param(tuple(case.name for case in CASES if case.name not in LEFT_OUT), id="all", marks=pytest.mark.slow),
]
THREADS = {
    "f32": ("nonlinear mirror",),
    "f32 too": ("acoustic 1-D", "acoustic 2-D mixed", "acoustic 3-D", "loop 2-D", "numbers 2-D"),
    "f64": ("nonlinear mirror", "sides 3-D"),
}
"""Cases that share out rows, planes or nothing to threads; with rings, sums of all cells, and loops. The gate has the first ones."""


def gate(first: tuple[str, ...], cases: tuple[str, ...]) -> list[Any]:
    """Names of cases: those that the gate runs, and all others as a slow test."""
    rest = tuple(name for name in cases if name not in first)
    return [pytest.param(tuple(name for name in cases if name in first), id="first"), pytest.param(rest, id="rest", marks=pytest.mark.slow)]


@functools.cache
def run_cases(arch: str, threads: str, precision: str, names: tuple[str, ...] = ()) -> dict[str, tuple[str, float]]:
    """Digest and error of each case; all cases, where no names are given."""
    command = [sys.executable, "-m", "tests.stepping.run_cases", arch, threads, precision, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not lines:
        raise RuntimeError((done.stdout + done.stderr)[-2000:])
    return json.loads(lines[0].removeprefix("RESULT "))


def digests(results: dict[str, tuple[str, float]], names: tuple[str, ...]) -> list[str]:
    return [results[name][0] for name in names]


def too_large(results: dict[str, tuple[str, float]], most: float, **others: float) -> dict[str, float]:
    """Errors above `most`, or above what is given for a case."""
    return {name: error for name, (_, error) in results.items() if not error <= others.get(name, most)}


@pytest.mark.skipif(usable_cores() < 2, reason="one core only: there is no second thread to compare")
@pytest.mark.parametrize("precision", sampled(THREADS))
def test_the_number_of_threads_changes_no_bit(precision: str) -> None:
    names, bits = THREADS[precision], precision[:3]
    assert digests(run_cases("cpu", "1", bits, names), names) == digests(run_cases("cpu", "2", bits, names), names)


@pytest.mark.parametrize("lanes", [1, 2, 16])
@pytest.mark.parametrize("case", sampled([case for case in CASES if case.name in FEW[:8]], 8, ids=lambda case: case.name))
def test_every_lane_count_agrees(case: Case, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffsim.stepping.derive.programs.lanes", lambda dtype, narrow: lanes)
    results, wanted = outputs(case, "f64")
    for key in wanted:
        assert np.abs(results[key] - wanted[key]).max() <= ROUND_OFF * np.abs(wanted[key]).max(), key


@pytest.mark.parametrize("case", sampled([case for case in CASES if case.name in FEW[:8]], 8, ids=lambda case: case.name))
def test_narrow_tiles_change_no_value(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long steps have tiles of one register, others of two short ones."""
    asked = []
    for limit in 0, 10**6:
        monkeypatch.setattr("diffsim.stepping.derive.programs.LONG", limit)
        monkeypatch.setattr("diffsim.stepping.derive.programs.lanes", lambda dtype, narrow: asked.append(narrow) or (4 if narrow else 8))
        results, wanted = outputs(case, "f64")
        for key in wanted:
            assert np.abs(results[key] - wanted[key]).max() <= ROUND_OFF * np.abs(wanted[key]).max(), key
    assert {*asked} == {True, False}


def test_long_steps_have_narrow_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffsim.stepping.derive.programs.lanes", lambda dtype, narrow: 4 if narrow else 8)
    grid = ds.Grid((24, 24), 10.0)
    waves: list[ds.Equation] = [ds.solvers.Acoustic(grid, 1e-3, order=8), ds.solvers.Elastic(grid, 1e-3), ds.solvers.Maxwell(grid, 1e-9)]
    flows: list[ds.Equation] = [ds.solvers.ShallowWater(grid, 0.1), ds.solvers.NavierStokes(grid, 0.1), ds.solvers.Burgers(grid, 0.1)]
    assert [ds.Simulation(each)._stepper.layout.lanes for each in (*waves, *flows)] == [8] * 3 + [4] * 3


@pytest.mark.parametrize("registers", [16, 32])
def test_narrow_tiles_fill_one_register_where_registers_are_few(registers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("diffsim.engine.backend"), "vector_registers", lambda: registers)
    width = settings().register_bytes
    wide = max(width, 64 if width > 16 else 16)
    assert lanes("f8") * 8 == wide and lanes("f8", narrow=True) * 8 == (width if registers == 16 else wide)


@pytest.mark.parametrize("case", sampled([case for case in CASES if case.name in FEW[:8]], 8, ids=lambda case: case.name))
def test_unaligned_reads_change_no_bit(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    results = {}
    for unaligned in False, True:
        monkeypatch.setattr("diffsim.stepping.source.tile_loops.reads_unaligned", lambda unaligned=unaligned: unaligned)
        monkeypatch.setattr("diffsim.stepping.source.tile_loops.FEW_DISPLACED", 0)
        monkeypatch.setattr("diffsim.stepping.passes.streams.reads_unaligned", lambda unaligned=unaligned: unaligned)
        monkeypatch.setattr("diffsim.stepping.derive.programs.lanes", lambda dtype, narrow: 4)
        results[unaligned] = outputs(case, "f64")[0]
    assert results[True].keys() == results[False].keys()
    for key, values in results[True].items():
        np.testing.assert_array_equal(values, results[False][key], err_msg=key)


@pytest.mark.parametrize("names", ON_VULKAN)
def test_gpu_kernels_on_vulkan(names: tuple[str, ...]) -> None:
    require_vulkan()
    results = run_cases("vulkan", "-", "f32", names)
    assert set(results) == set(names)
    assert too_large(results, SINGLE, functions=LOOSE) == {}


WIDE = [pytest.param(("acoustic 2-D mixed",), id="first"), pytest.param((*FIRST_ON_VULKAN, "sides 2-D"), id="all", marks=pytest.mark.slow)]


@pytest.mark.parametrize("names", WIDE)
def test_several_cells_a_thread_on_vulkan(names: tuple[str, ...]) -> None:
    require_vulkan()
    assert too_large(run_cases("vulkan", "wide", "f32", names), SINGLE, functions=LOOSE) == {}


@pytest.mark.gpu
def test_several_cells_a_thread_on_cuda() -> None:
    assert too_large(run_cases("cuda", "wide", "f64", FIRST_ON_VULKAN), ROUND_OFF) == {}


@pytest.mark.gpu
def test_gpu_kernels_on_cuda() -> None:
    assert too_large(run_cases("cuda", "-", "f64"), ROUND_OFF) == {}


@pytest.mark.parametrize("names", gate(THREADS["f32"], FEW))
def test_f32_is_as_exact_as_f32_can_be(names: tuple[str, ...]) -> None:
    results = run_cases("cpu", str(min(2, usable_cores())), "f32", names)
    assert set(results) == set(names)
    assert too_large(results, SINGLE) == {}
