"""One simulation used by many: interleaved pullbacks, threads, functions that a run calls, and copies for other processes."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import Policy
from diffsim.checkpoint.brief import BriefSweep
from diffsim.errors import ReplayError, StaleValueError
from diffsim.solvers import Acoustic, Heat

STEPS = 12
SHAPE = (9, 11)
PLACES = ([[20.0, 30.0]], [[41.0, 52.0]])
CHECKPOINTS = ["auto", 2, 5, Policy(slots=2, verify=False)]

Arrays = dict[str, np.ndarray]


def build() -> ds.Simulation:
    equation = Acoustic(ds.Grid(SHAPE, 10.0), 1e-3, 2, "zero")
    return ds.Simulation(equation, sources={"f": PLACES[0]}, receivers={"p": [[60.0, 70.0], [10.0, 11.0]]}, precision="f64")


@pytest.fixture(scope="module")
def shared() -> ds.Simulation:
    return build()


def draw(rng: np.random.Generator) -> Arrays:
    """Inputs, at a place of the source."""
    return {"c": rng.uniform(1000, 3000, SHAPE), "f": rng.normal(size=(STEPS, 1)), "p": rng.normal(size=SHAPE)}


def cotangents(rng: np.random.Generator) -> ds.Solution:
    return ds.Solution({"p": rng.normal(size=SHAPE)}, {"p": rng.normal(size=(STEPS + 1, 2))})


def digest(solution: ds.Solution) -> bytes:
    return b"".join(v.tobytes() for part in (solution.final, solution.traces) for v in part.values())


def same(a: Arrays, b: Arrays) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


class Expected:
    """The results of calls on a simulation that nobody else uses."""

    def __init__(self) -> None:
        self.simulation = build()

    def gradient(self, inputs: Arrays, place: int, bars: ds.Solution) -> tuple[bytes, Arrays]:
        self.simulation.move(sources={"f": PLACES[place]})
        solution, pullback = self.simulation.vjp(inputs, STEPS)
        return digest(solution), pullback(bars)


@pytest.fixture(scope="module")
def expected() -> Expected:
    return Expected()


@pytest.mark.parametrize("seed", range(12))
def test_pullbacks_in_any_order_are_those_of_their_own_run(shared: ds.Simulation, expected: Expected, seed: int) -> None:
    """Runs, moves, plans, tangents and edits of the inputs between them change nothing."""
    rng = np.random.default_rng(seed)
    place, waiting = 0, []
    shared.move(sources={"f": PLACES[0]})
    for _ in range(20):
        what = rng.choice(["vjp", "vjp", "pull", "pull", "run", "move", "jvp", "edit", "wrong"])
        if what == "vjp":
            inputs = draw(rng)
            kept = {name: value.copy() for name, value in inputs.items()}
            solution, pullback = shared.vjp(inputs, STEPS, CHECKPOINTS[rng.integers(len(CHECKPOINTS))])
            waiting.append((inputs, kept, place, digest(solution), pullback, solution))
        elif what == "run":
            shared.run(draw(rng), STEPS)
        elif what == "jvp":
            shared.jvp(draw(rng), {"c": rng.normal(size=SHAPE)}, STEPS)
        elif what == "move":
            place = int(rng.integers(2))
            shared.move(sources={"f": PLACES[place]})
        elif waiting:
            inputs, kept, its_place, digested, pullback, solution = waiting[rng.integers(len(waiting))]
            if what == "edit":
                for value in (*inputs.values(), *solution.final.values(), *solution.traces.values()):
                    value[...] = rng.normal(size=value.shape)
            elif what == "wrong":
                with pytest.raises(ds.errors.ShapeError):
                    pullback(ds.Solution({"p": np.ones(3)}))
            else:
                bars = cotangents(rng)
                assert (digested, True) == ((again := expected.gradient(kept, its_place, bars))[0], same(again[1], pullback(bars)))
    assert waiting


def test_only_what_is_gone_is_computed_again(shared: ds.Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    forward = BriefSweep.forward
    monkeypatch.setattr(BriefSweep, "forward", lambda sweep: (runs.append(sweep), forward(sweep))[1])
    rng = np.random.default_rng(0)
    pullbacks = [shared.vjp(draw(rng), STEPS)[1] for _ in range(3)]
    assert len(runs) == 3
    bars = cotangents(rng)
    pullbacks[2](bars)
    assert len(runs) == 3
    pullbacks[1](bars)
    pullbacks[0](bars)
    pullbacks[0](bars)
    assert len(runs) == 6


def test_a_run_that_ended_by_a_condition_ends_there_again(shared: ds.Simulation) -> None:
    asked: list[int] = []

    def until(done: int, states: Arrays) -> bool:
        asked.append(done)
        return len(asked) == 3

    inputs = draw(np.random.default_rng(1))
    solution, pullback = shared.vjp(inputs, STEPS, until=until, every=2)
    assert asked == [2, 4, 6] and solution.traces["p"].shape == (7, 2)
    first = pullback(solution)
    assert same(pullback(solution), first) and asked == [2, 4, 6]


def test_a_run_that_is_not_the_same_again_is_refused(shared: ds.Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = draw(np.random.default_rng(2))
    solution, pullback = shared.vjp(inputs, STEPS)
    pullback(solution)
    start = type(shared._stepper).start

    def disturbed(self: Any, states: Arrays, *rest: Any, **named: Any) -> None:
        start(self, {name: value + 1e-9 for name, value in states.items()}, *rest, **named)

    monkeypatch.setattr(type(shared._stepper), "start", disturbed)
    with pytest.raises(ReplayError, match="got another when it was run again"):
        pullback(solution)


def loss_of(simulation: ds.Simulation, shots: int) -> Callable[[Any], Any]:
    rng = np.random.default_rng(3)
    inputs = [draw(rng) for _ in range(shots)]

    def loss(c: Any) -> Any:
        total = 0.0
        for number, fields in enumerate(inputs):
            simulation.move(sources={"f": PLACES[number % 2]})
            total = total + (simulation.run({**fields, "c": c}, STEPS).traces["p"] ** 2).sum()
        return total

    return loss


def test_shots_of_one_simulation_in_one_record_have_the_gradient_of_simulations_of_their_own(shared: ds.Simulation) -> None:
    c = np.random.default_rng(4).uniform(1000, 3000, SHAPE)
    value, gradient = ds.value_and_grad(loss_of(shared, 2))(c)
    rng = np.random.default_rng(3)
    total, alone = 0.0, np.zeros(SHAPE)
    for number in range(2):
        simulation, fields = build(), draw(rng)
        simulation.move(sources={"f": PLACES[number]})
        solution, pullback = simulation.vjp({**fields, "c": c}, STEPS)
        total += (solution.traces["p"] ** 2).sum()
        alone += pullback(ds.Solution(traces={"p": 2 * solution.traces["p"]}))["c"]
    assert value == pytest.approx(total, rel=1e-14)
    assert np.allclose(gradient, alone, rtol=1e-13, atol=1e-13 * np.abs(alone).max())


def test_threads_get_what_they_get_alone(shared: ds.Simulation) -> None:
    """Runs, gradients, tangents, and losses that move the sources, by six threads at once."""
    shared.move(sources={"f": PLACES[0]})
    c = np.random.default_rng(5).uniform(1000, 3000, SHAPE)

    def work(seed: int, simulation: ds.Simulation) -> list[Any]:
        rng = np.random.default_rng(seed)
        inputs, bars = draw(rng), cotangents(rng)
        if seed % 3 == 0:
            return [digest(simulation.run(inputs, STEPS)) for _ in range(4)]
        solution, pullback = simulation.vjp(inputs, STEPS, 3)
        moved = simulation.jvp(inputs, {"c": c}, STEPS)[1]
        gradients = [pullback(bars)["c"].tobytes() for _ in range(2)]
        return [digest(solution), digest(moved), *gradients]

    alone = [work(seed, shared) for seed in range(6)]
    together: list[Any] = [None] * 6

    def put(seed: int) -> None:
        together[seed] = work(seed, shared)

    threads = [threading.Thread(target=put, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert together == alone


def test_losses_that_move_the_sources_may_be_taken_by_threads(shared: ds.Simulation) -> None:
    """Each with a simulation of its own: where the sources are is the simulation's, and threads that share one share that."""
    c = np.random.default_rng(6).uniform(1000, 3000, SHAPE)
    own = [copy.deepcopy(shared) for _ in range(3)]
    alone = ds.grad(loss_of(shared, 2))(c)
    gradients: list[Any] = [None] * 3

    def put(number: int) -> None:
        gradients[number] = ds.grad(loss_of(own[number], 2))(c)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(np.array_equal(gradient, alone) for gradient in gradients)


