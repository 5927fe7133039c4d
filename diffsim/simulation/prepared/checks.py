"""Check the inputs and outputs of a simulation: known names, matching shapes, finite numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from diffsim.base.arguments import MOST_STEPS, mapping, real_array, whole
from diffsim.base.messages import shown
from diffsim.base.quantities import ANYTHING, Meaning, is_bare
from diffsim.base.system import available_memory
from diffsim.checkpoint.planning.memory import grouped
from diffsim.errors import DivergenceError, ParameterError, PlanError, ShapeError
from diffsim.simulation.prepared.blown_up import counted
from diffsim.simulation.prepared.groups import Groups, few, listed
from diffsim.simulation.prepared.solution import Solution
from diffsim.stepping.declare.equation import Equation, option_of
from diffsim.stepping.declare.points import PointTable
from diffsim.typing import Array


def check_names(what: str, names: Iterable[str], known: Iterable[str], kind: str, equation: Equation | None = None) -> None:
    """Raise ParameterError if a name is not known; of a vector or tensor of `equation` it says the names of the components."""
    if unknown := sorted({*names}.difference(known := [*known])):
        groups = equation.component_names if equation else {}
        if not known:
            remedy = "add them to the equation (its attribute `forcings`, and its step), or leave" if kind == "forcings" else "leave"
            raise ParameterError(f"{what} names {', '.join(unknown)}, but there are no {kind}, expected no name; {remedy} {what} out")
        raise ParameterError(
            f"{what} names {', '.join(unknown)}, but the {kind} are {listed(known, groups)}; expected some of these; "
            + remedies_of(unknown, equation)
        )


def remedies_of(names: Sequence[str], equation: Equation | None) -> str:
    """The remedy of each unknown name: that of its kind, and for all others to correct them."""
    rest, each = [*names], []
    for remedy in REMEDIES:
        of_kind = [name for name in rest if remedy([name], equation)]
        if of_kind:
            each.append(remedy(of_kind, equation))
            rest = [name for name in rest if name not in of_kind]
    return "; ".join([*each, *([f"correct {', '.join(rest)}"] if rest and each else [])]) or "correct the name"


def by_component(names: Iterable[str], equation: Equation | None) -> str:
    """The remedy where some of `names` are vectors or tensors of an equation, whose components have names of their own; "" else."""
    groups = equation.component_names if equation else {}
    each = [f"{name} has the components {few(groups[name])}" for name in names if name in groups]
    return f"{', '.join(each)}; give each of these by its own name" if each else ""


def by_initial(names: Iterable[str], equation: Equation | None) -> str:
    """The remedy where some of `names` are states that `initial` of an equation computes; "" else."""
    if equation is None or type(equation).initial is Equation.initial or not (states := [*equation.states.keys() & {*names}]):
        return ""
    return f"initial() of the equation gives {', '.join(sorted(states))}: leave it out, or declare the arguments of initial() in initials"


def by_option(names: Iterable[str], equation: Equation | None) -> str:
    """The remedy where an option of the equation would give some of `names`; "" else."""
    options = {name: option_of(equation, name) for name in names} if equation else {}
    return "; ".join(f"{type(equation).__name__} has {name} with {option}" for name, option in options.items() if option)


REMEDIES = by_component, by_initial, by_option
"""Remedies of kinds of unknown names, the first that fits; each is "" for names of no such kind."""


def check_steps(steps: int) -> int:
    """A number of time steps."""
    return whole("steps", steps, 1, MOST_STEPS)


def places(name: str, value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Coordinates by name."""
    return {} if value is None else mapping(name, value, "{'f': [[50.0, 50.0]]}")


def check_room(steps: int, points: Iterable[PointTable], dtype: np.dtype) -> None:
    """Raise PlanError unless the traces of all receivers and the amplitudes of all sources fit into memory."""
    wanted = (steps + 1) * sum(table.count for table in points) * dtype.itemsize
    if wanted > 2**24 and wanted > (available := available_memory()):
        raise PlanError(
            f"expected traces of {steps} steps at all sources and receivers to fit into memory, got {grouped(wanted)} bytes where "
            f"{grouped(available)} are available; lower steps, or record at fewer receivers"
        )


