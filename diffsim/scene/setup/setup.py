"""A scene on a grid, ready to run forward: on its own grid for the inversion, on a finer one for the data."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from diffsim.base.messages import shown
from diffsim.errors import ParameterError, SceneError, ShapeError, StabilityError
from diffsim.mesh.grid import Grid
from diffsim.photonics import Source
from diffsim.scene.schema.parts import FieldModel, Sources
from diffsim.scene.schema.schema import Description, Truth
from diffsim.scene.setup.design import Watched, medium_of, require_light, sent, watched_of
from diffsim.scene.setup.fields import build_field, build_points
from diffsim.scene.setup.grids import refined
from diffsim.scene.setup.place import BEYOND, Place
from diffsim.scene.setup.recorded import Recorded, Shots, read_data
from diffsim.scene.setup.resolved import Resolved
from diffsim.scene.setup.sizes import fine_steps, shots_of
from diffsim.scene.setup.wavelets import wavelet_values
from diffsim.scene.words.domains import at_location, domain, everywhere, lengths, location, of_source, of_windows
from diffsim.scene.words.explain import prefix_error
from diffsim.scene.words.model import Mask
from diffsim.scene.words.suggest import nearest, require_known
from diffsim.simulation import Simulation, Solution
from diffsim.stepping.declare.equation import Equation, option_of
from diffsim.stepping.declare.points import Points, point_table
from diffsim.typing import Array

Where = tuple[str, str]
"""("traces" or "final", state)"""
AHEAD = 1.0
"""The times of a finer run exceed the scene's own times by less than this many of its time steps."""


@dataclass(frozen=True, eq=False)
class Shot:
    """Sources that fire together.

    Attributes:
        sources: forcing -> positions, shape (sources, axes).
        amplitudes: forcing -> shape (steps, sources).
        points: forcing -> which of its points they are.
    """

    sources: Mapping[str, Array]
    amplitudes: Mapping[str, Array]
    points: Mapping[str, slice]


@dataclass(frozen=True)
class Way:
    """How the values of a field at places between cells are taken; see `diffsim.Points`."""

    interpolation: Literal["linear", "sinc"] = "linear"
    dipole: tuple[float, ...] | None = None