@pytest.mark.parametrize("use", ["run", "vjp", "jvp", "move", "pullback", "tangent", "plan"])
@pytest.mark.parametrize("caller", ["watch", "until", "on_action", "on_progress"])
def test_a_run_is_not_disturbed_from_within(shared: ds.Simulation, caller: str, use: str) -> None:
    inputs = draw(np.random.default_rng(7))
    waiting = shared.vjp(inputs, STEPS)[1]
    uses: dict[str, Callable[[], Any]] = {
        "run": lambda: shared.run(inputs, STEPS),
        "vjp": lambda: shared.vjp(inputs, STEPS),
        "jvp": lambda: shared.jvp(inputs, {}, STEPS),
        "move": lambda: shared.move(sources={"f": PLACES[1]}),
        "pullback": lambda: waiting(ds.Solution()),
        "tangent": lambda: shared.tangent().run(inputs, STEPS),
        "plan": lambda: ds.plan(shared, steps=STEPS),
    }

    def called(*args: Any) -> bool:
        uses[use]()
        return False

    def run() -> None:
        if caller == "watch":
            shared.run(inputs, STEPS, every=3, watch=called)
        else:
            callbacks: dict[str, Any] = {caller: called}
            solution, pullback = shared.vjp(inputs, STEPS, **callbacks)
            pullback(solution)

    with pytest.raises(StaleValueError, match="expected a simulation that is not running, got one whose run has called this function"):
        run()
    shared.run(inputs, STEPS)  # and it can be used again


