"""Drawn steady problems: solutions, gradients, tangents and products with the Hessian are those of dense systems in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.errors import ConvergenceError, SingularError
from tests.sampled import sampled

torch = pytest.importorskip("torch")
from tests.stepping.drawn_reference import T  # noqa: E402
from tests.stepping.drawn_steady import Problem  # noqa: E402
from tests.stepping.test_drawn_steps import ROUNDING, Comparison, derived  # noqa: E402

WORST = 1e8
"""Condition of systems that are compared to `ROUNDING`."""
SINGULAR = 1e12
"""Condition of systems that may be refused."""


def differences_of(seed: int, curvature: bool) -> list[str]:
    """Where a drawn problem and the reference differ. `curvature`: whether products with the Hessian are compared."""
    problem, comparison = Problem(seed), Comparison()
    inputs, simulation, generator = problem.inputs(), problem.simulation(), np.random.default_rng([seed, 9])
    try:
        solution = simulation.run(inputs)
    except ConvergenceError:  # it may have no solution
        return ["did not converge"] if problem.linear else []
    except SingularError:
        _, condition = problem.reference(inputs, {name: np.zeros(problem.shape) for name in problem.states})
        return [] if condition > SINGULAR else [f"refused, though its condition is {condition:.1e}"]
    leaves = {name: T(x).clone().requires_grad_() for name, x in inputs.items() if name not in problem.states}
    expected, condition = problem.reference(inputs | leaves, solution.final)
    if not condition < WORST:
        return [f"solved, though its condition is {condition:.1e}"]
    for name in problem.states:
        comparison.close(f"final {name}", solution.final[name], expected[name])
    weights = {name: generator.normal(size=problem.shape) for name in problem.states}

    def loss(namespace: Any, final: Any) -> Any:
        parts = {name: T(w) if namespace is torch else w for name, w in weights.items()}
        return sum(namespace.sum(w * final[name] + 0.5 * final[name] ** 2) for name, w in parts.items())

    slopes = derived(leaves, loss(torch, expected), further=True)
    _, gradient = simulation.value_and_grad(lambda found: loss(dnp, found.final), inputs)
    for name in leaves:
        comparison.close(f"gradient for {name}", gradient[name], slopes[name])
    dots = {name: generator.normal(size=np.shape(inputs[name])) for name in leaves}
    guess = {name: inputs[name] for name in problem.states}
    own = {name: inputs[name] for name in leaves}

    def run(own: Any) -> Any:
        return loss(dnp, simulation.run({**own, **guess}).final)

    along = sum(torch.sum(slopes[name] * T(dot)) for name, dot in dots.items())
    comparison.close("jvp", ds.jvp(run, (own,), (dots,))[1], along)
    products = ds.hvp(run, own, dots) if curvature else {}
    for name, product in (derived(leaves, along, further=False) if curvature else {}).items():
        comparison.close(f"product with the Hessian for {name}", products[name], product, 10 * ROUNDING)
    return comparison.problems


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # by torch.func at its first use
@pytest.mark.parametrize("seed", sampled(range(60), gate=(17,)))
def test_a_drawn_problem_is_that_of_dense_systems(seed: int) -> None:
    assert not differences_of(seed, curvature=seed % 2 == 0)
