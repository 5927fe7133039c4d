"""Calls of the public interface that work, and the values that each of their arguments is exchanged for.

The array functions, the transformations and scenes have tests of their own kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

import diffsim as ds
from diffsim.checkpoint import Binomial, Lossless, Policy, parse_memory
from diffsim.engine import settings
from diffsim.layers import CPML, Sponge
from diffsim.losses import L2Misfit, SmoothedTotalVariation, Tikhonov
from diffsim.optimize import Parametrisation, Regions, Stacked, minimise
from diffsim.solvers import Acoustic, Heat, LongWave, ViscoAcoustic

ds.init(arch="cpu", precision="f64")  # as for all tests

WRONG: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "text": lambda: "x",
    "-1": lambda: -1,
    "0": lambda: 0,
    "1.5": lambda: 1.5,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "True": lambda: True,
    "list": list,
    "dict": dict,
    "object": object,
    "huge": lambda: 10**12,
    "digits": lambda: "20",
    "complex": lambda: 1j,
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "texts": lambda: ["a", "b"],
    "masked": lambda: np.ma.masked_array(np.ones(3), [True, False, False]),
    "wrong keys": lambda: {1: 2},
    "wrong values": lambda: {"c": None, "f": "x", "p": object()},
    "type": lambda: float,
    "five numbers": lambda: [1.0] * 5,
    "no axes": lambda: np.array(1.5),
}


@dataclass(frozen=True)
class Call:
    """A call that works.

    Attributes:
        name: of the function.
        function: called with `arguments`.
        arguments: by name; functions of no arguments that make them anew.
        functions: arguments that are called, so that the error of a wrong one is its own.
    """

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]
    functions: tuple[str, ...] = ()

    def variants(self) -> Iterator[tuple[str, str, Callable[[], Any]]]:
        """Argument, name of the wrong value, and the call with it."""
        for name in self.arguments:
            for what, make in WRONG.items():
                if what == "type" and name in self.functions:
                    continue
                yield name, what, partial(self._with, name, make)

    def of_numpy(self) -> Iterator[tuple[str, str, Callable[[], Any]]]:
        """Argument, type, and the call with the whole numbers of that argument in a type of NumPy's."""
        for name, value in self.arguments.items():
            numbers = value if isinstance(value, tuple) else (value,)
            if numbers and all(type(n) is int for n in numbers):
                for kind in (np.int8, np.int32, np.int64, np.uint64):
                    if max(numbers) <= np.iinfo(kind).max:
                        same = tuple(map(kind, value)) if isinstance(value, tuple) else kind(value)
                        yield name, kind.__name__, partial(self._with, name, lambda same=same: same)

    def _with(self, name: str, make: Callable[[], Any]) -> Any:
        return self.function(**{**self.arguments, name: make()})


SHAPE, STEPS = (9, 11), 4
FACES = [np.linspace(0.0, 1.0, 5), np.linspace(0.0, 2.0, 7)]
GRID = ds.Grid(SHAPE, 10.0)


def _shared() -> ds.Simulation:
    return _simulation(settings().generation)


@cache
def _simulation(generation: int) -> ds.Simulation:
    return ds.Simulation(Acoustic(GRID, 1e-3, 2), sources={"f": [[20.0, 30.0]]}, receivers={"p": [[40.0, 50.0]]}, precision="f64")


def _inputs() -> dict[str, np.ndarray]:
    return {"c": np.full(SHAPE, 2000.0), "f": np.ones((STEPS, 1))}


def _loss(solution: ds.Solution) -> tuple[float, ds.Solution]:
    return 0.5 * float((solution.traces["p"] ** 2).sum()), ds.Solution(traces=dict(solution.traces))


def _bowl(x: np.ndarray) -> tuple[float, np.ndarray]:
    return float((x**2).sum()), 2 * x


def _started(**arguments: Any) -> Any:
    """A simulation is built and run with an equation: some arguments matter only then."""
    equation = Acoustic(**arguments)
    return ds.Simulation(equation, sources={}, precision="f64").run({"c": np.full(SHAPE, 2000.0)}, STEPS)


def _absorbed(**arguments: Any) -> Any:
    medium = {"c": np.full(SHAPE, 2000.0), "rho": np.ones(SHAPE)}
    return ds.Simulation(ViscoAcoustic(**arguments, layer_frequency=20.0), precision="f64").run(medium, STEPS)


def _heated(**arguments: Any) -> Any:
    return ds.Simulation(Heat(**arguments), precision="f64").run({"kappa": np.ones(SHAPE)}, STEPS)


