"""Symptoms of a run that is no longer finite, and the cause that they suggest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.typing import Array

SAMPLES = 10
"""Traces of fewer steps are too short to judge the growth of a run."""
STEADY = 0.9
"""Correlation of the logarithm with the step beyond which growth counts as exponential."""
LARGE = 1e6
"""Growth over the traces from which on a message mentions it."""
NO_VALUE = "an operation had no value: a root, a logarithm or a power of a negative number, a division by 0, as in a dry cell"
UNKNOWN = f"The time step may be too large for the scheme, so that values grow from step to step: lower dt. Or {NO_VALUE}"
"""Without traces that could tell."""
STEADY_TRACES = (
    f"The traces did not grow from step to step, so it may be that {NO_VALUE}. A time step that is too large can be the cause too, away "
    "from the receivers, or where a value overshoots: try a lower dt"
)
FEWER = ". Run fewer steps to see where it begins"
"""The remedy where that is not known."""


def counted(values: Array) -> str:
    """The number of values that are not finite, and the largest of the others."""
    nan, infinite = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    finite = np.abs(values[np.isfinite(values)])
    others = f"; the largest other is {finite.max():.3g}" if finite.size else ""
    return f"{nan} NaN and {infinite} infinite of {values.size}{others}"


def cause_of_run(traces: Mapping[str, Array]) -> str:
    """The probable cause of a run that is not finite, from its traces. If they grew exponentially, it is the time step."""
    flat = bool(traces)
    for name, values in traces.items():
        steps, logs = _later(values)
        enough, large = len(steps) >= SAMPLES, len(steps) > 1 and logs[-1] - logs[0] >= np.log(LARGE)
        if enough and large and np.corrcoef(steps, logs)[0, 1] >= STEADY:
            factor = np.exp(np.polyfit(steps, logs, 1)[0])
            return f"The traces of {name} grew by a factor {factor:.3g} a step, as where a scheme is unstable: lower dt"
        flat = flat and enough and not large
    return STEADY_TRACES if flat else UNKNOWN


CAUSE_OF_GRADIENT = (
    "The run ends with finite values, so an operation has no finite derivative where it is taken: a root at 0, a division by all but 0; "
    "or where() dropped values that were not finite; or the run is so chaotic that its adjoint overflows. Move the inputs away from there"
)


def cause_of_gradient(dtype: np.dtype) -> str:
    """The probable cause of a gradient that is not finite, and what helps in this precision."""
    ways = ", or take fewer steps" if dtype == np.float64 else ", take fewer steps, or compute in f64, whose range is wider"
    return CAUSE_OF_GRADIENT + ways


def _later(traces: Array) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The later half of the steps before the traces were not finite, and the logarithm of their size there."""
    with np.errstate(invalid="ignore"):
        sizes = np.abs(traces.astype(float)).max(axis=tuple(range(1, traces.ndim)), initial=0.0)
    bad = np.flatnonzero(~np.isfinite(sizes))
    end = int(bad[0]) if bad.size else len(sizes)
    steps = np.flatnonzero(sizes[:end] > 0)
    steps = steps[len(steps) // 2 :]  # by then the fastest growing mode dominates
    return steps, np.log(sizes[steps])
