"""States that exist in a region only, against the same steps in which they exist everywhere and are multiplied by 0 outside of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import MultiTier, Tier
from diffsim.errors import ShapeError
from diffsim.expr import diff, interpolate, laplacian
from diffsim.mesh.field import Region
from tests.sampled import sampled

STEPS = 5


class Everywhere(ds.Equation):
    """A wave `a`, and what it drives in parts of the grid: `p`, which remembers its last value, `q` on faces, and `r`."""

    def __init__(self, grid: ds.Grid, rules: dict[str, Any], regions: dict[str, np.ndarray], order: int) -> None:
        self.grid, self.dt, self.order, self.regions = grid, 0.1, order, regions
        faces = (0,) * (grid.ndim - 1) + (1,)
        self.states = {
            "a": ds.Variable(rules["a"]),
            "p": self.variable("p", rules["p"]),
            "p_prev": self.variable("p", rules["p"]),
            "q": self.variable("q", rules["q"], faces),
            "r": self.variable("r", rules["p"]),
        }
        inside = {f"in_{name}": ds.Variable(location=faces if name == "q" else None) for name in regions}
        self.parameters = {"k": ds.Variable("mirror"), **inside}

    def variable(self, name: str, rule: Any, location: tuple[int, ...] | None = None) -> ds.Variable:
        """A state that exists where its region is."""
        return ds.Variable(rule, location)

    def only(self, name: str, value: Any, inside: dict[str, Any]) -> Any:
        """The part of a value in the region of its state."""
        return inside[f"in_{name}"] * value

    def step(self, a: Any, p: Any, p_prev: Any, q: Any, r: Any, k: Any, **inside: Any) -> dict[str, Any]:
        last = self.grid.ndim - 1
        push = laplacian(a, order=self.order) + k * p * a
        p_next = 1.5 * p - 0.6 * p_prev + self.dt * (push + p.shifted(0, 1) * r.shifted(last, -1))
        slope = ds.stage(k * (a + p), "zero")
        q_next = 0.7 * q + self.dt * (diff(slope, last) + interpolate(r * a, last))
        r_next = 0.8 * r + 0.1 * p * a.shifted(last, 2) + 0.2 * p_next
        a_next = 0.9 * a + self.dt * (diff(q_next, last, order=self.order) + 0.3 * k * p_next.shifted(0, -1) * r.shifted(last, 1))
        return {
            "a": a_next,
            "p": self.only("p", p_next, inside),
            "p_prev": p,
            "q": self.only("q", q_next, inside),
            "r": self.only("r", r_next, inside),
        }


class Regional(Everywhere):
    """The same, with states that are stored where they exist."""

    def variable(self, name: str, rule: Any, location: tuple[int, ...] | None = None) -> ds.Variable:
        return ds.Variable(rule, location, region=self.regions[name])

    def only(self, name: str, value: Any, inside: dict[str, Any]) -> Any:
        return value


def _blobs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Cells of a few random boxes, which may touch the sides; sometimes all or none."""
    region = np.zeros(shape, bool)
    for _ in range(rng.integers(0, 4)):
        region[tuple(slice(begin, begin + rng.integers(1, n)) for begin, n in zip(rng.integers(-3, shape), shape, strict=True))] = True
    return ~region if rng.uniform() < 0.2 else region


def _pair(seed: int) -> tuple[Everywhere, Regional, dict[str, np.ndarray]]:
    """Two equations that mean the same, and inputs."""
    rng = np.random.default_rng(seed)
    shape = [(41,), (13, 37), (7, 9, 21)][seed % 3]
    names = ("zero", "mirror", "periodic")
    rules = {name: tuple(rng.choice(names) for _ in shape) for name in ("a", "p", "q")}
    regions = {name: _blobs(rng, shape) for name in ("p", "q")}
    regions["r"] = regions["p"] if rng.uniform() < 0.5 else _blobs(rng, shape)
    arguments = (ds.Grid(shape, 1.0), rules, regions, int(rng.choice([2, 4])))
    inputs = {name: rng.uniform(-1, 1, shape) for name in ("a", "p", "p_prev", "q", "r", "k")}
    for name, region in (*regions.items(), ("p_prev", regions["p"])):
        inputs[name] *= region
    return Everywhere(*arguments), Regional(*arguments), inputs | {f"in_{name}": region.astype(float) for name, region in regions.items()}


