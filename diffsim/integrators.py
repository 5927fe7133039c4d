"""Time steps from a rate: a step calls one of them instead of writing its stages.

A rate is a function of the state, `rate({"u": u}) -> {"u": du_dt}`. The state is a dict of fields of the step, vectors
and tensors among them. Intermediate states are
stored, so that a neighbour's value is read and not computed again. They have the boundary rule and the location of their field. Each
method evaluates the rate once a stage.

    def step(self, u, s):
        return rk4(lambda now: {"u": s - div([flux(now["u"], axis) for axis in range(2)])}, {"u": u}, self.dt)

If a part of the rate is linear and stiff, such as diffusion, an implicit-explicit method treats that part implicitly. It solves one linear
system a stage for each field with such a part (`diffsim.solve`):

    def step(self, u, nu):
        return imex_ars222(lambda now: {"u": -advection(now["u"])}, {"u": lambda x: nu * laplacian(x)}, {"u": u}, self.dt)

If the state obeys a constraint, such as a velocity without divergence, `project=` brings each state that a method makes back to it:

    def step(self, v, p, nu):
        def rate(now):
            return {"v": nu * viscous(now["v"]) - advection(now["v"])}

        def project(now, dt):  # dt: the time over which the pressure acts
            p = ds.solve(laplacian, div(now["v"]) / dt, boundary="periodic")
            return {"v": now["v"] - dt * grad(p), "p": p}

        return ssp_rk3(rate, {"v": v}, self.dt, project=project)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from diffsim.errors import TraceError
from diffsim.expr.components import Components
from diffsim.expr.symbol import Symbol
from diffsim.linear import Method
from diffsim.stepping.stages.solve import solve
from diffsim.stepping.trace.stages import stage

__all__ = ["adams_bashforth2", "euler", "imex_ars222", "imex_euler", "leapfrog", "rk4", "ssp_rk2", "ssp_rk3"]

State: TypeAlias = Mapping[str, Any]
Rate: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any]]
Operators: TypeAlias = Mapping[str, Callable[[Symbol], Symbol]]
IMPLICIT_SHARE = 1 - 1 / math.sqrt(2)
"""g of `imex_ars222`, by which its implicit part is L-stable: the share of the step over which the last rate of the operators acts."""
Project: TypeAlias = Callable[[dict[str, Any], Any], Mapping[str, Any]]
"""(state, dt) -> the state that obeys the constraint, and any other fields, such as a pressure."""
Time: TypeAlias = "float | Symbol"
"""A time step: a number, or a number of the run, such as a parameter or a series with `axes=()`."""


def euler(rate: Rate, state: State, dt: Time, project: Project | None = None) -> dict[str, Symbol]:
    """Forward Euler, first order: u + dt f(u).

    Args:
        rate: gives du/dt for each field of the state.
        state: fields of the step: states, coefficients or stages.
        dt: time step, seconds: a number, or a parameter, a series or a number of all cells (`axes=()`), by which runs are differentiated.
        project: a function of a state, stored, and a time in seconds. It returns the state that obeys the constraint, for each field of the
            state, and may return more fields, such as a pressure. The method calls it for each state that it makes, the last one included.
            The time is that over which the rates have acted that have not been projected: with p = ∇⁻²∇·u / dt, u - dt ∇p is the
            projection and p the pressure of these rates. A projection that is linear and does not change in time keeps the order of the
            method. None: no constraint.

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
    return _projected(_moved(state, _rates(rate, state), dt), state, dt, project)


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
    first = _stage(euler(rate, state, dt), state, dt, project)
    second = euler(rate, first, dt)
    return _projected({name: 0.5 * (u + second[name]) for name, u in state.items()}, state, 0.5 * dt, project)


def ssp_rk3(rate: Rate, state: State, dt: Time, project: Project | None = None) -> dict[str, Symbol]:
    """The third-order method of Shu and Osher with three stages: convex sums of Euler steps.

    Arguments, result and errors are those of `euler`.

    Reference: as for `ssp_rk2`.
    """
    first = _stage(euler(rate, state, dt), state, dt, project)
    second = euler(rate, first, dt)
    second = _stage({name: 0.75 * u + 0.25 * second[name] for name, u in state.items()}, state, 0.25 * dt, project)
    third = euler(rate, second, dt)
    return _projected({name: (u + 2 * third[name]) / 3 for name, u in state.items()}, state, 2 / 3 * dt, project)


