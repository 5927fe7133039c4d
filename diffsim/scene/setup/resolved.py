"""A scene resolved: its grid and its equation, built once, with the omitted values, which its model and wavelets determine.

That is the time step, and the speed and the frequency of the absorbing layer.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from diffsim.errors import ParameterError, SceneError, StabilityError
from diffsim.mesh.angles import LATITUDES, LONGITUDES
from diffsim.mesh.grid import Grid
from diffsim.scene.schema.parts import FieldModel, Packet, Pulse, Ricker, Wavelet
from diffsim.scene.schema.schema import Description
from diffsim.scene.setup.fields import build_field
from diffsim.scene.setup.grids import grids_of
from diffsim.scene.setup.place import Place
from diffsim.scene.setup.wavelets import sampled
from diffsim.scene.words.domains import everywhere
from diffsim.scene.words.equations import counts_of
from diffsim.scene.words.explain import prefix_error
from diffsim.solvers.parts.sea import Metric
from diffsim.stepping.declare.equation import Equation
from diffsim.typing import Array

SAFE = {1.0: 0.9}
"""Power of the cells that the stable time step goes with -> the part of it that is taken: of waves, which need no less."""
OTHERWISE = 0.5
LONG = 1e30
"""A time step that no explicit scheme is stable for, s."""
SPEED, FREQUENCY = "layer_speed", "layer_frequency"


@dataclass(frozen=True, eq=False)
class Resolved:
    """A scene that leaves nothing out, with its grid and its equation.

    Attributes:
        scene: with its time step, and the speed and the frequency of its layer.
        grid: its own.
        inner: that without the cells around it for a layer; None: there are none around.
        equation: on this grid, with this time step.
    """

    scene: Description
    grid: Grid
    inner: Grid | None
    equation: Equation

    @property
    def steps(self) -> int:
        """Time steps of a run."""
        return self.scene.time.count


def resolved(scene: Description) -> Resolved:
    """Build the grid and the equation of a scene, and find the values that it leaves out.

    - `time.dt` is 0.9 of the stable step (half of it for diffusion). The speed of waves is the largest of start, upper bound and truth.
    - `equation.layer_speed` is the largest speed of the start, or of the known field.
    - `equation.layer_frequency` is the dominant frequency of the slowest wavelet.

    Raises:
        SceneError: something else is needed to know one of them, the grid or the equation cannot be, or has other axes on a sphere.
    """
    missing = _missing(scene)
    guessed = _with(scene, dict.fromkeys(missing, 1.0))  # the grid and the fields do not depend on them
    grid, inner = grids_of(guessed)

    def trial(of: Description) -> Resolved:
        with prefix_error("equation"):
            equation = of.equation.build(grid, of.time.dt or 1.0)
        _require_degrees(equation, grid)
        return Resolved(of, grid, inner, equation)

    solved = trial(guessed)
    if missing:
        solved = trial(_with(scene, _layer(solved, missing)))
    return solved if scene.time.dt is not None else trial(_with_step(solved))


def _require_degrees(equation: Equation, grid: Grid) -> None:
    """Raise unless a grid on the sphere says so by the names of its axes, from which faults and files take the unit of coordinates."""
    metric = getattr(equation, "metric", None)
    if not (isinstance(metric, Metric) and metric.sphere):
        return
    if not all(name.lower() in names for name, names in zip(grid.axes, (LATITUDES, LONGITUDES), strict=True)):
        raise SceneError(
            f'grid.axes: expected names of a latitude and a longitude, since equation.coordinates = "sphere" has these in degrees, found '
            f'{", ".join(grid.axes)}; write axes = ["latitude", "longitude"]'
        )


def _missing(scene: Description) -> list[str]:
    """Options of the layer that the scene leaves out."""
    model = scene.equation
    left_out = [name for name in (SPEED, FREQUENCY) if name in type(model).model_fields and getattr(model, name) is None]
    return left_out if model.of_class.speed and any(counts_of(getattr(model, "layer", None))) else []


def _layer(trial: Resolved, missing: Sequence[str]) -> dict[str, float]:
    """These options of the layer, by the fields and the wavelets."""
    keys: dict[str, float] = {}
    if SPEED in missing:
        keys[SPEED] = float(np.max(_start(trial, trial.scene.equation.of_class.speed)))
    if FREQUENCY in missing:
        keys[FREQUENCY] = _frequency(trial.scene)
    return keys


def _with(scene: Description, options: Mapping[str, float]) -> Description:
    """The scene with further options of its equation."""
    return scene.model_copy(update={"equation": scene.equation.model_copy(update=dict(options))})


def _start(trial: Resolved, name: str) -> Array:
    """The start of an unknown, or the known field, over the scene's own grid."""
    return _built(trial, name, *_start_of(trial.scene, name))


