"""Stages of a search: each starts from the answer of the one before, in a band of frequencies and with a smoothing of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import shown
from diffsim.errors import ParameterError, SceneError
from diffsim.optimize import Parametrisation, Regions, Stacked, Unknown
from diffsim.photonics import Density
from diffsim.scene.schema.schema import Description
from diffsim.scene.schema.search_keys import Stage
from diffsim.scene.setup.setup import Setup
from diffsim.scene.shots.band import filters_of
from diffsim.scene.words.explain import prefix_error
from diffsim.scene.words.suggest import require_known
from diffsim.typing import Array

EDGE = 1e-6
"""A stage with "logit" starts at least this part of the range away from a bound, where the transform is infinite."""


def check_stages(scene: Description, setup: Setup, unknowns: Stacked, start: Mapping[str, Array]) -> None:
    """Refuse stages that could not run."""
    for name, model in scene.unknowns.items():
        if (model.precondition or model.depth) and not setup.everywhere(name):
            key = "precondition" if model.precondition else "depth"
            raise SceneError(
                f"unknowns.{name}.{key}: expected an unknown over the cells of the grid, found one of a side or of windows; leave it out"
            )
    shots, batch = len(setup.shots), scene.optimise.batch
    if batch is not None and all(stage.method != "adam" for stage in scene.stages()):
        raise SceneError('optimise.batch: expected method = "adam", which takes batches, found none; leave batch out')
    if batch is not None and batch > shots:
        raise SceneError(f"optimise.batch: expected at most {shots}, the shots of the scene, found {batch}; lower it")
    for name in scene.uncertainty.prior if scene.uncertainty is not None else ():
        require_known(f"uncertainty.prior.{name}", name, scene.unknowns)
    for number, stage in enumerate(scene.stage):
        key = f"stage[{number}]"
        for name in stage.smooth:
            require_known(f"{key}.smooth.{name}", name, scene.unknowns)
            if not isinstance(unknowns.parts[name], Parametrisation):
                raise SceneError(f"{key}.smooth.{name}: expected an unknown with a value a cell, found regions; leave it out")
        for name in stage.jumps:
            if name not in scene.unknowns or scene.unknowns[name].jumps is None:
                known = ", ".join(name for name, model in scene.unknowns.items() if model.jumps is not None) or "none"
                raise SceneError(
                    f"{key}.jumps.{name}: expected an unknown with jumps ({known}), found {shown(name)}; give unknowns.{name}.jumps"
                )
        for name in stage.steepness:
            require_known(f"{key}.steepness.{name}", name, scene.unknowns)
            if not isinstance(unknowns.parts[name], Density):
                raise SceneError(f'{key}.steepness.{name}: expected an unknown with type = "density", found another; leave it out')
        with prefix_error(key):
            filters_of(scene, stage, setup)
            restarted(unknowns, start, stage)


def restarted(unknowns: Stacked, fields: Mapping[str, Array], stage: Stage, weights: Mapping[str, Array] | None = None) -> Stacked:
    """The unknowns with these fields as the start of the search, the smoothing of a stage, and weights of their variables."""
    parts = {
        name: part.at(part.theta, stage.steepness.get(name))
        if isinstance(part, Density)
        else _restarted(part, fields[name], stage.smooth.get(name))
        for name, part in unknowns.parts.items()
    }
    return Stacked({name: _weighted(part, (weights or {}).get(name)) for name, part in parts.items()})


def start_of(unknowns: Stacked, fields: Mapping[str, Array]) -> dict[str, Array]:
    """The actual start of a stage: these fields, moved off the bounds where a transform is infinite there."""
    return {
        name: part.to_field(part.theta if isinstance(part, Density) else part.from_field(_inside(part, fields[name])))
        for name, part in unknowns.parts.items()
    }


def continued(first: Stacked, last: Stacked, theta: Array) -> Stacked:
    """The unknowns of the first stage, with the densities that a stage found.

    Args:
        first: the unknowns as the scene has them.
        last: those of the stage.
        theta: the answer of the stage.
    """
    return Stacked({name: part.at(theta[last.slices[name]]) if isinstance(part, Density) else part for name, part in first.parts.items()})


def built(unknowns: Stacked, theta: Array) -> Stacked:
    """The unknowns with binary densities, where the scene asks for them."""
    return Stacked(
        {
            name: part.built(theta[unknowns.slices[name]]) if isinstance(part, Density) and part.binary else part
            for name, part in unknowns.parts.items()
        }
    )


def _restarted(part: Unknown, field: Array, smooth: tuple[float, ...] | None) -> Unknown:
    if isinstance(part, Regions):
        return replace(part, reference=region_values(part, _inside(part, field)))
    if not isinstance(part, Parametrisation):
        return part
    if smooth is not None and max(smooth) > max(part.shape):
        raise ParameterError(
            f"smooth: expected at most {max(part.shape)}, the values along the longest axis, got {max(smooth):g}; lower it"
        )
    deviation = part.smooth if smooth is None else smooth[0] if len(smooth) == 1 else smooth
    return replace(part, reference=_inside(part, field), smooth=deviation)


def _weighted(part: Unknown, weight: Array | None) -> Unknown:
    """The unknown with its scale times a weight in each cell, or times the mean over each region."""
    if weight is None:
        return part
    if isinstance(part, Regions):
        labels = np.asarray(part.labels)
        return replace(part, scale=np.asarray(part.scale) * np.array([np.mean(weight[labels == k]) for k in range(part.size)]))
    assert isinstance(part, Parametrisation)
    return replace(part, scale=np.asarray(part.scale) * weight)


def _inside(part: Unknown, field: Array) -> npt.NDArray[np.float64]:
    """A field in f64 whose free values lie within the bounds."""
    values = np.array(field, np.float64)
    if not isinstance(part, Parametrisation | Regions):
        return values
    free = np.asarray(part.labels) >= 0 if isinstance(part, Regions) else np.ones(part.shape, bool) if part.mask is None else part.mask
    lower, upper = (np.broadcast_to(fill if bound is None else bound, ()) for bound, fill in ((part.lower, -np.inf), (part.upper, np.inf)))
    margin = EDGE * (upper - lower) if part.transform == "logit" else 0.0
    values[free] = np.clip(values[free], lower + margin, upper - margin)
    return values


def region_values(part: Regions, field: Array) -> Array:
    """The value of each region in a field that is constant in each, in the order of their labels."""
    labels = np.asarray(part.labels)
    return np.array([field[labels == k][0] for k in range(part.size)])
