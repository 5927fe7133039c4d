"""Maxwell's equations in media with losses and dispersion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffsim.base.arguments import flag, instance, positive
from diffsim.expr.components import Components, vector_layout
from diffsim.expr.operators import add, diff
from diffsim.expr.vectors import curl_terms
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.edges import Layer, Stretched, layer_of, memories, taken_at
from diffsim.solvers.parts.poles import Kind, light_limit, poles_of
from diffsim.solvers.parts.stability import check_sign, check_step
from diffsim.solvers.parts.yee import Polarisation, Wall, held, to_edges, yee
from diffsim.stepping.declare.equation import Equation, Variable
from diffsim.stepping.declare.groups import Vector
from diffsim.stepping.trace.stages import stage
from diffsim.typing import Array, Positive


class Maxwell(Equation, kind="maxwell"):
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
    optional: Mapping[str, str] = {
        "sigma": "conductivity = True",
        "eps": "anisotropic = False",
        "eps_[xy]": 'anisotropic = True, and polarisation = "TE" or three axes',
        "eps_z": 'anisotropic = True, and polarisation = "TM" or three axes',
        **dict.fromkeys((r"wp[1-9]\d*", r"gamma[1-9]\d*"), 'poles = ("drude",) or ("lorentz",)'),
        r"w[1-9]\d*": 'poles = ("lorentz",)',
        **dict.fromkeys(("Ez", "Hx", "Hy", "Jz"), 'polarisation = "TM" or three axes'),
        **dict.fromkeys(("Hz", "Ex", "Ey", "Jx", "Jy"), 'polarisation = "TE" or three axes'),
        r"[JP][1-9]\d*z": 'poles, and polarisation = "TM" or three axes',
        r"[JP][1-9]\d*[xy]": 'poles, and polarisation = "TE" or three axes',
    }

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
        electric, self.walls = yee(polarisation, boundary, grid.ndim)
        self.axes = axes = "zyx"[-grid.ndim :]
        wave = 1 / (20 * max(grid.smallest))
        if layer_frequency is not None:
            wave = positive("layer_frequency", layer_frequency, "give that of the waves")
        self.layer = layer_of(grid, self.dt, layer, 1.0, wave, taken_at(self.walls))
        self.lossy, self.anisotropic = flag("conductivity", conductivity), flag("anisotropic", anisotropic)
        self.poles = poles_of(poles, regions, grid)
        E = Vector(axes, {c: held(axes, self.walls, c) for c in electric}, "edges", "1", electric)
        H = Vector(axes, held(axes, self.walls), "faces", "1", tuple(curl_terms(axes, electric)))
        self.electric, self.magnetic = E.layout.keys, H.layout.keys
        self.states = {"E": E, "H": H}
        for name, there, read in (("H", E, self.magnetic), ("E", H, self.electric)):
            slopes = [(f"{name}{r}", axes[axis], there[c]) for c, terms in curl_terms(axes, read).items() for _, axis, r in terms]
            self.states |= memories(self.layer, axes, slopes)
        for pole in self.poles:
            self.states = {**self.states, **pole.states(E, axes, self.walls)}
        self.forcings = {"J": E}
        medium = tuple("periodic" if wall == "periodic" else "mirror" for wall in self.walls)
        self.parameters = {"eps": Vector(axes, medium, "edges", "1", electric) if self.anisotropic else Variable(medium, unit="1")}
        self.parameters |= {"sigma": Variable(medium, unit="1/T")} if self.lossy else {}
        for pole in self.poles:
            self.parameters |= {pole.wp: Variable(medium, unit="1/T")}
            self.parameters |= {name: Variable(axes=(), unit="1/T") for name in pole.numbers}

    def coefficients(self, **given: Any) -> dict[str, Any]:
        eps = given["eps"] if self.anisotropic else to_edges(given["eps"], self.axes, self.electric)
        loss = 0.5 * self.dt * to_edges(given["sigma"], self.axes, self.electric) if self.lossy else 0.0
        factors = {"push": self.dt / (eps + loss)} | ({"keep": (eps - loss) / (eps + loss)} if self.lossy else {})
        for pole in self.poles:
            factors |= pole.coefficients(to_edges(given[pole.wp] ** 2, self.axes, self.electric), given, self.dt)
        return factors

    def step(self, E: Components, H: Components, J: Components, push: Components, **f: Any) -> dict[str, Any]:
        dt, axes, stretched = self.dt, self.axes, Stretched(self.layer, self.axes, f)

        def curl(name: str, u: Components) -> Components:  # along the coordinates of the layer
            terms = curl_terms(axes, u.layout.keys)
            slopes = {c: [sign * stretched(diff(u[r], axis), f"{name}{r}", axes[axis]) for sign, axis, r in terms[c]] for c in terms}
            return vector_layout(axes, tuple(slopes)).each(lambda c: add(slopes[c]))

        H = stage(H - dt * curl("E", E), boundary=H)
        rate, currents = curl("H", H) - J, dict[str, Components]()
        for pole in self.poles:
            current, following = pole.advance(E, f, dt)
            rate, currents = rate - current, currents | following
        E = (f["keep"] * E if self.lossy else E) + push * rate
        return {"E": E, "H": H} | stretched.following | currents

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
