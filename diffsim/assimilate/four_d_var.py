"""Four-dimensional variational data assimilation, with a perfect model or with jumps between windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from diffsim.assimilate.analysis import Analysis
from diffsim.assimilate.control import Balance, Balanced, Control
from diffsim.assimilate.linearised import Linearised
from diffsim.assimilate.observations import Observations
from diffsim.assimilate.windows import Windows
from diffsim.base.arguments import function, instance, mapping, one_of, real_array, whole
from diffsim.base.messages import shown, warn_user
from diffsim.base.quantities import ANYTHING
from diffsim.checkpoint import Checkpoint
from diffsim.errors import ParameterError, ShapeError
from diffsim.optimize import GaussNewton, Iteration, Journal, Prior, minimise
from diffsim.simulation import Simulation
from diffsim.simulation.prepared.blown_up import counted
from diffsim.simulation.prepared.checks import check_names
from diffsim.simulation.prepared.reading import is_function
from diffsim.typing import Array

F64 = npt.NDArray[np.float64]
METHODS = ("gauss-newton", "L-BFGS-B")
POOR = 10.0
"""Twice the cost over the number of observations from which on a warning is given."""


class FourDVar:
    """Variational assimilation (4D-Var): the initial state, parameters and jumps that explain observations of a run, given a background.

        J = ½ |x₀ - x_b|²_B + ½ Σ_k |y_k - H_k(x)|²_R + ½ Σ_w |x_w - M(x_{w-1})|²_Q,    |v|²_C = vᵀ C⁻¹ v

    With one window the model is perfect: the last sum is empty, and the unknowns are initial states and parameters (strong constraint).
    With several, each begins with a state of its own, and the jumps between the end of one and the beginning of the next are errors of
    the model with the covariance Q (weak constraint, by multiple shooting). So no gradient runs through more than one window, and a chaotic
    system can be followed over any time. Windows run side by side where `Batch` can.

    The search takes variables z of covariance 1: x = x_b + L z with B = L Lᵀ (control transform), and in later windows units of the jumps.
    Gauss-Newton linearises the run (incremental 4D-Var): the outer loop takes one gradient, and each product with the Gauss-Newton Hessian,
    by which conjugate gradients solve the inner problem, one run of the tangent and one of the adjoint.

    Args:
        simulation: f64 is best. Its `wrt` has all unknowns.
        observations: one or a list.
        background: all inputs of the simulation, with the values that the unknowns are expected to have. Of an unknown one number stands
            for all its values.
        background_error: unknown -> its Gaussian error, a `diffsim.optimize` prior: `DiffusionPrior` by a deviation and a correlation
            length, `PrecisionPrior`, or any object with `size`, `inner`, `root` and `root_transpose`, a square root of the covariance.
            Unknowns are initial states and other inputs. Inputs that are not named are known.
        steps: time steps of the whole run.
        windows: number of windows, of equally many steps.
        model_error: state -> the Gaussian error that the model makes in a window, for more than one: a prior with `precision` as well.
            States that are not named have no jumps.
        checkpoint: states that gradients keep, see `Simulation.vjp`.
        balance: how errors of the background depend on each other: a linear function in `diffsim.numpy` of independent errors, unknown ->
            array, which gives unknown -> what is added to its error. So `background_error` of a current is that of its unbalanced part
            where `balance` gives the current that a slope of the level drives. None: errors are independent.

    Raises:
        ParameterError: an unknown that is no input or not in `wrt`, a prior without what it needs, several windows without a model error,
            or of a step that depends on time or whose states are made of other inputs.
        ShapeError: an input of the background, a prior or observations of another shape.

    Good values: windows in which errors grow by a factor of 2 to 5; deviations that are true, since J at the minimum is then about half
    the number of observations. A chaotic system over many windows has other minima: begin with a large model error, by which each window
    follows its own observations, and make it smaller in two or three problems, each of which starts from the last one's states.

    Reference: Courtier, Thépaut and Hollingsworth (1994), A strategy for operational implementation of 4D-Var, using an incremental
        approach, Q. J. R. Meteorol. Soc. 120, 1367-1387, doi:10.1002/qj.49712051912; Trémolet (2006), Accounting for an imperfect model
        in 4D-Var, Q. J. R. Meteorol. Soc. 132, 2483-2504, doi:10.1256/qj.05.224, whose state formulation this is.

    Example:
        import numpy as np

        import diffsim as ds

        # The temperature a rod began with, from two thermometers of error 0.01 K.
        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((40,), 0.05), dt=0.1), receivers={"T": [[0.5], [1.5]]}, wrt=["T"], precision="f64")
        kappa, rng = np.full(40, 5e-3), np.random.default_rng(0)
        prior = ds.optimize.DiffusionPrior((40,), deviation=1.0, length=4.0)
        truth = prior.root(rng.standard_normal(40))
        records = rod.run({"kappa": kappa, "T": truth}, steps=60).traces["T"]
        seen = ds.assimilate.Observations(records + 0.01 * rng.standard_normal(records.shape), 0.01, of="T")
        problem = ds.assimilate.FourDVar(rod, seen, {"kappa": kappa, "T": np.zeros(40)}, {"T": prior}, steps=60)
        analysis = problem.minimise()
        deviation = analysis.deviation(lambda unknowns: unknowns["T"][10])
        assert deviation < 0.1 and abs(analysis.unknowns["T"][10] - truth[10]) < 3 * deviation
    """

    def __init__(
        self,
        simulation: Simulation,
        observations: Observations | Sequence[Observations],
        background: Mapping[str, Any],
        background_error: Mapping[str, Prior],
        steps: int,
        windows: int = 1,
        model_error: Mapping[str, Prior] | None = None,
        checkpoint: Checkpoint = "auto",
        balance: Balance | None = None,
    ) -> None:
        instance("simulation", simulation, Simulation, "a diffsim.Simulation", "build one of the model")
        self.simulation = simulation
        several = [observations] if isinstance(observations, Observations) else list(observations)
        self.observations = [
            instance("observations", each, Observations, "Observations, or a list of them", "make some") for each in several
        ]
        windows = whole("windows", windows, 1, remedy="give the number of windows")
        background = mapping("background", background, "{'x': x, 'F': 8.0}")
        before = mapping("background_error", background_error, "{'x': prior}")
        for what, held in (("observations", self.observations), ("background_error", before)):
            if not held:
                raise ParameterError(f"{what} is empty, expected one entry at least; give observations, and unknowns with errors")
        model = mapping("model_error", model_error or {}, "{'x': prior}")
        if (windows > 1) != bool(model):
            raise ParameterError(
                f"{windows} windows with model_error = {shown(model_error)}, expected errors of the model where there are several windows, "
                "and only there; give model_error={'x': prior}, or take windows=1"
            )
        names = (*simulation.equation.states,) if windows > 1 else ()
        for name in model:
            one_of("name in model_error", name, names)
        self.windows = Windows(simulation, background, steps, windows, tuple(model), checkpoint)
        steps = self.windows.steps
        for what, errors, needed in (("background_error", before, ()), ("model_error", model, ("precision",))):
            for name, prior in errors.items():
                _check_prior(what, name, prior, simulation, steps, needed)
                if name not in background:
                    raise ParameterError(f"background without {name}, which has a {what}, expected all inputs of the simulation; give it")
        check_names("background", background, (*simulation._compiled.inputs, *simulation._groups.parts), "inputs", simulation.equation)
        self.windows.inputs = {name: _background(name, value, simulation, steps, name in before) for name, value in background.items()}
        for each in self.observations:
            each.check(simulation, steps, windows)
        self.background_error, self.model_error = dict(before), dict(model)
        shapes = {name: simulation.input_shape(name, steps) for name in before}
        function("balance", balance, "lambda errors: {'qx': -9.81 * h / f * slope(errors['eta'])}")
        self.balance = None if balance is None else Balanced(balance, shapes)

    def outputs(self, unknowns: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Jumps of the states between windows, shape (windows - 1, cells), and predictions of observations: an array program."""
        return self.windows.outputs(unknowns, self.observations)

    def minimise(
        self,
        method: Literal["gauss-newton", "L-BFGS-B"] = "gauss-newton",
        iterations: int = 20,
        tolerance: float = 1e-9,
        products: int = 50,
        residual: float | None = None,
        start: Mapping[str, Any] | None = None,
        callback: Callable[[Iteration], object] | None = None,
        journal: Journal | None = None,
    ) -> Analysis:
        """The most probable unknowns.

        Args:
            method: "gauss-newton", or "L-BFGS-B", whose iterations take one gradient each.
            iterations: at most this many, of the outer loop.
            tolerance: of J, as a part of that at the start, see `diffsim.optimize.minimise`.
            products: inner iterations in each of Gauss-Newton, at most.
            residual: of the inner problem, at which it ends; None: early, as `diffsim.optimize.GaussNewton` says. With several windows the
                inner problem is worse conditioned: 1e-3 and 500 products are good.
            start: state -> a first guess at the beginning of each window, shape (windows, cells), of which the first is not read. None: a
                run without jumps from the background.
            callback: see `diffsim.optimize.minimise`.
            journal: likewise.

        Returns:
            The analysis.

        Raises:
            DivergenceError: a run from the background, or on the way, is no longer finite.
            ShapeError: a first guess of another shape.
        """
        names = (*self.model_error,)
        for name in mapping("start", start or {}, "{'x': states}"):
            if name not in names:
                known = ", ".join(names) if names else "no state, since one window begins at the background"
                raise ParameterError(f"start names {shown(name)}, expected states with a model error: {known}; leave it out")
        control = self.control(start)
        cost = Cost(self, control)
        chosen: Any = GaussNewton(cost.hessian, products, residual) if one_of("method", method, METHODS) == "gauss-newton" else method
        search = minimise(cost.objective, np.zeros(control.size), chosen, None, iterations, tolerance, journal, callback)
        analysis = Analysis(cost.at(search.x), search, self.windows.inputs)
        if analysis.fit > POOR:
            stopped = f"The search has not converged: {search.message}. Otherwise it" if search.reason == "iterations" else "It"
            warn_user(
                f"the analysis explains its observations poorly: twice its cost is {analysis.fit:.3g} times their number, expected 1. "
                f"{stopped} is a local minimum, or errors are larger than was said; take windows, another background, or larger errors",
                UserWarning,
            )
        return analysis

    def linearise(self, z: npt.ArrayLike, control: Control | None = None) -> Linearised:
        """The run around variables z: `cost`, its parts `costs`, `gradient()`, Gauss-Newton products `@ v`, and `unknowns`.

        For optimisers and checks of one's own. `minimise` takes the same steps by itself.

        Args:
            z: variables, shape (size of `control`,). Zeros are the background.
            control: the variables; None: those of `control()`.

        Raises:
            ShapeError: z has another shape.
            DivergenceError: the run from there is no longer finite.
        """
        control = self.control() if control is None else control
        variables = np.array(real_array("z", z), np.float64)
        if variables.shape != (control.size,):
            raise ShapeError(f"z has shape {variables.shape}, expected {(control.size,)}; give a value for each variable of `control()`")
        return Linearised(self.outputs, variables, control, self.observations, self.model_error)

    def control(self, start: Mapping[str, Any] | None = None) -> Control:
        """The variables of the search, around a first guess; see `minimise`."""
        windows, inputs = self.windows, self.windows.inputs
        shapes = {name: self.simulation.input_shape(name, windows.steps) for name in (*self.background_error, *self.model_error)}
        known = {name: np.broadcast_to(np.asarray(inputs[name], np.float64), shape) for name, shape in shapes.items()}
        if self.model_error:
            guess: Mapping[str, Any] = mapping("start", start, "{'x': states}") if start is not None else windows.unbroken_starts()
            for name in self.model_error:
                expected = (windows.count, *shapes[name])
                shape = np.shape(guess[name]) if name in guess else None
                if shape != expected:
                    raise ShapeError(f"start of {name} has shape {shape}, expected {expected}; give a state a window")
                known[name] = np.concatenate([known[name][None], np.asarray(guess[name], np.float64)[1:]])
        return Control(known, self.background_error, self.model_error, self.balance)


