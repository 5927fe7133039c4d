"""Powers whose exponent is a field or an input of the run, as laws of flow and of porous media have them."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import Components, Graph, Symbol
from diffsim.expr.derive import jvp
from diffsim.expr.evaluate import evaluate
from tests.arches import require_vulkan

POWERS: dict[str, Callable[..., object]] = {
    "field to the power of a number": lambda u, m, b, q: u**m,
    "number to the power of a field": lambda u, m, b, q: m**u,
    "fields": lambda u, m, b, q: u**b,
    "constant to the power of a field": lambda u, m, b, q: 2.0**u,
    "values along an axis": lambda u, m, b, q: u**q,
    "number to the power of values along an axis": lambda u, m, b, q: u * m**q,
    "tower": lambda u, m, b, q: (m**q) ** (0.1 * u),
    "viscosity of Carreau": lambda u, m, b, q: (1.0 + (u * b) ** 2) ** (0.5 * (m - 1.0)),
}
SHAPES = [(23,), (6, 19), (4, 5, 9)]


class Law(ds.Equation):
    """A state that is replaced by a power."""

    dt = 1.0

    def __init__(self, shape: tuple[int, ...], power: Callable[..., object]) -> None:
        self.grid, self.power = ds.Grid(shape, 1.0), power
        self.states = {"u": ds.Variable("mirror")}
        self.parameters = {"m": ds.Variable(axes=()), "b": ds.Variable("mirror"), "q": ds.Variable(axes=(0,))}

    def step(self, u: Symbol, m: Symbol, b: Symbol, q: Symbol) -> dict[str, object]:
        return {"u": 0.5 * self.power(u, m, b, q) + 0.1 * u.shifted(0, 1)}  # type: ignore[operator]


def all_of_them(*values: object) -> object:
    return 0.2 * sum(power(*values) for power in POWERS.values())  # type: ignore[misc]


@pytest.mark.parametrize("shape", SHAPES, ids=len)
def test_powers_are_those_of_numpy_and_certified(shape: tuple[int, ...]) -> None:
    power, rng = all_of_them, np.random.default_rng(1)
    simulation = ds.Simulation(Law(shape, power), precision="f64")
    along = rng.uniform(1.0, 2.0, shape[0])
    inputs = {"u": rng.uniform(0.5, 1.5, shape), "m": 1.7, "b": rng.uniform(1.0, 2.0, shape), "q": along}
    u, q = inputs["u"], along.reshape(-1, *[1] * (len(shape) - 1))
    for _ in range(3):
        u = 0.5 * power(u, 1.7, inputs["b"], q) + 0.1 * np.concatenate([u[1:], u[-1:]])  # type: ignore[operator]
    np.testing.assert_allclose(simulation.run(inputs, steps=3).final["u"], u, rtol=1e-13)
    assert ds.certify(simulation, lambda end: (end.final["u"] ** 2).sum(), inputs, steps=3, seed=1).passed


def _derivative(order: str, x: float, y: float) -> float:
    """A derivative of x ** y, by expressions, for the names in `order` one after the other."""
    graph = Graph()
    node, one, zero = graph.apply("power", graph.read("x", (0,)), graph.read("y", (0,))), graph.const(1), graph.const(0)
    for by in order:
        (node,) = jvp(graph, [node], lambda read, by=by: one if read.data[0] == by else zero)
    with np.errstate(all="ignore"):  # both sides of a condition are evaluated
        (value,) = evaluate([node], {"x": np.array([x]), "y": np.array([y])}, (1,), (0,))
    return float(np.asarray(value).reshape(-1)[0])


@pytest.mark.parametrize("y", [-1.5, -1.0, 0.0, 1.0, 2.0, 2.5, 3.0])
@pytest.mark.parametrize("x", [0.0, 0.7, 2.0])
def test_derivatives_are_those_of_the_closed_form(x: float, y: float) -> None:
    """At x = 0 too, where logarithms and negative powers are infinite."""
    if x == 0 and y < 0:
        return  # the value is infinite
    first = y * x ** (y - 1) if y else 0.0
    second = y * (y - 1) * x ** (y - 2) if y not in (0.0, 1.0) else 0.0
    logarithm = np.log(x) if x else 0.0
    assert np.isclose(_derivative("x", x, y), first, rtol=1e-14)
    assert np.isclose(_derivative("xx", x, y), second, rtol=1e-13)
    assert np.isclose(_derivative("y", x, y), logarithm * x**y, rtol=1e-14)
    assert np.isclose(_derivative("yy", x, y), logarithm**2 * x**y, rtol=1e-13)


@pytest.mark.parametrize("y", [-1.5, 0.0, 0.5, 1.0, 1.25, 2.0, 2.5, 3.0])
@pytest.mark.parametrize("x", [0.0, 1e-9, 0.7, 2.0])
def test_mixed_derivatives_agree(x: float, y: float) -> None:
    """In both orders, with the closed form where it has a finite limit at x = 0; y = 0 and 1 are by convention."""
    one, other = _derivative("xy", x, y), _derivative("yx", x, y)
    np.testing.assert_array_equal(one, other)
    if x:
        assert np.isclose(one, x ** (y - 1) * (1 + y * np.log(x)) if y else 0.0, rtol=1e-12)
    else:
        assert {0.0: 0.0, 1.0: 1.0}.get(y, 0.0) == one if y >= 1 or y == 0 else not np.isfinite(one)


@pytest.mark.parametrize("seed", range(3))
def test_products_with_the_hessian_are_symmetric_at_a_front(seed: int) -> None:
    """v Hw = w Hv where the base is 0 in some cells, whatever the exponent is there."""
    rng = np.random.default_rng(seed)
    simulation = ds.Simulation(Law((8,), POWERS["fields"]), precision="f64", wrt=["u", "b"])
    u, b = rng.uniform(0.5, 1.5, 8), rng.choice([1.0, 2.0, 3.0], 8)
    u[rng.permutation(8)[:4]] = 0.0
    inputs = {"u": u, "m": 1.0, "b": b, "q": np.ones(8)}
    v, w = ({name: rng.normal(size=8) for name in ("u", "b")} for _ in range(2))
    weights = rng.normal(size=8)

    def loss(x: dict[str, np.ndarray]) -> object:
        return (weights * simulation.run(inputs | x, 1).final["u"]).sum()

    products = []
    for one, other in ((v, w), (w, v)):
        product = ds.hvp(loss, {"u": u, "b": b}, one)
        products.append(sum(float((other[name] * product[name]).sum()) for name in other))
    assert np.isclose(*products, rtol=1e-12)


def test_constant_bases_that_are_not_positive() -> None:
    """0 ** m is differentiable for m > 0; -1 ** m is not, and says so."""
    for shape in SHAPES:
        size = shape[0]
        inputs = {"u": np.ones(shape), "m": 1.5, "b": np.full(shape, 2.0), "q": np.ones(size)}
        zero = ds.Simulation(Law(shape, lambda u, m, b, q: u * 0.0**b + 0.0**m), precision="f64", wrt=["u", "m", "b"])
        _, gradient = zero.value_and_grad(lambda end: end.final["u"].sum(), inputs, 1)
        assert gradient["m"] == 0 and not np.any(gradient["b"])
        minus = Law(shape, lambda u, m, b, q: u * (-1.5) ** b)
        assert np.isclose(ds.Simulation(minus, precision="f64", wrt=["u"]).run(inputs, 1).final["u"], 0.5 * 2.25 + 0.1).all()
        with pytest.raises(ds.errors.TraceError, match=r"^a derivative of -1\.5 \*\* f for f, expected a base of at least 0, got -1\.5"):
            ds.Simulation(minus, precision="f64", wrt=["b"]).value_and_grad(lambda end: end.final["u"].sum(), inputs, 1)


ON_VULKAN = """
import sys
import numpy as np, diffsim as ds
from tests.expr.test_powers import Law

