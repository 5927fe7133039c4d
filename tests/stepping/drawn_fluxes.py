"""Steps of nonlinear fluxes that are drawn by a number: reconstructions, speeds, fluxes, cells that fall dry, stages, loops and systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import diffsim as ds
from diffsim.expr import (
    Symbol,
    clip,
    interpolate,
    laplacian,
    maximum,
    mc,
    minimum,
    minmod,
    muscl,
    sign,
    sqrt,
    superbee,
    tanh,
    van_albada,
    van_leer,
    weno5,
    where,
)

LIMITERS = (minmod, superbee, mc, van_leer, van_albada(1e-3))
DRY = 0.2
"""Depth below which a cell has no speed, where an equation has dry cells."""
DT = 0.04
Pair = tuple[Symbol, Symbol]


class Fluxes(ds.Equation):
    """Depth, momentum and a tracer over a bed, by fluxes that are drawn.

    Args:
        number: by which all is drawn.
        ndim: axes of the grid; None: drawn.
        most: cells along an axis, at most.
        alone: whether there are no stages that the host computes, nor loops.
        sides: whether sides other than periodic ones may be drawn.
    """

    def __init__(self, number: int, ndim: int | None = None, most: int = 20, alone: bool = False, sides: bool = True) -> None:
        generator = np.random.default_rng(number)
        self.ndim = int(generator.choice([1, 2, 3], p=[0.4, 0.5, 0.1])) if ndim is None else ndim
        least = 7 if self.ndim < 3 else 6
        shape = tuple(int(n) for n in generator.integers(least, most if self.ndim == 2 else 2 * most if self.ndim == 1 else 9, self.ndim))
        self.grid, self.dt = ds.Grid(shape, tuple(generator.uniform(0.8, 1.3, self.ndim))), DT
        self.program, self.alone = int(generator.integers(1 << 30)), alone
        of_h, of_q = self._sides(generator, sides)
        self.states = {"h": ds.Variable(of_h), "q": ds.Variable(of_q)}
        if generator.random() < 0.3:
            self.states["c"] = ds.Variable(of_h)
        self.parameters = {"z": ds.Variable(of_h)}
        if generator.random() < 0.3:
            self.parameters["k"] = ds.Variable(axes=())

    def step(self, z: Symbol, **fields: Symbol) -> dict[str, Symbol]:
        return self._drawn({"z": z, **fields})

    def _sides(self, generator: np.random.Generator, sides: bool) -> tuple[Any, Any]:
        of_h: list[Any] = []
        of_q: list[Any] = []
        rules = (
            ("mirror", "odd_image"),
            ("mirror", "mirror"),
            (ds.Dirichlet(1.1), ds.Dirichlet(0.3)),
            (ds.Extrapolate(0), ds.Extrapolate(0)),
            (ds.Extrapolate(1), ds.Extrapolate(1)),
            (ds.Neumann(0.1), "zero"),
            ("zero", "zero"),
            (ds.Robin(0.7, 0.4, 0.8), "odd_image"),
        )
        for _ in range(self.ndim):
            if not sides or generator.random() < 0.4:
                of_h.append("periodic")
                of_q.append("periodic")
            else:
                low, high = (rules[int(generator.integers(len(rules)))] for _ in range(2))
                of_h.append((low[0], high[0]))
                of_q.append((low[1], high[1]))
        return tuple(of_h), tuple(of_q)

    def inputs(self, number: int = 0, dry: float = 0.0) -> dict[str, Any]:
        """Values of all inputs. `dry`: the share of cells without any depth."""
        generator = np.random.default_rng([self.program, number])
        shape = self.grid.shape
        values: dict[str, Any] = {
            "h": generator.uniform(0.5, 1.5, shape),
            "q": generator.uniform(-0.8, 0.8, shape),
            "z": generator.uniform(-0.2, 0.2, shape),
        }
        without = generator.random(shape) < dry
        values["h"][without], values["q"][without] = 0.0, 0.0
        if "c" in self.states:
            values["c"] = generator.uniform(0.2, 1.0, shape)
        if "k" in self.parameters:
            values["k"] = float(generator.uniform(0.2, 1.0))
        return values

    # the step

    def _drawn(self, now: dict[str, Symbol]) -> dict[str, Symbol]:
        self.generator = np.random.default_rng(self.program)
        bed = now["z"]
        scheme, order = self._reconstruction(), self._one(("euler", "heun", "middle", "laps"))
        seed = int(self.generator.integers(1 << 30))

        def rate(at: dict[str, Symbol]) -> dict[str, Symbol]:
            self.generator = np.random.default_rng(seed)
            return self._rate(at, bed, scheme, now.get("k"))

        start = {name: now[name] for name in self.states}
        if order == "euler" or (order == "laps" and self.alone):
            after = {name: start[name] + self.dt * change for name, change in rate(start).items()}
        elif order == "laps":

            def lap(*values: Symbol) -> Any:
                at = dict(zip(start, values, strict=True))
                later = {name: at[name] + 0.5 * self.dt * change for name, change in rate(at).items()}
                return tuple(later[name] for name in start)

            rules = {name: variable.boundary for name, variable in self.states.items()}
            if len(set(map(str, rules.values()))) == 1:
                after = dict(zip(start, ds.repeat(2, lap, *start.values(), boundary=rules["h"]), strict=True))
            else:
                after = {name: start[name] + self.dt * change for name, change in rate(start).items()}
        else:
            part = 1.0 if order == "heun" else 0.5
            first = {name: ds.stage(start[name] + part * self.dt * change, boundary=now[name]) for name, change in rate(start).items()}
            second = rate(first)
            after = {
                name: 0.5 * (start[name] + first[name] + self.dt * second[name])
                if order == "heun"
                else start[name] + self.dt * second[name]
                for name in start
            }
        return self._ended(after, now)

    def _one(self, choices: Any) -> Any:
        return choices[int(self.generator.integers(len(choices)))]

    def _chance(self, part: float) -> bool:
        return bool(self.generator.random() < part)

    def _reconstruction(self) -> Callable[[Symbol, int], Pair]:
        kind = self.generator.random()
        if kind < 0.4:
            return lambda f, axis: (f.across(axis), f.shifted(axis, 1).across(axis))
        if kind < 0.8:
            limiter = self._one(LIMITERS)
            return lambda f, axis: muscl(f, axis, limiter)
        weights = self._one(("js", "z"))
        return lambda f, axis: weno5(f, axis, 1e-4, weights)

    def _rate(self, at: dict[str, Symbol], bed: Symbol, scheme: Callable[[Symbol, int], Pair], k: Symbol | None) -> dict[str, Symbol]:
        seed = int(self.generator.integers(1 << 30))
        rates: dict[str, list[Symbol]] = {name: [] for name in at}
        level = at["h"] + bed if self._chance(0.4) else None
        beds = "largest" if level is not None and self._chance(0.5) else "mean"
        for axis in range(self.ndim):
            self.generator = np.random.default_rng(seed)
            if level is None:
                depths = scheme(at["h"], axis)
            else:
                levels = scheme(level, axis)
                face = maximum(bed, bed.shifted(axis, 1)).across(axis) if beds == "largest" else interpolate(bed, axis)
                depths = maximum(levels[0] - face, 0.0), maximum(levels[1] - face, 0.0)
            momenta = scheme(at["q"], axis)
            velocities, speeds = self._velocities(depths, momenta), self._speeds(depths)
            values = {"h": depths, "q": momenta}
            if "c" in at:
                values["c"] = scheme(at["c"], axis)
            for name, flux in self._fluxes(values, velocities, speeds).items():
                rates[name].append((flux.across(axis).shifted(axis, -1) - flux.across(axis)) / self.grid.spacing[axis])
        total = {name: sum(parts[1:], parts[0]) for name, parts in rates.items()}
        if self._chance(0.4):
            drag = 0.3 if k is None else k
            root = sqrt(at["q"] * at["q"] + 0.1)
            total["q"] = total["q"] - drag * at["q"] * root / maximum(at["h"], DRY) ** self._one((1.0, 7 / 3))
        return total

    def _velocities(self, depths: Pair, momenta: Pair) -> Pair:
        kind = self._one(("quotient", "smooth", "dry", "clipped"))

        def of(h: Symbol, q: Symbol) -> Symbol:
            if kind == "quotient":
                return q / maximum(h, DRY)
            if kind == "smooth":
                return 2.0 * h * q / (h * h + maximum(h * h, DRY**2))
            if kind == "dry":
                return where(h > DRY, q / h, 0.0)
            return clip(q / (0.1 + h * h), -1.5, 1.5)

        return of(depths[0], momenta[0]), of(depths[1], momenta[1])

    def _speeds(self, depths: Pair) -> Pair:
        kind = self._one(("root", "dry", "largest", "power", "square"))

        def of(h: Symbol) -> Symbol:
            if kind == "root":
                return sqrt(1.0 + h * h)
            if kind == "dry":
                return where(h > DRY, sqrt(h), 0.0)
            if kind == "largest":
                return sqrt(maximum(h, 0.05))
            if kind == "power":
                return where(h > DRY, h**0.4, h * DRY**-0.6)
            return sqrt(h * h + 0.01)

        return of(depths[0]), of(depths[1])

    def _fluxes(self, values: dict[str, Pair], velocities: Pair, speeds: Pair) -> dict[str, Symbol]:
        kind = self._one(("rusanov", "hll", "hll", "hllc", "roe", "upwind"))
        (hl, hr), (ql, qr), (ul, ur), (al, ar) = values["h"], values["q"], velocities, speeds
        physical = {"h": (hl * ul, hr * ur), "q": (ql * ul + 0.5 * hl * hl, qr * ur + 0.5 * hr * hr)}
        if "c" in values:
            physical["c"] = (values["c"][0] * ul, values["c"][1] * ur)
        if kind == "rusanov":
            fastest = maximum(abs(ul) + al, abs(ur) + ar)
            return {n: 0.5 * (physical[n][0] + physical[n][1]) - 0.5 * fastest * (values[n][1] - values[n][0]) for n in values}
        if kind == "upwind":
            middle = 0.5 * (ul + ur) + 0.1 * (al - ar)
            return {n: where(middle > 0, *physical[n]) + 0.1 * (values[n][0] - values[n][1]) * sqrt(middle * middle + 0.1) for n in values}
        if kind == "roe":
            weight = sqrt(maximum(hl, 0.01)) / (sqrt(maximum(hl, 0.01)) + sqrt(maximum(hr, 0.01)))
            mean = weight * ul + (1.0 - weight) * ur
            size = abs(mean) + sqrt(0.5 * (al * al + ar * ar) + 0.01)
            entropy = where(size < 1.0, 0.5 * (size * size + 1.0), size)
            return {n: 0.5 * (physical[n][0] + physical[n][1]) - 0.5 * entropy * (values[n][1] - values[n][0]) for n in values}
        low, high = minimum(ul - al, ur - ar), maximum(ul + al, ur + ar)
        if self._chance(0.5):
            low, high = minimum(low, 0.0), maximum(high, 0.0)
            share = high / maximum(high - low, 0.1)
            whole = {
                n: share * physical[n][0] + (1.0 - share) * physical[n][1] + share * low * (values[n][1] - values[n][0]) for n in values
            }
        else:
            width = where(high - low > 0.05, high - low, 1.0)
            inner = {n: (high * physical[n][0] - low * physical[n][1] + high * low * (values[n][1] - values[n][0])) / width for n in values}
            whole = {n: where(low > 0, physical[n][0], where(high < 0, physical[n][1], inner[n])) for n in values}
        if kind == "hllc" and "c" in values:
            middle = (high * hr * ur - low * hl * ul) / maximum(abs(high * hr - low * hl), 0.1)
            whole["c"] = whole["h"] * where(middle > 0, *values["c"]) + 0.05 * tanh(middle) * (values["c"][0] - values["c"][1])
        elif kind == "hllc":
            contact = (qr * qr - ql * ql + low * hl - high * hr) / (0.5 + abs(low) + abs(high))
            whole["q"] = whole["q"] + 0.1 * sign(contact) * sqrt(contact * contact + 0.1) * (hl - hr)
        return whole

    def _ended(self, after: dict[str, Symbol], now: dict[str, Symbol]) -> dict[str, Symbol]:
        """A costly function of each cell at the end, or an implicit system."""
        self.generator = np.random.default_rng(self.program + 1)
        kind = self._one(("plain", "plain", "positive", "drag", "solve"))
        if kind == "positive":
            after["h"] = maximum(after["h"], 0.0)
        elif kind == "drag":
            wet = ds.stage(after["h"], boundary=now["h"]) if self._chance(0.5) else after["h"]
            around = wet.shifted(0, 1) + wet.shifted(0, -1) if self._chance(0.5) else wet
            size = where(wet > DRY, wet**-1.5 * abs(after["q"]), 0.0)
            after["q"] = after["q"] / (1.0 + self.dt * size * (1.0 + 0.1 * around * around))
        elif kind == "solve" and not self.alone and self.ndim < 3:
            weight = 0.05 * (1.0 + now["h"] * now["h"])
            after["q"] = ds.solve(lambda x: x - self.dt * weight * laplacian(x), after["q"], boundary=now["q"])
        return after
