"""Turn a description into a problem: a simulation, its known inputs, and the unknowns in the optimiser's variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import name_shown, shown
from diffsim.checkpoint import AnySchedule, Checkpoint, Policy
from diffsim.domains import Alone, Ranks
from diffsim.errors import ParameterError, SceneError
from diffsim.losses import Regulariser
from diffsim.optimize import Parametrisation, Regions, Stacked, Unknown
from diffsim.photonics import Density
from diffsim.scene.schema.parts import FieldModel
from diffsim.scene.schema.schema import Description, OwnUnknown, UnknownModel
from diffsim.scene.schema.search_keys import OF_RECORDS
from diffsim.scene.search.checkpoints import decided, policy_of
from diffsim.scene.search.stages import check_stages
from diffsim.scene.setup.design import check_design
from diffsim.scene.setup.fields import build_field, build_mask
from diffsim.scene.setup.place import Place
from diffsim.scene.setup.recorded import Recorded
from diffsim.scene.setup.resolved import resolved
from diffsim.scene.setup.setup import Setup, build_inputs, build_setup, check_inputs, require_input
from diffsim.scene.setup.sizes import require_memory
from diffsim.scene.shots.forward import Forward
from diffsim.scene.shots.together import most_together
from diffsim.scene.shots.workers import HERE, Workers
from diffsim.scene.words.explain import prefix_error
from diffsim.scene.words.model import Mask
from diffsim.scene.words.suggest import nearest
from diffsim.stepping.declare.points import point_table
from diffsim.typing import Array

START = "start"
"""Name of the start of an unknown in a choice of cells."""
OF_TRUTH = ("correlation", "relative_error", "total", "distance")
"""Acceptance figures that compare the answer with the truth."""
NEEDS = {
    **dict.fromkeys(OF_RECORDS, "[[misfit]]"),
    "transmission": "[[maximise]]",
    "feature_size": 'an unknown with type = "density"',
}
"""Acceptance figures of optional parts of a scene."""
MOSTLY = 0.5
"""If more than this part of all cells is land, a message asks for the sign of the depth."""


@dataclass(frozen=True, eq=False)
class Problem:
    """An assembled scene.

    Attributes:
        scene: its description.
        forward: equation, shots and receivers on the scene's own grid, and the given inputs.
        start: start of the search for each unknown.
        free: cells (or times) of each unknown that may change.
        unknowns: theta <-> fields.
        penalties: label -> unknown, and its penalty.
        of_variables: label -> unknown, and the penalty of its part of theta.
        keys: label of a penalty -> its key in the scene, for messages.
        policy: the checkpointing policy of the scene.
        checkpoint: the result of the policy: a policy with its schedule, or a plan.
        workers: where its shots run.
        ranks: the processes that go through the search together. Rank 0 has its files.
        domains: boxes along each axis; None: the grid is not divided.
    """

    scene: Description
    forward: Forward
    start: Mapping[str, Array]
    free: Mapping[str, Mask]
    unknowns: Stacked
    penalties: Mapping[str, tuple[str, Regulariser]]
    of_variables: Mapping[str, tuple[str, Regulariser]]
    keys: Mapping[str, str]
    policy: Policy
    checkpoint: Checkpoint
    workers: Workers = HERE
    ranks: Ranks = field(default_factory=Alone)
    domains: tuple[int, ...] | None = None

    @property
    def setup(self) -> Setup:
        """Equation, shots and receivers on the scene's own grid."""
        return self.forward.setup

    @property
    def known(self) -> Mapping[str, Array]:
        """Given inputs, over the cells."""
        return self.forward.known

    @property
    def schedule(self) -> AnySchedule:
        """The checkpointing schedule."""
        schedule = Policy.of(self.checkpoint).schedule
        assert not isinstance(schedule, str)  # it was chosen
        return schedule

    @property
    def theta(self) -> npt.NDArray[np.float64]:
        """The start of the search."""
        return self.unknowns.join(self.start)

    def inputs(self, fields: Mapping[str, Array]) -> dict[str, Array]:
        """All inputs, with these fields for the unknowns."""
        return self.forward.inputs(fields)


