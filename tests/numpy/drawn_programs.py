"""Array programs that are drawn by a number: statements one after the other, which read and write a pool of arrays.

A statement draws all that varies from a generator of its own, so that each run of a program, by any namespace, has the same statements.
Values stay of the size of one, so that derivatives do not grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

SHAPES: tuple[tuple[int, ...], ...] = ((), (3,), (4,), (2, 3), (3, 3), (3, 4), (2, 3, 2), (1, 3), (3, 1), (0,), (0, 3))
"""Shapes of arguments."""
LARGEST = 200
"""Entries of the largest array that a program keeps."""


class SkipError(Exception):
    """The pool has no arrays that a statement takes."""


class Draw:
    """The random choices of a statement."""

    def __init__(self, seed: int) -> None:
        self.generator = numpy.random.default_rng(seed)

    def chance(self, part: float) -> bool:
        return bool(self.generator.random() < part)

    def below(self, stop: int) -> int:
        return int(self.generator.integers(stop))

    def between(self, start: int, stop: int) -> int:
        return int(self.generator.integers(start, stop))

    def one(self, choices: Sequence[Any]) -> Any:
        return choices[self.below(len(choices))]

    def places(self, length: int, count: int) -> numpy.ndarray:
        """Positions along an axis, some counted from its end."""
        return self.generator.integers(-length, length, count)

    def mask(self, shape: tuple[int, ...]) -> numpy.ndarray:
        return self.generator.random(shape) < 0.6

    def axis(self, a: Any) -> int:
        if not a.ndim:
            raise SkipError
        return self.between(-a.ndim, a.ndim)

    def axes(self, a: Any) -> int | tuple[int, ...] | None:
        """An axis, two of them, or None for all."""
        if not a.ndim or self.chance(0.3):
            return None
        if a.ndim < 2 or self.chance(0.6):
            return self.axis(a)
        return tuple(int(k) - a.ndim * self.chance(0.5) for k in self.generator.permutation(a.ndim)[:2])

    def slice(self, n: int) -> slice:
        choices = (
            slice(None),
            slice(None, None, -1),
            slice(self.between(0, n + 1), None, 2),
            slice(None, self.between(-n, n + 2), 1 + self.below(2)),
            slice(None, self.between(-n, 2), -1 - self.below(2)),
        )
        return self.one(choices)

    def index(self, shape: tuple[int, ...], arrays: bool = True) -> tuple[Any, ...]:
        """An index of slices, numbers, new axes, and perhaps an array of positions or a mask."""
        with_array = self.below(len(shape)) if arrays and shape and self.chance(0.4) else -1
        out: list[Any] = []
        for axis, n in enumerate(shape):
            if axis == with_array and n:
                out.append(self.places(n, self.between(1, 5)) if self.chance(0.5) else self.mask((n,)))
            elif n and self.chance(1 / 6):
                out.append(self.between(-n, n))
            else:
                out.append(self.slice(n))
        if len(out) > 1 and self.chance(0.2):
            out.pop()
        if self.chance(0.15):
            out.append(Ellipsis)
        if with_array < 0 and self.chance(0.1):
            out.insert(self.below(len(out) + 1), None)
        return tuple(out)


@dataclass
class Run:
    """A run of a program.

    Attributes:
        np: the namespace.
        pool: all arrays.
        arguments: how many of them, the first, are arguments or copies of such, which no statement edits.
        draw: of the statement.
    """

    np: Any
    pool: list[Any]
    arguments: int
    draw: Draw

    def pick(self, fit: Callable[[Any], bool] = lambda a: True) -> Any:
        fitting = [a for a in self.pool if fit(a)]
        if not fitting:
            raise SkipError
        return self.draw.one(fitting)

    def target(self) -> Any:
        """An array to edit. NumPy refuses those that are read-only, with their statement."""
        fitting = [a for a in self.pool[self.arguments :] if a.ndim]
        if not fitting:
            raise SkipError
        return self.draw.one(fitting)

    def pair(self) -> tuple[Any, Any]:
        """Two arrays that broadcast."""
        a = self.pick()
        return a, self.pick(lambda b: broadcasts(a.shape, b.shape))

    def bounded(self, a: Any) -> Any:
        which = self.draw.below(4)
        return a / (1 + a * a) if which == 3 else getattr(self.np, ("tanh", "sin", "arctan")[which])(a)


def broadcasts(*shapes: tuple[int, ...]) -> bool:
    try:
        numpy.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


Statement = Callable[[Run], Any]
"""It returns a new array, or None if it has edited one."""
STATEMENTS: list[Statement] = []


def statement(weight: int) -> Callable[[Statement], Statement]:
    def enter(function: Statement) -> Statement:
        STATEMENTS.extend([function] * weight)
        return function

    return enter


UNARY = "exp sin cos tanh arctan square abs sinh expm1 sinc positive negative deg2rad nan_to_num real conj fabs exp2"
OF_POSITIVE = "sqrt log log1p log10 log2 reciprocal cbrt"
BINARY = "add subtract multiply maximum minimum arctan2 hypot fmax fmin logaddexp copysign heaviside logaddexp2"
REDUCTIONS = "sum mean prod max min var std ptp median nansum nanmean amax logsum"


@statement(2)
def unary(run: Run) -> Any:
    a = run.bounded(run.pick())
    if run.draw.chance(0.3):
        return getattr(run.np, run.draw.one(OF_POSITIVE.split()))(1.5 + a)
    return getattr(run.np, run.draw.one(UNARY.split()))(a)


@statement(2)
def binary(run: Run) -> Any:
    a, b = map(run.bounded, run.pair())
    np, which = run.np, run.draw.below(6)
    if which < 3:
        return getattr(np, run.draw.one(BINARY.split()))(a, b)
    if which == 3:
        return run.draw.one((np.power, np.float_power))(1.5 + a, b)
    return a / (2 + b) if which == 4 else run.draw.one((np.mod, np.fmod, np.floor_divide))(a, 2.1 + b)


@statement(1)
def into_an_output(run: Run) -> Any:
    a, b = run.pair()
    shape = numpy.broadcast_shapes(a.shape, b.shape)
    edited = [x for x in run.pool[run.arguments :] if x.shape == shape]
    out = run.draw.one(edited) if edited and run.draw.chance(0.6) else run.np.zeros(shape)
    options = {"where": run.draw.mask(shape)} if run.draw.chance(0.5) else {}
    return getattr(run.np, run.draw.one(("add", "multiply", "maximum", "subtract")))(a * 0.5, b * 0.5, out=out, **options)


@statement(2)
def reduction(run: Run) -> Any:
    np, draw = run.np, run.draw
    a = run.bounded(run.pick(lambda a: a.size > 0))
    name, axes = draw.one(REDUCTIONS.split()), draw.axes(a)
    options: dict[str, Any] = {"axis": axes, "keepdims": draw.chance(0.5)}
    if name in ("var", "std") and math.prod(a.shape[k] for k in numpy.atleast_1d(range(a.ndim) if axes is None else axes)) < 2:
        raise SkipError
    if name == "logsum":
        return np.log(np.sum(np.exp(a), **options))
    if name in ("sum", "max", "min") and draw.chance(0.3):
        options |= {"where": draw.mask(a.shape), "initial": 0.3}
    return getattr(np, name)(0.5 + a if name == "prod" else a, **options)


@statement(3)
def view(run: Run) -> Any:
    np, draw = run.np, run.draw
    a = run.pick()
    choices: list[Callable[[], Any]] = [
        lambda: a.T,
        lambda: np.reshape(a, (-1,)),
        lambda: a.reshape(-1, order="F"),
        lambda: np.ravel(a),
        lambda: np.expand_dims(a, draw.between(0, a.ndim + 1)),
        lambda: np.squeeze(a),
        lambda: np.flip(a, axis=draw.axis(a)),
        lambda: np.broadcast_to(a, (2, *a.shape)),
        lambda: a[draw.index(a.shape, arrays=False)],
    ]
    if a.ndim > 1:
        choices += [lambda: np.swapaxes(a, 0, -1), lambda: np.moveaxis(a, 0, -1), lambda: np.diagonal(a, draw.between(-1, 2))]
    return draw.one(choices)()


@statement(1)
def entries(run: Run) -> Any:
    a = run.pick()
    return a[run.draw.index(a.shape)]


@statement(5)
def assignment(run: Run) -> None:
    draw, a = run.draw, run.target()
    index = draw.index(a.shape)
    shape = numpy.zeros(a.shape)[index].shape
    fitting = [b for b in run.pool if broadcasts(b.shape, shape) and numpy.broadcast_shapes(b.shape, shape) == shape]
    value = draw.one([0.7, a[index] * 0.5 + 0.1, draw.one(fitting) if fitting else -0.3])
    which = draw.below(5)
    if which < 2:
        a[index] = value
    elif which == 2:
        a[index] += value
    elif which == 3:
        a[index] -= value
    else:
        a[index] *= run.np.tanh(value)


@statement(2)
def edit(run: Run) -> None:
    np, draw, a = run.np, run.draw, run.target()
    choices: list[Callable[[], Any]] = [
        lambda: a.__iadd__(0.3),
        lambda: a.__imul__(run.bounded(a)),
        lambda: np.copyto(a, 0.3 * a + 0.1, where=draw.mask(a.shape)),
        lambda: np.putmask(a, draw.mask(a.shape), 0.5 * a),
    ]
    if a.size:
        choices.append(lambda: np.put(a, draw.places(a.size, 3), [0.1, 0.2, 0.3]))
        choices.append(lambda: np.add.at(a, draw.places(a.shape[0], 3), 0.2))
    if a.ndim == 2 and a.size:
        choices.append(lambda: np.fill_diagonal(a, 0.4))
    draw.one(choices)()


@statement(1)
def join(run: Run) -> Any:
    np, draw = run.np, run.draw
    a = run.pick()
    if not a.ndim:
        return np.stack([a, run.pick(lambda b: b.ndim == 0), a])
    axis = draw.axis(a)
    b = run.pick(lambda b: b.ndim == a.ndim and numpy.delete(a.shape, axis).tolist() == numpy.delete(b.shape, axis).tolist())
    return (np.stack if a.shape == b.shape and draw.chance(0.5) else np.concatenate)([a, b], axis=axis)


@statement(2)
def along_an_axis(run: Run) -> Any:
    np, draw = run.np, run.draw
    a = run.bounded(run.pick(lambda a: a.ndim > 0 and 0 < a.size < 60))
    axis, few = draw.axis(a), draw.between(-5, 6)
    n = a.shape[axis]
    choices: list[Callable[[], Any]] = [
        lambda: np.cumsum(a, axis=axis),
        lambda: np.nancumsum(a, axis=axis),
        lambda: np.cumprod(1 + 0.3 * a, axis=axis),
        lambda: np.diff(a, axis=axis, prepend=0.5),
        lambda: np.sort(a, axis=axis),
        lambda: np.take_along_axis(a, np.argsort(a, axis=axis), axis=axis),
        lambda: np.roll(a, few, axis=axis),
        lambda: np.roll(a, few),
        lambda: np.unwrap(a, axis=axis),
        lambda: np.tile(a, (2, 1)),
        lambda: np.repeat(a, draw.generator.integers(0, 3, n), axis=axis),
        lambda: np.trapezoid(a, dx=0.5, axis=axis),
        lambda: np.average(a, axis=axis),
    ]
    if n > 2:
        choices += [lambda: np.gradient(a, 0.5, axis=axis), lambda: np.diff(a, n=2, axis=axis)]
    if a.ndim > 1:
        choices += [lambda: np.rot90(a, draw.below(4)), lambda: draw.one((np.triu, np.tril))(a, draw.between(-1, 2))]
    mode = draw.one(["constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "mean"])
    choices += [lambda: np.pad(a, (1, 2), mode=mode if min(a.shape) > 2 else "constant")] * 2
    return draw.one(choices)()


@statement(2)
def algebra(run: Run) -> Any:
    np, draw = run.np, run.draw
    a = run.bounded(run.pick(lambda a: a.ndim > 0 and 0 < a.size < 20))
    choices: list[Callable[[], Any]] = [
        lambda: np.inner(a, a),
        lambda: np.vdot(a, a + 1),
        lambda: np.kron(a, numpy.array([1.0, -0.5])),
        lambda: np.outer(a, a[..., 0]),
        lambda: np.convolve(np.ravel(a), numpy.array([0.2, 0.5, -0.1]), mode=draw.one(("same", "full"))),
        lambda: np.interp(np.ravel(a), numpy.linspace(-1.2, 1.2, 5), numpy.array([0.1, 0.5, -0.2, 0.3, 0.6])),
        lambda: np.linalg.norm(1.5 + a, ord=draw.one((None, 1, 2, numpy.inf, 3)), axis=draw.axis(a), keepdims=draw.chance(0.5)),
        lambda: 0.3 * np.real(np.fft.fft(a, axis=draw.axis(a))),
        lambda: np.fft.irfft(0.7 * np.fft.rfft(a), n=a.shape[-1]),
    ]
    if a.ndim > 1:
        square = np.matmul(a, np.swapaxes(a, -1, -2)) + 2 * numpy.eye(a.shape[-2])
        choices += [
            lambda: square,
            lambda: np.trace(a, offset=draw.between(-1, 2)),
            lambda: np.einsum("...ij,...kj->...ik", a, a),
            lambda: np.tensordot(a, a, axes=([0], [0])),
            lambda: np.linalg.solve(square, a),
            lambda: np.linalg.inv(square),
            lambda: np.log(np.linalg.det(square)),
            lambda: np.linalg.slogdet(square)[1],
            lambda: np.linalg.cholesky(square),
            lambda: np.linalg.eigvalsh(square + numpy.diag(numpy.arange(a.shape[-2]) * 1.0)),
        ]
    return draw.one(choices)()


@statement(2)
def choice(run: Run) -> Any:
    np, (a, b) = run.np, run.pair()
    which = run.draw.below(4)
    if which == 0:
        return np.where(a > b, a, 0.5 * b)
    if which == 1:
        return np.select([a > 0.5, a > 0.0], [a * 2, b * a], default=0.3)
    if which == 2:
        return np.clip(a, -0.4, 0.7 if run.draw.chance(0.5) else None)
    return a * 0.7 if np.sum(a) > 0 else np.sin(a) + 0.2


@statement(1)
def loop(run: Run) -> Any:
    """A loop of Python that decides by values."""
    a = run.pick(lambda a: a.ndim > 0 and a.size > 0)
    out = run.np.zeros(a.shape[0])
    for k in range(1, a.shape[0]):
        out[k] = 0.5 * out[k - 1] + run.np.mean(a[k])
        if out[k] > 0.4:
            out[k - 1] *= 0.5
    return out


@statement(1)
def copy(run: Run) -> Any:
    np, a = run.np, run.pick()
    return run.draw.one((np.copy, np.asarray, lambda a: np.array(a, order="F"), lambda a: a.astype(numpy.float64)))(a)


@dataclass(frozen=True)
class Program:
    """A program of a number. Statements that NumPy itself refuses are left out."""

    seed: int
    arguments: tuple[numpy.ndarray, ...]
    statements: tuple[tuple[Statement, int], ...]

    @classmethod
    def drawn(cls, seed: int) -> Program:
        draw = Draw(seed)
        few = [draw.generator.normal(size=draw.one(SHAPES[:-2])) for _ in range(draw.between(1, 4))]
        if draw.chance(0.1):
            few.append(draw.generator.normal(size=draw.one(SHAPES[-2:])))
        every = [(draw.one(STATEMENTS), draw.below(1 << 30)) for _ in range(draw.between(6, 16))]
        refused = set[int]()
        while True:  # each time NumPy refuses a statement it is left out
            left = [k for k in range(len(every)) if k not in refused]
            program = cls(seed, tuple(few), tuple(every[k] for k in left))
            done: list[int] = []
            try:
                program.value(numpy, few, done)
            except (ValueError, IndexError, TypeError, numpy.linalg.LinAlgError):
                refused.add(left[len(done)])
            else:
                return program

    def value(self, np: Any, arguments: Sequence[Any], done: list[int] | None = None) -> Any:
        """The sum of all arrays, each with weights of its own. `done` gets the number of each statement that has been run."""
        pool = [np.array(x) for x in arguments]
        run = Run(np, pool, len(pool), Draw(0))
        for number, (function, seed) in enumerate(self.statements):
            run.draw = Draw(seed)
            try:
                new = function(run)
            except SkipError:
                new = None
            if done is not None:
                done.append(number)
            if new is not None and new.size <= LARGEST:
                new = new if new.shape else np.array(new)
                pool.append(new if new.dtype == numpy.float64 else new * 1.0)
        return sum(np.sum(np.sin(a) * weights(a.shape, k)) for k, a in enumerate(pool) if a.size)

    @property
    def names(self) -> Collection[str]:
        return [function.__name__ for function, _ in self.statements]


def weights(shape: tuple[int, ...], number: int) -> numpy.ndarray:
    return numpy.cos(numpy.arange(math.prod(shape)).reshape(shape) + number)
