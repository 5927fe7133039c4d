"""Drawn steps: runs, gradients, tangents and products with the Hessian are those of an evaluation by torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.checkpoint import Binomial
from tests.sampled import sampled

torch = pytest.importorskip("torch")
from tests.stepping.drawn_reference import T  # noqa: E402
from tests.stepping.drawn_steps import Case  # noqa: E402

ROUNDING = 1e-9
"""Relative to the largest entry, which counts as 1e-3 or more."""


def derived(leaves: Mapping[str, Any], value: Any, further: bool) -> dict[str, Any]:
    """The gradient by torch. `further`: whether it is differentiated again."""
    bars = torch.autograd.grad(value, list(leaves.values()), create_graph=further, allow_unused=True)
    return {name: torch.zeros_like(x) if bar is None else bar for (name, x), bar in zip(leaves.items(), bars, strict=True)}


class Loss:
    """Linear and quadratic terms with random weights of all states at the end and of the traces."""

    def __init__(self, case: Case) -> None:
        generator = np.random.default_rng([case.seed, 2])
        self.final = {m: generator.normal(size=np.shape(x)) for m, x in case.inputs().items() if case.kinds.get(m) == "state"}
        self.traces = generator.normal(size=(case.steps + 1, case.n_rec))

    def __call__(self, namespace: Any, final: Mapping[str, Any], traces: Any) -> Any:
        """`namespace`: diffsim.numpy or torch."""

        def term(weights: np.ndarray, x: Any) -> Any:
            return namespace.sum((T(weights) if namespace is torch else weights) * x + 0.5 * x**2)

        return sum(term(weights, final[name]) for name, weights in self.final.items()) + term(self.traces, traces)


class Comparison:
    """Collects where arrays differ."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def close(self, what: str, value: Any, expected: Any, tolerance: float = ROUNDING) -> None:
        value, expected = np.asarray(value), np.asarray(expected.detach() if hasattr(expected, "detach") else expected)
        error = np.abs(value - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-3)
        if not error < tolerance:
            self.problems.append(f"{what}: {error:.1e}")

    def equal(self, what: str, value: Any, expected: Any) -> None:
        if not np.array_equal(value, expected):
            self.problems.append(f"{what}: {np.abs(np.asarray(value) - expected).max():.1e}, expected the same bits")


def differences_of(seed: int, only: Sequence[str] | None = None, curvature: bool = True) -> list[str]:
    """Where a drawn step and the reference differ. `curvature`: whether products with the Hessian are compared."""
    case, comparison = Case(seed, only), Comparison()
    inputs, loss, simulation = case.inputs(), Loss(case), case.simulation()
    leaves = {name: T(x).clone().requires_grad_() for name, x in inputs.items()}
    expected, solution = case.reference(leaves), simulation.run(inputs, case.steps)
    for name in loss.final:
        comparison.close(f"final {name}", solution.final[name], expected["final"][name])
    comparison.close("traces", solution.traces[case.seen], expected["traces"])
    if comparison.problems:
        return comparison.problems

    def of_solution(solution: Any) -> Any:
        return loss(dnp, solution.final, solution.traces[case.seen])

    slopes = derived(leaves, loss(torch, expected["final"], expected["traces"]), further=True)
    _, gradient = simulation.value_and_grad(of_solution, inputs, case.steps)
    for name in inputs:
        comparison.close(f"gradient for {name}", gradient[name], slopes[name])
    for slots in range(1, min(3, case.steps)):
        _, again = simulation.value_and_grad(of_solution, inputs, case.steps, Binomial(case.steps, slots))
        for name in inputs:
            comparison.equal(f"gradient for {name} in {slots} slots", again[name], gradient[name])
    if not curvature:
        return comparison.problems

    def run(inputs: Any) -> Any:
        return of_solution(simulation.run(inputs, case.steps))

    generator = np.random.default_rng([seed, 3])
    dots = {name: generator.normal(size=np.shape(x)) if np.ndim(x) else float(generator.normal()) for name, x in inputs.items()}
    along = sum(torch.sum(slopes[name] * T(dot)) for name, dot in dots.items())
    comparison.close("jvp", ds.jvp(run, (inputs,), (dots,))[1], along)
    products, expected_products = ds.hvp(run, inputs, dots), derived(leaves, along, further=False)
    for name in inputs:
        comparison.close(f"product with the Hessian for {name}", products[name], expected_products[name], 10 * ROUNDING)
    return comparison.problems


@pytest.mark.filterwarnings("ignore::diffsim.errors.LongStepWarning")
@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # by torch.func at its first use
@pytest.mark.parametrize("seed", sampled(range(60), gate=(3,)))
def test_a_drawn_step_is_that_of_torch(seed: int) -> None:
    assert not differences_of(seed, curvature=seed % 2 == 0)
