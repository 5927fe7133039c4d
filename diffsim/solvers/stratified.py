"""Layers of water of different density on a rotating Earth: how they are coupled, and their vertical modes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import number, positive
from diffsim.base.messages import shown
from diffsim.errors import ParameterError

F64 = npt.NDArray[np.float64]


class Stratification:
    """Layers and the surfaces between them, from the top down.

    The potential vorticity of a layer has the stretching Σ_j S_ij ψ_j, whose rows are

        f0² / H_i ((ψ_{i-1} - ψ_i) / g'_{i-1} + (ψ_{i+1} - ψ_i) / g'_i)

    without the term of a surface that a layer does not have. H S is symmetric, so S has orthogonal eigenvectors under the weights H: the
    vertical modes. The first one, the barotropic mode, is the mean over the depth; its number is 0. The others are baroclinic.

    Args:
        layers: mean thicknesses H_i, m, > 0, two or more, from the top down.
        gravities: reduced gravities g'_i of the surfaces between them, g Δρ / ρ, m/s², > 0, one less than layers.
        f0: Coriolis parameter, 1/s, not 0.

    Attributes:
        thickness: H_i, m, shape (layers,).
        coupling: f0² / g'_i of each surface, 1/m, shape (layers - 1,).
        stretching: the matrix S, 1/m², shape (layers, layers).
        wave_numbers: κ of each mode, 1/m, shape (layers,), 0 first: S has the eigenvalues -κ².
        to_modes: the matrix of layers to modes, shape (modes, layers). The first row is the mean over the depth.
        from_modes: its inverse.
        radii: Rossby radii 1 / κ of the baroclinic modes, m, shape (layers - 1,), the largest first.

    Raises:
        ParameterError: a number of layers, gravities or a value out of range.

    Reference: Flierl (1978), Models of vertical structure and the calibration of two-layer models, Dyn. Atmos. Oceans 2, 341-381,
        doi:10.1016/0377-0265(78)90002-7; Vallis (2017), section 5.3.2, doi:10.1017/9781107588417.
    """

    def __init__(self, layers: Sequence[float], gravities: Sequence[float], f0: float | None) -> None:
        example = "write it like layers=(500.0, 3500.0), gravities=(0.02,), f0=1e-4"
        for name, values in (("layers", layers), ("gravities", gravities)):
            if not isinstance(values, (tuple, list, np.ndarray)):
                raise ParameterError(f"{name} = {shown(values)}, expected a number for each; {example}")
        if len(layers) < 2 or len(gravities) != len(layers) - 1:
            raise ParameterError(
                f"the number of layers is {len(layers)} and that of gravities {len(gravities)}, expected two layers or more, and "
                f"{max(len(layers) - 1, 1)} gravities, one for each surface between two layers; {example}"
            )
        self.thickness = np.array([positive("a thickness of layers", h, example, "m") for h in layers])
        reduced = np.array([positive("one of gravities", g, example, "m/s²") for g in gravities])
        if f0 is None:
            raise ParameterError(f"f0 is missing, expected the Coriolis parameter of the layers, 1/s; {example}")
        turning = number("f0", f0, "a finite number other than 0", lambda f: f != 0 and math.isfinite(f), example, "1/s")
        self.coupling = turning**2 / reduced
        pull = np.zeros((len(layers), len(layers)))  # H S
        for i, strength in enumerate(self.coupling):
            pull[i : i + 2, i : i + 2] += strength * np.array([[-1, 1], [1, -1]])
        self.stretching = pull / self.thickness[:, None]
        root = np.sqrt(self.thickness / self.thickness.sum())
        numbers, vectors = np.linalg.eigh(-pull / np.sqrt(np.outer(self.thickness, self.thickness)))
        numbers[0], vectors[:, 0] = 0.0, root  # exactly
        vectors *= np.where(vectors[:1] < 0, -1.0, 1.0)
        self.wave_numbers = np.sqrt(numbers)
        self.to_modes, self.from_modes = vectors.T * root, vectors / root[:, None]
        self.radii = 1 / self.wave_numbers[1:]
