"""Vectors and tensors on the staggered grid: gradient, divergence, curl and strain.

A vector is a tuple with a component for each axis, in the order of the axes. A tensor is a tuple of rows, each a vector. Locations:

    scalar                    centres
    vector, as of `grad`      component a on the faces of axis a
    vector, as of its `curl`  component a on the edges along axis a, the upper faces of all other axes
    tensor, as of `strain`    entry (a, a) at centres, entry (a, b) on the edges that are upper faces of a and b

Each operator moves half a cell. So all of them also work from staggered locations back to the others, as in the
schemes of Yee (1966), IEEE Trans. Antennas Propag. 14, 302-307, doi:10.1109/TAP.1966.1138693, and Virieux (1986), Geophysics 51, 889-901,
doi:10.1190/1.1442147.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, overload

from diffsim.errors import ShapeError
from diffsim.expr.functions import field_of
from diffsim.expr.operators import add, diff
from diffsim.expr.symbol import Symbol

Vector: TypeAlias = Sequence[Symbol]
Tensor: TypeAlias = Sequence[Vector]


def grad(f: Symbol, order: int = 2) -> tuple[Symbol, ...]:
    """∇f, component `a` on the faces of axis `a`.

    Args:
        f: an expression of the step.
        order: of the differences, even, 2 to 12.

    Returns:
        A tuple with a component an axis.

    Raises:
        ParameterError: an order that is odd, or not 2 to 12.

    Example:
        See `div`.
    """
    return tuple(diff(f, axis, order) for axis in range(field_of(f, "grad").ndim))


@overload
def div(u: Vector, order: int = 2) -> Symbol: ...
@overload
def div(u: Tensor, order: int = 2) -> tuple[Symbol, ...]: ...
def div(u: Vector | Tensor, order: int = 2) -> Symbol | tuple[Symbol, ...]:
    """∇·u of a vector on faces, at the centres. For a tensor: the vector of the divergences of its rows, on faces.

    Raises:
        ShapeError: not a component, or a row, for each axis.

    Args:
        u: a tuple with a component an axis, component `a` on the faces of axis `a`; or a tuple of such rows.
        order: of the differences, even, 2 to 12.

    Returns:
        An expression; of a tensor, a tuple of expressions.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import curl, div, grad, interpolate, strain

        class Elastic(ds.Equation):
            # Displacement of a plate, uₜₜ = ∇·(2 μ ε) + ∇(λ ∇·u), on a staggered grid with axes (y, x), and its vorticity.

            def __init__(self, grid, dt, mu=1.0, lam=1.0):
                self.grid, self.dt, self.mu, self.lam = grid, dt, mu, lam
                places = {"v": (1, 0), "u": (0, 1)}
                self.states = {f"{name}{when}": ds.Variable("periodic", at) for name, at in places.items() for when in ("", "_prev")}
                self.states["turning"] = ds.Variable("periodic", (1, 1))

            def step(self, v, u, v_prev, u_prev, turning):
                stress = tuple(tuple(2 * self.mu * e for e in row) for row in strain((v, u)))
                force = [a + self.lam * b for a, b in zip(div(stress), grad(div((v, u))))]
                v_next, u_next = 2 * v - v_prev + self.dt**2 * force[0], 2 * u - u_prev + self.dt**2 * force[1]
                return {"v": v_next, "u": u_next, "v_prev": v, "u_prev": u, "turning": curl((v, u))}

        grid = ds.Grid((16, 32), spacing=1 / 32)
        wave = np.sin(2 * np.pi * grid.coordinates(1, 1)) * np.ones(grid.shape)  # a longitudinal wave: nothing turns
        plate = ds.Simulation(Elastic(grid, dt=0.01), precision="f64")
        found = plate.run({"u": wave, "u_prev": wave}, steps=20).final
        assert np.allclose(found["turning"], 0, atol=1e-12)
        assert np.allclose(found["u"], wave * np.cos(2 * np.pi * np.sqrt(3.0) * 0.2), atol=0.08)  # its speed is √(λ + 2 μ)
    """
    if isinstance(u, Sequence) and u and isinstance(u[0], Sequence):
        return tuple(div(_checked(row, "div"), order) for row in _square(u))  # type: ignore[arg-type]
    return add([diff(component, axis, order) for axis, component in enumerate(_checked(u, "div"))])  # type: ignore[arg-type]


def strain(u: Vector, order: int = 2) -> tuple[tuple[Symbol, ...], ...]:
    """½ (∇u + ∇uᵀ) of a vector on faces: the diagonal at centres, entry (a, b), which is entry (b, a), on the edges of a and b.

    Raises:
        ShapeError: not a component for each axis.

    Args:
        u: a tuple with a component an axis, component `a` on the faces of axis `a`.
        order: of the differences, even, 2 to 12.

    Returns:
        A tuple of rows.

    Example:
        See `div`.
    """
    u = _checked(u, "strain")
    axes = range(len(u))
    rows = [[diff(u[a], b, order) for b in axes] for a in axes]
    return tuple(tuple(rows[a][a] if a == b else 0.5 * (rows[a][b] + rows[b][a]) for b in axes) for a in axes)


@overload
def curl(u: Symbol, order: int = 2) -> tuple[Symbol, Symbol]: ...
@overload
def curl(u: Vector, order: int = 2) -> Symbol | tuple[Symbol, ...]: ...
def curl(u: Symbol | Vector, order: int = 2) -> Symbol | tuple[Symbol, ...]:
    """∇ × u, where the axes of the grid are z, y, x, or y, x. (For axes in the order x, y, z or x, y, the sign is the opposite.)

    Args:
        u: in three dimensions a vector on faces, or on edges. In two dimensions a vector in the plane, or the component across the plane.
        order: order of the differences.

    Returns:
        In three dimensions a vector, on edges if `u` lies on faces and on faces if it lies on edges. In two dimensions, the component
        across the plane, ∂u_y/∂x - ∂u_x/∂y, of a vector, and the vector (-∂f/∂x, ∂f/∂y) of a component f.

    Raises:
        ShapeError: the grid has one dimension, or `u` does not have a component for each axis.

    Example:
        See `div`.
    """
    if isinstance(u, Symbol):
        if u.ndim != 2:
            raise ShapeError(
                f"curl of one field on a {u.ndim}-D grid, expected a vector with {u.ndim} components; in 2-D one field will do"
            )
        return -diff(u, 1, order), diff(u, 0, order)
    u = _checked(u, "curl")
    if len(u) == 1:
        raise ShapeError("curl on a 1-D grid, expected 2 or 3 dimensions; write diff(f, 0) for the only derivative")

    def across(a: int, b: int) -> Symbol:
        return diff(u[a], b, order) - diff(u[b], a, order)

    return across(0, 1) if len(u) == 2 else (across(1, 2), across(2, 0), across(0, 1))


def _square(u: Tensor) -> Tensor:
    """A tensor with a row for each axis."""
    if not all(isinstance(row, Sequence) and len(row) == len(u) for row in u):
        raise ShapeError("div of rows of unlike lengths, expected a row for each axis; write it like div(((syy, sxy), (sxy, sxx)))")
    return u


def _checked(u: Vector, what: str) -> Vector:
    """A vector with a component for each axis."""
    if not isinstance(u, Sequence) or not u or not all(isinstance(component, Symbol) for component in u):
        raise ShapeError(f"{what} of a {type(u).__name__}, expected a tuple of fields, one for each axis; write it like {what}((v, u))")
    if len(u) != u[0].ndim:
        raise ShapeError(
            f"{what} of {len(u)} components on a {u[0].ndim}-D grid, expected {u[0].ndim}; give one for each axis, in their order"
        )
    return u
