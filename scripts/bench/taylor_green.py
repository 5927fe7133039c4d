"""Energy and dissipation of the vortex of Taylor and Green in space, Re = 1600, by `NavierStokes` and by a spectral program of its own.

    python scripts/bench/taylor_green.py 32 64 96 --order 4
    python scripts/bench/taylor_green.py 64 --spectral --end 5

The box is 2 π wide, the fastest velocity 1. Each line has the time, the energy E, the dissipation ε by the friction of the scheme, and how
far E and the sum of ε over time are from the energy at the start, over it: an error of the method in time and of the sum.
docs/validation_flow.md has the table.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.fft
from scipy.interpolate import CubicSpline

NU = 1 / 1600
EVERY = 0.1
"""Time between two states of which energy and dissipation are computed."""

Row = tuple[float, float, float]


def by_diffsim(n: int, order: int, end: float, courant: float, precision: str) -> list[Row]:
    """Time, energy and dissipation by `NavierStokes`."""
    import diffsim as ds

    grid = ds.Grid((n, n, n), 2 * np.pi / n)
    centre, face = grid.coordinates(0), grid.coordinates(0, 1)
    cos_z = np.cos(centre)[:, None, None]
    state = {
        "u": np.cos(centre)[:, None] * np.sin(face) * cos_z,
        "v": -np.sin(face)[:, None] * np.cos(centre) * cos_z,
        "w": np.zeros(grid.shape),
    }
    steps = int(np.ceil(EVERY * 2.5 / (courant * grid.spacing[0])))  # Σ |v| is at most 2.5 or so
    flow = ds.Simulation(ds.solvers.NavierStokes(grid, EVERY / steps, order=order), wrt=[], precision=precision)
    rows = [(0.0, *_energies(state, grid.spacing[0], order))]
    while rows[-1][0] < end - 1e-9:
        final = flow.run({**state, "nu": NU}, steps).final
        state = {name: final[name] for name in "uvw"}
        rows.append((rows[-1][0] + EVERY, *_energies(state, grid.spacing[0], order)))
    return rows


def _energies(state: dict[str, np.ndarray], h: float, order: int) -> tuple[float, float]:
    """Energy, and dissipation by the differences of the scheme, means over the box."""
    weights = {2: (-2.0, 1.0), 4: (-2.5, 4 / 3, -1 / 12), 6: (-49 / 18, 1.5, -0.15, 1 / 90)}[order]
    energy = dissipation = 0.0
    for field in state.values():
        v = np.asarray(field, np.float64)
        bend = 3 * weights[0] * v
        for axis in range(3):
            for cells, weight in enumerate(weights[1:], start=1):
                bend += weight * (np.roll(v, cells, axis) + np.roll(v, -cells, axis))
        energy += 0.5 * float((v * v).mean())
        dissipation -= NU * float((v * bend).mean()) / h**2
    return energy, dissipation


def by_transforms(n: int, end: float, dt: float) -> list[Row]:
    """The same by Fourier's series: rotational form, products free of aliases by the rule of two thirds, friction exact, and the classical
    method of Runge and Kutta."""
    x = 2 * np.pi * np.arange(n) / n
    k = np.fft.fftfreq(n, 1 / n)
    waves = np.stack(np.meshgrid(k, k, np.arange(n // 2 + 1), indexing="ij"))
    squares = (waves**2).sum(0)
    known = (np.abs(waves) < n / 3).all(0)
    along = waves / np.where(squares == 0, 1, squares)
    z, y, x = np.meshgrid(x, x, x, indexing="ij")
    zero = np.zeros((n, n, n))
    v = np.stack([_forward(f) for f in (zero, -np.cos(x) * np.sin(y) * np.cos(z), np.sin(x) * np.cos(y) * np.cos(z))])
    half = np.exp(-NU * squares * dt / 2)

    def rate(v: np.ndarray) -> np.ndarray:
        curl = 1j * np.stack([waves[(a + 1) % 3] * v[(a + 2) % 3] - waves[(a + 2) % 3] * v[(a + 1) % 3] for a in range(3)])
        spin, speed = ([_back(f, n) for f in part] for part in (curl, v))
        out = np.stack([_forward(speed[(a + 1) % 3] * spin[(a + 2) % 3] - speed[(a + 2) % 3] * spin[(a + 1) % 3]) for a in range(3)])
        out *= known
        return out - along * (waves * out).sum(0)

    def row(t: float) -> Row:
        power = np.abs(v) ** 2 * np.where((waves[2] == 0) | (waves[2] == n // 2), 1, 2)
        return t, 0.5 * float(power.sum()), NU * float((squares * power).sum())

    rows = [row(0.0)]
    for step in range(1, round(end / dt) + 1):
        a = dt * rate(v)
        b = dt * rate(half * (v + a / 2))
        c = dt * rate(half * v + b / 2)
        d = dt * rate(half * half * v + half * c)
        v = half * half * (v + a / 6) + half * (b + c) / 3 + d / 6
        if step % round(EVERY / dt) == 0:
            rows.append(row(step * dt))
    return rows


def _forward(f: np.ndarray) -> np.ndarray:
    return scipy.fft.rfftn(f, norm="forward")


def _back(f: np.ndarray, n: int) -> np.ndarray:
    return scipy.fft.irfftn(f, (n, n, n), norm="forward")


def show(what: str, rows: list[Row], seconds: float) -> None:
    times, energy, dissipation = (np.array(column) for column in zip(*rows, strict=True))
    spline = CubicSpline(times, dissipation)
    lost = np.array([spline.integrate(0.0, t) for t in times])
    falls = -CubicSpline(times, energy)(times, 1)
    balance = np.abs(energy + lost - energy[0]).max() / energy[0]
    top = int(dissipation.argmax())
    print(f"{what}: peak {dissipation[top]:.5f} at t = {times[top]:.1f}, balance {balance:.1e}; {seconds:.0f} s of CPU time", flush=True)
    for t in range(round(times[-1]) + 1):
        at = round(t / EVERY)
        print(f"  t {t:2d}  E {energy[at]:.6f}  dissipation {dissipation[at]:.6f}  -dE/dt {falls[at]:.6f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", type=int, nargs="+")
    parser.add_argument("--order", type=int, default=4, choices=(2, 4, 6))
    parser.add_argument("--end", type=float, default=12.0)
    parser.add_argument("--courant", type=float, default=0.8)
    parser.add_argument("--precision", default="f64", choices=("f32", "f64"))
    parser.add_argument("--spectral", action="store_true")
    chosen = parser.parse_args()
    for n in chosen.cells:
        begin = time.process_time()
        if chosen.spectral:
            rows = by_transforms(n, chosen.end, 1 / 50)
        else:
            rows = by_diffsim(n, chosen.order, chosen.end, chosen.courant, chosen.precision)
        what = "spectral" if chosen.spectral else f"order {chosen.order}, {chosen.precision}"
        show(f"{n}^3, {what}", rows, time.process_time() - begin)


if __name__ == "__main__":
    main()
