"""Steady conduction in a slab as Mosaic's problem thermal-mesh states it: `python scripts/mosaic/thermal_mesh.py [--largest 256]`.

-∇·(k ∇T) = 0 on [0, 2] x [0, 1] with bilinear (Q1) elements, k = 1e-3 + (1 - 1e-3) ρ³ in each, T = 0 at x = 0, and a power of 1 through
x = 2. One layer of HEX8 elements of a thickness is the same: T does not depend on z, and a sum over nodes counts each of these twice.

It prints the difference to a program in SciPy, gradients against differences, the recovery of ρ from temperatures, and costs. Mosaic's
reference distributes half of the flux to the nodes at which elements meet. So its target belongs to no ρ, and no loss may reach 0.

Reference: https://github.com/pasteurlabs/mosaic, v0.2.0, problem thermal-mesh.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

import diffsim as ds
from diffsim.optimize import minimise

LENGTHS = (1.0, 2.0)
"""Along y and x."""


class Slab(ds.Steady):
    """Q1 elements on nodes. The conductivity of an element lies between its nodes, on the upper corner of the first one; beyond, it is 0.

    Args:
        shape: elements along y and x.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        h = [length / n for length, n in zip(LENGTHS, shape, strict=True)]
        self.grid = ds.Grid(tuple(n + 1 for n in shape), h, 0.0, ("y", "x"))
        self.states = {"T": ds.Variable("zero", unit="K")}
        self.parameters = {"k": ds.Variable("zero", location=(1, 1), unit="W/(m K)"), "load": ds.Variable("zero", unit="W/m")}
        self.profiles = {"free": ds.Profile(1, (np.arange(shape[1] + 1) > 0).astype(float))}  # all but the nodes that are held at 0

    def residual(self, T: Any, k: Any, load: Any, free: Any) -> Any:
        u = free * T
        total = load
        for a in (0, -1):
            for b in (0, -1):
                element = k.shifted(0, a).shifted(1, b).across(0).across(1)
                y, x = 2 * a + 1, 2 * b + 1  # to the other nodes of this element
                for (to_y, to_x), weight in self.stiffness().items():
                    total = total - weight * element * u.shifted(0, y * to_y).shifted(1, x * to_x)
        return free * total - (1 - free) * T

    def stiffness(self) -> dict[tuple[int, int], float]:
        """∫ ∇N₀·∇N of an element with k = 1, for its nodes as seen from one of them."""
        h_y, h_x = self.grid.spacing
        r = h_y / h_x
        return {(0, 0): (r + 1 / r) / 3, (0, 1): -r / 3 + 1 / (6 * r), (1, 0): r / 6 - 1 / (3 * r), (1, 1): -(r + 1 / r) / 6}


def conductivity(rho: Any) -> Any:
    return 1e-3 + (1 - 1e-3) * rho**3


def loads(shape: tuple[int, int], thickness: float, once: bool = False) -> np.ndarray:
    """The power into each node, W for a metre of thickness; `once`: by Mosaic's reference, from one element for each node."""
    load = np.zeros(tuple(n + 1 for n in shape))
    load[:, -1] = 1 / (thickness * shape[0])
    load[[0, -1], -1] /= 2
    return np.where(load > 0, load[0, -1], 0.0) if once else load


def two_gaussians(shape: tuple[int, int]) -> np.ndarray:
    y, x = ((np.arange(n) + 0.5) * length / n for n, length in zip(shape, LENGTHS, strict=True))
    spots = [np.exp(-((x - 2 * c) ** 2 + (y[:, None] - 0.5) ** 2) / (2 * 0.15**2)) for c in (0.3, 0.7)]
    return np.clip(sum(spots), 0.0, 1.0)


def by_scipy(k: np.ndarray, load: np.ndarray) -> np.ndarray:
    """The same by quadrature in each element and sparse elimination."""
    ny, nx = k.shape
    h = LENGTHS[0] / ny, LENGTHS[1] / nx
    corners = [(0, 0), (0, 1), (1, 0), (1, 1)]
    element = np.zeros((4, 4))
    for s in (0.5 - 0.75**0.5 / 3, 0.5 + 0.75**0.5 / 3):
        for t in (0.5 - 0.75**0.5 / 3, 0.5 + 0.75**0.5 / 3):
            slopes = np.array([[(2 * a - 1) * (t if b else 1 - t) / h[0], (2 * b - 1) * (s if a else 1 - s) / h[1]] for a, b in corners])
            element += h[0] * h[1] / 4 * slopes @ slopes.T
    number = np.arange((ny + 1) * (nx + 1)).reshape(ny + 1, nx + 1)
    nodes = np.stack([number[a : a + ny, b : b + nx].ravel() for a, b in corners])
    rows, columns = np.repeat(nodes[:, None], 4, axis=1), np.repeat(nodes[None], 4, axis=0)
    matrix = sparse.csc_array(((element[:, :, None] * k.ravel()).ravel(), (rows.ravel(), columns.ravel())))
    free = number[:, 1:].ravel()
    T = np.zeros(load.size)
    T[free] = spsolve(matrix[free][:, free], load.ravel()[free])
    return T.reshape(load.shape)


