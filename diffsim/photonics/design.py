"""Densities of a material that become binary."""

from __future__ import annotations

from typing import Any

import diffsim.numpy as dnp
from diffsim.arguments import number, positive
from diffsim.optimize.smoothing import smooth


def projected(density: Any, radius: float, steepness: float, threshold: float = 0.5) -> Any:
    """A density between 0 and 1, smoothed and then pushed towards 0 and 1, with derivatives.

        (tanh(β η) + tanh(β (ρ̃ - η))) / (tanh(β η) + tanh(β (1 - η)))

    ρ̃ is the density after a Gaussian filter, which removes what is smaller than its radius. A search begins with a small steepness β and
    raises it in stages, at last beyond 30: then nearly all cells are 0 or 1.

    Args:
        density: over the cells of the design, of any number of axes.
        radius: standard deviation of the filter, cells.
        steepness: β.
        threshold: η.

    Returns:
        An array of that shape.

    Raises:
        ParameterError: a steepness that is not positive, or a threshold that is not between 0 and 1.

    Reference: Wang, Lazarov and Sigmund (2011), On projection methods, convergence and robust formulations in topology optimization,
        Struct. Multidisc. Optim. 43, 767-784, doi:10.1007/s00158-010-0602-y, equation 9.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.photonics import projected

        rough = np.random.default_rng(1).random((20, 30))
        soft, hard = (projected(rough, 1.5, steepness) for steepness in (1.0, 100.0))
        assert (abs(hard - 0.5) >= abs(soft - 0.5) - 1e-12).all() and ((hard < 0.01) | (hard > 0.99)).mean() > 0.5
        assert ds.grad(lambda rho: projected(rho, 1.5, 4.0).sum())(rough).shape == (20, 30)
    """
    beta = positive("steepness", steepness, "begin with 1 or so")
    eta = number("threshold", threshold, "a number between 0 and 1", lambda x: 0 < x < 1, "give one such as 0.5")
    radius = number("radius", radius, "a number of at least 0", lambda x: x >= 0, "give the radius in cells")
    filtered = smooth(density, (radius,) * density.ndim) if radius else density
    return (dnp.tanh(beta * eta) + dnp.tanh(beta * (filtered - eta))) / (dnp.tanh(beta * eta) + dnp.tanh(beta * (1 - eta)))
