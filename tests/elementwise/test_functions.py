"""Every elementary function in array programs, steps, scans and tiles: values against NumPy and SciPy, derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.expr
import diffsim.numpy as dn
from diffsim import kernels
from diffsim.elementwise import table
from diffsim.elementwise.source import ENGINE, LINES
from diffsim.expr import Graph
from diffsim.kernels import launch
from diffsim.kernels.operator import Operator
from tests.sampled import sampled

from .table import FUNCTIONS, Tried

COUNT = 1200
DIFFERENCE = 1e-7
"""Error of a derivative from differences of values with steps of 1e-5, relative to the values."""

every = pytest.mark.parametrize("name", FUNCTIONS)
precisions = pytest.mark.parametrize("dtype", ["f4", "f8"])


def of_arrays(name: str) -> Callable[..., Any]:
    return getattr(dn, name) if hasattr(np, name) else getattr(dn.special, name)


def arguments(tried: Tried, dtype: str = "f8", inside: float = 0.0) -> list[np.ndarray]:
    """Numbers of every size between the bounds, and of both signs where there are."""
    rng = np.random.default_rng(1)
    low, high = tried.low, tried.high
    if inside:
        low, high = max(low, -3.0) + inside, min(high, 3.0) - inside
    x = rng.uniform(low, high, COUNT)
    small = rng.uniform(max(low, -1.0), min(high, max(low + 1.0, 1.0)), COUNT // 3)
    x[: COUNT // 3] = small
    if low < 0 < high and not inside:
        x[: COUNT // 6] *= 10.0 ** rng.uniform(-8, 0, COUNT // 6)
    second = [] if tried.second is None else [rng.uniform(*tried.second, COUNT)]
    return [each.astype(dtype) for each in (x, *second)]


class _Applied(ds.Equation):
    """The function of one field or two, x and y."""

    def __init__(self, name: str, shape: tuple[int, ...], fields: str) -> None:
        self.grid, self.dt, self.name, self.fields = ds.Grid(shape, spacing=1.0), 1.0, name, fields
        self.states = {each: ds.Variable("periodic") for each in (*fields, "found")}

    def step(self, found: Any, **fields: Any) -> dict[str, Any]:
        return fields | {"found": getattr(diffsim.expr, self.name)(*(fields[each] for each in self.fields))}


def in_step(name: str, given: list[np.ndarray], precision: str) -> tuple[Any, dict[str, Any]]:
    """The simulation of one step that applies the function, and its inputs."""
    run = ds.Simulation(_Applied(name, given[0].shape, "xy"[: len(given)]), precision=precision)
    return run, dict(zip("xy", given, strict=False)) | {"found": np.zeros_like(given[0])}


def in_tiles(name: str, given: list[np.ndarray]) -> Any:
    return ds.tile.map(of_arrays(name))(*(each.reshape(-1, 10) for each in given)).reshape(-1)


def require_near(found: Any, name: str, given: list[np.ndarray]) -> None:
    """The values are those of the reference on the same arguments in f64."""
    dtype, exact = given[0].dtype, FUNCTIONS[name].exact
    reference = table.FUNCTIONS[name].reference if exact is None else np.vectorize(exact)
    wanted = reference(*(each.astype(float) for each in given))
    assert np.asarray(found).dtype == dtype
    error = np.abs(np.asarray(found, float) - wanted) / np.maximum(np.abs(wanted), np.finfo(dtype).tiny / np.finfo(dtype).eps)
    assert np.max(error) <= FUNCTIONS[name].rounding * np.finfo(dtype).eps, given[0][np.argmax(error)]


def test_the_tables_have_the_same_functions() -> None:
    assert FUNCTIONS.keys() == table.FUNCTIONS.keys()
    assert set(dn.special.__all__) == {name for name in table.FUNCTIONS if not hasattr(np, name)}
    assert set(table.FUNCTIONS) <= set(diffsim.expr.__all__)
    assert not set(LINES) & set(ENGINE)


@every
@precisions
def test_value_in_a_step(name: str, dtype: str) -> None:
    fields = arguments(FUNCTIONS[name], dtype)
    run, inputs = in_step(name, fields, {"f4": "f32", "f8": "f64"}[dtype])
    require_near(run.run(inputs, steps=1).final["found"], name, fields)


@every
@precisions
def test_value_in_a_tile(name: str, dtype: str) -> None:
    fields = arguments(FUNCTIONS[name], dtype)
    require_near(in_tiles(name, fields), name, fields)


@every
def test_value_in_an_array_program(name: str) -> None:
    fields = arguments(FUNCTIONS[name])
    assert np.array_equal(ds.vjp(of_arrays(name), *fields)[0], table.FUNCTIONS[name].reference(*fields))


IN_GATE = ("sqrt", "deg2rad", "sin", "arctan2", "expm1", "erf", "softplus")
"""Functions of the engine, of one argument and of two, expressions, and lines; each function's lines are tried in steps and tiles."""


