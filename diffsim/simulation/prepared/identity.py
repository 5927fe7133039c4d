"""The identity of a simulation: everything that can change a bit of its results, except its inputs."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from diffsim.engine import lanes, settings
from diffsim.expr.graph import ordered
from diffsim.simulation.prepared.traced import Traced
from diffsim.stepping.declare.equation import Equation
from diffsim.stepping.declare.points import PointTable

DECISIVE = ("diffsim", "numpy", "scipy")
"""Packages that, besides the engine, can change bits of a gradient."""


@functools.cache
def _versions(engine: str) -> tuple[str, ...]:
    """The engine, and the versions of the decisive packages. Reading them takes milliseconds, as long as a small gradient."""
    from importlib.metadata import version

    return engine, *map(version, (engine, *DECISIVE))


def identity(
    equation: Equation,
    traced: Traced,
    dtype: np.dtype,
    wrt: Iterable[str],
    receivers: Iterable[str],
    points: Mapping[str, PointTable],
    others: Iterable[Any] = (),
) -> hashlib.blake2b:
    """A digest of a simulation and of other things, by their texts."""
    kind, grid = type(equation), equation.grid
    step, before, start = traced.step, traced.coefficients, traced.initial
    parts: list[Any] = [*_versions(settings().engine), kind.__module__, kind.__qualname__, dtype]
    parts += [tuple(wrt), tuple(receivers), grid.shape, grid.uniform_spacing, step.states, step.coefficients, sorted(step.active)]
    parts += [step.forcings, step.series, step.clock, step.graph.dt, before.placed, start.placed]
    parts += [[stage.identity() for stage in step.stages], settings().arch, lanes(dtype), *others]
    stages = [node for stage in step.stages for node in stage.roots()]
    expressions = [list(step.outputs.values()), stages, list(before.outputs.values()), list(start.outputs.values())]
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=16)
    for roots in expressions:  # the ids also say which node is which output
        digest.update("\n".join(map(repr, [*ordered(roots), *(root.id for root in roots)])).encode())
    for name, profile in {**before.profiles, **start.profiles, **step.profiles}.items():
        digest.update(f"profile {name}, {profile.axis}, {profile.location}".encode() + np.asarray(profile.values).tobytes())
    for name, table in points.items():
        digest.update(name.encode() + table.starts.tobytes() + table.cells.tobytes() + table.weights.tobytes())
    return digest
