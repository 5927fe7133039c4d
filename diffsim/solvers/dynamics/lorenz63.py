"""Convection by three modes."""

from __future__ import annotations

from typing import Any

from diffsim.solvers.dynamics.ode import ODE


class Lorenz63(ODE):
    """Convection by three modes, the first strange attractor.

        xₜ = σ (y - x),    yₜ = x (ρ - z) - y,    zₜ = x y - β z

    The classical method of Runge and Kutta. Inputs: initial states `x`, `y` and `z`, shape (members,); numbers `sigma`, `rho` and `beta`.

    Args:
        dt: time step.
        members: number of states side by side.

    Good values: sigma 10, rho 28, beta 8/3 and dt 0.01. Then the exponents are 0.906, 0 and -14.57.

    Reference: Lorenz (1963), Deterministic nonperiodic flow, J. Atmos. Sci. 20, 130-141, doi:10.1175/1520-0469(1963)020<0130:DNF>2.0.CO;2.

    Example:
        import numpy as np

        import diffsim as ds

        # Two states that differ by 1e-8 are far apart after 30 units of time.
        system = ds.Simulation(ds.solvers.Lorenz63(dt=0.01, members=2), precision="f64")
        start = {"x": [1.0, 1.0 + 1e-8], "y": [2.0, 2.0], "z": [20.0, 20.0], "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
        assert abs(np.diff(system.run(start, steps=300).final["x"])[0]) < 1e-5
        assert abs(np.diff(system.run(start, steps=3000).final["x"])[0]) > 1e-2
    """

    def __init__(self, dt: float, members: int = 1) -> None:
        super().__init__(_convection, dt, members=members)


def _convection(x: Any, y: Any, z: Any, *, sigma: Any, rho: Any, beta: Any) -> tuple[Any, Any, Any]:
    return sigma * (y - x), x * (rho - z) - y, x * y - beta * z