def assemble(
    scene: Description,
    precision: str,
    folder: Path | None = None,
    data: Mapping[str, Recorded] | None = None,
    workers: Workers = HERE,
    domains: tuple[int, ...] | None = None,
    ranks: Ranks | None = None,
) -> Problem:
    """Build everything that a scene describes except its data.

    Args:
        scene: the scene.
        precision: "f32" or "f64".
        folder: folder for states on disk; None: the system's folder for temporary files.
        data: state -> records, read before; None: they are read here.
        workers: where its shots will run.
        domains: boxes along each axis, see `Simulation`.
        ranks: the processes that go through the search together; None: one.

    Raises:
        SceneError: an entry of the scene is invalid. The message names the key.
    """
    _check_names(scene)
    _check_data(scene)
    check_design(scene)
    whole = resolved(scene)
    scene = whole.scene
    _check_receivers(scene, whole.equation.states)
    require_memory(scene, precision)
    setup = build_setup(whole, precision, wrt=tuple(scene.unknowns), data=data, domains=domains)
    check_windows(scene, setup)
    check_misfit_windows(scene)
    for name in scene.unknowns:
        if scene.truth is not None and name not in scene.truth.fields:
            raise SceneError(f"truth.fields.{name}: expected the hidden truth of this unknown, found none; add [truth.fields.{name}]")
    for name in scene.fields:
        require_input(f"fields.{name}", name, scene, setup.equation)
    for number, misfit in enumerate(scene.misfit):
        if misfit.state not in setup.equation.states:
            states = ", ".join(setup.equation.states)
            raise SceneError(f"misfit[{number}].state: expected one of {states}, found {shown(misfit.state)}; choose one of these")
    _check_noise(scene, setup)
    known = build_inputs({name: (f"fields.{name}", m) for name, m in scene.fields.items() if name not in scene.unknowns}, setup)
    starts = {name: _start_of(scene, name) for name in scene.unknowns}
    start = build_inputs(starts, setup)
    check_inputs(setup, {**known, **start}, {name: f"fields.{name}" for name in known} | {name: key for name, (key, _) in starts.items()})
    _check_heard(setup, scene, {**known, **start})

    parts: dict[str, Unknown] = {}
    free: dict[str, Mask] = {}
    dtype = setup.simulation.dtype
    for name, model in scene.unknowns.items():
        key = f"unknowns.{name}"
        place = setup.place(name, f"{key}.mask")
        chosen = setup.within(name)
        if model.mask is not None:
            chosen &= build_mask(model.mask, masking(setup, name, known, start), place)
            if not chosen.any():
                raise SceneError(f"{key}.mask: expected at least one cell that is not around the grid, found none; widen it")
        with prefix_error(key):
            try:
                parts[name], free[name] = _parametrised(model, start[name], chosen, dtype, place.under(f"{key}.regions"))
                start[name] = _first_field(parts[name], start[name])
            except ParameterError as error:
                _require_between(name, model, start[name][chosen], setup.unit(name), error)
                raise
    penalties, of_variables, keys = {}, {}, dict[str, str]()
    for number, penalty in enumerate(scene.penalty):
        with prefix_error(f"penalty[{number}]"):
            label = f"{penalty.type} of {penalty.unknown}"
            name = penalty.unknown
            if penalty.of == "variables":
                label, theta = f"{penalty.type} of the variables of {name}", parts[name].from_field(start[name])
            label = f"{label} [{number}]" if label in keys else label
            keys[label] = f"penalty[{number}]"
            if penalty.of == "variables":
                of_variables[label] = name, penalty.built(theta, np.ones(theta.shape, bool), (1.0,))
            else:
                penalties[label] = name, penalty.built(start[name], free[name], setup.lengths(name))
    unknowns = Stacked(parts)
    check_stages(scene, setup, unknowns, start)
    policy = policy_of(scene.checkpoint, folder, workers)
    together = most_together(setup, policy, setup.windows) if setup.windows > 1 and workers is HERE else 1
    return Problem(
        scene,
        Forward(setup, known, together),
        start,
        free,
        unknowns,
        penalties,
        of_variables,
        keys,
        policy,
        decided(policy, setup, workers),
        workers,
        ranks or Alone(),
        domains,
    )


def check_misfit_windows(scene: Description) -> None:
    """Refuse windows of misfits of which no time lies within the run."""
    end = scene.time.step * scene.time.count * scene.time.windows
    for number, model in enumerate(scene.misfit):
        if model.window is not None and (model.window[0] > end or model.window[1] < 0):
            ends = f"{model.window[0]:g} to {model.window[1]:g}"
            raise SceneError(f"misfit[{number}].window: expected times of the run, 0 to {end:g} s, found {ends}; correct it, or run longer")


def check_windows(scene: Description, setup: Setup) -> None:
    """Refuse windows of what is no sequence of states alone."""
    equation, windows = setup.equation, scene.time.windows
    for name, model in scene.unknowns.items():
        if model.jumps is not None and not setup.by_window(name):
            raise SceneError(f"unknowns.{name}.jumps: expected a state and time.windows above 1, found {windows} and {name}; leave it out")
    if windows == 1:
        return
    for key, present in {
        "sources": scene.sources,
        "data": scene.data,
        "monitors": scene.monitors,
        "uncertainty": scene.uncertainty,
        "grid.around": scene.grid.around,
    }.items():
        if present:
            raise SceneError(
                f"{key}: expected none with time.windows = {windows}, whose records come from [truth], found some; leave it out"
            )
    if equation.series or equation.initials or setup.simulation._step.clock:
        raise SceneError(
            f"time.windows: expected an equation whose step is the same at all times, found {scene.equation.title}, which reads the time "
            "or series, or makes its states of other inputs; take one window"
        )
    for name in equation.states:
        if name not in scene.unknowns or scene.unknowns[name].jumps is None:
            raise SceneError(
                f"unknowns.{name}.jumps: expected a weight of the jumps of each state, since each of {windows} windows begins with states "
                "of its own, found none; add it"
            )


