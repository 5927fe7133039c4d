"""Errors of derivatives name the expected value, the given one, and a remedy."""

from __future__ import annotations

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import DerivativeError, ReadOnlyError, ShapeError

X = numpy.array([1.0, 2.0, 3.0])


def in_grad(f):
    return lambda: ds.grad(f)(X)


def integers(x):
    y = np.zeros(3, int)
    y[0] = x[0]
    return np.sum(y)


def into_numpy(x):
    out = numpy.zeros(3)
    out[0] = x[0]
    return x[0]


def into_out(x):
    out = numpy.zeros(3)
    out += x
    return x[0]


def broadcast(x):
    y = np.broadcast_to(x, (2, 3))
    y[0, 0] = 1.0
    return x[0]


def complex_part(x):
    y = x * 1.0
    y.imag = 2.0
    return y[0]


def cast_in_place(x):
    y = np.ones(3, int)
    y += 0.5 * np.ones(3)
    return x[0]


def wrong_shape_in_place(x):
    y = np.ones(3)
    y += np.ones((2, 3))
    return x[0]


CASES = {
    "float": (
        in_grad(lambda x: float(x[0])),
        DerivativeError,
        r"float\(\) of a differentiated value.* or ds\.stop_gradient",
    ),
    "complex": (in_grad(lambda x: complex(x[0])), DerivativeError, r"complex\(\) of a differentiated value"),
    "item": (in_grad(lambda x: x[0].item()), DerivativeError, r"item\(\) of a differentiated value"),
    "numpy array": (
        in_grad(lambda x: numpy.asarray(x).sum()),
        DerivativeError,
        r"shape \(3,\) cannot become a NumPy array, .* ds.stop",
    ),
    "into out": (in_grad(into_out), DerivativeError, "written into a NumPy array, .* make the array with diffsim.numpy"),
    "into integers": (
        in_grad(integers),
        DerivativeError,
        r"assigned to an array of int64, .* zeros\(\(3,\), dtype=float64\)",
    ),
    "cast": (in_grad(cast_in_place), DerivativeError, "gives float64, which the array's int64 cannot hold; use astype"),
    "in-place shape": (in_grad(wrong_shape_in_place), ShapeError, r"gives the shape \(2, 3\), expected that of the array, \(3,\)"),
    "broadcast": (in_grad(broadcast), ReadOnlyError, r"assignment to a broadcast array .* assign to that array, or to a copy\(\)"),
    "imaginary part": (in_grad(complex_part), DerivativeError, "float64 has no imaginary part to assign to; make it with a complex type"),
    "number": (
        in_grad(lambda x: x[0].__setitem__((), 1.0)),
        TypeError,
        r"number cannot be assigned to; make an array of it with",
    ),
    "float index": (in_grad(lambda x: x[x[0]]), IndexError, r"type float64, expected integers or booleans; convert it with int\(\)"),
    "out of bounds": (in_grad(lambda x: x[1:][7]), IndexError, "index 7 is out of bounds for an axis of length 2"),
    "many indices": (in_grad(lambda x: x[1:][0, 0]), IndexError, "2 indices were given for an array with 1 axes"),
    "order": (in_grad(lambda x: x.reshape(3, order="K")[0]), ValueError, "order = 'K', expected 'C', 'F', 'A'"),
    "no rule": (in_grad(lambda x: np.roots(x)[0]), DerivativeError, "roots has no derivative .* ds.custom_vjp"),
    "list of shapes": (
        in_grad(lambda x: np.array([x, x[:2]])),
        ShapeError,
        r"shapes \[\(2,\), \(3,\)\] cannot become one array",
    ),
    "no number": (in_grad(lambda x: x), DerivativeError, r"returned an array of shape \(3,\), expected one real number; reduce it \(sum\)"),
    "no array": (in_grad(lambda x: "text"), DerivativeError, "returned str, expected one real number"),
    "complex value": (in_grad(lambda x: x[0] * 1j), DerivativeError, "complex number, expected a real one; take its real part"),
    "integer argument": (
        lambda: ds.grad(lambda x: x * 1.0)(3),
        DerivativeError,
        r"argument 0 holds int, expected .* use float\(x\)",
    ),
    "argnums": (lambda: ds.grad(lambda x: x, argnums=2)(1.0), ShapeError, "names argument 2, but 1 positional arguments were given"),
    "aux": (lambda: ds.grad(lambda x: x, has_aux=True)(1.0), ShapeError, r"returned Array, expected a pair \(value, aux\)"),
    "cotangent shape": (lambda: ds.vjp(np.sin, X)[1](1.0), ShapeError, r"cotangent has the shape \(\), expected that of its value, \(3,\)"),
    "cotangent type": (lambda: ds.vjp(np.sin, X)[1](X * 1j), ShapeError, "cotangent is complex, expected .* float64; take its real part"),
    "cotangent structure": (lambda: ds.vjp(lambda x: (x, x), X)[1]([X, X]), ShapeError, r"structure \[\*, \*\], expected \(\*, \*\)"),
    "tangent shape": (lambda: ds.jvp(np.sin, (X,), (1.0,)), ShapeError, r"tangent has the shape \(\), expected that of its value"),
    "tangents no tuple": (
        lambda: ds.jvp(np.sin, X, X),
        ShapeError,
        r"one entry an argument; write jvp\(f, \(x,\), \(x_dot,\)\)",
    ),
    "jacobian of text": (lambda: ds.jacobian(lambda x: (x, "text"))(X), DerivativeError, "not floating point; leave them out or bind them"),
    "jacobian mode": (lambda: ds.jacobian(np.sin, mode="fast"), DerivativeError, "mode = 'fast', expected 'rows', 'columns' or 'auto'"),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    run, error, message = CASES[name]
    with pytest.raises(error, match=message):
        run()


def test_differentiated_number_is_not_written_into_a_numpy_array():
    """NumPy reads it by float() and wraps the error; its cause names a remedy."""
    with pytest.raises((TypeError, ValueError)) as caught:
        in_grad(into_numpy)()
    errors, error = [], caught.value
    while error is not None:
        errors.append(str(error))
        error = error.__cause__ or error.__context__
    assert any("would lose its derivative" in e for e in errors)
