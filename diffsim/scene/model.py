"""What all parts of a scene's schema share: strict, frozen models, and the kinds of number they hold."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Mask: TypeAlias = npt.NDArray[np.bool_]
"""A choice of cells."""


class Model(BaseModel):
    """A part of a scene: unknown keys are refused, and it never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


Real: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Positive: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0)]
NotNegative: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0)]
Count: TypeAlias = Annotated[int, Field(strict=True, ge=1)]
CountOrNone: TypeAlias = Annotated[int, Field(strict=True, ge=0)]
Flag: TypeAlias = Annotated[bool, Field(strict=True)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Point: TypeAlias = Annotated[tuple[Real, ...], Field(min_length=1, max_length=3)]
"""A place, an entry an axis, in the grid's units."""
Widths: TypeAlias = Annotated[tuple[Positive, ...], Field(min_length=1, max_length=3), BeforeValidator(_listed)]
"""Lengths: one number for all axes, or one an axis."""
CellWidths: TypeAlias = Annotated[tuple[NotNegative, ...], Field(min_length=1, max_length=3), BeforeValidator(_listed)]
"""Numbers of cells, likewise; 0 is allowed."""
