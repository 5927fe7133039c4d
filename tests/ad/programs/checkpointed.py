"""Loops and functions that are run again in the reverse sweep rather than recorded: the numbers are the same."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, STORED, group, normal, uniform

case = group("checkpointed loops")


@case((1.3,), lambda x: 7 * x**6, kind="grad")
def power(np, ds, x):
    return ds.fori_loop(0, 7, lambda i, y: y * x, 1.0)


@case((normal(1, 3),), COMPLEX_STEP)
def three_checkpoints(np, ds, x):
    return ds.fori_loop(0, 20, lambda i, y: y + 0.1 * np.sin(y) * y[::-1], x, checkpoint=3)


@case((uniform(2, 0.5, 1.5, 8),), COMPLEX_STEP)
def counter_used_as_an_index(np, ds, x):
    return ds.fori_loop(1, 8, lambda i, y: np.sin(y) + i * x[i], x[0], checkpoint=2)


@case((normal(3, 3), 0.2), COMPLEX_STEP)
def array_that_the_body_only_reads(np, ds, x, rate):
    """Free variables of the body get the sum of the contributions of all iterations."""
    return ds.fori_loop(0, 9, lambda i, y: y - rate * (y - x) ** 3, np.zeros(3), checkpoint=2)


@case((1.2,), lambda x: 1.0, kind="grad")
def no_iterations(np, ds, x):
    return ds.fori_loop(4, 4, lambda i, y: y * y, x, checkpoint=2)


@case((normal(4, 2), normal(5, 2)), COMPLEX_STEP)
def state_is_a_tuple(np, ds, x, v):
    def step(i, state):
        x, v = state
        v = v - 0.1 * np.sin(x)
        return x + 0.1 * v, v

    return ds.fori_loop(0, 12, step, (x, v), checkpoint=3)


@case((normal(6, 3),), COMPLEX_STEP)
def state_is_a_dict(np, ds, x):
    def step(i, state):
        return {"y": np.cos(state["y"]) + x, "total": state["total"] + np.sum(state["y"] ** 2)}

    return ds.fori_loop(0, 6, step, {"y": x, "total": 0.0}, checkpoint=2)["total"]


@case((0.8,), COMPLEX_STEP, kind="grad")
def loop_in_a_loop(np, ds, x):
    inner = lambda i, y: ds.fori_loop(0, 3, lambda j, z: z + 0.1 * np.sin(z * x), y, checkpoint=1)  # noqa: E731
    return ds.fori_loop(0, 5, inner, x, checkpoint=2)


@case((normal(7, 6),), COMPLEX_STEP)
def body_that_assigns(np, ds, x):
    def step(i, u):
        u = u.copy()
        u[1:-1] += 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[0] = u[1] * u[-1]
        return u

    return ds.fori_loop(0, 7, step, x, checkpoint=2)


@case((2.0,), lambda a: 0.5 / numpy.sqrt(a), kind="grad")
def while_loop_to_convergence(np, ds, a):
    far = lambda x: abs(x * x - a) > 1e-14  # noqa: E731
    return ds.while_loop(far, lambda x: 0.5 * (x + a / x), a)


@case((1.05, 0.3), COMPLEX_STEP, kind="grad")
def while_loop_with_checkpoints(np, ds, x, c):
    """Nobody knows beforehand how many iterations there will be (23 here)."""
    body = lambda s: (s[0] + 1, s[1] + c * np.sin(s[1]) / (1 + s[0]))  # noqa: E731
    return ds.while_loop(lambda s: s[0] < 23, body, (0, x), checkpoint=3)[1]


@case((20.0,), lambda x: 1.0, kind="grad")
def while_loop_that_does_not_run(np, ds, x):
    return ds.while_loop(lambda y: y < 10.0, lambda y: 2 * y, x, checkpoint=2)


@case((normal(8, 3), normal(9, 3)), COMPLEX_STEP)
def function_run_again(np, ds, x, w):
    layer = ds.remat(lambda x: np.tanh(x * w) + x)
    for _ in range(4):
        x = layer(x)
    return x


@case((normal(10, 4),), STORED, kind="hvp")
def twice_derived(np, ds, x):
    y = ds.fori_loop(0, 10, lambda i, y: y + 0.1 * np.sin(y) * y[::-1], x, checkpoint=2)
    return np.sum(y * y)


@case((normal(11, 3),), STORED, kind="hvp")
def function_run_again_and_twice_derived(np, ds, x):
    return np.sum(ds.remat(lambda y: np.exp(np.sin(y)) * y)(x) ** 2)


@case((0.6,), COMPLEX_STEP, kind="grad")
def three_hundred_steps_in_four_slots(np, ds, x):
    return ds.fori_loop(0, 300, lambda i, y: y + 0.01 * np.cos(3 * y + 0.1 * i), x, checkpoint=4)


@case((normal(12, 3, 2),), COMPLEX_STEP)
def loop_in_a_map(np, ds, x):
    return ds.map(lambda row: ds.fori_loop(0, 4, lambda i, y: np.sin(y) * row, row, checkpoint=2), x)
