"""Measure the memory of this process: its largest resident size since a start."""

from __future__ import annotations

from diffsim.base.system import forget_peak, give_back_memory, peak_memory, resident_memory


class Resident:
    """The resident memory of this process from now on.

    Attributes:
        before: bytes that are resident now.
        exact: whether the peak is counted from now on. Only Linux can do that. On other systems it is the peak since the process started,
            so it is useful only if this run exceeds all earlier ones.

    Example:
        import numpy as np

        from diffsim.checkpoint import Resident

        resident = Resident()
        field = np.ones(4_000_000)  # 32 MB, touched
        assert field.sum() == 4_000_000
        assert resident.peak > 16_000_000 or not resident.exact
    """

    def __init__(self) -> None:
        give_back_memory()  # else later arrays would reuse free memory and not be counted
        self.exact = forget_peak()
        self.before = resident_memory() if self.exact else peak_memory()

    @property
    def peak(self) -> int:
        """The largest excess of the resident size over `before`, in bytes."""
        return max(peak_memory() - self.before, 0)
