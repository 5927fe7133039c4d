"""The style of all figures: sizes, colours, colour scales and their limits. It changes no global setting of matplotlib."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from diffsim.typing import Array

WIDTH = 10.0
"""Width of every figure, inches."""
DPI = 150
PAD = 0.06
"""Inches around every panel."""
TITLE, LABEL, TICK = 11, 10, 9
"""Font sizes, points."""
TICKS, FEW = 5, 3
"""About as many an axis; an axis of a small map."""

INK, FAINT, HIDDEN, START, ANSWER, MARK = "#1a1a1a", "#8c8c8c", "#bdbdbd", "#0072b2", "#d55e00", "#ffb000"
"""Data and truth; noise and grid; cells that are left out; the start; the answer; receivers and sources."""

SEQUENTIAL, DIVERGING, GRADIENT = "viridis", "RdBu_r", "PuOr_r"
"""Perceptually uniform; white at zero; white at zero, and never taken for a field."""
WORDS = {
    "H": "depth",
    "T": "temperature",
    "c": "wave speed",
    "eta": "surface elevation",
    "eta0": "initial surface elevation",
    "kappa": "diffusivity",
    "p": "pressure",
}
"""Meaning of the usual symbols, for titles."""
BY_NAME = {"H": "Blues", "T": "inferno"}
"""Sequential maps of fields that have a usual one: depth, temperature."""
SIGNED = 0.05
"""A field counts as signed if its negative values reach this fraction of its largest magnitude."""


@dataclass(frozen=True)
class Colours:
    """A colour scale: a map, and the values at its ends."""

    cmap: Colormap
    low: float
    high: float

    @property
    def centred(self) -> bool:
        """True if zero is in the middle."""
        return self.low == -self.high


def sequential(low: float, high: float, name: str = "") -> Colours:
    """From `low` to `high`, by the map of a field of this name."""
    if not high > low:
        margin = 0.5 * abs(low) or 0.5
        low, high = low - margin, high + margin
    return Colours(_with_grey(BY_NAME.get(name, SEQUENTIAL)), low, high)


def diverging(*values: Array, quantile: float = 1.0, reach: float = 1.0, cmap: str = DIVERGING) -> Colours:
    """Zero in the middle; the ends at `reach` times a quantile of the magnitudes that are not zero."""
    sizes = np.concatenate([np.abs(np.asarray(v, float)[np.isfinite(v) & (v != 0)]) for v in values])
    limit = reach * float(np.quantile(sizes, quantile)) if sizes.size else 1.0
    return Colours(_with_grey(cmap), -limit, limit)


def common(name: str, *values: Array, zero_is_rest: bool = False) -> Colours:
    """One scale for all of `values`: centred at zero if they have both signs, or if zero is where everything rests.

    A field with a usual map keeps it while it has one sign.
    """
    finite = np.concatenate([np.asarray(v, float)[np.isfinite(v)] for v in values])
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    largest = max(abs(low), abs(high))
    if largest > 0 and ((zero_is_rest and name not in BY_NAME) or (low < -SIGNED * largest and high > SIGNED * largest)):
        return diverging(*values)
    return sequential(low, high, name)


class _Shown(Figure):
    """A figure that a notebook shows, also where nobody has imported pyplot."""

    def _repr_png_(self) -> bytes:
        return png(self)


def png(figure: Figure) -> bytes:
    """A figure as a PNG file."""
    FigureCanvasAgg(figure)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DPI, facecolor="white", metadata={"Software": None})
    return content.getvalue()


def new_figure(height: float) -> Figure:
    """A figure of the usual width; `height` in inches. Its parts find their own places."""
    figure = _Shown(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
    figure.set_layout_engine("compressed", w_pad=PAD, h_pad=PAD)
    return figure


def words(name: str) -> str:
    """A field in words, such as "depth H"."""
    return f"{WORDS[name]} {name}" if name in WORDS else name


def plain(text: str) -> str:
    """Text for a figure in which a dollar is a dollar and starts no formula."""
    return text.replace("$", r"\$")


def dress(ax: Axes, title: str = "", x: str = "", y: str = "", grid: bool = False, ticks: int = TICKS) -> None:
    """Title, axis labels, ticks of the usual sizes, and a faint grid if asked."""
    if title:
        ax.set_title(plain(title), fontsize=TITLE, loc="left", color=INK)
    ax.set_xlabel(plain(x), fontsize=LABEL)
    ax.set_ylabel(plain(y), fontsize=LABEL)
    ax.tick_params(labelsize=TICK)
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "linear":
            axis.set_major_locator(MaxNLocator(ticks))
            axis.get_major_formatter().set_useOffset(False)  # type: ignore[attr-defined]
    if grid:
        ax.grid(True, color=FAINT, alpha=0.3, linewidth=0.6)
        ax.set_axisbelow(True)


def legend_below(figure: Figure, handles: list[Any]) -> None:
    """One legend for all axes of a figure, under them."""
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=LABEL, frameon=False)


def colour_bar(figure: Any, image: ScalarMappable, label: str, **where: Any) -> None:
    """A colour bar with ticks of the usual sizes; `where` as `Figure.colorbar` takes it."""
    bar = figure.colorbar(image, **where)
    bar.set_label(plain(label), fontsize=TICK)
    bar.ax.tick_params(labelsize=TICK)
    bar.locator.set_params(nbins=TICKS)
    bar.update_ticks()


def _with_grey(name: str) -> Colormap:
    return colormaps[name].with_extremes(bad=HIDDEN)
