"""A quantum particle in a potential."""

from __future__ import annotations

from typing import Any

import numpy as np

import diffsim.numpy as dnp
from diffsim.errors import ParameterError
from diffsim.expr.functions import cos, sin
from diffsim.expr.symbol import Symbol
from diffsim.mesh.grid import Grid
from diffsim.simulation import host_stage
from diffsim.solvers.parts.stability import check_common
from diffsim.stepping.declare.equation import Equation, Variable


class Schroedinger(Equation, kind="schroedinger"):
    """The time-dependent Schrödinger equation in a periodic box of one to three dimensions.

        i ψ_t = -½ ∇²ψ + V ψ

    Lengths, times and energies are in units with ħ = m = 1, such as atomic units. Strang splitting, second order in time: half a step of
    the potential, a step of the kinetic energy in Fourier space, which is exact there, and another half step of the potential. Each is a
    rotation, so that Σ |ψ|² is kept to round-off, whatever the time step. In space the error falls faster than any power of the spacing,
    for a wave function that the grid resolves.

        ψⁿ⁺¹ = exp(-½ i dt V) F⁻¹ exp(-½ i dt k²) F exp(-½ i dt V) ψⁿ

    Inputs: the potential `V` (cell centres) and the initial real and imaginary part of ψ, `re` and `im`. The gradients for both parts are
    2 ∂/∂ψ* = g_re + i g_im.

    Args:
        grid: one to three axes with cells of one size.
        dt: time step, in units of ħ over that of energy. It is stable at any size.

    Raises:
        ParameterError: a time step that is not positive, or a grid of cells of several sizes.

    Good values: dt times the range of `V` and times the kinetic energies that matter of 0.1 or less; eight cells in the shortest wave
        length. A wave that leaves the box comes back at its other end: let the box be wide, or the potential high at its ends.

    Reference: Feit, Fleck and Steiger (1982), Solution of the Schrödinger equation by a spectral method, J. Comput. Phys. 47, 412-433,
        doi:10.1016/0021-9991(82)90091-2.

    Example:
        import numpy as np

        import diffsim as ds

        # How high must a barrier be, so that half of a packet passes it? Newton's method on its derivative.
        line = ds.Grid((256,), spacing=0.25)
        x, height = line.coordinates(0), 1.0
        packet = np.exp(-(((x - 20.0) / 3.0) ** 2)) * np.exp(1.5j * x)
        packet /= np.sqrt((np.abs(packet) ** 2).sum() * 0.25)
        barrier = np.exp(-((x - 32.0) ** 2))
        run = ds.Simulation(ds.solvers.Schroedinger(line, dt=0.05), wrt=["V"], precision="f64")

        def passed(found):
            return 0.25 * (found.final["re"] ** 2 + found.final["im"] ** 2)[128:].sum()

        for _ in range(5):
            value, gradient = run.value_and_grad(passed, {"V": height * barrier, "re": packet.real, "im": packet.imag}, steps=320)
            height -= (value - 0.5) / (gradient["V"] * barrier).sum()
        assert abs(value - 0.5) < 1e-6
    """

    def __init__(self, grid: Grid, dt: float) -> None:
        self.grid, self.dt = grid, check_common(grid, dt, metres=False)
        if None in grid.uniform_spacing:
            raise ParameterError("grid of cells of several sizes, expected cells of one size, for transforms; take a uniform grid")
        self.states = {"re": Variable("periodic", unit="1"), "im": Variable("periodic", unit="1")}
        self.parameters = {"V": Variable("periodic", unit="1")}
        waves = [2 * np.pi * np.fft.fftfreq(n, h) for n, h in zip(grid.shape, grid.spacing, strict=True)]
        squares = np.meshgrid(*(k**2 for k in waves), indexing="ij", sparse=True)
        self._kinetic = np.exp(-0.5j * self.dt * sum(squares))

    def step(self, re: Symbol, im: Symbol, V: Symbol) -> dict[str, Symbol]:
        def drift(re: Any, im: Any) -> tuple[Any, Any]:
            psi = dnp.fft.ifftn(self._kinetic * dnp.fft.fftn(re + 1j * im))
            return psi.real, psi.imag

        def kick(re: Symbol, im: Symbol) -> tuple[Symbol, Symbol]:  # ψ exp(-½ i dt V)
            a, b = cos(0.5 * self.dt * V), sin(0.5 * self.dt * V)
            return a * re + b * im, a * im - b * re

        re, im = kick(*host_stage(drift, kick(re, im), boundary="periodic"))
        return {"re": re, "im": im}
