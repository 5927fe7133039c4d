"""Simulations in torch: gradients are those of the simulation, and memory is shared where nobody else writes to it."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError
from diffsim.simulation.exported import ExportedRun
from tests.bridges.transforms import energy
from tests.bridges.tube import STEPS, cotangents_of, inputs_of, tube

torch = pytest.importorskip("torch")
bridge = pytest.importorskip("diffsim.torch")

ROUNDOFF = 1e-12
"""Relative, f64."""


@pytest.fixture(scope="module")
def simulation() -> ds.Simulation:
    return tube()


def tensors_of(inputs: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: torch.from_numpy(value.copy()).requires_grad_() for name, value in inputs.items()}


def paired(solution: ds.Solution, cotangents: ds.Solution) -> Any:
    """The sum of products of values and cotangents."""
    pairs = [(part[name], bars[name]) for part, bars in ((getattr(solution, w), getattr(cotangents, w)) for w in PARTS) for name in part]
    return sum((value * torch.from_numpy(bar)).sum() for value, bar in pairs)


PARTS = ("final", "traces")


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("checkpoint", ["auto", 2])
def test_gradients_are_those_of_the_simulation(precision: str, checkpoint: Any) -> None:
    simulation = tube(precision)
    inputs = inputs_of(simulation)
    solution, pullback = simulation.vjp(inputs, STEPS)
    cotangents = cotangents_of(solution)
    wanted = pullback(cotangents)
    tensors = tensors_of(inputs)
    result = bridge.run(simulation, tensors, STEPS, checkpoint)
    for part in PARTS:
        for name, value in getattr(solution, part).items():
            assert np.array_equal(getattr(result, part)[name].detach().numpy(), value)
    paired(result, cotangents).backward()
    assert all(np.array_equal(tensors[name].grad.numpy(), wanted[name]) for name in wanted)
    report = simulation.last_sweep
    assert report is not None and (report.steps["advance"] > 0) == (checkpoint == 2)  # few states are kept, others computed again


def test_gradcheck(simulation: ds.Simulation) -> None:
    tensors = tensors_of(inputs_of(simulation))
    names = list(tensors)

    def values(*args: Any) -> Any:
        solution = bridge.run(simulation, dict(zip(names, args, strict=True)), STEPS)
        return solution.final["p"], solution.traces["p"]

    args = [tensors[name] for name in names]
    assert torch.autograd.gradcheck(values, args, fast_mode=True)
    assert torch.autograd.gradgradcheck(values, args, fast_mode=True)


@pytest.mark.slow
def test_third_derivatives_are_right(simulation: ds.Simulation) -> None:
    inputs = inputs_of(simulation)
    v = torch.from_numpy(np.random.default_rng(2).standard_normal(9))

    def curvature(c: Any) -> Any:
        loss = lambda x: energy(bridge.run(simulation, {**inputs, "c": x}, STEPS))  # noqa: E731
        return (torch.autograd.functional.hvp(loss, c, v, create_graph=True)[1] * v).sum()

    c = torch.from_numpy(inputs["c"]).requires_grad_()
    (third,) = torch.autograd.grad(curvature(c), c)
    h = 1e-2
    moved = (curvature(c + h * v) - curvature(c - h * v)) / (2 * h)
    assert abs((third @ v) / moved - 1) < 1e-6


def test_several_shots_in_one_graph(simulation: ds.Simulation) -> None:
    """One simulation, whose sources and receivers move between runs, and whose storage every run takes over."""
    simulation = tube()
    inputs = inputs_of(simulation)
    c = torch.from_numpy(inputs["c"].copy()).requires_grad_()
    total, wanted = torch.zeros((), dtype=torch.float64), np.zeros(c.shape)
    for place in (20.0, 33.0, 61.0):
        simulation.move(sources={"f": [[place]]}, receivers={"p": [[place / 2]]})
        total = total + energy(bridge.run(simulation, {**inputs, "c": c}, STEPS, checkpoint=3))
        loss = lambda solution: (solution.traces["p"] ** 2).sum() + (solution.final["p"] ** 3).sum()  # noqa: E731
        wanted += simulation.value_and_grad(loss, inputs, STEPS)[1]["c"]
    total.backward()
    np.testing.assert_allclose(c.grad.numpy(), wanted, rtol=ROUNDOFF, atol=ROUNDOFF * abs(wanted).max())


def test_threads_share_a_simulation(simulation: ds.Simulation) -> None:
    def gradient(seed: int) -> Any:
        tensors = tensors_of(inputs_of(simulation, seed))
        energy(bridge.run(simulation, tensors, STEPS)).backward()
        return tensors["c"].grad

    wanted = [gradient(seed) for seed in range(6)]
    with ThreadPoolExecutor(4) as pool:
        gradients = list(pool.map(gradient, range(6)))
    assert all(torch.equal(a, b) for a, b in zip(gradients, wanted, strict=True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_workers_of_a_data_loader_have_simulations() -> None:
    from tests.bridges.shots import Shots

    shots = Shots()
    loader = torch.utils.data.DataLoader(shots, batch_size=None, num_workers=1, multiprocessing_context="spawn")
    for (trace, gradient), number in zip(loader, range(3), strict=True):
        assert torch.equal(trace, shots[number][0]) and torch.equal(gradient, shots[number][1])


# memory


def test_tensors_share_memory_with_arrays(simulation: ds.Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """No copy stands between a tensor and the run, in both directions."""
    seen: dict[str, Any] = {}
    with_pullback = ExportedRun.with_pullback

    def watched(self: Any, *args: np.ndarray) -> Any:
        values, pull = with_pullback(self, *args)
        seen.update(args=args, values=values)

        def pulled(cotangents: Any) -> Any:
            seen.update(bars=pull(cotangents))
            return seen["bars"]

        return values, pulled

    monkeypatch.setattr(ExportedRun, "with_pullback", watched)
    tensors = tensors_of(inputs_of(simulation))
    solution = bridge.run(simulation, tensors, STEPS)
    addresses = [tensors[name].data_ptr() for name in tensors]
    assert [a.ctypes.data for a in seen["args"]] == addresses
    results = [*solution.final.values(), *solution.traces.values()]
    assert [v.ctypes.data for v in seen["values"]] == [t.data_ptr() for t in results]
    energy(solution).backward()
    assert tensors["c"].grad.data_ptr() == seen["bars"][list(tensors).index("c")].ctypes.data


def test_results_and_gradients_stay_the_same(simulation: ds.Simulation) -> None:
    """Later runs use the storage again, and torch adds to gradients in place."""
    tensors = tensors_of(inputs_of(simulation))
    solution = bridge.run(simulation, tensors, STEPS)
    energy(solution).backward()
    everything = [*solution.final.values(), *solution.traces.values(), *(t.grad for t in tensors.values())]
    kept = [t.detach().clone() for t in everything]
    other = tensors_of(inputs_of(simulation, 3))
    energy(bridge.run(simulation, other, STEPS)).backward()
    assert all(torch.equal(a, b) for a, b in zip(everything, kept, strict=True))
    energy(bridge.run(simulation, tensors, STEPS)).backward()
    assert all(torch.equal(t.grad, 2 * b) for t, b in zip(tensors.values(), kept[-len(tensors) :], strict=True))


def test_an_edit_of_results_before_the_backward_pass_changes_nothing(simulation: ds.Simulation) -> None:
    wanted, edited = tensors_of(inputs_of(simulation)), tensors_of(inputs_of(simulation))
    (3 * bridge.run(simulation, wanted, STEPS).final["p"]).sum().backward()
    (bridge.run(simulation, edited, STEPS).final["p"].mul_(3)).sum().backward()
    assert all(torch.equal(edited[name].grad, wanted[name].grad) for name in edited)


def test_an_edit_of_an_input_before_the_backward_pass_is_noticed(simulation: ds.Simulation) -> None:
    tensors = tensors_of(inputs_of(simulation))
    loss = energy(bridge.run(simulation, tensors, STEPS))
    with torch.no_grad():
        tensors["c"].mul_(0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_states_are_freed_after_the_backward_pass(simulation: ds.Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the loss is kept, as in lists of losses."""
    pulls: list[Any] = []
    with_pullback = ExportedRun.with_pullback

    def watched(self: Any, *args: np.ndarray) -> Any:
        values, pull = with_pullback(self, *args)
        pulls.append(weakref.ref(pull))
        return values, pull

    monkeypatch.setattr(ExportedRun, "with_pullback", watched)
    loss = energy(bridge.run(simulation, tensors_of(inputs_of(simulation)), STEPS))
    loss.backward(retain_graph=True)
    assert pulls[0]() is not None
    loss.backward()
    gc.collect()
    assert pulls[0]() is None


