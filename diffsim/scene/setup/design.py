"""Parts of a design problem in place of data: modes that are sent into waveguides, monitors, and objectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import diffsim.numpy as dnp
from diffsim.base.messages import shown
from diffsim.errors import SceneError
from diffsim.photonics import Mode, Monitors, Plane, Source, mode_source, slab_mode
from diffsim.scene.schema.parts import FieldModel
from diffsim.scene.schema.schema import Description, Maximise, Minimise, Monitor
from diffsim.scene.words.explain import prefix_error
from diffsim.scene.words.suggest import require_known
from diffsim.simulation import Solution
from diffsim.solvers import Maxwell
from diffsim.stepping.declare.equation import Equation
from diffsim.typing import Array

Where = tuple[str, str]
MEDIUM = "eps"
"""The input in which waveguides guide."""


@dataclass(frozen=True, eq=False)
class Watched:
    """The monitors of a scene, and the modes that they measure.

    Attributes:
        models: name -> keys of the monitor.
        monitors: their receivers and spectra.
        modes: (name, frequency) -> the mode.
    """

    models: Mapping[str, Monitor]
    monitors: Monitors
    modes: Mapping[tuple[str, float], Mode]

    def power(self, solution: Solution, name: str, frequency: float) -> Any:
        """Power through a monitor at one frequency, with derivatives."""
        model = self.models[name]
        if model.measure == "mode":
            forward, backward = self.monitors.amplitudes(solution, name, self.modes[name, frequency])
            return _square(forward if model.towards == "greater" else backward)
        at = int(np.flatnonzero(self.monitors.frequencies == frequency)[0])
        return (1 if model.towards == "greater" else -1) * self.monitors.flux(solution, name)[at]

    @property
    def ends(self) -> dict[str, Array]:
        """Name -> both ends of the plane, shape (2, axes)."""
        grid, traces = self.monitors.equation.grid, {}
        for name, model in self.models.items():
            ends = np.array([[along[0], along[-1]] for along in (grid.coordinates(axis) for axis in range(grid.ndim))]).T
            number = grid.axes.index(model.axis)
            ends[:, 1 - number] = [
                end if bound is None else bound for bound, end in zip((model.low, model.high), ends[:, 1 - number], strict=True)
            ]
            ends[:, number] = model.at
            traces[name] = ends
        return traces


def _square(amplitude: Any) -> Any:
    return dnp.real(amplitude) ** 2 + dnp.imag(amplitude) ** 2


@dataclass(frozen=True, eq=False)
class Transmission:
    """1 - the power behind a design over that before it, the mean over some frequencies, times a weight.

    Attributes:
        watched: the monitors.
        model: its keys.
        states: the states that the monitors record, in the order of the arguments of a call.
    """

    watched: Watched
    model: Maximise
    states: tuple[str, ...]

    def shares(self, traces: Mapping[str, Any]) -> list[Any]:
        """The transmission at each frequency."""
        solution, model = Solution({}, traces), self.model
        return [self.watched.power(solution, model.of, f) / self.watched.power(solution, model.over, f) for f in model.frequency]

    def __call__(self, *traces: Any) -> Any:
        shares = self.shares(dict(zip(self.states, traces, strict=True)))
        return self.model.weight * (1 - sum(shares) / len(shares))


def label_of(model: Maximise) -> str:
    """Name of the loss of an objective."""
    return f"1 - transmission of {model.of} over {model.over}"


def names_of(model: Maximise) -> list[str]:
    """Names of the measured values, one for each frequency."""
    return [f"transmission of {model.of} over {model.over}, frequency {f:g}" for f in model.frequency]


def measures_of(
    scene: Description, watched: Watched | None, first: Mapping[Where, Array], last: Mapping[Where, Array]
) -> dict[str, tuple[float, float]]:
    """The transmission of each objective at each frequency, the mean over shots, from the predictions of the start and of the answer."""
    measures: dict[str, tuple[float, float]] = {}
    for model in scene.maximise:
        assert watched is not None  # a scene that maximises has monitors
        part = transmissions(watched, model)
        ends = []
        for predicted in (first, last):
            shots = len(next(iter(predicted.values())))
            rows = [part.shares({state: predicted["traces", state][shot] for state in part.states}) for shot in range(shots)]
            ends.append(np.mean(np.array(rows, float), axis=0))
        measures |= {name: (float(before), float(after)) for name, before, after in zip(names_of(model), *ends, strict=True)}
    return measures


def transmissions(watched: Watched, model: Maximise) -> Transmission:
    """The objective of one shot."""
    return Transmission(watched, model, tuple(watched.monitors.receivers))


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean of a recorded state over receivers and some of the times, times a weight.

    Attributes:
        model: its keys.
        counts: True at the times that count.
    """

    model: Minimise
    counts: Array

    def mean(self, traces: Any) -> Any:
        """The mean of traces, shape (times, receivers)."""
        return dnp.mean(traces[self.counts])

    def __call__(self, traces: Any) -> Any:
        return self.model.weight * self.mean(traces)


def mean_of(model: Minimise, times: Array, key: str) -> Mean:
    """The objective of one shot.

    Raises:
        SceneError: no time of the run counts.
    """
    first, last = model.window or (times[0], times[-1])
    half = 0.5 * (times[1] - times[0])  # so that a time at the border counts whatever its round-off
    counts = (times > first - half) & (times < last + half)
    if first < times[0] - half or last > times[-1] + half or not counts.any():
        raise SceneError(f"{key}.window: expected times of the run, 0 to {times[-1]:g} s, found {first:g} to {last:g}; correct it")
    return Mean(model, counts)


