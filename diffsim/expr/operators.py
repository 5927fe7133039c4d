"""Discrete operators for steps: differences and interpolations.

Arguments and results are `Symbol`s. If the result has another location on the cell, the docstring says so. Orders are even, 2 to 12;
along stretched axes 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from diffsim.errors import ShapeError, TraceError
from diffsim.expr.functions import field_of
from diffsim.expr.graph import reads
from diffsim.expr.metric import check_second_order, stretched_diff, stretched_diff_centred, stretched_interpolate
from diffsim.expr.symbol import Symbol
from diffsim.expr.weights import centred, check_order, staggered


def laplacian(f: Symbol, order: int = 2) -> Symbol:
    """∇²f with central differences of the given order; same location.

    Args:
        f: an expression of the step.
        order: of the differences, even, 2 to 12.

    Returns:
        An expression at the same place, in the unit of `f` over the square of that of the spacing.

    Raises:
        ParameterError: an order that is odd, or not 2 to 12.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import diff_centred, laplacian

        class AdvectionDiffusion(ds.Equation):
            # uₜ + a uₓ = ν uₓₓ in a periodic channel, sixth order in space.

            states = {"u": ds.Variable("periodic")}

            def __init__(self, grid, dt, a, nu):
                self.grid, self.dt, self.a, self.nu = grid, dt, a, nu

            def rate(self, now):
                return {"u": self.nu * laplacian(now["u"], order=6) - self.a * diff_centred(now["u"], 0, order=6)}

            def step(self, u):
                return ds.integrators.rk4(self.rate, {"u": u}, self.dt)

        grid = ds.Grid((40,), spacing=1 / 40)
        channel = ds.Simulation(AdvectionDiffusion(grid, dt=0.01, a=1.0, nu=0.005), precision="f64")
        x, k = grid.coordinates(0), 2 * np.pi
        found = channel.run({"u": np.sin(k * x)}, steps=100).final["u"]
        assert np.allclose(found, np.exp(-0.005 * k**2) * np.sin(k * (x - 1.0)), atol=1e-4)
    """
    order = check_order(order)
    terms, even = [], []
    for axis, h in enumerate(field_of(f, "laplacian").spacing):
        if h is None:
            check_second_order(order, axis, "laplacian")
            terms.append(stretched_diff(stretched_diff(f, axis), axis))
        else:
            even.append((axis, h))
    return add([_uniform_laplacian(f, even, order), *terms] if even else terms)


def _uniform_laplacian(f: Symbol, axes: Sequence[tuple[int, float]], order: int) -> Symbol:
    """Second derivatives along axes of given spacings, summed."""
    reach = order // 2
    weights = centred(2, order)
    total = sum(weights[reach] / h**2 for _, h in axes) * f
    for k in range(1, reach + 1):
        # neighbours of equal weight are added before they are multiplied
        groups: dict[float, list[Symbol]] = {}
        for axis, h in axes:
            groups.setdefault(weights[reach + k] / h**2, []).append(f.shifted(axis, -k) + f.shifted(axis, k))
        for weight, pairs in groups.items():
            total = total + weight * add(pairs)
    return total


def diff_second(f: Symbol, axis: int, order: int = 2) -> Symbol:
    """∂²f/∂x_axis² at the same location: the part of `laplacian` along one axis."""
    axis, _ = place_along(f, axis, "diff_second")
    order, h = check_order(order), f.spacing[axis]
    if h is None:
        check_second_order(order, axis, "diff_second")
        return stretched_diff(stretched_diff(f, axis), axis)
    return _uniform_laplacian(f, [(axis, h)], order)


def diff(f: Symbol, axis: int, order: int = 2) -> Symbol:
    """∂f/∂x_axis on the staggered grid: centre values give face values and face values give centre values.

    Args:
        f: an expression of the step.
        axis: of the grid; may be counted from the last.
        order: of the differences, even, 2 to 12.

    Returns:
        An expression half a cell further, in the unit of `f` over that of the spacing.

    Raises:
        ShapeError: the grid has no such axis.
        ParameterError: an order that is odd, or not 2 to 12.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import diff, interpolate

        class Tracer(ds.Equation):
            # A tracer with diffusivity D that varies: flux on the faces, its divergence at the centres.

            states = {"c": ds.Variable("mirror")}
            parameters = {"D": ds.Variable("mirror", unit="m²/s")}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, c, D):
                flux = interpolate(D, axis=0) * diff(c, axis=0)
                return {"c": c + self.dt * diff(flux, axis=0)}

        rng = np.random.default_rng(1)
        given = {"c": rng.random(30), "D": rng.uniform(0.1, 0.4, 30)}
        c = ds.Simulation(Tracer(ds.Grid((30,), spacing=1.0), dt=0.5), precision="f64").run(given, steps=1).final["c"]
        flux = 0.5 * (given["D"][1:] + given["D"][:-1]) * np.diff(given["c"])
        assert np.allclose(c, given["c"] + 0.5 * np.diff(np.pad(flux, 1)))
    """
    return _stagger(f, axis, order, derivative=1)


def interpolate(f: Symbol, axis: int, order: int = 2) -> Symbol:
    """f half a cell away along `axis`: from the centre to the upper face, or from the faces to the centre.

    A field that does not vary along the axis is returned unchanged.

    Args:
        f: an expression of the step.
        axis: of the grid; may be counted from the last.
        order: of the interpolation, even, 2 to 12.

    Returns:
        An expression half a cell further.

    Raises:
        ShapeError: the grid has no such axis.
        ParameterError: an order that is odd, or not 2 to 12.
        TraceError: it is a forcing.
    """
    if field_of(f, "interpolate").location[f.axis(axis)] is None:
        check_order(order)
        if sources := f.graph.forcings.intersection(reads([f.node])):
            raise TraceError(
                f"interpolate() of the forcing {', '.join(sorted(sources))}, expected a field; a point source lies where the state lies "
                "that it enters, so add it as it stands"
            )
        return f
    return _stagger(f, axis, order, derivative=0)


def diff_centred(f: Symbol, axis: int, order: int = 2) -> Symbol:
    """∂f/∂x_axis at the same location, by central differences.

    Args:
        f: an expression of the step.
        axis: of the grid; may be counted from the last.
        order: of the differences, even, 2 to 12.

    Returns:
        An expression at the same place, in the unit of `f` over that of the spacing.

    Raises:
        ShapeError: the grid has no such axis.
        ParameterError: an order that is odd, or not 2 to 12.

    Example:
        See `laplacian`.
    """
    axis, order = field_of(f, "diff_centred").axis(axis), check_order(order)
    h = f.spacing[axis]
    if h is None:
        axis, _ = place_along(f, axis, "diff_centred")
        check_second_order(order, axis, "diff_centred")
        return stretched_diff_centred(f, axis)
    weights = centred(1, order)
    reach = order // 2
    terms = [weights[reach + k] / h * (f.shifted(axis, k) - f.shifted(axis, -k)) for k in range(1, reach + 1)]
    return add(terms)


def add(terms: Iterable[Symbol]) -> Symbol:
    """The sum of one or more expressions."""
    first, *others = terms
    for term in others:
        first = first + term
    return first


def place_along(f: Symbol, axis: int, what: str) -> tuple[int, int]:
    """The axis, counted from 0, and the location of `f` along it: 0 the centre, 1 the upper face.

    Raises:
        ShapeError: the grid does not have the axis, or `f` does not vary along it.
    """
    axis = field_of(f, what).axis(axis)
    place = f.location[axis]
    if place is None:
        raise ShapeError(f"{what} along axis {axis} of an expression that does not vary along it; give one that does")
    return axis, place


def _stagger(f: Symbol, axis: int, order: int, derivative: int) -> Symbol:
    (axis, place), order = place_along(f, axis, "diff or interpolate"), check_order(order)
    h = f.spacing[axis]
    if h is None:
        check_second_order(order, axis, "diff" if derivative else "interpolate")
        return (stretched_diff if derivative else stretched_interpolate)(f, axis)
    weights = staggered(derivative, order)
    scale = 1 / h if derivative else 1.0
    first = -order // 2 + (0 if place else 1)  # centre i and face i + 1/2: face <- centres -order/2+1 .. order/2
    half = order // 2
    terms = []
    for k in range(half):  # pairs of equal distance: symmetric for interpolation, antisymmetric for the derivative
        left, right = f.shifted(axis, first + half - 1 - k), f.shifted(axis, first + half + k)
        pair = right - left if derivative else left + right
        terms.append(weights[half + k] * scale * pair)
    return add(terms).across(axis)