def padded(k: np.ndarray) -> np.ndarray:
    """Conductivities with those of the elements beyond the last nodes, 0."""
    return np.pad(k, ((0, 1), (0, 1)))


def check_gradient(shape: tuple[int, int]) -> float:
    """The largest error of the gradient of the compliance along ten directions, relative to central differences."""
    slab = ds.steady(Slab(shape), precision="f64", wrt=["k"])
    rng, load = np.random.default_rng(0), loads(shape, LENGTHS[1] / shape[1])

    def compliance(rho: np.ndarray) -> tuple[float, np.ndarray]:
        inputs = {"k": padded(conductivity(rho)), "load": load}
        value, gradient = slab.value_and_grad(lambda solution: (solution.final["T"] * load).sum(), inputs)
        return value, gradient["k"][:-1, :-1] * 3 * (1 - 1e-3) * rho**2

    rho, worst = np.clip(0.5 + 0.3 * rng.standard_normal(shape), 0.05, 0.95), 0.0
    for _ in range(10):
        way = rng.standard_normal(shape)
        difference = (compliance(rho + 1e-5 * way)[0] - compliance(rho - 1e-5 * way)[0]) / 2e-5
        worst = max(worst, abs((compliance(rho)[1] * way).sum() / difference - 1))
    return worst


def recover(shape: tuple[int, int], thickness: float, iterations: int) -> tuple[float, float, int]:
    """Squares of temperature errors at first and at last, and the iterations: from ρ = 0.5, by L-BFGS-B with ρ between 1e-3 and 1.

    The variable is log ρ, of which T depends more evenly: in ρ itself the same 200 iterations end at 15 times the loss.
    """
    slab = ds.steady(Slab(shape), precision="f64", wrt=["k"])
    load = loads(shape, thickness)
    target = by_scipy(conductivity(two_gaussians(shape)), loads(shape, thickness, once=True))

    def loss(log_rho: np.ndarray) -> tuple[float, np.ndarray]:
        rho = np.exp(log_rho.reshape(shape))
        inputs = {"k": padded(conductivity(rho)), "load": load}
        value, gradient = slab.value_and_grad(lambda solution: 2 * ((solution.final["T"] - target) ** 2).sum(), inputs)
        return value, (gradient["k"][:-1, :-1] * 3 * (1 - 1e-3) * rho**3).ravel()

    start = np.full(shape, np.log(0.5)).ravel()
    result = minimise(loss, start, bounds=[(np.log(1e-3), 0.0)] * start.size, iterations=iterations, tolerance=1e-15)
    return loss(start)[0], loss(result.x)[0], len(result.history) - 1


def cost(shape: tuple[int, int]) -> tuple[float, float]:
    """Seconds (wall clock) of a solution and of a value with its gradient, for a new conductivity each time."""
    slab = ds.steady(Slab(shape), precision="f64", wrt=["k"])
    rng, load = np.random.default_rng(1), loads(shape, LENGTHS[1] / shape[1])
    fields = [{"k": padded(conductivity(rng.uniform(0.2, 0.8, shape))), "load": load} for _ in range(3)]
    slab.run(fields[0])
    slab.value_and_grad(lambda solution: (solution.final["T"] * load).sum(), fields[0])  # compiled before the clock starts
    begin = time.perf_counter()
    slab.run(fields[1])
    middle = time.perf_counter()
    slab.value_and_grad(lambda solution: (solution.final["T"] * load).sum(), fields[2])
    return middle - begin, time.perf_counter() - middle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--largest", type=int, default=256, help="elements along x of the largest slab whose cost is measured")
    largest = parser.parse_args().largest
    k, load = conductivity(two_gaussians((8, 16))), loads((8, 16), 0.125)
    T, by_elements = ds.steady(Slab((8, 16)), precision="f64").run({"k": padded(k), "load": load}).final["T"], by_scipy(k, load)
    print(f"16 x 8: the largest difference to SciPy is {np.abs(T - by_elements).max() / by_elements.max():.1e} of the largest temperature")
    print(f"8 x 4: gradients differ from differences by at most {check_gradient((4, 8)):.1e}")
    for thickness in (1.0, 0.125):
        first, last, iterations = recover((8, 16), thickness, 200)
        print(f"16 x 8, thickness {thickness:g}: squares of errors {first:.3g} -> {last:.4g} in {iterations} iterations")
    n = 16
    while n <= largest:
        print("{} x {}: {:.3f} s a solution, {:.3f} s with its gradient".format(n, n // 2, *cost((n // 2, n))), flush=True)
        n *= 2


if __name__ == "__main__":
    main()
