"""Arguments of wrong types or sizes: one message with the expected value, the given one, and a remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffsim as ds
from diffsim.errors import DiffsimError, ParameterError, ShapeError, TileError

X = numpy.arange(12.0).reshape(3, 4)
SHAPES: dict[str, tuple[Any, str]] = {
    "a float": ((2.0, 2), "shape of {name} = 2.0, expected a whole number of at least 1; give numbers that are the same for all tiles"),
    "a negative number": ((2, -1), "shape of {name} = -1, expected a whole number of at least 1"),
    "zero": ((0, 2), "shape of {name} = 0, expected a whole number of at least 1"),
    "a truth value": ((True, 2), "shape of {name} = True, expected a whole number"),
    "a text": ("22", "shape of {name} = '22', expected a whole number"),
    "nested": (((2, 2),), "shape of {name} = (2, 2), expected a whole number"),
    "an array of floats": (numpy.array([2.0, 2.0]), "shape of {name} = 2.0, expected a whole number"),
    "a dict": ({"y": 2}, "shape of {name} = {{'y': 2}}, expected a whole number"),
}


def refused(call: Callable[[Any, Any], Any], kind: type[DiffsimError], message: str) -> None:
    """One line, with the line of the program."""
    with pytest.raises(kind) as caught:
        ds.tile.kernel(tiles=(2,))(call)(X)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert "test_arguments.py" in str(caught.value)


@pytest.mark.parametrize("given", SHAPES)
def test_shapes(given: str) -> None:
    shape, message = SHAPES[given]
    for name, call in {
        "ds.tile.load": lambda i, x: ds.tile.store((2 * i, 0), ds.tile.load(x, shape, at=(i, 0))),
        "ds.tile.store": lambda i, x: ds.tile.store((2 * i, 0), ds.tile.load(x, (2, 2), at=(i, 0)), shape=shape),
        "ds.tile.add": lambda i, x: ds.tile.add((2 * i, 0), ds.tile.load(x, (2, 2), at=(i, 0)), shape=shape),
    }.items():
        refused(call, ShapeError, message.format(name=name))


def test_a_shape_that_differs_from_tile_to_tile() -> None:
    program = lambda i, x: ds.tile.store((i, 0), ds.tile.load(x, (i, 2), at=(i, 0)))  # noqa: E731  # short
    refused(
        program, ShapeError, "shape of ds.tile.load = <one for each tile: int64[]>, expected a whole number of at least 1; give numbers"
    )


def test_shapes_of_numpy_are_shapes() -> None:
    @ds.tile.kernel(tiles=(2,))
    def copied(i: Any, x: Any) -> Any:
        block = ds.tile.load(x, numpy.array([1, 4]), at=(i, 0))
        return ds.tile.store((i, 0), block, shape=numpy.array([3, 4])), ds.tile.add((i, 0), block, shape=[numpy.int64(2), 4])

    stored, added = copied(X)
    numpy.testing.assert_array_equal(stored, numpy.where(numpy.arange(3)[:, None] < 2, X, 0.0))
    numpy.testing.assert_array_equal(added, X[:2])


@pytest.mark.parametrize("name", ["store", "add"])
def test_blocks_and_results_that_do_not_fit(name: str) -> None:
    put = getattr(ds.tile, name)
    block = lambda i, x: ds.tile.load(x, (1, 4), at=(i, 0))  # noqa: E731  # short
    refused(
        lambda i, x: put((i, 0), block(i, x), shape=(4,)), ShapeError, f"shape of ds.tile.{name} has 1 axes and the block 2, expected as"
    )
    refused(
        lambda i, x: put((i,), block(i, x)[0], into=x), ShapeError, f"into of ds.tile.{name} has 2 axes and the block 1, expected as many"
    )
    refused(lambda i, x: put((i, 0), block(i, x), into=X), TileError, f"into = ndarray of ds.tile.{name}, expected an argument of the tile")
    for wrong in ("ab", None, {"a": 1.0}, [[1.0], [1.0, 2.0]]):
        refused(
            lambda i, x, w=wrong: put((i,), w), TileError, f"the block of ds.tile.{name} is {type(wrong).__name__}, expected an array of"
        )  # type: ignore[misc]


@pytest.mark.parametrize("at", [(0.5, 0), ("a", 0), (None, 0), (True, 0), ([0], 0), numpy.array([0, 0]), {"y": 0}])
def test_positions(at: Any) -> None:
    for call in (
        lambda i, x: ds.tile.store((i, 0), ds.tile.load(x, (1, 1), at=at)),
        lambda i, x: ds.tile.store(at, ds.tile.load(x, (1, 1), at=(0, 0))),
        lambda i, x: ds.tile.add(at, ds.tile.load(x, (1, 1), at=(0, 0))),
    ):
        refused(call, TileError, "expected a whole number, or arithmetic with the numbers of the tile")


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: ds.tile.kernel(tiles=(2, 1.5)), ShapeError, "tiles = 1.5, expected a whole number of at least 1"),
        (lambda: ds.tile.kernel(tiles="4"), ShapeError, "tiles = '4', expected a whole number"),
        (lambda: ds.tile.kernel(tiles=None), ShapeError, "tiles = None, expected a whole number"),
        (lambda: ds.tile.kernel(tiles=()), ShapeError, "tiles = () has no axis"),
        (lambda: ds.tile.kernel(tiles=2)(3), ParameterError, "function = 3, expected a function"),
        (lambda: ds.tile.map(3), ParameterError, "function = 3, expected a function"),
        (lambda: ds.tile.map(abs, axes=0.5)(X), ParameterError, "axes = 0.5 for 1 arguments, expected an axis"),
        (lambda: ds.tile.map(abs, axes="0")(X), ParameterError, "axes = '0' for 1 arguments, expected an axis"),
        (lambda: ds.tile.map(abs, axes=(0, 1))(X), ParameterError, "axes = (0, 1) for 1 arguments"),
        (lambda: ds.tile.map(abs, axes=2)(X), ShapeError, "argument 0 has the shape (3, 4), which has no axis 2"),
        (lambda: ds.tile.map(abs)("ab"), TileError, "argument 0 of a tile program holds str, expected arrays of numbers"),
        (lambda: ds.tile.map(abs)(3.0), ShapeError, "argument 0 is a number, expected arrays"),
        (lambda: ds.tile.map(lambda x: x)(()), TileError, "the arguments hold no array along which tiles lie, expected one at least"),
        (lambda: ds.tile.load(X, (1, 1), at=(0, 0)), TileError, "ds.tile.load is called outside of a tile program"),
    ],
)
def test_calls_that_are_refused_before_a_program_runs(call: Callable[[], Any], kind: type[DiffsimError], message: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value) and "\n" not in str(caught.value)
