"""The rows of the comparison with other packages: the computation, its arrays, and the tolerance of the results."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import heat
import numpy as np
from scene import DT, DX, FREQUENCY, receivers_of, speed_of, wavelet_of

SLOTS = 20
ROUND_OFF = 1e-3
"""Relative to the largest value, in f32: after some hundred steps in another order of summation."""
LONG_ROUND_OFF = 5e-3
"""The same after 10 000 steps in a box that reflects; measured 8e-4."""
WIDE_ROUND_OFF = 1e-10
OTHER_SCHEME = 2e-3
"""The same for a flow with waves of at least 8 cells, by differences of second order and by Fourier series."""


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        name: by which the command line calls it.
        title: in the table.
        settings: of the problem; kind, steps, gradient, slots and others that the kind needs.
        tolerance: error that a peer's results may have, relative to the largest value.
    """

    name: str
    title: str
    settings: dict[str, Any]
    tolerance: float

    def write(self, path: Path, threads: int) -> None:
        """Write the problem as peers read it."""
        kinds = {
            "acoustic": _acoustic,
            "volume": _volume,
            "diffusion": _diffusion,
            "elastic": _elastic,
            "maxwell": _maxwell,
            "flow": _flow,
            "product": _product,
        }
        arrays = kinds[self.settings["kind"]](self.settings)
        np.savez(path, settings=json.dumps(self.settings | {"threads": threads}), **arrays)  # type: ignore[arg-type]


def rows(quick: bool) -> list[Row]:
    """All rows; on small grids and for few steps if `quick`."""
    large, middle, steps, long, count = (128, 64, 100, 200, 10**5) if quick else (1024, 512, 500, 1000, 10**6)
    small_steps = 400 if quick else 10_000
    out = []
    for what, gradient, slots in (("forward", False, 0), ("stored", True, 0), ("slots", True, SLOTS)):
        title = {"forward": "forward", "stored": "gradient, all stored", "slots": f"gradient in {SLOTS} slots"}[what]
        common = {"gradient": gradient, "slots": slots}
        for order in (4, 8):
            settings = {"kind": "acoustic", "n": large, "order": order, "steps": steps, "dx": DX, "dt": DT, "frequency": FREQUENCY} | common
            line = f"acoustic {large}², order {order}, {steps} steps: {title}"
            out.append(Row(f"acoustic-{order}-{what}", line, settings, ROUND_OFF))
        settings = {"kind": "diffusion", "n": middle, "steps": long, "dx": heat.DX, "dt": heat.DT} | common
        out.append(Row(f"diffusion-{what}", f"diffusion {middle}², {long} steps: {title}", settings, ROUND_OFF))
        if what != "slots":
            for kind, name, more in (
                ("elastic", "elastic waves, order 4", {"dx": DX, "dt": 9e-4, "frequency": 15.0}),
                ("maxwell", "Maxwell, Ez", {"dx": 0.05, "dt": 0.034, "frequency": 1.0}),
            ):
                few = min(steps, middle)
                settings = {"kind": kind, "n": middle, "order": 4, "steps": few} | more | common
                out.append(Row(f"{kind}-{what}", f"{name}, {middle}², {few} steps: {title}", settings, ROUND_OFF))
        if what != "stored":
            settings = {"kind": "acoustic", "n": 64, "order": 4, "steps": small_steps, "dx": DX, "dt": DT, "frequency": FREQUENCY} | common
            out.append(Row(f"small-{what}", f"acoustic 64², order 4, {small_steps} steps: {title}", settings, LONG_ROUND_OFF))
    for what, gradient, n, few in (("forward", False, 32 if quick else 256, 50), ("stored", True, 32 if quick else 128, 100)):
        for order in (4, 8):
            settings = {"kind": "volume", "n": n, "order": order, "steps": few, "dx": DX, "dt": 1e-3, "frequency": FREQUENCY}
            line = f"acoustic {n}³, order {order}, {few} steps: {'gradient, all stored' if gradient else 'forward'}"
            out.append(Row(f"volume-{order}-{what}", line, settings | {"gradient": gradient, "slots": 0}, ROUND_OFF))
    for ndim, n, few in [(2, 64, 20)] if quick else [(2, 128, 100), (2, 256, 100), (3, 32, 50), (3, 64, 50)]:
        for what, gradient in (("forward", False), ("stored", True)):
            settings = {"kind": "flow", "n": n, "ndim": ndim, "steps": few, "dt": 0.01, "nu": 0.01, "gradient": gradient, "slots": 0}
            line = f"incompressible flow {n}{'²³'[ndim - 2]}, {few} steps, f64: {'gradient, all stored' if gradient else 'forward'}"
            out.append(Row(f"flow-{ndim}-{n}-{what}", line, settings, OTHER_SCHEME))
    for dtype, tolerance in (("f32", ROUND_OFF), ("f64", WIDE_ROUND_OFF)):
        settings = {"kind": "product", "n": count, "dtype": dtype, "gradient": True, "slots": 0, "steps": 0}
        out.append(Row(f"product-{dtype}", f"value and gradient of sum(cumprod(x) x), {count:,} values, {dtype}", settings, tolerance))
    return out


