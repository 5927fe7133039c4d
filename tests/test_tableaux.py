"""The table of methods in time: order conditions by trees, stability, convexity, and steps that are those of the table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest

import diffsim as ds
from diffsim import integrators
from diffsim.errors import ParameterError, TraceError
from diffsim.expr import Symbol, laplacian, sin
from diffsim.integrators import TABLEAUX, Tableau
from diffsim.integrators.phi import phi_of
from tests.steps.test_gradient import loss

Tree: TypeAlias = tuple[Any, ...]
"""The subtrees of a root, sorted; in coloured trees a pair of the colour and these."""
IMPLICIT = [name for name, one in TABLEAUX.items() if one.implicit]
EXPONENTIAL = [name for name, one in TABLEAUX.items() if one.exponential]
MOST = {1: 1, 2: 1, 3: 2, 4: 4, 5: 9, 6: 20}
"""Rooted trees by their number of nodes."""


def trees(nodes: int) -> list[Tree]:
    """Rooted trees."""
    if nodes == 1:
        return [()]
    out = set()
    for parts in _partitions(nodes - 1, nodes - 1):
        for branches in itertools.product(*(trees(n) for n in parts)):
            out.add(tuple(sorted(branches)))
    return sorted(out)


def _partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    if not total:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in _partitions(total - first, first):
            yield (first, *rest)


def size(tree: Tree) -> int:
    return 1 + sum(map(size, tree))


def density(tree: Tree) -> int:
    return size(tree) * math.prod(map(density, tree))


def matrices(tableau: Tableau) -> list[tuple[Any, Any]]:
    """(A, b) of the explicit part, and of the implicit one."""

    def square(rows: Any) -> Any:
        out = np.zeros((len(tableau.b),) * 2)
        for i, row in enumerate(rows):
            out[i, : len(row)] = [float(c) for c in row]
        return out

    own = [(square(((), *tableau.a)), np.array([float(c) for c in tableau.b]))]
    if tableau.implicit:
        implicit = square(tableau.implicit)
        own.append((implicit, implicit[-1]))
    return own


def weights(tree: Tree, colours: list[tuple[Any, Any]]) -> list[float]:
    """The sum of the method over each colouring of the nodes of a tree."""

    def inner(tree: Tree) -> list[Any]:  # for each colour of the root and all colourings below: Π A Φ
        below = [[colours[own][0] @ value for own in range(len(colours)) for value in inner(branch)] for branch in tree]
        return [
            np.prod(np.array(chosen).reshape(len(tree), -1), axis=0) if tree else np.ones(len(colours[0][1]))
            for chosen in itertools.product(*below)
        ]

    return [float(b @ value) for _, b in colours for value in inner(tree)]


@pytest.mark.parametrize("name", TABLEAUX)
def test_a_method_has_its_order_and_no_more(name: str) -> None:
    """Σ over each tree is 1 / density, for trees of up to `order` nodes and all colourings by explicit and implicit parts."""
    tableau = TABLEAUX[name]
    colours = matrices(tableau)

    def worst(nodes: int) -> float:
        assert len(trees(nodes)) == MOST[nodes]
        return max(abs(value - 1 / density(tree)) for tree in trees(nodes) for value in weights(tree, colours))

    assert max(worst(nodes) for nodes in range(1, tableau.order + 1)) < 1e-14
    assert worst(tableau.order + 1) > 1e-4


@pytest.mark.parametrize("name", TABLEAUX)
def test_stages_with_exact_rates_have_their_times(name: str) -> None:
    """Explicit and implicit parts of a stage have the same time."""
    tableau = TABLEAUX[name]
    if tableau.implicit:
        np.testing.assert_allclose([float(sum(row)) for row in tableau.implicit], tableau.times, atol=1e-15)
        assert (
            tableau.implicit[0] == (0,) and [*tableau.b[:-1]] == [*tableau.a[-1]] and not tableau.b[-1]
        )  # the last stage is the next state


@pytest.mark.parametrize("name", TABLEAUX)
def test_limits_of_stability_are_those_of_the_factor(name: str) -> None:
    tableau, rounding = TABLEAUX[name], 1e-13
    for limit, way in ((tableau.real, -1.0), (tableau.imaginary, 1j)):
        if limit:
            assert np.abs(tableau.growth(way * np.linspace(0, limit, 2001))).max() <= 1 + rounding
            assert abs(tableau.growth(way * (limit + 0.01))) > 1 + rounding
        else:
            assert np.abs(tableau.growth(way * np.array([0.1, 0.3]))).min() > 1 + rounding


@pytest.mark.parametrize("name", [*IMPLICIT, *EXPONENTIAL])
def test_stiff_parts_are_damped(name: str) -> None:
    """A-stable on the negative real and the imaginary axis, and 0 at infinity."""
    tableau, far = TABLEAUX[name], np.concatenate([np.linspace(0, 20, 400), np.logspace(1.3, 8, 50)])
    assert np.abs(tableau.growth(0.0, -far)).max() <= 1 + 1e-13 and np.abs(tableau.growth(0.0, 1j * far)).max() <= 1 + 1e-13
    assert abs(tableau.growth(0.0, -1e8)) < 1e-7


@pytest.mark.parametrize("name", TABLEAUX)
def test_convex_sums_of_euler_steps(name: str) -> None:
    """The radius of absolute monotonicity of the explicit part (Kraaijevanger 1991, Higueras 2004)."""
    tableau = TABLEAUX[name]
    if tableau.implicit or tableau.exponential:
        return
    ((a, b),) = matrices(tableau)
    K = np.zeros((len(b) + 1,) * 2)
    K[:-1, :-1], K[-1, :-1] = a, b

    def monotone(r: float) -> bool:
        inverse = np.linalg.inv(np.eye(len(K)) + r * K)
        return bool((K @ inverse).min() > -1e-12 and (r * (K @ inverse).sum(1)).max() < 1 + 1e-12)

    assert (not tableau.ssp or monotone(tableau.ssp)) and not monotone(tableau.ssp + 0.01)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_phi_keeps_its_digits(k: int) -> None:
    """Against exact sums of fractions."""
    z = [
        Fraction(n, 10**6)
        for n in (-50_000_000, -3_000_000, -1_000_001, -999_999, -500_000, -10, 0, 3, 700_000, 999_999, 1_000_001, 4_000_000)
    ]
    exact = [float(sum(x**n * Fraction(1, math.factorial(n + k)) for n in range(200))) for x in z]
    np.testing.assert_allclose(phi_of(k, np.array([float(x) for x in z])), exact, rtol=3e-15)


class SideBySide(ds.Equation):
    """u_t = c u + λ u + s (u sin(3 u) + v), v_t = -s u for each method of the table, in one step. h is the time step."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((1,), 1.0), 1.0
        self.states = {f"{one}_{name}": ds.Variable("mirror") for name in TABLEAUX for one in "uv"}
        self.parameters = {name: ds.Variable(axes=()) for name in ("c", "lam", "s", "h")}

    def step(self, c: Symbol, lam: Symbol, s: Symbol, h: Symbol, **now: Symbol) -> dict[str, Symbol]:
        out = {}
        for name, tableau in TABLEAUX.items():
            method, state = getattr(integrators, name), {"u": now[f"u_{name}"], "v": now[f"v_{name}"]}
            stiff = bool(tableau.implicit or tableau.exponential)

            def rate(now: dict[str, Symbol], own: Any = 0.0 if stiff else c) -> dict[str, Symbol]:
                u, v = now["u"], now["v"]
                return {"u": own * u + lam * u + s * (u * sin(3 * u) + v), "v": -s * u}

            if tableau.implicit:
                new = method(rate, {"u": lambda x: c * x}, state, h)
            else:
                new = method(rate, {"u": c}, state, h) if tableau.exponential else method(rate, state, h)
            out |= {f"{one}_{name}": new[one] for one in "uv"}
        return out


