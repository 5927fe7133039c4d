"""Gradient, divergence, curl and strain on the staggered grid: places, orders, signs, and identities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from diffsim.errors import ShapeError
from diffsim.expr import Graph, Symbol, curl, diff, div, grad, strain
from diffsim.expr.evaluate import evaluate

WAVES = ((0.7, -0.4, 0.9), (-0.3, 0.8, 0.5), (0.6, 0.2, -0.7))
"""Wave numbers of the components of a vector, along the axes."""


def derivative(component: int, axis: int | None, places: list[np.ndarray]) -> np.ndarray:
    """Derivative of the sine of a plane wave along an axis; None: the sine itself."""
    phase = sum(k * x for k, x in zip(WAVES[component], places, strict=False))
    return np.sin(phase) if axis is None else WAVES[component][axis] * np.cos(phase)


def coordinates(location: tuple[int, ...], h: float) -> list[np.ndarray]:
    """Coordinates of four cells along each axis, around the origin, and two halo cells beyond."""
    return list(np.meshgrid(*(h * (np.arange(-4, 4) + 0.5 * place) for place in location), indexing="ij"))


def unit(axis: int, ndim: int) -> tuple[int, ...]:
    return tuple(int(a == axis) for a in range(ndim))


def others(location: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 - place for place in location)


def wave_vector(locations: list[tuple[int, ...]], h: float) -> tuple[tuple[Symbol, ...], dict[str, np.ndarray]]:
    """Components u0, u1, ... at their places, and their values."""
    graph, ndim = Graph(), len(locations[0])
    symbols = tuple(Symbol(graph, graph.read(f"u{c}", (0,) * ndim), place, (h,) * ndim) for c, place in enumerate(locations))
    return symbols, {f"u{c}": derivative(c, None, coordinates(place, h)) for c, place in enumerate(locations)}


def error(found: Symbol, values: dict[str, np.ndarray], h: float, wanted: Callable[[list[np.ndarray]], np.ndarray]) -> float:
    inside = (slice(2, -2),) * found.ndim
    exact = wanted(coordinates(found.location, h))[inside]  # type: ignore[arg-type]
    return float(np.abs(evaluate([found.node], values, exact.shape, (2,) * found.ndim)[0] - exact).max())


Parts = list[tuple[Symbol, tuple[int, ...], Callable[[list[np.ndarray]], np.ndarray]]]
"""Entries of the result of an operator, their places, and their exact values."""


def strain_parts(u: tuple[Symbol, ...], order: int) -> Parts:
    strains, axes = strain(u, order), range(len(u))
    assert all(strains[a][b].node is strains[b][a].node for a in axes for b in axes)
    return [
        (
            strains[a][b],
            tuple(int(axis in (a, b)) if a != b else 0 for axis in axes),
            lambda x, a=a, b=b: (derivative(a, b, x) + derivative(b, a, x)) / 2,
        )
        for a in axes
        for b in axes
    ]


def div_parts(u: tuple[Symbol, ...], order: int) -> Parts:
    return [(div(u, order), (0,) * len(u), lambda x: sum(derivative(a, a, x) for a in range(len(u))))]


def curl_parts(u: tuple[Symbol, ...], order: int) -> Parts:
    """After the book: with coordinates x, y, z, which are the last axis, the one before, and the first of three."""
    rotation = curl(u, order)
    x, y, z = len(u) - 1, len(u) - 2, len(u) - 3
    if isinstance(rotation, Symbol):
        return [(rotation, (1, 1), lambda p: derivative(y, x, p) - derivative(x, y, p))]
    wanted = {
        x: lambda p: derivative(z, y, p) - derivative(y, z, p),
        y: lambda p: derivative(x, z, p) - derivative(z, x, p),
        z: lambda p: derivative(y, x, p) - derivative(x, y, p),
    }
    return [(rotation[axis], others(u[axis].location), wanted[axis]) for axis in range(3)]


def faces(ndim: int) -> list[tuple[int, ...]]:
    return [unit(axis, ndim) for axis in range(ndim)]


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize(
    ("parts", "locations"),
    [
        *((parts, faces(ndim)) for parts in (div_parts, strain_parts) for ndim in (1, 2, 3)),
        *((curl_parts, faces(ndim)) for ndim in (2, 3)),
        (curl_parts, [others(place) for place in faces(3)]),
    ],
    ids=lambda value: value.__name__ if callable(value) else f"{len(value)}-D {'edges' if sum(value[0]) > 1 else 'faces'}",
)
def test_operators_of_vectors_have_their_order_at_their_places(
    parts: Callable[[tuple[Symbol, ...], int], Parts], locations: list[tuple[int, ...]], order: int
) -> None:
    errors = []
    for h in (0.2, 0.1):
        u, values = wave_vector(locations, h)
        entries = parts(u, order)
        assert [entry.location for entry, _, _ in entries] == [place for _, place, _ in entries]
        errors.append(max(error(entry, values, h, wanted) for entry, _, wanted in entries))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.5)


def test_curl_of_one_component_in_the_plane() -> None:
    """∂f/∂y along x and -∂f/∂x along y, for f across the plane."""
    errors = []
    for h in (0.2, 0.1):
        (f, _), values = wave_vector([(0, 0), (0, 0)], h)
        y, x = curl(f)
        assert (y.location, x.location) == ((0, 1), (1, 0))
        errors.append(max(error(x, values, h, lambda p: derivative(0, 0, p)), error(y, values, h, lambda p: -derivative(0, 1, p))))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.3)


@pytest.mark.parametrize("order", [2, 6])
def test_identities_of_vector_calculus_hold_on_the_grid(order: int) -> None:
    rng, halo = np.random.default_rng(0), (order,) * 3
    graph = Graph()
    f, *u = (
        Symbol(graph, graph.read(name, (0, 0, 0)), place, (0.3, 0.5, 0.7))
        for name, place in zip("fwvu", [(0, 0, 0), *faces(3)], strict=True)
    )
    values = {name: rng.normal(size=(2 + 2 * order,) * 3) for name in "fwvu"}
    turned, gradient = curl(u, order), grad(f, order)
    zeros = [div(curl(turned, order), order), *curl(gradient, order)]
    assert [z.location for z in zeros] == [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
    for zero in zeros:
        assert np.abs(evaluate([zero.node], values, (2, 2, 2), (order,) * 3)[0]).max() < 1e-11, halo


def test_the_divergence_of_a_tensor_is_that_of_its_rows() -> None:
    graph = Graph()
    yy, xx, xy = (
        Symbol(graph, graph.read(name, (0, 0)), place, (0.3, 0.7)) for name, place in (("yy", (0, 0)), ("xx", (0, 0)), ("xy", (1, 1)))
    )
    along_y, along_x = div(((yy, xy), (xy, xx)), 4)
    assert (along_y.location, along_x.location) == ((1, 0), (0, 1))
    assert along_y.node is (diff(yy, 0, 4) + diff(xy, 1, 4)).node
    assert along_x.node is (diff(xy, 0, 4) + diff(xx, 1, 4)).node


WRONG: dict[str, tuple[Callable[[Symbol], object], str]] = {
    "too few": (lambda f: div((f,)), "div of 1 components on a 2-D grid, expected 2; give one for each axis"),
    "a field": (lambda f: div(f), r"div of a Symbol, expected a tuple of fields, one for each axis; write it like div\(\(v, u\)\)"),  # type: ignore[call-overload]
    "numbers": (lambda f: strain((f, 1.0)), "strain of a tuple, expected a tuple of fields"),  # type: ignore[arg-type]
    "rows": (lambda f: div(((f, f), (f,))), "rows of unlike lengths, expected a row for each axis"),
    "one row": (lambda f: div(((f, f),)), "rows of unlike lengths"),
    "none": (lambda f: curl(()), "curl of a tuple"),
    "three": (lambda f: curl((f, f, f)), "curl of 3 components on a 2-D grid"),
}


@pytest.mark.parametrize("call", WRONG)
def test_wrong_vectors(call: str) -> None:
    function, message = WRONG[call]
    graph = Graph()
    field = Symbol(graph, graph.read("f", (0, 0)), (0, 0), (1.0, 1.0))
    with pytest.raises(ShapeError, match=message):
        function(field)


def test_curl_needs_two_dimensions() -> None:
    line = Symbol(Graph(), Graph().read("f", (0,)), (0,), (1.0,))
    with pytest.raises(ShapeError, match="curl on a 1-D grid, expected 2 or 3 dimensions"):
        curl((line,))
    with pytest.raises(ShapeError, match="curl of one field on a 1-D grid, expected a vector"):
        curl(line)
