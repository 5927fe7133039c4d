"""Stiffness and density of elastic media on a staggered grid: from wave speeds, averaged to faces and edges, with checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffsim.errors import ParameterError
from diffsim.expr.components import Layout, vector_layout
from diffsim.expr.functions import minimum, sqrt, where
from diffsim.expr.operators import interpolate
from diffsim.expr.symbol import Symbol
from diffsim.solvers.parts.stability import check_sign
from diffsim.solvers.parts.staggered import edges_of
from diffsim.typing import Array

STEEPEST = 20
"""Largest contrast of density within the reach of a difference above order 2."""
ROUND_OFF = 1e-9
"""Relative, of moduli: a fluid may have epsilon = delta."""


def moduli_of(axes: str, vp: Symbol, vs: Symbol, rho: Symbol, thomsen: Mapping[str, Symbol]) -> dict[str, Any]:
    """The coefficients of a step: moduli at centres, the vector `b` of buoyancies at faces, and the tensor `mu` at edges alone.

    Args:
        axes: letters of the axes of the grid.
        vp, vs, rho, thomsen: as in `stiffness`.
    """
    c, symmetry, edges = stiffness(vp, vs, rho, thomsen), axes[0] if thomsen else "", edges_of(axes)

    def shear(i: str, j: str) -> Symbol:
        edge = [axes.index(i), axes.index(j)]
        return harmonic(c["c66" if "c66" in c and 0 not in edge else "c55"], edge)

    moduli: dict[str, Any] = {name: c[name] for name in (normal_modulus(i, j, symmetry) for i in axes for j in axes)}
    return moduli | {"mu": Layout(axes, 2, tuple(edges)).each(shear), "b": vector_layout(axes).each(lambda i: buoyancy(rho, axes.index(i)))}


def stiffness(vp: Symbol, vs: Symbol, rho: Symbol, thomsen: Mapping[str, Symbol]) -> dict[str, Symbol]:
    """The moduli by Voigt's numbers, Pa, at centres; 3 is the symmetry axis.

    Args:
        vp, vs: wave speeds along the symmetry axis, m/s.
        rho: density, kg/m³.
        thomsen: epsilon and delta, in three dimensions also gamma; empty: the medium is isotropic.

    Reference: Thomsen (1986), Weak elastic anisotropy, Geophysics 51, 1954-1966, equations 8, 9 and 17, which hold for strong anisotropy.
    """
    p, s = vp * vp, vs * vs
    if not thomsen:
        return {"c11": rho * p, "c12": rho * (p - 2 * s), "c55": rho * s}
    epsilon, delta = thomsen["epsilon"], thomsen["delta"]
    moduli = {"c33": rho * p, "c11": rho * p * (1 + 2 * epsilon), "c55": rho * s}
    moduli["c13"] = rho * (sqrt((p - s) * (p * (1 + 2 * delta) - s)) - s)
    if "gamma" in thomsen:
        moduli["c66"] = rho * s * (1 + 2 * thomsen["gamma"])
        moduli["c12"] = moduli["c11"] - 2 * moduli["c66"]
    return moduli


def normal_modulus(a: str, b: str, symmetry: str) -> str:
    """The name, by Voigt's numbers, of the modulus that makes the normal stress along a of strain along b.

    Args:
        a, b: letters of axes.
        symmetry: that of the symmetry axis; "": the medium is isotropic.
    """
    if a == b:
        return "c33" if a == symmetry else "c11"
    return "c13" if symmetry in (a, b) else "c12"


def smaller(f: Symbol, axis: int) -> Symbol:
    """The smaller of the values on both sides of a face."""
    return minimum(f, f.shifted(axis, 1)).across(axis)


def buoyancy(rho: Symbol, axis: int) -> Symbol:
    """1 / density on the faces of an axis, from the mean of the two cells; 0 between cells of air."""
    return _inverse(interpolate(rho, axis))


def harmonic(mu: Symbol, axes: Sequence[int]) -> Symbol:
    """The harmonic mean on the edges of two axes; 0 where one of the four cells is 0."""
    inverse, least = _inverse(mu), mu
    for axis in axes:
        inverse, least = interpolate(inverse, axis), smaller(least, axis)
    return where(least > 0, _inverse(inverse), 0.0)


def _inverse(f: Symbol) -> Symbol:
    """1 / f where f > 0, else 0."""
    return where(f > 0, 1 / where(f > 0, f, 1.0), 0.0)


def check_solid(parameters: Mapping[str, Array], surface: bool) -> None:
    """Raise `ParameterError` unless speeds and densities are those of an elastic medium; with a surface, also of air."""
    vp, vs, rho = (parameters[name] for name in ("vp", "vs", "rho"))
    if not surface and rho.min() == 0:
        raise ParameterError("density rho has a value of 0 kg/m³, expected positive everywhere; for air give surface=True")
    check_sign("density rho", rho, "kg/m³", positive=not surface)
    matter = rho > 0
    if not matter.any():
        raise ParameterError("density rho is 0 everywhere, expected some matter; correct the data")
    check_sign("speed of P waves vp", vp[matter], "m/s")
    check_sign("speed of S waves vs", vs[matter], "m/s", positive=False)
    ratio = float((vs[matter] / vp[matter]).max())
    if ratio >= 0.75**0.5:
        raise ParameterError(f"vs / vp reaches {ratio:.4g}, expected less than 0.866, where a solid resists compression; correct the data")
    if "delta" in parameters:
        p, s = vp[matter] ** 2, vs[matter] ** 2
        least = float((p * (1 + 2 * parameters["delta"][matter]) - s).min()), float(parameters["epsilon"][matter].min())
        if least[0] < 0 or least[1] <= -0.5:
            raise ParameterError(
                f"epsilon falls to {least[1]:.4g} and (1 + 2 delta) vp² - vs² to {least[0]:.4g} m²/s², expected more than -0.5 and at "
                "least 0; correct the data"
            )
        _check_convex(parameters, matter)


def _check_convex(parameters: Mapping[str, Array], matter: NDArray[np.bool_]) -> None:
    """Raise `ParameterError` where some strain of an anisotropic medium gives energy instead of taking it."""
    p, s = parameters["vp"][matter] ** 2, parameters["vs"][matter] ** 2
    delta, c11 = parameters["delta"][matter], p * (1 + 2 * parameters["epsilon"][matter])
    c13 = np.sqrt((p - s) * (p * (1 + 2 * delta) - s)) - s
    least = c11
    if "gamma" in parameters:
        gamma = parameters["gamma"][matter]
        if gamma.min() <= -0.5:
            raise ParameterError(f"gamma falls to {gamma.min():.4g}, expected more than -0.5; correct the data")
        least = c11 - s * (1 + 2 * gamma)
    if (c13**2 > p * least * (1 + ROUND_OFF)).any():
        raise ParameterError(
            "epsilon and delta of some cells are those of no elastic medium: c13² exceeds c33 times the stiffness across the axis, "
            "expected less; lower delta or raise epsilon (in a fluid delta is at most epsilon)"
        )


def check_contrast(rho: Array, order: int) -> None:
    """Raise `ParameterError` where densities within the reach of a stencil differ so much that the stable step is below its bound.

    By the eigenvalues of small media, a contrast of 20 raises the largest frequency by 0.6 % at order 4 and 1.5 % at order 8, one of 833
    by 26 % and 64 %. At order 2 none does.
    """
    if order == 2 or rho.max() <= STEEPEST * rho.min(where=rho > 0, initial=np.inf):
        return
    from scipy.ndimage import maximum_filter, minimum_filter

    heaviest, lightest = maximum_filter(rho, order + 1), minimum_filter(np.where(rho > 0, rho, np.inf), order + 1)
    ratio = float((heaviest / lightest)[rho > 0].max())
    if ratio > STEEPEST:
        raise ParameterError(
            f"density rho differs by a factor of {ratio:.4g} within {order // 2} cells, expected at most {STEEPEST} with order "
            f"{order}; give air as rho = 0 with surface=True, or take order 2"
        )


def largest_eigenvalue(parameters: Mapping[str, Array], numbers: Sequence[float]) -> float:
    """The largest eigenvalue of the discrete wave operator, 1/s², over uniform media of each cell.

    Args:
        parameters: of the medium.
        numbers: the largest wave number of the differences along each axis, 1/m. The first is that along the symmetry axis.
    """
    matter = parameters["rho"] > 0
    p, s = parameters["vp"][matter] ** 2, parameters["vs"][matter] ** 2
    down, across = numbers[0] ** 2, sum(number**2 for number in numbers[1:])
    if "delta" not in parameters:
        return float(p.max()) * (down + across)
    epsilon, delta = parameters["epsilon"][matter], parameters["delta"][matter]
    a, b = p * (1 + 2 * epsilon) * across + s * down, s * across + p * down  # the matrix of Christoffel of qP and qSV
    coupling = (p - s) * (p * (1 + 2 * delta) - s) * across * down
    largest = float((0.5 * (a + b) + np.sqrt(0.25 * (a - b) ** 2 + coupling)).max())
    if "gamma" in parameters:
        largest = max(largest, float((s * ((1 + 2 * parameters["gamma"][matter]) * across + down)).max()))
    return largest