@pytest.fixture(scope="module")
def side_by_side() -> ds.Simulation:
    return ds.Simulation(SideBySide(), wrt=[], precision="f64")


def test_steps_of_a_linear_rate_are_the_factors_of_the_table(side_by_side: ds.Simulation) -> None:
    run, c, lam, h = side_by_side, -1.7, 0.6, 0.8
    final = run.run({name: np.ones(1) for name in run.equation.states} | {"c": c, "lam": lam, "s": 0.0, "h": h}, 1).final
    for name, tableau in TABLEAUX.items():
        split = bool(tableau.implicit or tableau.exponential)
        wanted = tableau.growth(h * lam, h * c) if split else tableau.growth(h * (lam + c))
        assert float(final[f"u_{name}"][0]) == pytest.approx(float(wanted), rel=1e-13), name


@pytest.mark.slow
def test_measured_orders_on_a_nonlinear_system(side_by_side: ds.Simulation) -> None:
    """With a linear part of -1.5, which the stiff methods solve implicitly, or exactly. From 40 and 80 steps, against 2000 of dopri5."""
    run, end, errors = side_by_side, 2.0, []
    start = {name: np.full(1, 0.7 if name[0] == "u" else -0.2) for name in run.equation.states} | {"c": -1.5, "lam": 0.0, "s": 1.0}
    exact = run.run(start | {"h": end / 2000}, 2000).final
    for steps in (40, 80):
        final = run.run(start | {"h": end / steps}, steps).final
        errors.append(
            {name: math.hypot(*(float((final[f"{one}_{name}"] - exact[f"{one}_dopri5"])[0]) for one in "uv")) for name in TABLEAUX}
        )
    for name, tableau in TABLEAUX.items():
        assert np.log2(errors[0][name] / errors[1][name]) == pytest.approx(tableau.order, abs=0.5 if name == "etdrk4" else 0.35), name


