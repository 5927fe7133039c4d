"""Systems of ordinary differential equations, without a grid."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

from diffsim import integrators
from diffsim.base.arguments import function, number, one_of, plural, whole
from diffsim.base.messages import shown
from diffsim.errors import ParameterError
from diffsim.expr.symbol import Symbol
from diffsim.integrators import TABLEAUX, Tableau
from diffsim.mesh.grid import Grid
from diffsim.stepping.declare.equation import Equation, Variable

SHORT = {"rk2": "ssp_rk2", "rk3": "ssp_rk3"}
EXPONENTIAL = ("etdrk2", "etdrk4")
Method = Literal["euler", "rk2", "rk3", "rk4", "midpoint", "ssp_rk2", "ssp_rk3", "ssp_rk43", "ssp_rk104", "dopri5", "etdrk2", "etdrk4"]
METHODS = ("euler", "rk2", "rk3", "rk4", "midpoint", "ssp_rk2", "ssp_rk3", "ssp_rk43", "ssp_rk104", "dopri5", *EXPONENTIAL)


class ODE(Equation):
    """A system of ordinary differential equations, of one state or of an ensemble of states.

    Its grid has a cell for each member of the ensemble, so a state is an array of shape (members,), and a receiver at [k] records member k.
    As of any equation, a state that is left out of the inputs starts at 0.
    Parameters are numbers, which all members share; for a parameter that differs from member to member take `diffsim.Batch`.

    A state with many components is a vector: with `states={"x": 3}` the argument x is a tuple of three expressions, its rate one of three,
    and inputs, solutions and gradients have `x`, of shape (3, members), and its components `x_0`, `x_1` and `x_2`. With a dataclass for
    `states` the first argument is an instance of it, and so is the rate; inputs and states have the names of its fields. One number for
    a state, or for each component, holds for all members.

    Args:
        rates: the right side: a function of states and parameters. It returns the rate of each state, in the order of the arguments; its
            functions are those of `diffsim.expr`. With one state, or one vector, it may return the rate itself.
        dt: time step.
        states: the arguments that are states; or these with their numbers of components, such as {"x": 3}; or a dataclass, whose fields are
            the states. None: all arguments but the keyword-only ones, which are parameters, and those in `series`.
        method: "rk4" and the others, see docs/integrators.md ("rk2" and "rk3" are short for "ssp_rk2" and "ssp_rk3"); or a
            `diffsim.integrators.Tableau`.
        members: number of states side by side.
        linear: for "etdrk2" and "etdrk4", which solve it exactly: c of a part c u of the rate of a state u, which `rates` leaves out: a
            number, or the name of a parameter, which is an input; of a vector one, or one for each component.
        series: the arguments that have values for each step, such as a control, a dose or a rate of infection: names; or these with
            numbers of components, or with a `diffsim.Variable` each. Such an input is an array of shape (steps,), which all members
            share; with `diffsim.Variable(axes=(0,))` of shape (steps, members); of n components, of shape (n, steps), a tuple for
            `rates`. A value holds for the whole step, in all stages of the method. It is differentiated for as a parameter is.

    Raises:
        ParameterError: no function of named arguments, an unknown method, names that are no arguments, a linear part without "etdrk2" or
            "etdrk4" or these without one, or by a simulation another number of rates than of states.

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

        # A fast decay, which is exact, beside a slow rest: steps 500 times as long as an explicit method could take.
        def rest(fast, slow):
            return slow**2, -slow * fast

        stiff = ds.ODE(rest, dt=0.1, method="etdrk4", linear={"fast": "decay"})
        final = ds.Simulation(stiff, precision="f64").run({"fast": [1.0], "slow": [1.0], "decay": -1e4}, steps=10).final
        assert np.isclose(final["fast"], final["slow"] ** 2 / 1e4, rtol=1e-6)

        # Five weights between springs, as a vector.
        def chain(x, v, *, k):
            ends = (0.0, *x, 0.0)
            return v, tuple(k * (ends[i] - 2 * ends[i + 1] + ends[i + 2]) for i in range(5))

        springs = ds.Simulation(ds.ODE(chain, 0.01, states={"x": 5, "v": 5}, method="dopri5"), precision="f64")
        wave = np.sin(np.pi * np.arange(1, 6) / 6)
        final = springs.run({"x": wave, "v": np.zeros(5), "k": 1.0}, steps=100).final
        assert np.allclose(final["x"][:, 0], wave * np.cos(2 * np.sin(np.pi / 12)), rtol=1e-10)

        # A cart that a force moves by 1 m in 1 s, from rest to rest, with the least effort: u = 6 - 12 t.
        cart = ds.Simulation(ds.ODE(lambda x, v, *, u: (v, u), 0.01, series=["u"]), wrt=["u"], precision="f64")
        end = lambda u: cart.run({"x": 0.0, "v": 0.0, "u": u}, steps=100).final
        slopes = np.stack([ds.grad(lambda u: end(u)[name][0])(np.zeros(100)) for name in ("x", "v")])
        u = np.linalg.pinv(slopes) @ [1.0, 0.0]
        assert np.allclose(u, 6 - 12 * (np.arange(100) + 0.5) / 100, atol=1e-2) and np.isclose(end(u)["x"][0], 1.0)
    """

    def __init__(
        self,
        rates: Callable[..., Any],
        dt: float,
        states: Sequence[str] | Mapping[str, int] | type | None = None,
        method: Method | Tableau = "rk4",
        members: int = 1,
        linear: Mapping[str, Any] | None = None,
        series: Sequence[str] | Mapping[str, int | Variable] = (),
    ) -> None:
        function("rates", rates, "lambda x, y, *, rho: (y, -rho * x)", optional=False)
        self.rates, self.vectors, self.vectors_of_series = rates, set[str](), set[str]()
        self.method = method if isinstance(method, Tableau) else one_of("method", method, METHODS)
        self._tableau = method if isinstance(method, Tableau) else TABLEAUX[SHORT.get(method, method)]
        self.grid = Grid((whole("members", members, 1, remedy="give the number of states"),), spacing=1.0)
        self.dt = number("dt", dt, "a number above 0", lambda value: value > 0, "give the time step")
        arguments = _arguments(rates)
        self.controls, self.series = self._series(arguments, series)
        self.record = states if isinstance(states, type) and dataclasses.is_dataclass(states) else None
        self.parts = self._parts_of(arguments, states)
        own = {*arguments[:1]} if self.record else self.parts.keys()
        if both := own & self.controls.keys():
            raise ParameterError(f"{', '.join(sorted(both))} is a state and a series, expected one of these; leave it out of one")
        self.parameters = {name: Variable(axes=()) for name in arguments if name not in own and name not in self.controls}
        self.linear = self._linear(linear)
        self.states = {name: Variable("mirror") for group in self.parts.values() for name in group}
        self.uniform = tuple(self.states)
        kinds = {"a state": self.states, "a parameter": self.parameters, "a series": self.series}
        for (one, its), (other, others) in combinations(kinds.items(), 2):
            if both := its.keys() & others.keys():
                raise ParameterError(f"{', '.join(sorted(both))} is {one} and {other}, expected names of one each; rename one")

    def _series(self, arguments: Sequence[str], series: Any) -> tuple[dict[str, tuple[str, ...]], dict[str, Variable]]:
        """For each argument that has values for each step, the names of its components; and these as fields."""
        known = isinstance(series, (Mapping, Sequence)) and not isinstance(series, str)
        if not known or any(not isinstance(name, str) for name in series) or not {*series} <= {*arguments}:
            raise ParameterError(
                f"series = {shown(series)}, expected some of the arguments {', '.join(arguments)} of rates; name these, as in series=['u']"
            )
        parts: dict[str, tuple[str, ...]] = {}
        fields: dict[str, Variable] = {}
        for name in series:
            kind = series[name] if isinstance(series, Mapping) else Variable(axes=())
            if isinstance(kind, Variable):
                parts[name] = (name,)
                fields[name] = kind
                continue
            count = whole(f"series[{name!r}]", kind, 1, remedy="give its components, or a Variable")
            parts[name] = tuple(f"{name}_{k}" for k in range(count))
            fields |= {part: Variable(axes=()) for part in parts[name]}
            self.vectors_of_series.add(name)
        return parts, fields

    def _parts_of(self, arguments: Sequence[str], states: Any) -> dict[str, tuple[str, ...]]:
        """For each argument that is a state, or field of the dataclass, the names of its components."""
        if self.record:
            fields = dataclasses.fields(self.record)
            if inspect.signature(self.rates).parameters[arguments[0]].kind is inspect.Parameter.KEYWORD_ONLY:
                raise ParameterError(
                    f"rates takes {arguments[0]} by keyword alone, expected the {self.record.__name__} of the states as first argument; "
                    "write it before the *"
                )
            if derived := [field.name for field in fields if not field.init]:
                raise ParameterError(
                    f"states = {shown(self.record)} has {', '.join(derived)} with init=False, expected fields that are states; make a "
                    "property of it"
                )
            return {field.name: (field.name,) for field in fields}
        if states is None:
            keyword_only = inspect.signature(self.rates).parameters
            positional = [name for name in arguments if keyword_only[name].kind is not inspect.Parameter.KEYWORD_ONLY]
            states = [name for name in positional if name not in self.controls]
        elif isinstance(states, (str, type)) or not isinstance(states, (Mapping, Sequence)):
            raise ParameterError(
                f"states = {shown(states)}, expected names, numbers of components by name, or a dataclass; give one of these"
            )
        if any(not isinstance(name, str) for name in states) or not states or not set(states) <= set(arguments):
            raise ParameterError(f"states = {shown([*states])}, expected some of the arguments {', '.join(arguments)} of rates; name these")
        self.vectors = {*states} if isinstance(states, Mapping) else set()
        counts = (
            {name: whole(f"states[{name!r}]", n, 1, remedy="give its components") for name, n in states.items()} if self.vectors else {}
        )
        return {
            name: tuple(f"{name}_{k}" for k in range(counts[name])) if self.vectors else (name,) for name in arguments if name in states
        }

    def _linear(self, linear: Any) -> dict[str, float | str]:
        """The linear part of each component that has one: a number, or the name of a parameter, which is declared."""
        exponential = isinstance(self.method, str) and self.method in EXPONENTIAL
        if exponential != bool(linear):
            expected = 'linear parts, such as {"u": -3.0}' if exponential else "no linear parts"
            raise ParameterError(f"linear = {shown(linear)} with method = {shown(self.method)}, expected {expected}; give both, or none")
        if not exponential:
            return {}
        if not isinstance(linear, Mapping) or not set(linear) <= self.parts.keys():
            raise ParameterError(f"linear = {shown(linear)}, expected a part for some of {', '.join(self.parts)}; name these")
        parts: dict[str, float | str] = {}
        for name, given_parts in linear.items():
            components = self.parts[name]
            one = isinstance(given_parts, str) or not hasattr(given_parts, "__len__") or getattr(given_parts, "ndim", 1) == 0
            each = [given_parts] * len(components) if one else [*given_parts]
            if len(each) != len(components):
                raise ParameterError(
                    f"linear[{shown(name)}] has {len(each)} parts, expected one, or {len(components)}, one a component; give those"
                )
            for component, part in zip(components, each, strict=True):
                parts[component] = part if isinstance(part, str) else number(f"linear[{name!r}]", part)
        named = [part for part in parts.values() if isinstance(part, str) and part not in self.series]
        self.parameters = {**self.parameters, **{name: Variable(axes=()) for name in named}}
        return parts

    def _remark(self) -> str:
        """The end of a message about too many or too few rates: it names an argument like time, or a series, which has no rate."""
        if "t" in self.parts and len(self.parts) > 1:
            return "; t counts as a state here, for rates know no time: give it as series=['t'], or as a state whose rate is 1"
        return f"; series have no rates, here {', '.join(self.controls)}" if self.controls else ""

    @property
    def component_names(self) -> Mapping[str, tuple[str, ...]]:
        return {name: self.parts[name] for name in self.vectors} | {name: self.controls[name] for name in self.vectors_of_series}

    def step(self, **fields: Symbol) -> dict[str, Symbol]:
        in_rates = _arguments(self.rates)
        parameters: dict[str, Any] = {name: fields[name] for name in self.parameters if name in in_rates}
        for name, group in self.controls.items():
            parameters[name] = tuple(fields[part] for part in group) if name in self.vectors_of_series else fields[name]

        def rate(now: dict[str, Symbol]) -> dict[str, Any]:
            if self.record:
                values = self.rates(self.record(**now), **parameters)
                values = [getattr(values, name) for name in now] if isinstance(values, self.record) else values
                return _named(values, [*now], self._remark())
            arguments = {
                name: tuple(now[one] for one in group) if name in self.vectors else now[name] for name, group in self.parts.items()
            }
            values = self.rates(**arguments, **parameters)
            if len(self.parts) == 1:
                values = _of_one(values, bool(self.vectors))
            values = _named(values, [*self.parts], self._remark())
            parts = (_named(values[n], group) if n in self.vectors else {n: values[n]} for n, group in self.parts.items())
            return {name: value for part in parts for name, value in part.items()}

        state = {name: fields[name] for name in self.states}
        if self.linear:
            linear = {name: fields[part] if isinstance(part, str) else part for name, part in self.linear.items()}
            return dict(getattr(integrators, str(self.method))(rate, linear, state, self.dt))
        return dict(integrators.runge_kutta(self._tableau, rate, state, self.dt))


def _arguments(rates: Callable[..., Any]) -> list[str]:
    """The names of the arguments of a function.

    Raises:
        ParameterError: it has none, or some without names.
    """
    names = inspect.signature(rates).parameters
    if not names or any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY) for each in names.values()):
        raise ParameterError("rates takes arguments without names, or none, expected names of states and parameters; write them out")
    return [*names]


def _of_one(values: Any, vector: bool) -> Any:
    """The rates of a system with one state, or one vector, for which a function may return the rate itself."""
    several = isinstance(values, (tuple, list))
    itself = several and not (len(values) == 1 and isinstance(values[0], (tuple, list))) if vector else not several
    return (values,) if itself else values


def _named(values: Any, names: Sequence[str], remark: str = "") -> dict[str, Any]:
    """The rates that a function returned, by name. `remark`: which arguments may have been meant otherwise."""
    several = isinstance(values, (tuple, list))
    if not several or len(values) != len(names):
        got = plural(len(values), "rate") if several else "one expression" if isinstance(values, Symbol) else shown(values)
        if isinstance(values, Mapping):
            got = f"a dict of {', '.join(map(str, values))}"
        raise ParameterError(
            f"rates returned {got}, expected {plural(len(names), 'rate')}, of {', '.join(names)}; return a tuple of them{remark}"
        )
    return dict(zip(names, values, strict=True))
