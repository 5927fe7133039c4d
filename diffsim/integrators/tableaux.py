"""The table of methods in time: coefficients, order, and how far they are stable.

A method with s stages from a state u and a rate f is

    u_i = u + dt Σ_j a_ij f(u_j),    u_next = u + dt Σ_j b_j f(u_j).

An implicit-explicit method adds dt Σ_j g_ij L u_j, with g_ij of `implicit`, for a linear part L, and its last stage is the next state. In
an exponential method the coefficients are functions of z = dt L: sums of c φ_k(r z), with φ_0(z) = exp(z) and φ_k(z) = (φ_(k-1)(z) -
1/(k-1)!) / z, and u itself is carried by exp(c_i z), where c_i is the time of the stage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from diffsim.base.arguments import instance
from diffsim.base.messages import shown
from diffsim.errors import ParameterError

Row: TypeAlias = Sequence["Fraction | float"]
Terms: TypeAlias = tuple[tuple[float, int, float], ...]
"""A coefficient of an exponential method: (c, k, r) for each c φ_k(r z)."""
ROUNDING = 1e-9
"""Largest difference of the sum of b from 1, for coefficients with ten digits."""


@dataclass(frozen=True)
class Tableau:
    """A Runge-Kutta method as data.

    Attributes:
        a: a row of coefficients for each stage after the first: the i-th has i of them.
        b: those of the next state, one for each stage.
        order: of the error of many steps in dt.
        implicit: of the linear part that is taken implicitly, a row for each stage, its diagonal included; (): none.
        exponential: rows of the stages after the first, and of the next state, as functions of the linear part; (): none. Then a and b are
            their values at 0.
        ssp: how many Euler steps long dt may be for the step to be a convex sum of Euler steps; 0: it is none.
        real: -dt λ up to which a decay by λ is stable, by the explicit part.
        imaginary: dt |λ| up to which an oscillation is stable, by the explicit part; 0: it grows at every dt.
        source: where the coefficients are from.
        take: when to take the method.

    Raises:
        ParameterError: the rows do not have one coefficient for each stage before, or are not finite numbers, or b does not sum to 1.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.integrators import TABLEAUX, Tableau

        # The method of Ralston, which has the least error among those of second order with two stages.
        ralston = Tableau(a=((2 / 3,),), b=(1 / 4, 3 / 4), order=2)
        decay = ds.Simulation(ds.ODE(lambda u, *, rate: (-rate * u,), 0.1, method=ralston), precision="f64")
        u = decay.run({"u": [1.0], "rate": 1.0}, steps=10).final["u"]
        assert np.isclose(u, np.exp(-1.0), atol=1e-3) and np.isclose(u, ralston.growth(-0.1) ** 10, rtol=1e-14)
        assert TABLEAUX["rk4"].stages == 4 and TABLEAUX["ssp_rk3"].ssp == 1.0
    """

    a: tuple[Row, ...]
    b: Row
    order: int
    implicit: tuple[Row, ...] = ()
    exponential: tuple[tuple[Terms, ...], ...] = ()
    ssp: float = 0.0
    real: float = 0.0
    imaginary: float = 0.0
    source: str = ""
    take: str = ""

    def __post_init__(self) -> None:
        for name in ("a", "implicit"):
            rows = _listed(getattr(self, name))
            instance(name, rows, (tuple, list), "a tuple of rows", f"write it like {name}=((1/2,), (0, 1/2))")
            object.__setattr__(self, name, tuple(_row(f"{name}[{number}]", row) for number, row in enumerate(rows)))
        object.__setattr__(self, "b", _row("b", self.b))
        lengths = [len(row) for row in (*self.a, self.b)]
        if lengths != list(range(1, len(lengths) + 1)):
            raise ParameterError(
                f"rows of a and b with {shown(lengths)} coefficients, expected one more from row to row, from 1 on; write out zeros, "
                "and leave out the diagonal"
            )
        total = math.fsum(map(float, self.b))
        if abs(total - 1) > ROUNDING:
            raise ParameterError(f"b = {shown(self.b)} sums to {total:g}, expected 1, so that a rate acts for dt; correct it")

    @property
    def stages(self) -> int:
        """How many rates a step evaluates, or, with an implicit part, how many systems it solves."""
        return len(self.b) - bool(self.implicit)

    @property
    def times(self) -> tuple[float, ...]:
        """Times of the stages, in steps."""
        return (0.0, *(float(sum(row)) for row in self.a))

    def growth(self, explicit: Any, implicit: Any = 0.0) -> Any:
        """The factor by which a step multiplies u where f(u) = λ u and L u = μ u.

        Args:
            explicit: dt λ, a number or an array, real or complex.
            implicit: dt μ, likewise. An exponential method multiplies by exp(dt μ) exactly where λ = 0.

        Returns:
            The factor, in the shape of both.
        """
        if self.exponential:
            return self._exponential_growth(explicit, implicit)
        states: list[Any] = []
        for number, row in enumerate(((), *self.a, self.b)):
            if number == len(self.a) + 1 and self.implicit:
                break
            u = 1.0 + sum(float(c) * explicit * before for c, before in zip(row, states, strict=False))
            if self.implicit:
                own = self.implicit[number]
                u = u + sum(float(g) * implicit * before for g, before in zip(own[:number], states, strict=True))
                u = u / (1 - float(own[number]) * implicit)
            states.append(u)
        return states[-1]

    def _exponential_growth(self, explicit: Any, implicit: Any) -> Any:
        from diffsim.integrators.phi import phi_of

        z = np.asarray(implicit)
        states: list[Any] = [1.0]
        for time, row in zip((*self.times[1:], 1.0), self.exponential, strict=True):
            parts = [sum(c * phi_of(k, r * z) for c, k, r in terms) for terms in row]
            states.append(np.exp(time * z) + sum(part * explicit * before for part, before in zip(parts, states, strict=True)))
        return states[-1]


def _listed(values: Any) -> Any:
    return values.tolist() if isinstance(values, np.ndarray) else values


def _row(name: str, values: Any) -> tuple[Fraction | float, ...]:
    """Coefficients as numbers of Python."""
    row = _listed(values)
    if not isinstance(row, (tuple, list)) or not all(isinstance(c, Real) and not isinstance(c, bool) and math.isfinite(c) for c in row):
        raise ParameterError(f"{name} = {shown(values)}, expected a row of finite numbers; write it like (0, 1/2), and (1/2,) for one")
    return tuple(c if isinstance(c, (int, Fraction)) else float(c) for c in row)


G = 1 - 1 / math.sqrt(2)
D = 1 - 1 / (2 * G)
HALF = Fraction(1, 2)
SIXTH = Fraction(1, 6)

TABLEAUX: dict[str, Tableau] = {
    "euler": Tableau(
        (), (Fraction(1),), 1, ssp=1.0, real=2.0, source="Hairer, Nørsett and Wanner (1993), section I.7", take="first trials"
    ),
    "midpoint": Tableau(
        ((HALF,),),
        (Fraction(0), Fraction(1)),
        2,
        real=2.0,
        source="Hairer, Nørsett and Wanner (1993), section II.1",
        take="smooth rates, two evaluations",
    ),
    "ssp_rk2": Tableau(
        ((Fraction(1),),),
        (HALF, HALF),
        2,
        ssp=1.0,
        real=2.0,
        source="Shu and Osher (1988)",
        take="fronts and limiters of second order; Heun's method",
    ),
    "ssp_rk3": Tableau(
        ((Fraction(1),), (Fraction(1, 4), Fraction(1, 4))),
        (SIXTH, SIXTH, Fraction(2, 3)),
        3,
        ssp=1.0,
        real=2.51,
        imaginary=1.73,
        source="Shu and Osher (1988)",
        take="fronts and waves: the usual choice for transport",
    ),
    "ssp_rk43": Tableau(
        ((HALF,), (HALF, HALF), (SIXTH, SIXTH, SIXTH)),
        (SIXTH, SIXTH, SIXTH, HALF),
        3,
        ssp=2.0,
        real=5.14,
        imaginary=2.15,
        source="Spiteri and Ruuth (2002)",
        take="fronts whose dt is bound by oscillation: twice the dt of ssp_rk3 for 4/3 of the work",
    ),
    "rk4": Tableau(
        ((HALF,), (Fraction(0), HALF), (Fraction(0), Fraction(0), Fraction(1))),
        (SIXTH, Fraction(1, 3), Fraction(1, 3), SIXTH),
        4,
        real=2.78,
        imaginary=2.82,
        source="Hairer, Nørsett and Wanner (1993), section II.1",
        take="smooth rates, waves and chaotic systems: the usual choice for them",
    ),
    "ssp_rk104": Tableau(
        tuple((SIXTH,) * n for n in range(1, 5)) + tuple((Fraction(1, 15),) * 5 + (SIXTH,) * n for n in range(5)),
        (Fraction(1, 10),) * 10,
        4,
        ssp=6.0,
        real=13.91,
        imaginary=4.92,
        source="Ketcheson (2008)",
        take="fronts to fourth order; long steps against diffusion",
    ),
    "dopri5": Tableau(
        (
            (Fraction(1, 5),),
            (Fraction(3, 40), Fraction(9, 40)),
            (Fraction(44, 45), Fraction(-56, 15), Fraction(32, 9)),
            (Fraction(19372, 6561), Fraction(-25360, 2187), Fraction(64448, 6561), Fraction(-212, 729)),
            (Fraction(9017, 3168), Fraction(-355, 33), Fraction(46732, 5247), Fraction(49, 176), Fraction(-5103, 18656)),
        ),
        (Fraction(35, 384), Fraction(0), Fraction(500, 1113), Fraction(125, 192), Fraction(-2187, 6784), Fraction(11, 84)),
        5,
        real=3.30,
        imaginary=0.99,
        source="Dormand and Prince (1980), without the error estimate: dt is fixed",
        take="smooth systems where many digits count",
    ),
    "imex_euler": Tableau(
        ((Fraction(1),),),
        (Fraction(1), Fraction(0)),
        1,
        implicit=((Fraction(0),), (Fraction(0), Fraction(1))),
        ssp=1.0,
        real=2.0,
        source="Ascher, Ruuth and Spiteri (1997), section 2.1",
        take="stiff linear parts, first trials",
    ),
    "imex_ars222": Tableau(
        ((G,), (D, 1 - D)),
        (D, 1 - D, 0.0),
        2,
        implicit=((0.0,), (0.0, G), (0.0, 1 - G, G)),
        real=2.0,
        source="Ascher, Ruuth and Spiteri (1997), section 2.6",
        take="stiff linear parts: the usual choice",
    ),
    "imex_ars443": Tableau(
        (
            (HALF,),
            (Fraction(11, 18), Fraction(1, 18)),
            (Fraction(5, 6), Fraction(-5, 6), HALF),
            (Fraction(1, 4), Fraction(7, 4), Fraction(3, 4), Fraction(-7, 4)),
        ),
        (Fraction(1, 4), Fraction(7, 4), Fraction(3, 4), Fraction(-7, 4), Fraction(0)),
        3,
        implicit=(
            (Fraction(0),),
            (Fraction(0), HALF),
            (Fraction(0), SIXTH, HALF),
            (Fraction(0), -HALF, HALF, HALF),
            (Fraction(0), Fraction(3, 2), Fraction(-3, 2), HALF, HALF),
        ),
        real=2.14,
        imaginary=1.56,
        source="Ascher, Ruuth and Spiteri (1997), section 2.8",
        take="stiff linear parts where digits count, and oscillation of the rest",
    ),
    "etdrk2": Tableau(
        ((Fraction(1),),),
        (HALF, HALF),
        2,
        exponential=((((1.0, 1, 1.0),),), (((1.0, 1, 1.0), (-1.0, 2, 1.0)), ((1.0, 2, 1.0),))),
        real=2.0,
        source="Cox and Matthews (2002), equation 22",
        take="stiff diagonal parts, exact where the rest is 0",
    ),
    "etdrk4": Tableau(
        ((HALF,), (Fraction(0), HALF), (Fraction(0), Fraction(0), Fraction(1))),
        (SIXTH, Fraction(1, 3), Fraction(1, 3), SIXTH),
        4,
        exponential=(
            (((0.5, 1, 0.5),),),
            ((), ((0.5, 1, 0.5),)),
            (((1.0, 1, 1.0), (-1.0, 1, 0.5)), (), ((1.0, 1, 0.5),)),
            (
                ((1.0, 1, 1.0), (-3.0, 2, 1.0), (4.0, 3, 1.0)),
                ((2.0, 2, 1.0), (-4.0, 3, 1.0)),
                ((2.0, 2, 1.0), (-4.0, 3, 1.0)),
                ((-1.0, 2, 1.0), (4.0, 3, 1.0)),
            ),
        ),
        real=2.78,
        imaginary=2.82,
        source="Cox and Matthews (2002), equations 26 to 29",
        take="stiff diagonal parts where digits count",
    ),
}
"""The methods by name, each a function of `diffsim.integrators` of this name. docs/integrators.md has them as a table."""
