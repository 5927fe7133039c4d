"""Discrete operators for steps: differences and interpolations.

Arguments and results are `Symbol`s. If the result has another location on the cell, the docstring says so. Orders are even, 2 to 12;
along stretched axes 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from diffsim.errors import ShapeError
from diffsim.expr.functions import field_of
from diffsim.expr.metric import check_second_order, stretched_diff, stretched_diff_centred, stretched_interpolate
from diffsim.expr.symbol import Symbol
from diffsim.expr.weights import centred, check_order, staggered


def laplacian(f: Symbol, order: int = 2) -> Symbol:
    """∇²f with central differences of the given order; same location."""
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


def diff(f: Symbol, axis: int, order: int = 2) -> Symbol:
    """∂f/∂x_axis on the staggered grid: centre values give face values and face values give centre values."""
    return _stagger(f, axis, order, derivative=1)


def interpolate(f: Symbol, axis: int, order: int = 2) -> Symbol:
    """f half a cell away along `axis`: from the centre to the upper face, or from the faces to the centre.

    A field that does not vary along the axis is returned unchanged.
    """
    if field_of(f, "interpolate").location[f.axis(axis)] is None:
        check_order(order)
        return f
    return _stagger(f, axis, order, derivative=0)


def diff_centred(f: Symbol, axis: int, order: int = 2) -> Symbol:
    """∂f/∂x_axis at the same location, by central differences."""
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