def rk4(rate: Rate, state: State, dt: Time, project: Project | None = None) -> dict[str, Symbol]:
    """The classical Runge-Kutta method, fourth order with four stages.

    Arguments, result and errors are those of `euler`.

    The four rates are not stored: u + dt (k1 + 2 k2 + 2 k3 + k4) / 6 is (u1 + 2 u2 + u3 - u) / 3 + dt k4 / 6 with the intermediate states
    u1 = u + dt k1 / 2, u2 = u + dt k2 / 2 and u3 = u + dt k3.

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
    first = _stage(_moved(state, _rates(rate, state), 0.5 * dt), state, 0.5 * dt, project)
    second = _stage(_moved(state, _rates(rate, first), 0.5 * dt), state, 0.5 * dt, project)
    third = _stage(_moved(state, _rates(rate, second), dt), state, dt, project)
    last = _rates(rate, third)
    sums = {name: (first[name] + 2 * second[name] + third[name] - u) / 3 + dt / 6 * last[name] for name, u in state.items()}
    return _projected(sums, state, dt / 6, project)


def adams_bashforth2(
    rate: Rate, state: State, previous_rate: State, dt: Time, project: Project | None = None
) -> tuple[dict[str, Symbol], dict[str, Symbol]]:
    """The second-order method of Adams and Bashforth: u + dt (3 f(u) - f(u_prev)) / 2, with one evaluation of the rate.

    The rate of the step before is a state of the equation. Let `initial` give it the rate of the initial state: then the first step is
    an Euler step, and the result of many steps is of second order. (Left out of the inputs it starts at 0, which makes the first step
    half as long again.)

        def step(self, u, u_rate):
            state, rates = adams_bashforth2(self.rate, {"u": u}, {"u": u_rate}, self.dt)
            return {"u": state["u"], "u_rate": rates["u"]}

    Args:
        rate: gives du/dt for each field of the state.
        state: fields of the step.
        previous_rate: the rate of each, one step earlier.
        dt: time step, seconds, see `euler`; the same for all steps.
        project: brings the state back to a constraint, see `euler`. The rates are those before it.

    Returns:
        The state one step later, and the rate at this one, to be given to the next step.

    Raises:
        TraceError: the rate, or the previous one, is not that of each field of the state.

    Reference: Hairer, Nørsett and Wanner (1993), section III.1, doi:10.1007/978-3-540-78862-1.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian
        from diffsim.integrators import adams_bashforth2

        class Diffusion(ds.Equation):
            # Tₜ = κ ∇²T, whose rate is evaluated once a step.

            states = {"T": ds.Variable("periodic"), "T_rate": ds.Variable("periodic")}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, T, T_rate):
                state, rates = adams_bashforth2(lambda now: {"T": laplacian(now["T"])}, {"T": T}, {"T": T_rate}, self.dt)
                return {"T": state["T"], "T_rate": rates["T"]}

        grid = ds.Grid((20,), spacing=1.0)
        wave, decay = np.cos(2 * np.pi * np.arange(20) / 20), -4 * np.sin(np.pi / 20) ** 2
        start = {"T": wave, "T_rate": decay * np.exp(-decay * 0.1) * wave}
        T = ds.Simulation(Diffusion(grid, dt=0.1), precision="f64").run(start, steps=100).final["T"]
        assert np.allclose(T, np.exp(decay * 10.0) * wave, atol=1e-4)
    """
    now, before = _rates(rate, state), _matching("previous_rate", previous_rate, state)
    moved = _moved(state, {name: 1.5 * r - 0.5 * before[name] for name, r in now.items()}, dt)
    return _projected(moved, state, dt, project), now


def leapfrog(acceleration: Rate, state: State, previous: State, dt: Time) -> dict[str, Symbol]:
    """The second-order leap-frog for u_tt = f(u): 2 u - u_prev + dt² f(u).

        def step(self, u, u_prev):
            return leapfrog(self.acceleration, {"u": u}, {"u": u_prev}, self.dt) | {"u_prev": u}

    Args:
        acceleration: gives d²u/dt² for each field of the state.
        state: fields of the step.
        previous: the same one step earlier: states of the equation whose next values are those of `state`. They take no memory of
            their own.
        dt: time step, seconds.

    Returns:
        The state one step later.

    Raises:
        TraceError: the acceleration, or the previous state, is not that of each field of the state.

    Reference: Hairer, Lubich and Wanner (2003), Geometric numerical integration illustrated by the Störmer-Verlet method, Acta Numerica
        12, 399-450, doi:10.1017/S0962492902000144.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian
        from diffsim.integrators import leapfrog

        class String(ds.Equation):
            # A string between two fixed ends, uₜₜ = c² uₓₓ.

            states = {"u": ds.Variable(ds.Dirichlet(0.0), unit="m"), "u_prev": ds.Variable(ds.Dirichlet(0.0), unit="m")}

            def __init__(self, grid, dt, c):
                self.grid, self.dt, self.c = grid, dt, c

            def step(self, u, u_prev):
                return leapfrog(lambda now: {"u": self.c**2 * laplacian(now["u"])}, {"u": u}, {"u": u_prev}, self.dt) | {"u_prev": u}

        grid = ds.Grid((50,), spacing=0.02)
        pulled = 1e-3 * np.sin(np.pi * (grid.coordinates(0) + 0.01))
        string = ds.Simulation(String(grid, dt=5e-5, c=200.0), precision="f64")
        u = string.run({"u": pulled, "u_prev": pulled}, steps=100).final["u"]  # 5 ms: half a period of 200 m/s over 2 · 1 m
        assert np.allclose(u, -pulled, atol=3e-5)
    """
    force, before = _rates(acceleration, state), _matching("previous", previous, state)
    return {name: 2 * u - before[name] + dt**2 * force[name] for name, u in state.items()}


def imex_euler(
    rate: Rate,
    operators: Operators,
    state: State,
    dt: Time,
    method: Method = "auto",
    tolerance: float | None = None,
    project: Project | None = None,
) -> dict[str, Symbol]:
    """Forward Euler for a rate f and backward Euler for linear operators L, first order: (1 - dt L) u_next = u + dt f(u).

    Args:
        rate: gives the explicit part of du/dt for each field of the state.
        operators: field -> L: the implicit part of its du/dt, a linear function of this field whose weights may be any expressions of
            the step. It is taken with the boundary rules of the field; of a vector, for each component. Fields that are left out have no
            implicit part.
        state: fields of the step: states, coefficients or stages.
        dt: time step, seconds, see `euler`. Only f limits it, as long as the eigenvalues of L have no positive real part.
        method: method for the linear systems, see `diffsim.solve`.
        tolerance: tolerance of the linear systems, see `diffsim.solve`.
        project: brings states back to a constraint after each system, see `euler`. Where it commutes with L, as on a periodic grid, the
            order remains. Between walls, let f have the pressure gradient of the step before, and add what `project` finds, as
            `ds.solvers.NavierStokes` does.

    Returns:
        The state one step later.

    Raises:
        TraceError: the rate is not that of each field of the state, an operator is not that of one, or is not linear.

    Reference: Ascher, Ruuth and Spiteri (1997), Implicit-explicit Runge-Kutta methods for time-dependent partial differential equations,
        Appl. Numer. Math. 25, 151-167, section 2.1, doi:10.1016/S0168-9274(97)00056-1.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian
        from diffsim.integrators import imex_ars222, imex_euler

        class Fisher(ds.Equation):
            # uₜ = D ∇²u + u (1 - u): diffusion is taken implicitly, so that it does not limit the time step.

            states = {"u": ds.Variable("mirror")}

            def __init__(self, grid, dt, method):
                self.grid, self.dt, self.method = grid, dt, method

            def step(self, u):
                spread = {"u": lambda x: 0.5 * laplacian(x)}
                return self.method(lambda now: {"u": now["u"] * (1 - now["u"])}, spread, {"u": u}, self.dt)

        grid = ds.Grid((100,), spacing=0.1)  # an explicit step would need dt < 0.01
        start = {"u": np.where(grid.coordinates(0) < 1.0, 1.0, 0.0)}
        found = [ds.Simulation(Fisher(grid, 0.05, m), precision="f64").run(start, steps=60).final["u"] for m in (imex_euler, imex_ars222)]
        assert found[0].max() < 1 + 1e-9 and abs(found[0] - found[1]).max() < 0.05
    """
    _require_operators(operators, state)
    return _projected(_implicit(euler(rate, state, dt), operators, state, dt, method, tolerance), state, dt, project)


def imex_ars222(
    rate: Rate,
    operators: Operators,
    state: State,
    dt: Time,
    method: Method = "auto",
    tolerance: float | None = None,
    project: Project | None = None,
) -> dict[str, Symbol]:
    """The second-order method of Ascher, Ruuth and Spiteri with two rates and two systems a step, both with 1 - g dt L.

    Arguments, result and errors are those of `imex_euler`. The implicit part damps all that decays fast (it is L-stable). With
    g = 1 - 1/√2 and d = 1 - 1 / (2 g):

        (1 - g dt L) u1 = u + g dt f(u)
        (1 - g dt L) u_next = u + dt (d f(u) + (1 - d) f(u1)) + (1 - g) dt L u1

    f(u) and L u1 are read off the first right side r = u + g dt f(u), which is stored: g dt L u1 = u1 - r.

    Reference: as for `imex_euler`, section 2.6.
    """
    _require_operators(operators, state)
    g = IMPLICIT_SHARE
    d = 1 - 1 / (2 * g)
    right = _stored(euler(rate, state, g * dt), state)
    first = _stored(_implicit(right, operators, state, g * dt, method, tolerance), state)
    rates = _rates(rate, first if project is None else _stored(_constrained(first, state, g * dt, project), state))
    last = {
        name: u + d / g * (right[name] - u) + (1 - d) * dt * rates[name] + (1 - g) / g * (first[name] - right[name])
        for name, u in state.items()
    }
    return _projected(_implicit(last, operators, state, g * dt, method, tolerance), state, dt, project)


def _implicit(right: State, operators: Operators, state: State, dt: Time, method: Method, tolerance: float | None) -> dict[str, Symbol]:
    """Solutions of (1 - dt L) u = right; fields without an L are their right sides."""

    def solved(name: str, side: Any, field: Any) -> Any:
        if isinstance(side, Components):
            side = side.over(field.layout.axes)
            return side.each(lambda *index: solved(name, side[index], field[index]))
        return solve(lambda x: x - dt * operators[name](x), side, field, method, tolerance)

    return {name: solved(name, side, state[name]) if name in operators else side for name, side in right.items()}


def _require_operators(operators: Operators, state: State) -> None:
    if not isinstance(operators, Mapping) or not operators or not all(map(callable, operators.values())):
        raise TraceError(
            f"operators = {type(operators).__name__}, expected a dict of linear functions of a field; write it like "
            "{'u': lambda x: nu * laplacian(x)}"
        )
    unknown = set(operators) - set(state)
    if unknown:
        raise TraceError(
            f"operators has entries {', '.join(map(str, operators))}, expected fields of the state: {', '.join(state)}; correct the names"
        )


def _moved(state: State, rates: State, dt: Time) -> dict[str, Symbol]:
    return {name: u + dt * rates[name] for name, u in state.items()}


def _stored(values: State, state: State) -> dict[str, Symbol]:
    """An intermediate state, stored with the rules of the state."""
    return {name: stage(value, boundary=state[name]) for name, value in values.items()}


def _stage(values: State, state: State, dt: Time, project: Project | None) -> dict[str, Symbol]:
    """An intermediate state, stored, that obeys the constraint if there is one."""
    stored = _stored(values, state)
    if project is None:
        return stored
    obeying = _constrained(stored, state, dt, project)
    return {name: u if u is stored[name] else stage(u, boundary=state[name]) for name, u in obeying.items()}  # others are stored already


def _projected(values: State, state: State, dt: Time, project: Project | None) -> dict[str, Symbol]:
    """The last state of a step, and other fields of its projection if there is one."""
    return dict(values) if project is None else _constrained(_stored(values, state), state, dt, project, others=True)


def _constrained(stored: State, state: State, dt: Time, project: Project, others: bool = False) -> dict[str, Symbol]:
    """The projection of a stored state; `others`: with the other fields that it has."""
    projected = project(dict(stored), dt)
    named = isinstance(projected, Mapping) and set(state) <= set(projected)
    own = _matching("the projected state", {name: projected[name] for name in state} if named else projected, state)
    return {**projected, **own} if others else own


def _rates(rate: Rate, state: State) -> dict[str, Symbol]:
    if not isinstance(state, Mapping) or not state or not all(isinstance(u, (Symbol, Components)) for u in state.values()):
        raise TraceError(f"state = {type(state).__name__}, expected a dict of fields of the step; write it like {{'u': u}}")
    return _matching("the rate", rate(dict(state)), state)


def _matching(what: str, fields: Any, state: State) -> dict[str, Symbol]:
    """The entries for each field of the state, in the state's order."""
    if not isinstance(fields, Mapping) or set(fields) != set(state):
        got = f"entries {', '.join(map(str, fields))}" if isinstance(fields, Mapping) else f"a {type(fields).__name__}"
        raise TraceError(
            f"{what} has {got}, expected a dict with an entry for each field of the state: {', '.join(state)}; correct the names"
        )
    return {name: fields[name] for name in state}
