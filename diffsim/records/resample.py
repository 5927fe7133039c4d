"""Simulated traces at the times of records: linear interpolation in time, which can be differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import diffsim.numpy as dnp
from diffsim.arguments import positive, real_array, whole
from diffsim.errors import ParameterError, ShapeError
from diffsim.quantities import Meaning
from diffsim.records.records import require_rising

SNAP = 1e-9
"""A time closer than this to a sample, in time steps, takes only that sample. Later than the end by less is at the end."""


class Resampling:
    """The traces of a run at other times: y(t) = (1 - a) x_k + a x_{k + 1}, where t lies a of a time step after sample k.

    It is linear in the traces, and a program of `diffsim.numpy`: its derivative is exact, and its transpose adds each sample of y to the
    two of x that it came from. At times of the run it returns its samples as they are.

    Args:
        dt: time step of the run, s.
        steps: number of steps; a trace has `steps` + 1 samples, from time 0.
        times: where to take the traces, s, rising, from 0 to the end of the run.

    Raises:
        ParameterError: a time outside of the run.
        DataError: times that do not rise.

    Example:
        import numpy as np

        import diffsim as ds

        at = ds.records.Resampling(dt=0.5, steps=2, times=[0.25, 1.0])
        traces = np.array([[0.0], [2.0], [3.0]])  # (steps + 1, receivers)
        assert at(traces).tolist() == [[1.0], [3.0]]
        _, pullback = ds.vjp(at, traces)
        assert pullback(np.array([[1.0], [0.0]]))[0].ravel().tolist() == [0.5, 0.5, 0.0]  # the transpose
    """

    def __init__(self, dt: float, steps: int, times: npt.ArrayLike) -> None:
        self.dt, self.steps = positive("dt", dt, unit="s"), whole("steps", steps, 1)
        self.times = np.array(real_array("times", times, np.float64, Meaning("s")))
        require_rising(self.times, "times")
        places = self.times / self.dt
        outside = np.flatnonzero((places < -SNAP) | (places > self.steps + SNAP))
        if len(outside):
            found = self.times[outside[0]]
            raise ParameterError(
                f"times: expected 0 to {self.steps * self.dt:g} s, got {found:g} s; leave out what lies outside of the run"
            )
        lower = np.clip(np.floor(places + SNAP).astype(np.int64), 0, self.steps)
        part = places - lower
        part[np.abs(part) <= SNAP] = 0.0
        self._lower, self._upper, self._part = lower, np.minimum(lower + 1, self.steps), part[:, None]

    def __call__(self, traces: Any) -> Any:
        """The traces at the times.

        Args:
            traces: shape (steps + 1, receivers).

        Returns:
            Shape (times, receivers), in f64 for traces in f32 too.

        Raises:
            ShapeError: the traces have another shape.
        """
        if len(traces.shape) != 2 or traces.shape[0] != self.steps + 1:
            raise ShapeError(f"traces: expected the shape ({self.steps + 1}, receivers), got {traces.shape}; give those of the whole run")
        lower, upper = dnp.take(traces, self._lower, axis=0), dnp.take(traces, self._upper, axis=0)
        return (1 - self._part) * lower + self._part * upper
