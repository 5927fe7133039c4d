"""The misfit of each shot of a scene, of the traces of a run or of its last field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import diffsim.numpy as dnp
from diffsim.base.arguments import require_takes
from diffsim.errors import ParameterError, TraceError
from diffsim.losses import Misfit, TraceMisfit
from diffsim.records.conventions.records import distances, even_spacing
from diffsim.scene.schema.misfit_keys import MisfitModel
from diffsim.scene.setup.setup import Setup
from diffsim.scene.shots.mutes import kept
from diffsim.scene.shots.truth import Observed
from diffsim.scene.words.number import one_number
from diffsim.typing import Array


@dataclass(frozen=True)
class ShotMisfit:
    """The misfit of one shot, with its weight in the scene.

    Attributes:
        misfit: of the samples at the times of the data; None: no sample counts.
        sampling: brings the traces of the run to those times; None: they have them.
        kept: factor of each sample by windows and mutes; None: all are 1.
        factor: of the value.
    """

    misfit: Misfit | None
    sampling: Callable[[Any], Any] | None = None
    kept: Array | None = None
    factor: float = 1.0

    def __call__(self, predicted: Any) -> Any:
        if self.misfit is None:
            return 0.0 * dnp.sum(predicted)
        values = predicted if self.sampling is None else self.sampling(predicted)
        return self.factor * one_number(self.misfit(values if self.kept is None else self.kept * values))


def misfits_of(model: MisfitModel, observed: Observed, setup: Setup) -> list[Misfit]:
    """The misfit of each shot.

    Args:
        model: its keys.
        observed: the data, of all shots.
        setup: the scene on its own grid.

    Raises:
        ParameterError: the data do not suit the misfit.
    """
    if model.of == "final" and issubclass(model.of_class, TraceMisfit):
        raise ParameterError(f'of: expected "traces", whose shapes {model.type} compares, got "final"; use another type')
    measured, recorded = observed.of(model.of, model.state), observed.recorded(model.of, model.state)
    times = None if model.of == "final" else setup.times() if recorded is None else recorded.times
    windows = None if times is None else kept(model, setup, times)
    sampling = None if recorded is None else observed.sampling.get(model.state)
    weights = np.broadcast_to(observed.weight(model.of, model.state), measured.shape)
    if model.normalise == "receivers":
        shares = None if recorded is None else recorded.weight
        weights = _alike(measured, weights, windows, shares)
    spacing = None if times is None else _spacing(model, times)
    parts: list[tuple[Misfit | None, Array | None]] = []
    for number, data in enumerate(measured):
        window = None if windows is None else windows[number]
        used = np.isfinite(data) if window is None else np.isfinite(data) & (window > 0)
        parts.append((_misfit(model, number, data, weights[number], used, window, spacing) if used.any() else None, window))
    factor = model.weight
    if model.normalise:
        factor /= _of_zero([misfit for misfit, _ in parts], measured.shape[1:])
    return [ShotMisfit(misfit, sampling, window, factor) for misfit, window in parts]


@contextmanager
def _of_shot(number: int) -> Iterator[None]:
    """Name the shot whose data do not suit a misfit."""
    try:
        yield
    except (ParameterError, TraceError) as error:
        raise type(error)(f"shot {number}: {error}") from None


def _misfit(
    model: MisfitModel, number: int, data: Array, weight: Array, used: Array, window: Array | None, spacing: float | None
) -> Misfit:
    """The misfit of the samples of one shot."""
    arguments: dict[str, Any] = {"data": np.where(used, data if window is None else window * data, np.nan)}
    if (weight != 1.0).any():
        arguments["weight"] = weight
    if not used.all():
        arguments["mask"] = used
    for name, what in (("weight", "a weight or a deviation for each sample"), ("mask", "gaps")):
        if name in arguments and not model.takes(name) and not (name == "mask" and np.isfinite(data).all()):
            raise ParameterError(f"expected an argument {name} of {model.of_class.__name__}, since the data have {what}, got none; add it")
    if not model.takes("mask"):
        arguments["data"] = np.where(used, arguments["data"], 0.0)  # only muted samples
    if spacing is not None:
        arguments["dt"] = spacing
    with _of_shot(number):
        built: Misfit = model.instance(**arguments)
        require_takes(f"{model.of_class.__name__}.__call__", built, "predicted")
    return built


def _alike(measured: Array, weights: Array, windows: list[Array] | None, shares: Array | None) -> Array:
    """Weights with which the sum of squares of the record of each receiver, over all shots, is its mean weight: 1 without weights.

    Args:
        measured: the data, shape (shots, samples, receivers), NaN in gaps.
        weights: of the samples, same shape.
        windows: factor of each sample, for each shot; None: all are 1.
        shares: the weights of the samples in their files, without deviations, same shape; None: all are 1.
    """
    factors = 1.0 if windows is None else np.stack(windows)
    counts = np.isfinite(measured) & (weights > 0) & (np.broadcast_to(factors, measured.shape) > 0)
    energy = np.sum(np.where(counts, weights * (factors * np.nan_to_num(measured)) ** 2, 0.0), axis=(0, 1))
    silent = np.flatnonzero(counts.any(axis=(0, 1)) & (energy == 0))
    if len(silent):
        raise ParameterError(
            f'normalise: expected records that are not all zero with "receivers", found that of receiver {silent[0]}; drop it, or set '
            "normalise = true"
        )
    alike = weights / np.where(energy > 0, energy, 1.0)
    if shares is None:
        return alike
    return alike * np.where(counts, shares, 0.0).sum(axis=(0, 1)) / np.maximum(counts.sum(axis=(0, 1)), 1)


def _of_zero(misfits: list[Misfit | None], shape: tuple[int, ...]) -> float:
    """The misfit of a prediction of zero, over all shots."""
    nothing = np.zeros(shape)
    total = sum(float(one_number(misfit(nothing))) for misfit in misfits if misfit is not None)
    if not 0 < total < np.inf:
        raise ParameterError(
            "expected data that are not all zero, found none; run longer, or set normalise = false"
            if total == 0
            else f"normalise: expected a misfit of a prediction of zero that is above 0, got {total:g}; set normalise = false"
        )
    return total


def _spacing(model: MisfitModel, times: Array) -> float | None:
    """Time between samples, s; None: it is not known, and not needed."""
    step = even_spacing(times)
    if step is None and len(times) > 1 and (getattr(model.of_class, "regular", False) or model.takes("dt")):
        raise ParameterError(
            f"type: expected records of {model.state} at evenly spaced times, which {model.type} needs, got samples {distances(times)}; "
            "resample the records, or use l2, huber or cross_correlation"
        )
    return step
