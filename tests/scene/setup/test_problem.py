"""Assembly, data and loss of small scenes."""

import copy

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import SceneError
from diffsim.mesh.grid import Grid
from diffsim.scene import Scene
from diffsim.scene.setup.grids import build_grid, refined
from diffsim.scene.shots.truth import averaged, true_fields
from tests.scene.tiny import ACOUSTIC, HEAT, WAVE, scene


def test_refined_grid_covers_the_same_region():
    grid = Grid((8, 5), (2.0, 3.0), (1.0, -4.0))
    fine = refined(grid, 1.5)
    assert fine.shape == (12, 8)
    for axis in range(2):
        ends = [(g.coordinates(axis)[0] - g.spacing[axis] / 2, g.coordinates(axis)[-1] + g.spacing[axis] / 2) for g in (grid, fine)]
        np.testing.assert_allclose(ends[1], ends[0], rtol=1e-13)


def test_averages_keep_the_integral_and_a_linear_field():
    coarse = Grid((8, 5), (2.0, 3.0))
    fine = refined(coarse, 1.5)
    values = np.random.default_rng(0).standard_normal(fine.shape)
    np.testing.assert_allclose(averaged(values, fine, coarse).sum() * coarse.cell_volume, values.sum() * fine.cell_volume, rtol=1e-12)
    np.testing.assert_allclose(averaged(np.ones(fine.shape), fine, coarse), 1.0, rtol=1e-13)
    z = np.broadcast_to(coarse.coordinates(0)[:, None], coarse.shape)
    double = refined(coarse, 2.0)
    np.testing.assert_allclose(
        averaged(np.broadcast_to(double.coordinates(0)[:, None], double.shape), double, coarse), z, rtol=1e-12, atol=1e-12
    )


def test_grid_of_a_data_set():
    grid = build_grid(scene(ACOUSTIC, grid={"shape": [10, 20], "like": "matplotlib:topobathy"}).grid)
    np.testing.assert_allclose([grid.coordinates(0)[-1], grid.coordinates(1)[0]], [49.98418, 234.01669], rtol=1e-6)
    with pytest.raises(SceneError, match=r"grid.like: expected .* two cells or more, found .* along axis 0 and 1 cells; give spacing"):
        build_grid(scene(ACOUSTIC, grid={"shape": [1, 20], "like": "matplotlib:topobathy"}).grid)


@pytest.mark.parametrize("base", [ACOUSTIC, HEAT], ids=["traces", "final"])
def test_without_noise_and_refinement_the_truth_fits_exactly(base):
    fitting = scene(base, truth__refine=1.0, truth__noise=0.0, penalty=[]).objective("f64")
    at_truth = fitting.problem.unknowns.join(true_fields(fitting.problem.scene, fitting.problem.setup))
    value, gradient = fitting(at_truth)
    assert value < 1e-25
    assert np.abs(gradient).max() < 1e-12
    assert fitting(fitting.problem.theta)[0] > 1e-4


def test_data_from_the_finer_grid_are_close_but_not_the_same(acoustic):
    problem = acoustic.problem
    clean = scene(ACOUSTIC, truth__noise=0.0, penalty=[]).objective("f64")
    at_truth = problem.unknowns.join(true_fields(problem.scene, problem.setup))
    committed, start = clean(at_truth)[0], clean(problem.theta)[0]
    assert 1e-8 < committed < 0.5 * start


def test_noise_has_its_size_and_its_seed(acoustic):
    clean = scene(ACOUSTIC, truth__noise=0.0).objective("f64").observed.traces["p"]
    noisy = acoustic.observed
    expected = 0.02 * np.sqrt(np.mean(clean**2))
    assert noisy.noise["traces", "p"] == pytest.approx(expected, rel=1e-12)
    assert np.std(noisy.traces["p"] - clean) == pytest.approx(expected, rel=0.15)
    again, other = (scene(ACOUSTIC, seed=seed).objective("f64").observed.traces["p"] for seed in (3, 4))
    np.testing.assert_array_equal(again, noisy.traces["p"])
    assert not np.array_equal(other, again)


def test_shots_add(acoustic):
    theta = acoustic.problem.theta + 0.1
    whole = acoustic.evaluate(theta)
    assert whole.predicted["traces", "p"].shape == (2, 25, 5)
    together = scene(ACOUSTIC, sources__f__fire="together").objective("f64").evaluate(theta)
    assert together.predicted["traces", "p"].shape == (1, 25, 5)
    # the equation is linear in its sources
    np.testing.assert_allclose(whole.predicted["traces", "p"].sum(axis=0), together.predicted["traces", "p"][0], rtol=1e-10, atol=1e-22)


def test_value_alone_has_the_bits_of_value_with_gradient(acoustic, heat, wave):
    for objective in (acoustic, heat, wave):
        theta = objective.problem.theta + 0.05
        assert objective.value(theta) == objective(theta)[0]


