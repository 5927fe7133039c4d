"""How much memory this process really took: the largest resident size since a moment."""

from __future__ import annotations

from diffsim.system import forget_peak, give_back_memory, peak_memory, resident_memory


class Resident:
    """The resident memory of this process from now on.

    Attributes:
        before: bytes that are resident now.
        exact: whether the peak is counted from now on; elsewhere than on Linux it is that of the process from its start, so that it says
            something only where it is a new one.

    Example:
        import numpy as np

        from diffsim.checkpoint import Resident

        resident = Resident()
        field = np.ones(4_000_000)  # 32 MB, touched
        assert field.sum() == 4_000_000
        assert resident.peak > 16_000_000 or not resident.exact
    """

    def __init__(self) -> None:
        give_back_memory()  # else later arrays would take what is not in use, and not count
        self.exact = forget_peak()
        self.before = resident_memory() if self.exact else peak_memory()

    @property
    def peak(self) -> int:
        """Bytes by which the resident size has exceeded `before` at most."""
        return max(peak_memory() - self.before, 0)
