"""The discontinuous Galerkin schemes in weak form, with monomials, in NumPy: nothing here comes from diffsim.

For each test function φ of an element ∫ φ uₜ = ∫ ∇φ·f - ∮ φ f*·n, by quadrature with more points than the solver has nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

POINTS = 0.5 * (np.polynomial.legendre.leggauss(8)[0] + 1)
WEIGHTS = 0.5 * np.polynomial.legendre.leggauss(8)[1]
FACES = {"bottom": ((-1, 0), "top"), "top": ((1, 0), "bottom"), "left": ((0, -1), "right"), "right": ((0, 1), "left")}
"""Face -> where the element on its other side is, and which of its faces it is."""
Element = tuple[int, int]
Rate = Callable[[np.ndarray], np.ndarray]


def monomials(x: np.ndarray, order: int, derivative: bool = False) -> np.ndarray:
    k = np.arange(order + 1)
    return k * x[:, None] ** np.maximum(k - 1, 0) if derivative else x[:, None] ** k


def fitted(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Coefficients of monomials, shape (n, n), of the polynomial with these values at points of both axes."""
    inverse = np.linalg.inv(monomials(at, len(at) - 1))
    return inverse @ values @ inverse.T


def evaluate(q: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return monomials(y, len(q) - 1) @ q @ monomials(x, len(q) - 1).T


def at_face(q: np.ndarray, face: str, along: np.ndarray) -> np.ndarray:
    end = np.array([1.0 if face in ("top", "right") else 0.0])
    return evaluate(q, end, along)[0] if face in ("bottom", "top") else evaluate(q, along, end)[:, 0]


def step(rate: Rate, u: np.ndarray, dt: float, order: int) -> np.ndarray:
    """The Taylor polynomial of exp(dt L), for order 4 with 7/40 / 120 of the sixth power."""
    total, power = u, u
    for k in range(1, order + 2):
        power = dt / k * rate(power)
        total = total + power
    return total + 7 / 40 * dt * rate(power) if order == 4 else total


class Mesh:
    """Elements of a grid: blocks of cells, and the polynomials of their values."""

    def __init__(self, elements: Element, h: tuple[float, float], order: int) -> None:
        self.elements, self.h, self.order, self.n = elements, h, order, order + 1
        self.centres = (np.arange(self.n) + 0.5) / self.n
        self.nodes = 0.5 * (np.polynomial.legendre.leggauss(self.n)[0] + 1)

    def block(self, cells: np.ndarray, at: Element) -> np.ndarray:
        return cells[at[0] * self.n : (at[0] + 1) * self.n, at[1] * self.n : (at[1] + 1) * self.n]

    def polynomials(self, cells: np.ndarray) -> dict[Element, np.ndarray]:
        return {at: fitted(self.block(cells, at), self.centres) for at in np.ndindex(self.elements)}

    def cells(self, polynomials: dict[Element, np.ndarray]) -> np.ndarray:
        out = np.zeros(tuple(n * self.n for n in self.elements))
        for at, q in polynomials.items():
            self.block(out, at)[:] = evaluate(q, self.centres, self.centres)
        return out

    def neighbour(self, at: Element, face: str) -> tuple[Element, bool]:
        """The element on the other side of a face, and whether the face is at the edge of the grid."""
        other = [a + d for a, d in zip(at, FACES[face][0], strict=True)]
        inside = all(0 <= a < n for a, n in zip(other, self.elements, strict=True))
        return tuple(a % n for a, n in zip(other, self.elements, strict=True)), not inside  # type: ignore[return-value]

    def weak_rate(self, fy: np.ndarray, fx: np.ndarray, stars: dict[str, np.ndarray]) -> np.ndarray:
        """Rate -∇·f of an element, by the coefficients of f and its values at the nodes of the faces (0 where it has none)."""
        inside, slope = monomials(POINTS, self.order), monomials(POINTS, self.order, derivative=True)
        ends = monomials(np.array([0.0, 1.0]), self.order)
        mass, area = inside.T @ (WEIGHTS[:, None] * inside), np.outer(WEIGHTS, WEIGHTS)
        right = slope.T @ (area * evaluate(fy, POINTS, POINTS)) @ inside / self.h[0]
        right += inside.T @ (area * evaluate(fx, POINTS, POINTS)) @ slope / self.h[1]
        for face, star in stars.items():
            weights = (WEIGHTS * (inside @ np.linalg.solve(monomials(self.nodes, self.order), star))) @ inside
            upper = face in ("top", "right")
            across = (1 - 2 * upper) * ends[int(upper)]
            right += np.outer(across, weights) / self.h[0] if face in ("bottom", "top") else np.outer(weights, across) / self.h[1]
        return np.linalg.solve(mass, np.linalg.solve(mass, right.T).T)


def advection_rate(mesh: Mesh, wind_y: np.ndarray, wind_x: np.ndarray, periodic: bool) -> Rate:
    winds = [mesh.polynomials(a) for a in (wind_y, wind_x)]

    def rate(cells: np.ndarray) -> np.ndarray:
        u, rates = mesh.polynomials(cells), {}
        for at in u:
            fluxes = [fitted(evaluate(a[at], mesh.nodes, mesh.nodes) * evaluate(u[at], mesh.nodes, mesh.nodes), mesh.nodes) for a in winds]
            stars = {}
            for face, (_, opposite) in FACES.items():
                other, edge = mesh.neighbour(at, face)
                wind = winds[0 if face in ("bottom", "top") else 1]
                a_in, a_out = at_face(wind[at], face, mesh.nodes), at_face(wind[other], opposite, mesh.nodes)
                u_in, u_out = at_face(u[at], face, mesh.nodes), at_face(u[other], opposite, mesh.nodes)
                if edge and not periodic:
                    a_out, u_out = a_in, 0 * u_in
                sides = (a_in, u_in, a_out, u_out) if face in ("top", "right") else (a_out, u_out, a_in, u_in)
                stars[face] = np.where(sides[0] > 0, sides[0], 0) * sides[1] + np.where(sides[2] < 0, sides[2], 0) * sides[3]
            rates[at] = mesh.weak_rate(*fluxes, stars)
        return mesh.cells(rates)

    return rate


def acoustic_rate(mesh: Mesh, c: dict[Element, float], rho: dict[Element, float], beyond: dict[str, str]) -> Rate:
    """Rates of p, vy, vx, stacked. `beyond`: face -> "periodic", "wall" or "outflow"."""

    def rate(cells: np.ndarray) -> np.ndarray:
        p, vy, vx = (mesh.polynomials(each) for each in cells)
        out: list[dict[Element, np.ndarray]] = [{}, {}, {}]
        for at in p:
            z_in, p_stars, v_stars = rho[at] * c[at], {}, {}
            for face, (_, opposite) in FACES.items():
                other, edge = mesh.neighbour(at, face)
                v, normal = (vy if face in ("bottom", "top") else vx), (1 if face in ("top", "right") else -1)
                p_in, n_in = at_face(p[at], face, mesh.nodes), normal * at_face(v[at], face, mesh.nodes)
                z_out = rho[other] * c[other]
                p_out, n_out = at_face(p[other], opposite, mesh.nodes), normal * at_face(v[other], opposite, mesh.nodes)
                if edge and beyond[face] == "wall":
                    p_star, n_star = p_in + z_in * n_in, 0 * n_in
                elif edge and beyond[face] == "outflow":  # nothing comes in: p* - z n* = 0
                    p_star = 0.5 * (p_in + z_in * n_in)
                    n_star = p_star / z_in
                else:  # p + z n goes out, and p - z n comes in: two equations for p* and n*
                    n_star = (p_in + z_in * n_in - (p_out - z_out * n_out)) / (z_in + z_out)
                    p_star = p_in + z_in * (n_in - n_star)
                p_stars[face], v_stars[face] = p_star, normal * n_star
            nothing = 0 * p[at]
            out[0][at] = rho[at] * c[at] ** 2 * mesh.weak_rate(vy[at], vx[at], v_stars)
            out[1][at] = mesh.weak_rate(p[at], nothing, {face: p_stars[face] for face in ("bottom", "top")}) / rho[at]
            out[2][at] = mesh.weak_rate(nothing, p[at], {face: p_stars[face] for face in ("left", "right")}) / rho[at]
        return np.stack([mesh.cells(each) for each in out])

    return rate