@pytest.mark.parametrize("normalise", [True, False])
def test_weights_count(normalise):
    """Each misfit has its own weight, in the value and in the gradient."""
    misfits = [{"of": "traces", "state": "p", "weight": w, "normalise": normalise} for w in (1.0, 3.5)]
    objective = scene(ACOUSTIC, misfit=misfits, penalty=[]).objective("f64")
    evaluation = objective.evaluate(objective.problem.theta)
    first, second = evaluation.parts.values()
    assert second == pytest.approx(3.5 * first, rel=1e-12)
    alone = scene(ACOUSTIC, misfit=misfits[:1], penalty=[]).objective("f64").evaluate(objective.problem.theta)
    assert first == alone.value > 0
    np.testing.assert_allclose(evaluation.gradient, 4.5 * alone.gradient, rtol=1e-9, atol=1e-12 * np.abs(evaluation.gradient).max())
    residual = evaluation.predicted["traces", "p"] - objective.observed.traces["p"]
    size = np.sum(objective.observed.traces["p"] ** 2) if normalise else 2.0
    assert first == pytest.approx(np.sum(residual**2) / size, rel=1e-10)


def test_penalties_are_means_over_free_cells(wave):
    """So a weight keeps its meaning on another grid."""
    coarse = scene(WAVE, penalty=[{"type": "tikhonov", "unknown": "eta0", "weight": 2.0}], unknowns__eta0__smooth=0.0).problem("f64")
    regulariser = coarse.penalties["tikhonov of eta0"][1]
    assert regulariser(np.full(coarse.setup.grid.shape, 3.0)) == pytest.approx(0.5 * 2.0 * 9.0)


def test_regions(heat):
    problem = heat.problem
    assert problem.unknowns.slices["kappa"].stop - problem.unknowns.slices["kappa"].start == 2
    fields = problem.unknowns.split(problem.theta)
    np.testing.assert_allclose(fields["kappa"], 0.5)


REFUSED = [
    (ACOUSTIC, {"time__dt": 5e-3}, "time.dt: dt = 0.005 s exceeds the stable"),
    (ACOUSTIC, {"truth__fields__c__constant": 20000.0}, "time.dt over truth.refine: dt = "),
    (ACOUSTIC, {"unknowns__c__start__constant": -1.0}, "unknowns.c.start: wave speed c has a value of -1 m/s, expected positive"),
    (WAVE, {"fields__H__constant": 900.0}, "fields.H: depth H has a value of -100 m, expected zero or more"),
    (WAVE, {"fields": {}}, "fields.H: expected a field"),
    (WAVE, {"fields__h": {"constant": 1.0}}, "fields.h: expected one of H, eta0, found 'h'; did you mean H?"),
    (ACOUSTIC, {"sources__g": ACOUSTIC["sources"]["f"] | {"fire": "together"}}, "sources.g: expected one of f, found 'g'"),
    (ACOUSTIC, {"receivers__q": {"points": [[40.0, 40.0]]}}, "receivers.q: expected one of p, p_prev, found 'q'"),
    (ACOUSTIC, {"sources__f__points__0": [40.0, -1.0]}, "sources.f: source 0 at (40.0, -1.0) lies outside the grid"),
    (ACOUSTIC, {"receivers__p__points": [[40.0, 400.0]]}, "receivers.p: receiver 0 at (40.0, 400.0) lies outside the grid"),
    (
        WAVE,
        {"receivers__eta__points__1": [3000.0, 7300.0]},
        "receivers.eta: point 1, expected a place where the states change, found land at",
    ),
    (ACOUSTIC, {"checkpoint__memory": "1 B"}, "checkpoint.memory: "),
    (ACOUSTIC, {"checkpoint__memory": "much"}, "checkpoint.memory: "),
    (ACOUSTIC, {"checkpoint__disk": "much"}, "checkpoint.disk: expected an amount of memory"),
    (ACOUSTIC, {"checkpoint": {"disk": "1 B", "schedule": "spilling"}}, "checkpoint.memory: expected room for a state"),
    (HEAT, {"checkpoint": {"schedule": "reversible"}}, "checkpoint.schedule: expected a step that can be undone"),
    (ACOUSTIC, {"checkpoint": {"disk": "1 MB", "compression": 0.7, "verify": False}}, "checkpoint.compression: expected a relative_error"),
    (
        ACOUSTIC,
        {"unknowns__d": ACOUSTIC["unknowns"]["c"], "truth__fields__d": {"constant": 1.0}, "accept": []},
        "unknowns.d: expected one of c, p",
    ),
    (ACOUSTIC, {"truth__fields": {}}, "truth.fields.c: expected the hidden truth"),
    (
        ACOUSTIC,
        {"unknowns__kappa": ACOUSTIC["unknowns"]["c"], "accept": []},
        "unknowns.kappa: expected one of c, p, p_prev, f, found 'kappa'",
    ),
    (ACOUSTIC, {"unknowns__c__start": None}, "unknowns.c.start: expected a field to start from"),
    (ACOUSTIC, {"misfit__0__state": "q"}, "misfit[0].state: expected a state with receivers (p), found 'q'"),
    (HEAT, {"misfit__0__state": "S"}, "misfit[0].state: expected one of T, found 'S'"),
    (ACOUSTIC, {"penalty__0__unknown": "d"}, "penalty[0].unknown: expected one of c, found 'd'"),
    (ACOUSTIC, {"accept__1__of": "d"}, "accept[1].of: expected one of c, found 'd'"),
    (ACOUSTIC, {"unknowns__c__lower": 2100.0}, "unknowns.c: "),
    (ACOUSTIC, {"unknowns__c__smooth": 2.0}, "unknowns.c: smooth: expected no bounds"),
    (ACOUSTIC, {"equation__sponge": 9}, "equation: sponge = 9 cells, expected 0 to 7"),
]