def _start_of(scene: Description, name: str) -> tuple[str, FieldModel]:
    """The start of an unknown, or the known field, with its key."""
    unknown = scene.unknowns.get(name)
    key, model = f"fields.{name}", scene.fields.get(name)
    if unknown is not None and unknown.start is not None:
        key, model = f"unknowns.{name}.start", unknown.start
    if model is None:
        raise SceneError(f"fields.{name}: expected a field, from which the time step and the layer follow, found none; add [fields.{name}]")
    return key, model


def _built(trial: Resolved, name: str, key: str, model: FieldModel) -> Array:
    unit, crs = trial.equation.parameters[name].unit, trial.scene.grid.crs
    sense = trial.equation.positive.get(name, "")
    return build_field(model, Place(trial.grid, trial.grid, key, unit=unit, inner=trial.inner, crs=crs, sense=sense))


def _frequency(scene: Description) -> float:
    frequencies = [dominant(source.wavelet, f"sources.{name}.wavelet") for name, source in scene.sources.items()]
    if not frequencies:
        raise SceneError(
            "equation.layer_frequency: expected the dominant frequency of the waves in Hz, since there are no sources to take it from, "
            "found none; give it"
        )
    return min(frequencies)


def dominant(wavelet: Wavelet, key: str) -> float:
    """The dominant frequency of a wavelet, Hz: at the peak of its spectrum; of a pulse, where that peak is 0, one deviation from it."""
    if isinstance(wavelet, (Ricker, Packet)):
        return wavelet.frequency
    if isinstance(wavelet, Pulse):
        return 1 / (2 * math.pi * wavelet.width)
    times, values = sampled(wavelet, key)
    length = 8 * len(values)
    spectrum = np.abs(np.fft.rfft(values, length))
    peak = int(np.argmax(spectrum[1:])) + 1
    return peak / (length * float(np.mean(np.diff(times))))


def _with_step(trial: Resolved) -> Description:
    """The scene with a stable time step."""
    key, scene, equation = "time.dt", trial.scene, trial.equation
    inputs, starts, keys = {}, {}, {}
    for name in equation.parameters:
        if not everywhere(equation, name):
            raise SceneError(f"{key}: expected a time step, since {name} has no value in each cell, found none; give it")
        keys[name], model = _start_of(scene, name)
        starts[name] = values = _built(trial, name, keys[name], model)
        unknown = scene.unknowns.get(name)
        if name == equation.speed:
            if unknown is not None:
                if unknown.upper is None:
                    raise SceneError(
                        f"unknowns.{name}.upper: expected a bound, which the time step has to be stable for, found none; add it, or give "
                        f"{key}"
                    )
                values = np.maximum(values, unknown.upper)
            if scene.truth is not None and name in scene.truth.fields:
                values = np.maximum(values, _built(trial, name, f"truth.fields.{name}", scene.truth.fields[name]))
        inputs[name] = values
    with prefix_error(" and ".join(keys[name] for name in inputs), ParameterError):
        stable_step(equation, starts)
        limit = stable_step(equation, inputs)
    if limit is None:
        raise SceneError(f"{key}: expected a time step, since {scene.equation.title} names no stable one, found none; give it")
    dt = SAFE.get(equation.stable_dt_power, OTHERWISE) * limit
    dt = float(f"{dt:.3g}") if float(f"{dt:.3g}") < limit else dt
    tables = scene.time.model_dump(exclude_none=True)
    with prefix_error("time"):
        return scene.model_copy(update={"time": type(scene.time)(**tables | {"dt": dt})})


def stable_step(equation: Equation, parameters: Mapping[str, Array]) -> float | None:
    """The largest stable time step: that which the equation names when it refuses a longer one; None: it names none."""
    trial = copy.copy(equation)
    trial.dt = LONG
    try:
        trial.check(parameters)
    except StabilityError as error:
        return error.limit
    return None