def test_without_gradients_nothing_is_kept(simulation: ds.Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExportedRun, "with_pullback", None)
    tensors = tensors_of(inputs_of(simulation))
    assert not bridge.run(simulation, {name: t.detach() for name, t in tensors.items()}, STEPS).final["p"].requires_grad
    with torch.no_grad():
        assert not bridge.run(simulation, tensors, STEPS).final["p"].requires_grad


# the module


def test_a_module_has_inputs_as_parameters_and_buffers(simulation: ds.Simulation) -> None:
    inputs = inputs_of(simulation)
    c = torch.nn.Parameter(torch.from_numpy(inputs["c"].copy()))
    fields = {"c": c, **{name: inputs[name] for name in ("f", "piston")}}
    layer = bridge.Module(simulation, STEPS, fields, checkpoint=3)
    assert [name for name, _ in layer.named_parameters()] == ["input_c"]
    assert {name for name, _ in layer.named_buffers()} == {"input_f", "input_piston"}
    wanted = simulation.run({name: inputs[name] for name in (*fields, "p")}, STEPS).traces["p"]
    assert np.array_equal(layer(p=inputs["p"]).traces["p"].detach().numpy(), wanted)
    inputs["f"][...] = 0.0  # the buffers are the module's own
    again = [pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer), bridge.Module(simulation, STEPS, fields)]
    again[2].load_state_dict(layer.state_dict())
    for other in again:
        assert np.array_equal(other(p=inputs["p"]).traces["p"].detach().numpy(), wanted)
    optimiser = torch.optim.SGD(layer.parameters(), lr=1.0)
    energy(layer(p=inputs["p"])).backward()
    before = c.detach().clone()
    optimiser.step()
    assert torch.equal(c.detach(), before - c.grad) and c.grad.abs().max() > 0
    assert "Acoustic, steps=12, checkpoint=3" in repr(layer)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"c": torch.ones(9, dtype=torch.float32)}, r"input c has the type float32, expected float64.*\.to\(torch\.float64\)"),
        ({"c": torch.ones(9, dtype=torch.float64, device="meta")}, r"on the device meta.*\.cpu\(\)"),
        ({"c": torch.eye(9, dtype=torch.float64).to_sparse()}, r"layout torch\.sparse_coo.*\.to_dense\(\)"),
        ({"f": torch.ones((STEPS, 1), dtype=torch.float64, requires_grad=True)}, r"input f requires a gradient.*\.detach\(\)"),
        ({"speed": 3.0}, "inputs names speed"),
        ({"c": torch.ones(8, dtype=torch.float64)}, r"input c has shape \(8,\), expected \(9,\)"),
    ],
)
def test_wrong_tensors_are_refused(change: dict[str, Any], text: str) -> None:
    simulation = tube(wrt=("c", "p"))
    inputs = tensors_of({name: value for name, value in inputs_of(simulation).items() if name in ("c", "p")})
    rest = {name: value for name, value in inputs_of(simulation).items() if name not in inputs}
    with pytest.raises(ValueError, match=text) as raised:
        bridge.run(simulation, {**rest, **inputs, **change}, STEPS)
    assert isinstance(raised.value, ds.DiffsimError)


