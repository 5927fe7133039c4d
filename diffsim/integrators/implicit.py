"""Implicit-explicit methods: a linear part of each field is taken implicitly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias

from diffsim.base import arguments
from diffsim.base.messages import shown
from diffsim.errors import TraceError
from diffsim.expr.components import Components
from diffsim.expr.symbol import Symbol
from diffsim.integrators.explicit import euler
from diffsim.integrators.states import Project, Rate, State, Time, constrained, projected, rates, stored, timed
from diffsim.integrators.tableaux import TABLEAUX
from diffsim.linear import Method
from diffsim.stepping.stages.solve import solve

Operators: TypeAlias = Mapping[str, Callable[[Symbol], Symbol]]
IMPLICIT_SHARE = float(TABLEAUX["imex_ars222"].implicit[1][1])
"""g of `imex_ars222`: the share of the step over which the last rate of the operators acts."""


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
            the step; `t` in them is the time at which the method takes L. It is taken with the boundary rules of the field; of a vector,
            for each component. Fields that are left out have no implicit part.
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
    return projected(_implicit(euler(rate, state, dt), operators, state, dt, dt, method, tolerance), state, dt, project, dt)


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
    g, d = IMPLICIT_SHARE, float(TABLEAUX["imex_ars222"].b[0])
    right = stored(euler(rate, state, g * dt), state)
    first = stored(_implicit(right, operators, state, g * dt, g * dt, method, tolerance), state)
    slopes = rates(rate, first if project is None else stored(constrained(first, state, g * dt, project, g * dt), state), g * dt)
    last = {
        name: u + d / g * (right[name] - u) + (1 - d) * dt * slopes[name] + (1 - g) / g * (first[name] - right[name])
        for name, u in state.items()
    }
    return projected(_implicit(last, operators, state, g * dt, dt, method, tolerance), state, dt, project, dt)


def imex_ars443(
    rate: Rate,
    operators: Operators,
    state: State,
    dt: Time,
    method: Method = "auto",
    tolerance: float | None = None,
    project: Project | None = None,
) -> dict[str, Symbol]:
    """The third-order method of Ascher, Ruuth and Spiteri with four rates and four systems a step, all with 1 - dt L / 2.

    Arguments, result and errors are those of `imex_euler`. It is L-stable, and its explicit part is stable for oscillations up to
    dt |λ| = 1.56.

    Reference: as for `imex_euler`, section 2.8.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian
        from diffsim.integrators import imex_ars443

        class Fisher(ds.Equation):
            # uₜ = ∇²u + u (1 - u), with steps ten times as long as an explicit method could take.

            states = {"u": ds.Variable("mirror")}
            grid, dt = ds.Grid((50,), spacing=0.1), 0.05

            def step(self, u):
                return imex_ars443(lambda now: {"u": now["u"] * (1 - now["u"])}, {"u": laplacian}, {"u": u}, self.dt)

        u = ds.Simulation(Fisher(), precision="f64").run({"u": np.full(50, 0.1)}, steps=20).final["u"]
        assert np.allclose(u, 1 / (1 + 9 * np.exp(-1.0)), atol=1e-6)
    """
    _require_operators(operators, state)
    tableau = TABLEAUX["imex_ars443"]
    pushes: list[dict[str, Any]] = [stored(rates(rate, state), state)]
    drags: list[dict[str, Any]] = []  # dt L u of the stages after the first, from u and the right side that it solves
    for number, row in enumerate(tableau.a, start=1):
        own = [float(g) for g in tableau.implicit[number]]
        right = stored(
            {
                name: u
                + dt * _combined(row, [push[name] for push in pushes])
                + (_combined(own[1:number], [drag[name] for drag in drags]) if name in operators and number > 1 else 0.0)
                for name, u in state.items()
            },
            state,
        )
        time = tableau.times[number] * dt
        now = _implicit(right, operators, state, own[number] * dt, time, method, tolerance)
        if number == len(tableau.a):
            return projected(now, state, dt, project, dt)
        drags.append({name: (now[name] - right[name]) / own[number] for name in operators})
        obeying = now if project is None else constrained(stored(now, state), state, time, project, time)
        pushes.append(stored(rates(rate, stored(obeying, state), time), state))
    raise AssertionError("a tableau has a stage")


def _combined(weights: Sequence[Any], fields: Sequence[Any]) -> Any:
    """Σ w f, without what is times 0."""
    terms = [float(w) * f for w, f in zip(weights, fields, strict=True) if w]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _implicit(
    right: State, operators: Operators, state: State, dt: Time, after: Time, method: Method, tolerance: float | None
) -> dict[str, Symbol]:
    """Solutions of (1 - dt L) u = right, with L at a time `after` the beginning of the step; fields without an L are their right sides."""

    def applied(name: str, x: Symbol) -> Any:
        result = timed("operator", state, after, lambda: arguments.without_axes(operators[name](x)))
        if not isinstance(result, (Symbol, Real)):
            raise TraceError(f"the operator of {name} gave {shown(result)}, expected an expression of its argument; return that")
        return result

    def solved(name: str, side: Any, field: Any) -> Any:
        if isinstance(side, Components):
            side = side.over(field.layout.axes)
            return side.each(lambda *index: solved(name, side[index], field[index]))
        return solve(lambda x: x - dt * applied(name, x), side, field, method, tolerance)

    return {name: solved(name, side, state[name]) if name in operators else side for name, side in right.items()}


def _require_operators(operators: Operators, state: State) -> None:
    if not isinstance(operators, Mapping) or not operators or not all(map(callable, operators.values())):
        wrong = [name for name, each in operators.items() if not callable(each)] if isinstance(operators, Mapping) else []
        got = f"operators of {', '.join(map(str, wrong))} = no function" if wrong else f"operators = {shown(operators)}"
        raise TraceError(f"{got}, expected a dict of linear functions of a field; write it like {{'u': lambda x: nu * laplacian(x)}}")
    for name, operator in operators.items():
        arguments.require_takes(f"the operator of {name}", operator, "u")
    unknown = set(operators) - set(state)
    if unknown:
        raise TraceError(
            f"operators has entries {', '.join(map(str, operators))}, expected fields of the state: {', '.join(state)}; correct the names"
        )