def masking(setup: Setup, name: str, known: Mapping[str, Array], start: Mapping[str, Array]) -> dict[str, Array]:
    """The fields that a choice of cells of an unknown may refer to: the known ones with the same domain, and its own start."""
    return {**setup.alike(name, known), START: start[name]}


def _start_of(scene: Description, name: str) -> tuple[str, FieldModel]:
    field = scene.unknowns[name].start
    if field is not None:
        return f"unknowns.{name}.start", field
    if name in scene.fields:
        return f"fields.{name}", scene.fields[name]
    if name in scene.sources:
        amplitudes = scene.unknowns[name].of == "amplitudes"
        return f"sources.{name}.wavelet", FieldModel(constant=1.0) if amplitudes else FieldModel(wavelet=scene.sources[name].wavelet)
    raise SceneError(f"unknowns.{name}.start: expected a field to start from, found none, and no fields.{name} either; add one")


def _check_receivers(scene: Description, states: Collection[str]) -> None:
    """Refuse misfits of traces, and objectives of a design, whose state has no receivers."""
    compared = {
        f"misfit[{n}]": (misfit.state, (*scene.receivers, *scene.data)) for n, misfit in enumerate(scene.misfit) if misfit.of == "traces"
    }
    compared |= {f"minimise[{n}]": (objective.state, (*scene.receivers,)) for n, objective in enumerate(scene.minimise)}
    for key, (state, heard) in compared.items():
        if state not in heard:
            known = tuple(dict.fromkeys(heard))
            remedy = f"add [receivers.{state}]" if state in states else nearest(str(state), dict.fromkeys((*known, *states)))
            raise SceneError(f"{key}.state: expected a state with receivers ({', '.join(known) or 'none'}), found {shown(state)}; {remedy}")


def _check_names(scene: Description) -> None:
    """Check the names by which one part of the scene refers to another."""
    for number, penalty in enumerate(scene.penalty):
        if penalty.unknown not in scene.unknowns:
            remedy = nearest(penalty.unknown, scene.unknowns)
            raise SceneError(
                f"penalty[{number}].unknown: expected one of {', '.join(scene.unknowns)}, found {shown(penalty.unknown)}; {remedy}"
            )
    for number, accept in enumerate(scene.accept):
        known_names = _judged(scene, accept.quantity)
        if not known_names and accept.quantity in NEEDS:
            raise SceneError(
                f"accept[{number}].quantity: expected {NEEDS[accept.quantity]}, which {accept.quantity} is of, found none; choose another"
            )
        if accept.quantity != "loss_reduction" and (accept.of not in known_names if accept.of else len(set(known_names)) > 1):
            named = repr(accept.of) if accept.of else "none"
            raise SceneError(f"accept[{number}].of: expected one of {', '.join(known_names)}, found {named}; name one")


def _judged(scene: Description, quantity: str) -> list[str]:
    """The names that an acceptance figure may have."""
    if quantity == "transmission":
        return [objective.of for objective in scene.maximise]
    if quantity == "feature_size":
        return [name for name, unknown in scene.unknowns.items() if unknown.of_class is Density]
    if quantity in OF_RECORDS:
        return [misfit.state for misfit in scene.misfit if misfit.of == "traces" or quantity == "misfit_over_noise"]
    return list(scene.unknowns)


def _check_data(scene: Description) -> None:
    """Check that all records are compared, that each misfit has data, and that the acceptance has a truth where it needs one."""
    compared = list(dict.fromkeys(misfit.state for misfit in scene.misfit if misfit.of == "traces"))
    for name in scene.data:
        if name not in compared:
            known = ", ".join(compared) or "none"
            raise SceneError(
                f"data.{name}: expected a state with a misfit of its traces ({known}), found {shown(name)}; add that misfit, or drop this"
            )
    if scene.truth is not None:
        return
    for number, misfit in enumerate(scene.misfit):
        if misfit.of == "final":
            raise SceneError(f'misfit[{number}].of: expected [truth], since records are of traces, found none; use of = "traces"')
        if misfit.state not in scene.data:
            raise SceneError(f"misfit[{number}].state: expected records in [data.{misfit.state}], or [truth], found neither; add one")
    for number, accept in enumerate(scene.accept):
        if accept.quantity in OF_TRUTH:
            raise SceneError(
                f"accept[{number}].quantity: expected [truth], which {accept.quantity} compares the answer with, found none; use "
                '"loss_reduction" or a figure of records'
            )


