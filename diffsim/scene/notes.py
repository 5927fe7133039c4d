"""Notes on a scene: choices that are no mistake, and yet spoil an answer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from diffsim.base.arguments import plural
from diffsim.records.checks import share_within
from diffsim.scene.schema.parts import Sampled
from diffsim.scene.search.assemble import Problem
from diffsim.scene.setup.absorbed import absorbed
from diffsim.scene.setup.fields import BUILDERS
from diffsim.scene.setup.resolved import dominant
from diffsim.scene.setup.wavelets import peak_of, records_of_wavelet
from diffsim.scene.shots.mutes import offsets

FAR = 5.0
"""Cells of an offset that is good."""
SHORTEST = 2.5
"""The spectrum of a wavelet is negligible above this multiple of its dominant frequency."""
LEAST, LEAST_OF_ORDER_2 = 4.0, 8.0
"""Cells that the shortest wave needs."""
SAMPLES = 2 * SHORTEST
"""Time steps in a period of the dominant frequency, with which two are in the shortest period."""


def notes_of(problem: Problem) -> list[str]:
    """A line for each note."""
    return [
        *of_files(problem),
        *absorbed(problem.setup, problem.free),
        *beside(problem),
        *coarse(problem),
        *unfired(problem),
        *undersampled(problem),
        *outside(problem),
        *poor_data(problem),
    ]


def of_files(problem: Problem) -> Iterator[str]:
    """Lines about values that replace those of files of records and wavelets."""
    for name, recorded in problem.setup.data.items():
        yield from (f"data.{name}: {note}" for note in recorded.notes)
    for name, source in problem.scene.sources.items():
        if isinstance(source.wavelet, Sampled):
            yield from (f"sources.{name}.wavelet: {note}" for note in records_of_wavelet(source.wavelet)[0].notes)


def outside(problem: Problem) -> Iterator[str]:
    """A line for each state whose records lie in part outside of the run."""
    end = problem.scene.time.step * problem.scene.time.count
    for name, recorded in problem.setup.data.items():
        share = share_within(recorded.times, np.isfinite(recorded.values).sum(axis=(0, 2)), end)
        if share < 1:
            yield f"data.{name}: {100 * share:.3g} % of the samples lie within the run (0 to {end:g} s); the others are not compared"


def beside(problem: Problem) -> Iterator[str]:
    """A line for each misfit of waves that has receivers within a cell of a source, where the amplitude has no limit on finer grids."""
    setup = problem.setup
    cell = min(setup.resolved.equation.cell_lengths())
    for number, misfit in enumerate(problem.scene.misfit):
        least = 0.0 if misfit.offset is None else misfit.offset[0]
        if not setup.equation.speed or misfit.of != "traces" or least > cell or not setup.shots[0].sources:
            continue
        receivers = setup.receivers[misfit.state]
        near = [shot for shot, each in enumerate(setup.shots) if (offsets(setup, receivers, each.sources) < (1 - 1e-6) * cell).any()]
        if near:
            yield (
                f"misfit[{number}]: receivers of {misfit.state} within a cell of the source in {plural(len(near), 'shot')} (shot {near[0]} "
                "is one), whose records depend on the grid and outweigh all others; leave them out, such as by "
                f"offset = [{FAR * cell:g}, 1.0e6]"
            )


def poor_data(problem: Problem) -> Iterator[str]:
    """Lines for data of a truth that say little: noise above the signal, and parts of fields that no cell has."""
    truth = problem.scene.truth
    if truth is None:
        return
    if truth.noise > 1:
        yield f"truth.noise: the noise is {truth.noise:g} times the signal, which it hides; lower it to 0.1, say"
    for name, model in truth.fields.items():
        if problem.setup.by_window(name):  # the truth has one state at the beginning
            continue
        place = problem.setup.place(name, f"truth.fields.{name}")
        for kind, build in BUILDERS.items():
            parts = getattr(model, kind)
            for number, part in enumerate(parts if isinstance(parts, tuple) else ()):
                if not np.any(build((part,), place)):
                    yield f"truth.fields.{name}.{kind}[{number}]: it lies outside of the grid, where it changes no cell; move it inside"


def coarse(problem: Problem) -> Iterator[str]:
    """A line if the shortest wave of a wavelet has too few cells in the slowest medium, so that it lags behind."""
    equation, scene = problem.setup.equation, problem.scene
    slow = "vs" if "vs" in equation.parameters else equation.speed
    values = {**problem.known, **problem.start}.get(slow)
    order = getattr(equation, "order", None)
    if values is None or not isinstance(order, int) or not np.any(values > 0):
        return
    speed, cell = float(values[values > 0].min()), max(problem.setup.resolved.equation.cell_lengths())
    needed = LEAST_OF_ORDER_2 if order == 2 else LEAST
    for name, source in scene.sources.items():
        frequency = dominant(source.wavelet, f"sources.{name}.wavelet")
        cells = speed / (SHORTEST * frequency * cell)
        if cells < needed:
            yield (
                f"grid: {cells:.2g} cells of {cell:g} in the shortest wave of sources.{name} ({speed:g} m/s at {SHORTEST:g} times "
                f"{frequency:.3g} Hz), where order {order} needs {needed:g}: cells of {cell * cells / needed:.3g}, or a frequency of "
                f"{frequency * cells / needed:.3g} Hz"
            )


def undersampled(problem: Problem) -> Iterator[str]:
    """A line for each source whose wavelet has fewer than `SAMPLES` time steps in a period."""
    step = problem.scene.time.step
    for name, source in problem.scene.sources.items():
        frequency = dominant(source.wavelet, f"sources.{name}.wavelet")
        samples = 1 / (frequency * step)
        if samples < SAMPLES:
            yield (
                f"sources.{name}.wavelet: {samples:.2g} time steps of {step:.3g} s in a period of its dominant frequency {frequency:.3g} "
                f"Hz, where it needs {SAMPLES:g}: a time step of {step * samples / SAMPLES:.3g} s, or a frequency of "
                f"{frequency * samples / SAMPLES:.3g} Hz"
            )


def unfired(problem: Problem) -> Iterator[str]:
    """A line for each source whose wavelet peaks outside of the run, of which it has the rise or the tail alone."""
    end = problem.scene.time.step * problem.scene.time.count
    for name, source in problem.scene.sources.items():
        part = source.wavelet
        if isinstance(part, Sampled) or 0 <= peak_of(part) <= end:
            continue
        remedy = "take more steps, or give a shorter delay" if peak_of(part) > end else "give a later delay"
        yield f"sources.{name}.wavelet: its peak at {peak_of(part):.3g} s lies outside of the run (0 to {end:.3g} s); {remedy}"
