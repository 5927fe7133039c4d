"""Elastic waves in two dimensions: velocities and stresses on a staggered grid. tests/solvers/test_elastic.py has the other kinds."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.solvers import Elastic
from tests.steps.elastic_scheme import Scheme
from tests.steps.step import Fields, Shape, Step

DT = 0.2
SCHEME = Scheme("yx", (1.0, 1.0), DT, 4, ((0, 0), (0, 0)))
MEDIUM = ("vp", "vs", "rho")
STATES = ("vx", "vy", "sxx", "syy", "sxy")


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    waves = {name: rng.standard_normal(shape) for name in STATES}
    return waves | {"vp": rng.uniform(1.5, 2.2, shape), "vs": rng.uniform(0.7, 1.1, shape), "rho": rng.uniform(0.8, 1.2, shape)}


def advance(**given: np.ndarray) -> Fields:
    states = {name: given[name] for name in STATES}
    return SCHEME.advance(states, SCHEME.medium({name: given[name] for name in MEDIUM}), {"mxx": given["mxx"]})


STEP = Step(
    "elastic",
    (23, 37),
    lambda shape: Elastic(ds.Grid(shape, 1.0), DT),
    inputs,
    advance,
    sources={"mxx": (7, 11)},
    receivers={"sxx": (0, 30), "syy": (22, 2)},
)
