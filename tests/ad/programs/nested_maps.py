"""Maps within maps, written as operators, as loops and as comprehensions."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal, uniform

case = group("nested maps")


@case((normal(1, 3, 4),), lambda bar, x: bar * numpy.cos(x))
def map_of_map(np, ds, x):
    return ds.map(lambda row: ds.map(np.sin, row), x)


@case((normal(2, 3), normal(3, 4)), lambda bar, x, y: (bar @ y, x @ bar))
def outer_product(np, ds, x, y):
    return ds.map(lambda a: ds.map(lambda b: a * b, y), x)


@case((normal(4, 4, 3),), lambda bar, x: numpy.repeat(2 * bar[:, None], 3, axis=1) * x)
def reduction_in_a_map(np, ds, x):
    return ds.map(lambda row: np.sum(row * row), x)


def _pairwise_bars(bar, xs, ys):
    difference = xs[:, None, :] - ys[None, :, :]
    scaled = (bar / numpy.sqrt((difference**2).sum(-1)))[:, :, None] * difference
    return scaled.sum(1), -scaled.sum(0)


@case((normal(5, 3, 2), normal(6, 4, 2) + 5), _pairwise_bars)
def pairwise_distances(np, ds, xs, ys):
    return ds.map(lambda a: ds.map(lambda b: np.sqrt(np.sum((a - b) ** 2)), ys), xs)


@case((normal(7, 3, 4),), lambda bar, x: numpy.cumsum(bar[:, ::-1], axis=1)[:, ::-1])
def scan_in_a_map(np, ds, x):
    return ds.map(lambda row: ds.scan("+", row), x)


@case((normal(8, 3, 4),), COMPLEX_STEP)
def assignments_in_a_map(np, ds, x):
    def body(row):
        out = np.zeros(4)
        for i in range(4):
            out[i] = row[i] * out[i - 1] + row[i - 1] if i else row[i]
        return out

    return ds.map(body, x)


@case((normal(9, 3, 4),), lambda bar, x: bar * 2 * x)
def loop_over_all_indices(np, x):
    y = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        y[place] = x[place] ** 2
    return y


@case((normal(10, 3, 2),), COMPLEX_STEP)
def comprehension_in_a_comprehension(np, x):
    return np.array([[np.exp(v) * w for v in x[0]] for w in x[1]])


@case((normal(11, 4, 4),), COMPLEX_STEP)
def lower_triangle_only(np, x):
    y = np.zeros((4, 4))
    for i in range(4):
        for j in range(i + 1):
            y[i, j] = x[i, j] * x[j, i]
    return y


@case(
    ([normal(12, 2), normal(13, 4), normal(14, 1)],),
    lambda bar, rows: [2 * bar[i] * row for i, row in enumerate(rows)],
)
def rows_of_different_lengths(np, rows):
    return np.array([np.sum(row**2) for row in rows])


@case((uniform(15, 0.5, 1.5, 3), normal(16, 3)), COMPLEX_STEP)
def array_that_every_row_reads(np, ds, weights, x):
    return ds.map(lambda v: np.sum(weights**v), x)


@case((normal(17, 2, 3), normal(18, 3)), lambda bar, m, v: (bar[:, None] * v, bar @ m))
def matrix_times_vector_by_maps(np, ds, m, v):
    return ds.map(lambda row: ds.reduce("+", ds.map(lambda a, b: a * b, row, v)), m)
