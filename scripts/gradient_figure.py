#!/usr/bin/env python3
"""Draw docs/gradient.png, the way of a gradient through the floors.

python scripts/gradient_figure.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

TARGET = Path(__file__).resolve().parents[1] / "docs" / "gradient.png"
FLOORS = ("scene/  optimize/", "simulation/", "ad/  numpy/  losses/", "checkpoint/", "stepping/", "engine/")
COLUMNS = ("forward run", "loss", "reverse run", "gradient")
FORWARD, BACKWARD = "#dce9f5", "#f8e3d3"
BOXES = {
    1: (0, 0, "theta becomes fields:\nParametrisation.to_field"),
    2: (1, 0, "checks the inputs,\nchooses a schedule"),
    3: (3, 0, "carries out the actions:\nAdvance, Save, Record"),
    4: (4, 0, "forward program:\nstates, residuals, traces"),
    5: (5, 0, "launches its kernels"),
    6: (1, 1, "hands out the solution:\ntraces and final states"),
    7: (2, 1, "runs the loss, sweeps its\ntape: cotangents"),
    8: (3, 2, "last step first:\nLoad, Record, Reverse"),
    9: (4, 2, "adjoint program:\ncotangents, sums"),
    10: (5, 2, "launches its kernels"),
    11: (1, 3, "gives the gradient\nof each input"),
    12: (0, 3, "pullback of to_field:\ngradient by theta"),
}
"""Number -> floor from the top, column, text."""

FIRST_BACKWARD = 7
WIDTH, HEIGHT = 0.82, 0.62


def draw() -> None:
    figure, axes = plt.subplots(figsize=(13, 6.4), dpi=100)
    for row, name in enumerate(FLOORS):
        axes.axhspan(-row - 0.5, -row + 0.5, color="#f4f4f4" if row % 2 else "white", zorder=0)
        axes.text(-0.56, -row, name, ha="right", va="center", family="monospace", fontsize=9)
    for column, name in enumerate(COLUMNS):
        axes.text(column, 0.62, name, ha="center", va="bottom", fontsize=10, weight="bold")
    for number, (row, column, text) in BOXES.items():
        face = BACKWARD if number >= FIRST_BACKWARD else FORWARD
        corner = (column - WIDTH / 2, -row - HEIGHT / 2)
        axes.add_patch(plt.Rectangle(corner, WIDTH, HEIGHT, facecolor=face, edgecolor="#555555", linewidth=0.8, zorder=2))
        axes.text(column, -row, f"{number}  {text}", ha="center", va="center", fontsize=8, zorder=3)
    for number in range(1, len(BOXES)):
        _arrow(axes, BOXES[number][:2], BOXES[number + 1][:2])
    axes.set_xlim(-1.5, 3.5)
    axes.set_ylim(-len(FLOORS) + 0.5, 1.0)
    axes.axis("off")
    figure.savefig(TARGET, bbox_inches="tight", metadata={"Software": None})


def _arrow(axes: plt.Axes, start: tuple[int, int], end: tuple[int, int]) -> None:
    """From box to box: along a column from edge to edge, and between columns from side to side."""
    (row, column), (next_row, next_column) = start, end
    if column == next_column:
        down = 1 if next_row > row else -1
        points = (column, -row - down * HEIGHT / 2), (next_column, -next_row + down * HEIGHT / 2)
    else:
        points = (column + WIDTH / 2, -row), (next_column - WIDTH / 2, -next_row)
    axes.annotate("", points[1], points[0], arrowprops={"arrowstyle": "-|>", "color": "#555555", "shrinkA": 0, "shrinkB": 0}, zorder=1)


if __name__ == "__main__":
    draw()
