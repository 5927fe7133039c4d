"""Explicit time steps from a rate: a step calls one of them instead of writing its stages.

A rate is a function of the state, `rate({"u": u}) -> {"u": du_dt}`; the state is a dict of fields of the step. What a method computes in
between is stored, so that a neighbour's value is read and not computed again, and has the boundary rule and the place of the field that it
stands for. Each evaluates the rate once a stage.

    def step(self, u, s):
        return rk4(lambda now: {"u": s - div([flux(now["u"], axis) for axis in range(2)])}, {"u": u}, self.dt)

Methods that treat a part of the rate implicitly (IMEX) are not here; a step writes that part with `diffsim.solve`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from diffsim.errors import TraceError
from diffsim.expr.symbol import Symbol
from diffsim.stepping.stages import stage

State: TypeAlias = Mapping[str, Symbol]
Rate: TypeAlias = Callable[[dict[str, Symbol]], Mapping[str, Symbol]]


def euler(rate: Rate, state: State, dt: float) -> dict[str, Symbol]:
    """Forward Euler, first order: u + dt f(u).

    Args:
        rate: gives du/dt for each field of the state.
        state: fields of the step: states, coefficients or stages.
        dt: time step, seconds.

    Returns:
        The state one step later.

    Raises:
        TraceError: the rate is not that of each field of the state.
    """
    return _moved(state, _rates(rate, state), dt)


def ssp_rk2(rate: Rate, state: State, dt: float) -> dict[str, Symbol]:
    """Heun's method, second order with two stages: convex sums of Euler steps, so it keeps what an Euler step of this dt keeps.

    Arguments, result and errors are those of `euler`.

    Reference: Shu and Osher (1988), Efficient implementation of essentially non-oscillatory shock-capturing schemes, J. Comput. Phys. 77,
        439-471, doi:10.1016/0021-9991(88)90177-5.
    """
    first = _stored(euler(rate, state, dt), state)
    second = euler(rate, first, dt)
    return {name: 0.5 * (u + second[name]) for name, u in state.items()}


def ssp_rk3(rate: Rate, state: State, dt: float) -> dict[str, Symbol]:
    """The third-order method of Shu and Osher with three stages: convex sums of Euler steps.

    Arguments, result and errors are those of `euler`.

    Reference: as for `ssp_rk2`.
    """
    first = _stored(euler(rate, state, dt), state)
    second = euler(rate, first, dt)
    second = _stored({name: 0.75 * u + 0.25 * second[name] for name, u in state.items()}, state)
    third = euler(rate, second, dt)
    return {name: (u + 2 * third[name]) / 3 for name, u in state.items()}


def rk4(rate: Rate, state: State, dt: float) -> dict[str, Symbol]:
    """The classical Runge-Kutta method, fourth order with four stages.

    Arguments, result and errors are those of `euler`.

    The four rates are not stored: u + dt (k1 + 2 k2 + 2 k3 + k4) / 6 is (u1 + 2 u2 + u3 - u) / 3 + dt k4 / 6 with the intermediate states
    u1 = u + dt k1 / 2, u2 = u + dt k2 / 2 and u3 = u + dt k3.

    Reference: Hairer, Nørsett and Wanner (1993), Solving Ordinary Differential Equations I, section II.1, doi:10.1007/978-3-540-78862-1.
    """
    first = _stored(_moved(state, _rates(rate, state), 0.5 * dt), state)
    second = _stored(_moved(state, _rates(rate, first), 0.5 * dt), state)
    third = _stored(_moved(state, _rates(rate, second), dt), state)
    last = _rates(rate, third)
    return {name: (first[name] + 2 * second[name] + third[name] - u) / 3 + dt / 6 * last[name] for name, u in state.items()}


def adams_bashforth2(rate: Rate, state: State, previous_rate: State, dt: float) -> tuple[dict[str, Symbol], dict[str, Symbol]]:
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
        dt: time step, seconds.

    Returns:
        The state one step later, and the rate at this one, to be given to the next step.

    Raises:
        TraceError: the rate, or the previous one, is not that of each field of the state.

    Reference: Hairer, Nørsett and Wanner (1993), section III.1, doi:10.1007/978-3-540-78862-1.
    """
    now, before = _rates(rate, state), _matching("previous_rate", previous_rate, state)
    return _moved(state, {name: 1.5 * r - 0.5 * before[name] for name, r in now.items()}, dt), now


def leapfrog(acceleration: Rate, state: State, previous: State, dt: float) -> dict[str, Symbol]:
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
    """
    force, before = _rates(acceleration, state), _matching("previous", previous, state)
    return {name: 2 * u - before[name] + dt**2 * force[name] for name, u in state.items()}


def _moved(state: State, rates: State, dt: float) -> dict[str, Symbol]:
    return {name: u + dt * rates[name] for name, u in state.items()}


def _stored(values: State, state: State) -> dict[str, Symbol]:
    """An intermediate state, stored by the rules of the state."""
    return {name: stage(value, boundary=state[name]) for name, value in values.items()}


def _rates(rate: Rate, state: State) -> dict[str, Symbol]:
    if not isinstance(state, Mapping) or not state or not all(isinstance(u, Symbol) for u in state.values()):
        raise TraceError(f"state = {type(state).__name__}, expected a dict of fields of the step; write it like {{'u': u}}")
    return _matching("the rate", rate(dict(state)), state)


def _matching(what: str, found: Any, state: State) -> dict[str, Symbol]:
    """What was found for each field of the state, in the state's order."""
    if not isinstance(found, Mapping) or set(found) != set(state):
        got = f"entries {', '.join(map(str, found))}" if isinstance(found, Mapping) else f"a {type(found).__name__}"
        raise TraceError(
            f"{what} has {got}, expected a dict with an entry for each field of the state: {', '.join(state)}; correct the names"
        )
    return {name: found[name] for name in state}
