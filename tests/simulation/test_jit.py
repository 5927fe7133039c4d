"""Recorded losses of simulations: the bits of plain calls, their refusals, and few functions of Python a call."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.checkpoint import ChaosWarning
from diffsim.simulation.gradients.direct import Direct

from .test_small import Lorenz96, calls_of

rng = np.random.default_rng(0)


def direct_runs(fast: Any) -> list[Direct]:
    """The prepared runs of the newest recording of a function."""
    program = fast._function.entries[0].program
    assert program is not None
    return [thing for thing in program._source.names.values() if isinstance(thing, Direct)]


def bits(tree: Any) -> Any:
    if isinstance(tree, ds.Solution):
        return bits(tree.final), bits(tree.traces)
    if isinstance(tree, dict):
        return {name: bits(value) for name, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        return [bits(value) for value in tree]
    return np.asarray(tree).dtype, np.shape(tree), np.asarray(tree).tobytes()


@functools.cache
def lorenz() -> ds.Simulation:
    return ds.Simulation(Lorenz96(12, dt=0.002), receivers={"x": [[3.0], [4.5]]}, precision="f64")


@functools.cache
def rod() -> ds.Simulation:
    heat = ds.solvers.Heat(ds.Grid((10,), spacing=0.1), dt=0.1)
    return ds.Simulation(heat, sources={"q": [[0.35]]}, receivers={"T": [[0.5]]}, wrt=["T", "q"], precision="f64")


INPUTS: dict[str, Any] = {"x": rng.normal(size=12), "F": 2.0, "T": rng.normal(size=10), "q": rng.normal(size=(7, 1))}
OPERATIONS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: (a**2).sum() * b,
    lambda a, b: dnp.sum(dnp.abs(a - 0.1)) + dnp.sin(b),
    lambda a, b: dnp.max(a) - dnp.exp(-b * b),
    lambda a, b: dnp.sum(a[1:] * a[:-1]) + b,
    lambda a, b: dnp.sqrt(1 + dnp.mean(a) ** 2 + b**2),
    lambda a, b: dnp.where(a > 0, a, 0.1 * a).sum() - b**3,
    lambda a, b: dnp.dot(dnp.cumsum(a), dnp.concatenate([a[3:], a[:3]])) / (1 + b**2),
)


def member(seed: int) -> Callable[[dict[str, Any]], Any]:
    """A random loss of one or two simulations, with more results beside its value."""
    random = np.random.default_rng(seed)
    steps, first, second = int(random.integers(3, 20)), *random.choice(len(OPERATIONS), 2, replace=False)
    both, traced = bool(random.integers(2)), bool(random.integers(2))
    weight = random.normal(size=12)

    def loss(inputs: dict[str, Any]) -> Any:
        solution = lorenz().run({"x": inputs["x"], "F": inputs["F"]}, steps)
        out = OPERATIONS[first](weight * solution.final["x"], inputs["F"])
        if traced:
            out = out + OPERATIONS[second](solution.traces["x"].reshape(-1), out)
        if both:
            bar = rod().run({"kappa": np.full(10, 0.01), "T": inputs["T"] * out, "q": inputs["q"]}, 7)
            out = out + OPERATIONS[second](bar.final["T"], bar.traces["T"][3, 0])
        return out, {"state": solution.final["x"], "double": 2 * out}

    return loss


def moved(seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {name: value * random.uniform(0.9, 1.1) for name, value in INPUTS.items()}


@pytest.mark.parametrize("seed", range(6))
def test_random_losses_are_replayed_with_their_bits(seed: int) -> None:
    plain = ds.value_and_grad(member(seed), has_aux=True)
    fast = ds.jit(plain)
    for k in range(4):
        inputs = moved(10 * seed + k)
        assert bits(fast(inputs)) == bits(plain(inputs))
    assert all(run._bindings >= 0 for run in direct_runs(fast))


@pytest.mark.slow
def test_many_random_losses() -> None:
    for seed in range(100, 200):
        test_random_losses_are_replayed_with_their_bits(seed)


def simple(inputs: dict[str, Any]) -> Any:
    return (lorenz().run({"x": inputs["x"], "F": inputs["F"]}, 10).final["x"] ** 2).sum()


@pytest.mark.parametrize("checkpoint", ["auto", 4])
def test_runs_tangents_and_gradients_of_all_kinds(checkpoint: Any) -> None:
    along = moved(3)

    def some(inputs: dict[str, Any]) -> dict[str, Any]:
        return {name: inputs[name] for name in ("x", "F")}

    def loss(inputs: dict[str, Any]) -> Any:
        return (lorenz().run(some(inputs), 10, checkpoint=checkpoint).final["x"] ** 2).sum()

    calls: list[Callable[[dict[str, Any]], Any]] = [
        lambda inputs: lorenz().run(some(inputs), 10),
        lambda inputs: lorenz().jvp(some(inputs), some(along), 10),
        ds.grad(loss),
        lambda inputs: ds.hvp(loss, some(inputs), some(along)),
        lambda inputs: lorenz().value_and_grad(lambda solution: (solution.traces["x"] ** 2).sum(), some(inputs), 10, checkpoint=checkpoint),
    ]
    for call in calls:
        fast = ds.jit(call)
        for k in range(3):
            assert bits(fast(moved(k))) == bits(call(moved(k)))
        assert direct_runs(fast), "a plain call"


def test_other_uses_of_the_simulation_between_change_no_bit() -> None:
    simulation = ds.Simulation(Lorenz96(12, dt=0.002), receivers={"x": [[3.0]]}, precision="f64")

    def loss(x: Any) -> Any:
        first = simulation.run({"x": x, "F": 2.0}, 10)
        second = simulation.run({"x": 2 * x, "F": 1.0}, 10)  # the pullback of the first repeats its run
        return (first.final["x"] ** 2).sum() + (second.traces["x"] ** 3).sum()

    plain = ds.value_and_grad(loss)
    fast = ds.jit(plain)
    between: list[Callable[[], Any]] = [
        lambda: simulation.run({"x": INPUTS["x"], "F": 3.0}, 25),
        lambda: simulation.value_and_grad(lambda s: (s.final["x"] ** 2).sum(), {"x": INPUTS["x"], "F": 3.0}, 40, checkpoint=4),
        lambda: simulation._stepper.storage.release(),
        lambda: simulation.move(receivers={"x": [[5.0]]}),
        lambda: simulation.move(receivers={"x": [[5.0], [6.0]]}),
    ]
    for k in range(11):
        x = moved(k)["x"]
        assert bits(fast(x)) == bits(plain(x))
        assert direct_runs(fast), "a plain call"
        between[k % len(between)]()
        assert bits(fast(x)) == bits(plain(x))


def test_a_pullback_after_another_run_repeats_its_own() -> None:
    fast = ds.jit(ds.grad(simple))
    fast({name: INPUTS[name] for name in ("x", "F")})
    (run,) = direct_runs(fast)
    args, others = ((moved(k)["x"], np.float64(moved(k)["F"])) for k in range(2))
    cotangents = [rng.normal(size=12), np.zeros((11, 2))]
    expected = run(*args)[1](cotangents)
    pull = run(*args)[1]
    run(*others)
    assert bits(pull(cotangents)) == bits(pull(cotangents)) == bits(expected)


def test_threads_take_turns() -> None:
    plain = ds.value_and_grad(simple)
    fast, wrong = ds.jit(plain), list[int]()

    def work(seed: int) -> None:
        wrong.extend(k for k in range(15) if bits(fast(moved(seed + k))) != bits(plain(moved(seed + k))))

    threads = [threading.Thread(target=work, args=(100 * k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class Guarded(Lorenz96):
    """One whose equation refuses parameters, starts and ends."""

    def check(self, parameters: Any) -> None:
        if parameters["F"].max() > 5:
            raise ds.errors.ParameterError("F above 5")

    def check_start(self, parameters: Any, states: Any) -> None:
        if states["x"].max() > 50:
            raise ds.errors.ParameterError("x above 50")

    def check_end(self, parameters: Any, states: Any) -> None:
        if states["x"].min() < -20:
            raise ds.errors.StabilityError("x below -20")


def test_what_a_plain_call_refuses_is_refused() -> None:
    simulation = ds.Simulation(Guarded(12, dt=0.002), precision="f64")
    plain = ds.value_and_grad(lambda x, F: (simulation.run({"x": x, "F": F}, 10).final["x"] ** 2).sum())
    fast, x = ds.jit(plain), INPUTS["x"]
    for _ in range(3):
        assert bits(fast(x, 2.0)) == bits(plain(x, 2.0))
    assert direct_runs(fast)[0]._bindings >= 0
    bad = [(x, 6.0), (x + 60, 2.0), (x - 25, 2.0), (x * np.nan, 2.0), (x, np.inf), (x * 1e200, 2.0)]
    for args in bad:
        with pytest.raises(ds.DiffsimError) as expected, np.errstate(all="ignore"):
            plain(*args)
        with pytest.raises(type(expected.value)) as caught, np.errstate(all="ignore"):
            fast(*args)
        assert str(caught.value) == str(expected.value)
        assert bits(fast(x, 2.0)) == bits(plain(x, 2.0))


def test_chaos_is_told_in_replays() -> None:
    simulation = ds.Simulation(Lorenz96(dt=0.05), precision="f64")
    plain = ds.grad(lambda x: (simulation.run({"x": x, "F": 8.0}, 600).final["x"] ** 2).sum())
    fast, x = ds.jit(plain), np.random.default_rng(0).normal(size=40)
    for call in (plain, fast, fast, fast):
        with pytest.warns(ChaosWarning):
            call(x)


def test_chaos_that_begins_in_a_replay_is_told() -> None:
    simulation = ds.Simulation(Lorenz96(dt=0.05), precision="f64")
    plain = ds.grad(lambda x, F: (simulation.run({"x": x, "F": F}, 400).final["x"] ** 2).sum())
    fast, x = ds.jit(plain), np.random.default_rng(0).normal(size=40)
    for k in range(3):
        fast(x, 0.1 * k)
    (run,) = direct_runs(fast)
    assert run._bindings >= 0 and not simulation._compiled.grows
    with pytest.warns(ChaosWarning):
        bars = fast(x, 8.0)
    assert simulation._compiled.grows
    with pytest.warns(ChaosWarning):
        np.testing.assert_array_equal(bars, plain(x, 8.0))


def test_the_report_of_a_replayed_gradient() -> None:
    fast, inputs = ds.jit(ds.grad(simple)), {name: INPUTS[name] for name in ("x", "F")}
    for _ in range(3):
        fast(inputs)
    report = lorenz().last_sweep
    assert report is not None and report.steps["record"] == report.steps["reverse"] == 10 and report.seconds > 0


def test_functions_of_the_user_follow_the_runs_of_replays() -> None:
    seen: list[int] = []

    def until(done: int, states: Any) -> bool:
        return done == 4

    def note(frame: Any, event: str, argument: object) -> None:  # the function itself may not change a list
        if event == "call" and frame.f_code is until.__code__:
            seen.append(frame.f_locals["done"])

    fast = ds.jit(lambda x: lorenz().run({"x": x, "F": 2.0}, 10, until=until).final["x"])
    first = fast(INPUTS["x"])
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        again = fast(INPUTS["x"])
    finally:
        sys.setprofile(before)
    np.testing.assert_array_equal(again, first)
    assert seen == [1, 2, 3, 4] and fast._function.entries[0].program is not None
    watched: list[int] = []
    follow = ds.jit(lambda x: lorenz().run({"x": x, "F": 2.0}, 10, every=5, watch=lambda done, states: watched.append(done)).final["x"])
    with pytest.warns(ds.errors.JitWarning, match="watch"):
        follow(INPUTS["x"])
    watched.clear()
    follow(INPUTS["x"])
    assert watched == [5, 10]


def test_a_replay_runs_few_functions() -> None:
    """Each costs as much as some steps do. The bounds are the counts of the day, with room for a few more."""
    inputs = {name: INPUTS[name] for name in ("x", "F")}
    gradient, run = ds.jit(ds.value_and_grad(simple)), ds.jit(lambda inputs: lorenz().run(inputs, 10))
    for call in (gradient, run):
        for _ in range(3):
            call(inputs)
    assert calls_of(lambda: gradient(inputs)) <= 90 and calls_of(lambda: run(inputs)) <= 58


def test_inputs_without_a_gradient_are_recorded_too() -> None:
    """A run, or a tangent, of a simulation that is built for the gradient of another input; a derivative along such an input is refused."""
    rod = ds.Simulation(ds.solvers.Heat(ds.Grid((10,), spacing=0.1), dt=0.1), wrt=["kappa"], precision="f64")

    def plain(T: Any, kappa: Any) -> Any:
        return (rod.run({"T": T, "kappa": kappa}, 5).final["T"] ** 2).sum()

    for function in (plain, ds.value_and_grad(plain, argnums=1)):
        fast = ds.jit(function)
        for k in range(3):
            arguments = np.arange(10.0) + k, np.full(10, 0.01 + 0.001 * k)
            assert bits(fast(*arguments)) == bits(function(*arguments))
        assert fast._function.entries[0].program is not None
    with pytest.raises(ds.errors.DerivativeError, match="T is differentiated"):
        ds.jit(ds.grad(plain))(np.arange(10.0), np.full(10, 0.01))


def test_exponents_of_a_simulation_for_one_gradient_say_nothing(recwarn: pytest.WarningsRecorder) -> None:
    system = ds.Simulation(ds.solvers.Lorenz63(0.01), wrt=["rho"], precision="f64")
    start = {"x": np.ones(1), "y": np.full(1, 2.0), "z": np.full(1, 20.0), "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
    ds.chaos.lyapunov(system, start, steps=20, laps=20)
    assert not [warning for warning in recwarn if issubclass(warning.category, ds.errors.JitWarning)]
