"""What a simulation holds: within a budget, after a shortage, and while a reverse sweep is waiting."""

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
    found = []
    for _ in range(2):
        made = chaotic.simulation()
        bits = gradient(made, StoreAll(STEPS)).tobytes()
        arrays = made._stepper.launcher.arrays
        found.append((bits, {arrays[name].ctypes.data for name in made._stepper.storage.rings}))
        del made, arrays
        gc.collect()
    assert found[0] == found[1]


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
    made = chaotic.simulation()
    gradient(made, 3)
    launcher = made._stepper.launcher
    allocate, calls = launcher.memory.allocate, 0

    def short(*args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls > calls_before:
            raise MemoryError("no more")
        return allocate(*args, **options)

    given = chaotic.inputs(made, STEPS)
    waiting = made.vjp(given, STEPS, 3)[1]
    with monkeypatch.context() as patch:
        patch.setattr(launcher.memory, "allocate", short)
        with pytest.raises(MemoryError):
            made.vjp(given, STEPS, StoreAll(STEPS)) if calls_before % 2 else made.vjp(given, STEPS, 20)
    require_fitting(made)
    assert waiting(chaotic.cotangents(made.run(given, STEPS)))["a"].tobytes() == gradient(made, 3).tobytes()
    assert gradient(made, 12).tobytes() == stored
    require_fitting(made)


def test_storage_that_does_not_fit_its_levels_is_refused() -> None:
    made = chaotic.simulation()
    gradient(made, 3)
    name = next(iter(made._stepper.storage.rings))
    made._stepper.launcher.allocate(name, (1, *made._stepper.layout.storage))
    with pytest.raises(StaleValueError, match="levels of storage"):
        made.run(chaotic.inputs(made, STEPS), STEPS)


def test_a_budget_holds_on_a_simulation_that_took_more_before(stored: bytes) -> None:
    made, fresh = chaotic.simulation(), chaotic.simulation()
    gradient(made, StoreAll(STEPS))
    most = made.allocated_bytes()
    sizes = made.sizes(STEPS)
    policy = Policy(memory=sizes.peak(Binomial(STEPS, 4)))
    assert gradient(made, 3).tobytes() == stored
    assert made.allocated_bytes() == most  # without a budget it is kept
    assert gradient(made, policy).tobytes() == gradient(fresh, policy).tobytes() == stored
    assert made.allocated_bytes() == fresh.allocated_bytes() < most
    arrays = dict(made._stepper.launcher.arrays)
    gradient(made, policy)
    assert all(made._stepper.launcher.arrays[name] is arrays[name] for name in made._stepper.storage.rings)


def test_two_runs_of_one_simulation_in_one_loss_share_a_folder(tmp_path: Path) -> None:
    made = chaotic.simulation()
    given = chaotic.inputs(made, STEPS)

    def loss(a: object, checkpoint: object) -> object:
        x = made.run({**given, "a": a}, STEPS, checkpoint=checkpoint).final["u"]
        y = made.run({**given, "a": a * 1.001}, STEPS, checkpoint=checkpoint).final["u"]
        return (x * y).sum()

    policy = Policy(schedule=DISK, folder=tmp_path)
    on_disk, in_memory = ds.grad(loss)(given["a"], policy), ds.grad(loss)(given["a"], 4)
    assert np.asarray(on_disk).tobytes() == np.asarray(in_memory).tobytes()
    assert not list(tmp_path.iterdir())


USES: list[Callable[[ds.Simulation, Policy], object]] = [
    lambda made, policy: made.vjp(chaotic.inputs(made, STEPS), STEPS, policy),
    lambda made, policy: made.run(chaotic.inputs(made, STEPS), STEPS),
    lambda made, policy: made.move(sources={"f": [[3.0, 4.0]]}),
    lambda made, policy: ds.plan(made, steps=STEPS, seconds=0.02),
]


@pytest.mark.parametrize("use", USES, ids=["vjp", "run", "move", "plan"])
def test_a_reverse_sweep_that_waits_gives_up_its_files_when_it_cannot_be_run(use: Callable[..., object], tmp_path: Path) -> None:
    made = chaotic.simulation()
    policy = Policy(schedule=DISK, folder=tmp_path)  # its files have no names
    solution, waiting = made.vjp(chaotic.inputs(made, STEPS), STEPS, policy)
    held = use(made, policy)
    found = [waiting(chaotic.cotangents(solution))["a"] for _ in range(2)]
    if isinstance(held, tuple):
        found.append(held[1](chaotic.cotangents(held[0]))["a"])
    assert not list(tmp_path.iterdir())
    assert all(values.tobytes() == gradient(chaotic.simulation(), 3).tobytes() for values in found)


def test_simulations_without_a_folder_have_files_of_their_own(stored: bytes) -> None:
    one, two = chaotic.simulation(), chaotic.simulation()
    given = chaotic.inputs(one, STEPS)
    pullbacks = [made.vjp(given, STEPS, DISK) for made in (one, two)]
    for solution, pullback in pullbacks:
        assert pullback(chaotic.cotangents(solution))["a"].tobytes() == stored


def test_more_slots_than_steps_are_as_many_as_steps(stored: bytes) -> None:
    made = chaotic.simulation()
    assert gradient(made, STEPS + 7).tobytes() == stored
    assert made.schedule(10, 20) == StoreAll(10)


def test_value_and_grad_takes_what_vjp_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffsim.checkpoint.progress.TELL_SECONDS", 0.0)
    made = chaotic.simulation()
    given = chaotic.inputs(made, STEPS)
    actions: list[object] = []
    told: list[float] = []

    def loss(solution: ds.Solution) -> tuple[float, ds.Solution]:
        return float((solution.final["u"] ** 2).sum()) / 2, ds.Solution(final={"u": solution.final["u"]})

    value, found = made.value_and_grad(
        loss, given, STEPS, 4, actions.append, lambda n, _: n >= 10, 5, on_progress=lambda share, left: told.append(share)
    )
    expected, same = made.value_and_grad(loss, {**given, "f": given["f"][:10]}, 10, 4)
    assert value == expected
    assert found["a"].tobytes() == same["a"].tobytes()
    assert actions
    assert told[-1] == 1.0


def test_progress_of_a_run_inside_a_derivative_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffsim.checkpoint.progress.TELL_SECONDS", 0.0)
    made = chaotic.simulation()
    given = chaotic.inputs(made, STEPS)
    told: list[float] = []
    policy = Policy(slots=4, progress=lambda share, left: told.append(share))
    ds.grad(lambda a: (made.run({**given, "a": a}, STEPS, checkpoint=policy).final["u"] ** 2).sum())(given["a"])
    assert len(told) > 10
    assert told[-1] == 1.0
