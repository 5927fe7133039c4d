"""Shallow water whose steps are cut into as many parts as the flow needs."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import DivergenceError, ParameterError, StabilityError, StillWarning
from diffsim.solvers import ShallowWater
from tests.solvers.test_shallow_water import ROUND_OFF, G, beach, of_the_beach, ritter

X = 0.5 * np.arange(200) - 49.75
DAM = {"z": np.zeros(200), "eta": np.where(X < 0, 5.0, 0.0)}
WALL = {"z": np.zeros(200), "eta": np.where(X < 0, 90.0, 0.0)}
FALL = {"z": -2.0 * X, "eta": 4.0 - 2.0 * X}  # 4 m of water on a slope of 2 : 1


@pytest.fixture(scope="module")
def valley() -> ds.Simulation:
    """Steps of 0.25 s, of which one part may take 0.02 s where a dam of 5 m breaks."""
    equation = ShallowWater(ds.Grid((200,), 0.5, -49.75), 0.25, substeps=40)
    return ds.Simulation(equation, receivers={"eta": [[10.0]]}, wrt=["eta"], precision="f64")


def test_a_dam_breaks_as_with_steps_of_one_length(valley: ds.Simulation) -> None:
    """Ritter's solution after 3 s, for which steps of one length need 0.0125 s; samples are 0.25 s apart all the same."""
    solution = valley.run(DAM, 12)
    h = solution.final["eta"]
    assert np.abs(h - ritter(X, 3.0, 5.0)).mean() < 0.0105 and h.min() >= 0
    assert h.sum() == pytest.approx(DAM["eta"].sum(), rel=ROUND_OFF)
    exact = [ritter(np.array([10.0]), 0.25 * k, 5.0)[0] for k in range(6, 13)]  # behind the front, which passes before 1.25 s
    np.testing.assert_allclose(solution.traces["eta"][6:, 0], exact, atol=0.04)


def test_a_run_goes_on_where_steps_of_one_length_grow_without_bound(valley: ds.Simulation) -> None:
    plain = ds.Simulation(ShallowWater(ds.Grid((200,), 0.5, -49.75), 0.25, fastest=1.0), wrt=[], precision="f64")
    with pytest.raises((StabilityError, DivergenceError)):
        plain.run(DAM, 60)
    long = valley.run(DAM, 400).final  # 100 s: the water has come back from both walls, and slowed down
    assert long["eta"].sum() == pytest.approx(DAM["eta"].sum(), rel=ROUND_OFF) and long["eta"].min() > -ROUND_OFF


def test_a_lake_stays_at_rest_over_a_rough_bed_with_dry_land(valley: ds.Simulation) -> None:
    z = np.random.default_rng(0).uniform(-1.0, 0.5, 200)
    final = valley.run({"z": z, "eta": np.zeros(200)}, 40).final
    assert max(np.abs(final["eta"] - np.maximum(z, 0.0)).max(), np.abs(final["qx"]).max()) < ROUND_OFF


def test_the_gradient_is_that_of_differences(valley: ds.Simulation) -> None:
    """The number of parts stays the same along these directions, and with it the loss is smooth."""

    def loss(found: ds.Solution) -> Any:
        return ((found.traces["eta"] - 1.0) ** 2).sum() + (found.final["qx"] ** 2).sum()

    rng = np.random.default_rng(1)
    point = {"z": np.zeros(200), "eta": 2.0 + np.exp(-(((X - 5) / 8) ** 2)) + 0.05 * rng.normal(size=200)}
    value, gradient = valley.value_and_grad(loss, point, 12)
    again, few = valley.value_and_grad(loss, point, 12, checkpoint=3)
    assert again == value and np.array_equal(gradient["eta"], few["eta"])
    for _ in range(3):
        way = rng.normal(size=200)
        high, low = (float(loss(valley.run(point | {"eta": point["eta"] + h * way}, 12))) for h in (1e-7, -1e-7))
        assert gradient["eta"] @ way == pytest.approx((high - low) / 2e-7, rel=1e-5)


