"""A step of acoustics with discontinuous Galerkin elements, as tile programs and as an array program over all elements.

`python scripts/bench/dg.py`: order 3, 128 x 128 elements, f32; value, and value with gradient for the three states. The two take turns,
of which the least counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.solvers.dg.acoustic import upwind_flux
from diffsim.solvers.dg.element import STAGES, reference_element

ORDER, ELEMENTS, TURNS = 3, 128, 5


def all_elements(equation: ds.solvers.DGAcoustic, states: Any, coefficients: Any) -> Any:
    """The step of `DGAcoustic.advance`, each operation over the arrays of all elements."""
    e = reference_element(ORDER, np.dtype(np.float32))
    u = e.to_nodes @ equation.split(dnp.stack(states)) @ e.to_nodes.T
    c, rho = (equation.split(dnp.stack([values]))[:, 0].mean(axis=(1, 2)) for values in coefficients)
    z = (rho * c)[:, None, None, None, None]
    z_out = equation.outside(dnp.broadcast_to(z, (len(c), 2, 2, 1, 1)))
    z, c, rho = z[:, 0, 0], c[:, None, None], rho[:, None, None]

    def faces(q: Any, axis: int) -> tuple[Any, Any]:
        return (e.low @ q, e.high @ q) if axis == 0 else (q @ e.low, q @ e.high)

    def derivative(f: Any, at_low: Any, at_high: Any, axis: int) -> Any:
        low, high = faces(f, axis)
        low, high = at_low - low, at_high - high
        if axis == 0:
            return e.slope @ f + e.lift_high[:, None] * high[:, None] - e.lift_low[:, None] * low[:, None]
        return f @ e.slope.T + high[:, :, None] * e.lift_high - low[:, :, None] * e.lift_low

    w = u
    for part in STAGES[ORDER]:
        both = [[dnp.stack(pair, axis=1) for pair in zip(faces(w[:, 0], a), faces(w[:, 1 + a], a), strict=True)] for a in (0, 1)]
        out = equation.outside(dnp.stack([dnp.stack(pair, axis=1) for pair in both], axis=1))
        p_rate, v_rates = 0.0, []
        for axis, h in enumerate(equation.widths):
            p, v = w[:, 0], w[:, 1 + axis]
            (p_low, p_high), (v_low, v_high) = faces(p, axis), faces(v, axis)
            below, above = (z_out[:, axis, side, 0] for side in (0, 1))
            p_at_low, v_at_low = upwind_flux(below, out[:, axis, 0, 0], out[:, axis, 0, 1], z[:, 0], p_low, v_low)
            p_at_high, v_at_high = upwind_flux(z[:, 0], p_high, v_high, above, out[:, axis, 1, 0], out[:, axis, 1, 1])
            p_rate = p_rate - rho * c**2 / h * derivative(v, v_at_low, v_at_high, axis)
            v_rates.append(-1 / (rho * h) * derivative(p, p_at_low, p_at_high, axis))
        w = u + np.float32(part * equation.dt) * dnp.stack([p_rate, *v_rates], axis=1)
    return equation.join(e.to_centres @ w @ e.to_centres.T)


def seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    cells, rng = ELEMENTS * (ORDER + 1), np.random.default_rng(0)
    equation = ds.solvers.DGAcoustic(ds.Grid((cells, cells), 1 / (ORDER + 1)), 0.05, ORDER, "periodic")
    states = list(rng.normal(size=(3, cells, cells)).astype(np.float32))
    coefficients = list(rng.uniform(0.5, 1.0, size=(2, cells, cells)).astype(np.float32))
    result, expected = equation.advance(states, coefficients), all_elements(equation, states, coefficients)
    print(f"largest difference: {np.abs(result - expected).max():.1e}")
    bar = np.ones(result.shape, np.float32)
    ways = {"tiles": lambda *q: equation.advance(q, coefficients), "arrays": lambda *q: all_elements(equation, q, coefficients)}
    least: dict[tuple[str, str], float] = {}
    for turn in range(TURNS + 1):
        for name, way in ways.items():
            times = {"step": seconds(lambda way=way: way(*states)), "gradient": seconds(lambda way=way: ds.vjp(way, *states)[1](bar))}
            if turn:  # the first compiles
                least.update({(name, what): min(t, least.get((name, what), t)) for what, t in times.items()})
    for what in ("step", "gradient"):
        print(f"{what}: tiles {1e3 * least['tiles', what]:.0f} ms, arrays {1e3 * least['arrays', what]:.0f} ms")


if __name__ == "__main__":
    main()
