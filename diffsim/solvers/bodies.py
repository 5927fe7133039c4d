"""Outlines of bodies in a flow, as signed distances; and the force on them, and what they give of a scalar, by the fluid around.

A distance is an array program: its derivatives along centre, size, angle or corner points go on to those of a run, by `ds.value_and_grad`.
Several bodies are the `minimum` of `diffsim.numpy` of their distances. A distance of your own is any function of the coordinates that is
negative inside, 0 on the outline and rises by about 1 m a metre across it, within two cells of the outline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import diffsim.numpy as dnp
from diffsim.ad.core import is_known
from diffsim.base.arguments import whole
from diffsim.base.messages import shown
from diffsim.errors import ParameterError
from diffsim.mesh.grid import Grid
from diffsim.numpy.calling.dispatch import plain

TINY = 1e-30
"""Added to squares of lengths, whose root has no derivative at 0."""
THICKNESS = (0.2969, -0.1260, -0.3516, 0.2843, -0.1036)
"""Half the thickness of the four-digit aerofoils over 5 t, by powers 1/2, 1, 2, 3, 4 of x; the last makes the trailing edge sharp."""

__all__ = ["box", "cylinder", "ellipse", "heat_balance", "momentum_balance", "naca", "polygon"]


def cylinder(grid: Grid, centre: Any, radius: Any) -> Any:
    """The distance to a circle.

    Args:
        grid: of the flow, two axes.
        centre: coordinates in the order of the axes, (y, x), m.
        radius: m; 5 cells or more are advisable.

    Returns:
        The distance at the centres of cells, m, shape of the grid, negative inside: the input `phi` of `NavierStokes`.

    Raises:
        ParameterError: the grid has not two axes, a place or length has another number of coordinates or is not finite, a length is not
            above 0, or the body lies beside the grid.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.solvers import bodies

        # Flow past a cylinder between plates: how does the force on it change with its radius?
        grid, rim = ds.Grid((20, 32), spacing=0.05, origin=0.025), ("inflow", "open")
        channel = ds.solvers.NavierStokes(grid, dt=0.01, sides=("slip", rim), method="rk2", bodies="fixed")
        flow = ds.Simulation(channel, precision="f64", wrt=["phi"])
        rest = {"nu": 0.02, "inflow": np.ones(20), "u": np.ones(grid.shape)}

        def force(radius):
            phi = bodies.cylinder(grid, (0.5, 0.6), radius)
            return flow.run(rest | {"phi": phi}, steps=40).final["force_x"]

        value, slope = ds.value_and_grad(force)(0.15)
        assert np.isclose(slope, (force(0.1501) - force(0.1499)) / 2e-4, rtol=1e-4) and slope > 0
    """
    y, x = _places(grid, centre)
    _check("radius", radius, positive=True)
    return _on_grid(grid, dnp.sqrt(y * y + x * x + TINY) - radius, "centre", centre)


def ellipse(grid: Grid, centre: Any, half_axes: Any, angle: Any = 0.0) -> Any:
    """The distance to an ellipse, exact on the outline and of first order beside it.

    Args:
        grid: of the flow, two axes.
        centre: coordinates in the order of the axes, (y, x), m.
        half_axes: half of the lengths along y and x, before it is turned, m.
        angle: by which it is turned, from x to y, radians.

    Returns:
        As for `cylinder`.

    Raises:
        ParameterError: the grid has not two axes, a place or length has another number of coordinates or is not finite, a length is not
            above 0, or the body lies beside the grid.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.solvers import bodies

        grid = ds.Grid((40, 60), spacing=0.05)
        phi = bodies.ellipse(grid, (1.0, 1.5), (0.25, 0.5), angle=0.3)
        assert np.isclose((phi < 0).sum() * 0.05**2, np.pi * 0.25 * 0.5, rtol=0.03)
    """
    y, x = _turned(*_places(grid, centre), angle)
    _check("half_axes", half_axes, 2, positive=True)
    b, a = half_axes[0], half_axes[1]
    level, steepness = (x / a) ** 2 + (y / b) ** 2 + TINY, dnp.sqrt((x / a**2) ** 2 + (y / b**2) ** 2 + TINY)
    apart = dnp.maximum(level**0.5 * (level**0.5 - 1) / steepness, -dnp.minimum(a, b))  # the quotient has no limit at the centre
    return _on_grid(grid, apart, "centre", centre)


def box(grid: Grid, centre: Any, lengths: Any, angle: Any = 0.0) -> Any:
    """The distance to a rectangle.

    Args:
        grid: of the flow, two axes.
        centre: coordinates in the order of the axes, (y, x), m.
        lengths: along y and x, before it is turned, m.
        angle: by which it is turned, from x to y, radians.

    Returns:
        As for `cylinder`.

    Raises:
        ParameterError: the grid has not two axes, a place or length has another number of coordinates or is not finite, a length is not
            above 0, or the body lies beside the grid.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.solvers import bodies

        grid = ds.Grid((40, 60), spacing=0.05)
        phi = bodies.box(grid, (1.0, 1.5), (0.5, 1.0))
        assert np.isclose(phi.min(), -0.25) and np.isclose(phi[0, 0], np.hypot(0.75, 1.0))
    """
    y, x = _turned(*_places(grid, centre), angle)
    _check("lengths", lengths, 2, positive=True)
    beyond_y, beyond_x = dnp.abs(y) - 0.5 * lengths[0], dnp.abs(x) - 0.5 * lengths[1]
    inside = dnp.minimum(dnp.maximum(beyond_y, beyond_x), 0.0)
    apart = inside + dnp.sqrt(dnp.maximum(beyond_y, 0.0) ** 2 + dnp.maximum(beyond_x, 0.0) ** 2 + TINY)
    return _on_grid(grid, apart, "centre", centre)


def polygon(grid: Grid, corners: Any) -> Any:
    """The distance to a closed line through corners, which may be the unknowns of an optimisation.

    Args:
        grid: of the flow, two axes.
        corners: coordinates, shape (corners, 2), in the order of the axes, (y, x), m. The last is joined to the first, and the line does
            not cross itself. The memory is that of as many grids as there are corners.

    Returns:
        As for `cylinder`.

    Raises:
        ParameterError: the grid has not two axes, the corners have another shape or are not finite, or the body lies beside the grid.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.solvers import bodies

        grid = ds.Grid((40, 60), spacing=0.05)
        triangle = bodies.polygon(grid, [[0.5, 0.5], [0.5, 2.5], [1.5, 0.5]])
        assert np.isclose((triangle < 0).sum() * 0.05**2, 1.0, rtol=0.05) and np.isclose(triangle[20, 14], -0.2)
    """
    return _on_grid(grid, _outlined(grid, corners), "corners", corners)


def _outlined(grid: Grid, corners: Any) -> Any:
    """The distance to a line through corners, wherever they are."""
    corners = dnp.asarray(corners)
    if corners.ndim != 2 or corners.shape[0] < 3 or corners.shape[1] != 2:
        raise ParameterError(f"corners of shape {tuple(corners.shape)}, expected (3 or more, 2): a row (y, x) for each; give those")
    if not _finite(corners):
        raise ParameterError(f"corners = {shown(corners)}, expected finite coordinates (y, x) in m; correct them")
    y, x = (place[..., None] for place in _places(grid, (0.0, 0.0)))
    (y0, x0), (y1, x1) = corners.T, dnp.roll(corners, -1, axis=0).T
    ey, ex = y1 - y0, x1 - x0
    share = dnp.clip(((y - y0) * ey + (x - x0) * ex) / (ey * ey + ex * ex + TINY), 0.0, 1.0)
    apart = dnp.sqrt(((y - y0 - share * ey) ** 2 + (x - x0 - share * ex) ** 2).min(axis=-1) + TINY)
    below, cross = (y0 <= y) & (y < y1), (y - y0) * ex - (x - x0) * ey
    crossings = (below & (cross > 0)).sum(axis=-1) - (((y1 <= y) & (y < y0)) & (cross < 0)).sum(axis=-1)
    return dnp.where(crossings == 0, apart, -apart)


def naca(grid: Grid, digits: str, nose: Any, chord: Any, angle: Any = 0.0, points: int = 60) -> Any:
    """The distance to an aerofoil of the NACA four-digit series, with a sharp trailing edge.

    Args:
        grid: of the flow, two axes.
        digits: camber in percent of the chord, its place in tenths, and thickness in percent: "0012", "2412".
        nose: coordinates of the leading edge, (y, x), m.
        chord: length, along x before it is turned, m.
        angle: of attack: by which the nose is turned upwards about itself, radians.
        points: corners of each side, see `polygon`.

    Returns:
        As for `cylinder`.

    Raises:
        ParameterError: the digits are not four, the thickness is 0, or one of camber and its place is; or as for `cylinder`.

    Reference: Jacobs, Ward and Pinkerton (1933), The characteristics of 78 related airfoil sections from tests in the variable-density
        wind tunnel, NACA report 460.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.solvers import bodies

        grid = ds.Grid((60, 150), spacing=0.01, origin=0.005)
        phi = bodies.naca(grid, "0012", nose=(0.3, 0.2), chord=1.0)
        assert np.isclose((phi < 0).sum() * 0.01**2, 0.0822, rtol=0.03)  # the area of the section
    """
    if not (
        isinstance(digits, str) and len(digits) == 4 and digits.isdigit() and int(digits[2:]) and (digits[0] == "0") == (digits[1] == "0")
    ):
        raise ParameterError(
            f'digits = {shown(digits)}, expected four, the last two not 00, the first two both 0 or none; write "2412" or "0012"'
        )
    points = whole("points", points, 2, remedy="give the corners of each side")
    _check("nose", nose, 2)
    _check("chord", chord, positive=True)
    _check("angle", angle, unit="radians")
    camber, place, thickness = int(digits[0]) / 100, int(digits[1]) / 10, int(digits[2:]) / 100
    x = 0.5 * (1 - np.cos(np.pi * np.arange(points + 1) / points))  # closer where the outline is round
    half = 5 * thickness * sum(c * x**power for c, power in zip(THICKNESS, (0.5, 1, 2, 3, 4), strict=True))
    line, slope = np.zeros_like(x), np.zeros_like(x)
    if camber and place:
        scale = np.where(x < place, place, 1 - place) ** -2.0 * camber
        line = scale * (np.where(x < place, 0.0, 1 - 2 * place) + 2 * place * x - x * x)
        slope = 2 * scale * (place - x)
    across, along = np.cos(np.arctan(slope)) * half, np.sin(np.arctan(slope)) * half
    upper, lower = np.stack([line + across, x - along]), np.stack([line - across, x + along])
    y, x = np.concatenate([upper, lower[:, -2:0:-1]], axis=1)
    sine, cosine = dnp.sin(angle), dnp.cos(angle)
    corners = dnp.stack([nose[0] + chord * (y * cosine - x * sine), nose[1] + chord * (x * cosine + y * sine)], axis=1)
    return _on_grid(grid, _outlined(grid, corners), "nose", nose)


def momentum_balance(
    grid: Grid, final: Mapping[str, Any], nu: Any, low: Sequence[float], high: Sequence[float], phi: Any = None
) -> dict[str, Any]:
    """The force on all bodies in a rectangle by what momentum flows into it through its sides, in a steady flow.

    It uses the fluxes of the scheme. In a steady flow without accelerations it is `force_x` and `force_y` to 1e-5, for every rectangle
    around the bodies.

    Args:
        grid: of the flow.
        final: fields `u`, `v` and `p` of a `NavierStokes`, as in `Solution.final`.
        nu: viscosity, m²/s.
        low: coordinates of the lower corner, (y, x), m. Both corners are moved to the nearest corner of a cell.
        high: of the higher one.
        phi: the distance that the run had, with which a rectangle that cuts a body is refused; None: not checked, and the number of such
            a rectangle has no meaning.

    Returns:
        The forces over the density, "force_x" and "force_y", m³/s².

    Raises:
        ParameterError: the rectangle has less than two cells along an axis, or less than one on its lower and two on its upper
            side to that of the grid, or cuts a body; `final` is without a field; the grid has not two axes, or a corner not two
            coordinates.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.solvers import bodies

        grid = ds.Grid((20, 30), spacing=0.1)
        still = {name: np.zeros(grid.shape) for name in ("u", "v")} | {"p": np.tile(np.linspace(3.0, 0.1, 30), (20, 1))}
        force = bodies.momentum_balance(grid, still, 0.1, (0.5, 0.5), (1.5, 2.5))
        assert np.isclose(force["force_x"], 1.0 * (2.5 - 0.5)) and force["force_y"] == 0.0  # the pressure falls by 1 m²/s² a metre
    """
    box = _rectangle(grid, low, high, phi)
    across, along, p = _fields(final, ("v", "u", "p"))
    force_y = _momentum_in(across, along, p, nu, grid.spacing, box[0], box[1])
    force_x = _momentum_in(along.T, across.T, p.T, nu, grid.spacing[::-1], box[1], box[0])
    return {"force_x": force_x, "force_y": force_y}


def heat_balance(
    grid: Grid, final: Mapping[str, Any], kappa: Any, low: Sequence[float], high: Sequence[float], name: str = "T", phi: Any = None
) -> Any:
    """Amount of a scalar that all bodies in a rectangle give, by what leaves it through its sides, in a steady flow.

    It uses the fluxes of the scheme. Around all bodies it is the state `heat_T`, where |v| dx / kappa is at most 2: to .5 % with four cells
    across a cylinder, to .1 % with eight, and to 1e-6 with a cylinder whose centre is a corner of cells. Cells at the wall without an open
    middle of a face have a divergence, and what they hold differs from the wall. With six cells the two are up to .06, .4, 1.1 and 6 %
    apart where the largest |v| dx / kappa is 2.4, 12, 49 and 490. A rectangle around one of several bodies has its part.

    Args:
        grid: of the flow.
        final: fields `u`, `v` and that of the scalar of a `NavierStokes`, as in `Solution.final`.
        kappa: diffusivity, m²/s.
        low: coordinates of the lower corner, (y, x), m. Both corners are moved to the nearest corner of a cell.
        high: of the higher one.
        name: of the scalar.
        phi: the distance that the run had, with which a rectangle that cuts a body is refused; None: not checked, and the number of such
            a rectangle has no meaning.

    Returns:
        The amount a second, m²/s times the unit of the scalar.

    Raises:
        ParameterError: the rectangle has less than two cells along an axis, or less than one on its lower and two on its upper
            side to that of the grid, or cuts a body; `final` is without a field; the grid has not two axes, or a corner not two
            coordinates.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.solvers import bodies

        grid = ds.Grid((20, 30), spacing=0.1, origin=0.05)
        ridge = np.tile(-abs(grid.coordinates(1) - 1.5), (20, 1))  # as warm as a hot wire across the middle makes it
        still = {"u": np.zeros(grid.shape), "v": np.zeros(grid.shape), "T": ridge}
        assert np.isclose(bodies.heat_balance(grid, still, 0.5, (0.5, 0.5), (1.5, 2.5)), 0.5 * 2 * 1.0)
    """
    box = _rectangle(grid, low, high, phi)
    v, u, T = _fields(final, ("v", "u", name))
    sides = ((v, T, box, grid.spacing), (u.T, T.T, box[::-1], grid.spacing[::-1]))
    leaving: Any = 0.0
    for v, scalar, (rows, columns), (h, width) in sides:
        for sign, row in ((-1, rows.start), (1, rows.stop)):  # the flow through the upper faces of the row below
            below, above = scalar[row - 1, columns], scalar[row, columns]
            leaving = leaving + sign * width * (0.5 * v[row - 1, columns] * (below + above) - kappa * (above - below) / h).sum()
    return leaving


def _fields(final: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """Some fields of a solution."""
    if missing := [name for name in names if name not in final]:
        raise ParameterError(
            f"final without {', '.join(missing)}, expected {', '.join(names)} of a NavierStokes; it has {', '.join(final)}. Give "
            "Solution.final of a run that has them"
        )
    return [final[name] for name in names]


def _rectangle(grid: Grid, low: Sequence[float], high: Sequence[float], phi: Any) -> list[slice]:
    """The cells of a rectangle along each axis, from the coordinates of its corners: rows 1 to n - 2, beside which there are others.

    Its sides touch no body of phi.
    """
    if grid.ndim != 2:
        raise ParameterError(f"grid of {grid.ndim} axes, expected 2, (y, x); take one")
    corners = [np.asarray(corner, np.float64) for corner in (low, high)]
    if any(corner.shape != (2,) or not np.isfinite(corner).all() for corner in corners):
        raise ParameterError(f"corners {shown(low)} and {shown(high)}, expected two numbers each, the coordinates (y, x); give those")
    box, what = [], f"a rectangle from {shown(low)} to {shown(high)}"
    for axis, (below, above) in enumerate(zip(*corners, strict=True)):
        n, h, start = grid.shape[axis], grid.spacing[axis], grid.coordinates(axis)[0]
        first, last = (round(float((place - start) / h + 0.5)) for place in (below, above))
        if last - first < 2:
            raise ParameterError(f"{what}, expected two cells or more along each axis; widen it")
        if first < 1 or last > n - 2:
            raise ParameterError(
                f"{what}, expected one that lies between {start + 0.5 * h:.4g} and {start + (n - 2.5) * h:.4g} m along axis {axis}; shrink "
                "it, or take the states force_x, force_y and heat_T of the run, which are those of all bodies, beside sides too"
            )
        box.append(slice(first, last))
    rows, columns = box
    if phi is not None:
        beside = [phi[row, columns] for end in (rows.start, rows.stop) for row in (end - 1, end)]
        beside += [phi[rows, column] for end in (columns.start, columns.stop) for column in (end - 1, end)]
        if any((distances <= 0).any() for distances in beside):
            raise ParameterError(f"{what} cuts a body, expected sides in the fluid, whose cells have phi > 0; move it, or widen it")
    return [rows, columns]


def _momentum_in(v: Any, beside: Any, p: Any, nu: Any, spacing: Sequence[float], rows: slice, columns: slice) -> Any:
    """The momentum along axis 0 that flows into some rows and columns of its velocity v; `beside` is the velocity along axis 1."""
    h, width = spacing

    def through_end(row: int) -> Any:  # at the centres between two rows of v
        lower, upper = v[row - 1, columns], v[row, columns]
        return (0.25 * (lower + upper) ** 2 - nu * (upper - lower) / h + p[row, columns]).sum() * width

    def through_side(column: int) -> Any:  # at the edges between two columns of v
        lower, upper = v[rows, column - 1], v[rows, column]
        carrying = 0.5 * (beside[rows, column - 1] + beside[rows.start + 1 : rows.stop + 1, column - 1])
        return (0.5 * carrying * (lower + upper) - nu * (upper - lower) / width).sum() * h

    return through_end(rows.start) - through_end(rows.stop) + through_side(columns.start) - through_side(columns.stop)


def _places(grid: Grid, centre: Any) -> tuple[Any, Any]:
    """Coordinates of the centres of cells relative to a place, of two dimensions each."""
    if grid.ndim != 2:
        raise ParameterError(f"grid of {grid.ndim} axes, expected 2, (y, x); take one")
    _check("centre", centre, 2)
    y, x = np.meshgrid(grid.coordinates(0), grid.coordinates(1), indexing="ij")
    return y - centre[0], x - centre[1]


def _on_grid(grid: Grid, phi: Any, name: str, place: Any) -> Any:
    """The distance to a body, unless it is known that no cell is closer to the body than a cell, so that the flow would not meet it."""
    if is_known(known := plain(phi)) and np.min(np.asarray(known)) > max(grid.spacing):
        spans = [f"{grid.coordinates(axis)[0]:.6g} to {grid.coordinates(axis)[-1]:.6g}" for axis in (0, 1)]
        raise ParameterError(
            f"{name} = {shown(plain(place))}, expected a body on the grid, at least in part, y from {spans[0]} and x from {spans[1]} m; "
            "move it (places are (y, x)), or leave out bodies"
        )
    return phi


def _check(name: str, value: Any, count: int = 0, positive: bool = False, unit: str = "m") -> None:
    """Raise unless an argument is a finite number, or `count` of them, above 0 where they are lengths.

    Values that are not known, where operations are recorded, are not judged.
    """
    parts = value if isinstance(value, (list, tuple)) else [value]
    scalar = not any(isinstance(one, (list, tuple)) or (parts is value and dnp.shape(one)) for one in parts)
    if not scalar or dnp.shape(value) != ((count,) if count else ()) or not all(_finite(one, positive) for one in parts):
        expected = f"{count} finite numbers, (y, x)," if count else "a finite number"
        raise ParameterError(f"{name} = {shown(value)}, expected {expected}{' above 0' if positive else ''} in {unit}; correct it")


def _finite(value: Any, positive: bool = False) -> bool:
    """False if values are known, and one is no finite real number, or is not above 0 where it is to be so."""
    if not is_known(known := plain(value)):
        return True
    values = np.asarray(known)
    return values.dtype.kind in "fiu" and bool(np.isfinite(values).all()) and not (positive and bool((values <= 0).any()))


def _turned(y: Any, x: Any, angle: Any) -> tuple[Any, Any]:
    """Coordinates along the axes of a body that is turned by an angle from x to y."""
    _check("angle", angle, unit="radians")
    sine, cosine = dnp.sin(angle), dnp.cos(angle)
    return cosine * y - sine * x, sine * y + cosine * x