def means_of(scene: Description, times: Array, first: Mapping[Where, Array], last: Mapping[Where, Array]) -> dict[str, tuple[float, float]]:
    """The mean of each state that is made small, over shots, from the predictions of the start and of the answer."""
    means: dict[str, tuple[float, float]] = {}
    for number, model in enumerate(scene.minimise):
        part = mean_of(model, times, f"minimise[{number}]")
        before, after = (float(np.mean([part.mean(shot) for shot in ends["traces", model.state]])) for ends in (first, last))
        means[f"mean of {model.state}"] = before, after
    return means


def check_design(scene: Description) -> None:
    """Refuse objectives that name no monitor, and parts that need data."""
    for number, model in enumerate(scene.maximise):
        for key in ("of", "over"):
            require_known(f"maximise[{number}].{key}", getattr(model, key), scene.monitors)
        if scene.monitors[model.over].measure != "mode":
            raise SceneError(
                f'maximise[{number}].over: expected a monitor with measure = "mode", which tells sent from returning waves, found '
                f"{shown(model.over)}, which measures all power; change its measure"
            )
    if not scene.design:
        return
    kind = scene.kind_of_design
    for number, stage in enumerate(scene.stages()):
        if stage.lowpass is not None or stage.highpass is not None:
            raise SceneError(f"stage[{number}]: expected no lowpass and no highpass with {kind}, found one; drop it")
        if stage.method == "gauss-newton":
            key = f"stage[{number}].method" if scene.stage else "optimise.method"
            raise SceneError(f'{key}: expected "L-BFGS-B" or "adam" with {kind}, for it is no sum of squares, found "gauss-newton"')
    for name, unknown in scene.unknowns.items():
        if unknown.precondition is not None:
            raise SceneError(f"unknowns.{name}.precondition: expected none with {kind}, found {shown(unknown.precondition)}; drop it")


def medium_of(scene: Description) -> tuple[str, FieldModel]:
    """The key and the field of the permittivity at the start of the search, in which modes are taken.

    Raises:
        SceneError: there is none.
    """
    unknown = scene.unknowns.get(MEDIUM)
    if unknown is not None and unknown.start is not None:
        return f"unknowns.{MEDIUM}.start", unknown.start
    if MEDIUM in scene.fields:
        return f"fields.{MEDIUM}", scene.fields[MEDIUM]
    raise SceneError(f"fields.{MEDIUM}: expected the permittivity, of whose waveguides the modes are, found none; add it")


def require_light(scene: Description, equation: Equation) -> None:
    """Refuse modes and monitors of an equation that has none.

    Raises:
        SceneError: the message names the key.
    """
    _light(equation, next((f"sources.{name}.mode" for name, model in scene.sources.items() if model.mode is not None), "monitors"))


def _light(equation: Equation, key: str) -> Maxwell:
    """The equation, if it has modes."""
    if not isinstance(equation, Maxwell) or equation.grid.ndim != 2 or MEDIUM not in equation.parameters:
        raise SceneError(
            f"{key}: expected the equation maxwell on two axes, with one permittivity, found {type(equation).__name__} on "
            f"{equation.grid.ndim}; modes and monitors are for that"
        )
    return equation


def _axis(equation: Maxwell, axis: str, at: float, key: str) -> str:
    """The letter in the equation of an axis, by its name in the scene; it refuses a place outside of the grid."""
    require_known(f"{key}.axis", axis, equation.grid.axes)
    number = equation.grid.axes.index(axis)
    along = equation.grid.coordinates(number)
    if not along[0] <= at <= along[-1]:
        raise SceneError(f"{key}.at: expected {along[0]:g} to {along[-1]:g}, found {at:g}; move it into the grid")
    return equation.axes[number]


def _mode(equation: Maxwell, eps: Array, axis: str, at: float, frequency: float, order: int) -> Mode:
    """The mode of the waveguide that crosses a line across an axis."""
    number = equation.axes.index(axis)
    cell = int(np.abs(equation.grid.coordinates(number) - at).argmin())
    return slab_mode(equation, axis, np.take(eps, cell, axis=number), frequency, order)


def sent(scene: Description, equation: Equation, eps: Array, wavelets: Mapping[str, Array]) -> dict[str, Source]:
    """Forcing -> the currents of the mode that it sends.

    Args:
        scene: the scene.
        equation: on some grid.
        eps: the permittivity there.
        wavelets: forcing -> a value for each step.
    """
    sources: dict[str, Source] = {}
    for name, model in scene.sources.items():
        if model.mode is None:
            continue
        key, mode = f"sources.{name}.mode", model.mode
        light = _light(equation, key)
        axis = _axis(light, mode.axis, mode.at, key)
        with prefix_error(key):
            shape = _mode(light, eps, axis, mode.at, mode.frequency, mode.order)
            sources[name] = mode_source(light, axis, mode.at, shape, wavelets[name])
        (current,) = sources[name].places
        if current != name:
            raise SceneError(
                f"sources.{name}: expected {current}, the current that sends a mode along {mode.axis}, found {name}; rename it"
            )
    return sources


def watched_of(scene: Description, equation: Equation, eps: Array) -> Watched | None:
    """The monitors of a scene; None: it has none."""
    if not scene.monitors:
        return None
    light = _light(equation, "monitors")
    frequencies = sorted({f for model in scene.maximise for f in model.frequency})
    modes = {}
    planes = {}
    for name, model in scene.monitors.items():
        axis = _axis(light, model.axis, model.at, f"monitors.{name}")
        with prefix_error(f"monitors.{name}"):
            planes[name] = Plane(axis, model.at, model.low, model.high)
            if model.measure == "mode":
                for f in frequencies:
                    modes[name, f] = _mode(light, eps, axis, model.at, f, model.order)
    with prefix_error("monitors"):
        return Watched(scene.monitors, Monitors(light, frequencies, **planes), modes)