def _simulation(equation: ds.Equation, **options: Any) -> ds.Simulation:
    where = [[2.3] * equation.grid.ndim, [5.0] * equation.grid.ndim]
    return ds.Simulation(equation, receivers={"a": where, "p": where}, wrt=("a", "p", "p_prev", "q", "r", "k"), **options)


@pytest.mark.gradients
@pytest.mark.parametrize("seed", sampled(range(6), 6))
def test_regions_are_states_multiplied_by_0_outside(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    results = []
    everywhere, regional, inputs = _pair(seed)
    tangents = {name: rng.uniform(-1, 1, everywhere.grid.shape) for name in ("a", "p", "p_prev", "q", "r", "k")}
    cotangents: ds.Solution | None = None
    for equation in (everywhere, regional):
        simulation = _simulation(equation, precision="f64")
        for name, region in regional.regions.items():
            tangents[name] = tangents[name] * region
        tangents["p_prev"] = tangents["p_prev"] * regional.regions["p"]
        solution, pullback = simulation.vjp(inputs, STEPS)
        if cotangents is None:
            cotangents = ds.Solution(
                {name: rng.uniform(-1, 1, value.shape) for name, value in solution.final.items()},
                {name: rng.uniform(-1, 1, value.shape) for name, value in solution.traces.items()},
            )
        gradient = pullback(cotangents)
        _, tangent = simulation.jvp(inputs, tangents, STEPS)
        results.append((solution, gradient, tangent))
    (solution, gradient, tangent), (own, own_gradient, own_tangent) = results
    for name, value in solution.final.items():
        np.testing.assert_allclose(own.final[name], value, rtol=0, atol=1e-13)
        np.testing.assert_allclose(own_tangent.final[name], tangent.final[name], rtol=0, atol=1e-12)
    for name, value in solution.traces.items():
        np.testing.assert_allclose(own.traces[name], value, rtol=0, atol=1e-13)
    for name in tangents:
        region = regional.regions.get(name.removesuffix("_prev"), np.ones(everywhere.grid.shape, bool))
        np.testing.assert_allclose(own_gradient[name][region], gradient[name][region], rtol=0, atol=1e-12)
        assert not own_gradient[name][~region].any()


class Metal(ds.Equation):
    """A field everywhere, and a current in some cells."""

    def __init__(self, shape: tuple[int, ...], region: Any, rule: Any = "zero") -> None:
        self.grid, self.dt = ds.Grid(shape, 1.0), 0.1
        self.states = {"e": ds.Variable("mirror"), "j": ds.Variable(rule, region=region)}
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, e: Any, j: Any, k: Any) -> dict[str, Any]:
        current = 0.9 * j + self.dt * k * e
        return {"e": e + self.dt * (laplacian(e) - current.shifted(0, 1) * e), "j": current}


def _block(shape: tuple[int, ...]) -> np.ndarray:
    region = np.zeros(shape, bool)
    region[3:7, 20:50] = True
    return region


SHAPE = (20, 130)


def test_only_what_exists_is_stored() -> None:
    """Whole chunks of the block: at most 4 rows of 30 cells, with a chunk at each end of a row, and one of zeros."""
    full, part = (ds.Simulation(Metal(SHAPE, region), precision="f64")._stepper for region in (None, _block(SHAPE)))
    row = full.layout.stride * full.layout.lanes * 8
    saved = full.storage.state_bytes() - part.storage.state_bytes()
    assert saved == full.layout.nbytes - part.launcher.field_bytes("j") > 0.8 * full.layout.nbytes
    assert part.launcher.field_bytes("j") <= 4 * row
    assert part.storage.recorded_bytes() <= full.storage.recorded_bytes() and part.storage.working_bytes() < full.storage.working_bytes()
    assert part.launcher.field_bytes("j bar") == part.launcher.field_bytes("j") < part.launcher.field_bytes("e bar")


