"""Programs whose results were once wrong in silence."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import ArrayIndexError, ParameterError, ShapeError, SingularError
from diffsim.tile.trace import trace
from tests.tile.agree import stacked

generator = numpy.random.default_rng(0)
whole = generator.integers(-3, 4, (5, 6))
truth = generator.random((5, 6)) < 0.5
special = numpy.array([[0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, -2.0]] * 3)
large = numpy.array([[1e160, -1e200, 3.0, numpy.inf, 2.0**52 + 1, 0.49999999999999994]] * 3)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda n: (n < 2.5, n == 0.5, n > -0.5), whole),
        (lambda n: (n < 2.5, n == 0.5, n < 2**40), whole.astype(numpy.int32)),
        (lambda b: (np.argsort(b), np.sort(b)), truth),
        (lambda z: (np.isclose(z, z), np.isclose(1.0, z), np.isclose(z, z, equal_nan=True), 1 / (-z), 1 / np.array([0.0, -0.0])), special),
        (lambda x: (np.arcsinh(x), np.cbrt(x), np.rint(x) - x), large),
    ],
)
def test_a_tile_program_agrees_with_its_array_program(function: Any, x: numpy.ndarray) -> None:
    with numpy.errstate(all="ignore"):
        result, expected = ds.tile.map(function)(x), stacked([function(tile) for tile in x])
    for one, other in zip(result, expected, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-13)


@pytest.mark.parametrize("custom", [ds.custom_jvp, ds.custom_vjp])
def test_functions_with_rules_of_one_name_are_told_apart(custom: Any) -> None:
    def scaled(factor: float) -> Any:
        @custom
        def f(x: Any) -> Any:
            return factor * x

        if custom is ds.custom_jvp:
            f.defjvp(lambda primals, tangents: (factor * primals[0], factor * tangents[0]))
        else:
            f.defvjp(lambda x: (factor * x, None), lambda _, ct: (factor * ct,))
        return f

    x = numpy.ones((3, 2))
    for first, second in ((2.0, 5.0), (7.0, 1.5)):
        f, g = scaled(first), scaled(second)
        y, pullback = ds.vjp(ds.tile.map(lambda x, f=f, g=g: f(x) + 10 * g(x)), x)
        assert (numpy.asarray(y) == first + 10 * second).all()
        assert (numpy.asarray(pullback(x)[0]) == first + 10 * second).all()


def test_the_turns_of_a_reverse_loop_are_not_overwritten_by_its_body() -> None:
    def run(x: Any) -> Any:
        def body(state: Any) -> Any:
            y, n = state
            return y * 1.3 + 0.01 * y[np.argsort(y)[::-1]] * n, np.argsort(-y)

        return ds.while_loop(lambda s: np.sum(s[0]) < 9.0, body, (x, np.arange(4)), max_steps=20)[0]

    x = generator.uniform(0.5, 1.5, (5, 4))
    bar = generator.normal(size=x.shape)
    expected = [ds.vjp(run, tile)[1](c)[0] for tile, c in zip(x, bar, strict=True)]
    numpy.testing.assert_allclose(ds.vjp(ds.tile.map(run), x)[1](bar)[0], expected, rtol=1e-12)


def test_a_sum_over_tiles_that_are_fewer_than_lanes_may_be_infinite() -> None:
    x = numpy.ones((3, 2))
    x[-1, 0] = numpy.inf
    mapped = ds.tile.map(lambda x, w: x * w, axes=(0, None))
    bar = ds.vjp(lambda w: mapped(x, w), numpy.ones(2))[1](numpy.ones((3, 2)))[0]
    assert numpy.asarray(bar).tolist() == [numpy.inf, 3.0]


SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (4,), (2,), (1, 4), (4, 1), (0,))


@pytest.mark.parametrize("one", SHAPES)
def test_the_functions_of_a_cond_give_one_shape(one: tuple[int, ...]) -> None:
    """Shapes that NumPy would stretch to one are no exception: the program of one tile gives the shape of its own side."""
    x = numpy.array([[1.0, 2.0], [-1.0, 3.0]])
    for other in SHAPES:

        def chosen(x: Any, other: Any = other) -> Any:
            return ds.cond(x[0] > 0, lambda a: a[1] * np.ones(one), lambda a: a[0] * np.ones(other), x)

        if other == one:
            numpy.testing.assert_array_equal(ds.tile.map(chosen)(x), stacked([chosen(tile) for tile in x]))
        else:
            with pytest.raises(ShapeError, match=r"test_corners\.py:\d+: the functions of a cond return arrays of the shapes"):
                ds.tile.map(chosen)(x)


@pytest.mark.parametrize("name", ["index.py", "while_loop.py", "index_while_loop.py", "other.py"])
@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("lambda x: np.linalg.inv(np.outer(x, x))", SingularError),
        ("lambda x: np.linalg.solve(np.outer(x, x), x)", SingularError),
        ("lambda x: np.linalg.cholesky(np.outer(x, -x))", SingularError),
        ("lambda x: x[x.astype(int) + 1]", ArrayIndexError),
        ("lambda x: ds.while_loop(lambda y: y[0] > 0, lambda y: y, x, max_steps=3)", ParameterError),
        ("lambda x: ds.fori_loop(0, (1000 * x[0]).astype(int), lambda k, y: y, x)", ParameterError),
    ],
)
def test_the_kind_of_an_error_does_not_depend_on_the_name_of_the_file(name: str, source: str, error: type[Exception]) -> None:
    function = eval(compile(source, name, "eval"), {"np": np, "ds": ds})
    with pytest.raises(error, match=rf"{name}:1: .*\(tile 1\)") as raised:
        ds.tile.map(function)(numpy.array([[0.0, 0.0], [3.0, 3.0]]) if error is not SingularError else numpy.array([[1.0, 2.0]] * 2))
    assert type(raised.value) is error


def test_masks_are_compared_in_as_many_steps_as_they_have_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = [0]
    frozen = trace.frozen

    def counted(value: Any) -> Any:
        compared[0] += 1
        assert compared[0] < 1000
        return frozen(value)

    def grown(x: Any) -> Any:
        for _ in range(20):
            x = np.sin(x) * x
        return x

    def changed(x: Any) -> Any:
        y = x * 1.0
        y[grown(x) > 0.1] = 2 * x[grown(x) > 0.1]  # both masks are computed
        return y

    monkeypatch.setattr(trace, "frozen", counted)
    x = generator.normal(size=(3, 2))
    numpy.testing.assert_array_equal(ds.tile.map(changed)(x), numpy.where(grown(x) > 0.1, 2 * x, x))
    assert compared[0] > 20
