"""Several unknown fields as one flat vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds

from diffsim.base.arguments import mapping
from diffsim.base.messages import shown
from diffsim.errors import ParameterError
from diffsim.optimize.parametrise import Unknown, check_theta
from diffsim.typing import Array


class Stacked:
    """Named unknowns one after another in theta, in the order of the mapping.

    Args:
        parts: A `Parametrisation`, `Regions` or other `Unknown` for each name.

    Raises:
        ParameterError: No parts.

    Example:
        import numpy as np

        from diffsim.optimize import Parametrisation, Stacked, Unknown

        # Diffusivity and initial temperature are sought together, each in its own scale.
        parts: dict[str, Unknown] = {
            "kappa": Parametrisation((40,), transform="log", scale=0.1, reference=5e-3),
            "T": Parametrisation((40,), scale=10.0, reference=290.0),
        }
        both = Stacked(parts)
        theta = both.join({"kappa": np.full(40, 5e-3), "T": np.full(40, 300.0)})
        fields = both.split(theta)
        assert theta.shape == (80,) and np.allclose(fields["T"], 300.0) and np.allclose(fields["kappa"], 5e-3)
    """

    def __init__(self, parts: Mapping[str, Unknown]) -> None:
        for name, part in mapping("parts", parts, "{'c': Parametrisation(shape)}").items():
            if not all(hasattr(part, wanted) for wanted in ("size", "to_field", "from_field", "bounds")):
                raise ParameterError(f"parts: {name} = {shown(part)}, expected a Parametrisation, Regions or the like; give one")
        if not parts:
            raise ParameterError("parts: expected at least one unknown, got none; give {name: parametrisation}")
        self.parts: dict[str, Unknown] = dict(parts)
        """The parametrisation of each unknown."""
        ends = np.cumsum([part.size for part in self.parts.values()]).tolist()
        self.size: int = ends[-1]
        """Number of entries of theta."""
        self.slices: dict[str, slice] = dict(zip(self.parts, map(slice, [0, *ends[:-1]], ends), strict=True))
        """The slice of theta of each unknown."""

    def split(self, theta: Any) -> dict[str, Any]:
        """The physical field of each unknown at theta, differentiable: `ds.vjp(stacked.split, theta)` takes cotangents of fields back."""
        theta = check_theta(theta, self.size)
        return {name: part.to_field(theta[self.slices[name]]) for name, part in self.parts.items()}

    def join(self, fields: Mapping[str, Array]) -> npt.NDArray[np.float64]:
        """The theta of a field for each unknown."""
        if set(mapping("fields", fields, "{'c': field}")) != set(self.parts):
            raise ParameterError(f"fields: expected one entry for each of {sorted(self.parts)}, got {sorted(fields)}; add or drop some")
        return np.concatenate([part.from_field(fields[name]) for name, part in self.parts.items()])

    def bounds(self) -> Bounds:
        """Bounds on theta; infinite where there are none."""
        parts = [part.bounds() for part in self.parts.values()]
        return Bounds(np.concatenate([b.lb for b in parts]), np.concatenate([b.ub for b in parts]))
