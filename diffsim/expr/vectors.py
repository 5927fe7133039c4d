"""Vectors and tensors on the staggered grid: gradient, divergence, curl and strain.

A vector has a component for each axis, in the order of the axes, and a tensor a row for each, which is a vector. Arguments are groups of
fields (`Components`), or tuples. Results are groups, for which arithmetic goes component by component. Locations:

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
from dataclasses import replace
from typing import Any, TypeAlias, overload

from diffsim.errors import ShapeError
from diffsim.expr.components import Components, tensor_layout, vector_layout
from diffsim.expr.functions import field_of
from diffsim.expr.operators import add, diff, interpolate
from diffsim.expr.symbol import Symbol

Vector: TypeAlias = Components | Sequence[Symbol]
Tensor: TypeAlias = Components | Sequence[Sequence[Symbol]]
CYCLE = "xyzxy"


def grad(f: Symbol, order: int = 2) -> Components:
    """∇f, component `a` on the faces of axis `a`.

    Args:
        f: an expression of the step.
        order: of the differences, even, 2 to 12.

    Returns:
        A vector with a component an axis; it can be unpacked.

    Raises:
        ParameterError: an order that is odd, or not 2 to 12.

    Example:
        See `div`.
    """
    return vector([diff(f, axis, order) for axis in range(field_of(f, "grad").ndim)])


@overload
def div(u: Components, order: int = 2) -> Any: ...


@overload
def div(u: Sequence[Symbol], order: int = 2) -> Symbol: ...


@overload
def div(u: Sequence[Sequence[Symbol]], order: int = 2) -> Components: ...


def div(u: Vector | Tensor, order: int = 2) -> Symbol | Components:
    """∇·u of a vector on faces, at the centres. For a tensor: the vector of the divergences of its rows, on faces.

    Raises:
        ShapeError: not a component, or a row, for each axis.

    Args:
        u: a vector with a component an axis, component `a` on the faces of axis `a`; or a tensor, which is a tuple of such rows.
        order: of the differences, even, 2 to 12.

    Returns:
        An expression; of a tensor, a vector.

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
    if isinstance(u, Components) and u.layout.rank == 2:
        return Components(vector_layout(u.layout.axes), {a: div(tuple(u[a, b] for b in u.layout.axes), order) for a in u.layout.axes})
    if not isinstance(u, Components) and isinstance(u, Sequence) and u and isinstance(u[0], Sequence):
        return vector([div(_checked(row, "div"), order) for row in _square(u)])
    return add([diff(component, axis, order) for axis, component in enumerate(_checked(u, "div"))])


def strain(u: Vector, order: int = 2) -> Components:
    """½ (∇u + ∇uᵀ) of a vector on faces: the diagonal at centres, entry (a, b), which is entry (b, a), on the edges of a and b.

    Raises:
        ShapeError: not a component for each axis.

    Args:
        u: a vector with a component an axis, component `a` on the faces of axis `a`.
        order: of the differences, even, 2 to 12.

    Returns:
        A symmetric tensor, whose rows can be unpacked.
    """
    v = _checked(u, "strain")
    letters = u.layout.axes if isinstance(u, Components) else "012"[: len(v)]
    layout = tensor_layout(letters)

    def entry(a: int, b: int) -> Symbol:
        return diff(v[a], b, order) if a == b else 0.5 * (diff(v[a], b, order) + diff(v[b], a, order))

    places = [sorted(map(letters.index, key)) for key in layout.keys]
    return Components(layout, {key: entry(a, b) for key, (a, b) in zip(layout.keys, places, strict=True)})


@overload
def curl(u: Symbol, order: int = 2) -> Components: ...


@overload
def curl(u: Vector, order: int = 2) -> Any: ...


