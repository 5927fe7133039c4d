"""The gradient of real models has the same bits under every schedule, tier, number of slots and of threads."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import Binomial, ChaosWarning, Load, Lossless, Lossy, Online, Policy, Reversible, Spilling, StoreAll, Undo
from diffsim.errors import PlanError, ReplayError, ScheduleError, ShapeError, StorageError
from tests.arches import require_vulkan
from tests.cases import CASES
from tests.sampled import sampled
from tests.simulation import chaotic

pytestmark = pytest.mark.filterwarnings("ignore::diffsim.checkpoint.growth.ChaosWarning")


@pytest.fixture(scope="module")
def model() -> ds.Simulation:
    return chaotic.simulation()


@pytest.fixture(scope="module")
def stored(model: ds.Simulation) -> str:
    return chaotic.gradient(model, StoreAll(chaotic.STEPS))


def test_the_stored_gradient_is_right(model: ds.Simulation) -> None:
    """Over few steps, before chaos drowns differences."""
    steps, rng = 12, np.random.default_rng(1)
    fields = chaotic.inputs(model, steps)
    solution, pullback = model.vjp(fields, steps, StoreAll(steps))
    weights = chaotic.cotangents(solution)
    gradient = pullback(weights)
    for _ in range(3):
        direction = {k: rng.normal(size=v.shape) for k, v in fields.items()}
        _, moved = model.jvp(fields, direction, steps)
        forward = sum((moved.final[k] * w).sum() for k, w in weights.final.items())
        forward += sum((moved.traces[k] * w).sum() for k, w in weights.traces.items())
        backward = sum((gradient[k] * d).sum() for k, d in direction.items())
        assert backward == pytest.approx(forward, rel=1e-11)


@pytest.mark.gradients
@pytest.mark.parametrize("schedule", chaotic.schedules(), ids=lambda s: f"{type(s).__name__} {getattr(s, 'slots', '')}")
def test_every_schedule_gives_the_stored_bits(schedule: object, model: ds.Simulation, stored: str, tmp_path) -> None:
    assert chaotic.gradient(model, chaotic.policy(schedule, tmp_path)) == stored
    assert not list(tmp_path.iterdir())


def test_a_forgotten_rounding_would_show(model: ds.Simulation, stored: str) -> None:
    fields = chaotic.inputs(model)
    fields["u"][3, 4] = np.nextafter(fields["u"][3, 4], 1.0)
    solution, pullback = model.vjp(fields, chaotic.STEPS)
    gradient = pullback(chaotic.cotangents(solution))
    reference = model.vjp(chaotic.inputs(model), chaotic.STEPS)[1](chaotic.cotangents(solution))
    assert not np.allclose(gradient["u"], reference["u"], rtol=1e-3)


@pytest.mark.parametrize("schedule", [Binomial(chaotic.STEPS, 5), StoreAll(chaotic.STEPS), "auto"], ids=repr)
def test_chaos_is_told(model: ds.Simulation, schedule: object) -> None:
    with pytest.warns(ChaosWarning, match="chaotic") as warned:
        chaotic.gradient(model, schedule)
    assert [w.filename for w in warned if w.category is ChaosWarning] == [chaotic.__file__]


@pytest.mark.parametrize("schedule", [StoreAll(chaotic.STEPS), "auto"], ids=repr)
def test_progress_is_told_where_all_is_stored(model: ds.Simulation, schedule: object, monkeypatch) -> None:
    monkeypatch.setattr("diffsim.checkpoint.progress.REPORT_SECONDS", 0.0)
    shares: list[float] = []
    model.vjp(chaotic.inputs(model), chaotic.STEPS, schedule, on_progress=lambda share, left: shares.append(share))[1](ds.Solution())
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len({round(share, 3) for share in shares}) > 30


def test_lossless_compression_gives_the_bits(model: ds.Simulation, stored: str, tmp_path) -> None:
    schedule = Spilling(chaotic.STEPS, 3, chaotic.DISK)
    assert chaotic.gradient(model, chaotic.policy(schedule, tmp_path, compression=Lossless())) == stored
    assert model.last_sweep.compression_error is None


def test_lossy_compression_tells_its_error(model: ds.Simulation, stored: str, tmp_path) -> None:
    schedule = Spilling(chaotic.STEPS, 3, chaotic.DISK)
    assert chaotic.gradient(model, chaotic.policy(schedule, tmp_path, compression=Lossy(1e-6))) != stored
    assert 1e-8 < model.last_sweep.compression_error <= 1e-6


def test_a_sweep_is_reported(model: ds.Simulation) -> None:
    schedule = Binomial(chaotic.STEPS, 5)
    chaotic.gradient(model, schedule)
    report = model.last_sweep
    assert report.steps == {"advance": schedule.advances, "record": 1, "undo": 0, "reverse": chaotic.STEPS}
    assert report.growth is not None
    assert report.drift is None
    assert 0 < report.guard_seconds < report.seconds


def digests(where: str, folder) -> set[str]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.simulation.chaotic", where, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return set(done.stdout.split())


@pytest.mark.slow
def test_any_number_of_threads_gives_the_same_bits(stored: str, tmp_path) -> None:
    one = digests("1", tmp_path)
    assert stored in one and len(one) == 2  # the other one is that of steps run backwards
    assert digests("2", tmp_path) == one


def test_states_of_a_gpu_go_to_slow_tiers_and_back(tmp_path) -> None:
    require_vulkan()
    assert len(digests("vulkan", tmp_path)) == 1


@pytest.mark.gpu
def test_states_of_cuda_go_to_slow_tiers_and_back(tmp_path) -> None:
    assert len(digests("cuda", tmp_path)) == 1


def test_a_corrupted_block_is_found(model: ds.Simulation, tmp_path) -> None:
    def corrupt(action: object) -> None:
        if isinstance(action, Load) and action.tier == 0:
            for file in tmp_path.iterdir():
                data = bytearray(file.read_bytes())
                data[-4096:] = bytes(4096)
                data[len(data) // 2] ^= 8
                file.write_bytes(data)

    policy = replace(chaotic.policy(Spilling(chaotic.STEPS, 3, chaotic.DISK), tmp_path), resume=3600.0)  # or its file has no name
    with pytest.raises(StorageError, match="slot"):
        chaotic.gradient(model, policy, on_action=corrupt)


def test_a_disk_that_fills_up_is_one_message(model: ds.Simulation, tmp_path, monkeypatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(StorageError, match="No space left"):
        chaotic.gradient(model, chaotic.policy(Spilling(chaotic.STEPS, 3, chaotic.DISK), tmp_path))
    monkeypatch.undo()
    assert not list(tmp_path.iterdir())
    chaotic.gradient(model, chaotic.policy(Spilling(chaotic.STEPS, 3, chaotic.DISK), tmp_path))


def test_a_step_that_is_not_deterministic_is_found(model: ds.Simulation, monkeypatch) -> None:
    """The real stepper, with a cell nudged by less than any loss would notice in each replay."""
    stepper, rng = model._stepper, np.random.default_rng(0)
    advance = stepper.advance

    def nudged(start: int, stop: int) -> None:
        advance(start, stop)
        state = stepper.state_arrays()[0]
        state[tuple(n // 2 for n in state.shape)] *= 1 + 1e-13 * rng.integers(2)

    monkeypatch.setattr(stepper, "advance", nudged)
    with pytest.raises(ReplayError):
        chaotic.gradient(model, 4)


UNDONE = [c for c in CASES if c.name.startswith(("acoustic", "staggered", "long wave"))]


@pytest.mark.parametrize("case", sampled(UNDONE, 3, ids=lambda c: c.name))
def test_steps_computed_backwards_give_the_gradient_to_rounding(case) -> None:
    rng = np.random.default_rng(3)
    model = case.simulation()
    fields = case.inputs(model, rng)
    seen: list[object] = []
    solution, pullback = model.vjp(fields, case.steps, StoreAll(case.steps))
    weights = chaotic.cotangents(solution)
    expected = pullback(weights)
    schedule = Reversible(case.steps, period=9)
    gradient = model.vjp(fields, case.steps, schedule, on_action=seen.append)[1](weights)
    for name, value in expected.items():
        np.testing.assert_allclose(gradient[name], value, rtol=1e-11, atol=1e-11 * np.abs(value).max())
    assert sum(a.stop - a.start for a in seen if isinstance(a, Undo)) > 0
    assert model.last_sweep.drift < 1e-10
    assert (model.last_sweep.drift > 0) == model._stepper.needs_primal  # else no rounding error of a state reaches the gradient


def test_a_step_that_cannot_be_undone_says_so(model: ds.Simulation) -> None:
    with pytest.raises(PlanError, match="expected a step that can be undone"):
        model.vjp(chaotic.inputs(model), chaotic.STEPS, Reversible(chaotic.STEPS, period=9))


@pytest.mark.parametrize("end", [1, 30, 37, 130])
def test_a_run_that_ends_by_a_condition_has_the_gradient_of_its_steps(model: ds.Simulation, end: int) -> None:
    fields = chaotic.inputs(model)
    solution, pullback = model.vjp(fields, chaotic.STEPS, 5, until=lambda n, states: n >= end)
    assert solution.traces["u"].shape == (end + 1, 1)
    plain = model.run(fields, chaotic.STEPS, until=lambda n, states: n >= end)
    assert plain.final["u"].tobytes() == solution.final["u"].tobytes()
    assert plain.traces["u"].tobytes() == solution.traces["u"].tobytes()
    model.vjp(fields, chaotic.STEPS, Online(5), until=lambda n, states: n >= end)
    solution, pullback = model.vjp(fields, chaotic.STEPS, 5, until=lambda n, states: n >= end)
    weights = chaotic.cotangents(solution)
    gradient = pullback(weights)
    short = {**fields, "f": fields["f"][:end]}
    expected = model.vjp(short, end, StoreAll(end))[1](weights)
    for name in ("u", "v", "a"):
        assert gradient[name].tobytes() == expected[name].tobytes()
    assert gradient["f"][:end].tobytes() == expected["f"].tobytes()
    assert not gradient["f"][end:].any()


def test_the_condition_is_asked_now_and_then(model: ds.Simulation) -> None:
    asked: list[int] = []
    model.vjp(chaotic.inputs(model), chaotic.STEPS, 5, until=lambda n, states: bool(asked.append(n)), every=20)
    assert asked == [20, 40, 60, 80, 100, 120]


def test_a_run_with_a_condition_is_differentiated_in_array_code(model: ds.Simulation) -> None:
    import diffsim.numpy as dnp

    fields = chaotic.inputs(model)

    def loss(a: object) -> object:
        return dnp.sum(model.run({**fields, "a": a}, chaotic.STEPS, until=lambda n, states: n >= 10).final["u"] ** 2)

    ds.check_grads(loss, (fields["a"],), order=1)


def test_an_offline_schedule_needs_to_know_the_end(model: ds.Simulation) -> None:
    with pytest.raises(ScheduleError, match=r"use Online\(5\)"):
        model.vjp(chaotic.inputs(model), chaotic.STEPS, Binomial(chaotic.STEPS, 5), until=lambda n, states: n > 3)


def test_second_derivatives_follow_the_schedule(model: ds.Simulation, tmp_path) -> None:
    """State and tangent are kept together, and the Hessian-vector product has the same bits whatever is kept."""
    steps, rng = 15, np.random.default_rng(2)
    fields = chaotic.inputs(model, steps)
    direction = rng.normal(size=model.grid.shape)

    def product(checkpoint: object) -> np.ndarray:
        def loss(a: object) -> object:
            return (model.run({**fields, "a": a}, steps, checkpoint=checkpoint).final["u"] ** 2).sum()

        return np.asarray(ds.hvp(loss, fields["a"], direction))

    stored = product(StoreAll(steps))
    for checkpoint in (1, 4, Online(3), Policy(schedule=Spilling(steps, 2, chaotic.DISK), folder=tmp_path)):
        assert product(checkpoint).tobytes() == stored.tobytes()


@pytest.mark.parametrize("call", ["run", "vjp"])
def test_a_condition_that_gives_an_array_is_refused(model: ds.Simulation, call: str) -> None:
    with pytest.raises(ShapeError, match=r"expected until to give one truth value, got an array of shape \(.*\); make one of it"):
        getattr(model, call)(chaotic.inputs(model), chaotic.STEPS, until=lambda n, states: states["u"] > 0)
