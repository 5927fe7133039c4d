"""The schemes in the solvers' docstrings, written out in NumPy with literal constants: nothing here comes from diffsim."""

from __future__ import annotations

import math

import numpy as np

CENTRED = {  # second derivative, from the middle outwards
    2: (-2.0, 1.0),
    4: (-5 / 2, 4 / 3, -1 / 12),
    6: (-49 / 18, 3 / 2, -3 / 20, 1 / 90),
    8: (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560),
}
STAGGERED = {2: (1.0,), 4: (9 / 8, -1 / 24), 8: (1225 / 1024, -245 / 3072, 49 / 5120, -5 / 7168)}  # first derivative half-way, outwards
OUTSIDE = {"zero": {"mode": "constant"}, "mirror": {"mode": "symmetric"}, "periodic": {"mode": "wrap"}}


def laplacian(p: np.ndarray, h: tuple[float, ...], order: int, boundary: str) -> np.ndarray:
    reach = order // 2
    padded = np.pad(p, reach, **OUTSIDE[boundary])
    total = np.zeros_like(p)
    for axis, spacing in enumerate(h):
        for offset in range(-reach, reach + 1):
            cut = [slice(reach, reach + n) for n in p.shape]
            cut[axis] = slice(reach + offset, reach + offset + p.shape[axis])
            total += CENTRED[order][abs(offset)] / spacing**2 * padded[tuple(cut)]
    return total


def half_damping(shape: tuple[int, ...], dt: float, width: int, speed: float, h: tuple[float, ...]) -> np.ndarray:
    """sigma dt / 2 at every cell: the rates of all axes add up; a thousandth comes back at normal incidence."""
    total = np.zeros(shape)
    for axis, (n, spacing) in enumerate(zip(shape, h, strict=True)):
        for i in range(n):
            inside = max(width - i, i - (n - 1 - width), 0) / width if width else 0.0
            sigma = 3 * speed * math.log(1000.0) / (width * spacing) * inside**2 if width else 0.0
            total[(slice(None),) * axis + (i,)] += sigma * dt / 2
    return total


def leapfrog(now: np.ndarray, before: np.ndarray, push: np.ndarray, d: np.ndarray) -> np.ndarray:
    return (2 * now - (1 - d) * before + push) / (1 + d)


def acoustic(
    c: np.ndarray, p: np.ndarray, p_prev: np.ndarray, steps: int, dt: float, h: tuple[float, ...], order: int, boundary: str, sponge: int
) -> np.ndarray:
    """p_tt + sigma p_t = c^2 lap p; the sponge is tuned for 2000 m/s."""
    d = half_damping(p.shape, dt, sponge, 2000.0, h)
    for _ in range(steps):
        p, p_prev = leapfrog(p, p_prev, (c * dt) ** 2 * laplacian(p, h, order, boundary), d), p
    return p