def _check_noise(scene: Description, setup: Setup) -> None:
    """Check that the noise of records is known where the acceptance needs it."""
    for number, accept in enumerate(scene.accept):
        state = accept.of or next((misfit.state for misfit in scene.misfit), "")
        if scene.data and scene.truth is None and accept.quantity == "misfit_over_noise" and setup.data[state].deviation is None:
            raise SceneError(f"data.{state}.deviation: expected the noise of the records, which accept[{number}] needs, found none; add it")


def _check_heard(setup: Setup, scene: Description, inputs: dict[str, Array]) -> None:
    """Refuse receivers in cells where the state never changes."""
    silent = setup.equation.silent(inputs)
    for name, points in setup.receivers.items() if silent else ():
        table = point_table(setup.grid, (0,) * setup.grid.ndim, points)
        for what, cells in silent.items():
            for number in np.flatnonzero(table.gather(cells.astype(float)) > 1 - 1e-9):
                at = ", ".join(f"{axis} = {x:g}" for axis, x in zip(setup.grid.axes, points[number], strict=True))
                who, remedy = f"receivers.{name}: point {number}", "move it"
                if name not in scene.receivers and name in setup.data:
                    data = setup.data[name]
                    who = f"data.{name}: {data.where}, trace {name_shown(data.names[number])}"
                    remedy = f'move it, or drop = ["{name_shown(data.names[number])}"]'
                if what == "land" and cells.mean() > MOSTLY:
                    remedy += f"; {cells.mean():.0%} of all cells are land: a depth is an elevation with scale = -1"
                raise SceneError(f"{who}, expected a place where the states change, found {what} at {at}; {remedy}")


def _require_between(name: str, model: UnknownModel, start: Array, unit: str, error: ParameterError) -> None:
    """Say which numbers of a start are beyond its bounds, where a parametrisation refused them.

    Raises:
        SceneError: the message names the key, the numbers, and the unit.
    """
    low, high = (bound if bound is not None else end for bound, end in ((model.lower, -np.inf), (model.upper, np.inf)))
    if isinstance(model, OwnUnknown) or not str(error).startswith("reference"):
        return
    if start.min() > low and start.max() < high:
        return
    within = "strictly between" if model.transform == "logit" else "between"
    raise SceneError(
        f"unknowns.{name}.start: expected numbers {within} lower = {low:g} and upper = {high:g}{f' {unit}' if unit else ''}, found "
        f"{start.min():g} to {start.max():g}; correct the start (its unit, such as by scale), or the bounds"
    ) from error


def _first_field(unknown: Unknown, start: Array) -> Array:
    """The field at which the search really begins."""
    theta = unknown.from_field(start)
    _require_shape("from_field", theta, (unknown.size,), "an entry for each unknown")
    field = unknown.to_field(theta)
    _require_shape("to_field", field, start.shape, "that of the field")
    for side, bounds in (("lb", unknown.bounds().lb), ("ub", unknown.bounds().ub)):
        _require_shape(f"bounds().{side}", bounds, (unknown.size,), "an entry for each unknown")
    return field


def _require_shape(what: str, value: Any, shape: tuple[int, ...], meaning: str) -> None:
    """Refuse an array of another shape from a parametrisation."""
    if np.shape(value) != shape:
        raise ParameterError(f"{what}: expected the shape {shape}, {meaning}, got {np.shape(value)}; correct the returned array")


def _parametrised(model: UnknownModel, start: Array, chosen: Mask, dtype: np.dtype, place: Place) -> tuple[Unknown, Mask]:
    """The parametrisation of an unknown, and its free cells."""
    if isinstance(model, OwnUnknown):
        return model.instance(shape=start.shape, dtype=dtype, mask=chosen, reference=start, grid=place.grid), chosen
    if model.regions is None:
        if max(model.smooth) > max(start.shape):
            most = max(start.shape)
            raise ParameterError(f"smooth: expected at most {most}, the values along the longest axis, got {max(model.smooth):g}; lower it")
        smooth = model.smooth[0] if len(model.smooth) == 1 else model.smooth
        return Parametrisation(start.shape, dtype, chosen, model.lower, model.upper, model.transform, model.scale, start, smooth), chosen
    values = build_field(model.regions, place.plain())
    inside = chosen & (values >= 0)
    if not inside.any():
        raise SceneError(f"{place.key}: expected cells of value 0 or more, found none; negative values mark cells of no region")
    labels = np.full(start.shape, -1)
    labels[inside] = np.unique(values[inside], return_inverse=True)[1]
    first = np.array([start[labels == k][0] for k in range(labels.max() + 1)])
    return Regions(labels, dtype, model.lower, model.upper, model.transform, model.scale, first, start), inside
