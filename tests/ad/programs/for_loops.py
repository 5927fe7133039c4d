"""For loops: recurrences, time steps, histories, loops in loops."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal, uniform

case = group("for loops")


@case((1.3, 5), lambda x, n: n * x ** (n - 1), kind="grad")
def power_by_repeated_multiplication(np, x, n):
    y = 1.0
    for _ in range(n):
        y = y * x
    return y


@case((uniform(1, 0.5, 1.5, 6),), COMPLEX_STEP)
def running_product_by_assignment(np, x):
    a = np.zeros(6)
    a[0] = x[0]
    for i in range(1, 6):
        a[i] = a[i - 1] * x[i]
    return a


@case((2.0,), lambda x: 0.0, kind="grad")
def loop_that_does_not_run(np, x):
    y = x * 0.0 + 3.0
    for _ in range(0):
        y = y * x
    return y


@case((normal(2, 5), 0.3), COMPLEX_STEP)
def linear_recurrence(np, x, decay):
    state, out = 0.0, []
    for v in x:
        state = decay * state + v
        out.append(state)
    return np.stack(out)


@case((normal(3, 3, 4), normal(4, 4, 2)), lambda bar, a, b: (bar @ b.T, a.T @ bar))
def matrix_product_in_three_loops(np, a, b):
    c = np.zeros((3, 2))
    for i in range(3):
        for j in range(2):
            for k in range(4):
                c[i, j] += a[i, k] * b[k, j]
    return c


@case((numpy.array([1.0, 0.8]), numpy.array([1.1, 0.9])), COMPLEX_STEP)
def lotka_volterra_by_rk4(np, y, p):
    def slope(y):
        return np.stack([y[0] * (p[0] - y[1]), -y[1] * (p[1] - y[0])])

    h = 0.1
    for _ in range(10):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


@case((normal(5, 8), 0.2), COMPLEX_STEP)
def heat_equation_with_its_history(np, initial, kappa):
    u = np.zeros((5, 8))
    u[0] = initial
    for n in range(4):
        u[n + 1, 1:-1] = u[n, 1:-1] + kappa * (u[n, :-2] - 2 * u[n, 1:-1] + u[n, 2:])
    return u


@case((normal(6, 7), uniform(7, 0.2, 0.8, 7)), COMPLEX_STEP)
def wave_equation_with_three_levels(np, p, c):
    p_prev = p.copy()
    for _ in range(5):
        laplacian = np.zeros(7)
        laplacian[1:-1] = p[2:] - 2 * p[1:-1] + p[:-2]
        p, p_prev = 2 * p - p_prev + c**2 * laplacian, p
    return p


@case((normal(8, 3, 2), uniform(9, 0.5, 2.0, 3)), COMPLEX_STEP, kind="grad")
def potential_of_three_bodies(np, x, mass):
    energy = 0.0
    for i in range(3):
        for j in range(i):
            energy -= mass[i] * mass[j] / np.sqrt(np.sum((x[i] - x[j]) ** 2) + 0.01)
    return energy


@case((normal(10, 4, 2), normal(11, 4, 2)), COMPLEX_STEP)
def n_body_leapfrog(np, x, v):
    def acceleration(x):
        a = np.zeros((4, 2))
        for i in range(4):
            for j in range(4):
                if i != j:
                    d = x[j] - x[i]
                    a[i] += d / (np.sum(d * d) + 0.1) ** 1.5
        return a

    for _ in range(3):
        v = v + 0.05 * acceleration(x)
        x = x + 0.1 * v
        v = v + 0.05 * acceleration(x)
    return x, v


@case((normal(12, 4, 3), normal(13, 2), normal(14, 2, 2), normal(15, 2, 3)), COMPLEX_STEP)
def recurrent_network(np, inputs, h, w, u):
    for x in inputs:
        h = np.tanh(w @ h + u @ x)
    return h


@case((normal(16, 3, 2), normal(17, 8, 4) * 0.5, normal(18, 8) * 0.1), COMPLEX_STEP)
def lstm(np, inputs, w, b):
    sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    h, c = np.zeros(2), np.zeros(2)
    for x in inputs:
        gates = w @ np.concatenate([x, h]) + b
        c = sigmoid(gates[2:4]) * c + sigmoid(gates[:2]) * np.tanh(gates[4:6])
        h = sigmoid(gates[6:]) * np.tanh(c)
    return h


@case((100.0, 95.0, 0.3, 0.05), COMPLEX_STEP, kind="grad", difference_step=1e-5)
def american_put_on_a_lattice(np, spot, strike, volatility, rate):
    """Cox, Ross and Rubinstein: backwards through the tree, with the right to exercise at each node."""
    n, dt = 12, 1.0 / 12
    up = np.exp(volatility * np.sqrt(dt))
    p = (np.exp(rate * dt) - 1 / up) / (up - 1 / up)
    value = np.maximum(strike - spot * up ** (2.0 * np.arange(n + 1) - n), 0.0)
    for level in range(n - 1, -1, -1):
        held = np.exp(-rate * dt) * (p * value[1:] + (1 - p) * value[:-1])
        value = np.maximum(held, strike - spot * up ** (2.0 * np.arange(level + 1) - level))
    return value[0]


@case((normal(19, 5), 0.4, 0.7, 0.1), COMPLEX_STEP, kind="grad")
def kalman_filter_log_likelihood(np, observed, transition, process, noise):
    mean, var, loglik = 0.0, 1.0, 0.0
    for y in observed:
        mean, var = transition * mean, transition**2 * var + process
        innovation, spread = y - mean, var + noise
        loglik -= 0.5 * (np.log(spread) + innovation**2 / spread)
        gain = var / spread
        mean, var = mean + gain * innovation, (1 - gain) * var
    return loglik


@case((normal(20, 3), normal(21, 4)), COMPLEX_STEP)
def edit_distance_with_real_costs(np, a, b):
    """Levenshtein's table: each entry is a minimum of three, and a path of one-hot choices leads back."""
    table = np.zeros((4, 5))
    for i in range(4):
        for j in range(5):
            if i == 0 or j == 0:
                table[i, j] = 0.7 * (i + j)
            else:
                replaced = table[i - 1, j - 1] + (a[i - 1] - b[j - 1]) ** 2
                table[i, j] = np.minimum(replaced, 0.7 + np.minimum(table[i - 1, j], table[i, j - 1]))
    return table[3, 4]


@case((normal(22, 5),), lambda bar, x: bar[::-1].cumsum()[::-1])
def state_carried_in_a_list_of_arrays(np, x):
    levels = [x[:1]]
    for i in range(1, 5):
        levels.append(levels[-1] + x[i : i + 1])
    return np.concatenate(levels)


@case((uniform(23, 0.5, 1.0, 4), 3.0), COMPLEX_STEP)
def loop_over_pairs(np, x, c):
    total = 0.0
    for i, (a, b) in enumerate(zip(x[:-1], x[1:], strict=True)):  # noqa: RUF007
        total += (i + 1) * a**b * c
    return total


def _slope_of_the_euler_steps(x):
    slope = 1.0
    for _ in range(10_000):
        slope *= 1 + 1e-4 * numpy.cos(x)
        x += 1e-4 * numpy.sin(x)
    return slope


@case((0.3,), _slope_of_the_euler_steps, kind="grad")
def ten_thousand_cheap_steps(np, x):
    """Deep, but narrow: nothing may recurse over the length of the loop."""
    y = x
    for _ in range(10_000):
        y = y + 1e-4 * np.sin(y)
    return y