class Cost:
    """The cost of a problem and its linearisations, the last of which is kept.

    Args:
        problem: the problem.
        control: its variables.
    """

    def __init__(self, problem: FourDVar, control: Control) -> None:
        self._problem, self._control = problem, control
        self._last: Linearised | None = None

    def at(self, z: Array) -> Linearised:
        """The linearisation at z."""
        if self._last is None or not np.array_equal(self._last.z, z):
            problem, self._last = self._problem, None  # the memory of the last one is free for this
            self._last = problem.linearise(z, self._control)
        return self._last

    def objective(self, z: Array) -> tuple[float, F64]:
        """The cost and its gradient."""
        here = self.at(z)
        return here.cost, here.gradient()

    def hessian(self, z: Array) -> Linearised:
        """Products with the Gauss-Newton Hessian at z."""
        return self.at(z)


def _background(name: str, value: Any, simulation: Simulation, steps: int, unknown: bool) -> Any:
    """An input of the background in its shape, in the unit that the equation declares. The run evaluates functions of coordinates."""
    if is_function(value) and not unknown:
        return value
    meaning = ANYTHING if name in simulation._groups.parts else simulation._meaning(name)
    values, shape = real_array(f"background of {name}", value, meaning=meaning), simulation.input_shape(name, steps)
    if not values.shape and (unknown or name in simulation.equation.uniform):
        values = np.full(shape, values)
    if values.shape != shape:
        remedy = (
            "give a row for each step" if name in simulation._step.series else "give a value for each cell" if shape else "give a number"
        )
        raise ShapeError(f"background of {name} has shape {values.shape}, expected {shape}; {remedy}")
    if not np.isfinite(values).all():
        raise ParameterError(f"background of {name} has {counted(values)}, expected finite numbers; correct it")
    return values


