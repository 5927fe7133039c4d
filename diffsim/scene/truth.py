"""Synthetic data: the observations of the hidden truth, from a finer grid with another time step, with noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from diffsim.grid import Grid
from diffsim.scene.fields import build_field
from diffsim.scene.schema import Description
from diffsim.scene.setup import Setup, build_inputs, build_setup, check_inputs, require_input
from diffsim.typing import Array


@dataclass(frozen=True, eq=False)
class Observed:
    """Data with noise, for the inversion.

    Attributes:
        traces: state -> shape (shots, steps + 1, receivers), at the inversion's times.
        finals: state -> shape (shots, *grid), over the inversion's cells.
        noise: ("traces" or "final", state) -> standard deviation.
    """

    traces: Mapping[str, Array]
    finals: Mapping[str, Array]
    noise: Mapping[tuple[str, str], float]

    def of(self, kind: str, state: str) -> Array:
        """The data of a misfit."""
        return self.traces[state] if kind == "traces" else self.finals[state]


def true_fields(scene: Description, setup: Setup) -> dict[str, Array]:
    """The truth of each unknown, over its domain on the scene's own grid."""
    return {name: build_field(scene.truth.fields[name], setup.place(name, f"truth.fields.{name}")) for name in scene.unknowns}


def observe(scene: Description, setup: Setup) -> Observed:
    """Make the data.

    Args:
        scene: the scene.
        setup: the scene on its own grid. The data are interpolated to it.
    """
    fine, inputs = prepared(scene, setup)
    solutions = fine.predict(inputs)

    wanted = {(m.of, m.state) for m in scene.misfit}
    rng = np.random.default_rng(scene.seed)
    traces: dict[str, Array] = {}
    finals: dict[str, Array] = {}
    noise: dict[tuple[str, str], float] = {}
    for kind, state in sorted(wanted):
        if kind == "traces":
            clean = np.stack([CubicSpline(fine.times(), s.traces[state].astype(float))(setup.times()) for s in solutions])
        else:
            clean = np.stack([averaged(s.final[state].astype(float), fine.grid, setup.grid) for s in solutions])
        deviation = scene.truth.noise * float(np.sqrt(np.mean(clean**2)))
        noise[kind, state] = deviation
        (traces if kind == "traces" else finals)[state] = clean + deviation * rng.standard_normal(clean.shape)
    return Observed(traces, finals, noise)


def prepared(scene: Description, setup: Setup) -> tuple[Setup, dict[str, Array]]:
    """The scene on the grid of its data, and the checked inputs: everything except the run."""
    keyed = {name: (f"fields.{name}", model) for name, model in scene.fields.items()}
    keyed |= {name: (f"truth.fields.{name}", model) for name, model in scene.truth.fields.items()}
    for name, (key, _) in keyed.items():
        require_input(key, name, scene, setup.equation)
    fine = build_setup(scene, setup.simulation.precision, wrt=(), fine=True)
    inputs = build_inputs(keyed, fine)
    check_inputs(fine, inputs, {name: key for name, (key, _) in keyed.items()}, "truth.dt_factor")
    return fine, inputs


def averaged(values: Array, fine: Grid, coarse: Grid) -> Array:
    """Means over the coarse cells of a field over the fine cells of the same region: keeps the integral."""
    for axis in range(fine.ndim):
        edges = [g.coordinates(axis)[0] + g.spacing[axis] * (np.arange(g.shape[axis] + 1) - 0.5) for g in (coarse, fine)]
        low = np.maximum(edges[0][:-1, None], edges[1][None, :-1])
        high = np.minimum(edges[0][1:, None], edges[1][None, 1:])
        share = np.maximum(high - low, 0.0) / coarse.spacing[axis]
        values = np.moveaxis(np.tensordot(share, values, (1, axis)), 0, axis)
    return values
