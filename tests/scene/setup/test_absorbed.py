"""Notes on parts inside of an absorbing layer."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np

from diffsim.layers import CPML
from diffsim.mesh.grid import Grid
from diffsim.report.page import render
from diffsim.scene import Scene
from diffsim.scene.disk.outcome import Outcome
from diffsim.scene.disk.progress import Watcher
from diffsim.scene.setup.absorbed import absorbed, inside_layer, layer_of
from diffsim.solvers import Acoustic
from tests.scene.tiny import ACOUSTIC


def sponged(cells: int, **mask: Any) -> list[str]:
    """The notes on the small acoustic scene with a sponge: cells of 10 m from 0, sources at x = 30 and 40, receivers at x = 110."""
    table = copy.deepcopy(ACOUSTIC)
    table["equation"]["sponge"] = cells
    table["sources"]["f"]["points"] = [[40.0, 30.0], [100.0, 40.0]]
    if mask:
        table["unknowns"]["c"]["mask"] = mask
    problem = Scene(**table).problem("f64")
    return absorbed(problem.setup, problem.free)


def test_a_layer_is_cells_beyond_its_rim() -> None:
    """The innermost cell that is damped is the last one before the rim."""
    grid = Grid((20, 30), 5.0, (100.0, 0.0), ("z", "x"))
    layer = Acoustic(grid, 1e-4, sponge=3)
    assert layer_of(layer) == ((3, 3), (3, 3))
    damped = [np.flatnonzero(layer.profiles[f"damp{axis}"].values > 0) for axis in range(2)]
    for axis, name in enumerate(grid.axes):
        points = np.tile([150.0, 75.0], (grid.shape[axis], 1))
        points[:, axis] = grid.coordinates(axis)
        np.testing.assert_array_equal(np.flatnonzero(inside_layer(grid, points, layer_of(layer))), damped[axis], err_msg=name)
    layer.absorber = CPML(grid, 1e-4, [(0, 5), 2], 2000.0, 20.0)
    assert layer_of(layer) == ((3, 5), (3, 3))


def test_notes_name_points_and_free_cells() -> None:
    width, shape = 4, np.array(ACOUSTIC["grid"]["shape"])  # the second source lies on the rim
    sources, receivers, cells = sponged(width)
    assert sources.startswith("sources.f: 1 of 2 points inside the absorbing layer (z = 40, x = 30)")
    assert receivers.startswith("receivers.p: 5 of 5 points inside")
    whole, inner = np.prod(shape), np.prod(shape - 2 * width)
    assert cells.startswith(f"unknowns.c: {whole - inner} of {whole} free cells inside") and f"margin = {width}" in cells
    assert sponged(width, margin=width) == [sources, receivers]
    assert sponged(0) == []


def test_a_run_tells_and_keeps_the_notes(tmp_path: Path) -> None:
    table = copy.deepcopy(ACOUSTIC)
    table["equation"]["sponge"] = 4
    noted: list[str] = []
    watcher = Watcher()
    watcher.note = noted.append  # type: ignore[method-assign]
    outcome = Scene(**table | {"optimise": {"iterations": 1}}).run(tmp_path / "out", precision="f64", watcher=watcher)
    assert len(outcome.notes) == 4 and [f"note: {line}" for line in outcome.notes] == noted
    assert Outcome.load(tmp_path / "out").notes == outcome.notes
    assert f"Note: {outcome.notes[0]}." in render(outcome, [])
