"""Values, traces and primitives: how an operation finds the transformation that it belongs to.

A *core value* is an operand of operations: a NumPy array or scalar, a Python scalar, or a `Tracer` that wraps a core value for
one running transformation. Each transformation is a `Trace` with a number larger than those of all traces that were there when
it began. `bind` hands an operation to the highest trace among its arguments; that one unwraps its own tracers, binds the same
operation to the values inside, and does its part with the result. So derivatives nest in any order, and levels cannot mix.

This module knows nothing of derivatives: those of operations are in the table of each `Primitive` (`diffsim.ad.ops`), their use in
either mode is in `diffsim.ad.transforms.modes`.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from diffsim.errors import DerivativeError, JitError

ids = itertools.count(1)
"""One counter for traces and nodes of all threads; `next` on it is atomic."""


class UnrecordableError(JitError):
    """A part of diffsim decides by values, or keeps them, where operations are recorded: the function is not replayed.

    Attributes:
        now: whether another call may be recorded.
    """

    def __init__(self, message: str, now: bool = False) -> None:
        super().__init__(message)
        self.now = now


class Primitive:
    """An operation with its derivatives.

    Args:
        name: its name in messages and in drawings of the tape.
        evaluate: `(*args, **params)` -> the value (a tuple if `multiple`), on plain arrays.
        jvp: `(args, tangents, out, params)` -> the tangent of the value, None if it is zero. A tangent of None is zero.
        vjp: `(ct, args, out, params, wanted)` -> a cotangent (or None) for each argument; those not `wanted` are ignored.
        keeps: `wanted` -> (for each argument whether `vjp` reads its value, whether it reads the value of the result). If a wanted
            argument is not kept, the rule gets its shape and type only. None: everything is kept.
        outer: whether its derivative is taken together with that of its argument, if that is a root (see `diffsim.ad.ops.roots`).
        live: `(live, args, params, parents)` -> for each argument with a parent, which of its entries the live entries of the value read
            (see `diffsim.ad.transforms.live`). None: by `vjp` where it reads shapes only, else all entries.
        with_pullback: in place of `vjp`, `(args, params, wanted)` -> (value, pullback), where pullback(ct) gives a cotangent an argument.
        multiple: the value is a tuple.
        constant: the derivative is zero wherever it exists.
        takes_over: `vjp` has a further argument `owned`: whether it may overwrite its cotangent.

    All rules are written with primitives, so that they can be differentiated again.
    """

    __slots__ = ("_kept", "constant", "evaluate", "jvp", "keeps", "live", "multiple", "name", "outer", "takes_over", "vjp", "with_pullback")

    def __init__(
        self,
        name: str,
        evaluate: Callable[..., Any],
        *,
        jvp: Callable[..., Any] | None = None,
        vjp: Callable[..., Any] | None = None,
        keeps: Callable[[tuple[bool, ...]], tuple[Sequence[bool], bool]] | None = None,
        live: Callable[..., Sequence[Any]] | None = None,
        with_pullback: Callable[..., Any] | None = None,
        multiple: bool = False,
        constant: bool = False,
        takes_over: bool = False,
    ) -> None:
        self.name = name
        self.evaluate = evaluate
        self.jvp = jvp
        self.vjp = vjp
        self.keeps = keeps
        self.live = live
        self.outer = False
        self.with_pullback = with_pullback
        self.multiple = multiple
        self.constant = constant
        self.takes_over = takes_over
        self._kept: dict[tuple[bool, ...], tuple[Sequence[bool], bool]] = {}

    def __call__(self, *args: Any, **params: Any) -> Any:
        return bind(self, args, params)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def kept(self, wanted: tuple[bool, ...]) -> tuple[Sequence[bool], bool]:
        """The values that `vjp` will read, for these wanted arguments."""
        kept = self._kept.get(wanted)
        if kept is None:
            kept = ((True,) * len(wanted), True) if self.keeps is None else self.keeps(wanted)
            self._kept[wanted] = kept
        return kept


class Aval:
    """Shape and type of a value that was not kept."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Trace:
    """A running transformation. Once it has `ended`, its values mean nothing.

    Attributes:
        replayed: whether its operations will be done again with other values, so that nothing can be decided by these
            (`diffsim.ad.recorded`).
    """

    __slots__ = ("ended", "id")
    replayed = False

    def __init__(self) -> None:
        self.id = next(ids)
        self.ended = False

    def apply(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Do an operation of which at least one argument belongs to this trace."""
        raise NotImplementedError

    def misused(self) -> Exception:
        """The error of an operation on a value of this trace once it has ended."""
        return ended()

    def doubt(self, value: Tracer, infinite: bool = False) -> bool:
        """True if an abstract value of this trace is NaN somewhere, or `infinite`, as far as that is known.

        A trace that is replayed looks again at the values of then.
        """
        return infinite

    def is_empty(self, mask: Tracer) -> bool:
        """True if no entry of an abstract mask of this trace holds, as far as that is known; likewise."""
        return False


class Tracer:
    """A core value under a trace. The array operators are attached by `diffsim.ad.ops`.

    Attributes:
        abstract: whether it stands for many values, one for each tile (`diffsim.tile`), so that nothing can be decided by them. Its
            `primal` has the shape, type and layout only.
    """

    __slots__ = ("primal", "trace")
    __array_ufunc__ = None  # ndarray * tracer is the tracer's business
    abstract = False

    trace: Trace
    primal: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return self.primal.shape

    @property
    def dtype(self) -> Any:
        return self.primal.dtype

    @property
    def ndim(self) -> int:
        return self.primal.ndim

    @property
    def size(self) -> int:
        return self.primal.size

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.primal!r})"


class Tiling(Protocol):
    """The trace of the function of a tile (`diffsim.tile`): loops by values are operations of its program."""

    def loop(self, body: Any, init: tuple[Any, ...], first: Any, last: Any, go_on: Any, most: int | None) -> tuple[Any, ...]:
        """The state after a loop. `last` is the bound of a counted loop, else `go_on` (number, state) -> True to go on."""


class _Local(threading.local):
    """The state of a thread.

    Attributes:
        depth: how many transformations run.
        interceptor: the object that sees the operations of the body that is being run again, if one is.
        seen: arrays that were used since the outermost transformation began (see `diffsim.ad.arrays.guard`).
        unpruned: bytes of those used since the unneeded ones were dropped.
        tiling: the function of a tile that is being traced, if one is.
        zero_wins: in rules of reverse sweeps, a cotangent of 0 times a partial derivative that is infinite or NaN is 0.
        sweeping: whether a reverse sweep runs.
        met: the function whose infinite derivative a tangent of 0 has met, outside of sweeps.
        noted: in a tile program, (function, entries where a tangent of 0 meets its infinite derivative), if these are asked for.
        moving: tangents say which entries depend on moved inputs (see `diffsim.ad.transforms.jvp`).
        live: then, what the result reads of the value of this operation (`diffsim.ad.transforms.live.Live`); None if that is not known.
        recording: whether operations are recorded, to be done again without the function (`diffsim.ad.recorded`).
    """

    depth: int = 0
    recording: bool = False
    zero_wins: bool = False
    live: Any = None
    sweeping: bool = False
    met: str = ""
    noted: list[tuple[str, Any]] | None = None
    moving: bool = False
    interceptor: Interceptor | None = None
    tiling: Tiling | None = None

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}
        self.unpruned = 0


local = _Local()


class running:  # noqa: N801 -- a `with` block, in a third of the time of one by a generator
    """While it lasts, array functions give differentiable arrays."""

    __slots__ = ()

    def __enter__(self) -> None:
        local.depth += 1

    def __exit__(self, *error: object) -> None:
        local.depth -= 1
        if not local.depth:
            local.seen = {}


class outside_derivatives:  # noqa: N801 -- as `running`
    """While it lasts, no transformation counts as running.

    A function that a solver calls has the same bits then, whether the solver runs within a derivative or outside of all.
    """

    __slots__ = ("_around",)

    def __enter__(self) -> None:
        state = vars(local)
        self._around = state.copy()
        state.clear()
        local.seen, local.unpruned = {}, 0

    def __exit__(self, *error: object) -> None:
        state = vars(local)
        state.clear()
        state.update(self._around)


class Interceptor:
    """Sees every operation on tracers that were there before it, and replaces them (see `diffsim.ad.loops.closure`).

    Attributes:
        passive: whether it replaces nothing, for an operation whose values it has replaced is being done. The body is still one that is
            run again: functions with a derivative by hand, which operations call, see the types that they see in other runs.
    """

    __slots__ = ("id", "passive")

    def __init__(self) -> None:
        self.id, self.passive = next(ids), False

    def replace(self, tracer: Tracer) -> Any:
        """The core value to take in place of a tracer of an earlier trace."""
        raise NotImplementedError

    def replaced(self, args: Sequence[Any]) -> list[Any]:
        """Arguments with tracers of earlier traces replaced."""
        return [self.replace(a) if isinstance(a, Tracer) and a.trace.id < self.id else a for a in args]


def bind(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Do an operation on core values."""
    top: Trace | None = None
    for a in args:
        if isinstance(a, Tracer):
            trace = a.trace
            if top is None or trace.id > top.id:
                top = trace
    if top is None:
        return primitive.evaluate(*args, **params)
    interceptor = local.interceptor
    if interceptor is None or interceptor.passive:
        if top.ended:
            raise top.misused()
        return top.apply(primitive, args, params)
    args = interceptor.replaced(args)
    traces = [a.trace for a in args if isinstance(a, Tracer)]
    if not traces:
        return primitive.evaluate(*args, **params)
    top = max(traces, key=lambda trace: trace.id)
    if top.ended:
        raise top.misused()
    interceptor.passive = True  # what stands in place of a captured value may hold this value itself, of an outer derivative
    try:
        return top.apply(primitive, args, params)
    finally:
        interceptor.passive = False


def is_inexact(x: Any) -> bool:
    """True if a core value is of a type that has derivatives."""
    return x.dtype.kind in "fc"


def bottom(x: Any) -> Any:
    """The plain value inside any number of tracers, or the abstract one."""
    while isinstance(x, Tracer) and not x.abstract:
        x = x.primal
    return x


def laid_out(x: Any) -> Any:
    """A value of the shape, type and layout in memory of the one inside any number of tracers. Its entries may be anything."""
    while isinstance(x, Tracer):
        x = x.primal
    return x


def is_known(*values: Any) -> bool:
    """True if there are plain values inside, by which something can be decided."""
    return not any(isinstance(bottom(v), Tracer) for v in values)


def is_finite(value: Any) -> bool:
    """True if all entries are known to be finite, or will be where operations are replayed."""
    inner = bottom(value)
    return not inner.trace.doubt(inner, infinite=True) if isinstance(inner, Tracer) else bool(np.isfinite(inner).all())


def is_empty(mask: Any) -> bool:
    """True if no entry of a mask is known to hold, or will where operations are replayed."""
    inner = bottom(mask)
    return inner.trace.is_empty(inner) if isinstance(inner, Tracer) else not np.any(inner)


def require_not_recording(what: str) -> None:
    """Raise where operations are recorded, for derivatives that are computed in another way for known values.

    Raises:
        UnrecordableError: operations are recorded.
    """
    if local.recording:
        raise UnrecordableError(f"{what} looks at values, or is computed in another way for each")


def require_derivative(what: str) -> None:
    """Raise where operations are recorded outside of a derivative, for those that NumPy itself rounds otherwise.

    Raises:
        UnrecordableError: they are.
    """
    if local.recording and local.depth == 1 and not local.sweeping:
        raise UnrecordableError(f"{what} rounds otherwise outside of a derivative; replay its derivative, as of ds.value_and_grad")


def is_plain(*values: Any) -> bool:
    """True if no value is a tracer."""
    return not any(isinstance(v, Tracer) for v in values)


def aval(x: Any) -> Aval:
    """Shape and type of a core value."""
    return Aval(x.shape, x.dtype) if hasattr(x, "dtype") else Aval((), np.result_type(x))


class EndedError(DerivativeError):
    """A value of a derivative that has ended is used."""


def ended() -> DerivativeError:
    return EndedError(
        "a value of a derivative that has ended is used: it left the differentiated function by another way than its result (an array or "
        "a list from outside, an attribute); return it, with has_aux=True if it is not differentiated"
    )