@pytest.mark.parametrize(
    "schedule", [3, MultiTier(12, (Tier("device", 2), Tier("host", 2), Tier("disk", 4, 2.0, 1.0)))], ids=["slots", "tiers"]
)
def test_checkpoints_of_regions_give_the_same_gradient(schedule: Any) -> None:
    rng = np.random.default_rng(0)
    simulation = ds.Simulation(Metal(SHAPE, _block(SHAPE)), receivers={"j": [[4.0, 25.0], [10.0, 25.0]]}, precision="f64")
    inputs = {name: rng.uniform(0, 1, SHAPE) for name in ("e", "j", "k")}
    gradients = []
    for checkpoint in (12, schedule):
        solution, pullback = simulation.vjp(inputs, 12, checkpoint)
        assert not solution.final["j"][~_block(SHAPE)].any() and not solution.traces["j"][:, 1].any()
        gradients.append(pullback(ds.Solution({"e": np.sin(solution.final["e"])}, {"j": np.cos(solution.traces["j"])})))
    for name, value in gradients[0].items():
        np.testing.assert_array_equal(value, gradients[1][name])


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        (lambda: Metal(SHAPE, np.zeros((3, 4), bool)), r"j of Metal has a region of shape \(3, 4\), expected \(20, 130\)"),
        (lambda: Metal(SHAPE, np.ones(SHAPE)), "region = .*, expected True or False for each cell of the grid"),
        (
            lambda: Metal(SHAPE, _block(SHAPE), ds.Dirichlet(2.0)),
            "j has a region, and a boundary rule that gives it values where it does not",
        ),
        (
            lambda: Metal(SHAPE, np.arange(20)[:, None] + np.zeros(130) < 1, ds.Extrapolate(1)),
            "j has a region, and .* in it and others at once",
        ),
    ],
)
def test_wrong_regions_are_refused(equation: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        ds.Simulation(equation())


def test_a_region_is_for_states() -> None:
    equation = Metal(SHAPE, None)
    equation.parameters = {"k": ds.Variable("mirror", region=_block(SHAPE))}
    with pytest.raises(ShapeError, match="k of Metal has a region, expected one for states only; leave it out"):
        ds.Simulation(equation)


class Chain(ds.Equation):
    """States of two regions of which each reads what the other overwrites, and one that reads an earlier value."""

    def __init__(self, shape: tuple[int, ...], one: np.ndarray, other: np.ndarray, read: bool) -> None:
        self.grid, self.dt, self.read = ds.Grid(shape, 1.0), 0.1, read
        self.states = {name: ds.Variable(region=one) for name in ("a", "c", "c_prev")} | {
            "b": ds.Variable(region=other),
            "q": ds.Variable(),
        }
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, a: Any, b: Any, c: Any, c_prev: Any, q: Any, k: Any) -> dict[str, Any]:
        return {
            "a": 0.9 * a + 0.1 * b,
            "b": 0.5 * b + c_prev,
            "c": 1.5 * c - 0.6 * c_prev,
            "c_prev": c,
            "q": q + k * (c_prev if self.read else c),
        }


@pytest.mark.parametrize("read", [False, True])
def test_states_of_two_regions_read_what_the_other_overwrites(read: bool) -> None:
    """Against numbers, at a cell of both regions; the gradient for an earlier value is 0 where it does not exist.

    If a state everywhere reads what is overwritten, it is loaded before all.
    """
    one, other = np.zeros((8, 40), bool), np.zeros((8, 40), bool)
    one[2:6, 3:30] = other[3:7, 5:35] = True
    simulation = ds.Simulation(Chain((8, 40), one, other, read), precision="f64")
    assert simulation._stepper.adjoint is not None and simulation._stepper.adjoint.delayed
    solution, pullback = simulation.vjp(dict.fromkeys(simulation.inputs, np.ones((8, 40))), 4)
    a = b = c = before = 1.0
    for _ in range(4):
        a, b, c, before = 0.9 * a + 0.1 * b, 0.5 * b + before, 1.5 * c - 0.6 * before, c
    assert [solution.final[name][4, 10] for name in "abc"] == pytest.approx([a, b, c], rel=1e-14)
    gradient = pullback(ds.Solution({"q": np.ones((8, 40))}))
    for name in ("c", "c_prev"):
        assert gradient[name][4, 10] != 0 and not gradient[name][~one].any()


def test_regions_tell_runs_apart() -> None:
    """The key by which a killed sweep is resumed is made of this text."""
    one, other = Region(np.eye(4, dtype=bool)), Region(~np.eye(4, dtype=bool))
    assert repr(one) != repr(other) and one != other
    assert repr(one) == repr(Region(np.eye(4, dtype=bool))) and one == Region(np.eye(4, dtype=bool))