def curl(u: Symbol | Vector, order: int = 2) -> Symbol | Components:
    """∇ × u, where the axes of the grid are z, y, x, or y, x. (For axes in the order x, y, z or x, y, the sign is the opposite.)

    Args:
        u: in three dimensions a vector on faces, or on edges. In two dimensions a vector in the plane, or the component across the plane.
        order: order of the differences.

    Returns:
        In three dimensions a vector, on edges if `u` lies on faces and on faces if it lies on edges. In two dimensions, the component
        across the plane, ∂u_y/∂x - ∂u_x/∂y, of a vector, and the vector (-∂f/∂x, ∂f/∂y) of a component f. Of a group over axes x, y and z,
        in any number of dimensions, a group: the components that a derivative along one of its axes is in.

    Raises:
        ShapeError: the grid has one dimension, or `u` does not have a component for each axis.
    """
    if isinstance(u, Symbol):
        if u.ndim != 2:
            raise ShapeError(
                f"curl of one field on a {u.ndim}-D grid, expected a vector with {u.ndim} components; in 2-D one field will do"
            )
        return vector([-diff(u, 1, order), diff(u, 0, order)])
    if isinstance(u, Components) and u.layout.rank == 1 and not u.layout.axes.isdigit():
        terms = curl_terms(u.layout.axes, u.layout.keys)
        slopes = {c: [(sign, diff(u[read], axis, order)) for sign, axis, read in each] for c, each in terms.items()}
        parts = {c: first if sign > 0 else -first for c, ((sign, first), *_) in slopes.items()}
        parts |= {c: parts[c] - second for c, (_, *others) in slopes.items() for _, second in others}  # the second sign is -
        return Components(vector_layout(u.layout.axes, tuple(parts)), parts)
    v = _checked(u, "curl")
    if len(v) == 1:
        raise ShapeError("curl on a 1-D grid, expected 2 or 3 dimensions; write diff(f, 0) for the only derivative")

    def across(a: int, b: int) -> Symbol:
        return diff(v[a], b, order) - diff(v[b], a, order)

    return across(0, 1) if len(v) == 2 else vector([across(1, 2), across(2, 0), across(0, 1)])


def curl_terms(axes: str, keys: Sequence[str]) -> dict[str, list[tuple[float, int, str]]]:
    """The derivatives in each component of ∇×u: sign, axis of the grid, and which component of u it is of.

        (∇×u)_x = ∂u_z/∂y - ∂u_y/∂z, and so on in turn, along the axes that there are

    Args:
        axes: letters of the axes of the grid, x, y and z.
        keys: the components of u.

    Raises:
        ShapeError: other letters.
    """
    if not set(axes) <= set("xyz"):
        raise ShapeError(f"curl over axes {', '.join(axes)}, expected x, y and z; give a tuple of the components instead")
    terms_of = {}
    for c in "zyx":
        after, last = (CYCLE[CYCLE.index(c) + k] for k in (1, 2))
        pairs = ((1.0, after, last), (-1.0, last, after))
        terms_of[c] = [(sign, axes.index(along), read) for sign, along, read in pairs if along in axes and read in keys]
    return {c: terms for c, terms in terms_of.items() if terms}


def diagonal(f: Symbol) -> Components:
    """The tensor that has f on its diagonal, such as a pressure; its other entries are 0.

    It is added to, and subtracted from, symmetric tensors. Multiply `f` itself by fields, as in diagonal(lam * div(v)).

    Args:
        f: an expression of the step.

    Returns:
        A tensor of the axes of the grid.

    Raises:
        TraceError: it is no expression of the step.
    """
    letters = "012"[: field_of(f, "diagonal").ndim]
    entries = {a + a: f for a in letters}
    return Components(replace(tensor_layout(letters), keys=tuple(entries)), entries)


