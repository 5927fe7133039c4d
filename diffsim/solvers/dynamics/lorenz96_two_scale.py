"""Slow quantities on a circle of latitude, each with fast ones around it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from diffsim.base.arguments import whole
from diffsim.errors import ParameterError
from diffsim.expr.operators import add
from diffsim.expr.symbol import Symbol
from diffsim.integrators import rk4
from diffsim.mesh.grid import Grid
from diffsim.solvers.dynamics.lines import on_a_line
from diffsim.solvers.parts.stability import check_common, check_sign
from diffsim.stepping.declare.equation import Equation, Profile, Variable
from diffsim.typing import Array


class Lorenz96TwoScale(Equation, kind="lorenz96_two_scale"):
    """K slow quantities on a circle of latitude, to each of which J fast and small ones belong.

        dXₖ/dt = (Xₖ₊₁ - Xₖ₋₂) Xₖ₋₁ - Xₖ + F - (h c / b) Σⱼ Yⱼₖ
        dYᵢ/dt = c b (Yᵢ₋₁ - Yᵢ₊₂) Yᵢ₊₁ - c Yᵢ + (h c / b) Xₖ,    i = J k + j

    The fast quantities are one circle of K J values, across the borders between the slow ones. The classical method of Runge and Kutta.
    Inputs: initial states `y`, shape (K J,), and `x`, of the same shape, whose values X lie at each J-th place: `x[::J] = X`, and 0
    elsewhere; the numbers `F`, `h`, `b` and `c`. A receiver of `x` at `[J k]`, with spacing 1, records Xₖ.

    Args:
        grid: one axis of K J cells, with K of at least 4; its spacing has no meaning.
        dt: time step. Good: 0.05 / c.
        fast: J, the number of fast quantities to a slow one, at least 3.

    Good values: c = b = 10, h = 1; F = 10 with K = 36 and J = 10, dt 0.005 (Lorenz), or F = 20 with K = 8, J = 32 and dt 0.001 to 0.005
        (Wilks). The fast quantities then move c times as fast and are b times as small.

    Raises:
        ParameterError: a time step that is not positive, or cells that are not at least 4 times `fast`; by a run, a `b` that is not
            positive.

    Reference: Lorenz (1996), Predictability: a problem partly solved, Proc. Seminar on Predictability, ECMWF, 1-18, equations 2 and 3;
        Wilks (2005), Effects of stochastic parametrizations in the Lorenz '96 system, Q. J. R. Meteorol. Soc. 131, 389-407,
        doi:10.1256/qj.04.03.

    Example:
        import numpy as np

        import diffsim as ds

        # How much do the fast quantities damp the slow ones? A gradient by the strength of their coupling.
        K, J, rng = 8, 4, np.random.default_rng(0)
        circle = ds.solvers.Lorenz96TwoScale(ds.Grid((K * J,), spacing=1.0), dt=0.005, fast=J)
        system = ds.Simulation(circle, wrt=["h"], precision="f64")
        x, y = np.zeros(K * J), 0.1 * rng.standard_normal(K * J)
        x[::J] = 8.0 + rng.standard_normal(K)
        start = {"x": x, "y": y, "F": 10.0, "h": 1.0, "b": 10.0, "c": 10.0}
        energy, gradient = system.value_and_grad(lambda solution: (solution.final["x"] ** 2).sum(), start, steps=20)
        moved = system.run({**start, "h": 1.0001}, steps=20).final["x"]
        assert np.isclose(gradient["h"], ((moved**2).sum() - energy) / 1e-4, rtol=0.01) and gradient["h"] < 0
        assert not moved.reshape(K, J)[:, 1:].any()
    """

    def __init__(self, grid: Grid, dt: float, fast: int = 10) -> None:
        self.dt = check_common(grid, dt, metres=False)
        self.fast = whole("fast", fast, 3, remedy="give the number of fast quantities to a slow one")
        self.grid = on_a_line(grid, 4 * self.fast)
        cells = self.grid.shape[0]
        if cells % self.fast:
            raise ParameterError(
                f"grid of {cells} cells with fast = {fast}, expected a multiple of it; take {cells // self.fast * self.fast}"
            )
        slow = np.arange(cells) % self.fast == 0
        self.profiles = {"slow": Profile(0, slow.astype(float))}
        self.states = {"x": Variable("periodic", unit="1", region=slow), "y": Variable("periodic", unit="1")}
        self.parameters = {name: Variable(axes=(), unit="1") for name in ("F", "h", "b", "c")}

    def step(self, x: Symbol, y: Symbol, slow: Symbol, F: Symbol, h: Symbol, b: Symbol, c: Symbol) -> dict[str, Symbol]:
        J, coupling = self.fast, h * c / b

        def rate(now: dict[str, Symbol]) -> dict[str, Symbol]:
            x, y = now["x"], now["y"]
            sum_of_fast = add([y.shifted(0, j) for j in range(J)])
            slow_here = add([x.shifted(0, -j) for j in range(J)])  # x is 0 but at the first cell of each J, and so are its stages
            return {
                "x": slow * ((x.shifted(0, J) - x.shifted(0, -2 * J)) * x.shifted(0, -J) - x + F - coupling * sum_of_fast),
                "y": c * b * (y.shifted(0, -1) - y.shifted(0, 2)) * y.shifted(0, 1) - c * y + coupling * slow_here,
            }

        return rk4(rate, {"x": x, "y": y}, self.dt)

    def check(self, parameters: Mapping[str, Array]) -> None:
        check_sign("b", parameters["b"], "1")