def _check_prior(what: str, name: str, prior: Prior, simulation: Simulation, steps: int, needed: tuple[str, ...]) -> None:
    if name not in simulation.wrt:
        raise ParameterError(f"{what} of {name}, expected inputs that are differentiated for ({', '.join(simulation.wrt)}); add it to wrt")
    parts = ("size", "inner", "root", "root_transpose", *needed)
    missing = [part for part in parts if not hasattr(prior, part)]
    if missing:
        raise ParameterError(
            f"{what} of {name} is {shown(prior)} without {', '.join(missing)}, expected an object with {', '.join(parts)}; take a "
            "diffsim.optimize.DiffusionPrior, or a PrecisionPrior for a number"
        )
    size = int(np.prod(simulation.input_shape(name, steps)))
    if prior.size != size:
        raise ShapeError(f"{what} of {name} is of {prior.size} values, expected {size}; make it for the shape of the input")
    expected, own = simulation.input_shape(name, steps), tuple(getattr(prior, "shape", ()))
    axes, own_axes = ([n for n in cells if n > 1] for cells in (expected, own))
    if len(own_axes) == len(axes) and own_axes != axes:  # a prior along one line of all values is another matter
        raise ShapeError(f"{what} of {name} has the shape {own}, expected {expected}; make it for that")