class Stiff(ds.Equation):
    """u_t = ∇²u + D u + u - u³ + 0.2 v, v_t = u: the Laplacian and D by a transform, or c at each cell."""

    def __init__(self, method: str, sides: Any = "periodic", diagonal: bool = False, dt: float | None = None, n: int = 16) -> None:
        self.grid, self.method, self.diagonal, self.dt = ds.Grid((n,), 0.5), method, diagonal, 1.0 if dt is None else dt
        self.states = {"u": ds.Variable(sides), "v": ds.Variable(sides)}
        self.parameters = {"c": ds.Variable(sides), "h": ds.Variable(axes=())} if diagonal else {}

    def step(self, u: Symbol, v: Symbol, **inputs: Symbol) -> dict[str, Symbol]:
        def rate(now: dict[str, Symbol]) -> dict[str, Symbol]:
            u, v = now["u"], now["v"]
            return {"u": u - u**3 + 0.2 * v, "v": u}

        if self.diagonal:
            return getattr(integrators, self.method)(rate, {"u": inputs["c"]}, {"u": u, "v": v}, inputs["h"])
        if self.method == "rk4":
            return integrators.rk4(lambda now: (r := rate(now)) | {"u": r["u"] + laplacian(now["u"], 2)}, {"u": u, "v": v}, self.dt)
        return getattr(integrators, self.method)(rate, {"u": lambda x: laplacian(x, 2)}, {"u": u, "v": v}, self.dt)


