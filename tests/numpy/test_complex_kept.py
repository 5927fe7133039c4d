"""Imaginary parts are not dropped: NumPy warns where a complex value becomes a real one, a derivative refuses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.errors import DerivativeError

X = np.array([1.0, 2.0])
Z = np.array([1.0 + 2.0j, 3.0 + 4.0j])


def edited(edit: Callable[[Any, Any], Any], made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        a = made(x)
        edit(a, x)
        return dn.sum(a)

    return f


EDITS: dict[str, Callable[[Any, Any], Any]] = {
    "assignment": lambda a, x: a.__setitem__(slice(None), x * Z),
    "assignment of constants": lambda a, x: a.__setitem__(slice(None), Z),
    "entry": lambda a, x: a.__setitem__(0, x[0] * 1j),
    "number": lambda a, x: a.__setitem__(0, 1j),
    "mask": lambda a, x: a.__setitem__(X > 1, x[1:] * 1j),
    "fill": lambda a, x: a.fill(1j),
    "flat": lambda a, x: setattr(a, "flat", x * Z),
    "put": lambda a, x: dn.put(a, [0], [1j]),
    "copyto": lambda a, x: dn.copyto(a, x * Z),
    "out": lambda a, x: dn.multiply(x, Z, out=a),
    "view": lambda a, x: a[:1].__setitem__(0, x[0] * 1j),
    "real": lambda a, x: setattr(a, "real", x * Z),
}
CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "astype": lambda x: dn.sum((x * Z).astype(float)),
    "astype of constants": lambda x: dn.sum(x * dn.asarray(Z).astype(float)),
    "astype to integers": lambda x: dn.sum(x * (x * Z).astype(int)),
    "dn.astype": lambda x: dn.sum(dn.astype(x * Z, float)),
    "asarray": lambda x: dn.sum(dn.asarray(x * Z, float)),
    "array": lambda x: dn.sum(dn.array(x * Z, float)),
    "array of constants": lambda x: dn.sum(x * dn.array(Z, float)),
    "array of a list": lambda x: dn.sum(x * dn.array([1j, 2.0], float)),
    "full": lambda x: dn.sum(dn.full(2, x[0] * 1j, float)),
    "full of a constant": lambda x: dn.sum(x * dn.full(2, 1j, float)),
    "full_like": lambda x: dn.sum(dn.full_like(x, x[0] * 1j)),
    "concatenate": lambda x: dn.sum(dn.concatenate([x, x * Z], dtype=float)),
    "sum": lambda x: dn.sum(x * Z, dtype=float),
    "cumsum": lambda x: dn.sum(dn.cumsum(x * Z, dtype=float)),
    "insert": lambda x: dn.sum(dn.insert(x, 0, 1j)),
    "pad": lambda x: dn.sum(dn.pad(x, 1, constant_values=1j)),
    "scatter": lambda x: dn.sum(ds.scatter(x, np.array([0]), x[:1] * 1j)),
    "numpy": lambda x: dn.sum(x * np.asarray(dn.zeros(2) + Z, float)),
}


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("made", [lambda x: x * 1.0, lambda x: dn.zeros(2)], ids=["traced", "plain"])
def test_edits(name: str, made: Callable[[Any], Any]) -> None:
    with pytest.raises(DerivativeError, match=r"would lose its imaginary part; take its real\(x\)"):
        ds.grad(edited(EDITS[name], made))(X)


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions(name: str) -> None:
    with pytest.raises(DerivativeError, match=r"would lose its imaginary part; take its real\(x\)"):
        ds.grad(CONVERSIONS[name])(X)


def test_the_other_way_is_right() -> None:
    f = edited(lambda a, x: a.__setitem__(slice(None), x * 2.0), lambda x: dn.zeros(2, complex))
    np.testing.assert_array_equal(ds.grad(lambda x: dn.real(f(x)))(X), [2.0, 2.0])
    np.testing.assert_array_equal(ds.grad(lambda x: dn.sum(dn.real(x * Z).astype(np.float32)))(X), [1.0, 3.0])
    assert ds.grad(lambda x: dn.sum(x * (dn.asarray(Z).astype(bool))))(X).tolist() == [1.0, 1.0]