def all_finite(values: Array) -> bool:
    """True if every value, a real one, is finite. No array of truth values is made of a large one."""
    if values.size == 1:
        return math.isfinite(values.item())
    if values.size < 4096:
        return b"\0" not in np.isfinite(values).tobytes()  # in less time than .all()
    return math.isfinite(values.min()) and math.isfinite(values.max())


def check_input(name: str, value: Array, shape: tuple[int, ...], per: str) -> None:
    """Raise ShapeError or ParameterError unless an input has its shape, a value `per` something, and is finite."""
    if shape and not value.shape:
        raise ShapeError(f"input {name} is one number, expected a value for each {per}, shape {shape}; give np.full({shape}, {value:.6g})")
    if value.shape != shape:
        remedy = f"give a value for each {per}" + (", such as [1.0]" if shape == (1,) else "") if shape else "give one number"
        if per.startswith("step") and value.shape[1:] == shape[1:]:
            first = f"{name}[:{shape[0]}] for the first {shape[0]} steps"
            remedy = f"give {first}" if len(value) > shape[0] else f"give a row for each step, or take {len(value)} steps"
        raise ShapeError(f"input {name} has shape {value.shape}, expected {shape}; {remedy}")
    if not all_finite(value):
        bad = ~np.isfinite(value)
        first = f", the first in step {bad.reshape(len(bad), -1).any(axis=1).argmax()}" if per.startswith("step") else ""
        raise ParameterError(f"input {name} has {np.count_nonzero(bad)} values that are not finite{first}, expected none; correct the data")


LEAST_F32 = float(np.finfo(np.float32).tiny)
"""Kernels take smaller numbers of f32 for 0."""


def checked_cotangents(cotangents: Solution, solution: Solution, meaning: Callable[[str, str], Meaning]) -> Solution:
    """A user's cotangents as arrays of NumPy's. They must belong to parts of a solution, have their shapes, and be finite."""
    if not isinstance(cotangents, Solution):
        raise ParameterError(
            f"cotangents = {shown(cotangents)}, expected a diffsim.Solution; write it like Solution(traces={{'p': p_bar}})"
        )
    checked: dict[str, dict[str, Array]] = {"final": {}, "traces": {}}
    for what, bars, values in (("final", cotangents.final, solution.final), ("traces", cotangents.traces, solution.traces)):
        if not isinstance(bars, dict) or not bars.keys() <= values.keys():
            bars = solution.vectors.apart(f"cotangent of {what}", mapping(f"{what} cotangents", bars, "{'p': p_bar}"))
            check_names(f"{what} cotangents", bars, values, f"{what} entries")
        for name, value in bars.items():
            if type(value) is np.ndarray and value.dtype.kind == "f":
                array = value
            else:
                array = real_array(f"cotangent of {what} {name}", value, meaning=ANYTHING if is_bare(value) else meaning(what, name))
            if array.shape != values[name].shape:
                raise ShapeError(
                    f"cotangent of {what} {name} has shape {array.shape}, expected {values[name].shape}; give one like the value"
                )
            if not all_finite(array):
                raise DivergenceError(
                    f"cotangent of {what} {name} is not finite, expected finite numbers; the loss has no derivative here; correct it"
                )
            if values[name].itemsize == 4 and 0.0 < float(np.abs(array).max(initial=0.0)) < LEAST_F32:
                raise ParameterError(
                    f"cotangent of {what} {name}: expected numbers of at least {LEAST_F32:g} somewhere, got at most "
                    f"{float(np.abs(array).max()):.3g}, which f32 holds as 0; multiply the loss by a constant, or take precision = 'f64'"
                )
            checked[what][name] = array
    return Solution(checked["final"], checked["traces"])


def require_finite(fields: dict[str, Array], steps: int, cause: Callable[[], str], what: str = "") -> dict[str, Array]:
    """Return the fields, or raise DivergenceError with the text of `cause` if one is no longer finite."""
    for name, value in fields.items():
        if not all_finite(value):
            raise DivergenceError(f"{what}{name} is no longer finite after {steps} steps: {counted(value)}. {cause()}")
    return fields


def finite_solution(final: dict[str, Array], traces: dict[str, Array], steps: int, cause: Callable[[], str], groups: Groups) -> Solution:
    """The solution, unless a state or a trace is no longer finite. The message ends with `cause`."""
    return Solution(require_finite(final, steps, cause), require_finite(traces, steps, cause), groups=groups)
