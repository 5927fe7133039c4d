"""Symptoms of a run that is no longer finite, and the cause that they suggest."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from diffsim.typing import Array

SAMPLES = 10
"""Records of fewer steps are too short to judge the growth of a run."""
STEADY = 0.9
"""Correlation of the logarithm with the step beyond which growth counts as exponential."""
LARGE = 1e6
"""Growth over the records from which on a message mentions it."""
NO_VALUE = (
    "Nothing recorded grew from step to step, so an operation may have had no value: a root or logarithm of a negative number, a division "
    "by 0, as in a dry cell. Run fewer steps to see where it begins"
)


def counted(values: Array) -> str:
    """How many values are not finite, and how large the others are."""
    nan, infinite = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    finite = np.abs(values[np.isfinite(values)])
    others = f"; the largest other is {finite.max():.3g}" if finite.size else ""
    return f"{nan} NaN and {infinite} infinite of {values.size}{others}"


def cause_of_run(traces: Mapping[str, Array]) -> str:
    """The probable cause of a run that is not finite, from its records. A smaller dt is advised only if they grew exponentially."""
    for name, records in traces.items():
        rate = _rate(records)
        if rate is not None:
            return f"The records of {name} grew by a factor {np.exp(rate):.3g} a step, as where a scheme is unstable: lower dt"
    return NO_VALUE


CAUSE_OF_GRADIENT = (
    "The run itself is finite, so an operation has no finite derivative where it is taken: a root at 0, a division by all but 0; or "
    "the run is so chaotic that its adjoint overflows. Move the inputs away from there, or take fewer steps"
)


def _rate(records: Array) -> float | None:
    """Growth of the logarithm of the records a step, if it was steady and large until they were not finite."""
    with np.errstate(invalid="ignore"):
        sizes = np.abs(records.astype(float)).max(axis=tuple(range(1, records.ndim)), initial=0.0)
    bad = np.flatnonzero(~np.isfinite(sizes))
    end = int(bad[0]) if bad.size else len(sizes)
    steps = np.flatnonzero(sizes[:end] > 0)
    steps = steps[len(steps) // 2 :]  # by then the fastest growing mode dominates
    if len(steps) < SAMPLES:
        return None
    logs = np.log(sizes[steps])
    if logs[-1] - logs[0] < np.log(LARGE) or np.corrcoef(steps, logs)[0, 1] < STEADY:
        return None
    return float(np.polyfit(steps, logs, 1)[0])
