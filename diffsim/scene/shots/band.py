"""Misfits of traces in a band of frequencies: data and predictions go through the same filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import diffsim.numpy as dnp
from diffsim.errors import ParameterError
from diffsim.losses import Misfit
from diffsim.records import ZeroPhaseFilter
from diffsim.records.conventions.records import distances, even_spacing
from diffsim.scene.schema.schema import Description
from diffsim.scene.schema.search_keys import Stage
from diffsim.scene.setup.setup import Setup, Where
from diffsim.scene.shots.truth import Observed, Sampling
from diffsim.typing import Array


def filters_of(scene: Description, stage: Stage, setup: Setup) -> dict[str, ZeroPhaseFilter]:
    """The filter of each state whose traces are compared; empty: the stage takes all frequencies.

    Raises:
        ParameterError: a corner that the samples do not resolve, or records whose times are not evenly spaced.
    """
    if stage.lowpass is None and stage.highpass is None:
        return {}
    states = sorted({misfit.state for misfit in scene.misfit if misfit.of == "traces"})
    if not states:
        raise ParameterError('lowpass: expected a misfit of traces, which a filter needs, got none; use of = "traces"')
    filters = {}
    for state in states:
        end = setup.equation.dt * setup.steps
        times = setup.data[state].until(end).times if state in setup.data else setup.times()
        if len(times) > 1:
            filters[state] = ZeroPhaseFilter(_spacing(state, times), len(times), stage.lowpass, stage.highpass)
    return filters


def _spacing(state: str, times: Array) -> float:
    step = even_spacing(times)
    if step is None:
        raise ParameterError(
            f"lowpass: expected records of {state} at evenly spaced times, which a filter needs, got samples {distances(times)}; resample "
            "the records, or leave lowpass and highpass out"
        )
    return step


@dataclass(frozen=True)
class InBand:
    """A misfit of the filtered traces of one shot.

    Attributes:
        misfit: of values at the times of the data, against filtered data.
        keep: the filter.
        sampling: brings the traces of a run to the times of the data; None: they have these times.
        there: True where there are data; None: everywhere. Gaps count as zero in data and predictions alike.
    """

    misfit: Misfit
    keep: ZeroPhaseFilter
    sampling: Sampling | None
    there: Array | None

    def __call__(self, traces: Any) -> Any:
        values = traces if self.sampling is None else self.sampling(traces)
        return self.misfit(self.keep(values if self.there is None else dnp.where(self.there, values, 0.0)))


class Band:
    """The data of a stage, filtered, and the misfits against them.

    Args:
        filters: state -> filter of its traces.
        observed: the data.

    Attributes:
        observed: the filtered data. They stand at their own times, to which predictions are brought before the filter.
    """

    def __init__(self, filters: Mapping[str, ZeroPhaseFilter], observed: Observed) -> None:
        self._filters, self._full = filters, observed
        traces = {state: self._filtered(state, values) for state, values in observed.traces.items()}
        sampling = {state: _as_it_is if state in filters else resampling for state, resampling in observed.sampling.items()}
        self.observed = replace(observed, traces=traces, sampling=sampling)

    def misfits(self, where: Where, misfits: Sequence[Misfit]) -> list[Misfit]:
        """The misfit of each shot, of the traces of a run. Those given take filtered values."""
        kind, state = where
        if kind != "traces" or state not in self._filters:
            return list(misfits)
        masks = np.isfinite(self._full.traces[state])
        keep, sampling = self._filters[state], self._full.sampling.get(state)
        return [InBand(each, keep, sampling, None if there.all() else there) for each, there in zip(misfits, masks, strict=True)]

    def _filtered(self, state: str, values: Array) -> Array:
        if state not in self._filters:
            return values
        there, keep = np.isfinite(values), self._filters[state]
        return np.stack([np.where(mask, keep(np.where(mask, shot, 0.0)), np.nan) for shot, mask in zip(values, there, strict=True)])


def _as_it_is(values: Any) -> Any:
    return values