def interpolate_to(f: Symbol | Components, u: Symbol | Components, order: int = 2) -> Components:
    """f at the place of each component of a vector or a tensor: of a field at centres the mean of the cells around it.

    A vector or tensor f goes component by component to the places of those of `u`, as from centres to faces, or to the place of a field:
    `interpolate_to(v, p)` has all components of a velocity on faces at the centres of cells.

    Args:
        f: an expression of the step, or a vector or tensor.
        u: gives the places; a field for a vector or tensor f alone.
        order: of the interpolation, even, 2 to 12.

    Returns:
        A vector or tensor of the components of `u`, or of `f` where `u` is a field.

    Raises:
        ParameterError: an order that is odd, or not 2 to 12.
        ShapeError: f and `u` have unlike components, or are fields both.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import diagonal, div, interpolate_to, strain

        class Ground(ds.Equation):
            # Elastic waves, ρ v_t = ∇·τ, τ_t = λ ∇·v + 2 μ ε(v), in two dimensions or three, by the letters of the axes.

            def __init__(self, grid, dt, axes):
                self.grid, self.dt = grid, dt
                self.states = {"v": ds.Vector(axes, "periodic", unit="m/s"), "tau": ds.SymmetricTensor(axes, "periodic", unit="Pa")}
                self.parameters = {name: ds.Variable("periodic") for name in ("rho", "lam", "mu")}

            def step(self, v, tau, rho, lam, mu):
                v = ds.stage(v + self.dt / interpolate_to(rho, v) * div(tau), boundary=v)
                return {"v": v, "tau": tau + self.dt * (diagonal(lam * div(v)) + 2 * interpolate_to(mu, tau) * strain(v))}

        for axes, shape in (("zx", (12, 16)), ("zyx", (6, 8, 10))):
            ground = ds.Simulation(Ground(ds.Grid(shape, spacing=10.0), dt=1e-3, axes=axes), precision="f64")
            rock = {name: np.full(shape, size) for name, size in (("rho", 2e3), ("lam", 4e9), ("mu", 3e9))}
            found = ground.run(rock | {"tau_xx": 1e6 * np.eye(*shape[-2:]) * np.ones(shape)}, steps=10).final
            assert abs(found["vx"]).max() > 0 and np.isclose(found["vz"].sum(), 0.0)  # no net force
    """

    def moved(part: Symbol, place: Symbol) -> Symbol:
        for axis, (here, there) in enumerate(zip(part.location, place.location, strict=True)):
            part = part if None in (here, there) or here == there else interpolate(part, axis, order)
        return part

    if isinstance(f, Components) and isinstance(u, Symbol):
        return Components(f.layout, {key: moved(part, u) for key, part in f.parts.items()})
    if not isinstance(u, Components):
        raise ShapeError(f"interpolate_to() the places of a {type(u).__name__}, expected a vector or a tensor; write interpolate(f, axis)")
    if isinstance(f, Components):
        f, u = f.over(u.layout.axes), u.over(f.layout.axes)
        if f.parts.keys() != u.parts.keys():
            raise ShapeError(
                f"interpolate_to() of components {', '.join(f.parts)} the places of {', '.join(u.parts)}, expected the same; take the "
                "components that you mean, as in v['x']"
            )
        return Components(u.layout, {key: moved(f.parts[key], place) for key, place in u.parts.items()})
    field = field_of(f, "interpolate_to")
    return Components(u.layout, {key: moved(field, place) for key, place in u.parts.items()})


def vector(parts: Sequence[Symbol]) -> Components:
    """A vector over axes without letters."""
    layout = vector_layout("012"[: len(parts)])
    return Components(layout, dict(zip(layout.keys, parts, strict=True)))


def _square(u: Sequence[object]) -> list[Sequence[object]]:
    """A tensor with a row for each axis."""
    rows = [row for row in u if isinstance(row, Sequence) and len(row) == len(u)]
    if len(rows) < len(u):
        raise ShapeError("div of rows of unlike lengths, expected a row for each axis; write it like div(((syy, sxy), (sxy, sxx)))")
    return rows


def _checked(u: object, what: str) -> Sequence[Symbol]:
    """The components of a vector, one for each axis."""
    if isinstance(u, Components) and u.layout.rank == 1:
        if u.layout.keys != tuple(u.layout.axes):
            raise ShapeError(
                f"{what} of a vector of components {', '.join(u.layout.keys)}, expected one for each axis, {', '.join(u.layout.axes)}; "
                "declare them, or write the derivatives that there are"
            )
        u = tuple(u)
    if not isinstance(u, Sequence) or not u or not all(isinstance(component, Symbol) for component in u):
        raise ShapeError(f"{what} of a {type(u).__name__}, expected a tuple of fields, one for each axis; write it like {what}((v, u))")
    if len(u) != u[0].ndim:
        raise ShapeError(
            f"{what} of {len(u)} components on a {u[0].ndim}-D grid, expected {u[0].ndim}; give one for each axis, in their order"
        )
    return u
