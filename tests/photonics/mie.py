"""Light that a cylinder scatters, by the series of Mie."""

from __future__ import annotations

import math

from scipy.special import h1vp, hankel1, jv, jvp


def scattering(n: float, radius: float, wavelength: float, orders: int = 20) -> float:
    """Q_sca, the scattering width over the diameter, of a cylinder of index n with E along it.

    Reference: Bohren and Huffman (1983), Absorption and Scattering of Light by Small Particles, section 8.4, b_n of case I.
    """
    x = 2 * math.pi * radius / wavelength
    total = 0.0
    for order in range(orders):
        over = jv(order, n * x) * jvp(order, x) - n * jvp(order, n * x) * jv(order, x)
        under = jv(order, n * x) * h1vp(order, x) - n * jvp(order, n * x) * hankel1(order, x)
        total += (1 if order == 0 else 2) * abs(over / under) ** 2
    return 2 / x * total
