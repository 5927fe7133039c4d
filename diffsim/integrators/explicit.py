"""Explicit methods of one step.

The rates of the stages are not stored. With the stages u_1, u_2, ... also dt k_0, dt k_1, ... are known but for the last, and so each stage
is a sum of those before it and of the rate at the last one,

    u_i = Σ_(j<i) α_j u_j + β dt f(u_(i-1)),    Σ α_j = 1,

whose α and β follow from the tableau. For a method of Shu and Osher that is a convex sum of Euler steps. Where stages are projected, so are
the rates with this: they are the differences of states that obey the constraint.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from diffsim.base.arguments import instance
from diffsim.errors import ParameterError
from diffsim.expr.symbol import Symbol
from diffsim.integrators.states import Project, Rate, State, Time, held, projected, rates
from diffsim.integrators.tableaux import TABLEAUX, Tableau

SMALL = 1000
"""Weights with a common denominator up to it are written as whole numbers over it."""


def runge_kutta(tableau: Tableau, rate: Rate, state: State, dt: Time, project: Project | None = None) -> dict[str, Symbol]:
    """One step of an explicit method that a tableau gives, such as one of your own.

    The stages are stored, and their rates are not.

    Args:
        tableau: of the method; each stage takes the rate of the one before, so a_(i, i-1) and the last b are not 0.
        rate: gives du/dt for each field of the state.
        state: fields of the step: states, coefficients or stages.
        dt: time step, see `euler`.
        project: brings states back to a constraint, see `euler`.

    Returns:
        The state one step later, see `euler`.

    Raises:
        ParameterError: the tableau has an implicit or exponential part, or a coefficient that is 0 and may not be.
        TraceError: as for `euler`.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian
        from diffsim.integrators import Tableau, runge_kutta

        # Heun's method of third order, in a rod.
        heun3 = Tableau(a=((1 / 3,), (0, 2 / 3)), b=(1 / 4, 0, 3 / 4), order=3)

        class Rod(ds.Equation):
            states = {"T": ds.Variable("periodic")}
            grid, dt = ds.Grid((20,), spacing=1.0), 0.1

            def step(self, T):
                return runge_kutta(heun3, lambda now: {"T": laplacian(now["T"])}, {"T": T}, self.dt)

        wave = np.cos(2 * np.pi * np.arange(20) / 20)
        T = ds.Simulation(Rod(), precision="f64").run({"T": wave}, steps=100).final["T"]
        assert np.allclose(T, np.exp(-40 * np.sin(np.pi / 20) ** 2) * wave, atol=1e-9)
    """
    instance("tableau", tableau, Tableau, "a diffsim.integrators.Tableau", 'take one of TABLEAUX, such as TABLEAUX["rk4"]')
    if tableau.implicit or tableau.exponential:
        raise ParameterError(
            "tableau has an implicit or exponential part, expected an explicit method; call the function of its name, such as imex_ars222"
        )
    states: list[dict[str, Any]] = []
    now: Any = state
    forms = _forms((*tableau.a, tableau.b))
    for number, ((weights, share), time) in enumerate(zip(forms, tableau.times, strict=True), start=1):
        slopes = rates(rate, now, time * dt if time else 0.0)
        states.append(now)
        later = {name: _sum(weights, share, [one[name] for one in states], slopes[name], dt) for name in state}
        acted = _times(share, dt)
        if number == len(forms):
            return projected(later, state, acted, project, dt)
        now = held(later, state, acted, project, tableau.times[number] * dt)
    raise AssertionError("a tableau has a stage")


@functools.cache
def _forms(rows: tuple[tuple[Any, ...], ...]) -> list[tuple[tuple[Fraction, ...], Fraction]]:
    """α of the stages before and β of the last rate, for each stage after the first and the next state.

    Raises:
        ParameterError: a β is 0.
    """
    slopes: list[list[Fraction]] = []  # dt k_j as a sum of stages
    forms = []
    for number, row in enumerate(rows, start=1):
        *before, share = (Fraction(c) for c in row)
        if not share:
            raise ParameterError(
                f"row {number} of the tableau ends in 0, expected another number: a stage takes the rate of the one before; reorder them"
            )
        weights = [Fraction(int(j == 0)) for j in range(number)]
        for c, slope in zip(before, slopes, strict=True):
            weights = [w + c * (slope[j] if j < len(slope) else 0) for j, w in enumerate(weights)]
        forms.append((tuple(weights), share))
        slopes.append([-w / share for w in weights] + [1 / share])
    return forms


def _sum(weights: Sequence[Fraction], share: Fraction, states: Sequence[Any], slope: Any, dt: Time) -> Any:
    """Σ α u + β dt f. A convex sum is that of an Euler step and the states before."""
    last = weights[-1]
    convex = last > 0 and share > 0 and all(w >= 0 for w in weights)
    if convex:
        states = [*states[:-1], states[-1] + _times(share / last, dt) * slope]
    total = _weighted([(w, u) for w, u in zip(weights, states, strict=True) if w])
    return total if convex else total + _times(share, dt) * slope


def _weighted(terms: Sequence[tuple[Fraction, Any]]) -> Any:
    """A sum of states, those with weights above 0 first: as whole numbers over a small denominator that is no power of 2."""
    scale = math.lcm(*(w.denominator for w, _ in terms))
    even = len({abs(w) for w, _ in terms}) == 1
    whole = even or (scale <= SMALL and scale & (scale - 1))
    over = abs(terms[0][0]) if even else Fraction(1, scale)
    if not whole:
        over = Fraction(1)
    total: Any = None
    for w, u in sorted(terms, key=lambda term: term[0] < 0):
        part = abs(w) / over
        term = u if part == 1 else (int(part) if part.denominator == 1 else float(part)) * u
        total = term if total is None else total + term if w > 0 else total - term
    return total if over == 1 else _times(over, total)


def _times(share: Fraction, value: Any) -> Any:
    """A part of a value; a third of it, and the like, by a division."""
    if share == 1:
        return value
    divisor = share.denominator
    return value / divisor if share.numerator == 1 and divisor & (divisor - 1) else float(share) * value


def euler(rate: Rate, state: State, dt: Time, project: Project | None = None) -> dict[str, Symbol]:
    """Forward Euler, first order: u + dt f(u).

    Args:
        rate: gives du/dt for each field of the state.
        state: fields of the step: states, coefficients or stages.
        dt: time step, seconds: a number, or a parameter, a series or a number of all cells (`axes=()`), by which runs are differentiated.
        project: a function of a state, stored, and a time in seconds. It returns the state that obeys the constraint, for each field of the
            state, and may return more fields, such as a pressure. The method calls it for each state that it makes, the last one included.
            The time is that over which the rates have acted that have not been projected: with p = ∇⁻²∇·u / dt, u - dt ∇p is the
            projection and p the pressure of these rates. `t` in it is the time of the state. A projection that is linear keeps the order of
            the method; the values to which it brings the state may change in time. One that is not linear leaves order 2 at most:
            project the result of the method instead, see docs/integrators.md. None: no constraint.

    Returns:
        The state one step later. With `project`, also the other fields of the last projection.

    Raises:
        TraceError: the rate, or the projected state, is not that of each field of the state.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian
        from diffsim.integrators import euler

        class GrayScott(ds.Equation):
            # Two substances that react and spread, by forward Euler.

            states = {"u": ds.Variable("periodic"), "v": ds.Variable("periodic")}
            parameters = {"feed": ds.Variable(axes=())}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, u, v, feed):
                def rate(now):
                    u, v = now["u"], now["v"]
                    used = u * v**2
                    return {"u": 0.16 * laplacian(u) - used + feed * (1 - u), "v": 0.08 * laplacian(v) + used - (0.06 + feed) * v}

                return euler(rate, {"u": u, "v": v}, self.dt)

        dish = ds.Simulation(GrayScott(ds.Grid((24, 24), spacing=1.0), dt=1.0))
        v = np.zeros((24, 24))
        v[10:14, 10:14] = 0.5
        start = {"u": 1.0 - v, "v": v, "feed": 0.035}
        value, gradient = dish.value_and_grad(lambda found: found.final["v"].sum(), start, steps=100, checkpoint=10)
        assert np.isfinite(gradient["feed"]) and gradient["feed"] > 0  # more feed, more of the second substance
    """
    return runge_kutta(TABLEAUX["euler"], rate, state, dt, project)


def midpoint(rate: Rate, state: State, dt: Time, project: Project | None = None) -> dict[str, Symbol]:
    """The midpoint rule, second order with two stages.

    Arguments, result and errors are those of `euler`.

    Reference: Hairer, Nørsett and Wanner (1993), Solving Ordinary Differential Equations I, section II.1, doi:10.1007/978-3-540-78862-1.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.integrators import midpoint

        class Decay(ds.Equation):
            states = {"u": ds.Variable("mirror")}
            grid, dt = ds.Grid((3,), 1.0), 0.05

            def step(self, u):
                return midpoint(lambda now: {"u": -now["u"] ** 2}, {"u": u}, self.dt)

        u = ds.Simulation(Decay(), precision="f64").run({"u": [1.0, 0.5, 0.1]}, steps=20).final["u"]
        assert np.allclose(u, 1 / (1 / np.array([1.0, 0.5, 0.1]) + 1.0), atol=1e-3)
    """
    return runge_kutta(TABLEAUX["midpoint"], rate, state, dt, project)


def ssp_rk2(rate: Rate, state: State, dt: Time, project: Project | None = None) -> dict[str, Symbol]:
    """Heun's method, second order with two stages: convex sums of Euler steps, so it has the stability properties of an Euler step of this
    dt.

    Arguments, result and errors are those of `euler`.

    Reference: Shu and Osher (1988), Efficient implementation of essentially non-oscillatory shock-capturing schemes, J. Comput. Phys. 77,
        439-471, doi:10.1016/0021-9991(88)90177-5.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import diff, minmod, muscl
        from diffsim.integrators import ssp_rk2, ssp_rk3

        class Carried(ds.Equation):
            # A pollutant in a river of 1 m/s; neither method makes a new extreme.

            states = {"c": ds.Variable("periodic", unit="kg/m³")}

            def __init__(self, grid, dt, method):
                self.grid, self.dt, self.method = grid, dt, method

            def rate(self, now):
                below, _ = muscl(now["c"], 0, minmod)
                return {"c": -diff(below, 0)}

            def step(self, c):
                return self.method(self.rate, {"c": c}, self.dt)

        spill = np.where(np.arange(50) < 10, 1.0, 0.0)
        for method in (ssp_rk2, ssp_rk3):
            c = ds.Simulation(Carried(ds.Grid((50,), spacing=1.0), 0.5, method), precision="f64").run({"c": spill}, steps=40).final["c"]
            assert c.min() > -1e-12 and c.max() < 1 + 1e-12 and np.isclose(c.sum(), 10.0)
    """
    return runge_kutta(TABLEAUX["ssp_rk2"], rate, state, dt, project)


def ssp_rk3(rate: Rate, state: State, dt: Time, project: Project | None = None) -> dict[str, Symbol]:
    """The third-order method of Shu and Osher with three stages: convex sums of Euler steps.

    Arguments, result and errors are those of `euler`.

    Reference: as for `ssp_rk2`.
    """
    return runge_kutta(TABLEAUX["ssp_rk3"], rate, state, dt, project)


def ssp_rk43(rate: Rate, state: State, dt: Time, project: Project | None = None) -> dict[str, Symbol]:
    """The third-order method of Spiteri and Ruuth with four stages: convex sums of Euler steps of half this dt, so dt may be twice as long
    as for `ssp_rk3` where convexity bounds it.

    Arguments, result and errors are those of `euler`.

    Reference: Spiteri and Ruuth (2002), A new class of optimal high-order strong-stability-preserving time discretization methods, SIAM J.
        Numer. Anal. 40, 469-491, doi:10.1137/S0036142901389025.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import diff, minmod, muscl
        from diffsim.integrators import ssp_rk43

        class Carried(ds.Equation):
            # A pollutant in a river, with steps twice as long as `ssp_rk3` may take without new extremes.

            states = {"c": ds.Variable("periodic", unit="kg/m³")}
            grid, dt = ds.Grid((50,), spacing=1.0), 1.0

            def step(self, c):
                return ssp_rk43(lambda now: {"c": -diff(muscl(now["c"], 0, minmod)[0], 0)}, {"c": c}, self.dt)

        spill = np.where(np.arange(50) < 10, 1.0, 0.0)
        c = ds.Simulation(Carried(), precision="f64").run({"c": spill}, steps=20).final["c"]
        assert c.min() > -1e-12 and c.max() < 1 + 1e-12 and np.isclose(c.sum(), 10.0)
    """
    return runge_kutta(TABLEAUX["ssp_rk43"], rate, state, dt, project)


def rk4(rate: Rate, state: State, dt: Time, project: Project | None = None) -> dict[str, Symbol]:
    """The classical Runge-Kutta method, fourth order with four stages.

    Arguments, result and errors are those of `euler`.

    Reference: Hairer, Nørsett and Wanner (1993), Solving Ordinary Differential Equations I, section II.1, doi:10.1007/978-3-540-78862-1.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import diff_centred
        from diffsim.integrators import rk4

        class Advection(ds.Equation):
            # uₜ + uₓ = 0 in a periodic channel of 1 m.

            states = {"u": ds.Variable("periodic")}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, u):
                return rk4(lambda now: {"u": -diff_centred(now["u"], 0, order=8)}, {"u": u}, self.dt)

        grid = ds.Grid((40,), spacing=1 / 40)
        u = np.sin(2 * np.pi * grid.coordinates(0))
        found = ds.Simulation(Advection(grid, dt=0.01), precision="f64").run({"u": u}, steps=100).final["u"]
        assert np.allclose(found, u, atol=1e-5)  # once around
    """
    return runge_kutta(TABLEAUX["rk4"], rate, state, dt, project)


def ssp_rk104(rate: Rate, state: State, dt: Time, project: Project | None = None) -> dict[str, Symbol]:
    """The fourth-order method of Ketcheson with ten stages: convex sums of Euler steps of a sixth of this dt.

    Arguments, result and errors are those of `euler`.

    Reference: Ketcheson (2008), Highly efficient strong stability-preserving Runge-Kutta methods with low-storage implementations, SIAM J.
        Sci. Comput. 30, 2113-2136, doi:10.1137/07070485X.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian
        from diffsim.integrators import ssp_rk104

        class Rod(ds.Equation):
            # Heat, with steps of three times the explicit limit of an Euler step.

            states = {"T": ds.Variable("periodic")}
            grid, dt = ds.Grid((20,), spacing=1.0), 1.5

            def step(self, T):
                return ssp_rk104(lambda now: {"T": laplacian(now["T"])}, {"T": T}, self.dt)

        wave = np.cos(2 * np.pi * np.arange(20) / 20)
        T = ds.Simulation(Rod(), precision="f64").run({"T": wave}, steps=10).final["T"]
        assert np.allclose(T, np.exp(-60 * np.sin(np.pi / 20) ** 2) * wave, atol=1e-6)
    """
    return runge_kutta(TABLEAUX["ssp_rk104"], rate, state, dt, project)


def dopri5(rate: Rate, state: State, dt: Time, project: Project | None = None) -> dict[str, Symbol]:
    """The fifth-order method of Dormand and Prince with six stages, at a fixed step: their error estimate is left out.

    Arguments, result and errors are those of `euler`.

    Reference: Dormand and Prince (1980), A family of embedded Runge-Kutta formulae, J. Comput. Appl. Math. 6, 19-26,
        doi:10.1016/0771-050X(80)90013-3.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import sin
        from diffsim.integrators import dopri5

        class Pendulum(ds.Equation):
            # A pendulum, to ten digits in 100 steps.

            states = {"angle": ds.Variable("mirror"), "speed": ds.Variable("mirror")}
            grid, dt = ds.Grid((1,), 1.0), 0.03

            def step(self, angle, speed):
                rate = lambda now: {"angle": now["speed"], "speed": -sin(now["angle"])}
                return dopri5(rate, {"angle": angle, "speed": speed}, self.dt)

        final = ds.Simulation(Pendulum(), precision="f64").run({"angle": [1.0], "speed": [0.0]}, steps=100).final
        assert np.isclose(0.5 * final["speed"] ** 2 - np.cos(final["angle"]), -np.cos(1.0), rtol=1e-10)
    """
    return runge_kutta(TABLEAUX["dopri5"], rate, state, dt, project)
