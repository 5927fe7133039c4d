"""Indexing, shapes and the pieces that arrays are put together from."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal

case = group("indexing")


@case((normal(1, 5),), lambda bar, x: bar * numpy.eye(5)[3], exact_zeros=True)
def negative_index(np, x):
    return x[-2]


@case((normal(2, 7),), lambda bar, x: numpy.array([0, 0, 0, bar[1], 0, bar[0], 0]), exact_zeros=True)
def slice_with_a_negative_step(np, x):
    return x[5:1:-2]


@case((normal(3, 2, 3, 4),), lambda bar, x: numpy.stack([0 * x[..., 0], bar, 0 * bar, 0 * bar], axis=-1), exact_zeros=True)
def ellipsis(np, x):
    return x[..., 1]


@case((normal(4, 3, 4),), lambda bar, x: bar[:, 0] + 0 * x)
def new_axis(np, x):
    return x[:, None, :]


@case((normal(5, 4, 4),), COMPLEX_STEP)
def index_array_and_slice_together(np, x):
    return x[[0, 2, 0], 1:3] * x[1:4, [3, 3]]


@case((normal(6, 3, 3),), lambda bar, x: numpy.where(x > 0, bar.sum(), 0), exact_zeros=True)
def two_dimensional_mask(np, x):
    return np.sum(x[x > 0])


@case((normal(7, 3), normal(8, 2)), lambda bar, x, y: (bar[:3] + bar[5:], bar[3:5]))
def concatenate(np, x, y):
    return np.concatenate([x, y, x])


@case((normal(9, 3), normal(10, 3)), lambda bar, x, y: (bar[:, 0], bar[:, 1]))
def stack_along_the_last_axis(np, x, y):
    return np.stack([x, y], axis=-1)


@case((normal(11, 2, 3),), lambda bar, x: bar.T)
def transpose(np, x):
    return x.T


@case((normal(12, 2, 3, 4),), lambda bar, x: numpy.transpose(bar, (1, 2, 0)))
def transpose_with_axes(np, x):
    return np.transpose(x, (2, 0, 1))


@case((normal(13, 2, 6),), lambda bar, x: bar.reshape(2, 6))
def reshape_with_an_unknown(np, x):
    return x.reshape(3, -1)


@case((normal(14, 2, 3),), lambda bar, x: bar.reshape(2, 3) * 2 * x)
def ravel(np, x):
    return np.ravel(x) ** 2


@case((normal(15, 4),), lambda bar, x: numpy.roll(bar, -1))
def roll(np, x):
    return np.roll(x, 1)


@case((normal(16, 2, 3),), lambda bar, x: bar[:, ::-1])
def flip_an_axis(np, x):
    return np.flip(x, axis=1)


@case((normal(17, 3),), lambda bar, x: bar[1:4], exact_zeros=True)
def pad_with_zeros(np, x):
    return np.pad(x, (1, 2))


@case((normal(18, 3),), lambda bar, x: bar.reshape(3, 2).sum(1))
def repeat(np, x):
    return np.repeat(x, 2)


@case((normal(19, 3),), lambda bar, x: bar.reshape(2, 3).sum(0))
def tile(np, x):
    return np.tile(x, 2)


@case((normal(20, 3),), lambda bar, x: bar.sum(0))
def broadcast_to(np, x):
    return np.broadcast_to(x, (4, 3))


@case((normal(21, 1, 3), normal(22, 2, 1)), lambda bar, x, y: (bar.sum(0, keepdims=True), bar.sum(1, keepdims=True)))
def broadcast_of_axes_of_length_one(np, x, y):
    return x + y


@case((normal(23, 3, 3),), lambda bar, x: numpy.diag(bar), exact_zeros=True)
def diagonal(np, x):
    return np.diag(x)


@case((normal(24, 3),), lambda bar, x: numpy.diag(bar))
def diagonal_matrix(np, x):
    return np.diag(x)


@case((normal(25, 3, 3),), lambda bar, x: numpy.tril(bar) + numpy.triu(bar, 1) * 2, exact_zeros=True)
def triangles(np, x):
    return np.tril(x) + 2 * np.triu(x, 1)


@case((normal(26, 1, 3, 1),), lambda bar, x: bar.reshape(1, 3, 1))
def squeeze(np, x):
    return np.squeeze(x)


@case((normal(27, 5),), lambda bar, x: numpy.append(0.0, bar) - numpy.append(bar, 0.0))
def first_differences(np, x):
    return np.diff(x)


@case((normal(28, 6),), COMPLEX_STEP)
def slice_bounds_beyond_the_end(np, x):
    return x[3:100] * 2 + np.sum(x[6:])  # the sum is over nothing


@case((normal(29, 3, 2),), lambda bar, x: 2 * x * bar[:, None])
def iteration_over_rows(np, x):
    return np.stack([np.dot(row, row) for row in x])


@case((normal(30, 4),), lambda bar, x: 2 * x * numpy.array([bar[0], bar[0], bar[1], bar[1]]))
def unpacking(np, x):
    a, b, *rest = x
    return np.stack([a * a + b * b, sum(r * r for r in rest)])