def test_water_that_needs_more_parts_says_so(valley: ds.Simulation) -> None:
    with pytest.raises(StabilityError, match=r"dt = 0.25 s exceeds the stable 0.2 s for waves of 40 m/s, .*, substeps = 40"):
        ShallowWater(valley.equation.grid, 0.25, substeps=40, fastest=40.0).check({"z": np.zeros(200)})
    with pytest.raises(StabilityError, match=r"for \|v\| \+ sqrt\(g h\) = 38.73 m/s at the start of the run, substeps = 40; lower dt"):
        valley.run({"z": np.zeros(200), "eta": np.full(200, 152.9)}, 2)
    with pytest.raises(
        DivergenceError, match=r"needed 75 .* dt = 0.25 s is cut into at most 40 parts, .* enough where .* is at most 32 m/s"
    ):
        valley.run(WALL, 1)  # at rest 37 parts are enough, and twice as many once it runs


@pytest.mark.parametrize(("inputs", "step"), [(FALL, 5), (WALL, 1)])
def test_a_run_that_needs_more_parts_ends_whatever_is_recorded(valley: ds.Simulation, inputs: dict[str, Any], step: int) -> None:
    """Many steps after the one that needs more, and without receivers: the levels alone would look dry, and the loss would be finite."""
    unseen = ds.Simulation(valley.equation, wrt=["eta"], precision="f64")
    why = rf"no longer finite after 40 steps: .* Step {step} of 40 needed \d+ laps of a loop that has at most 40. dt = .*more `substeps`"
    for run in (unseen, valley):
        with pytest.raises(DivergenceError, match=why):
            run.run(inputs, 40)
    with pytest.raises(DivergenceError, match=why):
        unseen.value_and_grad(lambda found: (found.final["eta"] ** 2).sum(), inputs, 40)


def test_land_below_the_level_0_needs_no_parts_for_water_that_is_not_there(valley: ds.Simulation) -> None:
    z = np.full(200, -152.8)
    with pytest.warns(StillWarning, match="all cells are dry"):
        dry = valley.run({"z": z, "eta": z}, 2)
    np.testing.assert_array_equal(dry.final["eta"], z)


def test_on_the_sphere_narrow_cells_count_with_the_flow_that_is_there() -> None:
    """4 km of water at the equator, 100 m at 80 degrees, where cells are a sixth as wide. Rows of 1/dx by hand."""
    grid = ds.Grid((80, 30), 1.0, (0.5, 0.5))
    latitude = grid.coordinates(0)
    z = np.where(latitude < 20, -4000.0, -100.0)[:, None] + np.zeros(grid.shape)
    still = {name: np.zeros(grid.shape) for name in ("eta", "qx", "qy")}
    narrow = np.diff(np.sin(np.radians(np.arange(81)))) / np.radians(1)  # mean cosine of a row
    rate = (np.sqrt(-G * z[:, 0]) * (1 + 1 / narrow)).max() / (np.radians(1) * 6.371e6)  # 1/s
    for dt, enough in ((0.999 * 0.4 * 5 / rate, True), (1.001 * 0.4 * 5 / rate, False)):
        equation = ShallowWater(grid, dt, ("wall", "periodic"), coordinates="sphere", substeps=5)
        with nullcontext() if enough else pytest.raises(StabilityError, match="at the start of the run, substeps = 5"):
            equation.check_start({"z": z}, still)


def test_a_flow_that_becomes_much_faster_within_a_step_says_so() -> None:
    """Half a metre of water at rest on a slope of 1 : 1, in steps of 2 s: in the end it runs at 20 m/s."""
    hill = ds.Simulation(ShallowWater(ds.Grid((60,), 1.0), 2.0, substeps=400), wrt=[], precision="f64")
    z = 60.0 - np.arange(60.0)
    with pytest.raises(DivergenceError, match=r"the flow became more than 2.5 times as fast within a step: lower dt"):
        hill.run({"z": z, "eta": z + 0.5}, 1)


def test_substeps_of_a_wrong_kind_are_refused() -> None:
    with pytest.raises(ParameterError, match="substeps = 0, expected a whole number"):
        ShallowWater(ds.Grid((6,), 1.0), 0.1, substeps=0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["euler", "rk2", "rk3"])
def test_the_certificate_at_a_shore_a_gauge_dry_land_and_sides(method: Any) -> None:
    """A beach that rises with a tide; the certificate's points keep the number of parts."""
    options: Any = {"drag": "manning", "uplift": True, "thin": 0.05, "negligible": 0.05, "substeps": 12}
    equation = ShallowWater(ds.Grid((40,), 1.0, 0.5), 0.6, (("tide", "open"),), method, **options)
    run, inputs = ds.Simulation(equation, receivers={"eta": [[10.0], [25.0], [34.5]]}, precision="f64"), beach()[1]
    report = ds.certify(run, of_the_beach, inputs | {"tide": inputs["tide"][:10]}, 10, seed=1)
    assert report.passed, report


