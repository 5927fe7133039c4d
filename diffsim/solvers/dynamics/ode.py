"""Systems of ordinary differential equations, without a grid."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

from diffsim.base.arguments import function, number, one_of, shown, whole
from diffsim.errors import ParameterError
from diffsim.expr.symbol import Symbol
from diffsim.integrators import euler, rk4, ssp_rk2, ssp_rk3
from diffsim.mesh.grid import Grid
from diffsim.stepping.declare.equation import Equation, Variable

METHODS: dict[str, Callable[..., Any]] = {"euler": euler, "rk2": ssp_rk2, "rk3": ssp_rk3, "rk4": rk4}
Method = Literal["euler", "rk2", "rk3", "rk4"]


class ODE(Equation):
    """A system of ordinary differential equations, of one state or of an ensemble of states.

    Its grid has a cell for each member of the ensemble, so a state is an array of shape (members,), and a receiver at [k] records member k.
    Parameters are numbers, which all members share; for a parameter that differs from member to member take `diffsim.Batch`.

    Args:
        rates: the right side: a function of states and parameters. It returns the rate of each state, in the order of the arguments; its
            functions are those of `diffsim.expr`.
        dt: time step.
        states: the arguments that are states; None: all but the keyword-only ones, which are parameters.
        method: "euler", "rk2", "rk3" or "rk4", the Runge-Kutta method of this order.
        members: number of states side by side.

    Raises:
        ParameterError: no function of named arguments, an unknown method, names that are no arguments, or by a simulation another number of
            rates than of states.

    Reference: Hairer, Nørsett and Wanner (1993), Solving Ordinary Differential Equations I, doi:10.1007/978-3-540-78862-1.

    Example:
        import numpy as np

        import diffsim as ds

        # A predator and its prey; which growth of the prey leaves one predator at t = 10?
        def rates(prey, predator, *, growth, hunger):
            return prey * (growth - predator), predator * (prey - hunger)

        pair = ds.Simulation(ds.ODE(rates, dt=0.01), wrt=["growth"], precision="f64")
        start = {"prey": [1.5], "predator": [1.0], "growth": 1.0, "hunger": 1.0}
        value, gradient = pair.value_and_grad(lambda solution: solution.final["predator"][0], start, steps=1000)
        moved = pair.run({**start, "growth": 1.001}, steps=1000).final["predator"][0]
        assert np.isclose(gradient["growth"], (moved - value) / 0.001, rtol=0.05)
    """

    def __init__(
        self, rates: Callable[..., Sequence[Any]], dt: float, states: Sequence[str] | None = None, method: Method = "rk4", members: int = 1
    ) -> None:
        function("rates", rates, "lambda x, y, *, rho: (y, -rho * x)", optional=False)
        names = inspect.signature(rates).parameters
        if not names or any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY) for each in names.values()):
            raise ParameterError("rates takes arguments without names, or none, expected names of states and parameters; write them out")
        chosen = [name for name, each in names.items() if each.kind is not each.KEYWORD_ONLY] if states is None else [*states]
        if not chosen or not set(chosen) <= names.keys():
            raise ParameterError(f"states = {shown(states)}, expected some of the arguments {', '.join(names)} of rates; name these")
        taken = [name for name in names if name in chosen]
        self.rates, self.method = rates, METHODS[one_of("method", method, tuple(METHODS))]
        self.grid = Grid((whole("members", members, 1, remedy="give the number of states"),), spacing=1.0)
        self.dt = number("dt", dt, "a number above 0", lambda value: value > 0, "give the time step")
        self.states = {name: Variable("mirror") for name in taken}
        self.parameters = {name: Variable(axes=()) for name in names if name not in taken}

    def step(self, **fields: Symbol) -> dict[str, Symbol]:
        parameters = {name: fields[name] for name in self.parameters}

        def rate(now: dict[str, Symbol]) -> dict[str, Any]:
            values = self.rates(**now, **parameters)
            if not isinstance(values, (tuple, list)) or len(values) != len(now):
                raise ParameterError(
                    f"rates returned {shown(values)}, expected {len(now)} rates, of {', '.join(now)}; return a tuple of them"
                )
            return dict(zip(now, values, strict=True))

        return dict(self.method(rate, {name: fields[name] for name in self.states}, self.dt))
