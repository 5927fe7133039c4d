"""Marks of sides that have no faces of their own."""

from __future__ import annotations

import numpy as np

from diffsim.stepping.declare.equation import Profile
from diffsim.typing import Array


class LowSide(Profile):
    """A profile on faces that is 0 inside the grid and 1 on the low side, which has no face of its own."""

    def extended(self, values: Array, halo: int) -> Array:
        return np.pad(values, halo, constant_values=((1.0, 0.0),))
