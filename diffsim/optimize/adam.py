"""Adam: steps of about one length in each entry, from gradients of the whole objective or of batches of its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from diffsim.base.arguments import positive, whole
from diffsim.optimize.evaluation import Evaluator, Point
from diffsim.optimize.method import Box, Limits, Stop, all_done, zero_gradient
from diffsim.typing import Array, IntArray

FIRST, SECOND = 0.9, 0.999
"""Part of the mean of gradients, and of their squares, that an iteration keeps."""
SMALL = 1e-8
"""Least root of the mean square that divides, as a part of the largest."""


@dataclass(frozen=True)
class Batches:
    """Which parts of an objective each evaluation takes: the n-th batch is known from n alone, so a resumed run takes the same ones.

    In each epoch all parts are taken once, in an order of its own, in batches of (nearly) equal size.

    Args:
        count: number of parts, such as shots.
        size: of a batch, at most.
        seed: of the orders.

    Raises:
        ParameterError: no parts, or a size that is not between 1 and their number.

    Example:
        import diffsim as ds

        batches = ds.optimize.Batches(count=10, size=4, seed=1)
        epoch = [batches.of(number).tolist() for number in range(3)]
        assert sorted(sum(epoch, [])) == list(range(10)) and max(map(len, epoch)) == 4
    """

    count: int
    size: int
    seed: int = 0

    def __post_init__(self) -> None:
        whole("count", self.count, 1)
        whole("size", self.size, 1, self.count, "a batch has some of the parts")
        whole("seed", self.seed, 0)

    def of(self, number: int) -> IntArray:
        """The parts of an evaluation, rising; the first evaluation is 0."""
        many = -(-self.count // self.size)
        order = np.random.default_rng([self.seed, number // many]).permutation(self.count)
        return np.sort(np.array_split(order, many)[number % many])


class Adam:
    """Adam with bounds, a `method` of `minimise`: each entry moves by about `rate`, against the mean of its last gradients.

        m ← β₁ m + (1 - β₁) g,  v ← β₂ v + (1 - β₂) g²,  x ← clip(x - rate · m̂ / √v̂),  β₁ = 0.9, β₂ = 0.999

    With `batches` each evaluation takes a few parts of the objective, such as shots, which is then called as `objective(x, parts)` and
    gives an estimate of the whole value and gradient: the sum over the parts, times their number in all over the number in the batch.
    The values of the iterations are those of the batches and need not fall. It stops after its iterations.

    Args:
        rate: > 0, in units of x.
        batches: the parts of each evaluation; None: the whole objective.

    Good values: a `rate` of 0.1 where x = 1 is a change to be expected; batches of a fifth to a half of the shots.

    Reference: Kingma and Ba (2015), "Adam: a method for stochastic optimization", ICLR, arXiv:1412.6980; √v̂ is bounded below by 1e-8 of
    its largest entry here, so that the unit of the objective does not matter.

    Example:
        import numpy as np

        import diffsim as ds

        # A line through a hundred points, of which each evaluation takes ten
        x = np.linspace(-1.0, 1.0, 100)
        y = 0.5 + 2.0 * x

        def objective(unknowns, points):
            line = lambda u: 0.5 * ((u[0] + u[1] * x[points] - y[points]) ** 2).sum() * (100 / len(points))
            return ds.value_and_grad(line)(unknowns)

        method = ds.optimize.Adam(rate=0.05, batches=ds.optimize.Batches(count=100, size=10))
        found = ds.optimize.minimise(objective, np.zeros(2), method, iterations=300)
        assert np.allclose(found.x, [0.5, 2.0], atol=1e-2)
    """

    def __init__(self, rate: float = 0.1, batches: Batches | None = None) -> None:
        self._rate, self.batches = positive("rate", rate), batches

    def __call__(self, evaluate: Evaluator, start: Point, box: Box, limits: Limits, accept: Callable[[Array], None]) -> Stop:
        """Minimise from `start`, inside `box`."""
        x, mean, square = start.x, np.zeros_like(start.x), np.zeros_like(start.x)
        for number in range(1, limits.iterations + 1):
            gradient = evaluate(x).gradient
            mean = FIRST * mean + (1 - FIRST) * gradient
            square = SECOND * square + (1 - SECOND) * gradient**2
            root = np.sqrt(square / (1 - SECOND**number))
            largest = float(np.max(root))
            if largest == 0:
                return zero_gradient()
            x = np.clip(x - self._rate * mean / (1 - FIRST**number) / np.maximum(root, SMALL * largest), box.lower, box.upper)
            try:
                accept(x)
            except StopIteration:
                return Stop("callback", False, "the callback asked to stop")
        return all_done(limits)
