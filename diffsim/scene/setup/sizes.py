"""Estimate the least memory of a scene's arrays before any is allocated, and compare it with the available memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from diffsim.base.system import available_memory
from diffsim.checkpoint.planning.memory import memory_text
from diffsim.errors import SceneError
from diffsim.mesh.grid import AXES
from diffsim.scene.schema.parts import PointSet
from diffsim.scene.schema.schema import Description, Truth
from diffsim.scene.words.model import MOST
from diffsim.scene.words.rules import TIME, named

NUMBER = 8
"""Bytes of a number in f64. Everything except the simulation itself uses f64."""
SHOT = 1024
"""Bytes of the description of a shot."""


@dataclass(frozen=True)
class Share:
    """A part of the memory that a scene needs.

    Attributes:
        key: key of the scene that it grows with.
        size: least number of bytes.
        remedy: advice if it is too large.
    """

    key: str
    size: int
    remedy: str


def require_memory(scene: Description, precision: str) -> None:
    """Refuse a scene that does not fit into the memory of this machine.

    Args:
        scene: the scene.
        precision: "f32" or "f64".
    """
    parts, free = shares(scene, precision), available_memory()
    needed = sum(share.size for share in parts)
    if needed > free:
        most = next((share for share in parts if share.size > free), max(parts, key=lambda share: share.size))
        raise SceneError(
            f"{most.key}: expected a scene that fits into the {memory_text(free)} of available memory, found one that takes at least "
            f"{memory_text(needed)}; {most.remedy}"
        )


def shares(scene: Description, precision: str) -> list[Share]:
    """The least memory in use while the data are made: the scene's own arrays, and those of the finer grid."""
    item = NUMBER if precision == "f64" else NUMBER // 2
    ndim, steps, cells = len(scene.grid.shape), scene.time.count, math.prod(scene.grid.shape)
    shots, sources, receivers = shots_of(scene), points_of(scene.sources), points_of(scene.receivers)
    receivers |= {f"{name} of the monitors": 3 * max(scene.grid.shape) for name in scene.monitors}
    at_once = sum(n if scene.sources[name].fire == "together" else 1 for name, n in sources.items())
    length = "time.duration" if scene.time.steps is None else "time.steps"
    alone = given_times(scene)
    own = dict.fromkeys(scene.fields, 1) | dict.fromkeys(scene.unknowns, 3)  # start, truth and gradient of an unknown
    parts = [Share("grid.shape", NUMBER * cells * sum(n for name, n in own.items() if name not in alone), "make the grid smaller")]
    for kind, counts in (("sources", sources), ("receivers", receivers)):
        parts += [Share(f"{kind}.{name}", 2 * NUMBER * ndim * count, "give fewer points") for name, count in counts.items()]
    parts.append(Share("sources", SHOT * shots, "give fewer points that fire in turn"))
    driven = sum(times * own.get(name, 0) for name, times in alone.items())
    series = steps * (NUMBER * (1 + driven + shots * at_once) + NUMBER * shots * sum(receivers.values()))
    parts.append(Share(length, series, "run fewer steps, or record at fewer points"))
    if scene.truth is None:
        return parts
    finer, fine_cells = fine_steps(scene, scene.truth), math.prod(round(n * scene.truth.refine) for n in scene.grid.shape)
    fine = len((scene.fields.keys() | scene.truth.fields.keys()) - alone.keys()) + shots  # each shot's last state
    series = finer * (NUMBER * (1 + sum(alone.values()) + shots * at_once) + item * shots * sum(receivers.values()))
    parts.append(Share(length, series, "run fewer steps, or record at fewer points"))
    parts.append(Share("truth.refine", item * fine_cells * fine, "lower it, or make the grid smaller"))
    return parts


def given_times(scene: Description) -> dict[str, int]:
    """Input named by a boundary rule, or forcing -> numbers for each time step; 0 if it holds for all steps."""
    rules = [each for option, model in scene.equation.boundaries().items() for each in named(option, model)]
    shape = dict(zip(scene.grid.axes or AXES[-len(scene.grid.shape) :], scene.grid.shape, strict=True))
    sides = {str(rule.name): (TIME in rule.along) * math.prod(shape.get(axis, 1) for axis in rule.along) for _, _, rule in rules}
    sought = scene.sources.keys() & (scene.unknowns.keys() | (scene.truth.fields.keys() if scene.truth else set()))
    return sides | {name: int(name not in scene.unknowns or scene.unknowns[name].of != "amplitudes") for name in sought}


def fine_steps(scene: Description, truth: Truth) -> int:
    """Number of time steps of the data.

    Args:
        scene: the scene.
        truth: its truth.

    Raises:
        SceneError: there are too many.
    """
    steps = scene.time.count / truth.refine**-scene.equation.of_class.stable_dt_power
    if steps > MOST:
        raise SceneError(f"truth.refine: expected at most {MOST:g} time steps of the data, found {steps:g}; lower it")
    return math.ceil(steps - 1e-9)


def shots_of(scene: Description) -> int:
    """Number of runs for one value of the loss: windows, or points that fire in turn."""
    if scene.time.windows > 1:
        return scene.time.windows
    return next((points_of({name: model})[name] for name, model in scene.sources.items() if model.fire == "in turn"), 1)


def points_of(models: Mapping[str, PointSet]) -> dict[str, int]:
    """Number of points in each set."""
    return {name: len(model.points) + sum(line.count for line in model.lines) for name, model in models.items()}
