"""Films of a run: the field, and beside it the adjoint field of a loss."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.animation import AbstractMovieWriter, FFMpegWriter, FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg

from diffsim.base.arguments import function, instance, one_of, whole
from diffsim.base.messages import path_shown
from diffsim.errors import ParameterError
from diffsim.plot.chart import Chart, View
from diffsim.plot.given import Positions, chart_of_grid
from diffsim.plot.panels import LEGEND, Panel, draw_panels
from diffsim.plot.points import draw_points
from diffsim.plot.style import LABEL, common, diverging, legend_below
from diffsim.plot.units import time_scale, value_scale
from diffsim.simulation import Simulation
from diffsim.simulation.gradients.loss import Loss
from diffsim.simulation.prepared.forward import initial_states
from diffsim.typing import Array

WRITERS = {".mp4": "ffmpeg", ".gif": "Pillow"}
ROBUST = 0.998
"""Quantile of all frames at which the colours end: near sources and receivers a field can be far larger."""
DPI = 80


def animate(
    simulation: Simulation,
    inputs: Mapping[str, npt.ArrayLike],
    steps: int,
    path: str | os.PathLike[str],
    *,
    state: str | None = None,
    loss: Loss | None = None,
    frames: int = 100,
    unit: str = "",
    units: str | Sequence[str] | None = None,
    sources: Positions | None = None,
    receivers: Positions | None = None,
    at: Sequence[float] | None = None,
    rate: int = 20,
) -> Path:
    """Write a film of a run. With a loss, the adjoint field is shown beside the field, at the same times.

    The adjoint field at a step is the gradient of the loss by the state there. It runs backwards, from the traces to their causes.

    Args:
        simulation: the simulation to run. With a loss, the whole gradient is computed, for the inputs in its `wrt`.
        inputs: arrays by name; see `Simulation.run`.
        steps: time steps.
        path: the film. It ends in .mp4, which needs ffmpeg, or .gif. Without an ending: .mp4 where there is ffmpeg, else .gif.
        state: which state is shown; None: the first.
        loss: solution -> a number, as in `Simulation.value_and_grad`.
        frames: at most so many, equally spaced in time.
        unit: of the state.
        units: of the coordinates; see `field`, as the next three.
        sources: positions.
        receivers: positions.
        at: coordinates of the planes in 3-D.
        rate: frames a second.

    Returns:
        The path of the film.

    Raises:
        ParameterError: there is no such state, the ending is not known, or ffmpeg is missing.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim import plot

        grid = ds.Grid((60, 80), spacing=10.0, axes=("z", "x"))
        source, receiver = [[100.0, 100.0]], [[100.0, 700.0]]
        sea = ds.Simulation(ds.solvers.Acoustic(grid, dt=2e-3), sources={"f": source}, receivers={"p": receiver}, wrt=["c"])
        t = 2e-3 * np.arange(240)[:, None]
        inputs = {"c": np.full(grid.shape, 2000.0), "f": (1 - 2 * (np.pi * 12 * (t - 0.1)) ** 2) * np.exp(-((np.pi * 12 * (t - 0.1)) ** 2))}
        energy = lambda found: (found.traces["p"] ** 2).sum()
        film = plot.animate(sea, inputs, 240, "wave.gif", loss=energy, frames=6, sources=source, receivers=receiver)
        assert film.stat().st_size > 1000
    """
    instance("simulation", simulation, Simulation, "a diffsim.Simulation", "give one")
    function("loss", loss, "lambda solution: (solution.traces['p'] ** 2).sum()")
    names = tuple(simulation.equation.states)
    state = names[0] if state is None else one_of("state", state, names)
    steps, frames = whole("steps", steps, 1), whole("frames", frames, 1)
    target, writer = _written(Path(path), whole("rate", rate, 1, remedy="give frames a second"))
    every = math.ceil(steps / max(frames - 1, 1))
    chart = chart_of_grid(simulation.grid, units, sources, receivers, at)
    fields = _fields(simulation, inputs, steps, state, every)
    shown = {state: fields}
    if loss is not None:
        shown[f"adjoint of {state}"] = _adjoints(simulation, inputs, steps, state, every, loss)
    numbers = sorted(set.intersection(*(set(frames_of) for frames_of in shown.values())))
    _save(chart, {title: [frames_of[n] for n in numbers] for title, frames_of in shown.items()}, numbers, simulation, unit, target, writer)
    return target


def _written(path: Path, rate: int) -> tuple[Path, AbstractMovieWriter]:
    """The file, and its writer."""
    if not path.suffix:
        path = path.with_suffix(".mp4" if FFMpegWriter.isAvailable() else ".gif")
    if path.suffix not in WRITERS:
        raise ParameterError(f"path = '{path_shown(path)}', expected an ending of {', '.join(WRITERS)}; choose one")
    if path.suffix == ".mp4" and not FFMpegWriter.isAvailable():
        raise ParameterError(f"path = '{path_shown(path)}', expected ffmpeg for a film in MP4, found none; install it, or write a .gif")
    return path, FFMpegWriter(fps=rate) if path.suffix == ".mp4" else PillowWriter(fps=rate)


def _fields(simulation: Simulation, inputs: Mapping[str, npt.ArrayLike], steps: int, state: str, every: int) -> dict[int, Array]:
    frames = {0: np.asarray(initial_states(simulation._compiled, inputs, steps)[state], np.float32)}

    def watch(done: int, states: Mapping[str, Array]) -> None:
        frames[done] = np.array(states[state], np.float32)

    simulation.run(inputs, steps, every=every, watch=watch)
    return frames


def _adjoints(
    simulation: Simulation, inputs: Mapping[str, npt.ArrayLike], steps: int, state: str, every: int, loss: Loss
) -> dict[int, Array]:
    frames: dict[int, Array] = {}

    def watch(step: int, cotangents: Mapping[str, Array]) -> None:
        frames[step] = np.array(cotangents[state], np.float32)

    simulation.value_and_grad(loss, inputs, steps, every=every, watch=watch)
    return frames


def _save(
    chart: Chart,
    films: Mapping[str, Sequence[Array]],
    numbers: Sequence[int],
    simulation: Simulation,
    unit: str,
    path: Path,
    writer: AbstractMovieWriter,
) -> None:
    panels = []
    for number, (title, frames) in enumerate(films.items()):
        every = np.stack(frames)
        signed = bool(every.min() < 0 < every.max())
        colours = diverging(every, quantile=ROBUST) if number or signed else common(title, every)
        scale = value_scale("" if number else unit, np.array([colours.low, colours.high]))
        panels.append(Panel(title, frames[0], colours, scale, title))
    marked = bool(chart.sources or chart.receivers)
    figure, drawn = draw_panels(chart, panels, LEGEND if marked else 0.0)
    handles = [draw_points(chart, view, ax, small=True) for view, ax in drawn]
    legend_below(figure, handles[-1])
    clock = time_scale(simulation.equation.dt * np.array(numbers), simulation.equation.time_unit)
    heading = figure.suptitle("t", fontsize=LABEL)
    places = [(panel, list(films.values())[k // max(len(chart.views), 1)]) for k, panel in enumerate(_for_each_view(panels, chart))]
    for (view, ax), (panel, _) in zip(drawn, places, strict=True):
        if view is None:
            ax.set_ylim(*(1.05 * panel.scale.factor * np.array([panel.colours.low, panel.colours.high])))

    def update(k: int) -> list[Any]:
        heading.set_text(f"t = {clock.factor * simulation.equation.dt * numbers[k]:.4g} {clock.unit}")
        for (view, ax), (panel, frames) in zip(drawn, places, strict=True):
            _put(ax, view, panel, frames[k])
        return []

    FigureCanvasAgg(figure)
    update(0)
    figure.canvas.draw()
    figure.set_layout_engine("none")  # the panels stay where they are
    FuncAnimation(figure, update, frames=len(numbers), cache_frame_data=False).save(path, writer=writer, dpi=DPI)


def _for_each_view(panels: Sequence[Panel], chart: Chart) -> list[Panel]:
    return [panel for panel in panels for _ in range(max(len(chart.views), 1))]


def _put(ax: Axes, view: View | None, panel: Panel, values: Array) -> None:
    """Show other values in a panel that is drawn."""
    if view is None:
        ax.lines[0].set_ydata(values * panel.scale.factor)
        return
    cells = view.cut(values) * panel.scale.factor
    if ax.images:
        ax.images[0].set_data(cells)
    else:
        ax.collections[0].set_array(cells)
