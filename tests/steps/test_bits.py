"""Every step by other schedules, and some with other threads, lanes and arches: the same bits, or the same numbers to round-off."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from diffsim.base.system import usable_cores
from tests.arches import require_vulkan
from tests.sampled import sampled
from tests.steps import FEW, advection, maxwell_drude, peaceman_rachford, shallow_water
from tests.steps.run_steps import numbers
from tests.steps.step import Fields, Step

ROUND_OFF = 1e-12
NAMES = [step.name for step in FEW]
IN_GATE = [step.name for step in (advection.STEP, peaceman_rachford.STEP)]
"""Planes, and calls of functions on the host between parts. `tests/stepping/source/test_arches.py` has what the others have: stages,
numbers of all cells, and values kept for some rows."""
SOME_NAMES = [
    pytest.param(IN_GATE, id="some"),
    pytest.param([name for name in NAMES if name not in IN_GATE], id="others", marks=pytest.mark.slow),
]
SINGLE = 2e-4  # of f32 after some steps, relative to the largest value; limiters and dry cells make it worse than round-off


def run_steps(file: Path, arch: str, threads: str, precision: str, names: list[str]) -> Fields:
    command = [sys.executable, "-m", "tests.steps.run_steps", arch, threads, precision, str(file), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr)[-2000:])
    with np.load(file) as stored:
        return dict(stored)


@functools.cache
def with_one_thread(*names: str) -> Fields:
    with tempfile.TemporaryDirectory() as folder:
        return run_steps(Path(folder) / "one.npz", "cpu", "1", "f64", [*names])


@pytest.mark.skipif(usable_cores() < 2, reason="one core only: there is no second thread to compare")
@pytest.mark.parametrize("names", SOME_NAMES)
def test_the_number_of_threads_changes_no_bit(names: list[str], tmp_path: Path) -> None:
    one, two = with_one_thread(*names), run_steps(tmp_path / "two.npz", "cpu", "2", "f64", names)
    assert one.keys() == two.keys() and {key.split(":")[0] for key in one} == set(names)
    assert [key for key in one if one[key].tobytes() != two[key].tobytes()] == []


@functools.cache
def by_own_lanes(step: Step) -> Fields:
    return numbers(step)


@pytest.mark.parametrize("lanes", sampled([16, 1]))
@pytest.mark.parametrize("step", sampled(FEW, ids=lambda step: step.name, gate=[maxwell_drude.STEP, shallow_water.STEP, advection.STEP]))
def test_other_lane_counts_agree(step: Step, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fewest and the most; tests/stepping/source/test_arches.py also has two, as all contracts with registers of 16 bytes have."""
    wanted = by_own_lanes(step)
    monkeypatch.setattr("diffsim.stepping.derive.programs.lanes", lambda dtype, narrow: lanes)
    assert wrong(numbers(step), wanted, ROUND_OFF) == {}


@pytest.mark.parametrize("names", SOME_NAMES)
def test_gpu_kernels_on_vulkan(names: list[str], tmp_path: Path) -> None:
    require_vulkan()
    assert wrong(run_steps(tmp_path / "vulkan.npz", "vulkan", "-", "f32", names), with_one_thread(*names), SINGLE) == {}


@pytest.mark.gpu
@pytest.mark.parametrize(("precision", "most"), [("f32", SINGLE), ("f64", ROUND_OFF)])
def test_gpu_kernels_on_cuda(precision: str, most: float, tmp_path: Path) -> None:
    assert wrong(run_steps(tmp_path / "cuda.npz", "cuda", "-", precision, NAMES), with_one_thread(*NAMES), most) == {}


BLOCKS = """
import sys
import numpy as np
import diffsim as ds
from diffsim.stepping.source import device
ds.init(arch=sys.argv[1], precision="f32")
device.WIDE = 0  # large blocks for small grids too
for shape in ((3, 5, 37), (17, 3)):
    rng = np.random.default_rng(0)
    places = [tuple(10.0 * (n // 2) for n in shape)]
    simulation = ds.Simulation(ds.solvers.Acoustic(ds.Grid(shape, 10.0), 1e-3, order=2), receivers={"p": places}, wrt=["c", "p"])
    inputs = {"c": rng.uniform(1500, 3000, shape), "p": rng.standard_normal(shape)}
    value, gradient = simulation.value_and_grad(lambda s: (s.final["p"] ** 2).sum() + (s.traces["p"] ** 2).sum(), inputs, 7)
    print(value, *(repr(np.asarray(gradient[name]).ravel().tolist()) for name in ("c", "p")), sep=";")
"""


def test_blocks_of_threads_that_do_not_fit_into_the_grid() -> None:
    """Axes that are shorter than a block, and axes whose last block is not full."""
    require_vulkan()
    runs = [subprocess.run([sys.executable, "-c", BLOCKS, arch], capture_output=True, text=True, timeout=120) for arch in ("vulkan", "cpu")]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr[-2000:] + runs[1].stderr[-2000:]
    lines = [[np.array(ast.literal_eval(part)) for line in run.stdout.splitlines() for part in line.split(";")] for run in runs]
    assert len(lines[0]) == 6
    for vulkan, cpu in zip(*lines, strict=True):
        assert np.abs(vulkan - cpu).max() <= 1e-5 * np.abs(cpu).max()


def wrong(found: Fields, wanted: Fields, most: float) -> dict[str, float]:
    """Relative errors above `most`; the largest value of a field is its scale."""
    assert found.keys() == wanted.keys()
    errors = {key: float(np.abs(found[key] - wanted[key]).max() / np.abs(wanted[key]).max()) for key in wanted}
    return {key: error for key, error in errors.items() if not error <= most}
