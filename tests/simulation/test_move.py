"""Sources and receivers that move: the same bits as a simulation built there, and no kernel compiled twice."""

import numpy as np
import pytest

from diffsim.errors import ParameterError, ShapeError
from diffsim.mesh.grid import Grid
from diffsim.simulation import Simulation, Solution
from diffsim.solvers import Acoustic

STEPS = 12
HERE, THERE = [[30.0, 40.0]], [[81.5, 62.25], [100.0, 20.0]]
HEAR, LISTEN = [[50.0, 50.0], [20.0, 90.0]], [[95.0, 33.0]]


@pytest.fixture(scope="module")
def equation():
    return Acoustic(Grid((14, 13), 10.0), dt=1e-3, order=4)


def inputs(sources: int, seed: int = 3):
    rng = np.random.default_rng(seed)
    return {"c": 2000 + 300 * rng.random((14, 13)), "f": rng.standard_normal((STEPS, sources))}


def gradients(simulation: Simulation, sources: int):
    solution, pullback = simulation.vjp(inputs(sources), STEPS)
    bars = Solution(traces={"p": np.random.default_rng(5).standard_normal(solution.traces["p"].shape)})
    return {"traces": solution.traces["p"], **pullback(bars)}


def test_moved_simulation_gives_the_bits_of_one_built_there(equation):
    built = Simulation(equation, sources={"f": THERE}, receivers={"p": LISTEN}, precision="f64")
    moved = Simulation(equation, sources={"f": HERE}, receivers={"p": HEAR}, precision="f64")
    before = gradients(moved, 1)
    first_tangent = moved.jvp(inputs(1), {"c": np.ones((14, 13))}, STEPS)[1].traces["p"]
    compiled = dict(moved._stepper.launcher._compiled)

    moved.move(sources={"f": THERE}, receivers={"p": LISTEN})
    expected, actual = gradients(built, 2), gradients(moved, 2)
    for name in expected:
        np.testing.assert_array_equal(actual[name], expected[name], err_msg=name)
    direction = {"c": np.ones((14, 13)), "f": np.ones((STEPS, 2))}
    np.testing.assert_array_equal(
        moved.jvp(inputs(2), direction, STEPS)[1].traces["p"], built.jvp(inputs(2), direction, STEPS)[1].traces["p"]
    )
    assert compiled
    assert moved._stepper.launcher._compiled == compiled

    moved.move(sources={"f": HERE}, receivers={"p": HEAR})  # and back
    after = gradients(moved, 1)
    for name in before:
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)
    np.testing.assert_array_equal(moved.jvp(inputs(1), {"c": np.ones((14, 13))}, STEPS)[1].traces["p"], first_tangent)


def test_a_pullback_from_before_a_move_is_of_the_places_that_it_ran_with(equation):
    simulation = Simulation(equation, sources={"f": HERE}, receivers={"p": HEAR}, precision="f64")
    solution, pullback = simulation.vjp(inputs(1), STEPS)
    first = pullback(solution)
    simulation.move(sources={"f": [[60.0, 60.0]]})
    for name, values in pullback(solution).items():
        np.testing.assert_array_equal(values, first[name], err_msg=name)


def test_refused_move_moves_nothing(equation):
    simulation = Simulation(equation, sources={"f": HERE}, receivers={"p": HEAR}, precision="f64")
    before = gradients(simulation, 1)
    with pytest.raises(ShapeError, match="outside the grid"):
        simulation.move(sources={"f": [[60.0, 60.0]]}, receivers={"p": [[500.0, 0.0]]})
    with pytest.raises(ParameterError, match="p_prev"):
        simulation.move(receivers={"p_prev": HEAR})
    np.testing.assert_array_equal(gradients(simulation, 1)["c"], before["c"])


def test_as_many_sources_and_receivers_elsewhere(equation):
    """Nothing is reallocated then: only the exchange of the tables makes a difference."""
    built = Simulation(equation, sources={"f": [[70.0, 80.0]]}, receivers={"p": [[40.0, 40.0], [25.0, 85.0]]}, precision="f64")
    moved = Simulation(equation, sources={"f": HERE}, receivers={"p": HEAR}, precision="f64")
    gradients(moved, 1)
    moved.move(sources={"f": [[70.0, 80.0]]}, receivers={"p": [[40.0, 40.0], [25.0, 85.0]]})
    expected, actual = gradients(built, 1), gradients(moved, 1)
    for name in expected:
        np.testing.assert_array_equal(actual[name], expected[name], err_msg=name)
