"""The figure of crosstalk: how far the change found of one unknown is the change that another one should have had."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from diffsim.plot.style import INK, LABEL, TICK, colour_bar, diverging, dress, new_figure
from diffsim.report.picture import Picture
from diffsim.typing import Array

if TYPE_CHECKING:
    from diffsim.scene.disk.outcome import Outcome, UnknownField

APART = 0.5
"""Truths whose cosine is larger look alike, and cannot tell which of them an answer resembles."""
CELL, REST = 0.75, 1.1
"""Inches: height of a row, and of title and labels."""
DARK = 0.6
"""From this magnitude on, numbers are white."""


def cosines(first: list[Array], second: list[Array]) -> npt.NDArray[np.float64]:
    """The cosine of each change of the first with each of the second; 0 for a change that is 0."""
    one, two = (np.stack([each.ravel() / (float(np.linalg.norm(each)) or 1.0) for each in changes]) for changes in (first, second))
    return np.asarray(one @ two.T, np.float64)


def crosstalk(outcome: Outcome) -> Picture | None:
    """A matrix of the unknowns over the cells; None: there are not two, nobody knows the truth, or the truths look alike."""
    fields = {name: field for name, field in outcome.unknowns.items() if not field.axes and field.truth is not None}
    if len(fields) < 2:
        return None
    names = list(fields)
    changes = [_change(field, field.answer) for field in fields.values()]
    truths = [_change(field, field.truth) for field in fields.values()]
    alike = cosines(truths, truths)
    if not all(each.any() for each in truths) or any(abs(alike[a, b]) > APART for a, b in combinations(range(len(names)), 2)):
        return None
    matrix = cosines(changes, truths)
    figure = new_figure(CELL * len(names) + REST)
    ax = figure.subplots()
    colours = diverging(np.array([-1.0, 1.0]))
    image = ax.imshow(matrix, cmap=colours.cmap, vmin=-1.0, vmax=1.0)
    for row, column in np.ndindex(matrix.shape):
        value = matrix[row, column]
        ax.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=LABEL, color="white" if abs(value) > DARK else INK)
    dress(ax, "", "change of the truth", "change of the answer")
    ax.set_xticks(range(len(names)), names, fontsize=TICK)
    ax.set_yticks(range(len(names)), names, fontsize=TICK)
    colour_bar(figure, image, "cosine", ax=ax)
    off = np.where(np.eye(len(names), dtype=bool), 0.0, np.abs(matrix))
    row, column = np.unravel_index(int(off.argmax()), off.shape)
    own = ", ".join(f"{name} {matrix[k, k]:.2f}" for k, name in enumerate(names))
    most = max(abs(alike[a, b]) for a, b in combinations(range(len(names)), 2))
    caption = (
        "The cosine of answer - start of each unknown (rows) with truth - start of each (columns), over all cells. On the diagonal: how "
        f"far an unknown resembles its own truth ({own}). Beside it: how far it resembles the truth of another one, which is "
        f"crosstalk; the largest is {matrix[row, column]:.2f}, of {names[row]} with the truth of {names[column]}. "
        f"The truths have cosines of at most {most:.2f} with each other."
    )
    return Picture("crosstalk", "Crosstalk between the unknowns", caption, figure)


def _change(field: UnknownField, values: Array | None) -> Array:
    """A departure from the start, 0 where nothing may change."""
    assert values is not None
    change = np.asarray(values, float) - np.asarray(field.start, float)
    return change if field.mask is None else np.where(field.mask, change, 0.0)