def _acoustic(settings: dict[str, Any]) -> dict[str, np.ndarray]:
    n = settings["n"]
    row, first, step, count = receivers_of(n)
    receivers = np.array([(row, first + step * r) for r in range(count)])
    return {"speed": speed_of(n), "wavelet": wavelet_of(settings["steps"]), "source": np.array([[n // 2, n // 2]]), "receivers": receivers}


def _volume(settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """The medium of two dimensions, slower with the third one; a source in the middle, and a line of receivers near it."""
    n = settings["n"]
    slower = np.linspace(1.0, 0.8, n, dtype=np.float32)
    receivers = np.array([(n // 2 - 6, n // 2, row) for row in range(4, n - 4, 4)])
    return {
        "speed": speed_of(n)[:, :, None] * slower,
        "wavelet": wavelet_of(settings["steps"]),
        "source": np.full((1, 3), n // 2),
        "receivers": receivers,
    }


def _elastic(settings: dict[str, Any]) -> dict[str, np.ndarray]:
    vp = speed_of(settings["n"])
    return {"vp": vp, "vs": 0.55 * vp, "rho": 310 * vp**0.25} | _shot(settings)


def _maxwell(settings: dict[str, Any]) -> dict[str, np.ndarray]:
    return {"eps": speed_of(settings["n"]) / 1500} | _shot(settings)


def _shot(settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """A Ricker wavelet in the middle, and receivers far enough from the edges that no echo from there comes in time."""
    n, phase = settings["n"], (np.pi * settings["frequency"] * settings["dt"] * np.arange(settings["steps"]) - 3.5) ** 2
    receivers = np.array([(n // 3, n // 4 + 4 * r) for r in range(n // 8)])
    return {
        "wavelet": ((1 - 2 * phase) * np.exp(-phase)).astype(np.float32),
        "source": np.array([[n // 2, n // 2]]),
        "receivers": receivers,
    }


def _diffusion(settings: dict[str, Any]) -> dict[str, np.ndarray]:
    kappa, initial = heat.arrays_of(settings["n"])
    return {"kappa": kappa, "initial": initial}


def _flow(settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """Waves across their wave numbers."""
    rng, ndim, count = np.random.default_rng(0), settings["ndim"], 5
    numbers = np.array([[1, 1, 0], [0, 1, 1], [2, 0, 1], [1, -1, 0], [0, 2, 1]])[:, :ndim]
    along = rng.normal(size=(count, ndim))
    across = along - numbers * ((along * numbers).sum(axis=1) / (numbers**2).sum(axis=1))[:, None]
    return {
        "numbers": numbers,
        "amplitudes": 0.5 * across / np.linalg.norm(across, axis=1)[:, None],
        "phases": rng.uniform(0, 2 * np.pi, count),
    }


def _product(settings: dict[str, Any]) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(0).uniform(0.999, 1.001, settings["n"]).astype(settings["dtype"].replace("f", "float"))}
