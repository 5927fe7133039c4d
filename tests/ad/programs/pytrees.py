"""Pytrees: tuples, lists, dicts, named tuples and dataclasses go in and come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy

from .cases import COMPLEX_STEP, group, normal

case = group("pytrees")


class Particle(NamedTuple):
    position: Any
    velocity: Any


@dataclass
class Oscillator:
    stiffness: Any
    damping: Any
    steps: int


@dataclass(frozen=True)
class Layer:
    weight: Any
    bias: Any


@case(((normal(1, 3), normal(2, 3)),), lambda bar, pair: (bar * pair[1], bar * pair[0]))
def pair_of_arrays(np, pair):
    a, b = pair
    return a * b


@case(({"slope": 2.0, "offset": normal(3, 3)}, normal(4, 3)), lambda bar, p, x: ({"slope": bar @ x, "offset": bar}, bar * p["slope"]))
def dict_of_parameters(np, p, x):
    return p["slope"] * x + p["offset"]


@case((Particle(normal(5, 2), normal(6, 2)), 0.1), lambda bar, p, dt: (Particle(bar, bar * dt), bar @ p.velocity))
def named_tuple(np, p, dt):
    return p.position + dt * p.velocity


@case((Particle(normal(7, 2), normal(8, 2)),), COMPLEX_STEP)
def named_tuple_to_named_tuple(np, p):
    for _ in range(3):
        p = Particle(p.position + 0.1 * p.velocity, p.velocity - 0.1 * np.sin(p.position))
    return p


@case((Oscillator(2.0, 0.1, 5), 1.0), COMPLEX_STEP)
def dataclass_with_an_integer(np, system, x):
    """The number of steps is an integer: it has no derivative, and comes back as None."""
    v = 0.0
    for _ in range(system.steps):
        v = v - 0.1 * (system.stiffness * x + system.damping * v)
        x = x + 0.1 * v
    return x


@case(([Layer(normal(9, 4, 2), normal(10, 4)), Layer(normal(11, 1, 4), normal(12, 1))], normal(13, 2)), COMPLEX_STEP)
def list_of_dataclasses(np, layers, x):
    for layer in layers:
        x = np.tanh(layer.weight @ x + layer.bias)
    return x


@case((normal(14, 3),), lambda bars, x: bars["twice"] * 2 + bars["nested"][0] * 2 * x + bars["nested"][1])
def result_is_a_record(np, x):
    return {"twice": 2 * x, "nested": (x * x, np.sum(x))}


@case(({"a": {"b": [normal(15, 2), 3.0]}, "n": 2},), COMPLEX_STEP)
def deeply_nested(np, tree):
    b = tree["a"]["b"]
    return tree["n"] * b[0] ** 2 * b[1]


@case(({"used": normal(16, 2), "unused": normal(17, 2)},), lambda bar, p: {"used": bar, "unused": 0 * p["unused"]}, exact_zeros=True)
def entry_that_is_not_read(np, p):
    return p["used"] + 1.0


@case(((normal(18, 3), numpy.array([2, 0, 1])),), lambda bar, pair: (bar[[1, 2, 0]], None))
def integers_beside_floats(np, pair):
    x, order = pair
    return x[order]


@case((normal(19, 3),), lambda bars, x: bars[0] * 2 * x)
def integers_in_the_result(np, x):
    return x * x, np.argmax(x)


@case((normal(20, 4),), COMPLEX_STEP)
def record_updated_in_a_loop(np, x):
    state = {"sum": 0.0, "seen": []}
    for v in x:
        state["sum"] = state["sum"] + v * v
        state["seen"].append(np.sqrt(state["sum"]))
    return state["sum"], np.stack(state["seen"])


@case(((normal(21, 2), normal(22, 2)), normal(23, 2)), COMPLEX_STEP, kind="grad", wrt=0)
def gradient_has_the_shape_of_its_argument(np, pair, x):
    return np.sum(np.exp(pair[0]) * x + pair[1] ** 2)


@case((normal(24, 2),), lambda bars, x: bars[0] + bars[1])
def the_same_array_twice_in_the_result(np, x):
    return x, x


@case((normal(25, 2), ()), lambda bar, x, empty: (bar, ()), wrt=(0, 1))
def empty_tuple(np, x, empty):
    return x + len(empty)


@case((normal(26, 5, 2), numpy.array([[0.0, 1.0], [1.0, -1.0]])), COMPLEX_STEP, kind="grad")
def k_means_cost(np, points, centres):
    """The nearest centre of each point: a minimum, and one gather of its winner."""
    cost = 0.0
    for p in points:
        cost += np.min(np.sum((centres - p) ** 2, axis=1))
    return cost


@case(
    ({"logits": normal(27, 3), "means": normal(28, 3, 2), "log_scales": 0.3 * normal(29, 3)}, normal(30, 5, 2)),
    COMPLEX_STEP,
    kind="grad",
)
def gaussian_mixture_log_likelihood(np, p, points):
    weights = p["logits"] - np.log(np.sum(np.exp(p["logits"])))
    squared = np.sum((points[:, None, :] - p["means"]) ** 2, axis=2)
    terms = weights - 2 * p["log_scales"] - 0.5 * squared * np.exp(-2 * p["log_scales"])
    top = np.max(terms, axis=1)
    return np.sum(top + np.log(np.sum(np.exp(terms - top[:, None]), axis=1)))
