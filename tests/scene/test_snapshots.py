"""Snapshots of an answer: the right states at the right instants, on the right plane, and small."""

from math import prod

import numpy as np
import pytest

from diffsim.scene import snapshots
from diffsim.scene.snapshots import INSTANTS, VALUES, snapshots_of
from tests.scene.tiny import ACOUSTIC, HEAT, scene

DEEP = {
    "grid": {"shape": [6, 7, 8], "spacing": 10.0},
    "sources": {"f": {"points": [[20.0, 40.0, 30.0]], "wavelet": {"type": "ricker", "frequency": 40.0, "delay": 0.012}}},
    "receivers": {"p": {"points": [[20.0, 10.0, 60.0]]}},
    "truth": {"noise": 0.02, "fields": {"c": {"constant": 2100.0}}},
    "equation": {"type": "acoustic", "order": 2},
    "time": {"dt": 2.0e-3, "steps": 10},
}


def means(values: np.ndarray, block: int) -> np.ndarray:
    """Means over blocks, one by one."""
    out = np.empty([-(-n // block) for n in values.shape])
    for place in np.ndindex(*out.shape):
        out[place] = values[tuple(slice(block * k, block * (k + 1)) for k in place)].mean()
    return out


@pytest.mark.parametrize("block", [1, 4])
def test_snapshots_are_the_states_of_a_run(acoustic, monkeypatch, block):
    problem, setup = acoustic.problem, acoustic.problem.setup
    monkeypatch.setattr(snapshots, "VALUES", VALUES if block == 1 else 2 * INSTANTS * 16)
    answer = {"c": problem.start["c"] + np.linspace(-50, 150, 240).reshape(16, 15)}
    (state,) = shots = snapshots_of(problem, answer)
    seen = shots[state]
    assert (state, seen.unit, seen.plane, seen.block) == ("p", "Pa", None, block)
    np.testing.assert_allclose(seen.times, 2e-3 * np.array([6, 12, 18, 24]))
    for film, fields in ((seen.start, problem.start), (seen.answer, answer)):
        for number, steps in enumerate((6, 12, 18, 24)):
            shot = next(setup.prepared(problem.inputs(fields)))
            once = setup.simulation.run(shot | {"f": shot["f"][:steps]}, steps).final["p"]
            np.testing.assert_allclose(film[number], means(once, block), rtol=1e-5, atol=1e-6 * np.abs(once).max())
    assert not np.allclose(seen.start, seen.answer, rtol=0.01)


def test_runs_of_few_steps_have_fewer_snapshots():
    few = scene(HEAT, time__steps=3).problem("f64")
    np.testing.assert_allclose(snapshots_of(few, few.start)["T"].times, [0.2, 0.4, 0.6])
    more = scene(HEAT, time__steps=9).problem("f64")
    np.testing.assert_allclose(snapshots_of(more, more.start)["T"].times, [0.4, 0.8, 1.4, 1.8])


def test_snapshots_end_where_the_field_comes_to_rest():
    loud, quiet = np.ones((12, 1000)), 0.05 * np.ones((4, 1000))
    quiet[:, 0] = 50.0  # a source that goes on
    film = np.concatenate([loud, quiet])
    assert snapshots._chosen(0.0 * film, film) == snapshots._chosen(film, 0.0 * film) == [2, 5, 8, 11]
    assert snapshots._chosen(film[:12], 0.2 * film[:12][::-1]) == [2, 5, 8, 11]
    assert snapshots._chosen(0.0 * film, 0.0 * film) == [3, 7, 11, 15]
    assert snapshots._chosen(film[:2], film[:2]) == [0, 1]
    assert snapshots._chosen(np.concatenate([loud[:1], quiet]), quiet[:1].repeat(5, axis=0)) == [0]


def test_only_states_that_are_compared_are_seen(wave):
    assert list(snapshots_of(wave.problem, wave.problem.start)) == ["eta"]


def test_in_three_dimensions_the_plane_holds_the_source():
    problem = scene(ACOUSTIC, **DEEP).problem("f64")
    seen = snapshots_of(problem, problem.start)["p"]
    assert seen.plane == (1, 4) and seen.answer.shape == (4, 6, 8)
    (inputs,) = problem.setup.prepared(problem.inputs(problem.start))
    whole = problem.setup.simulation.run(inputs, 10).final["p"]
    np.testing.assert_allclose(seen.answer[-1], whole[:, 4], rtol=1e-6, atol=1e-6 * np.abs(whole).max())


def test_without_sources_the_plane_holds_the_largest_change_else_the_receivers():
    problem = scene(ACOUSTIC, **{**DEEP, "sources": {}}).problem("f64")
    changed = problem.start["c"].copy()
    changed[1, 5, 2] -= 80.0
    changed[1, 2, 2] += 60.0
    assert snapshots._plane(problem, {"c": changed}) == (1, 5)
    assert snapshots._plane(problem, problem.start) == (1, 1)


@pytest.mark.parametrize("shape", [(12_499,), (12_501,), (1000, 3), (3000, 4000), (200, 300)])
def test_snapshots_are_small(shape):
    most = VALUES // (2 * INSTANTS)
    block = snapshots._block(shape, most)
    assert prod(-(-n // block) for n in shape) <= most
    assert block == 1 or prod(-(-n // (block - 1)) for n in shape) > most
