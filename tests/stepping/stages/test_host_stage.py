"""Array programs inside a step: what they may be, what is refused, and what is said where they fail."""

from __future__ import annotations

import functools
import itertools
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.checkpoint import StoreAll
from diffsim.errors import HostStageError, ParameterError, PlanError, ReplayError, ShapeError, StaleValueError, TraceError
from diffsim.expr import Symbol, diff, interpolate, laplacian
from diffsim.integrators import rk4
from diffsim.simulation.host_stage import identity_of
from diffsim.simulation.prepared.sizes import host_copies
from tests.curvature import require_second_derivatives
from tests.language import ti

STEPS = 5
ROUND_OFF = 1e-13
CURVATURE = 1e-7  # relative, differences of gradients, of a step of 1e-5


class Given(ds.Equation):
    """Two fields and a parameter, with a step that a test gives."""

    def __init__(
        self, step: Callable[..., dict[str, Any]], shape: tuple[int, ...] = (11, 14), boundary: str = "zero", **states: tuple[int, ...]
    ) -> None:
        self.grid, self.dt, self._step = ds.Grid(shape, 1.0), 0.1, step
        self.states = {name: ds.Variable(boundary, location=place) for name, place in states.items()} or {"u": ds.Variable(boundary)}
        self.parameters = {"k": ds.Variable(boundary)}
        self.forcings = ("q",)

    def step(self, **fields: Any) -> dict[str, Any]:
        return self._step(**fields)


def inputs(simulation: ds.Simulation) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shape = simulation.grid.shape
    return {name: rng.uniform(0.5, 1.0, (STEPS, 1) if name == "q" else shape) for name in simulation.inputs}


def loss(solution: ds.Solution) -> tuple[float, ds.Solution]:
    value, bars = 0.0, []
    for part in (solution.final, solution.traces):
        weights = {name: np.cos(0.7 * np.arange(values.size)).reshape(values.shape) for name, values in part.items()}
        value += sum(float(np.sum(weights[name] * values + 0.1 * values**3)) for name, values in part.items())
        bars.append({name: weights[name] + 0.3 * values**2 for name, values in part.items()})
    return value, ds.Solution(*bars)


def require_curvature(simulation: ds.Simulation, rng: np.random.Generator) -> None:
    """Compare second derivatives of a loss of `u` at the end and of its traces with differences."""

    def value(fields: Any) -> Any:
        solution = simulation.run(fields, STEPS)
        return dnp.sum(solution.final["u"] ** 3) + dnp.sum(solution.traces["u"] ** 4)

    require_second_derivatives(value, inputs(simulation), rng, CURVATURE)


