"""What a scene leaves out and its model and wavelets tell: the time step, and the speed and the frequency of the absorbing layer."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping

import numpy as np

from diffsim.errors import SceneError, StabilityError
from diffsim.scene.schema.parts import FieldModel, Packet, Pulse, Ricker, Wavelet
from diffsim.scene.schema.schema import Description
from diffsim.scene.setup.fields import build_field
from diffsim.scene.setup.place import Place
from diffsim.scene.setup.setup import grids_of
from diffsim.scene.setup.wavelets import sampled
from diffsim.scene.words.domains import everywhere
from diffsim.scene.words.equations import counts_of
from diffsim.scene.words.explain import prefix_error
from diffsim.stepping.declare.equation import Equation
from diffsim.typing import Array

SAFE = {1.0: 0.9}
"""Power of the cells that the stable time step goes with -> the part of it that is taken: of waves, which need no less."""
OTHERWISE = 0.5
LONG = 1e30
"""A time step that no explicit scheme is stable for, s."""
SPEED, FREQUENCY = "layer_speed", "layer_frequency"


def completed(scene: Description) -> Description:
    """The scene with a time step, and with the speed and the frequency of its layer.

    - `time.dt` is 0.9 of the stable step (half of it for diffusion). The speed of waves is the largest of start, upper bound and truth.
    - `equation.layer_speed` is the largest speed of the start, or of the known field.
    - `equation.layer_frequency` is the dominant frequency of the slowest wavelet.

    Raises:
        SceneError: something else is needed to know one of them.
    """
    scene = _with_layer(scene)
    return scene if scene.time.dt is not None else _with_step(scene)


def _with_layer(scene: Description) -> Description:
    model = scene.equation
    left_out = [name for name in (SPEED, FREQUENCY) if name in type(model).model_fields and getattr(model, name) is None]
    if not model.of.speed or not left_out or not any(counts_of(getattr(model, "layer", None))):
        return scene
    trial = _with(scene, dict.fromkeys(left_out, 1.0))  # for the fields, which do not depend on them
    found: dict[str, float] = {}
    if SPEED in left_out:
        found[SPEED] = float(np.max(_start(trial, _built_equation(trial), model.of.speed)))
    if FREQUENCY in left_out:
        found[FREQUENCY] = _frequency(scene)
    return _with(scene, found)


def _with(scene: Description, options: Mapping[str, float]) -> Description:
    """The scene with further options of its equation."""
    return scene.model_copy(update={"equation": scene.equation.model_copy(update=dict(options))})


def _built_equation(scene: Description) -> Equation:
    base, _ = grids_of(scene)
    with prefix_error("equation"):
        return scene.equation.build(base, scene.time.dt or 1.0)


def _start(scene: Description, equation: Equation, name: str) -> Array:
    """The start of an unknown, or the known field, over the scene's own grid."""
    unknown = scene.unknowns.get(name)
    key, model = f"fields.{name}", scene.fields.get(name)
    if unknown is not None and unknown.start is not None:
        key, model = f"unknowns.{name}.start", unknown.start
    if model is None:
        raise SceneError(f"fields.{name}: expected a field, from which the time step and the layer follow, found none; add [fields.{name}]")
    return _built(scene, equation, name, key, model)


def _built(scene: Description, equation: Equation, name: str, key: str, model: FieldModel) -> Array:
    base, inner = grids_of(scene)
    return build_field(model, Place(base, base, key, unit=equation.parameters[name].unit, inner=inner))


def _frequency(scene: Description) -> float:
    found = [dominant(source.wavelet, f"sources.{name}.wavelet") for name, source in scene.sources.items()]
    if not found:
        raise SceneError(
            "equation.layer_frequency: expected the dominant frequency of the waves in Hz, since there are no sources to take it from, "
            "found none; give it"
        )
    return min(found)


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


def _with_step(scene: Description) -> Description:
    key = "time.dt"
    equation = _built_equation(scene)
    inputs = {}
    for name in equation.parameters:
        if not everywhere(equation, name):
            raise SceneError(f"{key}: expected a time step, since {name} has no value in each cell, found none; give it")
        values = _start(scene, equation, name)
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
                values = np.maximum(values, _built(scene, equation, name, f"truth.fields.{name}", scene.truth.fields[name]))
        inputs[name] = values
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