@pytest.mark.parametrize("name", sampled(FUNCTIONS, gate=IN_GATE))
def test_in_an_operator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of scans against NumPy, on pairs: the operator is not associative."""
    x = arguments(FUNCTIONS[name], inside=0.1)[0].reshape(-1, 2, 4)
    graph = Graph()
    a, b = graph.read("a0", ()), graph.read("b0", ())
    operands = (b, graph.const(0.5))[: table.FUNCTIONS[name].count]
    op = Operator(graph, (graph.add(graph.mul(graph.const(0.25), a), graph.apply(name, *operands)),))
    values = kernels.scan(op, (x,))
    bars = kernels.scan_vjp(op, (x,), values, (np.ones_like(x),))
    monkeypatch.setattr(launch, "SMALLEST", 1)
    assert np.allclose(kernels.scan(op, (x,))[0], values[0], rtol=1e-13, atol=1e-13)
    assert np.allclose(kernels.scan_vjp(op, (x,), values, (np.ones_like(x),))[0], bars[0], rtol=1e-12, atol=1e-12)


@every
def test_an_operator_of_a_scan_is_traced(name: str) -> None:
    places = (0.3,) if table.FUNCTIONS[name].count == 1 else (0.3, 0.4)
    own, x = of_arrays(name), np.array([1.5, 0.25, 0.5, 2.0])
    shift = 2.0 if name == "arccosh" else 0.0
    weight = float(table.FUNCTIONS[name].reference(*(each + shift for each in places)))

    def weighted(a: Any, b: Any) -> Any:
        return a + b * (own(*(0.0 * a + each + shift for each in places)) / weight)

    sums, pullback = ds.vjp(lambda x: ds.scan(weighted, x), x)
    assert np.allclose(sums, np.cumsum(x)) and np.allclose(pullback(np.ones(4))[0], [4, 3, 2, 1])


@every
def test_derivatives(name: str) -> None:
    """Those of array programs agree with differences; those of steps and tiles with those of array programs, to second order."""
    fields = arguments(FUNCTIONS[name], inside=0.1)
    rng = np.random.default_rng(2)
    bar, dots = rng.normal(size=COUNT), [rng.normal(size=COUNT) for _ in fields]
    own, step = of_arrays(name), 1e-5
    high, low = (table.FUNCTIONS[name].reference(*(x + s * step * d for x, d in zip(fields, dots, strict=True))) for s in (1, -1))
    tangent = ds.jvp(own, tuple(fields), tuple(dots))[1]
    if name != "arctan2":  # which jumps where its second argument is negative
        away = np.abs(fields[0]) > (0.1 if table.FUNCTIONS[name].slope == "infinite" else 0.0)  # from 0, where it may be infinite
        wanted = ((high - low) / (2 * step))[away]
        assert np.allclose(tangent[away], wanted, rtol=DIFFERENCE, atol=DIFFERENCE * np.abs(wanted).max())
    bars = ds.vjp(own, *fields)[1](bar)
    assert np.allclose(sum(b * d for b, d in zip(bars, dots, strict=True)), tangent * bar, rtol=1e-12)

    run, inputs = in_step(name, fields, "f64")
    moved = dict(zip("xy", dots, strict=False)) | {"found": np.zeros(COUNT)}
    assert np.allclose(run.jvp(inputs, moved, 1)[1].final["found"], tangent, rtol=1e-12)

    shaped = [each.reshape(-1, 10) for each in fields]
    pullback = ds.vjp(ds.tile.map(own), *shaped)[1]
    for pulled, wanted in zip(pullback(bar.reshape(-1, 10)), bars, strict=True):
        assert np.allclose(pulled.reshape(-1), wanted, rtol=1e-12)

    def gradient(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *a: ds.vjp(f, *a)[1](bar.reshape(-1, 10))[0]

    along = tuple(each.reshape(-1, 10) for each in dots)
    wanted, pulled = (ds.jvp(gradient(f), tuple(shaped), along)[1] for f in (own, ds.tile.map(own)))
    assert np.allclose(pulled, wanted, rtol=1e-11, atol=1e-11 * np.abs(wanted).max())


@pytest.mark.parametrize("name", [name for name, tried in FUNCTIONS.items() if tried.limits != (None, None)])
@precisions
def test_limits(name: str, dtype: str) -> None:
    """At infinity and where numbers end, and no number of no number: in kernels as in SciPy."""
    largest = np.finfo(dtype).max
    pairs = [(x, limit) for limit, end in zip(FUNCTIONS[name].limits, (-1, 1), strict=True) if limit is not None for x in (end * np.inf,)]
    pairs += [
        (end * largest, limit) for limit, end in zip(FUNCTIONS[name].limits, (-1, 1), strict=True) if limit not in (None, np.inf, -np.inf)
    ]
    x = np.array([*(x for x, _ in pairs), np.nan, 1.0], dtype)
    x, wanted = np.resize(x, (3, x.size)), np.array([limit for _, limit in pairs])
    values = np.asarray(ds.tile.map(of_arrays(name))(x))[:, :-1]
    assert np.array_equal(values[:, :-1], np.resize(wanted, values[:, :-1].shape)) and np.isnan(values[:, -1]).all()


def test_functions_of_scipy_lead_to_those_of_diffsim() -> None:
    import scipy.special

    x = np.linspace(-2.0, 2.0, 7)
    gradient = ds.grad(lambda x: dn.sum(scipy.special.erf(x)))(x)
    assert np.array_equal(gradient, ds.grad(lambda x: dn.sum(dn.special.erf(x)))(x))
    with pytest.raises(ds.DiffsimError, match=r"expected real numbers; take the real part"):
        ds.vjp(lambda x: dn.special.erf(x + 1j), x)
    with pytest.raises(ds.DiffsimError, match=r"erf of 2 arguments, expected 1"):
        ds.vjp(lambda x: dn.special.erf(x, x), x)


def test_whole_numbers_become_floating_point() -> None:
    x = np.arange(4)
    assert np.array_equal(ds.vjp(lambda w: dn.special.expit(x) * w, 1.0)[0], dn.special.expit(x))


@pytest.mark.parametrize(
    ("name", "at"),
    [("expm1", 705.0), ("expm1", 709.0), ("log1p", 1e308), ("arctanh", -(1 - 1e-15)), ("arctanh", 1 - 1e-15), ("arccosh", 1 + 1e-12)],
)
def test_kernels_keep_digits_near_the_ends(name: str, at: float) -> None:
    f = getattr(dn, name)
    value = ds.tile.map(f)(np.full((3, 2), at))
    np.testing.assert_allclose(value, getattr(np, name)(at), rtol=1e-15)


@precisions
def test_cube_roots_of_all_magnitudes(dtype: str) -> None:
    """In kernels as in C: below one unit in the last place of numbers with any exponent, next to powers of 8 too."""
    limits, random = np.finfo(dtype), np.random.default_rng(3)
    exponents = random.uniform(limits.minexp, limits.maxexp, 4096)
    powers = 8.0 ** np.arange(limits.minexp // 3 + 1, limits.maxexp // 3)
    x = np.concatenate([np.exp2(exponents), powers, np.nextafter(powers.astype(dtype), np.array(0, dtype)), [limits.max, limits.tiny]])
    x = (x * random.choice((-1.0, 1.0), x.size)).astype(dtype)
    exact = np.cbrt(x.astype(np.longdouble))
    run, inputs = in_step("cbrt", [x], {"f4": "f32", "f8": "f64"}[dtype])
    for value in (run.run(inputs, steps=1).final["found"], np.asarray(ds.tile.map(dn.cbrt)(x[None]))[0]):
        assert value.dtype == dtype
        assert (np.abs(value - exact) / np.spacing(np.abs(value))).max() < 1
    signs = np.array([[0.0, -0.0, 8.0, -8.0]], dtype)
    assert np.asarray(ds.tile.map(dn.cbrt)(signs)).tobytes() == np.cbrt(signs).tobytes()
