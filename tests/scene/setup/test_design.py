"""Designs: the transmission of a mode, densities that become binary, and keys that scenes of designs refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffsim.errors import SceneError
from diffsim.photonics import Monitors, Plane, mode_source, slab_mode
from diffsim.scene import Outcome, Scene
from diffsim.scene.search.objective import Objective
from diffsim.scene.shots.truth import observe
from tests.scene.tiny import ACOUSTIC
from tests.scene.tiny import scene as tiny

EXACT = 1e-12
STEPS = 170
MODE = {"axis": "x", "at": 0.7, "frequency": 1.0}
PACKET = {"type": "packet", "frequency": 1.0, "width": 0.8}
OUT = {"axis": "y", "at": 2.5}
CORNER: dict[str, Any] = {
    "constant": 1.0,
    "boxes": [
        {"lower": [1.2, 0.0], "upper": [1.6, 2.4], "amplitude": 3.0},
        {"lower": [1.6, 2.0], "upper": [3.2, 2.4], "amplitude": 3.0},
    ],
}
"""A waveguide that turns."""


def bend(**changes: Any) -> Scene:
    """A design on a coarse grid."""
    tables: dict[str, Any] = {
        "grid": {"shape": [32, 32], "spacing": 0.1, "axes": ["y", "x"], "origin": [0.05, 0.05]},
        "time": {"dt": 0.068, "steps": STEPS},
        "equation": {"type": "maxwell", "layer": 5, "layer_frequency": 1.0},
        "sources": {"Jz": {"mode": MODE, "wavelet": PACKET}},
        "monitors": {"sent": {"axis": "x", "at": 1.0}, "out": OUT},
        "unknowns": {
            "eps": {
                "type": "density",
                "start": CORNER,
                "lower": 1.0,
                "upper": 4.0,
                "radius": 1.2,
                "mask": {"lower": [0.8, 1.2], "upper": [2.2, 2.6]},
            }
        },
        "maximise": [{"type": "transmission", "of": "out", "over": "sent", "frequency": 1.0}],
        "optimise": {"iterations": 6},
        "stage": [{}, {"steepness": {"eps": 8.0}}],
        "accept": [{"quantity": "transmission", "at_least": 0.2}, {"quantity": "feature_size", "at_least": 1}],
    }
    return Scene(**{key: value for key, value in (tables | changes).items() if value is not None})


def test_the_loss_is_that_of_the_photonics_functions() -> None:
    """And its gradient that of a Taylor expansion; the answer is binary, better, and the same after a resume."""
    scene = bend()
    problem = scene.problem("f64")
    light, grid = problem.setup.equation, problem.setup.grid
    eps = problem.start["eps"]
    y, x = grid.coordinates(0)[:, None], grid.coordinates(1)[None, :]
    plain = np.where(((y > 1.2) & (y < 1.6) & (x < 2.4)) | ((y > 1.2) & (x > 2.0) & (x < 2.4)), 4.0, 1.0)
    watch = Monitors(light, [1.0], sent=Plane("x", 1.0), out=Plane("y", 2.5))
    sent, out = (slab_mode(light, axis, cut, 1.0) for axis, cut in (("x", plain[:, 10]), ("y", plain[25])))
    late = light.dt * np.arange(STEPS) - 4.0
    wavelet = np.cos(2 * np.pi * late) * np.exp(-0.5 * (late / 0.8) ** 2)
    source = mode_source(light, "x", 0.7, slab_mode(light, "x", plain[:, 7], 1.0), wavelet)
    assert np.array_equal(source.amplitudes["Jz"], problem.setup.shots[0].amplitudes["Jz"])
    assert np.array_equal(source.places["Jz"], problem.setup.shots[0].sources["Jz"])
    (solution,) = problem.setup.predict({"eps": eps})
    power = [abs(complex(watch.amplitudes(solution, name, mode)[0])) ** 2 for name, mode in (("out", out), ("sent", sent))]
    objective = Objective(problem, observe(scene, problem.setup))
    rng = np.random.default_rng(2)
    loss, gradient = objective(problem.theta)
    assert loss == pytest.approx(1 - power[0] / power[1], rel=EXACT)
    middle = np.clip(problem.theta, 0.2, 0.8)
    value, gradient = objective(middle)
    direction, h = rng.standard_normal(middle.size), 1e-5
    slope = (objective.value(middle + h * direction) - objective.value(middle - h * direction)) / (2 * h)
    assert slope == pytest.approx(gradient @ direction, rel=1e-6) and value > 0


@pytest.mark.slow
def test_a_design_is_better_and_binary(tmp_path: Path) -> None:
    outcome = bend().run(tmp_path, precision="f64")
    ((before, after),) = outcome.measured.values()
    eps, free = outcome.unknowns["eps"].answer, outcome.unknowns["eps"].mask
    assert set(np.unique(eps)) == {1.0, 4.0} and free is not None and not np.array_equal(eps[free], outcome.unknowns["eps"].start[free])
    assert after > 3 * before and outcome.passed and outcome.losses[1] == pytest.approx(1 - after)
    assert outcome.accepted[0].value == after
    assert not outcome.traces and not outcome.sources and set(outcome.lines) == {"mode of Jz", "monitor sent", "monitor out"}
    assert set(outcome.snapshots) == {"Ez"} and {row.stage for row in outcome.history} == {1, 2}
    first, second = (next(row.loss for row in outcome.history if row.stage == stage) for stage in (1, 2))
    assert second < 0.9 * first  # the second stage goes on from the densities of the first
    again = Outcome.load(tmp_path)
    assert again.measured == outcome.measured and np.array_equal(again.lines["mode of Jz"], outcome.lines["mode of Jz"])
    resumed = bend().run(tmp_path, precision="f64", resume=True)
    assert np.array_equal(resumed.unknowns["eps"].answer, eps)


PROBLEMS: list[tuple[dict[str, Any], str]] = [
    ({"maximise": []}, "expected [[misfit]], which compares with data, or [[maximise]] or [[minimise]] for a design, found neither"),
    ({"misfit": [{"of": "traces", "state": "Ez"}]}, "for a design, found both; give one"),
    ({"monitors": {}}, "expected [monitors.NAME] together with [[maximise]]"),
    ({"truth": {"fields": {"eps": CORNER}}}, "expected no truth with [[maximise]], for a design has no data, found it; drop truth"),
    (
        {"maximise": [{"type": "transmission", "of": "ot", "over": "sent", "frequency": 1.0}]},
        "maximise[0].of: expected one of sent, out, found 'ot'; did you mean out?",
    ),
    (
        {"monitors": {"sent": {"axis": "x", "at": 1.0, "measure": "power"}, "out": OUT}},
        'maximise[0].over: expected a monitor with measure = "mode"',
    ),
    ({"monitors": {"sent": {"axis": "z", "at": 1.0}, "out": OUT}}, "monitors.sent.axis: expected one of y, x, found 'z'"),
    ({"monitors": {"sent": {"axis": "x", "at": 9.0}, "out": OUT}}, "monitors.sent.at: expected 0.05 to 3.15, found 9"),
    ({"monitors": {"sent": {"axis": "x", "at": 1.0, "low": 1.0}, "out": OUT}}, 'low and high with measure = "power"'),
    ({"monitors": {"sent": {"axis": "x", "at": 1.0, "order": 7}, "out": OUT}}, "monitors.sent: order = 7, expected a guided"),
    ({"optimise": {"method": "gauss-newton"}, "stage": []}, 'optimise.method: expected "L-BFGS-B" or "adam" with [[maximise]]'),
    ({"stage": [{"lowpass": 1.0}]}, "stage[0]: expected no lowpass and no highpass with [[maximise]]"),
    ({"stage": [{"steepness": {"ep": 1.0}}]}, "stage[0].steepness.ep: expected one of eps, found 'ep'"),
    (
        {"equation": {"type": "acoustic"}, "sources": {"f": {"mode": MODE, "wavelet": PACKET}}},
        "sources.f.mode: expected the equation maxwell on two axes, with one permittivity, found Acoustic on 2",
    ),
    ({"accept": [{"quantity": "correlation", "at_least": 0.5}]}, "accept[0].quantity: expected [truth], which correlation compares"),
    (
        {"accept": [{"quantity": "misfit_over_noise", "at_most": 2.0}]},
        "accept[0].quantity: expected [[misfit]], which misfit_over_noise is of",
    ),
    ({"accept": [{"quantity": "transmission", "of": "sent", "at_least": 0.5}]}, "accept[0].of: expected one of out, found 'sent'"),
]


@pytest.mark.parametrize(("changes", "message"), PROBLEMS, ids=[message[:40] for _, message in PROBLEMS])
def test_refused_designs(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SceneError) as caught:
        bend(**changes).problem("f64")
    assert message in str(caught.value)


def body(**changes: Any) -> Scene:
    """A body in a channel, whose drag is to be small, on a coarse grid."""
    tables: dict[str, Any] = {
        "grid": {"shape": [16, 24], "spacing": 0.0625, "axes": ["y", "x"], "origin": [0.03125, 0.03125]},
        "time": {"dt": 0.02, "steps": 20},
        "equation": {"type": "navier_stokes", "sides": ["slip", ["inflow", "open"]], "method": "rk2", "bodies": "fixed"},
        "fields": {"nu": {"constant": 0.01}, "inflow": {"constant": 1.0}, "u": {"constant": 1.0}},
        "receivers": {"force_x": {"points": [[0.5, 0.5]]}},
        "unknowns": {
            "phi": {"type": "outline", "waves": 3, "scale": 0.2, "start": {"bodies": [{"centre": [0.5, 0.6], "half_axes": 0.19}]}}
        },
        "minimise": [{"state": "force_x", "window": [0.3, 0.4], "weight": 4.0}],
        "optimise": {"iterations": 3},
        "certificate": {"steps": 20},
        "accept": [{"quantity": "loss_reduction", "at_least": 1.01}],
    }
    return Scene(**{key: value for key, value in (tables | changes).items() if value is not None})


def test_the_drag_of_a_body_is_made_small_at_its_area(tmp_path: Path) -> None:
    scene = body()
    problem = scene.problem("f64")
    objective = Objective(problem, observe(problem.scene, problem.setup))
    evaluation = objective.evaluate(problem.theta)
    traces = evaluation.predicted["traces", "force_x"]
    assert evaluation.parts == {"mean of force_x": pytest.approx(4.0 * traces[0, 15:21, 0].mean(), rel=1e-12)}
    way = 1e-5 * np.random.default_rng(0).normal(size=problem.theta.size)
    ends = [objective.value(problem.theta + sign * way) for sign in (-1, 1)]
    assert 0.5 * (ends[1] - ends[0]) == pytest.approx(evaluation.gradient @ way, rel=1e-5)

    outcome = scene.run(tmp_path, precision="f64")
    assert outcome.passed and not outcome.traces and set(outcome.snapshots) == {"v", "u", "p"}
    ((before, after),) = outcome.measured.values()
    assert 4.0 * before == pytest.approx(evaluation.value, rel=1e-9) and after < before / 1.01
    inside = [np.clip(0.5 - phi / 0.0625, 0, 1).sum() for phi in (outcome.unknowns["phi"].start, outcome.unknowns["phi"].answer)]
    assert inside[1] == pytest.approx(inside[0], rel=0.02)


BODIES: list[tuple[dict[str, Any], str]] = [
    ({"minimise": [{"state": "force_y"}]}, "minimise[0].state: expected a state with receivers (force_x), found 'force_y'; add"),
    ({"minimise": [{"state": "force_x", "window": [0.4, 0.3]}]}, "expected a window whose end is not before its beginning"),
    (
        {"minimise": [{"state": "force_x", "window": [0.3, 0.5]}]},
        "minimise[0].window: expected times of the run, 0 to 0.4 s, found 0.3 to 0.5",
    ),
    ({"optimise": {"method": "gauss-newton"}}, 'optimise.method: expected "L-BFGS-B" or "adam" with [[minimise]]'),
    ({"truth": {"fields": {}}}, "expected no truth with [[minimise]], for a design has no data"),
]


@pytest.mark.parametrize(("changes", "message"), BODIES, ids=[message[:40] for _, message in BODIES])
def test_refused_designs_that_make_something_small(changes: dict[str, Any], message: str) -> None:
    def objective() -> Objective:
        problem = body(**changes).problem("f64")
        return Objective(problem, observe(problem.scene, problem.setup))

    with pytest.raises(SceneError) as caught:
        objective()
    assert message in str(caught.value)


SOURCES: list[tuple[dict[str, Any], str]] = [
    ({"points": [[1.0, 1.0]]}, "expected points, lines or a mode, found both"),
    ({"mode": None}, "expected points, lines or a mode, found none"),
    ({"fire": "in turn"}, 'expected a mode to fire "together"'),
    ({"mode": {"axis": "x", "at": 1.0, "frequency": 0.01}}, "sources.Jz.mode: order = 0, expected a guided mode"),
]


@pytest.mark.parametrize(("changes", "message"), SOURCES, ids=[message[:30] for _, message in SOURCES])
def test_which_modes_are_refused(changes: dict[str, Any], message: str) -> None:
    source = {"mode": MODE, "wavelet": PACKET} | changes
    with pytest.raises(SceneError) as caught:
        bend(sources={"Jz": {key: value for key, value in source.items() if value is not None}}).problem("f64")
    assert message in str(caught.value)


def test_a_start_beyond_both_materials_is_refused() -> None:
    tables = {"eps": {"type": "density", "start": CORNER, "lower": 1.0, "upper": 3.0}}
    with pytest.raises(SceneError, match=r"unknowns\.eps: reference: expected values from lower = 1 to upper = 3"):
        bend(unknowns=tables).problem("f64")


@pytest.mark.slow
def test_power_that_passes_is_measured_in_both_directions() -> None:
    """A straight guide: the flux through a plane is the power of the mode; a plane that counts the other way has minus that."""
    guide = {"constant": 1.0, "boxes": [{"lower": [2.2, 0.0], "upper": [2.6, 5.2], "amplitude": 3.0}]}
    planes = {
        "sent": {"axis": "x", "at": 2.0},
        "out": {"axis": "x", "at": 3.3, "measure": "power"},
        "back": {"axis": "x", "at": 3.3, "measure": "power", "towards": "smaller"},
        "mode": {"axis": "x", "at": 3.3},
        "mode back": {"axis": "x", "at": 3.3, "towards": "smaller"},
    }
    wanted = [{"type": "transmission", "of": name, "over": "sent", "frequency": [1.0, 1.05]} for name in planes if name != "sent"]
    unknown = {"type": "density", "start": guide, "lower": 1.0, "upper": 4.0, "radius": 0.0, "steepness": 50.0}
    tables: dict[str, Any] = {
        "grid": {"shape": [52, 52], "spacing": 0.1, "axes": ["y", "x"], "origin": [0.05, 0.05]},
        "equation": {"type": "maxwell", "layer": 15, "layer_frequency": 1.0},  # of 5 cells a layer gives back enough to be off by 3 %
        "sources": {"Jz": {"mode": MODE | {"at": 1.7}, "wavelet": PACKET}},
    }
    scene = bend(**tables, unknowns={"eps": unknown}, monitors=planes, maximise=wanted, accept=[], stage=[])
    problem = scene.problem("f64")
    parts = Objective(problem, observe(scene, problem.setup)).evaluate(problem.theta).parts
    shares = {label.split()[4]: 1 - value for label, value in parts.items() if "mode back" not in label}
    assert shares["out"] == pytest.approx(1.0, abs=0.004) and shares["mode"] == pytest.approx(1.0, abs=0.004)
    assert shares["back"] == pytest.approx(-shares["out"], rel=1e-12)
    assert 1 - parts["1 - transmission of mode back over sent"] < 0.01


def test_figures_of_designs_need_one() -> None:
    for quantity, needed in (("transmission", "[[maximise]]"), ("feature_size", 'an unknown with type = "density"')):
        with pytest.raises(SceneError) as caught:
            tiny(ACOUSTIC, accept=[{"quantity": quantity, "at_least": 0.5}]).problem("f64")
        assert f"accept[0].quantity: expected {needed}, which {quantity} is of, found none" in str(caught.value)
