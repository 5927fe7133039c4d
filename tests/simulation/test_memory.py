"""The memory of a simulation: within a budget, after a shortage, and while a reverse sweep is waiting."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import diffsim as ds
from diffsim.base import buffers
from diffsim.checkpoint import Binomial, MultiTier, Policy, StoreAll, Tier
from diffsim.errors import StaleValueError
from tests.simulation import chaotic

pytestmark = pytest.mark.filterwarnings("ignore::diffsim.checkpoint.growth.ChaosWarning")
STEPS = 40
DISK = MultiTier(STEPS, (Tier("device", 2), Tier("disk", 5, 2.0, 1.0)))


def gradient(simulation: ds.Simulation, checkpoint: object, steps: int = STEPS, **options: object) -> np.ndarray:
    solution, pullback = simulation.vjp(chaotic.inputs(simulation, steps), steps, checkpoint, **options)
    return pullback(chaotic.cotangents(solution))["a"]


@pytest.fixture(scope="module")
def stored() -> bytes:
    return gradient(chaotic.simulation(), StoreAll(STEPS)).tobytes()


def test_a_later_simulation_has_the_memory_of_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "SMALLEST", 1)
    results = []
    for _ in range(2):
        model = chaotic.simulation()
        bits = gradient(model, StoreAll(STEPS)).tobytes()
        arrays = model._stepper.launcher.arrays
        results.append((bits, {arrays[name].ctypes.data for name in model._stepper.storage.rings}))
        del model, arrays
        gc.collect()
    assert results[0] == results[1]


@pytest.mark.parametrize("exact", [False, True])
def test_memory_of_arrays_that_were_exchanged_is_not_kept(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "SMALLEST", 1)
    storage = chaotic.simulation()._stepper.storage
    storage.plan(2, 3)
    storage.plan(*((1, 2) if exact else (4, 6)), exact=exact)
    assert buffers._pool.held == 0


def require_fitting(simulation: ds.Simulation) -> None:
    """Every ring has an array of as many levels."""
    for name, ring in simulation._stepper.storage.rings.items():
        assert simulation._stepper.launcher.arrays[name].shape[0] == ring.capacity


@pytest.mark.parametrize("calls_before", [0, 1, 2, 3])
def test_a_shortage_of_memory_leaves_a_simulation_that_can_be_used(
    calls_before: int, stored: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = chaotic.simulation()
    gradient(model, 3)
    launcher = model._stepper.launcher
    allocate, calls = launcher.memory.allocate, 0

    def short(*args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls > calls_before:
            raise MemoryError("no more")
        return allocate(*args, **options)

    fields = chaotic.inputs(model, STEPS)
    waiting = model.vjp(fields, STEPS, 3)[1]
    with monkeypatch.context() as patch:
        patch.setattr(launcher.memory, "allocate", short)
        with pytest.raises(MemoryError):
            model.vjp(fields, STEPS, StoreAll(STEPS)) if calls_before % 2 else model.vjp(fields, STEPS, 20)
    require_fitting(model)
    assert waiting(chaotic.cotangents(model.run(fields, STEPS)))["a"].tobytes() == gradient(model, 3).tobytes()
    assert gradient(model, 12).tobytes() == stored
    require_fitting(model)


def test_storage_that_does_not_fit_its_levels_is_refused() -> None:
    model = chaotic.simulation()
    gradient(model, 3)
    name = next(iter(model._stepper.storage.rings))
    model._stepper.launcher.allocate(name, (1, *model._stepper.layout.storage))
    with pytest.raises(StaleValueError, match="levels of storage"):
        model.run(chaotic.inputs(model, STEPS), STEPS)


def test_a_budget_holds_on_a_simulation_that_took_more_before(stored: bytes) -> None:
    model, fresh = chaotic.simulation(), chaotic.simulation()
    gradient(model, StoreAll(STEPS))
    most = model.allocated_bytes()
    sizes = model.sizes(STEPS)
    policy = Policy(memory=sizes.peak(Binomial(STEPS, 4)))
    assert gradient(model, 3).tobytes() == stored
    assert model.allocated_bytes() == most  # without a budget it is kept
    assert gradient(model, policy).tobytes() == gradient(fresh, policy).tobytes() == stored
    assert model.allocated_bytes() == fresh.allocated_bytes() < most
    arrays = dict(model._stepper.launcher.arrays)
    gradient(model, policy)
    assert all(model._stepper.launcher.arrays[name] is arrays[name] for name in model._stepper.storage.rings)


def test_two_runs_of_one_simulation_in_one_loss_share_a_folder(tmp_path: Path) -> None:
    model = chaotic.simulation()
    fields = chaotic.inputs(model, STEPS)

    def loss(a: object, checkpoint: object) -> object:
        x = model.run({**fields, "a": a}, STEPS, checkpoint=checkpoint).final["u"]
        y = model.run({**fields, "a": a * 1.001}, STEPS, checkpoint=checkpoint).final["u"]
        return (x * y).sum()

    policy = Policy(schedule=DISK, folder=tmp_path)
    on_disk, in_memory = ds.grad(loss)(fields["a"], policy), ds.grad(loss)(fields["a"], 4)
    assert np.asarray(on_disk).tobytes() == np.asarray(in_memory).tobytes()
    assert not list(tmp_path.iterdir())


USES: list[Callable[[ds.Simulation, Policy], object]] = [
    lambda model, policy: model.vjp(chaotic.inputs(model, STEPS), STEPS, policy),
    lambda model, policy: model.run(chaotic.inputs(model, STEPS), STEPS),
    lambda model, policy: model.move(sources={"f": [[3.0, 4.0]]}),
    lambda model, policy: ds.plan(model, steps=STEPS, seconds=0.02),
]


@pytest.mark.parametrize("use", USES, ids=["vjp", "run", "move", "plan"])
def test_a_reverse_sweep_that_waits_gives_up_its_files_when_it_cannot_be_run(use: Callable[..., object], tmp_path: Path) -> None:
    model = chaotic.simulation()
    policy = Policy(schedule=DISK, folder=tmp_path)  # its files have no names
    solution, waiting = model.vjp(chaotic.inputs(model, STEPS), STEPS, policy)
    held = use(model, policy)
    gradients = [waiting(chaotic.cotangents(solution))["a"] for _ in range(2)]
    if isinstance(held, tuple):
        gradients.append(held[1](chaotic.cotangents(held[0]))["a"])
    assert not list(tmp_path.iterdir())
    assert all(values.tobytes() == gradient(chaotic.simulation(), 3).tobytes() for values in gradients)


def test_simulations_without_a_folder_have_files_of_their_own(stored: bytes) -> None:
    one, two = chaotic.simulation(), chaotic.simulation()
    fields = chaotic.inputs(one, STEPS)
    pullbacks = [model.vjp(fields, STEPS, DISK) for model in (one, two)]
    for solution, pullback in pullbacks:
        assert pullback(chaotic.cotangents(solution))["a"].tobytes() == stored


def test_more_slots_than_steps_are_as_many_as_steps(stored: bytes) -> None:
    model = chaotic.simulation()
    assert gradient(model, STEPS + 7).tobytes() == stored
    assert model.schedule(10, 20) == StoreAll(10)


def test_value_and_grad_takes_what_vjp_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffsim.checkpoint.progress.REPORT_SECONDS", 0.0)
    model = chaotic.simulation()
    fields = chaotic.inputs(model, STEPS)
    actions: list[object] = []
    shares: list[float] = []

    def loss(solution: ds.Solution) -> tuple[float, ds.Solution]:
        return float((solution.final["u"] ** 2).sum()) / 2, ds.Solution(final={"u": solution.final["u"]})

    value, bars = model.value_and_grad(
        loss, fields, STEPS, 4, actions.append, lambda n, _: n >= 10, 5, on_progress=lambda share, left: shares.append(share)
    )
    expected, same = model.value_and_grad(loss, {**fields, "f": fields["f"][:10]}, 10, 4)
    assert value == expected
    assert bars["a"].tobytes() == same["a"].tobytes()
    assert actions
    assert shares[-1] == 1.0


def test_progress_of_a_run_inside_a_derivative_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffsim.checkpoint.progress.REPORT_SECONDS", 0.0)
    model = chaotic.simulation()
    fields = chaotic.inputs(model, STEPS)
    shares: list[float] = []
    policy = Policy(slots=4, progress=lambda share, left: shares.append(share))
    ds.grad(lambda a: (model.run({**fields, "a": a}, STEPS, checkpoint=policy).final["u"] ** 2).sum())(fields["a"])
    assert len(shares) > 10
    assert shares[-1] == 1.0
