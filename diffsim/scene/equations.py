"""The equations that a scene can name, and a model with the options of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from diffsim.grid import Grid
from diffsim.messages import shown
from diffsim.scene.model import CountOrNone, Mask, Model, Positive
from diffsim.scene.rules import Boundary, build_boundary
from diffsim.solvers import Acoustic, DGAcoustic, DGAdvection, Heat, LongWave
from diffsim.stepping.equation import Equation
from diffsim.typing import Array


class SolverModel(Model, ABC):
    """The options of an equation, and what a scene needs to know of it."""

    @abstractmethod
    def build(self, grid: Grid, dt: float, finer: float = 1.0) -> Equation:
        """The equation. `finer` is the number of cells along an axis for each cell of the scene's own grid."""

    def metres(self, grid: Grid) -> tuple[float, ...]:
        """Distance of cells along each axis, m, in the middle of the grid."""
        return grid.spacing

    def silent(self, inputs: dict[str, Array]) -> Mask | None:
        """Cells where the state never changes."""
        return None

    def finer_step(self, finer: float) -> float:
        """Factor on dt that keeps the stability number on a grid that is `finer` times finer."""
        return 1 / finer


class LongWaveModel(SolverModel):
    """Linear long waves (`diffsim.solvers.LongWave`): known depth `H`, initial surface `eta0`, state `eta`.

    The edges are walls, because flow through an edge depends on the depth beyond it, which is unknown.

    Attributes:
        coordinates: "plane" in metres, or "sphere" with latitude and longitude in degrees.
        sponge: cells of absorbing sponge at every edge.
        sponge_depth: depth whose wave speed the sponge is tuned for, m.
    """

    type: Literal["long_wave"]
    coordinates: Literal["plane", "sphere"] = "plane"
    sponge: CountOrNone = 0
    sponge_depth: Positive = 1000.0

    @model_validator(mode="before")
    @classmethod
    def _walls(cls, given: Any) -> Any:
        if isinstance(given, dict) and "boundary" in given:
            raise ValueError(
                "expected no boundary with long_wave, whose edges are walls (behind a sponge, where there is one), since the depth "
                f"beyond them is not given, found {shown(given['boundary'])}; drop it"
            )
        return given

    def build(self, grid: Grid, dt: float, finer: float = 1.0) -> Equation:
        return LongWave(grid, dt, self.coordinates, round(self.sponge * finer), self.sponge_depth)

    def metres(self, grid: Grid) -> tuple[float, ...]:
        if self.coordinates == "plane":
            return grid.spacing
        degree = LongWave(grid, 1.0, self.coordinates).degree
        middle = np.cos(np.radians(np.mean(grid.coordinates(0))))
        return grid.spacing[0] * degree, float(grid.spacing[1] * degree * middle)

    def silent(self, inputs: dict[str, Array]) -> Mask | None:
        return inputs["H"] <= 0  # land


class AcousticModel(SolverModel):
    """Constant-density acoustics (`diffsim.solvers.Acoustic`): wave speed `c`, state `p`, forcing `f`.

    Attributes:
        order: of the Laplacian in space.
        boundary: outside the grid; along axes that it does not say, "zero".
        sponge: cells of absorbing sponge at every edge.
        sponge_speed: wave speed the sponge is tuned for, m/s.
    """

    type: Literal["acoustic"]
    order: Literal[2, 4, 6, 8, 10, 12] = 8
    boundary: Boundary = Field("zero", validate_default=True)
    sponge: CountOrNone = 0
    sponge_speed: Positive = 2000.0

    def build(self, grid: Grid, dt: float, finer: float = 1.0) -> Equation:
        outside = build_boundary(self.boundary, grid, "Pa", "zero")
        sponge = round(self.sponge * finer)
        return Acoustic(grid, dt, self.order, outside.rules, sponge, self.sponge_speed, outside.parameters, outside.series)


class HeatModel(SolverModel):
    """Heat conduction (`diffsim.solvers.Heat`): diffusivity `kappa`, initial temperature `T`, forcing `q`.

    Attributes:
        boundary: outside the grid; "mirror" lets no heat through, and holds along axes that it does not say.
    """

    type: Literal["heat"]
    boundary: Boundary = Field("mirror", validate_default=True)

    def build(self, grid: Grid, dt: float, finer: float = 1.0) -> Equation:
        outside = build_boundary(self.boundary, grid, "K", "mirror")
        return Heat(grid, dt, outside.rules, outside.parameters, outside.series)

    def finer_step(self, finer: float) -> float:
        return 1 / finer**2


class DGModel(SolverModel):
    """What the equations with discontinuous Galerkin elements share.

    Attributes:
        order: degree of the polynomials. Cells along each axis, also those of the data, are a multiple of order + 1.
    """

    order: Literal[1, 2, 3, 4] = 3


class DGAdvectionModel(DGModel):
    """A tracer in a wind (`diffsim.solvers.DGAdvection`): known `wind_x` and, in two dimensions, `wind_y`, state `u`.

    Attributes:
        boundary: of all sides.
    """

    type: Literal["dg_advection"]
    boundary: Literal["periodic", "outflow"] = "periodic"

    def build(self, grid: Grid, dt: float, finer: float = 1.0) -> Equation:
        return DGAdvection(grid, dt, self.order, self.boundary)


class DGAcousticModel(DGModel):
    """Acoustics in pressure and velocity (`diffsim.solvers.DGAcoustic`): `c` and `rho`, states `p`, `vx` and, in two dimensions, `vy`.

    Attributes:
        boundary: of all sides.
    """

    type: Literal["dg_acoustic"]
    boundary: Literal["periodic", "wall", "outflow"] = "outflow"

    def build(self, grid: Grid, dt: float, finer: float = 1.0) -> Equation:
        return DGAcoustic(grid, dt, self.order, self.boundary)


EquationModel: TypeAlias = Annotated[
    LongWaveModel | AcousticModel | HeatModel | DGAdvectionModel | DGAcousticModel, Field(discriminator="type")
]
