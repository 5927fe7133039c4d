"""Simulations in JAX: gradients are those of the simulation, under `jit`, `grad` and `vmap`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.simulation.exported import ExportedRun
from tests.bridges.transforms import close, energy
from tests.bridges.tube import STEPS, cotangents_of, inputs_of, tube

jax = pytest.importorskip("jax")
bridge = pytest.importorskip("diffsim.jax")
jnp = jax.numpy

PARTS = ("final", "traces")


pytestmark = pytest.mark.usefixtures("wide")


@pytest.fixture(scope="module")
def simulation() -> ds.Simulation:
    return tube()


def arrays_of(inputs: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: jnp.array(value) for name, value in inputs.items()}


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("checkpoint", ["auto", 2])
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_are_those_of_the_simulation(x64: bool, checkpoint: Any, compiled: bool) -> None:
    jax.config.update("jax_enable_x64", x64)
    simulation = tube("f64" if x64 else "f32")
    inputs = inputs_of(simulation)
    solution, pullback = simulation.vjp(inputs, STEPS)
    cotangents = cotangents_of(solution)
    wanted = pullback(cotangents)

    def values(inputs: Any) -> Any:
        solution = bridge.run(simulation, inputs, STEPS, checkpoint)
        return [dict(getattr(solution, part)) for part in PARTS]

    f = jax.jit(values) if compiled else values
    parts, pull = jax.vjp(f, arrays_of(inputs))
    for part, values_of in zip(PARTS, parts, strict=True):
        assert all(np.array_equal(values_of[name], value) for name, value in getattr(solution, part).items())
    (bars,) = pull([{name: jnp.array(bar) for name, bar in getattr(cotangents, part).items()} for part in PARTS])
    assert bars.keys() == wanted.keys()
    assert all(bars[name].dtype == simulation.dtype and np.array_equal(bars[name], wanted[name]) for name in wanted)
    report = simulation.last_sweep
    assert report is not None and (report.steps["advance"] > 0) == (checkpoint == 2)  # few states are kept, others computed again


@pytest.mark.parametrize("transform", [jax.grad, lambda f: lambda k: jax.jvp(f, (k,), (1.0,))[1]], ids=["grad", "jvp"])
def test_numbers_of_python_and_batches_beside_constants(transform: Any) -> None:
    """The state of x'' = -k x is no input that the simulation is differentiated for."""
    spring = ds.Simulation(ds.ODE(lambda x, v, *, k: (v, -k * x), dt=0.02), wrt=["k"], precision="f64")

    def end(k: Any) -> Any:
        return bridge.run(spring, {"x": jnp.ones(1), "v": jnp.zeros(1), "k": k}, 50).final["x"][0]

    def closed(k: float) -> float:
        return -np.sin(np.sqrt(k)) / (2 * np.sqrt(k))

    assert abs(transform(end)(2.0) - closed(2.0)) < 1e-6
    several = jnp.array([1.0, 2.0, 3.5])
    wanted = np.stack([transform(end)(k) for k in several])
    assert close(jax.vmap(transform(end))(several), wanted) and close(jax.jit(jax.vmap(transform(end)))(several), wanted)


def test_vmap_runs_one_after_another(simulation: ds.Simulation) -> None:
    rows = [inputs_of(simulation, seed) for seed in range(3)]
    rest = arrays_of(rows[0])
    several = jnp.stack([row["f"] for row in rows])

    def loss(c: Any, f: Any) -> Any:
        return energy(bridge.run(simulation, {**rest, "c": c, "f": f}, STEPS))

    wanted = [jax.grad(loss, (0, 1))(rest["c"], f) for f in several]
    gradients = jax.jit(jax.vmap(jax.grad(loss, (0, 1)), (None, 0)))(rest["c"], several)
    assert all(close(gradients[k], np.stack([row[k] for row in wanted])) for k in (0, 1))


def test_several_shots_in_one_graph() -> None:
    """One simulation, whose sources and receivers move between runs, and whose storage every run takes over."""
    simulation = tube()
    inputs = inputs_of(simulation)
    wanted = np.zeros(9)
    for place in (20.0, 33.0, 61.0):
        simulation.move(sources={"f": [[place]]}, receivers={"p": [[place / 2]]})
        wanted += simulation.value_and_grad(energy, inputs, STEPS)[1]["c"]

    @jax.jit
    def loss(c: Any) -> Any:
        total = 0.0
        for place in (20.0, 33.0, 61.0):  # when JAX traces
            simulation.move(sources={"f": [[place]]}, receivers={"p": [[place / 2]]})
            total += energy(bridge.run(simulation, {**inputs, "c": c}, STEPS, checkpoint=3))
        return total

    assert close(jax.grad(loss)(jnp.array(inputs["c"])), wanted)


def test_threads_share_a_simulation(simulation: ds.Simulation) -> None:
    rows = [arrays_of(inputs_of(simulation, seed)) for seed in range(6)]
    gradient = jax.jit(jax.grad(lambda inputs: energy(bridge.run(simulation, inputs, STEPS))))
    wanted = [gradient(row)["c"] for row in rows]
    with ThreadPoolExecutor(4) as pool:
        gradients = list(pool.map(lambda row: gradient(row)["c"], rows))
    assert all(np.array_equal(a, b) for a, b in zip(gradients, wanted, strict=True))


def test_a_gradient_runs_forward_once(simulation: ds.Simulation) -> None:
    """The reverse sweep takes the states that the forward run kept, and does not find those of other arguments."""
    runs: list[str] = []
    with_pullback, evaluate = ExportedRun.with_pullback, ExportedRun.evaluate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExportedRun, "with_pullback", lambda self, *args: (runs.append("pullback"), with_pullback(self, *args))[1])
        patch.setattr(ExportedRun, "evaluate", lambda self, *args: (runs.append("evaluate"), evaluate(self, *args))[1])
        gradient = jax.jit(jax.grad(lambda inputs: energy(bridge.run(simulation, inputs, STEPS))))
        for seed in (0, 1):
            gradient(arrays_of(inputs_of(simulation, seed)))["c"].block_until_ready()
    assert runs == ["pullback", "pullback"]


def test_large_arrays_pass() -> None:
    """Callbacks of JAX are known to block where they convert large arrays on few threads."""
    grid = ds.Grid((700, 700), 1.0)
    heat = ds.Simulation(ds.solvers.Heat(grid, dt=0.1), precision="f32")
    kappa = jnp.full(grid.shape, 0.5, jnp.float32)

    @jax.jit
    def loss(kappa: Any) -> Any:
        return (bridge.run(heat, {"kappa": jnp.sin(kappa), "T": kappa * kappa}, 2).final["T"] ** 2).sum()

    assert np.isfinite(jax.grad(loss)(kappa)).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"c": np.float32}, r"input c has the type float32, expected float64.*\.astype\('float64'\)"),
        ({"speed": np.float64}, "inputs names speed"),
        ({"p": np.float64}, r"input p has shape \(8,\), expected \(9,\)"),
    ],
)
def test_wrong_arrays_are_refused(change: dict[str, Any], text: str, simulation: ds.Simulation) -> None:
    inputs = arrays_of(inputs_of(simulation))
    inputs |= {name: jnp.ones(9 if name == "c" else 8, kind) for name, kind in change.items()}
    with pytest.raises(ds.DiffsimError, match=text):
        jax.jit(lambda inputs: bridge.run(simulation, inputs, STEPS).final["p"])(inputs)


def test_a_derivative_that_the_simulation_has_not_is_refused() -> None:
    simulation = tube(wrt=("c",))
    inputs = arrays_of(inputs_of(simulation))
    loss = lambda c, f: energy(bridge.run(simulation, {**inputs, "c": c, "f": f}, STEPS))  # noqa: E731
    with pytest.raises(ds.errors.ParameterError, match=r"input f requires a gradient, expected one of c.*stop_gradient"):
        jax.grad(jax.jit(loss), (0, 1))(inputs["c"], inputs["f"])
    assert jax.grad(loss)(inputs["c"], inputs["f"]).shape == (9,)
    with pytest.raises(ds.errors.ParameterError, match=r"input f requires a gradient, expected one of c.*stop_gradient"):
        jax.jvp(lambda f: loss(inputs["c"], f), (inputs["f"],), (inputs["f"],))


@pytest.mark.parametrize(
    "transform", [lambda f: f, jax.jit, jax.grad, lambda f: jax.jit(jax.grad(f))], ids=["eager", "jit", "grad", "both"]
)
def test_the_last_line_of_an_error_is_that_of_the_run(transform: Any, simulation: ds.Simulation) -> None:
    inputs = arrays_of(inputs_of(simulation))
    loss = transform(lambda c: energy(bridge.run(simulation, {**inputs, "c": c}, STEPS)))
    with pytest.raises(Exception, match="not finite") as raised:
        jax.block_until_ready(loss(jnp.nan * inputs["c"]))
    lines = str(raised.value).strip().splitlines()
    assert lines[-1] == "ParameterError: input c has 9 values that are not finite, expected none; correct the data"
    assert not any("checks.py" in line for line in lines)


def test_a_batch_is_refused(simulation: ds.Simulation) -> None:
    with pytest.raises(ds.errors.ParameterError, match=r"is a diffsim\.Batch, expected a diffsim\.Simulation, .*give the simulation"):
        bridge.run(ds.Batch(simulation, 2), {}, STEPS)


def test_f64_without_x64_is_refused(simulation: ds.Simulation) -> None:
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(ds.errors.ParameterError, match="jax_enable_x64"):
        bridge.run(simulation, inputs_of(simulation), STEPS)


def test_an_error_of_a_run_reaches_the_user(simulation: ds.Simulation) -> None:
    inputs = arrays_of(inputs_of(simulation))
    with pytest.raises(Exception, match="lower dt or coarsen the grid"):
        jax.jit(lambda c: bridge.run(simulation, {**inputs, "c": c}, STEPS).final["p"])(10 * inputs["c"]).block_until_ready()


def test_states_and_traces_are_trees(simulation: ds.Simulation) -> None:
    """A map reaches each array, keeps the class, and leaves through `jit`."""
    solution = simulation.run(inputs_of(simulation), STEPS)
    for part in (solution.final, solution.traces):
        twice = jax.tree_util.tree_map(lambda a: 2 * a, part)
        assert type(twice) is type(part) and all(np.array_equal(twice[name], 2 * part[name]) for name in part)
        assert type(jax.jit(lambda tree: tree)(part)) is type(part)
        paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(part)[0]]
        assert paths == [f"[{name!r}]" for name in sorted(part)]