def visco_acoustic(
    c: np.ndarray,
    rho: np.ndarray,
    Q: np.ndarray | None,
    p: np.ndarray,
    p_prev: np.ndarray,
    steps: int,
    dt: float,
    h: tuple[float, ...],
    order: int,
    boundary: str,
    frequency: float,
) -> np.ndarray:
    """p_tt = K (D - s), D = div(grad p / rho), tau s_t + s = (1 - x^2) D; without Q, s = 0."""
    s, reach = np.zeros_like(p), order
    x = 1.0 if Q is None else np.sqrt(1 + Q**-2.0) - 1 / Q
    modulus = rho * c**2 * (1.0 if Q is None else (1 + 1 / np.sqrt(1 + Q**-2.0)) / (2 * x))
    tau = x / (2 * np.pi * frequency)
    medium = "periodic" if boundary == "periodic" else "mirror"

    def half_way(values: np.ndarray, h: float) -> np.ndarray:
        """The derivative between neighbours along the first axis."""
        n = len(values)
        return sum(w / h * (values[order // 2 + k : n - order // 2 + 1 + k] - values[order // 2 - 1 - k : n - order // 2 - k])
                   for k, w in enumerate(STAGGERED[order]))  # fmt: skip

    for _ in range(steps):
        total = np.zeros_like(p)
        for axis, spacing in enumerate(h):
            wide = [(reach, reach) if a == axis else (0, 0) for a in range(p.ndim)]
            values = np.moveaxis(np.pad(p, wide, **OUTSIDE[boundary]), axis, 0)
            density = np.moveaxis(np.pad(rho, wide, **OUTSIDE[medium]), axis, 0)
            flux = half_way(values, spacing) / (0.5 * (density[1:] + density[:-1]))[order // 2 - 1 : len(density) - order // 2]
            slopes = half_way(flux, spacing)
            cut = (len(slopes) - p.shape[axis]) // 2
            total += np.moveaxis(slopes[cut : cut + p.shape[axis]], 0, axis)
        s_next = 0.0 * s if Q is None else ((2 * tau - dt) * s + 2 * dt * (1 - x**2) * total) / (2 * tau + dt)
        p, p_prev, s = 2 * p - p_prev + dt**2 * modulus * (total - (s_next + s) / 2), p, s_next
    return p


def long_wave(
    depth: np.ndarray, eta0: np.ndarray, steps: int, dt: float, h: tuple[float, float], latitude: np.ndarray | None, sponge: int
) -> np.ndarray:
    """eta_tt + sigma eta_t = div(g H grad eta), on a plane (h in metres) or on the sphere (h in degrees); tuned for 1000 m of water."""
    g, radius = 9.81, 6.371e6
    rows, columns = depth.shape
    if latitude is None:
        metres, cosine, cosine_face = h, np.ones(rows), np.ones(rows)
        widths = metres
    else:
        degree = 2 * math.pi * radius / 360
        metres = (h[0] * degree, h[1] * degree)
        cosine, cosine_face = np.cos(np.radians(latitude)), np.cos(np.radians(latitude + h[0] / 2))
        widths = (metres[0], metres[1] * cosine.min())
    d = half_damping(depth.shape, dt, sponge, math.sqrt(g * 1000.0), widths)

    def divergence(eta: np.ndarray) -> np.ndarray:
        out = np.zeros_like(eta)
        for i in range(rows):
            for j in range(columns):
                if i + 1 < rows and depth[i, j] > 0 and depth[i + 1, j] > 0:
                    flow = g * (depth[i, j] + depth[i + 1, j]) / 2 * (eta[i + 1, j] - eta[i, j]) / metres[0] * cosine_face[i]
                    out[i, j] += flow / (metres[0] * cosine[i])
                    out[i + 1, j] -= flow / (metres[0] * cosine[i + 1])
                if j + 1 < columns and depth[i, j] > 0 and depth[i, j + 1] > 0:
                    flow = g * (depth[i, j] + depth[i, j + 1]) / 2 * (eta[i, j + 1] - eta[i, j]) / (metres[1] * cosine[i])
                    out[i, j] += flow / (metres[1] * cosine[i])
                    out[i, j + 1] -= flow / (metres[1] * cosine[i])
        return out

    eta, before = eta0, eta0 + dt**2 / 2 * divergence(eta0)
    for _ in range(steps):
        eta, before = leapfrog(eta, before, dt**2 * divergence(eta), d), eta
    return eta


def heat(kappa: np.ndarray, t: np.ndarray, steps: int, dt: float, h: tuple[float, ...], boundary: str) -> np.ndarray:
    """T_t = div(kappa grad T), with the mean of kappa on each face; it is mirrored at edges that are not periodic."""
    for _ in range(steps):
        rate = np.zeros_like(t)
        for axis, spacing in enumerate(h):
            n = t.shape[axis]
            wide = [(1, 1) if a == axis else (0, 0) for a in range(t.ndim)]
            values = np.moveaxis(np.pad(t, wide, **OUTSIDE[boundary]), axis, 0)
            k = np.moveaxis(np.pad(kappa, wide, **OUTSIDE["periodic" if boundary == "periodic" else "mirror"]), axis, 0)
            flow = (k[1:] + k[:-1]) / 2 * (values[1:] - values[:-1]) / spacing
            rate += np.moveaxis((flow[1:] - flow[:-1])[:n] / spacing, 0, axis)
        t = t + dt * rate
    return t
