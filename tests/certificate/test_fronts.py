"""Certificates at a wet/dry front: water runs up a beach, over which each cell that is flooded is a kink of the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import Symbol, maximum, minimum, minmod, sqrt, van_albada
from diffsim.typing import Array
from tests.sampled import sampled

G, SHALLOW, FILM = 9.81, 1e-3, 1e-8


class Beach(ds.Equation):
    """Shallow water along a line, of second order, with hydrostatic reconstruction and the flux of Harten, Lax and van Leer.

    Reference: as tests/steps/shallow_water.py, with slopes of the surface, the depth and the velocity.
    """

    def __init__(self, grid: ds.Grid, dt: float, limiter: Callable[..., Symbol]) -> None:
        self.grid, self.dt, self.limiter = grid, dt, limiter
        self.states = {"h": ds.Variable("mirror", unit="m"), "q": ds.Variable(ds.OddImage(), unit="m²/s")}
        self.parameters = {"z": ds.Variable("mirror", unit="m")}

    def step(self, h: Symbol, q: Symbol, z: Symbol) -> dict[str, Symbol]:
        return ds.integrators.ssp_rk2(lambda now: self.rate(now["h"], now["q"], z), {"h": h, "q": q}, self.dt)

    def rate(self, h: Symbol, q: Symbol, z: Symbol) -> dict[str, Symbol]:
        u = ds.stage(2 * h * q / (h * h + maximum(h * h, SHALLOW**2)), boundary=ds.OddImage())
        surface = ds.stage(h + z, boundary="mirror")
        (h_l, h_r), (e_l, e_r), (u_l, u_r) = self.faces(h, h), self.faces(surface), self.faces(u)
        z_l, z_r = e_l - h_l, e_r - h_r
        bed = maximum(z_l, z_r)
        d_l, d_r = maximum(e_l - bed, 0.0), maximum(e_r - bed, 0.0)
        c_l, c_r = sqrt(G * maximum(d_l, FILM)), sqrt(G * maximum(d_r, FILM))
        slow = minimum(minimum(u_l - c_l, u_r - c_r), 0.0)
        fast = maximum(maximum(u_l + c_l, u_r + c_r), 0.0)

        def flux(left: Symbol, right: Symbol, flux_left: Symbol, flux_right: Symbol) -> Symbol:
            return (fast * flux_left - slow * flux_right + fast * slow * (right - left)) / (fast - slow)

        q_l, q_r = d_l * u_l, d_r * u_r
        mass = flux(d_l, d_r, q_l, q_r)
        momentum = flux(q_l, q_r, q_l * u_l + 0.5 * G * d_l**2, q_r * u_r + 0.5 * G * d_r**2)
        below, above = momentum + 0.5 * G * (h_l**2 - d_l**2), momentum + 0.5 * G * (h_r**2 - d_r**2)
        slope = 0.5 * G * (h_l + h_r.shifted(0, -1)) * (z_r.shifted(0, -1) - z_l)
        dx = self.grid.spacing[0]
        return {"h": (mass.shifted(0, -1) - mass) / dx, "q": (above.shifted(0, -1) - below + slope) / dx}

    def faces(self, f: Symbol, most: Symbol | None = None) -> tuple[Symbol, Symbol]:
        jump = f - f.shifted(0, -1)
        half = 0.5 * self.limiter(jump, jump.shifted(0, 1))
        if most is not None:
            half = maximum(minimum(half, most), -most)
        return f + half, (f - half).shifted(0, 1)


def certificate(limiter: Callable[..., Symbol], level: bool, loss: str, steps: int) -> ds.Certificate:
    grid = ds.Grid((60,), 1.0)
    x = grid.coordinates(0)
    z = np.maximum(0.06 * (x - 30.0), 0.0) + 0.01 * np.cos(1.3 * x)  # where neighbours lie equally high, the higher bed has a kink
    h = np.maximum(1.0 + (0.0 if level else 0.4 * np.exp(-((x - 15.0) ** 2) / 12)) - z, 0.0)
    run = ds.Simulation(Beach(grid, 0.05, limiter), precision="f64", wrt=["z", "h"], receivers={"h": [[40.0], [44.0]]})
    target = np.random.default_rng(0).normal(size=60)
    losses: dict[str, Callable[[ds.Solution], Any]] = {
        "state": lambda solution: 0.5 * ((solution.final["h"] - 0.1 * target) ** 2).sum(),
        "gauges": lambda solution: 0.5 * ((solution.traces["h"] - 0.4) ** 2).sum(),
    }
    return ds.certify(run, losses[loss], {"z": z, "h": h}, steps=steps, seed=3, directions=6)


def counted(report: ds.Certificate, verdict: bool | None) -> int:
    return sum(line.passed is verdict for line in report if line.needed and line.name.startswith(("Taylor with ", "slope by")))


@pytest.mark.parametrize("loss", ["state", "gauges"])
def test_the_right_gradient_passes_though_kinks_are_close_by(loss: str) -> None:
    report = certificate(van_albada(1e-3), False, loss, 400)
    assert report.verdict == "pass", report
    assert any(line.name.startswith("slope by gradients beside the point") for line in report), "no kink was close, so this tests nothing"


@pytest.mark.parametrize("error", sampled([1e-3, -1e-2, 0.5]))
def test_a_wrong_gradient_passes_nowhere(monkeypatch: pytest.MonkeyPatch, error: float) -> None:
    right = ds.Simulation.value_and_grad

    def wrong(self: ds.Simulation, *args: Any, **more: Any) -> tuple[float, dict[str, Array]]:
        value, gradient = right(self, *args, **more)
        return value, {name: (1 + error) * field for name, field in gradient.items()}

    monkeypatch.setattr(ds.Simulation, "value_and_grad", wrong)
    report = certificate(van_albada(1e-3), False, "gauges", 400)
    assert report.verdict == "fail" and counted(report, True) == 0, report


def test_a_lake_at_rest_fails_by_name_with_a_limiter_that_has_a_kink_there() -> None:
    report = certificate(minmod, True, "state", 60)
    assert report.verdict == "fail" and "take the limiter van_albada(eps)" in str(report), report
    assert certificate(van_albada(1e-3), True, "state", 60).verdict == "pass"
