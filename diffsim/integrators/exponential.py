"""Exponential methods: a linear part of each field is solved exactly, where it is diagonal in the cells or by a transform."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from diffsim.base.arguments import number
from diffsim.base.messages import shown
from diffsim.errors import ParameterError, TraceError
from diffsim.expr.components import Components
from diffsim.expr.graph import is_const
from diffsim.expr.symbol import Symbol
from diffsim.integrators.phi import phi_of
from diffsim.integrators.states import Project, Rate, State, Time, held, projected, rates, reads_time, stored
from diffsim.integrators.tableaux import TABLEAUX, Tableau, Terms
from diffsim.linear.stencil import Stencil
from diffsim.linear.transforms import Transform, numbers_of
from diffsim.stepping.stages.linear_stage import LinearFunction, linear_stage
from diffsim.stepping.stages.solve import weights_of
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.stages import placed, trace_of
from diffsim.stepping.trace.trace import CLOCK
from diffsim.typing import Array

Linear: TypeAlias = Mapping[str, "float | Symbol | Callable[[Symbol], Symbol]"]


def etdrk2(rate: Rate, linear: Linear, state: State, dt: Time, project: Project | None = None) -> dict[str, Symbol]:
    """The exponential method of Cox and Matthews of second order with two rates: u_t = c u + f(u), exact where f is constant.

        a = e^z u + dt φ_1(z) f(u),    u_next = a + dt φ_2(z) (f(a) - f(u)),    z = dt c

    Args:
        rate: gives f, the part of du/dt that is not linear or not stiff, for each field of the state.
        linear: field -> its linear part. A number, or an expression of the step, is c at each cell; runs are differentiated by it. A
            function of the field, as `imex_euler` takes it, is an operator whose weights are constants and for which there is a transform:
            on a uniform grid with "periodic", "mirror" or "zero" sides. Fields that are left out have none.
        state: fields of the step.
        dt: time step, see `euler`; with an operator a number of Python.
        project: brings states back to a constraint, see `euler`.

    Returns:
        The state one step later, see `euler`.

    Raises:
        TraceError: the rate is not that of each field; `linear` has other names, or is a vector's.
        ParameterError: a linear part is no number, expression or function; an operator has weights that vary, or are inputs; there is no
            transform for it; or dt is an input beside an operator.

    Reference: Cox and Matthews (2002), Exponential time differencing for stiff systems, J. Comput. Phys. 176, 430-455,
        doi:10.1006/jcph.2002.6995, equations 20 to 22; Kassam and Trefethen (2005), Fourth-order time-stepping for stiff PDEs, SIAM J. Sci.
        Comput. 26, 1214-1233, doi:10.1137/S1064827502410633, for the cancellation in φ, which series avoid here.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian
        from diffsim.integrators import etdrk2, etdrk4

        class Fisher(ds.Equation):
            # uₜ = ∇²u + u (1 - u): the diffusion is exact, and dt ten times what an explicit method could take.

            states = {"u": ds.Variable("mirror")}

            def __init__(self, method):
                self.grid, self.dt, self.method = ds.Grid((50,), spacing=0.1), 0.05, method

            def step(self, u):
                return self.method(lambda now: {"u": now["u"] * (1 - now["u"])}, {"u": laplacian}, {"u": u}, self.dt)

        start = {"u": np.where(np.arange(50) < 10, 1.0, 0.0)}
        found = [ds.Simulation(Fisher(method), precision="f64").run(start, steps=40).final["u"] for method in (etdrk2, etdrk4)]
        assert abs(found[0] - found[1]).max() < 1e-3
    """
    return _step(TABLEAUX["etdrk2"], rate, linear, state, dt, project)


def etdrk4(rate: Rate, linear: Linear, state: State, dt: Time, project: Project | None = None) -> dict[str, Symbol]:
    """The exponential method of Cox and Matthews of fourth order with four rates, which is `rk4` where the linear part is 0.

    Arguments, result and errors are those of `etdrk2`. Where stiff parts are not diagonal in each other its order may be less (3 was seen
    for sides that the rates do not satisfy).

    Reference: as for `etdrk2`, equations 26 to 29.
    """
    return _step(TABLEAUX["etdrk4"], rate, linear, state, dt, project)


def _step(tableau: Tableau, rate: Rate, linear: Linear, state: State, dt: Time, project: Project | None) -> dict[str, Symbol]:
    slopes = rates(rate, state)
    flows = _flows(linear, state, dt)
    pushes = [stored(slopes, state)]
    for count, (time, row) in enumerate(zip((*tableau.times[1:], 1.0), tableau.exponential, strict=True), start=1):
        later = {}
        for name, u in state.items():
            flow = flows[name]
            terms = [flow(((1.0, 0, time),), u)]
            terms += [dt * flow(part, push[name]) for part, push in zip(row, pushes, strict=True) if part]
            total = terms[0]
            for term in terms[1:]:
                total = total + term
            later[name] = total
        if count == len(tableau.exponential):
            return projected(later, state, dt, project, dt)
        pushes.append(stored(rates(rate, held(later, state, time * dt, project, time * dt), time * dt), state))
    raise AssertionError("a tableau has a stage")


Flow: TypeAlias = Callable[[Terms, Any], Any]
"""(terms, field) -> Σ c φ_k(r dt L) field."""


def _flows(linear: Linear, state: State, dt: Time) -> dict[str, Flow]:
    """For each field how sums of φ of its linear part act."""
    if not isinstance(linear, Mapping) or not linear or not set(linear) <= set(state):
        got = f"entries {', '.join(map(str, linear))}" if isinstance(linear, Mapping) else f"a {type(linear).__name__}"
        raise TraceError(
            f"linear has {got}, expected a dict of the linear parts of fields of the state: {', '.join(state)}; write it like {{'u': -3.0}}"
        )
    if vectors := [name for name in linear if isinstance(state[name], Components)]:
        raise TraceError(f"linear has the vector {vectors[0]}, expected fields of one component; declare each by a Variable of its own")
    return {
        name: _transformed(name, linear[name], u, dt) if callable(linear.get(name)) else _diagonal(name, linear.get(name, 0.0), dt)
        for name, u in state.items()
    }


def _diagonal(name: str, part: Any, dt: Time) -> Flow:
    """Multiplication by numbers or fields."""
    if isinstance(part, Symbol) and reads_time(part):
        raise TraceError(
            f"linear[{shown(name)}] reads {CLOCK[0]}, expected a number or a field that rests within a step: its exponential is taken; "
            f"leave a part that rests here, and add what depends on {CLOCK[0]} to the rate"
        )
    if not isinstance(part, Symbol):
        remedy = "give one, an expression of the step, or a function of the field; an array is a parameter of the equation"
        part = number(f"linear[{name!r}]", part, remedy=remedy)

    def flow(terms: Terms, u: Any) -> Any:
        total: Any = 0.0
        for c, k, r in terms:
            value = phi_of(k, r * dt * part)
            total = total + c * (value if isinstance(value, Symbol) else float(value))
        return total * u

    return flow


def _transformed(name: str, operator: Any, u: Symbol, dt: Time) -> Flow:
    """Multiplication of the coefficients of a transform, for an operator with constant weights."""
    what = f"linear part of {name}"
    if isinstance(dt, Symbol):
        raise ParameterError(
            f"dt is an input, or computed, and the {what} an operator, expected a number; take imex_ars222, which has any dt"
        )
    graph, location = trace_of(u, what), placed(u)
    field = Placed(location, graph.bound(u, location))
    weights, owed = weights_of(operator, u, graph, field, f"the {what}")
    if not all(node.op == "const" for node in weights.values()):
        raise ParameterError(
            f"{what} has weights that are inputs, or vary, expected constants; make them numbers of Python, or take imex_ars222, by "
            "whose weights runs are differentiated"
        )
    stencil = Stencil(graph.grid.shape, tuple(weights), field.rules)
    constants = [float(node.data) for node in weights.values()]
    if not is_const(owed, 0) or (stencil.has_given and np.any(stencil.boundary_terms(constants))):
        raise ParameterError(f"{what} with sides that have values, expected sides without, or of value 0; take imex_ars222")
    by_transform = numbers_of(stencil, constants)
    if by_transform is None:
        raise ParameterError(
            f"{what} has no transform, expected weights that are the same in all cells, and sides such as 'periodic' or 'mirror'; "
            "take imex_ars222"
        )
    transform, numbers = by_transform
    values = numbers.real if np.abs(numbers.imag).max() <= 1e-12 * np.abs(numbers).max() else numbers

    def flow(terms: Terms, x: Any) -> Any:
        factor = sum(c * phi_of(k, r * dt * values) for c, k, r in terms)
        return linear_stage("exponential", Multiplication(transform, factor), x, u)

    return flow


@dataclass(frozen=True)
class Multiplication(LinearFunction):
    """Cells -> the cells whose coefficients are multiplied by factors.

    Attributes:
        transform: of the cells.
        factor: of each coefficient.
    """

    transform: Transform
    factor: Array

    def of(self, cells: Array) -> Array:
        return self.transform.backward(self.factor * self.transform.forward(np.asarray(cells, np.float64)))

    @property
    def transposed(self) -> Multiplication:
        return Multiplication(self.transform, np.conj(self.factor))