def _waved(**arguments: Any) -> Any:
    return ds.Simulation(LongWave(**arguments), precision="f64").run({"H": np.ones(SHAPE)}, STEPS)


def _pulled(**parts: Any) -> Any:
    return _shared().vjp(_inputs(), STEPS)[1](ds.Solution(**parts))


def _pulled_whole(cotangents: Any) -> Any:
    return _shared().vjp(_inputs(), STEPS)[1](cotangents)


_FIELD = np.linspace(0, 1, math.prod(SHAPE)).reshape(SHAPE)
_PARAMETERS = Parametrisation(SHAPE)
_LAYER = CPML(GRID, 1e-3, 2, 2000.0, 20.0)


def calls() -> list[Call]:
    """All of them. Simulations do not outlive the settings that they were made under, so a module of tests calls this once its own hold."""
    shared = _shared()
    return [
        Call("Grid", ds.Grid, {"shape": (4, 5), "spacing": 10.0, "origin": (0.0, 1.0), "axes": ("z", "x")}),
        Call("Grid.from_faces", ds.Grid.from_faces, {"faces": FACES, "axes": ("z", "x")}),
        Call("faces", lambda along: ds.Grid.from_faces([along]), {"along": FACES[0]}),
        Call("Grid.widths", GRID.widths, {"axis": 1, "location": 1}),
        Call("Dirichlet", ds.Dirichlet, {"value": 1.0}),
        Call("Neumann", ds.Neumann, {"flux": 1.0}),
        Call("Robin", ds.Robin, {"a": 1.0, "b": 1.0, "value": 0.0}),
        Call("Extrapolate", ds.Extrapolate, {"order": 1}),
        Call("Outflow", ds.Outflow, {"speed": 1.0}),
        Call("input_shape", shared.input_shape, {"name": "c", "steps": STEPS}),
        Call(
            "certify",
            lambda **arguments: ds.certify(directions=1, **arguments),
            {"simulation": shared, "loss": _loss, "inputs": _inputs(), "steps": STEPS},
            ("loss",),
        ),
        Call("Grid.coordinates", GRID.coordinates, {"axis": 1, "location": 1}),
        Call("Profile", lambda **a: _profiled(ds.Profile(**a)), {"axis": 0, "values": np.ones(SHAPE[0]), "location": 0}),
        Call("Variable", lambda **a: _declared(ds.Variable(**a)), {"boundary": "zero", "location": (0, 0), "unit": "m"}),
        Call(
            "Simulation",
            ds.Simulation,
            {
                "equation": Acoustic(GRID, 1e-3, 2),
                "sources": {"f": [[20.0, 30.0]]},
                "receivers": {"p": [[40.0, 50.0]]},
                "wrt": ["c"],
                "precision": "f64",
            },
        ),
        Call(
            "run",
            shared.run,
            {"inputs": _inputs(), "steps": STEPS, "every": 2, "watch": lambda n, s: None, "until": lambda n, s: False},
            ("watch", "until"),
        ),
        Call("run checkpoint", shared.run, {"inputs": _inputs(), "steps": STEPS, "checkpoint": "auto"}),
        Call(
            "vjp",
            shared.vjp,
            {
                "inputs": _inputs(),
                "steps": STEPS,
                "checkpoint": 2,
                "on_action": lambda action: None,
                "until": lambda n, s: False,
                "every": 2,
                "on_progress": lambda share, left: None,
            },
            ("on_action", "until", "on_progress"),
        ),
        Call("value_and_grad", shared.value_and_grad, {"loss": _loss, "inputs": _inputs(), "steps": STEPS, "checkpoint": 2}, ("loss",)),
        Call("until gives", lambda answer: shared.run(_inputs(), STEPS, until=lambda n, s: answer), {"answer": False}),
        Call("vjp until gives", lambda answer: shared.vjp(_inputs(), STEPS, until=lambda n, s: answer), {"answer": False}),
        Call("loss gives", lambda answer: shared.value_and_grad(lambda s: answer, _inputs(), STEPS), {"answer": (1.0, ds.Solution())}),
        Call("jvp", shared.jvp, {"inputs": _inputs(), "tangents": {"c": np.ones(SHAPE)}, "steps": STEPS}),
        Call("move", shared.move, {"sources": {"f": [[20.0, 30.0]]}, "receivers": {"p": [[40.0, 50.0]]}}),
        Call("source at", lambda place: shared.move(sources={"f": place}), {"place": [[20.0, 30.0]]}),
        Call("coordinate", lambda x: shared.move(sources={"f": [[x, 30.0]]}), {"x": 20.0}),
        Call("tangent", shared.tangent, {"differentiable": True}),
        Call("source", shared.source, {"kind": "vjp"}),
        Call("schedule", shared.schedule, {"steps": STEPS, "checkpoint": 2}),
        Call("sizes", shared.sizes, {"steps": STEPS, "inputs": _inputs()}),
        Call("predicted_bytes", shared.predicted_bytes, {"schedule": Binomial(4, 2)}),
        Call("pullback", _pulled_whole, {"cotangents": ds.Solution()}),
        Call("cotangents", _pulled, {"final": {"p": np.ones(SHAPE)}, "traces": {"p": np.ones((STEPS + 1, 1))}}),
        Call("cotangent", lambda value: _pulled(final={"p": value}), {"value": np.ones(SHAPE)}),
        Call("input", lambda value: shared.run({**_inputs(), "c": value}, STEPS), {"value": np.full(SHAPE, 2000.0)}),
        Call("amplitudes", lambda value: shared.vjp({**_inputs(), "f": value}, STEPS), {"value": np.ones((STEPS, 1))}),
        Call("plan", ds.plan, {"simulation": shared, "memory": "1 GB", "steps": STEPS, "inputs": _inputs(), "seconds": 0.01}),
        Call("Lossless", Lossless, {"level": 2}),
        Call("parse_memory", parse_memory, {"amount": "1 GB"}),
        Call(
            "Acoustic",
            _started,
            {"grid": GRID, "dt": 1e-3, "order": 2, "boundary": "zero", "sponge": 2, "sponge_speed": 2000.0},
        ),
        Call(
            "Acoustic layer",
            _started,
            {"grid": GRID, "dt": 1e-3, "order": 2, "layer": (2, 3), "layer_speed": 2000.0, "layer_frequency": 20.0},
        ),
        Call(
            "ViscoAcoustic",
            _absorbed,
            {"grid": GRID, "dt": 1e-3, "order": 2, "boundary": "zero", "Q": 30.0, "frequency": 20.0, "layer": 2, "layer_speed": 2000.0},
        ),
        Call(
            "Points",
            lambda **a: shared.move(sources={"f": ds.Points(**a)}),
            {"places": [[40.0, 52.0]], "interpolation": "sinc", "dipole": (1.0, 0.0)},
        ),
        Call("Heat", _heated, {"grid": GRID, "dt": 0.1, "boundary": "mirror"}),
        Call("LongWave", _waved, {"grid": GRID, "dt": 0.1, "coordinates": "plane", "sponge": 2, "sponge_depth": 10.0}),
        Call(
            "CPML",
            CPML,
            {
                "grid": GRID,
                "dt": 1e-3,
                "cells": (2, 3),
                "speed": 2000.0,
                "frequency": 20.0,
                "reflection": 1e-6,
                "grading": 3.0,
                "kappa": 2.0,
            },
        ),
        Call("CPML.memory", _LAYER.memory, {"axis": 1, "location": (0, 1)}),
        Call("CPML.profile", _LAYER.profile, {"axis": 1, "location": 1}),
        Call("Sponge", Sponge, {"grid": GRID, "dt": 1e-3, "cells": (2, 3), "speed": 2000.0, "spacing": (10.0, 10.0), "reflection": 1e-3}),
        Call(
            "L2Misfit",
            lambda **a: ds.value_and_grad(L2Misfit(**a))(_FIELD),
            {"data": 2 * _FIELD + 1, "weight": 1.0, "mask": np.ones(SHAPE, bool), "normalise": False},
        ),
        Call("L2Misfit of", L2Misfit(_FIELD), {"predicted": _FIELD}),
        Call(
            "Tikhonov",
            lambda **a: ds.value_and_grad(Tikhonov(**a))(_FIELD),
            {"weight": 1.0, "spacing": 10.0, "order": 1, "reference": _FIELD, "mask": np.ones(SHAPE, bool)},
        ),
        Call("Tikhonov of", Tikhonov(1.0, 10.0), {"field": _FIELD}),
        Call(
            "SmoothedTotalVariation",
            lambda **a: ds.value_and_grad(SmoothedTotalVariation(**a))(_FIELD),
            {"weight": 1.0, "spacing": 10.0, "epsilon": 1e-3, "mask": np.ones(SHAPE, bool)},
        ),
        Call("SmoothedTotalVariation of", SmoothedTotalVariation(1.0, 10.0, 1e-3), {"field": _FIELD}),
        Call(
            "minimise",
            minimise,
            {
                "objective": _bowl,
                "x0": np.ones(3),
                "method": "L-BFGS-B",
                "bounds": [(-2.0, None)] * 3,
                "iterations": 5,
                "tolerance": 1e-9,
                "journal": None,
                "callback": lambda iteration: None,
            },
            ("objective", "callback"),
        ),
        Call("objective gives", lambda answer: minimise(lambda x: answer, np.ones(3)), {"answer": (1.0, np.zeros(3))}),
        Call(
            "Parametrisation",
            lambda **a: (lambda part: part.to_field(np.zeros(part.size)))(Parametrisation(**a)),
            {
                "shape": SHAPE,
                "dtype": np.float64,
                "mask": None,
                "lower": None,
                "upper": 2.0,
                "transform": "identity",
                "scale": 1.0,
                "reference": None,
                "smooth": 0.0,
            },
        ),
        Call("to_field", _PARAMETERS.to_field, {"theta": np.zeros(math.prod(SHAPE))}),
        Call("from_field", _PARAMETERS.from_field, {"field": _FIELD}),
        Call(
            "Regions",
            lambda **a: (lambda part: part.to_field(np.zeros(part.size)))(Regions(**a)),
            {
                "labels": np.array([[0, 0, 1], [1, 1, -1]]),
                "dtype": np.float64,
                "lower": None,
                "upper": 2.0,
                "transform": "identity",
                "scale": 1.0,
                "reference": None,
                "background": 0.0,
            },
        ),
        Call("Stacked", Stacked, {"parts": {"c": _PARAMETERS}}),
        Call("Stacked.split", Stacked({"c": _PARAMETERS}).split, {"theta": np.zeros(math.prod(SHAPE))}),
        Call("Stacked.join", Stacked({"c": _PARAMETERS}).join, {"fields": {"c": _FIELD}}),
        Call(
            "Policy",
            lambda **a: shared.vjp(_inputs(), STEPS, Policy(**a)),
            {"memory": None, "slots": 2, "schedule": "binomial", "verify": True, "resume": 0.0, "progress": None},
        ),
    ]


