"""Why a search stopped, in the words of the scene."""

import numpy as np
import pytest

from diffsim.scene.disk.outcome import Compared, Progress
from diffsim.scene.search.ending import ending, resting
from tests.scene.tiny import ACOUSTIC, scene

FAST = [0.5**k for k in range(9)]
SLOW = [*FAST, *(FAST[-1] * (1 - 1e-4 * k) for k in range(1, 13))]


def history(losses, stage=1):
    return [Progress(k, k + 1, loss, 0.1, 0.2 * k, stage) for k, loss in enumerate(losses)]


def compared(times_noise):
    data = np.zeros((1, 4, 1))
    return [Compared(data, data, data + times_noise, 1.0)]


def test_a_loss_rests_from_where_it_falls_by_less_than_a_hundredth():
    assert resting(SLOW) == 12
    assert resting(FAST) == 0
    assert resting([1.0, 0.5, 0.4999, 0.4998]) == 0  # two iterations say nothing
    assert resting([1.0] + [0.5] * 4) == 3
    assert resting([1.0] * 7 + list(np.linspace(1.0, 0.1, 90)) + [0.1] * 3) == 0  # less than a tenth of all
    assert resting([1.0, 0.1, 0.5, 0.3, 0.2]) == 3  # the lowest so far counts
    assert resting([1.0, 0.0, 0.0, 0.0, 0.0]) == 3


@pytest.mark.parametrize(
    ("losses", "more", "sentence"),
    [
        (FAST, {}, "all 8 iterations were done while the loss was still falling, by 50 % in the last one; raise optimise.iterations"),
        ([0.5**k for k in range(41)], {}, "by 94 % in the last 4 iterations; raise optimise.iterations and give --resume to go on"),
        (SLOW, {}, "all 20 iterations were done, the last 12 of which lowered the loss by less than 1 %; the residual is 1.05 times"),
        (
            SLOW,
            {"stage": [{}, {"iterations": 20, "lowpass": 5.0}]},
            "of which lowered the loss by less than 1 %; more iterations gain little",
        ),
        (FAST, {"stage": [{}, {"iterations": 8}]}, "; raise stage[1].iterations and give --resume to go on"),
        ([1.0, 0.2, 0.5], {"optimise__method": "adam"}, "lies 150 % above that of iteration 1; a lower optimise.rate settles"),
        ([1.0, 0.0, 0.5], {"optimise__method": "adam"}, "the loss lies above that of iteration 1;"),
        (SLOW, {"optimise__method": "adam", "optimise__batch": 1}, "all 20 iterations were done; the losses of batches do not say"),
        ([1.0, 0.995], {}, "its one iteration was done; raise optimise.iterations"),
        ([0.0, 0.0], {}, "its one iteration was done; raise"),
    ],
)
def test_iterations_that_are_done(losses, more, sentence):
    text = ending(scene(ACOUSTIC, **more), "iterations", history(losses), compared(1.05), "f64")
    assert sentence in text


def test_only_the_last_stage_counts():
    two = scene(ACOUSTIC, stage=[{}, {}])
    text = ending(two, "iterations", [*history(SLOW), *history(FAST, 2)], [], "f64")
    assert text.startswith("all 8 iterations were done while the loss was still falling")


@pytest.mark.parametrize(
    ("times_noise", "sentence"),
    [
        (1.05, "; the residual is 1.05 times the noise, so more iterations gain little"),
        (5.2, "; the residual is still 5.2 times the noise, for which another start, stages or another method may do more"),
    ],
)
def test_the_rest_above_the_noise(times_noise, sentence):
    assert ending(scene(ACOUSTIC), "iterations", history(SLOW), compared(times_noise), "f64").endswith(sentence)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.31, 0.724, 1.0])
@pytest.mark.parametrize("reason", ["iterations", "value"])
def test_heavy_penalties_are_named_where_the_residual_is_above_the_noise(reason, share):
    text = ending(scene(ACOUSTIC), reason, history(SLOW), compared(5.2), "f64", share)
    assert (f"5.2 times the noise, and the penalties are {100 * share:.2g} % of the loss: a lower" in text) == (share > 0.3)
    assert "penalties" not in ending(scene(ACOUSTIC), reason, history(SLOW), compared(1.2), "f64", share)


def test_a_tolerance_that_is_reached():
    rests = ending(scene(ACOUSTIC), "value", history(SLOW), [], "f64")
    assert rests == (
        "the last iteration lowered the loss by no more than 1e-09 of its start (optimise.tolerance), and the last 12 of 20 lowered it by "
        "less than 1 %; more iterations gain little"
    )
    falls = ending(scene(ACOUSTIC, stage=[{"tolerance": 0.01}]), "value", history(FAST), [], "f64")
    assert falls.endswith("(stage[0].tolerance), but by 50 % of the rest; a lower stage[0].tolerance goes on")
    nothing = ending(scene(ACOUSTIC), "value", history([1.0, 1.0 - 1e-12]), [], "f64")
    assert "and the whole search gained nothing" in nothing and "raise unknowns.*.scale" in nothing
    assert ending(scene(ACOUSTIC, optimise__tolerance=0.0), "value", history([1.0, 1.0]), [], "f64") == "nothing more was gained"


def test_other_ends():
    assert "bounds leave open; another start" in ending(scene(ACOUSTIC), "gradient", history([1.0]), [], "f64")
    assert "bounds leave open; no lower loss lies" in ending(scene(ACOUSTIC), "gradient", history(FAST), [], "f64")
    assert ending(scene(ACOUSTIC), "line search", history(FAST), [], "f64").endswith("(`diffsim gradcheck` tells which)")
    assert ending(scene(ACOUSTIC), "line search", history(FAST), [], "f32").endswith("; --precision f64 rounds less")
