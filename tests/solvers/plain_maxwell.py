"""Yee's scheme in NumPy: E on edges and H on faces, conductors or a period at the sides, a layer, losses, poles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.steps.layer import figures

CURLS = {"x": (("y", "z"), ("z", "y")), "y": (("z", "x"), ("x", "z")), "z": (("x", "y"), ("y", "x"))}
"""(∇×u)_x = ∂u_z/∂y - ∂u_y/∂z: component -> (along, of) of the first and of the second term."""


@dataclass
class Plain:
    """A run.

    Attributes:
        axes: of the grid, a letter each.
        h: sizes of cells.
        dt: time step.
        periodic: for each axis.
        layer: cells at the low and high side of each axis.
        frequency: of the layer.
        fields: states by name, which `advance` changes.
    """

    axes: str
    h: Sequence[float]
    dt: float
    periodic: Sequence[bool]
    layer: Sequence[tuple[int, int]]
    frequency: float
    fields: dict[str, np.ndarray]

    def advance(self, eps: Mapping[str, np.ndarray], sigma: Mapping[str, Any], poles: Sequence[Mapping[str, Any]]) -> None:
        """One step; media lie where the components of E lie, poles have `wp2` by component, and numbers `gamma` and `w`."""
        f, dt = self.fields, self.dt
        for c in [name[1] for name in f if name[0] == "H" and len(name) == 2]:
            f[f"H{c}"] = f[f"H{c}"] - dt * self.curl("E", c)
        for c in [name[1] for name in f if name[0] == "E"]:
            current = 0.0
            for k, pole in enumerate(poles, 1):
                push = pole["wp2"][c] * f[f"E{c}"] - (pole["w"] ** 2 * f[f"P{k}{c}"] if pole["w"] else 0.0)
                f[f"J{k}{c}"] = ((1 / dt - pole["gamma"] / 2) * f[f"J{k}{c}"] + push) / (1 / dt + pole["gamma"] / 2)
                if pole["w"]:
                    f[f"P{k}{c}"] = f[f"P{k}{c}"] + dt * f[f"J{k}{c}"]
                current = current + f[f"J{k}{c}"]
            half = sigma.get(c, 0.0) / 2
            field = ((eps[c] / dt - half) * f[f"E{c}"] + self.curl("H", c) - current) / (eps[c] / dt + half)
            for axis, name in enumerate(self.axes):
                if name != c and not self.periodic[axis]:
                    field[(slice(None),) * axis + (-1,)] = 0.0
            f[f"E{c}"] = field

    def curl(self, kind: str, c: str) -> Any:
        total: Any = 0.0
        for sign, (along, of) in zip((1, -1), CURLS[c], strict=True):
            if along in self.axes and f"{kind}{of}" in self.fields:
                total = total + sign * self.slope(f"{kind}{of}", self.axes.index(along))
        return total

    def slope(self, name: str, axis: int) -> np.ndarray:
        """E lies on faces across other axes, so its slope lies at centres; that of H on faces."""
        values, to_centres = self.fields[name], name[0] == "E"
        first, last = np.take(values, [0], axis), np.take(values, [-1], axis)
        around = (last if to_centres else first) if self.periodic[axis] else 0 * first
        slope = np.diff(np.concatenate([around, values] if to_centres else [values, around], axis), axis=axis) / self.h[axis]
        psi = f"psi_{name}_{self.axes[axis]}"
        if psi not in self.fields:
            return slope
        n, place = values.shape[axis], int(not to_centres)
        got = figures(n, self.h[axis], self.dt, self.layer[axis], place, 1.0, self.frequency)
        a, b = (got[key].reshape([-1 if k == axis else 1 for k in range(values.ndim)]) for key in "ab")
        self.fields[psi] = (b * self.fields[psi] + a * slope) * (b < 1)
        return slope + self.fields[psi]


def at_edges(values: np.ndarray, axes: str, component: str, periodic: Sequence[bool]) -> np.ndarray:
    """Values at centres, averaged over the cells around each place of a component of E."""
    for axis, name in enumerate(axes):
        if name != component:
            beyond = np.take(values, [0 if periodic[axis] else -1], axis)
            values = 0.5 * (values + np.concatenate([np.delete(values, 0, axis), beyond], axis))
    return values