CIRCLE = """
import sys, threading
import numpy as np
import diffsim as ds
from diffsim.errors import StaleValueError
from diffsim.solvers import Heat
x = {"kappa": np.ones((8, 8)), "T": np.arange(64.0).reshape(8, 8)}
bars = ds.Solution({"T": np.ones((8, 8))})
def circle(size, way):
    ring = [ds.Simulation(Heat(ds.Grid((8, 8), 1.0), 0.1), precision="f64") for _ in range(size)]
    alone = ring[0].run(x, 4).final["T"]
    pullbacks = [simulation.vjp(x, 4)[1] for simulation in ring]
    all_in = threading.Barrier(size)
    ended = []
    def use(number):
        mine, its = ring[number], ring[(number + 1) % size]
        pullback = pullbacks[(number + 1) % size]
        uses = {"run": lambda: its.run(x, 4), "move": lambda: its.move(), "pullback": lambda: pullback(bars),
                "plan": lambda: ds.plan(its, steps=4)}
        within = []
        def watch(done, states):
            if not within:
                within.append(done)
                all_in.wait()
                uses[way]()
        try:
            assert np.array_equal(mine.run(x, 4, every=1, watch=watch).final["T"], alone)
            ended.append("ran")
        except StaleValueError as error:
            assert "expected a simulation that will be free" in str(error) and "; " in str(error)
            ended.append("refused")
    threads = [threading.Thread(target=use, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended) == ["ran"] * (size - 1) + ["refused"], ended
    assert all(np.array_equal(simulation.run(x, 4).final["T"], alone) for simulation in ring)
for words in sys.argv[1:]:
    size, way = words.split()
    circle(int(size), way)
    print(words, flush=True)
"""
CIRCLES = ("2 run", "2 move", "2 pullback", "2 plan", "3 run", "4 move")
"""How many threads, and what each does with the simulation of the next."""