@pytest.mark.parametrize(
    ("base", "changes", "expected"), REFUSED, ids=lambda v: next(iter(v)) if isinstance(v, dict) and "grid" not in v else ""
)
def test_scenes_that_cannot_be(base, changes, expected):
    with pytest.raises(SceneError) as caught:
        scene(base, **changes).objective("f64")
    assert str(caught.value).startswith(expected)
    assert ";" in str(caught.value)


def test_data_that_are_all_zero():
    with pytest.raises(SceneError, match=r"misfit\[0\]: expected data that are not all zero, found none"):
        scene(ACOUSTIC, time__steps=2, checkpoint={}, sources__f__wavelet__amplitude=0.0, truth__noise=0.0).objective("f64")


def test_sources_and_receivers_between_cells_by_sincs():
    """As a simulation with such points records them, and above the first centres, below a free surface, alone or side by side."""
    table = copy.deepcopy(ACOUSTIC)
    table["equation"] = {"type": "acoustic", "order": 4, "boundary": "odd_image"}
    table["sources"]["f"] |= {"points": [[-3.0, 33.0], [101.0, 38.0]], "interpolation": "sinc"}
    table["receivers"]["p"] = {"points": [[-2.0, 111.0]], "interpolation": "sinc"}
    setup = Scene(**table).problem("f64").setup
    inputs = {"c": np.full(setup.grid.shape, 2000.0)}
    traces = [solution.traces["p"] for solution in setup.predict(inputs)]
    one = ds.Simulation(
        setup.equation,
        sources={"f": ds.Points([[-3.0, 33.0]], "sinc")},
        receivers={"p": ds.Points([[-2.0, 111.0]], "sinc")},
        precision="f64",
    )
    for number, place in enumerate(table["sources"]["f"]["points"]):
        one.move(sources={"f": ds.Points([place], "sinc")})
        np.testing.assert_array_equal(one.run(inputs | dict(setup.shots[number].amplitudes), setup.steps).traces["p"], traces[number])
    table["receivers"]["p"]["interpolation"] = "linear"
    with pytest.raises(SceneError, match=r"receivers\.p: .*lies outside the grid"):
        Scene(**table).problem("f64")


@pytest.mark.parametrize("name", ["wind", "beta", "nu", "drag"])
def test_a_wrong_parameter_among_several_is_named_by_its_key(name):
    """Whatever parameter is of the whole grid, and comes first."""
    fields = {field: {"constant": 1e-12} for field in ("wind", "beta", "nu", "drag")}
    gyre = {
        "grid": {"shape": [7, 7], "spacing": 1e4},
        "time": {"dt": 100.0, "steps": 4},
        "equation": {"type": "quasi_geostrophic"},
        "receivers": {"psi": {"points": [[2e4, 2e4]]}},
        "unknowns": {"psi": {"start": {"constant": 0.0}}},
        "truth": {"fields": {"psi": {"gaussians": [{"centre": [3e4, 3e4], "width": 1e4, "amplitude": 1.0}]}}},
        "misfit": [{"of": "traces", "state": "psi"}],
    }
    wrong = gyre | {"fields": fields | {name: {"constant": -1.0 if name in ("nu", "drag") else 1e39}}}
    with pytest.raises(SceneError, match=rf"^fields\.{name}: ({name} has|expected)"):
        scene(wrong).problem("f32")


@pytest.mark.parametrize("fast", [0.0, 1.0])
def test_checks_see_values_of_sides_at_each_cell(fast):
    """The velocity on a side, a value for each cell along it, is compared with the time step on a grid that is not square too."""
    bump = {"constant": 0.05, "gaussians": [{"centre": [250.0], "width": 60.0, "amplitude": fast}]}
    dye = scene(
        HEAT,
        grid={"shape": [6, 9], "spacing": 100.0},
        equation={"type": "advection", "sides": "outflow"},
        time={"dt": 450.0, "steps": 3},
        fields={"u": {"constant": 0.05}, "v": {"constant": 0.02}, "u_low": bump, "v_low": {"constant": 0.02}},
        unknowns={"c": {"start": {"constant": 0.0}}},
        truth={"fields": {"c": {"constant": 1.0}}},
        misfit=[{"of": "final", "state": "c"}],
        penalty=[],
    )
    if fast:
        with pytest.raises(SceneError, match=r"time.dt: dt = 450 s exceeds the stable"):
            dye.objective("f64")
    else:
        assert np.isfinite(dye.objective("f64")(np.zeros(54))[0])