@dataclass(frozen=True, eq=False)
class Setup:
    """An equation on a grid with its sources and receivers.

    Attributes:
        resolved: the scene on its own grid, with its own time step; the grid of `simulation` covers the same region.
        simulation: the compiled simulation. Its sources are those of the shot that was prepared last.
        steps: time steps.
        shots: at least one, possibly without sources.
        receivers: state -> positions.
        data: state -> its records from files.
        strengths: forcing -> its number of points, if the unknown is an amplitude for each of them, not the wavelet.
        ways: forcings and states -> how their values between cells are taken, where not linearly.
        watched: the monitors, whose points are receivers; None: there are none.
        guided: forcings that send a mode.
        windows: number of windows. With more than one, the shots are windows, and an unknown state has a value for each.
    """

    resolved: Resolved
    simulation: Simulation
    steps: int
    shots: tuple[Shot, ...]
    receivers: Mapping[str, Array]
    data: Mapping[str, Recorded]
    strengths: Mapping[str, int]
    ways: Mapping[str, Way] = field(default_factory=dict)
    watched: Watched | None = None
    guided: frozenset[str] = frozenset()
    windows: int = 1

    @property
    def base(self) -> Grid:
        """The scene's own grid."""
        return self.resolved.grid

    @property
    def inner(self) -> Grid | None:
        """That without the cells around it for a layer; None: there are none."""
        return self.resolved.inner

    @property
    def grid(self) -> Grid:
        return self.simulation.grid

    @property
    def equation(self) -> Equation:
        return self.simulation.equation

    def times(self) -> Array:
        """Times of the traces' samples, s."""
        return self.equation.dt * np.arange(self.steps + 1)

    def place(self, name: str, key: str) -> Place:
        """The grid and the key of an input's values, which may lie on faces: there the grid is half a cell farther on.

        Args:
            name: name of the input.
            key: its key in the scene.
        """
        beyond = AHEAD if name in (*self.equation.series, *self.equation.forcings) else BEYOND
        at = self._location(name)
        inner = at_location(self.inner, at) if self.inner is not None and self.everywhere(name) else None
        return Place(
            at_location(self._domain(self.equation, self.steps, name), at),
            at_location(self._domain(self.resolved.equation, self.resolved.steps, name), at),
            key,
            beyond + 0.5 * any(at),
            self.unit(name),
            inner,
            self.resolved.scene.grid.crs,
            self.equation.positive.get(name, ""),
        )

    def _domain(self, equation: Equation, steps: int, name: str) -> Grid:
        if name in equation.forcings:
            return of_source(equation.dt, steps, self.strengths.get(name, 1), name in self.strengths)
        if self.by_window(name):
            return of_windows(equation.grid, self.windows, steps * equation.dt)
        return domain(equation, name, steps)

    def _location(self, name: str) -> tuple[int, ...]:
        """The location of an input's values along each axis of its domain."""
        if name in self.equation.forcings:
            return ()
        return (*(0,) * self.by_window(name), *location(self.equation, name))

    def by_window(self, name: str) -> bool:
        """True if an input has a value for each window: a state where there are several."""
        return self.windows > 1 and name in self.equation.states

    def everywhere(self, name: str) -> bool:
        """True if an input has one value in each cell of the grid."""
        return everywhere(self.equation, name) and not self.by_window(name)

    def lengths(self, name: str) -> tuple[float, ...]:
        """Distance of neighbouring values of an input along each axis of its domain: in metres, along time in seconds."""
        if name in self.equation.forcings:
            return self.place(name, "").grid.spacing
        if self.by_window(name):
            return self.steps * self.equation.dt, *self.equation.cell_lengths()
        return lengths(self.equation, name, self.equation.cell_lengths())

    def unit(self, name: str) -> str:
        """Unit of a field of the equation; "": it has none."""
        equation = self.equation
        variables = {**equation.states, **equation.initials, **equation.parameters, **equation.series}
        return variables[name].unit if name in variables else ""

    def alike(self, name: str, known: Mapping[str, Array]) -> dict[str, Array]:
        """The known inputs with the same domain as the input `name`. Their values may have other locations in its cells."""
        here, *others = (self._domain(self.equation, self.steps, each) for each in (name, *known))
        return {other: values for (other, values), there in zip(known.items(), others, strict=True) if there == here}

    def within(self, name: str) -> Mask:
        """True at the values of an input over the scene's own grid that are not of cells around it."""
        grid = self._domain(self.resolved.equation, self.resolved.steps, name)
        inside = np.ones(grid.shape, bool)
        if self.inner is not None and self.everywhere(name):
            for axis, x in enumerate(np.meshgrid(*(grid.coordinates(axis) for axis in range(grid.ndim)), indexing="ij", sparse=True)):
                (first, last), h = self.inner.coordinates(axis)[[0, -1]], self.inner.spacing[axis]
                inside &= (x > first - 0.5 * h) & (x < last + 0.5 * h)
        return inside

    def shaped(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Inputs in the shapes of the simulation, where a number has no axes."""
        return {name: np.reshape(values, self.simulation.input_shape(name, self.steps)) for name, values in inputs.items()}

    def over_cells(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Parameters and initial fields at each cell, for the checks of an equation."""
        traced = self.simulation._compiled.traced
        return {name: traced.over_cells(name, values) for name, values in self.shaped(inputs).items()}

    def of_shot(self, values: Mapping[str, Array], number: int) -> dict[str, Array]:
        """Inputs of the simulation for a shot: fields in their shapes, and amplitudes of its sources. It is linear in the values."""
        shot, forcings = self.shots[number], self.equation.forcings
        here = {name: each[number] if self.by_window(name) else each for name, each in values.items() if name not in forcings}
        of_one = self.shaped(here)
        for name in values.keys() & set(forcings):
            if name in self.strengths:
                of_one[name] = shot.amplitudes[name] * values[name][shot.points[name]]
            else:
                of_one[name] = np.repeat(np.reshape(values[name], (-1, 1)), shot.amplitudes[name].shape[1], axis=1)
        return of_one

    def gathered(self, gradient: Mapping[str, Array], number: int) -> dict[str, Array]:
        """The transpose of `of_shot`: gradients with respect to values, from those with respect to the inputs of a shot."""
        shot, sums = self.shots[number], dict(gradient)
        for name in gradient.keys() & set(self.equation.forcings):
            if name in self.strengths:
                sums[name] = np.zeros(self.strengths[name])
                sums[name][shot.points[name]] = (shot.amplitudes[name] * gradient[name]).sum(axis=0)
            else:
                sums[name] = gradient[name].sum(axis=1)
        for name in filter(self.by_window, gradient):
            sums[name] = np.zeros((self.windows, *self.grid.shape))
            sums[name][number] = gradient[name].reshape(self.grid.shape)
        return sums

    def prepared(self, inputs: Mapping[str, Array], shots: Iterable[int] | None = None) -> Iterator[dict[str, Array]]:
        """For each shot, or each of these: move the sources there, and yield all inputs of the simulation."""
        for number in range(len(self.shots)) if shots is None else shots:
            shot = self.shots[number]
            if len(self.shots) > 1 and shot.sources:
                self.simulation.move(sources=self.placed(shot.sources))
            yield {**shot.amplitudes, **self.of_shot(inputs, number)}

    def placed(self, places: Mapping[str, Array]) -> dict[str, Points]:
        """Positions with their interpolation."""
        return _placed(places, self.ways)

    def predict(self, inputs: Mapping[str, Array], shots: Iterable[int] | None = None) -> Iterator[Solution]:
        """Solve every shot forward, or each of these."""
        for every in self.prepared(inputs, shots):
            yield self.simulation.run(every, self.steps)


def build_setup(
    resolved: Resolved,
    precision: str,
    wrt: Collection[str],
    truth: Truth | None = None,
    data: Mapping[str, Recorded] | None = None,
    domains: tuple[int, ...] | None = None,
) -> Setup:
    """The scene on its own grid, or on the grid and with the time steps of the data that its truth makes.

    Args:
        resolved: the scene.
        precision: "f32" or "f64".
        wrt: inputs to differentiate for.
        truth: the truth of the scene, to make data; None: the scene's own grid.
        data: state -> records, read before; None: they are read here.
        domains: boxes along each axis, see `Simulation`.
    """
    scene, base, equation = resolved.scene, resolved.grid, resolved.equation
    dt, steps = scene.time.step, resolved.steps
    if equation.steady and steps != 1:
        raise SceneError(
            f"time: expected one step, from a guess to the solution of the steady equation {scene.equation.type}, found {steps}; write "
            "dt = 1.0 and steps = 1"
        )
    if truth is not None:
        steps = fine_steps(scene, truth)
        dt = dt * scene.time.count / steps  # both runs end at the same time
        with prefix_error("equation"):
            equation = scene.equation.build(refined(base, truth.refine), dt, truth.refine)
    place = Place(equation.grid, base, "sources")
    states = equation.states
    for kind, every, known in (
        ("sources", scene.sources, equation.forcings),
        ("receivers", scene.receivers, states),
        ("data", scene.data, states),
    ):
        for name in every:
            require_known(f"{kind}.{name}", name, known)
    wavelets = {n: wavelet_values(m.wavelet, dt * np.arange(steps), f"sources.{n}.wavelet") for n, m in scene.sources.items()}
    guided, watched = _guided(scene, equation, base, wavelets)
    positions = {
        name: guided[name].places[name] if name in guided else build_points(model, place.under(f"sources.{name}"))
        for name, model in scene.sources.items()
    }
    receivers = {name: build_points(model, place.under(f"receivers.{name}")) for name, model in scene.receivers.items()}
    data = _read(scene, equation, base, receivers, positions) if data is None else data
    receivers |= {name: recorded.positions for name, recorded in data.items()}
    receivers |= {} if watched is None else watched.monitors.receivers
    shots = _shots(scene.sources, positions, wavelets, {name: source.amplitudes[name] for name, source in guided.items()})
    windows = scene.time.windows if truth is None else 1  # the truth runs through all of them
    shots = shots * windows
    ways = _ways(scene)
    for kind, places in (("sources", positions), ("receivers", receivers)):
        for name, points in places.items():
            with prefix_error(f"{kind}.{name}", ShapeError):
                # the rules of the sides tell where those of sincs may lie, and modes and monitors have places of their own
                wide = name in ways and ways[name].interpolation == "sinc"
                if not wide and name not in guided and (watched is None or kind == "sources"):
                    point_table(base, (0,) * base.ndim, points, what=kind[:-1])
    for name in wrt:
        require_input(f"unknowns.{name}", name, scene, equation)
    with prefix_error("equation"):
        sources, heard = (_placed(places, ways) for places in (shots[0].sources, receivers))
        simulation = Simulation(equation, sources=sources, receivers=heard, wrt=wrt, precision=precision, domains=domains)
    strengths = _strengths(scene, positions)
    return Setup(resolved, simulation, steps, shots, receivers, data, strengths, ways, watched, frozenset(guided), windows)


def _guided(scene: Description, equation: Equation, base: Grid, wavelets: Mapping[str, Array]) -> tuple[dict[str, Source], Watched | None]:
    """The currents of modes, and the monitors."""
    if not scene.monitors and all(model.mode is None for model in scene.sources.values()):
        return {}, None
    require_light(scene, equation)
    key, model = medium_of(scene)
    eps = build_field(model, Place(equation.grid, base, key))
    return sent(scene, equation, eps, wavelets), watched_of(scene, equation, eps)


def _placed(places: Mapping[str, Array], ways: Mapping[str, Way]) -> dict[str, Points]:
    return {name: Points(points, way.interpolation, way.dipole) for name, points in places.items() for way in [ways.get(name, Way())]}


def _ways(scene: Description) -> dict[str, Way]:
    """How values between cells are taken, of forcings and states."""
    ways = {name: Way(model.interpolation, model.dipole) for name, model in {**scene.sources, **scene.receivers}.items()}
    for name, model in scene.data.items():
        if name not in scene.receivers:
            ways[name] = Way(model.interpolation)
        elif model.interpolation != "linear":
            raise SceneError(
                f"data.{name}.interpolation: expected none beside receivers.{name}, which places them, found {shown(model.interpolation)}; "
                f"give it in [receivers.{name}]"
            )
    for name, way in ways.items():
        if way.dipole is not None and len(way.dipole) != len(scene.grid.shape):
            kind = "sources" if name in scene.sources else "receivers"
            raise SceneError(
                f"{kind}.{name}.dipole: expected {len(scene.grid.shape)} numbers, one an axis of the grid, found {len(way.dipole)}; "
                "add or drop some"
            )
    return ways


def _strengths(scene: Description, positions: Mapping[str, Array]) -> dict[str, int]:
    """Forcing -> its number of points, if the amplitudes of these are unknown."""
    counts = {}
    for name, model in scene.unknowns.items():
        if name in scene.sources and scene.sources[name].mode is not None:
            raise SceneError(f"unknowns.{name}: expected a source with points, found a mode, whose currents are known; leave it out")
        if model.of is not None and name not in positions:
            raise SceneError(f"unknowns.{name}.of: expected no such key for a field, found {shown(model.of)}; drop it")
        if model.of == "amplitudes":
            counts[name] = len(positions[name])
    return counts


def _read(
    scene: Description, equation: Equation, base: Grid, receivers: Mapping[str, Array], sources: Mapping[str, Array]
) -> dict[str, Recorded]:
    """The records of every state that has some."""
    recorded, shots = {}, Shots(shots_of(scene), _one_a_shot(scene, sources))
    for name, model in scene.data.items():
        with prefix_error(f"data.{name}"):
            unit, points = equation.states[name].unit, receivers.get(name)
            recorded[name] = read_data(model, unit, base, points, shots, scene.time.step, scene.time.count, scene.grid.crs, equation.steady)
    return recorded


def _one_a_shot(scene: Description, sources: Mapping[str, Array]) -> Array | None:
    """The place of each shot's source, shape (shots, axes); None: a shot has several sources, or none."""
    in_turn = next((name for name, model in scene.sources.items() if model.fire == "in turn"), None)
    if in_turn is not None:
        return sources[in_turn]
    places = np.unique(np.concatenate(list(sources.values())), axis=0) if sources else np.empty((0, 0))
    return places if len(places) == 1 else None


def field_inputs(equation: Equation) -> tuple[str, ...]:
    """Inputs that `[fields]` give: parameters, initial fields and series."""
    overridden = type(equation).initial is not Equation.initial
    return (*equation.parameters, *(equation.initials if overridden else equation.states), *equation.series)


def require_input(key: str, name: str, scene: Description, equation: Equation) -> None:
    """Refuse the name of an input that the equation does not have."""
    sources = [] if key.startswith("fields.") else [forcing for forcing in equation.forcings if forcing in scene.sources]
    known = (*field_inputs(equation), *sources)
    if name not in known:
        remedy, rules = nearest(name, known), scene.equation.boundaries()
        if name in equation.forcings:
            expected = f"expected points of the forcing {name} in [sources.{name}], found none; add them"
            if key.startswith("fields."):
                expected = f"expected one of {', '.join(known)}, found the forcing {name}; give its wavelet in [sources.{name}]"
            raise SceneError(f"{key}: {expected}")
        if option := option_of(equation, name):
            remedy = f"[equation] has it with {option.replace('True', 'true').replace('False', 'false')}"
        further = ", or name it in a rule of equation.boundary" if rules and not option and "?" not in remedy else ""
        raise SceneError(f"{key}: expected one of {', '.join(known)}, found {shown(name)}; {remedy}{further}")


def build_inputs(models: Mapping[str, tuple[str, FieldModel]], setup: Setup) -> dict[str, Array]:
    """Values of inputs, each over its domain.

    Args:
        models: input -> the key of its field in the scene, and the field.
        setup: the setup with their domains.
    """
    return {name: build_field(model, setup.place(name, key)) for name, (key, model) in models.items()}


def check_inputs(setup: Setup, inputs: Mapping[str, Array], keys: Mapping[str, str], step: str = "time.dt") -> None:
    """Refuse parameters that are missing or not physical, and a time step that is not stable for them.

    Args:
        setup: the equation.
        inputs: fields by name.
        keys: key of each field in the scene.
        step: key of the time step.
    """
    parameters = setup.equation.parameters
    missing = [name for name in (*parameters, *setup.equation.series) if name not in inputs]
    if missing:
        what = "a field" if missing[0] in parameters else "a series, which has values for each time step"
        raise SceneError(
            f"fields.{missing[0]}: expected {what}, for the equation needs {' and '.join(missing)}, found none; add "
            f"{' and '.join(f'[fields.{name}]' for name in missing)}"
        )
    dtype = setup.simulation.dtype
    for name, values in inputs.items():
        largest = float(np.max(np.abs(values)))
        if largest > float(np.finfo(dtype).max):  # as f64: NumPy would make the other one an f32, and warn
            raise SceneError(f"{keys[name]}: expected numbers up to {np.finfo(dtype).max:.2g}, as {dtype} has, found {largest:g}; lower it")
    over_cells = setup.over_cells({name: np.asarray(inputs[name], dtype) for name in parameters})
    key = " and ".join(keys[name] for name in parameters if everywhere(setup.equation, name))
    with prefix_error(step, StabilityError):
        try:
            setup.equation.check(over_cells)
        except ParameterError as error:  # of the parameter that it names first
            named = next((name for name in re.findall(r"\w+", str(error)) if name in keys), None)
            with prefix_error(key if named is None else keys[named]):
                raise
    if type(setup.equation).check_start is not Equation.check_start and inputs.keys() & setup.equation.states.keys():
        states = {
            name: np.asarray(inputs[name], dtype) if name in inputs else np.zeros(setup.grid.shape, dtype) for name in setup.equation.states
        }
        with prefix_error(step, StabilityError), prefix_error("fields", ParameterError):
            setup.equation.check_start(over_cells, setup.over_cells(states))


def _shots(
    models: Mapping[str, Sources], positions: Mapping[str, Array], wavelets: Mapping[str, Array], guided: Mapping[str, Array]
) -> tuple[Shot, ...]:
    """The shots, where the currents of modes have amplitudes of their own."""
    in_turn = next((name for name, model in models.items() if model.fire == "in turn"), None)
    count = len(positions[in_turn]) if in_turn else 1
    out = []
    for number in range(count):
        which = {name: slice(number, number + 1) if name == in_turn else slice(None) for name in positions}
        here = {name: points[which[name]] for name, points in positions.items()}
        amplitudes = {name: np.repeat(wavelets[name][:, None], len(points), axis=1) for name, points in here.items()}
        out.append(Shot(here, amplitudes | dict(guided), which))
    return tuple(out)