@pytest.mark.slow
def test_on_the_sphere_a_step_is_its_parts() -> None:
    """A hump on a rough sea with a tide and drag, that turns with the Earth: three parts of each step are three steps."""
    grid = ds.Grid((24, 30), 0.5, (20.25, 0.25))
    lat, lon = grid.coordinates(0)[:, None], grid.coordinates(1)[None]
    inputs = {"z": -3000.0 + 200 * np.sin(lat) * np.cos(lon), "eta": 2 * np.exp(-((lat - 26) ** 2 + (lon - 7) ** 2) / 4)}
    inputs |= {"manning": np.full(grid.shape, 0.03)}
    options: Any = {"coordinates": "sphere", "coriolis": "earth", "negligible": 1.0, "drag": "manning"}
    tide, final = 0.1 * np.sin((np.arange(20)[:, None] + 0.5) * 0.1) + np.zeros(24), {}
    for parts in (1, 3):
        sea = ds.Simulation(
            ShallowWater(grid, 50.0 * parts, ("wall", ("tide", "wall")), substeps=parts, **options), wrt=[], precision="f64"
        )
        final[parts] = sea.run(inputs | {"tide": np.repeat(tide, 3 // parts, axis=0)}, 60 // parts).final
    for name, value in final[1].items():
        np.testing.assert_allclose(final[3][name], value, rtol=0, atol=1e-11 * np.abs(value).max(), err_msg=name)


def test_a_wall_of_water_runs_off_at_twice_the_speed_of_its_waves() -> None:
    """So the parts of the first step are half as long as the waves at rest would need."""
    equation = ShallowWater(ds.Grid((200,), 0.5, -49.75), 0.05, substeps=8)  # 0.05 s 2 sqrt(g 5 m) / (0.4 x 0.5 m) = 3.5
    run = ds.Simulation(equation, wrt=[], precision="f64")
    fixed = ds.Simulation(ShallowWater(ds.Grid((200,), 0.5, -49.75), 0.0125, fastest=2 * np.sqrt(5 * G)), wrt=[], precision="f64")
    np.testing.assert_array_equal(run.run(DAM, 1).final["eta"], fixed.run(DAM, 4).final["eta"])


@pytest.mark.parametrize("shape", [(9,), (6, 9)])
@pytest.mark.parametrize("uplift", [False, True])
def test_a_speed_below_that_of_the_water_at_the_start_is_refused(shape: tuple[int, ...], uplift: bool) -> None:
    """Lakes over random beds at levels above and below 0, in steps that are stable for all of them; dry beds below 0 have no water."""
    rng, zero = np.random.default_rng(len(shape)), np.zeros(shape)
    for level in (-30.0, 0.0, 12.0):
        z = level - rng.uniform(-1.0, 4.0, shape)
        risen = rng.uniform(-1.0, 1.0, shape) if uplift else zero
        speed = float(np.sqrt(G * np.maximum(level - z - np.maximum(risen, 0.0), 0.0).max()))
        bed = {"z": z, "uplift": risen, "start": zero, "rise": zero + 1} if uplift else {"z": z}
        still = {"eta": np.full(shape, level), **dict.fromkeys(("qx", "qy")[: len(shape)], zero)}
        for part, substeps, right in ((0.5, 1, False), (0.97, 1, False), (0.995, 1, True), (1.5, 1, True), (0.5, 20, True)):
            sea = ShallowWater(ds.Grid(shape, 10.0), 0.1, uplift=uplift, fastest=part * speed, substeps=substeps)
            if right:
                sea.check_start(bed, still)
                continue
            with pytest.raises(ParameterError) as error:
                sea.check_start(bed, still)
            assert f"fastest = {part * speed:.4g} m/s is less than sqrt(g h) = {speed:.4g} m/s of the water" in str(error.value)
        ShallowWater(ds.Grid(shape, 10.0), 0.1, uplift=uplift, fastest=0.01).check_start(bed, still | {"eta": z - 2.0})
    lake = ds.Simulation(ShallowWater(ds.Grid((9,), 10.0), 0.1, fastest=5.0), wrt=[], precision="f64")
    with pytest.raises(ParameterError, match=r"fastest = 5 m/s is less than sqrt\(g h\) = 8\.859 m/s .* give the largest"):
        lake.run({"z": np.full(9, -2.0), "eta": np.full(9, 6.0)}, 3)
