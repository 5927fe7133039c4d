"""Maxwell's equations in media with losses and dispersion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from diffsim.base.arguments import flag, instance, positive
from diffsim.expr.operators import add, diff
from diffsim.expr.symbol import Symbol
from diffsim.mesh.grid import Grid
from diffsim.solvers.edges import Layer, layer_of, taken_at
from diffsim.solvers.poles import Kind, light_limit, poles_of
from diffsim.solvers.stability import check_sign, check_step
from diffsim.solvers.yee import Polarisation, Wall, yee
from diffsim.stepping.declare.equation import Equation, Variable
from diffsim.stepping.trace.stages import stage
from diffsim.typing import Array, Positive


class Maxwell(Equation):
    """Light and microwaves in one to three dimensions: Yee's scheme, with an absorbing layer, losses, and Drude and Lorentz media.

        ε E_t = ∇×H - σ E - Σ Jₖ - J,   H_t = -∇×E,   Jₖ_t + γ Jₖ + w² Pₖ = wp² E,   Pₖ_t = Jₖ

    The constants of the vacuum are 1: lengths are in a unit of your choice, such as micrometres, times in that unit over the speed of
    light, frequencies in its inverse (1 / wavelength in vacuum). A medium has ε(ω) = eps + iσ/ω + Σ wp² / (w² - ω² - iγω).
    All differences are centred, of second order in space and time; E and P are known at t, H and the currents half a step before:

        H⁺ = H⁻ - dt ∇ₕ×Eⁿ,   (1 + γ dt/2) J⁺ = (1 - γ dt/2) J⁻ + dt (wp² Eⁿ - w² Pⁿ),   Pⁿ⁺¹ = Pⁿ + dt J⁺
        (1 + s) Eⁿ⁺¹ = (1 - s) Eⁿ + dt/ε (∇ₕ×H⁺ - Σ J⁺ - J),   s = σ dt / 2ε

    Axes are (x), (y, x) or (z, y, x). E lies on the edges of the cells and H on the faces: Ex at the centre along x and on the upper
    faces along the other axes, Hx the other way round. Media are given at the centres of cells and averaged to the edges, the mean that is
    right along an interface; `diffsim.photonics.permittivity` averages across one too.

    Inputs: relative permittivity `eps` (or `eps_x` and so on with `anisotropic`), conductivity `sigma`; of pole k, from 1, the plasma
    frequency `wp1` at centres (angular, 0 where there is none), the numbers `gamma1` and, if it is a Lorentz pole, the angular frequency
    `w1` of its resonance: its strength Δε is (wp1 / w1)². Initial fields; amplitudes of currents `Jz` and so on, one for each component.

    Args:
        grid: uniform or stretched.
        dt: time step. Stable while dt <= 2 sqrt(eps_min / (Σ 4/dx² + Σ wp²)): in vacuum, 0.707 dx in two dimensions; less with
            Lorentz poles.
        polarisation: in one and two dimensions "TM", E across the plane (Ez; Hy, Hx), or "TE", H across it (Ey, Ex; Hz); None: "TM".
        layer (cells): absorbing cells (CPML) at each side that is not periodic, or for each axis, or for its low and high side, as in
            `diffsim.layers.CPML`; 0: none. Good: 10 to 20; keep sources, receivers and unknown cells clear of it.
        layer_frequency (1/grid): dominant frequency of the waves in the layer; None: that of 20 cells a wavelength.
        boundary: "pec", a perfect conductor at the outermost faces, or "periodic"; for all sides or one an axis.
        conductivity: whether there is an input `sigma`.
        anisotropic: whether each component of E has a permittivity of its own, `eps_z` and so on, given where that component lies.
        poles: "drude" or "lorentz" for each pole: currents of free and bound electrons.
        regions: for each pole the cells in which it exists, bool; memory and time are spent there alone. None: all.

    Good values: 20 cells a wavelength in the densest medium, dt 0.95 of the limit, a layer of 10 to 20 cells.

    Reference: Yee (1966), IEEE Trans. Antennas Propag. 14, 302-307, doi:10.1109/TAP.1966.1138693; Roden and Gedney (2000), Microw. Opt.
        Technol. Lett. 27, 334-339, for the layer; Taflove and Hagness (2005), Computational Electrodynamics, 3rd ed., section 9.4, for
        auxiliary differential equations. Here currents and fields alternate, so that a step solves no equations.

    Raises:
        ParameterError: an argument that is not as described; by a run, a medium that is not physical.
        StabilityError: by a run, a time step beyond the stable one; the message has both.

    Example:
        import numpy as np

        import diffsim as ds

        # How much of a pulse a slab of glass lets through, and how that depends on each cell of it.
        grid = ds.Grid((300,), spacing=0.02)
        light = ds.solvers.Maxwell(grid, dt=0.019, layer=15, layer_frequency=1.0)
        line = ds.Simulation(light, sources={"Jz": [[1.01]]}, receivers={"Ez": [[5.01]]}, wrt=["eps"])
        t = 0.019 * np.arange(600) - 2.0
        pulse = (np.sin(2 * np.pi * t) * np.exp(-(t**2)))[:, None]
        glass = np.where(abs(grid.coordinates(0) - 3.0) < 0.5, 2.25, 1.0)
        value, gradient = line.value_and_grad(lambda found: (found.traces["Ez"] ** 2).sum(), {"eps": glass, "Jz": pulse}, steps=600)
        assert gradient["eps"][125:175].sum() < 0  # the denser the slab, the less passes
    """

    in_cells = ("layer",)

    time_unit = "lengths / c"

    def __init__(
        self,
        grid: Grid,
        dt: float,
        polarisation: Polarisation | None = None,
        layer: Layer = 0,
        layer_frequency: Positive | None = None,
        boundary: Wall | tuple[Wall, ...] = "pec",
        conductivity: bool = False,
        anisotropic: bool = False,
        poles: tuple[Kind, ...] = (),
        regions: Sequence[NDArray[np.bool_] | None] | None = None,
    ) -> None:
        self.grid = instance("grid", grid, Grid, "a diffsim.Grid", "write it like diffsim.Grid((100, 200), 0.05)")
        self.dt = positive("dt", dt, "give the time step in units of length over the speed of light")
        self.cell = cell = yee(polarisation, boundary, grid.ndim)
        wave = 1 / (20 * max(grid.smallest))
        if layer_frequency is not None:
            wave = positive("layer_frequency", layer_frequency, "give that of the waves")
        self.layer = layer_of(grid, self.dt, layer, 1.0, wave, taken_at(cell.walls))
        self.lossy, self.anisotropic = flag("conductivity", conductivity), flag("anisotropic", anisotropic)
        self.poles = poles_of(poles, regions, grid)
        self.electric, self.magnetic = cell.electric, cell.magnetic
        names = [f"E{c}" for c in self.electric] + [f"H{c}" for c in self.magnetic]
        self.states = {name: Variable(cell.rules(name), cell.location(name), "1") for name in names}
        for name in names:  # a memory variable for each derivative across a layer, where the component lies that it drives
            for _, axis, read in cell.curl(name):
                if any(self.layer.cells[axis]):
                    self.states[f"psi_{read}_{cell.axes[axis]}"] = self.layer.memory(axis, cell.location(name))
        for pole in self.poles:
            for name, c in pole.states(self.electric):
                place = cell.location(f"E{c}")
                self.states[name] = Variable("zero", place, region=pole.around(place, cell.walls))
        self.forcings = tuple(f"J{c}" for c in self.electric)
        eps = {f"eps_{c}": cell.location(f"E{c}") for c in self.electric} if self.anisotropic else {"eps": None}
        self.parameters = {name: Variable(cell.medium, place, "1") for name, place in eps.items()}
        self.parameters |= {"sigma": Variable(cell.medium, unit="1/T")} if self.lossy else {}
        for pole in self.poles:
            self.parameters |= {pole.wp: Variable(cell.medium, unit="1/T")}
            self.parameters |= {name: Variable(axes=(), unit="1/T") for name in pole.numbers}

    def coefficients(self, **given: Symbol) -> dict[str, Symbol]:
        found, at = {}, self.cell.at
        for c in self.electric:
            eps = given[f"eps_{c}"] if self.anisotropic else at(c, given["eps"])
            loss = 0.5 * self.dt * at(c, given["sigma"]) if self.lossy else 0.0
            found[f"push_{c}"] = self.dt / (eps + loss)
            if self.lossy:
                found[f"keep_{c}"] = (eps - loss) / (eps + loss)
            for pole in self.poles:
                found |= pole.coefficients(c, at(c, given[pole.wp] ** 2), given, self.dt)
        return found

    def step(self, **f: Symbol) -> dict[str, Symbol]:
        out: dict[str, Symbol] = {}
        for c in self.magnetic:
            out[f"H{c}"] = stage(f[f"H{c}"] - self.dt * self._curl(f"H{c}", f, out), boundary=f[f"H{c}"])
        for c in self.electric:
            E, rate = f[f"E{c}"], self._curl(f"E{c}", f | out, out) - f[f"J{c}"]
            for pole in self.poles:
                current, following = pole.advance(c, E, f, self.dt)
                rate, out = rate - current, out | following
            out[f"E{c}"] = (f[f"keep_{c}"] * E if self.lossy else E) + f[f"push_{c}"] * rate
        return out

    def _curl(self, name: str, f: Mapping[str, Symbol], out: dict[str, Symbol]) -> Symbol:
        """The curl that drives a component, along the coordinates of the layer; the next values of its memory go to `out`."""
        terms = []
        for sign, axis, read in self.cell.curl(name):
            psi, slope = f"psi_{read}_{self.cell.axes[axis]}", diff(f[read], axis)
            if psi in f:
                slope, out[psi] = self.layer.stretch(slope, axis, f[psi])
            terms.append(sign * slope)
        return add(terms)

    def check(self, parameters: Mapping[str, Array]) -> None:
        eps = [values for name, values in parameters.items() if name.startswith("eps")]
        for values in eps:
            check_sign("permittivity eps", values, "(relative)")
        if self.lossy:
            check_sign("conductivity sigma", parameters["sigma"], "(over that of the vacuum)", positive=False)
        for pole in self.poles:
            pole.check(parameters)
        least = min(float(values.min()) for values in eps)
        limit, why = light_limit(sum(4 / h**2 for h in self.grid.smallest), least, self.poles, parameters)
        check_step(self.dt, limit, f"{why}, dx = {min(self.grid.smallest):.4g}, speed of light 1", unit="")