OF_TORCH = "ignore:.*torch.jit.script. is deprecated:DeprecationWarning"
"""Warnings of torch about its own modules when it first traces or has a dual tensor."""


@pytest.mark.filterwarnings(OF_TORCH, "ignore:The .grad attribute of a Tensor:UserWarning")
def test_compile_leaves_a_run_as_it_is(simulation: ds.Simulation) -> None:
    """Dynamo traces the code around it, and not the solver, so this compiles two small graphs."""
    inputs, graphs = inputs_of(simulation), []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def loss(c: Any) -> Any:
        return energy(bridge.run(simulation, {**inputs, "c": c.sin() + c}, STEPS))

    c = torch.from_numpy(inputs["c"].copy()).requires_grad_()
    (wanted,) = torch.autograd.grad(loss(c), c)
    (gradient,) = torch.autograd.grad(torch.compile(loss, backend=backend)(c), c)
    assert torch.equal(gradient, wanted) and 1 <= len(graphs) <= 2


def test_a_module_keeps_the_type_of_its_simulation(simulation: ds.Simulation) -> None:
    f32 = tube("f32")
    network = torch.nn.Sequential(torch.nn.Linear(2, 2), bridge.Module(f32, STEPS, inputs_of(f32)))
    with pytest.raises(ParameterError, match=r"converts its inputs to float64, expected float32, .*; convert the other modules alone"):
        network.double()
    assert network.float()[1]().final["p"].dtype == torch.float32
    module = bridge.Module(simulation, STEPS, inputs_of(simulation))
    assert module.double() is module
    with pytest.raises(ParameterError, match="converts its inputs to bfloat16, expected float64"):
        module.bfloat16()


def test_a_batch_is_refused(simulation: ds.Simulation) -> None:
    batch = ds.Batch(simulation, 2)
    for call in (lambda: bridge.run(batch, {}, STEPS), lambda: bridge.Module(batch, STEPS)):
        with pytest.raises(ParameterError, match=r"is a diffsim\.Batch, expected a diffsim\.Simulation, .*give the simulation of one run"):
            call()


def test_a_wrong_simulation_is_refused() -> None:
    for call in (lambda: bridge.run(None, {}, STEPS), lambda: bridge.Module(None, STEPS)):
        with pytest.raises(ParameterError, match=r"expected a diffsim\.Simulation"):
            call()
