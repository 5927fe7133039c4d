"""The Gauss-Newton Hessian of the loss of a scene, by its products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.ad import jvp, vjp
from diffsim.checkpoint import Policy
from diffsim.scene.search.assemble import Problem
from diffsim.scene.shots.misfits import Misfits
from diffsim.scene.shots.shot_runs import products
from diffsim.typing import Array

BendFields: TypeAlias = Callable[[Mapping[str, Array], Mapping[str, Array]], Mapping[str, Array]]
"""(fields, their change) -> the Hessian of the penalties times the change, for some of the fields."""


class CellCurvature:
    """Σ Jᵀ W J + R at given fields, with the sum over shots, by the values of cells.

    J is the derivative of the predictions, W and R are the Hessians of misfits and penalties. The curvature of the simulation itself is
    left out, so this is positive semidefinite where misfits and penalties are convex. A product takes a run of the tangent and a gradient
    of each shot.

    Args:
        problem: the assembled scene.
        fields: of the unknowns.
        misfits: of all shots.
        bend_fields: of the penalties.
    """

    def __init__(self, problem: Problem, fields: Mapping[str, Array], misfits: Misfits, bend_fields: BendFields) -> None:
        self._problem, self._fields, self._misfits, self._bend_fields = problem, dict(fields), misfits, bend_fields

    def by_cell(self, moved: Mapping[str, Array]) -> dict[str, Array]:
        """The product with a change of the fields, with a value in each cell."""
        problem = self._problem
        total: dict[str, Array] = {name: np.zeros(values.shape) for name, values in self._fields.items()}
        for name, bar in self._bend_fields(self._fields, moved).items():
            total[name] += bar
        changing, shots = (self._fields, moved, Policy.of(problem.checkpoint)), range(len(problem.setup.shots))
        for bars in problem.workers.run(products, (problem.forward, self._misfits), changing, shots):
            for name, bar in bars.items():
                total[name] += bar.reshape(total[name].shape)
        return total


class Curvature:
    """Bᵀ (Σ Jᵀ W J + R) B at one theta, where B is the derivative of the fields; see `CellCurvature`.

    Args:
        problem: the assembled scene.
        misfits: of all shots.
        bend_fields: of the penalties.
        theta: where.
        bend_theta: (theta, its change) -> the Hessian of the penalties of theta times the change.
    """

    def __init__(
        self, problem: Problem, misfits: Misfits, bend_fields: BendFields, theta: Array, bend_theta: Callable[[Array, Array], Array]
    ) -> None:
        self._bend_theta = bend_theta
        self._split, self._theta = problem.unknowns.split, theta.copy()
        self._cells = CellCurvature(problem, self._split(theta), misfits, bend_fields)

    def __matmul__(self, v: Array) -> npt.NDArray[np.float64]:
        """The product with a change of theta."""
        moved = jvp(self._split, (self._theta,), (v,))[1]
        product = vjp(self._split, self._theta)[1](self._cells.by_cell(moved))[0]
        return np.asarray(product + self._bend_theta(self._theta, v), np.float64)
