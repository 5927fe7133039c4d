"""Derivatives of long averages by shadowing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

import numpy as np

from diffsim.base.arguments import names as list_of_names
from diffsim.base.arguments import whole
from diffsim.chaos.exponents import lyapunov
from diffsim.chaos.sensitivity import Average, Sensitivities, Sensitivity, named
from diffsim.chaos.shadowed import Shadowed
from diffsim.chaos.tangents import Vectors
from diffsim.errors import ConvergenceError, ParameterError
from diffsim.simulation import Simulation


@overload
def shadowing(
    simulation: Simulation,
    inputs: Mapping[str, Any],
    average: Average,
    wrt: str,
    steps: int,
    segments: int,
    unstable: int | None = None,
    settle: int | None = None,
    along: Any = None,
) -> Sensitivity: ...
@overload
def shadowing(
    simulation: Simulation,
    inputs: Mapping[str, Any],
    average: Average,
    wrt: list[str] | tuple[str, ...],
    steps: int,
    segments: int,
    unstable: int | None = None,
    settle: int | None = None,
) -> Sensitivities: ...
def shadowing(
    simulation: Simulation,
    inputs: Mapping[str, Any],
    average: Average,
    wrt: str | list[str] | tuple[str, ...],
    steps: int,
    segments: int,
    unstable: int | None = None,
    settle: int | None = None,
    along: Any = None,
) -> Sensitivity | Sensitivities:
    """The derivative of a long average of a chaotic system for parameters, where the gradient of the run explodes.

    A tangent that follows the parameter grows as all tangents do. The method adds unstable tangents to it so that it stays small throughout
    (NILSS): the state of the changed system that shadows the run. It needs as many tangents as there are exponents above 0, not as many as
    there are states. The system must be autonomous, with times that are long beside the steps.

    For several parameters, or for one with a value a cell, the reverse sweep of the same computation gives all derivatives: the run with
    the unstable tangents, and a tangent and a gradient of each segment, for any number of parameters. Its errors are upper estimates, often
    many times the error of the same parameter alone: they come from parts of the time at which parameters act, and what acts in one part
    has its effect in the next.

    Errors are those of sampling along one trajectory. They do not contain the bias of shadowing, and no refusal sees it: the trajectory of
    the changed system that stays close to this one need not be a typical one of the changed system (Chandramoorthy and Wang 2021). Where a
    change moves the share of time that states spend in parts of the attractor, the derivative may have a wrong size or sign, with a small
    error. Compare with `linear_response` before you use a derivative.

    Args:
        simulation: the system, in f64.
        inputs: initial states, and parameters.
        average: the quantity whose mean over time is meant: a function of the states by name, arrays of shape (times, cells), that returns
            a value for each time; written with `diffsim.numpy` and operators.
        wrt: the name of a parameter, or a list of names, for the derivative for each entry of each.
        steps: steps of a segment, some one unit of the largest exponent's time.
        segments: number of segments.
        unstable: number of tangents: that of the exponents above 0 and one more for each that is 0, but for the flow's own. None: one more
            than `lyapunov` finds above 0 on a part of the run.
        settle: steps before the first segment, to reach the attractor; None: a tenth of the run.
        along: with one name, the direction in which a parameter that is a field changes, an array of its shape; None: by 1 in each entry.

    Returns:
        The derivative and the average with their standard errors; for a list, the derivatives and errors by name.

    Raises:
        ParameterError: a number out of range, a system in f32, or states on faces.
        ConvergenceError: no exponent is above 0, or the shadowing direction does not stay small: too few tangents, or a system without such
            a direction. Or a derivative (of a field, that for the same change in each entry) rests on few of at least
            100 segments, and so does not settle.

    Reference: Ni and Wang (2017), Sensitivity analysis on chaotic dynamical systems by non-intrusive least squares shadowing (NILSS),
        J. Comput. Phys. 347, 56-77, doi:10.1016/j.jcp.2017.06.033. Chandramoorthy and Wang (2021), On the probability of finding
        nonphysical solutions through shadowing, J. Comput. Phys. 440, 110389, doi:10.1016/j.jcp.2021.110389.

    Example:
        import diffsim as ds

        # By how much does the mean height of convection grow with rho? Long averages say 1.0.
        system = ds.Simulation(ds.solvers.Lorenz63(dt=0.01), precision="f64")
        start = {"x": 1.0, "y": 2.0, "z": 20.0, "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
        result = ds.chaos.shadowing(system, start, lambda now: now["z"][:, 0], wrt="rho", steps=100, segments=200, unstable=1)
        assert abs(result.value - 1.0) < 0.05

        # And with each of the three numbers?
        all_three = ds.chaos.shadowing(system, start, lambda now: now["z"][:, 0], ["sigma", "rho", "beta"], 100, 200, unstable=1)
        assert abs(all_three.values["rho"] - result.value) < 1e-6 and all_three.values["beta"] < 0
    """
    average = named(average)
    if simulation.precision != "f64":
        raise ParameterError(f"simulation of precision {simulation.precision}, expected f64; build it with precision='f64'")
    steps = whole("steps", steps, 4, remedy="give the steps of a segment")
    segments = whole("segments", segments, 4, remedy="give the number of segments")
    settle = steps * segments // 10 if settle is None else whole("settle", settle, 0, remedy="give the steps before the first segment")
    several = None if isinstance(wrt, str) else list_of_names("wrt", wrt, "['sigma', 'rho']")
    recorded = with_all_receivers(simulation, several or (), of_states=several is not None)
    vectors = Vectors(recorded, inputs)
    vectors.parameters(several or ())
    if several is not None and along is not None:
        raise ParameterError("along with a list of names, expected it with one name; give wrt = 'F', or leave along out")
    start = {**vectors.fixed, **vectors.apart(vectors.state)}
    state = vectors.joined(recorded.run(start, settle).final) if settle else vectors.state
    if unstable is None:
        exponents = lyapunov(simulation, {**vectors.fixed, **vectors.apart(state)}, steps, max(20, segments // 10))
        if not exponents.unstable:
            raise ConvergenceError(
                f"no exponent is above 0 ({exponents}), expected a chaotic one; take more segments, give unstable, or "
                "take value_and_grad where the system is not chaotic"
            )
        unstable = min(vectors.size - 1, 1 + exponents.unstable)
    unstable = whole("unstable", unstable, 1, vectors.size - 1, "give the number of exponents above 0")
    run = Shadowed(recorded, inputs, average, steps, unstable, wrt if isinstance(wrt, str) else None, along)
    run.go(state, segments)
    return run.along() if several is None else run.back(several)


def with_all_receivers(simulation: Simulation, wrt: tuple[str, ...] = (), of_states: bool = False) -> Simulation:
    """The simulation with a receiver for each state at each cell, and gradients for parameters and, if wanted, its states."""
    equation = simulation.equation
    if any(any(variable.location or ()) for variable in equation.states.values()):
        raise ParameterError(f"{type(equation).__name__} has states on faces, expected states at the centres of cells; write it with those")
    axes = [equation.grid.coordinates(axis) for axis in range(equation.grid.ndim)]
    cells = np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=-1)
    receivers = dict.fromkeys(equation.states, cells)
    return Simulation(
        equation, receivers=receivers, wrt=[*equation.states, *wrt] if of_states else simulation.wrt, precision=simulation.precision
    )
