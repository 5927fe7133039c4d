"""Limited slopes, which create no new extrema, and values at faces between cells, for conservation laws with steep fronts.

A limiter combines the differences to both neighbours, or other slopes, into one slope. Where they differ in sign it returns 0, except for
`van_albada` within its eps.

`minmod`, `superbee`, `mc` and `van_leer` have a kink where all slopes are 0, and the derivative 0 there. A state that is flat up to
round-off, such as a lake at rest, lies at this kink in every cell. There the gradient of a run is of no use: it is that of a scheme of
first order, and with noise of 1e-15 a random mixture. `van_albada` is smooth there. docs/limits.md has measured numbers.

References: Sweby (1984), High resolution schemes using flux limiters for hyperbolic conservation laws, SIAM J. Numer. Anal. 21, 995-1011,
    doi:10.1137/0721062; LeVeque (2002), Finite Volume Methods for Hyperbolic Problems, section 6.12, doi:10.1017/CBO9780511791253.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, TypeAlias

from diffsim.base.arguments import function, one_of, positive
from diffsim.errors import ShapeError
from diffsim.expr.functions import lifted, maximum, where
from diffsim.expr.metric import metric, stretched_diff
from diffsim.expr.operators import place_along
from diffsim.expr.symbol import Symbol

Limiter = Callable[[Symbol, Symbol], Symbol]
"""Two slopes -> a limited one."""
Weigh: TypeAlias = "Callable[[tuple[Symbol, ...], float], Iterator[Symbol]]"
"""(roughness of three parabolas, eps) -> their weights."""


def minmod(a: Symbol, b: Symbol, *others: Symbol) -> Symbol:
    """The smallest of two or more slopes; 0 where they differ in sign.

    Where all slopes are 0, as at a flat state, it has a kink, and its derivative there is 0: the gradient of a run is then that of a scheme
    of first order. That also holds for `superbee`, `mc` and `van_leer`. `van_albada` is smooth there.

    Args:
        a: the difference to the cell below.
        b: the difference to the cell above.
        others: further slopes.

    Returns:
        The limited difference.
    """
    smaller = where(a * b > 0, where(abs(a) < abs(b), a, b), 0.0)
    return minmod(smaller, *others) if others else smaller


def superbee(a: Symbol, b: Symbol) -> Symbol:
    """The steepest slope within the bounds of a second-order scheme: the larger one, at most twice the smaller (Roe 1985).

    Arguments, result and errors are those of `minmod`, without `others`.
    """
    a = lifted(a, b, "superbee")
    return where(abs(a) < abs(lifted(b, a, "superbee")), minmod(2 * a, b), minmod(a, 2 * b))


def mc(a: Symbol, b: Symbol) -> Symbol:
    """Monotonised central differences: (a + b) / 2, at most 2 a and 2 b (van Leer 1977).

    Arguments, result and errors are those of `minmod`, without `others`.
    """
    return minmod(0.5 * (a + b), 2 * a, 2 * b)


def van_leer(a: Symbol, b: Symbol) -> Symbol:
    """The harmonic mean 2 a b / (a + b), smooth where both slopes have one sign, with a kink where both are 0 (van Leer 1974).

    At a flat state its derivative is 0, see `minmod`; `van_albada` has gradients there.

    Arguments, result and errors are those of `minmod`, without `others`.
    """
    product = a * b
    same = product > 0
    return where(same, 2 * product, 0.0) / where(same, a + b, 1.0)


def van_albada(eps: float = 1e-3) -> Limiter:
    """The limiter of van Albada, smooth also where both slopes are 0: it is their mean there.

        φ(a, b) = (a + b) / 2 · max(0, (2 a b + eps²) / (a² + b² + eps²))

    Slopes far above eps are limited: where they differ in sign, the result is 0. Slopes far below eps are not, so new extrema are possible,
    of the size of eps.

    Args:
        eps: a slope that is negligible, in the unit of the slopes: that of the field, for `muscl` is given differences of neighbours; on a
            stretched axis that of the field per length. It must be above the round-off of the field (1e-16 of its values in f64, 1e-7 in
            f32), and below the differences that must not oscillate.

    Returns:
        The limiter, a function of the differences to the cell below and to the cell above.

    Raises:
        ParameterError: `eps` is not positive.

    Good values: 1e-3 of the largest difference between neighbours. The default is for fields with steps of about 1.

    Reference: van Albada, van Leer and Roberts (1982), A comparative study of computational methods in cosmic gas dynamics, Astron.
        Astrophys. 108, 76-84. The factor is cut at 0 here.
    """
    return partial(_van_albada, positive("eps", eps, "give a difference between neighbours that is negligible"))


def _van_albada(eps: float, a: Symbol, b: Symbol) -> Symbol:
    unit = _unit(eps)
    x, y, least = (a, b, eps**2) if unit == 1 else (unit * a, unit * b, (unit * eps) ** 2)
    return 0.5 * (a + b) * maximum((2 * x * y + least) / (x * x + y * y + least), 0.0)


def _unit(eps: float) -> float:
    """1, or where products of numbers like `eps` and their reciprocals may leave the range of f32 the power of two next to 1 / eps.

    What is computed from differences times that has the same bits, and derivatives that are finite.
    """
    return 1.0 if 1e-5 <= eps <= 1e5 else 2.0 ** -round(math.log2(eps))


def muscl(f: Symbol, axis: int, limiter: Limiter | None = None) -> tuple[Symbol, Symbol]:
    """Values at the faces from limited slopes in the cells on both sides; second order where slopes are not limited.

    Args:
        f: cell means at centres along `axis`; or values on faces, then the results lie at the centres.
        axis: the axis across the faces.
        limiter: limiter of the differences to the cell below and the cell above; None: `van_albada()`, whose eps is 1e-3 in the unit of
            `f`. Give `van_albada(eps)` for a field whose steps are far from 1. Others have no gradient that is of use at a flat state.

    Returns:
        At each upper face of the axis: the value from the cell below (for flow upwards), and the value from the cell above.

    Raises:
        ShapeError: the grid does not have the axis, or `f` does not vary along it.

    Reference: van Leer (1979), Towards the ultimate conservative difference scheme V, J. Comput. Phys. 32, 101-136,
        doi:10.1016/0021-9991(79)90145-1.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import diff, mc, minmod, muscl, superbee, van_albada, van_leer

        class Carried(ds.Equation):
            # A dissolved substance in a flow of 1 m/s, by the upwind values of limited slopes.

            states = {"c": ds.Variable("periodic", unit="kg/m³")}

            def __init__(self, grid, dt, limiter):
                self.grid, self.dt, self.limiter = grid, dt, limiter

            def rate(self, now):
                below, above = muscl(now["c"], 0, self.limiter)  # the flow goes upwards: the cell below a face counts
                return {"c": -diff(below, 0)}

            def step(self, c):
                return ds.integrators.ssp_rk2(self.rate, {"c": c}, self.dt)

        grid = ds.Grid((50,), spacing=0.02)
        step = np.where((grid.coordinates(0) > 0.3) & (grid.coordinates(0) < 0.6), 1.0, 0.0)
        for limiter in (minmod, van_leer, mc, superbee, van_albada(1e-6)):
            c = ds.Simulation(Carried(grid, 0.01, limiter), precision="f64").run({"c": step}, steps=20).final["c"]
            assert -1e-6 < c.min() and c.max() < 1 + 1e-6  # no oscillations
            assert np.isclose(c.sum(), step.sum())
    """
    axis, place = place_along(f, axis, "muscl")
    function("limiter", limiter, "diffsim.expr.minmod")
    up, down = _half_steps(f, axis, place, van_albada() if limiter is None else limiter)
    below, above = (f + up).shifted(axis, -place), (f - down).shifted(axis, 1 - place)
    return below.across(axis), above.across(axis)


def _half_steps(f: Symbol, axis: int, place: int, limiter: Limiter) -> tuple[Symbol, Symbol]:
    """Change of f from its place to half a cell above, and from half a cell below to its place, with a limited slope."""
    if f.spacing[axis] is not None:
        jump = f - f.shifted(axis, -1)
        half = 0.5 * limiter(jump, jump.shifted(axis, 1))
        return half, half
    slope = stretched_diff(f, axis).across(axis).shifted(axis, place - 1)
    half = 0.5 * limiter(slope, slope.shifted(axis, 1))
    width = metric(f, "width", axis)
    if not place:
        return width * half, width * half
    return width.across(axis).shifted(axis, 1) * half, width.across(axis) * half


def weno5(f: Symbol, axis: int, eps: float = 1e-6, weights: Literal["js", "z"] = "js") -> tuple[Symbol, Symbol]:
    """Values at the faces from five cells by weighted, essentially non-oscillatory parabolas; fifth order where `f` is smooth.

    Args:
        f: cell means at centres along `axis`; or values on faces, then the results lie at the centres.
        axis: the axis across the faces.
        eps: keeps weights finite and smooth where `f` is flat; about (1e-3 of the variation of `f`)². It must be above (the round-off of
            `f`)², else the gradient at a flat state is of no use: with 1e-40 it grew to 1e140 where 1e-6 to 1e-20 were exact.
        weights: of the parabolas: "js", those of Jiang and Shu, or "z", those of Borges et al., which differ less from the ideal ones, so
            that fronts are sharper and the order is also five where the slope is 0.

    Returns:
        At each upper face of the axis: the value from the cell below (with the two cells on each side of it), and the value from the cell
        above (the mirror image).

    Raises:
        ShapeError: the grid does not have the axis, the axis is stretched, or `f` does not vary along it.
        ParameterError: `eps` is not positive, or the weights are unknown.

    Reference: Jiang and Shu (1996), Efficient implementation of weighted ENO schemes, J. Comput. Phys. 126, 202-228,
        doi:10.1006/jcph.1996.0130; Borges, Carmona, Costa and Don (2008), An improved weighted essentially non-oscillatory scheme, J.
        Comput. Phys. 227, 3191-3211, doi:10.1016/j.jcp.2007.11.038, with power 2.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import diff, weno5

        class Burgers(ds.Equation):
            # uₜ + (u²/2)ₓ = 0 for u > 0, through the shock that it forms.

            states = {"u": ds.Variable("periodic", unit="m/s")}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def rate(self, now):
                below, above = weno5(0.5 * now["u"] ** 2, 0)
                return {"u": -diff(below, 0)}

            def step(self, u):
                return ds.integrators.ssp_rk3(self.rate, {"u": u}, self.dt)

        grid = ds.Grid((60,), spacing=1 / 60)
        u = 1.5 + np.sin(2 * np.pi * grid.coordinates(0))
        found = ds.Simulation(Burgers(grid, dt=2e-3), precision="f64").run({"u": u}, steps=150).final["u"]
        assert np.isclose(found.sum(), u.sum()) and found.max() < 2.51
    """
    axis, place = place_along(f, axis, "weno5")
    if f.spacing[axis] is None:
        raise ShapeError(f"weno5 along axis {axis}, which is stretched, expected cells of one size; use muscl, or a uniform axis")
    eps = positive("eps", eps, "give the square of a change of f that is negligible")
    weigh = {"js": _jiang_shu, "z": _borges}[one_of("weights", weights, ("js", "z"))]
    cells = [f.shifted(axis, k - place) for k in range(-2, 4)]
    return _parabolas(cells[:5], eps, weigh).across(axis), _parabolas(cells[:0:-1], eps, weigh).across(axis)


IDEAL = (0.1, 0.6, 0.3)
"""Weights with which the three parabolas are the one polynomial through five cells."""


def _parabolas(cells: list[Symbol], eps: float, weigh: Weigh) -> Symbol:
    """The value at the face between the third and the fourth of five cells in a row."""
    parabolas = _three(*cells)
    unit = _unit(math.sqrt(eps))
    a, b, c, d, e = cells if unit == 1 else [unit * cell for cell in cells]
    roughness = (
        13 / 12 * (a - 2 * b + c) ** 2 + 0.25 * (a - 4 * b + 3 * c) ** 2,
        13 / 12 * (b - 2 * c + d) ** 2 + 0.25 * (b - d) ** 2,
        13 / 12 * (c - 2 * d + e) ** 2 + 0.25 * (3 * c - 4 * d + e) ** 2,
    )
    w0, w1, w2 = weigh(roughness, eps * unit**2)
    return (w0 * parabolas[0] + w1 * parabolas[1] + w2 * parabolas[2]) / (w0 + w1 + w2)


def _three(a: Symbol, b: Symbol, c: Symbol, d: Symbol, e: Symbol) -> tuple[Symbol, Symbol, Symbol]:
    """The values of the three parabolas."""
    return (2 * a - 7 * b + 11 * c) / 6, (5 * c - b + 2 * d) / 6, (2 * c + 5 * d - e) / 6


def _jiang_shu(roughness: tuple[Symbol, ...], eps: float) -> Iterator[Symbol]:
    return (ideal / (r + eps) ** 2 for ideal, r in zip(IDEAL, roughness, strict=True))


def _borges(roughness: tuple[Symbol, ...], eps: float) -> Iterator[Symbol]:
    difference = (roughness[0] - roughness[2]) ** 2
    return (ideal * (1 + difference / (r + eps) ** 2) for ideal, r in zip(IDEAL, roughness, strict=True))
