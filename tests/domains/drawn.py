"""Cases of simulations in domains that are drawn by a number: equation, grid, cuts, layers, steps between exchanges, points, schedules.

Boxes are as thin as a step allows, uneven, or of prime sizes. Points lie at every distance from a cut up to six cells, between cells. A
case is named after its number and its ranks, so a rank makes it again from its name. `python -m tests.domains.drawn RANKS FIRST END`
compares the cases of these numbers with one process.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import diffsim as ds
from diffsim import expr
from diffsim.domains.reach import reach_of
from diffsim.stepping.derive.programs import Programs
from tests.domains.generator import ELASTIC, SPEED, TOP_FREE, DomainCase, Mixed

Shape = tuple[int, ...]
FAR = 6
"""Points lie up to so many cells from a cut."""


@dataclass(frozen=True)
class Drawn:
    """An equation that was drawn.

    Attributes:
        name: of the equation.
        ndim: axes of its grid.
        make: makes it for a shape.
        forced, seen, scale: see `DomainCase`.
        first_alone: whether the first axis alone may be cut.
    """

    name: str
    ndim: int
    make: Callable[[Shape], ds.Equation]
    forced: str
    seen: str
    scale: tuple[tuple[str, float, float], ...]
    first_alone: bool = False


def drawn(number: int, ranks: int) -> DomainCase:
    """The case of a number, for some ranks."""
    rng = np.random.default_rng((number, ranks))
    of = KINDS[number % len(KINDS)](rng)
    cuts = tuple(int(part) for part in rng.permutation(_cuts(rng, ranks, of)))
    if of.first_alone:
        cuts = (ranks, *(1,) * (of.ndim - 1))
    least = _least(of)
    shape = tuple(_cells(rng, parts, thinnest, of.ndim) for parts, thinnest in zip(cuts, least, strict=True))
    points = _points(rng, ds.Grid(shape, of.make(shape).grid.spacing), cuts)
    return DomainCase(
        f"drawn {number} on {ranks} ranks: {of.name}, {' x '.join(map(str, shape))}",
        lambda: of.make(shape),
        (cuts,),
        of.forced,
        of.seen,
        of.scale,
        precision=str(rng.choice(["f32", "f32", "f64"])),
        steps=int(rng.integers(5, 14)),
        between=int(rng.integers(1, 6)),
        checkpoints=tuple(rng.permutation(np.array(["auto", 1, 2, 3, 5], object))[:2]),
        derivatives=bool(rng.random() < 0.3),
        together=bool(rng.random() < 0.5),
        points=points,
    )


def named(name: str) -> DomainCase | None:
    """The case of this name, if it was drawn."""
    match = re.match(r"drawn (\d+) on (\d+) ranks", name)
    return drawn(*map(int, match.groups())) if match else None


def _cuts(rng: np.random.Generator, ranks: int, of: Drawn) -> list[int]:
    """Boxes along the axes, in any order."""
    parts = [1] * of.ndim
    for prime in (2, 2, 2, 3, 5, 7):
        if ranks % (math.prod(parts) * prime) == 0:
            parts[int(rng.integers(of.ndim))] *= prime
    assert math.prod(parts) == ranks
    return parts


def _least(of: Drawn) -> list[int]:
    """The fewest cells of a box along each axis."""
    simulation = ds.Simulation(of.make((40,) * of.ndim), wrt=[])
    programs = Programs(simulation._compiled.step, (of.seen,), np.dtype(np.float32), differentiable=True)
    return [max(int(far), 1) for far in reach_of(programs, np.zeros(of.ndim, int)).most]


def _cells(rng: np.random.Generator, parts: int, least: int, ndim: int) -> int:
    """Cells along an axis: boxes as thin as can be, thicker and uneven ones, or a prime number."""
    thinnest = max(9, 2 * least + 1)
    if parts == 1:
        return int(rng.integers(thinnest, 24 if ndim < 3 else 16))
    kind = rng.integers(3)
    n = parts * least if kind == 0 else parts * (least + int(rng.integers(1, 8))) + int(rng.integers(parts))
    n = max(n, thinnest)
    while kind == 2 and any(n % divisor == 0 for divisor in range(2, math.isqrt(n) + 1)):
        n += 1
    return n


def _points(rng: np.random.Generator, grid: ds.Grid, cuts: Shape) -> tuple[tuple[float, ...], ...]:
    """Points at every distance from each cut, between any cells along the other axes."""
    points = []
    for axis, parts in enumerate(cuts):
        for cut, distance in itertools.product(range(1, parts), range(-FAR, FAR + 1)):
            cells = rng.integers(1, [n - 2 for n in grid.shape]) + rng.random(grid.ndim)
            near = grid.shape[axis] * cut // parts + distance
            cells[axis] = min(max(near, 1), grid.shape[axis] - 3) + rng.choice([0.0, 0.5, rng.random()])
            points.append(tuple(float(cell * h) for cell, h in zip(cells, grid.spacing, strict=True)))
    return tuple(points)


def _layers(rng: np.random.Generator, ndim: int, free: bool) -> Callable[[Shape], tuple[tuple[int, int], ...]]:
    """Layers on some sides, at most a third of the cells thick. The first side has none if it is free."""
    shares = rng.random((ndim, 2)) * rng.integers(0, 2, (ndim, 2)) / 3
    shares[0, 0] *= not free
    return lambda shape: tuple((int(low * n), int(high * n)) for (low, high), n in zip(shares.tolist(), shape, strict=True))


def _acoustic(rng: np.random.Generator) -> Drawn:
    ndim, order, free = int(rng.choice([1, 2, 2, 3])), int(rng.choice([2, 4, 8])), bool(rng.random() < 0.4)
    layers = _layers(rng, ndim, free)
    boundary: Any = (TOP_FREE, *("zero",) * (ndim - 1)) if free else "zero"

    def make(shape: Shape) -> ds.Equation:
        some = any(map(any, layers(shape)))
        layer = {"layer": layers(shape), "layer_speed": 2500.0, "layer_frequency": 25.0} if some else {}
        return ds.solvers.Acoustic(ds.Grid(shape, 10.0), 5e-4, order, boundary=boundary, **layer)

    return Drawn(f"acoustic order {order}", ndim, make, "f", "p", SPEED)


def _elastic(rng: np.random.Generator) -> Drawn:
    ndim, order, surface = int(rng.choice([2, 2, 3])), int(rng.choice([2, 4])), bool(rng.random() < 0.4)
    layers = _layers(rng, ndim, surface)

    def make(shape: Shape) -> ds.Equation:
        some = any(map(any, layers(shape)))
        layer = {"layer": layers(shape), "layer_speed": 3000.0, "layer_frequency": 25.0} if some else {}
        return ds.solvers.Elastic(ds.Grid(shape, 10.0), 5e-4, order, surface=surface, **layer)

    return Drawn(f"elastic order {order}", ndim, make, "", str(rng.choice(["vx", "vy"])), ELASTIC)


def _heat(rng: np.random.Generator) -> Drawn:
    ndim = int(rng.choice([1, 2, 3]))
    sides = [(ds.Dirichlet(0.4), ds.Neumann(0.2)), "mirror", "zero"]
    boundary = tuple(sides[int(side)] for side in rng.integers(3, size=ndim))
    return Drawn("heat", ndim, lambda shape: ds.solvers.Heat(ds.Grid(shape, 0.5), 0.05, boundary), "q", "T", (("kappa", 0.3, 0.1),))


def _maxwell(rng: np.random.Generator) -> Drawn:
    layers = _layers(rng, 2, False)
    return Drawn(
        "Maxwell",
        2,
        lambda shape: ds.solvers.Maxwell(ds.Grid(shape, 0.1), 0.05, "TE", layer=layers(shape)),
        "Jx",
        "Hz",
        (("eps", 2.0, 0.5),),
    )


def _mixed(rng: np.random.Generator) -> Drawn:
    return Drawn("numbers of all cells", 2, lambda shape: Mixed(ds.Grid(shape, 0.5)), "f", "q", (("k", 0.3, 0.1),), first_alone=True)


class Deep(ds.Equation):
    """A step of short reach, with sides beyond which values are made of several cells, or of one."""

    forcings = ("f",)

    def __init__(self, grid: ds.Grid, of_u: Any, of_v: Any) -> None:
        self.grid, self.dt, self.parameters = grid, 0.1, {"k": ds.Variable("mirror")}
        self.states = {"u": ds.Variable(of_u), "v": ds.Variable(of_v)}

    def step(self, u: Any, v: Any, k: Any, f: Any) -> dict[str, Any]:
        moved = ds.stage(v + 0.1 * k * expr.diff_centred(u, self.grid.ndim - 1), boundary=v)
        return {"u": u + 0.1 * expr.laplacian(k * moved) + f, "v": moved - 0.1 * v.shifted(0, 1) * u}


def _deep(rng: np.random.Generator) -> Drawn:
    ndim = int(rng.choice([1, 2]))
    rules = ["zero", "mirror", ds.Extrapolate(1), ds.Extrapolate(2), ds.Robin(0.7, 0.4, 0.2)]
    low, high = (tuple(rules[int(rule)] for rule in rng.integers(len(rules), size=2 * ndim)) for _ in range(2))
    of_u, of_v = ((*zip(sides[::2], sides[1::2], strict=True),) for sides in (low, high))
    of_u = ((ds.Extrapolate(2), "zero"), *of_u[1:])  # always one whose sides differ in depth
    return Drawn("deep sides", ndim, lambda shape: Deep(ds.Grid(shape, 0.8), of_u, of_v), "f", "u", (("k", 0.3, 0.1),))


KINDS: list[Callable[[np.random.Generator], Drawn]] = [_acoustic, _elastic, _heat, _acoustic, _maxwell, _elastic, _mixed, _deep]
"""Equations by the number of a case."""


def main(ranks: int, first: int, end: int) -> None:
    from tests.domains.test_domains import compared

    ds.init(threads=1)
    for number in range(first, end):
        with tempfile.TemporaryDirectory() as folder:
            for name, result in compared([drawn(number, ranks)], Path(folder)).items():
                sys.stdout.write(f"{name}: {result}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
