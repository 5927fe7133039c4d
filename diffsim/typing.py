"""Types that several parts share."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt

Array: TypeAlias = npt.NDArray[np.floating[Any]]
IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
Positive: TypeAlias = Annotated[float, Gt(0)]
"""A number above 0."""
Natural: TypeAlias = Annotated[int, Ge(0)]
"""A whole number from 0."""