class _Profiled(ds.Equation):
    def __init__(self, profile: ds.Profile) -> None:
        self.grid, self.dt = GRID, 0.1
        self.states, self.profiles = {"u": ds.Variable()}, {"w": profile}

    def step(self, u: Any, w: Any) -> dict[str, Any]:
        return {"u": u * 0.5 + 0 * u}


def _profiled(profile: ds.Profile) -> Any:
    return ds.Simulation(_Profiled(profile), precision="f64").run({}, STEPS)


class _Declared(ds.Equation):
    def __init__(self, variable: ds.Variable) -> None:
        self.grid, self.dt = GRID, 0.1
        self.states = {"u": variable}

    def step(self, u: Any) -> dict[str, Any]:
        return {"u": 0.5 * u}


def _declared(variable: ds.Variable) -> Any:
    return ds.Simulation(_Declared(variable), precision="f64").run({}, STEPS)


FITTING: dict[str, set[str]] = {
    "Grid spacing": {"1.5", "huge"},
    "Grid origin": {"-1", "0", "1.5", "huge"},
    "Grid axes": {"None", "texts"},
    "Grid.from_faces axes": {"None", "texts"},
    "Grid.widths axis": {"-1", "0"},
    "Grid.widths location": {"0"},
    "Dirichlet value": {"text", "-1", "0", "1.5", "huge"},
    "Neumann flux": {"text", "-1", "0", "1.5", "huge"},
    "Robin a": {"0", "1.5", "huge"},
    "Robin b": {"0", "1.5", "huge"},
    "Robin value": {"text", "-1", "0", "1.5", "huge"},
    "Extrapolate order": {"0"},
    "Outflow speed": {"0", "1.5", "huge"},
    "Grid.coordinates axis": {"-1", "0"},
    "Grid.coordinates location": {"0"},
    "Profile axis": {"0"},
    "Profile location": {"0"},
    "Variable location": {"None"},
    "Variable unit": {"text", "digits"},
    "Simulation sources": {"None", "dict"},
    "Simulation receivers": {"None", "dict"},
    "Simulation wrt": {"None", "list", "dict", "wrong values"},
    "Simulation precision": {"None"},
    "run every": {"0", "huge"},
    "run watch": {"None"},
    "run until": {"None"},
    "run checkpoint checkpoint": {"huge"},
    "vjp checkpoint": {"huge"},
    "vjp on_action": {"None"},
    "vjp until": {"None"},
    "vjp every": {"huge"},
    "vjp on_progress": {"None"},
    "value_and_grad checkpoint": {"huge"},
    "until gives answer": {"True"},
    "vjp until gives answer": {"True"},
    "jvp tangents": {"dict"},
    "move sources": {"None", "dict"},
    "move receivers": {"None", "dict"},
    "coordinate x": {"0", "1.5", "True"},
    "Points dipole": {"None"},
    "Acoustic layer layer": {"0"},
    "Acoustic layer layer_speed": {"1.5", "huge"},
    "Acoustic layer layer_frequency": {"1.5", "huge"},
    "ViscoAcoustic Q": {"1.5", "huge"},
    "ViscoAcoustic frequency": {"1.5", "huge"},
    "ViscoAcoustic layer": {"0"},
    "ViscoAcoustic layer_speed": {"1.5", "huge"},
    "tangent differentiable": {"True"},
    "schedule checkpoint": {"huge"},
    "sizes inputs": {"None"},
    "cotangents final": {"dict"},
    "cotangents traces": {"dict"},
    "plan memory": {"None", "huge"},
    "plan inputs": {"None"},
    "plan seconds": {"1.5"},
    "parse_memory amount": {"huge"},
    "Acoustic sponge": {"0"},
    "Acoustic sponge_speed": {"1.5", "huge"},
    "Heat dt": {"1.5"},
    "LongWave dt": {"1.5"},
    "LongWave sponge": {"0"},
    "LongWave sponge_depth": {"1.5", "huge"},
    "CPML cells": {"0"},
    "CPML dt": {"1.5", "huge"},
    "CPML frequency": {"1.5", "huge"},
    "CPML grading": {"1.5", "None", "huge"},
    "CPML kappa": {"1.5", "huge"},
    "CPML reflection": {"None"},
    "CPML speed": {"1.5", "huge"},
    "CPML.memory axis": {"-1", "0"},
    "CPML.memory location": {"None"},
    "CPML.profile axis": {"-1", "0"},
    "CPML.profile location": {"0"},
    "Sponge cells": {"0"},
    "Sponge dt": {"1.5", "huge"},
    "Sponge speed": {"1.5", "huge"},
    "Sponge spacing": {"None"},
    "L2Misfit weight": {"0", "1.5", "huge"},
    "L2Misfit mask": {"None", "True"},
    "L2Misfit normalise": {"True"},
    "Tikhonov weight": {"0", "1.5", "huge"},
    "Tikhonov spacing": {"1.5", "huge"},
    "Tikhonov order": {"0"},
    "Tikhonov reference": {"-1", "0", "1.5", "huge"},
    "Tikhonov mask": {"None", "True"},
    "Tikhonov of field": {"list", "five numbers"},
    "SmoothedTotalVariation weight": {"0", "1.5", "huge"},
    "SmoothedTotalVariation spacing": {"1.5", "huge"},
    "SmoothedTotalVariation epsilon": {"1.5", "huge"},
    "SmoothedTotalVariation mask": {"None", "True"},
    "SmoothedTotalVariation of field": {"list", "five numbers"},
    "minimise bounds": {"None"},
    "minimise tolerance": {"0"},
    "minimise journal": {"None"},
    "minimise callback": {"None"},
    "Parametrisation shape": {"five numbers"},
    "Parametrisation dtype": {"type"},
    "Parametrisation mask": {"None"},
    "Parametrisation lower": {"None", "-1", "0", "1.5"},
    "Parametrisation upper": {"None", "-1", "0", "1.5", "inf", "huge"},
    "Parametrisation scale": {"1.5", "huge"},
    "Parametrisation reference": {"None", "-1", "0", "1.5", "huge"},
    "Parametrisation smooth": {"0"},
    "Regions labels": {"0"},
    "Regions dtype": {"type"},
    "Regions lower": {"None", "-1", "0", "1.5"},
    "Regions upper": {"None", "-1", "0", "1.5", "inf", "huge"},
    "Regions scale": {"1.5", "huge"},
    "Regions reference": {"None", "-1", "0", "1.5", "huge"},
    "Regions background": {"-1", "0", "1.5", "huge"},
    "Policy memory": {"None"},
    "Policy slots": {"None", "huge"},
    "Policy verify": {"True"},
    "Policy resume": {"0"},
    "Policy progress": {"None", "type"},
}
"""The values that an argument works with as well, and rightly; every other one is refused."""