@pytest.mark.parametrize(("method", "sides"), [("etdrk2", "periodic"), ("etdrk4", "mirror")])
def test_an_operator_is_exact_by_its_transform(method: str, sides: Any) -> None:
    """The order of a run with reactions is that of the method, at steps longer than an explicit method could take."""
    start = {"u": 0.4 + 0.3 * np.cos(np.arange(16.0)), "v": np.linspace(0, 1, 16)}
    exact = ds.Simulation(Stiff("rk4", sides, dt=1 / 400), wrt=[], precision="f64").run(start, 800).final["u"]
    errors = []
    for dt in (0.25, 0.125):  # explicit: 0.17
        final = ds.Simulation(Stiff(method, sides, dt=dt), wrt=[], precision="f64").run(start, round(2 / dt)).final["u"]
        errors.append(np.abs(final - exact).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(TABLEAUX[method].order, abs=0.4) and errors[1] < 2e-3


@pytest.mark.gradients
@pytest.mark.parametrize("diagonal", [False, True])
def test_gradients_of_exponential_methods_are_certified(diagonal: bool) -> None:
    """By c and dt too, on both sides of |z| = 1, where the formula of φ changes."""
    simulation, rng = ds.Simulation(Stiff("etdrk4", "periodic", diagonal, 0.3, n=8), precision="f64"), np.random.default_rng(0)
    point = {"u": rng.uniform(0.2, 1, 8), "v": rng.uniform(0.2, 1, 8)}
    if diagonal:
        point |= {"c": np.array([-30.0, -4.0, -3.0, -2.0, -1.0, -1e-3, 0.0, 0.5]), "h": np.array(0.31)}
    certificate = ds.certify(simulation, loss, point, 4)
    assert certificate.passed, str(certificate)
    if diagonal:
        _, gradient = simulation.value_and_grad(lambda found: (found.final["u"] ** 2).sum(), point, 4)
        moved = [simulation.run(point | {"h": point["h"] + d}, 4).final["u"] for d in (-1e-6, 1e-6)]
        assert gradient["h"] == pytest.approx(((moved[1] ** 2).sum() - (moved[0] ** 2).sum()) / 2e-6, rel=1e-7)


class Called(ds.Equation):
    """A step that calls a function of u."""

    def __init__(self, call: Any, rule: Any = "periodic") -> None:
        self.grid, self.dt, self.call = ds.Grid((16,), 1.0), 0.1, call
        self.states = {"u": ds.Variable(rule), "p": ds.Vector("x", "zero")}
        self.parameters = {"k": ds.Variable(axes=()), "f": ds.Variable("mirror")}

    def step(self, u: Symbol, p: Any, k: Symbol, f: Symbol) -> dict[str, Any]:
        return {"u": self.call(u, p, k, f)["u"], "p": p}


def still(now: dict[str, Any]) -> dict[str, Any]:
    return now


WRONG: dict[str, tuple[Any, Any, str]] = {
    "no dict": (lambda u, p, k, f: integrators.etdrk4(still, -3.0, {"u": u}, 0.1), TraceError, "linear has a float, expected a dict"),
    "another field": (
        lambda u, p, k, f: integrators.etdrk4(still, {"w": 1.0}, {"u": u}, 0.1),
        TraceError,
        "linear has entries w, expected .* u;",
    ),
    "a number for each cell": (
        lambda u, p, k, f: integrators.etdrk2(still, {"u": np.ones(16)}, {"u": u}, 0.1),
        ParameterError,
        r"linear\['u'\] = array.* expected a finite number; give one, an expression",
    ),
    "a text": (lambda u, p, k, f: integrators.etdrk2(still, {"u": "x"}, {"u": u}, 0.1), ParameterError, r"linear\['u'\] = 'x', expected"),
    "another projected": (
        lambda u, p, k, f: integrators.etdrk2(still, {"u": -1.0}, {"u": u}, 0.1, lambda now, dt: {"w": now["u"]}),
        TraceError,
        "the projected state has entries w, expected",
    ),
    "a list projected": (
        lambda u, p, k, f: integrators.etdrk4(still, {"u": -1.0}, {"u": u}, 0.1, lambda now, dt: [now["u"]]),
        TraceError,
        "the projected state has a list, expected",
    ),
    "a vector": (
        lambda u, p, k, f: integrators.etdrk2(still, {"p": 1.0}, {"u": u, "p": p}, 0.1),
        TraceError,
        "linear has the vector p, expected",
    ),
    "an input": (
        lambda u, p, k, f: integrators.etdrk4(still, {"u": lambda x: k * laplacian(x)}, {"u": u}, 0.1),
        ParameterError,
        "linear part of u has weights that are inputs, or vary, expected constants; .* take imex_ars222",
    ),
    "a field": (lambda u, p, k, f: integrators.etdrk4(still, {"u": lambda x: f * x}, {"u": u}, 0.1), ParameterError, "inputs, or vary"),
    "dt": (
        lambda u, p, k, f: integrators.etdrk4(still, {"u": laplacian}, {"u": u}, k),
        ParameterError,
        "dt is an input, or computed, and the linear part of u an operator",
    ),
    "not linear": (
        lambda u, p, k, f: integrators.etdrk4(still, {"u": sin}, {"u": u}, 0.1),
        TraceError,
        "the linear part of u is not linear",
    ),
    "no explicit": (
        lambda u, p, k, f: integrators.runge_kutta(TABLEAUX["etdrk4"], still, {"u": u}, 0.1),
        ParameterError,
        "tableau has an implicit or exponential part, expected an explicit method",
    ),
    "no tableau": (lambda u, p, k, f: integrators.runge_kutta("rk4", still, {"u": u}, 0.1), ParameterError, "tableau = 'rk4', expected"),
    "a zero": (
        lambda u, p, k, f: integrators.runge_kutta(Tableau(((0.5,), (0.5, 0.0)), (0.25, 0.25, 0.5), 1), still, {"u": u}, 0.1),
        ParameterError,
        "row 2 of the tableau ends in 0, expected another number",
    ),
}


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (((0.5,),), (1.0, 1.0), "b = .* sums to 2, expected 1"),
        (((np.nan,),), (0, 1), r"a\[0\] = \(nan,\), expected a row of finite numbers"),
        ((0.5,), (0, 1), r"a\[0\] = 0.5, expected a row of finite numbers; write it like"),
        (((0.5,),), (0, "1"), "b = .* expected a row of finite numbers"),
        ("rk4", (1,), "a = 'rk4', expected a tuple of rows"),
        (((0.5,),), (1,), "expected one more from row to row"),
    ],
)
def test_a_wrong_tableau_is_refused(a: Any, b: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Tableau(a, b, 1)


def test_rows_may_be_lists_and_arrays() -> None:
    wanted = Tableau(((0.5,),), (0.0, 1.0), 2)
    assert Tableau([[0.5]], [0.0, 1.0], 2) == Tableau(np.array([[0.5]]), np.array([0.0, 1.0]), 2) == wanted  # type: ignore[arg-type]
    assert hash(wanted.a) is not None and TABLEAUX["rk4"].b[0] == Fraction(1, 6)


class Constant(ds.Equation):
    """u_t = 2 on a ring by each method with a linear part, which is 0 there."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((6,), 1.0), 0.25
        self.states = {name: ds.Variable("periodic") for name in (*IMPLICIT, *EXPONENTIAL)}

    def step(self, **now: Symbol) -> dict[str, Symbol]:
        return {name: getattr(integrators, name)(lambda _: {"u": 2}, {"u": laplacian}, {"u": u}, self.dt)["u"] for name, u in now.items()}


def test_a_rate_may_be_a_number() -> None:
    constant = Constant()
    final = ds.Simulation(constant, wrt=[], precision="f64").run({name: np.zeros(6) for name in constant.states}, 4).final
    for name in constant.states:
        np.testing.assert_allclose(final[name], 2.0, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused(case: str) -> None:
    call, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        ds.Simulation(Called(call), wrt=[])


def test_sides_with_values_and_without_a_transform_are_refused() -> None:
    for rule, message in (
        (ds.Dirichlet(0.4), "sides that have values"),
        (ds.Robin(1.0, 2.0, 0.0), "linear part of u has no transform, expected weights"),
    ):
        with pytest.raises(ParameterError, match=message):
            ds.Simulation(Called(lambda u, p, k, f: integrators.etdrk2(still, {"u": laplacian}, {"u": u}, 0.1), rule), wrt=[])


def test_rows_of_a_tableau_are_counted() -> None:
    with pytest.raises(ParameterError, match=r"rows of a and b with \[2, 2\] coefficients, expected one more from row to row"):
        Tableau(a=((0.0, 0.5),), b=(0.5, 0.5), order=2)


def test_every_method_of_the_table_is_a_function_with_its_name() -> None:
    for name, tableau in TABLEAUX.items():
        assert getattr(integrators, name).__name__ == name and tableau.source and tableau.take
