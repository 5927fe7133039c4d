"""Windows and mutes: which samples of the traces of a shot count, by time and by distance from the source."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from diffsim.errors import ParameterError
from diffsim.scene.schema.misfit_keys import MisfitModel, Moveout
from diffsim.scene.schema.schema import Description
from diffsim.scene.setup.setup import Setup
from diffsim.scene.shots.truth import Observed, Where
from diffsim.typing import Array

ROUND_OFF = 1e-9
"""A sample closer than this to an edge, in seconds for each second of the edge, lies on it."""


def kept(model: MisfitModel, setup: Setup, times: Array) -> list[Array] | None:
    """For each shot the factor of each sample, from 0 to 1, shape (times, receivers); None: all are 1.

    Args:
        model: the misfit.
        setup: its shots and receivers.
        times: of the samples, s.

    Raises:
        ParameterError: an offset from sources that there are not.
    """
    if not model.timed and model.offset is None:
        return None
    receivers = setup.receivers[model.state]
    by_offset = model.offset is not None or model.mute_before is not None or model.mute_after is not None
    return [
        _factors(model, times, offsets(setup, receivers, shot.sources) if by_offset else np.zeros(len(receivers))) for shot in setup.shots
    ]


def shares(scene: Description, where: Where, observed: Observed, setup: Setup) -> Array | None:
    """How much each sample of a state counts: the weight of its record times the square of its factor, the largest of all misfits.

    Args:
        scene: the scene.
        where: "traces" or "final", and the state.
        observed: its data.
        setup: its shots and receivers.

    Returns:
        An array in the shape of the data; None: all samples count alike.
    """
    recorded = observed.recorded(*where)
    times = setup.times() if recorded is None else recorded.times
    models = [model for model in scene.misfit if (model.of, model.state) == where and model.weight > 0]
    factors = [kept(model, setup, times) for model in models]
    weight = None if recorded is None else recorded.weight
    if weight is None and any(each is None for each in factors):
        return None
    largest = np.max([np.ones(observed.of(*where).shape) if each is None else np.square(each) for each in factors], axis=0, initial=0.0)
    return largest if weight is None else largest * weight


def offsets(setup: Setup, receivers: Array, sources: Mapping[str, Array]) -> Array:
    """Distance of each receiver from the nearest source, m."""
    places = [points for points in sources.values() if len(points)]
    if not places:
        raise ParameterError("offset: expected sources, from which offsets are measured, got a scene without them; use window alone")
    metres = np.array(setup.resolved.equation.cell_lengths()) / np.array(setup.base.spacing)
    apart = (receivers[:, None] - np.concatenate(places)[None]) * metres
    return np.sqrt((apart**2).sum(axis=2)).min(axis=1)


def _factors(model: MisfitModel, times: Array, distances: Array) -> Array:
    factors = np.ones((len(times), len(distances)))
    if model.window is not None:
        first, last = model.window
        factors *= (_rising(times - first, first, model.taper) * _rising(last - times, last, model.taper))[:, None]
    if model.mute_before is not None:
        line = _line(model.mute_before, distances)
        factors *= _rising(times[:, None] - line, line, model.taper)
    if model.mute_after is not None:
        line = _line(model.mute_after, distances)
        factors *= _rising(line - times[:, None], line, model.taper)
    if model.offset is not None:
        factors *= (distances >= model.offset[0]) & (distances <= model.offset[1])
    return factors


def _line(moveout: Moveout, distances: Array) -> Array:
    return moveout.time + distances / moveout.velocity


def _rising(after: Array, edge: Array | float, taper: float) -> Array:
    """0 before an edge, 1 a taper after it, half a period of a cosine in between.

    Args:
        after: time after the edge, s.
        edge: time of the edge, s.
        taper: length of the taper, s.
    """
    if taper == 0:
        return (after >= -ROUND_OFF * np.abs(edge)).astype(float)
    return 0.5 - 0.5 * np.cos(np.pi * np.clip(after / taper, 0.0, 1.0))
