"""Forward mode, `torch.func` and `torch.vmap` of runs: derivatives are those of diffsim, and runs of a batch are one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from diffsim.errors import ParameterError
from diffsim.simulation.gradients import gradient as gradients
from diffsim.simulation.gradients import taped
from diffsim.simulation.prepared import forward
from tests.bridges.transforms import Problem, calls_of, close, energy
from tests.bridges.tube import STEPS, inputs_of, rod, tube

torch = pytest.importorskip("torch")
bridge = pytest.importorskip("diffsim.torch")
operation = pytest.importorskip("diffsim.torch.operation")
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated:DeprecationWarning")  # torch, of its own modules


def dual(f: Any, x: Any, v: Any) -> Any:
    with torch.autograd.forward_ad.dual_level():
        return torch.autograd.forward_ad.unpack_dual(f(torch.autograd.forward_ad.make_dual(x, v))).tangent


def gradient_of_sum(f: Any, rows: Any) -> Any:
    leaf = rows.clone().requires_grad_()
    torch.vmap(f)(leaf).sum().backward()
    return leaf.grad


CASES: dict[str, tuple[str, Callable[[Any, Any, Any, Any], Any]]] = {
    "jvp": ("slope", lambda f, x, v, rows: torch.func.jvp(f, (x,), (v,))[1]),
    "dual numbers": ("slope", lambda f, x, v, rows: dual(f, x, v)),
    "grad": ("gradient", lambda f, x, v, rows: torch.func.grad(f)(x)),
    "jacrev": ("gradient", lambda f, x, v, rows: torch.func.jacrev(f)(x)),
    "jacfwd": ("gradient", lambda f, x, v, rows: torch.func.jacfwd(f)(x)),
    "jvp of grad": ("product", lambda f, x, v, rows: torch.func.jvp(torch.func.grad(f), (x,), (v,))[1]),
    "grad of jvp": ("product", lambda f, x, v, rows: torch.func.grad(lambda y: torch.func.jvp(f, (y,), (v,))[1])(x)),
    "hessian": ("hessian", lambda f, x, v, rows: torch.func.hessian(f)(x)),
    "jacrev of jacrev": ("hessian", lambda f, x, v, rows: torch.func.jacrev(torch.func.jacrev(f))(x)),
    "jacfwd of jacfwd": ("hessian", lambda f, x, v, rows: torch.func.jacfwd(torch.func.jacfwd(f))(x)),
    "vmap": ("values", lambda f, x, v, rows: torch.vmap(f)(rows)),
    "vmap along the last axis": ("values", lambda f, x, v, rows: torch.vmap(f, in_dims=1)(rows.T.contiguous())),
    "vmap in pieces": ("values", lambda f, x, v, rows: torch.vmap(f, chunk_size=2)(rows)),
    "vmap of vmap": ("values", lambda f, x, v, rows: torch.vmap(torch.vmap(f))(rows[None])[0]),
    "vmap of grad": ("gradients", lambda f, x, v, rows: torch.vmap(torch.func.grad(f))(rows)),
    "grad of vmap": ("gradients", lambda f, x, v, rows: torch.func.grad(lambda y: torch.vmap(f)(y).sum())(rows)),
    "backward of vmap": ("gradients", lambda f, x, v, rows: gradient_of_sum(f, rows)),
    "vmap of jvp": ("slopes", lambda f, x, v, rows: torch.vmap(lambda y: torch.func.jvp(f, (y,), (v,))[1])(rows)),
    "jvp of vmap": (
        "slopes",
        lambda f, x, v, rows: torch.func.jvp(torch.vmap(f), (rows,), (v.expand(rows.shape),))[1],
    ),
    "vmap of products": (
        "products",
        lambda f, x, v, rows: torch.vmap(lambda y: torch.func.jvp(torch.func.grad(f), (y,), (v,))[1])(rows),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_transform_gives_the_derivative_of_the_simulation(problem: Problem, case: str) -> None:
    what, transform = CASES[case]
    x, v, rows = (torch.from_numpy(part.copy()) for part in (problem.x, problem.v, problem.rows))
    assert close(transform(problem.loss_by(bridge), x, v, rows), problem.wanted(what))


def test_a_tangent_is_that_of_the_simulation_bit_for_bit(problem: Problem) -> None:

    def tangent(f: Any, *parts: Any) -> Any:
        tensors, moved = ({name: torch.from_numpy(each.copy()) for name, each in part.items()} for part in parts)
        return torch.func.jvp(f, (tensors,), (moved,))

    problem.require_same_tangent(bridge, tangent)


def test_a_tangent_agrees_with_differences(problem: Problem) -> None:
    x, v = torch.from_numpy(problem.x.copy()), torch.from_numpy(problem.v.copy())
    f, h = problem.loss_by(bridge), 1e-4
    (slope,) = (torch.func.jvp(f, (x,), (v,))[1],)
    assert abs(slope / ((f(x + h * v) - f(x - h * v)) / (2 * h)) - 1) < 1e-6


def test_shots_are_one_call_and_have_the_bits_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = rod()
    inputs = inputs_of(simulation)
    shots = torch.from_numpy(np.random.default_rng(4).standard_normal((3, *inputs["q"].shape)))

    def traces(q: Any) -> Any:
        return bridge.run(simulation, {**inputs, "q": q}, STEPS).traces["T"]

    runs = calls_of(monkeypatch)
    together = torch.vmap(traces)(shots)
    assert runs == [3] and torch.equal(together, torch.stack([traces(q) for q in shots]))
    simulation.move(sources={"q": [[20.0], [64.0]]}, receivers={"T": [[33.0], [47.0]]})  # the runs of a batch move too
    assert torch.equal(torch.vmap(traces)(shots), torch.stack([traces(q) for q in shots])) and runs == [3, 3]
    kappa = torch.from_numpy(inputs["kappa"].copy()).requires_grad_()  # one for all shots

    def energy_of(kappa: Any, q: Any) -> Any:
        return energy(bridge.run(simulation, {**inputs, "kappa": kappa, "q": q}, STEPS))

    torch.vmap(energy_of, (None, 0))(kappa, shots).sum().backward()
    (wanted,) = torch.autograd.grad(sum(energy_of(kappa, q) for q in shots), kappa)
    assert close(kappa.grad, wanted.numpy())


def test_large_batches_are_computed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = rod()
    inputs = inputs_of(simulation)
    rows = torch.from_numpy(np.stack([inputs["T"] * k for k in range(5)]))
    runs = calls_of(monkeypatch)
    monkeypatch.setattr(operation, "TOGETHER", 2 * inputs["q"].size)  # of the largest argument
    results = torch.vmap(lambda T: bridge.run(simulation, {**inputs, "T": T}, STEPS).final["T"])(rows)
    assert runs == [2, 2]  # and one run alone
    assert torch.equal(results, torch.stack([bridge.run(simulation, {**inputs, "T": row}, STEPS).final["T"] for row in rows]))


@pytest.mark.parametrize("several", [False, True])
def test_a_gradient_of_func_runs_forward_once(several: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(rod(), "kappa")
    gradient = torch.func.grad(problem.loss_by(bridge))
    x = torch.from_numpy(problem.rows.copy() if several else problem.x.copy())
    runs: list[str] = []
    for module, name in ((forward, "run_forward"), (gradients, "run_reversibly"), (taped, "run_reversibly"), (taped, "run_forward")):
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, name=name, function=function: (runs.append(name), function(*args))[1])
    (torch.vmap(gradient) if several else gradient)(x)
    assert runs == ["run_reversibly"]


def test_a_derivative_that_the_simulation_has_not_is_refused() -> None:
    simulation = tube(wrt=("c",))
    inputs = inputs_of(simulation)
    f = torch.from_numpy(inputs["f"].copy())

    def loss(f: Any) -> Any:
        return energy(bridge.run(simulation, {**inputs, "f": f}, STEPS))

    for transform in (torch.func.grad(loss), torch.func.jacrev(loss), torch.vmap(torch.func.grad(loss))):
        with pytest.raises(ParameterError, match=r"input f requires a gradient, expected one of c"):
            transform(f if transform.__name__ != "wrapped" else f[None])
    wanted = simulation.jvp(inputs, {"f": inputs["f"]}, STEPS)[1].final["p"]  # a tangent needs no adjoint
    tangent = torch.func.jvp(lambda f: bridge.run(simulation, {**inputs, "f": f}, STEPS).final["p"], (f,), (f,))[1]
    assert np.array_equal(tangent, wanted)


def test_batched_cotangents_of_autograd_are_refused() -> None:
    problem = Problem(rod(), "kappa")
    x = torch.from_numpy(problem.x.copy()).requires_grad_()
    final = bridge.run(problem.simulation, {**problem.inputs, "kappa": x}, STEPS).final["T"]
    with pytest.raises(ParameterError, match=r"is_grads_batched .*expected False.*; take torch\.func\.vmap"):
        torch.autograd.grad(final, x, torch.eye(9, dtype=torch.float64), is_grads_batched=True)