def by_numpy(simulation: ds.Simulation, step: Callable[..., dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    fields = inputs(simulation)
    states = {name: fields[name] for name in simulation.equation.states}
    for _ in range(STEPS):
        states = step(**states, k=fields["k"])
    return states


def running_sum(u: Any) -> Any:
    """Not a stencil: each value depends on all before it."""
    return dnp.cumsum(dnp.tanh(u), axis=-1) / u.shape[-1]


@pytest.mark.parametrize("shape", [(19,), (11, 14), (5, 6, 7)], ids=["1-D", "2-D", "3-D"])
def test_several_stages_feed_one_another_in_every_dimension(shape: tuple[int, ...]) -> None:
    def step(u: Any, k: Any, q: Any) -> dict[str, Any]:
        a = ds.host_stage(running_sum, u, boundary="periodic")
        b = ds.host_stage(lambda x, y: dnp.flip(x, 0) * y, (a, k), "mirror", outputs=1)
        return {"u": 0.5 * u + 0.1 * diff(diff(a, 0), 0) + 0.1 * laplacian(b) + k * b + 0.1 * q}

    def plain(u: np.ndarray, k: np.ndarray) -> dict[str, np.ndarray]:
        a = np.cumsum(np.tanh(u), axis=-1) / shape[-1]
        b = np.flip(a, 0) * k
        around = np.roll(a, -1, 0) - 2 * a + np.roll(a, 1, 0)
        padded = np.pad(b, 1, mode="symmetric")
        inner = tuple(slice(1, -1) for _ in shape)
        second = -2 * b.ndim * b
        for axis, side in itertools.product(range(b.ndim), (slice(0, -2), slice(2, None))):
            second = second + padded[tuple(side if a == axis else inner[a] for a in range(b.ndim))]
        return {"u": 0.5 * u + 0.1 * around + 0.1 * second + k * b}

    run = ds.Simulation(Given(step, shape), sources={"q": [[3.0] * len(shape)]}, receivers={"u": [[2.5] * len(shape)]})
    fields = inputs(run)
    wanted = by_numpy(run, plain)["u"]
    assert np.abs(wanted - fields["u"]).max() > 0.1
    final = run.run(fields | {"q": np.zeros((STEPS, 1))}, STEPS).final["u"]
    assert np.abs(final - wanted).max() <= ROUND_OFF * np.abs(wanted).max()
    certificate = ds.certify(run, loss, fields, STEPS)
    assert certificate.passed, str(certificate)


def test_a_stage_between_fields_at_different_places() -> None:
    """Each result lies where the field of its number does, and its rule is its own."""

    def step(u: Any, v: Any, k: Any, q: Any) -> dict[str, Any]:
        a, b = ds.host_stage(lambda u, v: (u + dnp.sin(v), u * v), (u, v), boundary=["periodic", ("mirror", "zero")])
        assert (a.location, b.location) == ((0, 1), (0, 0))
        centred = interpolate(a, 1)
        moved = ds.host_stage(lambda a: a**2, centred, location=(1, 0), outputs=1)
        assert moved.location == (1, 0)
        return {"u": 0.5 * a + 0.1 * diff(b, 1), "v": 0.3 * b + 0.1 * centred + 0.1 * diff(moved, 0)}

    run = ds.Simulation(Given(step, boundary="periodic", u=(0, 1), v=(0, 0)))

    def plain(u: np.ndarray, v: np.ndarray, k: np.ndarray) -> dict[str, np.ndarray]:
        a, b = u + np.sin(v), u * v
        centred = 0.5 * (a + np.roll(a, 1, 1))
        moved = centred**2
        ahead = np.pad(b, ((0, 0), (0, 1)))[:, 1:]
        behind = np.pad(moved, ((1, 0), (0, 0)))[:-1]
        return {"u": 0.5 * a + 0.1 * (ahead - b), "v": 0.3 * b + 0.1 * centred + 0.1 * (moved - behind)}

    fields, wanted = inputs(run), by_numpy(run, plain)
    final = run.run(fields, STEPS).final
    assert all(np.abs(final[name] - wanted[name]).max() <= ROUND_OFF for name in wanted)
    certificate = ds.certify(run, loss, fields, STEPS)
    assert all(line.passed for line in certificate if ", k" not in line.name), str(certificate)  # the step has no use for k


A1 = ti.types.ndarray(dtype=ti.f64, ndim=1)


@ds.kernel(reads=("x",), writes={"y": "x"})
def smooth(x: A1, y: A1):  # type: ignore[no-untyped-def]
    for i in x:
        y[i] = ti.sin(x[i]) * x[i] + 0.3 * x[ti.max(i - 1, 0)]


def test_a_users_kernel_in_a_step() -> None:
    def step(u: Any, k: Any, q: Any) -> dict[str, Any]:
        return {"u": 0.5 * ds.host_stage(lambda x: smooth(x), u) + 0.1 * laplacian(u) * k}

    run = ds.Simulation(Given(step, (23,)))
    fields = inputs(run)
    _, gradient = run.value_and_grad(loss, fields, STEPS)
    rng, h = np.random.default_rng(2), 1e-6
    for _ in range(3):
        move = {name: rng.standard_normal(values.shape) for name, values in fields.items()}
        sides = [loss(run.run({n: v + s * h * move[n] for n, v in fields.items()}, STEPS))[0] for s in (1, -1)]
        products = np.concatenate([(gradient[name] * move[name]).ravel() for name in gradient])
        assert abs((sides[0] - sides[1]) / (2 * h) - products.sum()) <= 1e-7 * np.abs(products).sum()


@pytest.mark.parametrize("fields", [1, 2, 3])
@pytest.mark.parametrize("results", [1, 2, 3])
def test_a_wrong_number_of_results_names_the_argument_that_says_how_many(fields: int, results: int) -> None:
    """And with that, the step runs."""

    def f(*arrays: Any) -> Any:
        return arrays[0] if results == 1 else tuple(arrays[0] * n for n in range(results))

    def run(**options: Any) -> dict[str, np.ndarray]:
        def step(u: Any, k: Any, q: Any) -> dict[str, Any]:
            out = ds.host_stage(f, (u, k, u * k)[:fields] if fields > 1 else u, **options)
            return {"u": 0.5 * u + sum(out if isinstance(out, tuple) else [out])}

        simulation = ds.Simulation(Given(step, (5,)))
        return dict(simulation.run(inputs(simulation), STEPS).final)

    if results == fields:
        assert np.isfinite(run()["u"]).all()
        return
    with pytest.raises(ShapeError, match=f"expected a.* array.*, or give outputs={results}$"):
        run()
    assert np.isfinite(run(outputs=results)["u"]).all()


def test_in_f32_as_exact_as_f32_can_be() -> None:
    def step(u: Any, k: Any, q: Any) -> dict[str, Any]:
        def f(x: Any) -> Any:
            assert x.dtype == (np.float32 if precision == "f32" else np.float64)
            return running_sum(x)

        return {"u": 0.5 * u + ds.host_stage(f, k * u)}

    gradients = {}
    for precision in ("f64", "f32"):
        run = ds.Simulation(Given(step), precision=precision)
        gradients[precision] = run.value_and_grad(loss, inputs(run), STEPS)[1]
    for name, wanted in gradients["f64"].items():
        assert gradients["f32"][name].dtype == np.float32
        assert 0 < np.abs(gradients["f32"][name] - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_fixed_fields_cost_no_adjoint() -> None:
    """A stage of parameters that are not differentiated for is not gone through, and asks for no states."""
    calls = []

    def f(k: Any) -> Any:
        calls.append(type(k))
        return k * 0.5

    def step(u: Any, k: Any, q: Any) -> dict[str, Any]:
        return {"u": ds.host_stage(f, k) * laplacian(u)}

    run = ds.Simulation(Given(step), wrt=["u"])
    run.value_and_grad(loss, inputs(run), STEPS)
    assert not run._stepper.needs_primal
    assert len(calls) == 2 * STEPS and set(calls) == {np.ndarray}


def test_a_value_that_is_read_after_the_call_is_not_overwritten_by_it() -> None:
    """A result that is the next value of a leap-frog has the memory of the oldest one, unless somebody still reads that."""

    def step(p: Any, old: Any, w: Any, k: Any, q: Any) -> dict[str, Any]:
        new = ds.host_stage(lambda p: 0.5 * dnp.flip(p, 1), p)
        return {"p": new, "old": p, "w": 0.5 * w + old * new}

    run = ds.Simulation(Given(step, p=(0, 0), old=(0, 0), w=(0, 0)))

    def plain(p: np.ndarray, old: np.ndarray, w: np.ndarray, k: np.ndarray) -> dict[str, np.ndarray]:
        new = 0.5 * np.flip(p, 1)
        return {"p": new, "old": p, "w": 0.5 * w + old * new}

    final, wanted = run.run(inputs(run), STEPS).final, by_numpy(run, plain)
    assert all(np.abs(final[name] - wanted[name]).max() <= ROUND_OFF for name in wanted)


def test_one_field_in_two_places() -> None:
    run = ds.Simulation(Given(lambda u, k, q: {"u": 0.5 * ds.host_stage(lambda x, y: x * dnp.sin(y), (u, u), outputs=1)}))
    assert ds.certify(run, loss, inputs(run), STEPS).verdict != "fail"  # nothing depends on k and q


def one_stage(f: Callable[..., Any], **options: Any) -> ds.Simulation:
    return ds.Simulation(Given(lambda u, k, q: {"u": 0.5 * u + ds.host_stage(f, u, **options)}))


def run_once(f: Callable[..., Any]) -> None:
    run = one_stage(f)
    run.run(inputs(run), STEPS)


def test_an_error_says_in_which_step() -> None:
    steps = itertools.count()

    def f(u: np.ndarray) -> np.ndarray:
        if next(steps) == 3:
            raise KeyError("lost")
        return u

    with pytest.raises(HostStageError, match=r"in step 3, host_stage of .* raised KeyError: 'lost'"):
        run_once(f)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda u: u[1:], r"in step 0.* of shape \(11, 14\), one a cell, got float64 of shape \(10, 14\)"),
        (lambda u: u.astype(complex), "got complex128"),
        (lambda u: (u, u), "expected an array, got .*or give outputs=2"),
        (lambda u: None, "got None"),
        (lambda u: u > 0, "got bool"),
    ],
)
def test_what_is_not_an_array_over_the_cells_is_refused(f: Callable[..., Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        run_once(f)


def test_a_wrong_number_of_results_is_refused() -> None:
    run = one_stage(lambda u: (u,), outputs=1)
    with pytest.raises(ShapeError, match="got "):
        run.run(inputs(run), STEPS)
    with pytest.raises(ShapeError, match="has 2 entries, expected 1"):
        one_stage(running_sum, boundary=["zero", "zero"])


def test_the_function_may_edit_what_it_is_given() -> None:
    def edits(u: Any) -> Any:
        u *= 2
        u[0] = 0
        return u

    run, same = one_stage(edits), one_stage(lambda u: dnp.concatenate([0 * u[:1], 2 * u[1:]]))
    fields = inputs(run)
    assert run.value_and_grad(loss, fields, STEPS)[0] == same.value_and_grad(loss, fields, STEPS)[0]
    for name, bars in run.value_and_grad(loss, fields, STEPS)[1].items():
        assert np.allclose(bars, same.value_and_grad(loss, fields, STEPS)[1][name], rtol=1e-14)


def test_a_function_that_is_not_deterministic_is_caught() -> None:
    """States are compared as often as 2 % of the steps' time allow, so steps take long enough for some on a busy machine too."""
    rng = np.random.default_rng(0)

    def drawn(u: Any) -> Any:
        time.sleep(0.002)
        return u + 0.1 * rng.standard_normal(u.shape)

    run = one_stage(drawn)
    with pytest.raises(ReplayError):
        run.value_and_grad(loss, inputs(run), 60, checkpoint=ds.checkpoint.Policy(slots=3, verify=True))


def test_the_same_simulation_is_refused_inside() -> None:
    runs: list[ds.Simulation] = []

    def f(u: np.ndarray) -> np.ndarray:
        return runs[0].run(inputs(runs[0]), 1).final["u"]

    runs.append(one_stage(f))
    with pytest.raises(StaleValueError, match=r"in step 0.*is not running"):
        runs[0].run(inputs(runs[0]), STEPS)


def test_refusals_while_tracing() -> None:
    with pytest.raises(ParameterError, match="expected a function"):
        one_stage("sin")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="expected an expression of the step"):
        ds.Simulation(Given(lambda u, k, q: {"u": ds.host_stage(running_sum, 3.0)}))
    with pytest.raises(TraceError, match="a forcing enters a stored stage"):
        ds.Simulation(Given(lambda u, k, q: {"u": ds.host_stage(running_sum, u + q)}), sources={"q": [[1.0, 1.0]]})
    with pytest.raises(ShapeError, match="expected 2 entries of 0"):
        one_stage(running_sum, location=(0,))

    class Early(Given):
        def coefficients(self, k: Any) -> dict[str, Any]:
            return {"k": ds.host_stage(running_sum, k)}

    with pytest.raises(TraceError, match=r"host_stage\(\) was called outside a step"):
        ds.Simulation(Early(lambda u, k, q: {"u": u}))


def test_a_step_with_a_host_stage_cannot_be_undone() -> None:
    run = ds.Simulation(
        Given(lambda u, v, k, q: {"u": 2 * u - v + ds.host_stage(running_sum, u), "v": u}, u=(0, 0), v=(0, 0)),
    )
    with pytest.raises(PlanError, match="one of its stages is a function on the host"):
        run.schedule(STEPS, ds.checkpoint.Policy(schedule="reversible"))


def test_a_plan_runs_it_and_counts_its_copies() -> None:
    run = one_stage(running_sum)
    plan = ds.plan(run, "1 GB", steps=20, seconds=0.1)
    fields = inputs(run)
    stored = run.value_and_grad(loss, fields, 20, StoreAll(20))[1]
    planned = run.value_and_grad(loss, fields, 20, plan)[1]
    assert all(stored[name].tobytes() == planned[name].tobytes() for name in stored)
    assert host_copies(run._compiled) == 3  # the pullback takes u and a cotangent, and gives one
    fresh = one_stage(running_sum)
    assert fresh.value_and_grad(loss, fields, 20, checkpoint=2)[1]["u"].tobytes() == stored["u"].tobytes()
    assert fresh.predicted_bytes(fresh.schedule(20, 2)) == fresh.allocated_bytes() > 0


def test_the_source_names_the_call() -> None:
    text = one_stage(running_sum).source("forward")
    assert "# host_stage of " in text and "def forward_part_1(" in text


def test_functions_are_told_apart_by_code_and_by_what_they_read() -> None:
    def scaled(factor: Any) -> Callable[[Any], Any]:
        return lambda u: factor * u

    assert identity_of(scaled(2.0)) == identity_of(scaled(2.0))
    others = [scaled(3.0), scaled(np.ones(3)), scaled(np.zeros(3)), lambda u: 2.0 + u, lambda u: 3.0 + u]
    assert len({identity_of(f) for f in [scaled(2.0), *others]}) == 6


MODULE = """
def helper(x): return {k} * x
def default(x, helper=helper): return helper(x)
table = dict(entry=helper)
class Law:
    def rate(self, x): return {k} * x
    @property
    def number(self): return {k}
    @staticmethod
    def fixed(x): return {k} * x
    def by_method(self, x): return self.rate(x)
    def by_property(self, x): return self.number * x
    def by_static(self, x): return self.fixed(x)
    def __call__(self, x): return {k} * x
law = Law()
cases = dict(
    helper=lambda x: helper(x), default=default, table=lambda x: table["entry"](x), method=law.by_method, object=law,
    property=law.by_property, static=law.by_static, outer=lambda x: law.rate(x), partial=partial(lambda a, x: a * helper(x), 1.0),
)
"""


def test_functions_are_told_apart_by_the_code_that_they_call_and_by_what_lies_deep() -> None:
    """A run that another process resumes must not go on with an edited helper."""

    def loaded(k: float) -> dict[str, Any]:
        names: dict[str, Any] = {"__name__": "users_laws", "partial": functools.partial}
        exec(MODULE.format(k=k), names)
        deep: dict[str, Any] = {"of": [types.SimpleNamespace(k=k)]}
        deep["itself"] = deep
        shape = np.ones((2, 3) if k > 1 else (3, 2))
        return {**names["cases"], "deep": lambda x: deep["of"][0].k * x, "shape": lambda x: shape.shape[0] * x}

    one, again, other = loaded(1.0), loaded(1.0), loaded(2.0)
    for name, f in one.items():
        assert identity_of(f) == identity_of(again[name]), name
        assert identity_of(f) != identity_of(other[name]), name


def test_a_method_within_a_rate_leaves_the_rate_its_time() -> None:
    """A system that follows the inner method took the right side that the step had stored at its beginning: the order was 1."""

    class Fading(ds.Equation):
        """u_t = -2 t u, where t is the solution of a system."""

        def __init__(self, steps: int) -> None:
            self.grid, self.dt, self.states = ds.Grid((4,), 1.0), 1 / steps, {"u": ds.Variable("periodic")}

        def step(self, u: Symbol, t: Symbol) -> dict[str, Any]:
            def level() -> Any:
                return ds.solve(lambda x: x - 0.1 * laplacian(x), t + 0 * u, boundary="periodic")

            def rate(now: Any) -> dict[str, Any]:
                inner = rk4(lambda own: {"u": -own["u"]}, now, 0.001)
                return {"u": 0 * inner["u"] - 2 * level() * now["u"]}

            first = level()
            return {"u": rk4(rate, {"u": u}, self.dt)["u"] + 0 * first}

    errors = [abs(ds.Simulation(Fading(n), precision="f64").run({"u": np.ones(4)}, n).final["u"] - np.exp(-1)).max() for n in (5, 10)]
    assert errors[0] / errors[1] > 12


PROGRAMS: dict[str, Callable[..., Any]] = {  # each rounds otherwise by NumPy than in a derivative, or may come to
    "rfft": lambda u: dnp.fft.irfft(dnp.exp(-0.01 * dnp.arange(u.shape[-1] // 2 + 1.0)) * dnp.fft.rfft(u), u.shape[-1]),
    "rfft2": lambda u: dnp.fft.irfft2(0.9 * dnp.fft.rfft2(u), u.shape),
    "hfft": lambda u: u + 0.01 * dnp.fft.hfft(dnp.fft.ihfft(u), u.shape[-1]),
    "cumsum": running_sum,
    "convolve": lambda u: dnp.stack([dnp.convolve(row, dnp.array([0.3, 0.4, 0.3]), "same") for row in u]),
    "einsum": lambda u: u + 0.01 * dnp.einsum("ij,kj,kl->il", u, u, u),
    "std": lambda u: u / (1 + dnp.std(u, axis=-1, keepdims=True)),
    "norm": lambda u: u / dnp.linalg.norm(u),
    "a gradient": lambda u: u - 0.1 * ds.grad(lambda v: dnp.sum(dnp.abs(dnp.fft.rfft(v)) ** 2) / v.size)(u),
}


def test_a_run_and_its_adjoint_have_the_same_bits_within_a_derivative_and_outside() -> None:
    def all_programs(u: Any) -> Any:
        for program in PROGRAMS.values():
            u = program(u)
        return u

    def step(u: Any, k: Any, q: Any) -> dict[str, Any]:
        return {"u": ds.host_stage(all_programs, u + 0.1 * k * u, "mirror")}

    run = ds.Simulation(Given(step), wrt=["u", "k"], precision="f64")
    start = inputs(run)

    def final(u: Any) -> Any:
        return run.run({**start, "u": u}, STEPS).final["u"]

    plain, other = final(start["u"]), final(start["u"][::-1])
    weights = np.cos(np.arange(plain.size)).reshape(plain.shape)
    bars = run.vjp(start, STEPS)[1](ds.Solution(final={"u": weights}))

    def twice(u: Any) -> Any:
        """Two runs of one simulation: the first one is repeated for its adjoint, outside of all derivatives."""
        return final(u), final(u[::-1])

    finals, pullback = ds.vjp(twice, start["u"])
    assert np.array_equal(finals[0], plain) and np.array_equal(finals[1], other)
    assert np.array_equal(ds.jvp(final, (start["u"],), (weights,))[0], plain)
    assert np.array_equal(pullback((weights, np.zeros_like(plain)))[0], bars["u"])