ds.init(arch=sys.argv[1], precision="f32")
u, b = (each.reshape(-1) for each in np.meshgrid([-3.0, -2.0, -0.5, 0.0, 0.25, 1.0, 2.0], [0.0, 1.0, 1.5, 2.0, 3.0, 4.0, -1.0, -2.0]))
real = ((u >= 0) | (b == np.floor(b))) & ((u != 0) | (b >= 0))
u, b = u[real], b[real]
inputs = {"u": u, "m": 1.0, "b": b, "q": np.ones(len(u))}

def law(u, m, b, q):
    return u**b + u**3.0 + u**4 + abs(u)**1.5 + 0.5 * u**5.0 + abs(u)**m

simulation = ds.Simulation(Law((len(u),), law), wrt=["u", "m"])
value, gradient = simulation.value_and_grad(lambda end: end.final["u"].sum(), inputs, 1)
front = {"u": abs(u), "m": 1.0, "b": abs(b), "q": np.ones(len(u))}
of_fields = ds.Simulation(Law((len(u),), lambda u, m, b, q: u**b), wrt=["u", "b"])
_, more = of_fields.value_and_grad(lambda end: end.final["u"].sum(), front, 1)
for each in (simulation.run(inputs, 1).final["u"], gradient["u"], gradient["m"], more["u"], more["b"]):
    print("RESULT", *np.ravel(each))
"""


@functools.cache
def _powers_on(arch: str) -> list[np.ndarray]:
    done = subprocess.run([sys.executable, "-c", ON_VULKAN, arch], capture_output=True, text=True, timeout=300)
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert len(lines) == 5, done.stdout[-1000:] + done.stderr[-1000:]
    return [np.array(line, float) for line in lines]


def test_powers_of_zero_and_of_negative_bases_on_vulkan() -> None:
    """GPUs have no 0 ** 0, and no power of a negative base."""
    require_vulkan()
    for there, here in zip(_powers_on("vulkan"), _powers_on("cpu"), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-5, atol=1e-6)


def test_a_negative_base_is_no_number() -> None:
    """As in NumPy: the guard of a run says so, and no value takes its place."""
    simulation = ds.Simulation(Law((7,), POWERS["fields"]), precision="f64")
    inputs = {"u": np.linspace(-1.0, 1.0, 7), "m": 1.5, "b": np.full(7, 1.5), "q": np.ones(7)}
    with pytest.raises(ds.errors.DivergenceError, match="finite"):
        simulation.run(inputs, steps=1)


def test_components_have_powers() -> None:
    class Pair(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt = ds.Grid((5, 7), 1.0), 1.0
            self.states = {"v": ds.Vector("yx", "periodic")}
            self.parameters = {"m": ds.Variable(axes=())}

        def step(self, v: Components, m: Symbol) -> dict[str, object]:
            return {"v": v**m + 2.0**v + v**v + m**v}

    v = np.random.default_rng(0).uniform(0.5, 1.5, (2, 5, 7))
    end = ds.Simulation(Pair(), precision="f64").run({"v": v, "m": 1.3}, steps=1).final["v"]
    np.testing.assert_allclose(end, v**1.3 + 2.0**v + v**v + 1.3**v, rtol=1e-14)
