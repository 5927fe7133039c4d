"""Questions to NumPy about a call leave no trace: no array is written to, and neither time nor memory grows with the arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.errors import DerivativeError
from diffsim.numpy.calling import rehearsal

X = np.array([0.3, 0.7, 1.1])
LARGE = rehearsal._SMALL + 2
Edit = Callable[[Any, Any], Any]
OURS: dict[str, Edit] = {
    "ufunc by name": lambda x, y: dn.multiply(x, 2, out=y),
    "ufunc by place": lambda x, y: dn.multiply(x, 2, y),
    "ufunc, tuple": lambda x, y: dn.add(x, 2, out=(y,)),
    "ufunc, where": lambda x, y: dn.sqrt(x, out=y, where=np.arange(y.size) != 1),
    "matmul": lambda x, y: dn.matmul(x[None], dn.ones((x.size, 1)), out=y[None, :1]),
    "nan_to_num": lambda x, y: dn.nan_to_num(y, copy=False),
    "put": lambda x, y: dn.put(y, [0], 5.0),
    "copyto": lambda x, y: dn.copyto(y, x * 3),
}
REFUSED: dict[str, Edit] = {
    "clip": lambda x, y: dn.clip(x, 0, 0.1, out=y),
    "cumsum": lambda x, y: dn.cumsum(x, out=y),
    "concatenate": lambda x, y: dn.concatenate([x], out=y),
    "einsum": lambda x, y: dn.einsum("i->i", x, out=y),
    "add.accumulate": lambda x, y: dn.add.accumulate(x, out=y),
    "median": lambda x, y: dn.median(x[None], 0, out=y),
    "take, with indices out of bounds for the first entries": lambda x, y: dn.take(x, np.arange(x.size)[::-1], out=y),
}


@pytest.fixture(autouse=True)
def _first_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "_known", set())


@pytest.mark.parametrize("size", [3, LARGE])
@pytest.mark.parametrize("name", OURS)
def test_arrays_that_the_record_refers_to_are_kept(name: str, size: int) -> None:
    x = np.linspace(0.3, 1.1, size)

    def f(x: Any) -> Any:
        y = dn.sin(x)
        square = y * y
        OURS[name](x, y)
        return dn.sum(square)

    np.testing.assert_allclose(ds.grad(f)(x), np.sin(2 * x), rtol=1e-14)


@pytest.mark.parametrize("size", [3, LARGE])
@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_edit_changes_nothing(name: str, size: int) -> None:
    around = np.full(size, 0.5)
    with pytest.raises(DerivativeError):
        ds.grad(lambda x: dn.sum(REFUSED[name](x, around)))(np.linspace(0.3, 1.1, size))
    assert np.all(around == 0.5)


@pytest.mark.parametrize("options", [{"casting": "none"}, {"order": "Z"}, {"where": np.array([1.5, 0.0, 1.0])}], ids=str)
def test_a_refused_call_has_not_written_to_an_array_of_ours(options: dict[str, Any]) -> None:
    """So NumPy is asked before the call is done, not afterwards."""

    def f(x: Any) -> Any:
        y = dn.sin(x)
        with pytest.raises((TypeError, ValueError)):
            dn.add(x, 2.0, out=y, **options)
        return dn.sum(y)

    np.testing.assert_array_equal(ds.grad(f)(X), np.cos(X))


def test_large_arrays_are_rehearsed_by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    perform = rehearsal._perform

    def watched(name: str, theirs: Any, values: Any) -> Any:
        rehearsal._mapped(values, lambda x: sizes.append(x.size) if isinstance(x, np.ndarray) else None)
        return perform(name, theirs, values)

    monkeypatch.setattr(rehearsal, "_perform", watched)
    a = np.ones((300, 200))
    ds.grad(lambda a: dn.sum(dn.matmul(a, a.T) + dn.sort(a, axis=0)[:, :1] + dn.hypot(a, 1.0, dtype=float)[:, :1]))(a)
    assert sizes
    assert max(sizes) <= 10 * 10


def test_lengths_that_do_not_match_are_told_as_they_are() -> None:
    with pytest.raises(ValueError, match=str(LARGE)):
        ds.grad(lambda x: dn.sum(dn.concatenate([x[None], dn.ones((2, 5))])))(np.ones(LARGE))


@pytest.mark.parametrize("shape", [(-1, 2), (LARGE // 2, 2)])
def test_large_arrays_are_reshaped(shape: tuple[int, int]) -> None:
    assert np.all(ds.grad(lambda x: dn.sum(dn.reshape(x, shape)))(np.ones(LARGE)) == 1.0)


def test_types_are_compared_for_large_arrays() -> None:
    with pytest.raises(TypeError, match="cast"):
        ds.grad(lambda x: dn.sum(dn.take(x, np.array([0.5]))))(np.ones(LARGE))


def test_long_lists_are_one_form() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        signs = random.choice([-0.5, 0.5], 100).tolist()
        ds.grad(lambda x, signs=signs: dn.sum(dn.array([x[0] * s for s in signs]) + dn.array(signs)))(X)
    assert len(rehearsal._known) < 20


def test_arguments_that_hold_memory_are_not_remembered() -> None:
    class Key:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.ones(3)

    ds.grad(lambda x: dn.sum(dn.append(x, Key())))(X)
    assert not any(isinstance(part, Key) for form in rehearsal._known for key in form for part in (key if isinstance(key, tuple) else ()))