def test_threads_that_would_wait_for_one_another_in_a_circle_are_refused() -> None:
    """Each runs a simulation, and from it uses that of the next."""
    command = [sys.executable, "-c", CIRCLE, *CIRCLES]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            output, errors = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            errors += "\nthe next one hangs"
    assert output.splitlines() == [*CIRCLES], errors


def test_a_thread_may_use_the_simulation_of_another_that_waits_for_none(shared: ds.Simulation) -> None:
    """Turns within turns that are no circle: threads take both simulations in the same order, from a function of the first."""
    other, inputs = build(), draw(np.random.default_rng(9))
    expected = digest(other.run(inputs, STEPS))
    digests: list[bytes] = []

    def use() -> None:
        shared.run(inputs, STEPS, every=4, watch=lambda done, states: digests.append(digest(other.run(inputs, STEPS))))

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert digests == [expected] * 9


# copies


def pickled(simulation: ds.Simulation) -> ds.Simulation:
    return pickle.loads(pickle.dumps(simulation))


@pytest.mark.parametrize("again", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("used", [False, True])
def test_a_copy_gives_the_same_bits(again: Callable[[ds.Simulation], ds.Simulation], used: bool) -> None:
    rng = np.random.default_rng(8)
    inputs, bars = draw(rng), cotangents(rng)
    equation = Acoustic(ds.Grid(SHAPE, 10.0), 1e-3, 2, "zero", sponge=3)
    receivers = {"p": [[60.0, 70.0], [10.0, 11.0]]}
    simulation = ds.Simulation(equation, sources={"f": PLACES[1]}, receivers=receivers, wrt=["c", "p"], precision="f64")
    if used:
        simulation.run(inputs, STEPS)
        waiting = simulation.vjp(inputs, STEPS)[1]
        simulation.jvp(inputs, {"c": inputs["c"]}, STEPS)
    simulation.move(sources={"f": PLACES[0]})
    other = again(simulation)
    assert (other.inputs, other.wrt, other.receivers) == (simulation.inputs, simulation.wrt, simulation.receivers)
    (a, pull_a), (b, pull_b) = simulation.vjp(inputs, STEPS), other.vjp(inputs, STEPS)
    assert digest(a) == digest(b) and same(pull_a(bars), pull_b(bars))
    other.move(sources={"f": PLACES[1]})
    assert digest(simulation.run(inputs, STEPS)) == digest(a) != digest(other.run(inputs, STEPS))
    if used:
        assert same(waiting(bars), other.vjp(inputs, STEPS)[1](bars))


@pytest.mark.parametrize("differentiable", [False, True])
def test_a_tangent_can_be_pickled(differentiable: bool) -> None:
    simulation = ds.Simulation(Heat(ds.Grid((5, 6), 1.0), 0.1), receivers={"T": [[2.0, 3.0]]}, wrt=["kappa"], precision="f64")
    tangent = simulation.tangent(differentiable=differentiable)
    other = pickled(tangent)
    assert other.order == 1 and other.wrt == tangent.wrt and other.receivers == tangent.receivers
    rng = np.random.default_rng(9)
    inputs = {name: rng.uniform(1, 2, (5, 6)) for name in tangent.inputs}
    assert digest(tangent.run(inputs, 4)) == digest(other.run(inputs, 4))
    assert (other._stepper.adjoint is None) == (tangent._stepper.adjoint is None)


POOL = """
import multiprocessing
import numpy as np
import diffsim as ds
from diffsim.solvers import Heat
x = {"kappa": np.ones((8, 8)), "T": np.arange(64.0).reshape(8, 8)}
def work(simulation, factor):
    return float(simulation.run({**x, "T": factor * x["T"]}, 3).final["T"][2, 3])
if __name__ == "__main__":
    simulation = ds.Simulation(Heat(ds.Grid((8, 8), 1.0), 0.1), precision="f64")
    alone = [work(simulation, factor) for factor in (1, 2)]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.starmap(work, [(simulation, 1), (simulation, 2)]) == alone
    print("the same")
"""


def test_a_process_pool_takes_a_simulation_that_was_used(tmp_path: Any) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.stdout == "the same\n", done.stderr
