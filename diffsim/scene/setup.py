"""A scene on a grid, ready to run forward: on its own grid for the inversion, on a finer one for the data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from diffsim.errors import DiffsimError, ParameterError, SceneError, ShapeError, StabilityError
from diffsim.grid import Grid
from diffsim.scene.data import load_dataset
from diffsim.scene.fields import Place, build_field, build_points
from diffsim.scene.parts import FieldModel, Ricker, Sources
from diffsim.scene.schema import Description, GridModel
from diffsim.scene.sizes import fine_steps
from diffsim.scene.suggest import nearest
from diffsim.simulation import Simulation, Solution
from diffsim.stepping.equation import Equation
from diffsim.stepping.points import linear_table
from diffsim.typing import Array


@dataclass(frozen=True, eq=False)
class Shot:
    """Sources that fire together.

    Attributes:
        sources: forcing -> positions, shape (sources, axes).
        amplitudes: forcing -> shape (steps, sources).
    """

    sources: Mapping[str, Array]
    amplitudes: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Setup:
    """An equation on a grid with its sources and receivers.

    Attributes:
        base: the scene's own grid; that of `simulation` covers the same region.
        simulation: compiled; its sources are those of the shot that was prepared last.
        steps: time steps.
        shots: at least one, possibly without sources.
        receivers: state -> positions.
    """

    base: Grid
    simulation: Simulation
    steps: int
    shots: tuple[Shot, ...]
    receivers: Mapping[str, Array]

    @property
    def grid(self) -> Grid:
        return self.simulation.grid

    @property
    def equation(self) -> Equation:
        return self.simulation.equation

    def times(self) -> Array:
        """Of the traces' samples, s."""
        return self.equation.dt * np.arange(self.steps + 1)

    def prepared(self, inputs: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
        """For each shot: put its sources in place and give all inputs of the simulation."""
        for shot in self.shots:
            if len(self.shots) > 1:
                self.simulation.move(sources=shot.sources)
            yield {**inputs, **shot.amplitudes}

    def predict(self, inputs: Mapping[str, Array]) -> list[Solution]:
        """Solve every shot forward."""
        return [self.simulation.run(every, self.steps) for every in self.prepared(inputs)]


@contextmanager
def blame(key: str, kind: type[DiffsimError] = DiffsimError) -> Iterator[None]:
    """Put the key in front of the message of an error that something in the scene led to."""
    try:
        yield
    except SceneError:
        raise
    except kind as error:
        raise SceneError(f"{key}: {error}") from error


def build_grid(model: GridModel) -> Grid:
    """The scene's grid."""
    shape, ndim = model.shape, len(model.shape)
    span = model.span
    if model.like is not None:
        coordinates = load_dataset(model.like, "grid.like").coordinates
        if coordinates is None or len(coordinates) != ndim:
            has = "none" if coordinates is None else f"{len(coordinates)} axes of them"
            raise SceneError(
                f"grid.like: expected a data set with coordinates along {ndim} axes, found {has} in {model.like}; give spacing or span"
            )
        span = tuple((float(c[0]), float(c[-1])) for c in coordinates)
    with blame("grid"):
        if span is None:
            assert model.spacing is not None
            spacing = model.spacing * ndim if len(model.spacing) == 1 else model.spacing
            return Grid(shape, spacing, model.origin or 0.0, model.axes)
        for axis, (n, (first, last)) in enumerate(zip(shape, span, strict=True)):
            if n < 2 or not last > first:
                found = f"{first:g}, {last:g} and {n}"
                raise SceneError(f"grid.span[{axis}]: expected a first below a last coordinate and two cells, found {found}; correct it")
        spacing = tuple((last - first) / (n - 1) for n, (first, last) in zip(shape, span, strict=True))
        return Grid(shape, spacing, [first for first, _ in span], model.axes)


def refined(grid: Grid, factor: float) -> Grid:
    """A grid of `factor` times as many cells along each axis, covering the same region."""
    shape = [round(n * factor) for n in grid.shape]
    spacing = [h * n / m for h, n, m in zip(grid.spacing, grid.shape, shape, strict=True)]
    origin = [first - 0.5 * h + 0.5 * new for first, h, new in zip(grid.origin, grid.spacing, spacing, strict=True)]
    return Grid(shape, spacing, origin, grid.axes)


def build_setup(scene: Description, precision: str, wrt: Collection[str], fine: bool = False) -> Setup:
    """The scene on its own grid, or with `fine` on the grid, and with the time steps, that its data are made with.

    Args:
        scene: the scene.
        precision: "f32" or "f64".
        wrt: inputs that gradients are wanted for.
        fine: see above.
    """
    base = build_grid(scene.grid)
    grid, dt, steps, finer = base, scene.time.dt, scene.time.count, 1.0
    if fine:
        finer, steps = scene.truth.refine, fine_steps(scene)
        grid = refined(base, finer)
        dt = dt * scene.time.count / steps  # both runs end at the same time
    with blame("equation"):
        equation = scene.equation.build(grid, dt, finer)
    place = Place(grid, base, "sources")
    for kind, given, known in (("sources", scene.sources, equation.forcings), ("receivers", scene.receivers, equation.states)):
        for name in given:
            if name not in known:
                raise SceneError(f"{kind}.{name}: expected one of {', '.join(known) or 'none'}, found {name!r}; {nearest(name, known)}")
    positions = {name: build_points(model, place.under(f"sources.{name}")) for name, model in scene.sources.items()}
    receivers = {name: build_points(model, place.under(f"receivers.{name}")) for name, model in scene.receivers.items()}
    shots = _shots(scene.sources, positions, dt * np.arange(steps))
    for kind, places in (("sources", positions), ("receivers", receivers)):
        for name, points in places.items():
            with blame(f"{kind}.{name}", ShapeError):
                linear_table(base, (0,) * base.ndim, points, what=kind[:-1])
    for name in wrt:
        if name not in field_inputs(equation):
            known = field_inputs(equation)
            raise SceneError(f"unknowns.{name}: expected one of {', '.join(known)}, found {name!r}; {nearest(name, known)}")
    with blame("equation"):
        simulation = Simulation(equation, sources=shots[0].sources, receivers=receivers, wrt=wrt, precision=precision)
    return Setup(base, simulation, steps, shots, receivers)


def field_inputs(equation: Equation) -> tuple[str, ...]:
    """Inputs over the cells: parameters and initial fields."""
    overridden = type(equation).initial is not Equation.initial
    return (*equation.parameters, *(equation.initials if overridden else equation.states))


def build_inputs(models: Mapping[str, tuple[str, FieldModel]], setup: Setup) -> dict[str, Array]:
    """Fields over the cells.

    Args:
        models: input -> the key of its field in the scene, and the field.
        setup: where they are wanted.
    """
    return {name: build_field(model, Place(setup.grid, setup.base, key)) for name, (key, model) in models.items()}


def check_inputs(setup: Setup, inputs: Mapping[str, Array], keys: Mapping[str, str], step: str = "time.dt") -> None:
    """Refuse parameters that are missing or not physical, and a time step that is not stable for them.

    Args:
        setup: the equation.
        inputs: fields by name.
        keys: where in the scene each of them stands.
        step: where the time step does.
    """
    parameters = setup.equation.parameters
    for name in parameters:
        if name not in inputs:
            raise SceneError(
                f"fields.{name}: expected a field, for the equation needs {', '.join(parameters)}, found none; add [fields.{name}]"
            )
    dtype = setup.simulation.dtype
    for name, values in inputs.items():
        largest = float(np.max(np.abs(values)))
        if largest > np.finfo(dtype).max:
            raise SceneError(f"{keys[name]}: expected numbers up to {np.finfo(dtype).max:.2g}, as {dtype} has, found {largest:g}; lower it")
    given = {name: np.asarray(inputs[name], dtype) for name in parameters}
    key = " and ".join(keys[name] for name in parameters)
    with blame(step, StabilityError), blame(key, ParameterError):
        setup.equation.check(given)


def _shots(models: Mapping[str, Sources], positions: Mapping[str, Array], times: Array) -> tuple[Shot, ...]:
    in_turn = next((name for name, model in models.items() if model.fire == "in turn"), None)
    count = len(positions[in_turn]) if in_turn else 1
    wavelets = {name: _wavelet(model, times, f"sources.{name}.wavelet") for name, model in models.items()}
    out = []
    for number in range(count):
        here = {name: points[number : number + 1] if name == in_turn else points for name, points in positions.items()}
        amplitudes = {name: np.repeat(wavelets[name][:, None], len(points), axis=1) for name, points in here.items()}
        out.append(Shot(here, amplitudes))
    return tuple(out)


def _wavelet(model: Sources, times: Array, key: str) -> Array:
    wavelet = model.wavelet
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # what is not finite is refused below
        if isinstance(wavelet, Ricker):
            delay = 1.2 / wavelet.frequency if wavelet.delay is None else wavelet.delay
            a = (np.pi * wavelet.frequency * (times - delay)) ** 2
            values = wavelet.amplitude * (1 - 2 * a) * np.exp(-a)
        else:
            values = wavelet.amplitude * np.exp(-0.5 * ((times - wavelet.delay) / wavelet.width) ** 2)
    if not np.isfinite(values).all():
        raise SceneError(f"{key}: expected finite amplitudes at all times, found {values[~np.isfinite(values)][0]}; correct its numbers")
    return values
