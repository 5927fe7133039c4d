"""Solvers that call the host in a step, and one whose number of laps depends on the state: the same numbers on a GPU's path."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tests.arches import require_vulkan
from tests.solvers.on_arch import SOLVERS

SINGLE = 1e-4
"""Error of f32 relative to the largest value: solutions of linear systems amplify round-off."""


def outputs(arch: str, name: str, folder: Path) -> dict[str, np.ndarray]:
    path = folder / f"{arch}.npz"
    subprocess.run([sys.executable, "-m", "tests.solvers.on_arch", arch, str(path), name], check=True, timeout=600)
    with np.load(path) as stored:
        return dict(stored)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_a_solver_on_vulkan_is_that_on_the_cpu(name: str, tmp_path: Path) -> None:
    require_vulkan()
    here, there = (outputs(arch, name, tmp_path) for arch in ("cpu", "vulkan"))
    assert here.keys() == there.keys()
    for key, values in here.items():
        size = np.abs(values).max()
        assert size > 0 or "d/d" in key, key
        assert np.abs(there[key] - values).max() <= SINGLE * size, key


PREAMBLE = """
import numpy as np
import diffsim as ds
from diffsim.solvers import NavierStokes, ShallowWater, bodies
ds.init(arch="vulkan")
grid = ds.Grid((12, 12), 1 / 12, origin=0.5 / 12)
"""
REFUSED = {
    "bodies": """
flow = ds.Simulation(NavierStokes(grid, 0.1 / 12, "slip", bodies="fixed"))
inputs = {"nu": 1e-2, "u": np.ones((12, 12)), "phi": bodies.cylinder(grid, (0.5, 0.5), 0.2)}
flow.vjp(inputs, 2)[1](ds.Solution({name: np.ones((12, 12)) for name in "uvp"}))
""",
    "a storm in two dimensions": """
sides = ("wall", ("tide", "open"))
sea = ds.Simulation(ShallowWater(grid, 1e-3, sides, coriolis=1e-2, uplift=True, weather="steady", supply="steady", sponge=2))
inputs = {name: np.full(sea.input_shape(name, 2), -1.0 if name == "z" else 0.1) for name in sea.inputs}
sea.vjp(inputs, 2)[1](ds.Solution({name: np.ones((12, 12)) for name in ("eta", "qx", "qy")}))
""",
    "a flood in cut steps of two stages": """
sea = ds.Simulation(ShallowWater(ds.Grid((9, 11), 10.0), 0.5, drag="manning", substeps=2))
inputs = {"z": np.full((9, 11), -1.0), "eta": np.full((9, 11), 0.1), "manning": np.full((9, 11), 0.03)}
sea.vjp(inputs, 2)[1](ds.Solution({name: np.ones((9, 11)) for name in ("eta", "qx", "qy")}))
""",
}
"""Steps that drivers of Vulkan cannot run, each with a value that reads too many arrays."""


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_a_loop_with_more_arrays_than_drivers_take_is_refused(name: str) -> None:
    require_vulkan()
    code = (
        f"{PREAMBLE}\ntry:\n{textwrap.indent(REFUSED[name].strip(), '    ')}\nexcept ds.errors.BackendError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "arrays, expected at most 32 on arch 'vulkan'" in done.stdout and done.stdout.strip().count("\n") <= 1


DOUBLE = """
import diffsim as ds
ds.init(arch="vulkan")
try:
    sea = ds.Simulation(ds.solvers.LongWave(ds.Grid((12,), 1.0), 0.1), precision="f64")
    sea.run({"H": [1.0] * 12, "eta0": [0.0] * 12}, 1)
except ds.errors.BackendError as error:
    print(error)
"""


def test_f64_is_refused_by_name() -> None:
    require_vulkan()
    done = subprocess.run([sys.executable, "-c", DOUBLE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "f64" in done.stdout and "vulkan" in done.stdout and "\n" not in done.stdout.strip()
