"""Functions with the traced values that they reach from outside made into arguments.

The body of a checkpointed loop is run again in the reverse sweep. Traced values that it takes from around it must be kept apart
from its own: an interceptor sees each operation on a value of an earlier trace and puts another in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from threading import get_ident
from types import CellType, CodeType, FunctionType
from typing import Any, TypeAlias

from diffsim.ad.arrays.guard import caller
from diffsim.ad.arrays.leaves import Cores
from diffsim.ad.core import EndedError, Interceptor, Primitive, Trace, Tracer, UnrecordableError, bind, bottom, is_inexact, local, running
from diffsim.ad.surroundings.reads import reads_of
from diffsim.errors import ReplayError

CoreFunction = Callable[[Cores], Cores]
"""From core values to core values. It may be run again."""
OWN = f"{__package__}."
"""Modules whose functions stand around those of users."""


class _Watched(Tracer):
    """A value of a body that is run to find the values that it reaches."""

    __slots__ = ()

    def __init__(self, trace: Trace, primal: Any) -> None:
        self.trace, self.primal = trace, primal


class _Watch(Trace):
    """Marks every value of a body, so that one that leaves it by another way than its result raises an error."""

    __slots__ = ()

    def mark(self, value: Any) -> Any:
        return _Watched(self, value) if hasattr(value, "dtype") and is_inexact(value) else value

    def apply(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        out = bind(primitive, [a.primal if isinstance(a, _Watched) and a.trace is self else a for a in args], params)
        if primitive.constant:
            return out  # as in the runs that are taped
        return tuple(map(self.mark, out)) if primitive.multiple else self.mark(out)


class Reads:
    """The captured values that a function reads: in its first run, and again in the runs of a reverse sweep.

    A name that is assigned anew after the first run leads the later ones to another value. If that is equal, so are the results, and only
    the cotangent of the captured value would be lost.

    Args:
        function: a function of a user, or one of this package around it, whose names are compared where its runs differ.

    Attributes:
        on: whether what is read counts.
    """

    __slots__ = ("_around", "_expected", "_now", "_objects", "on")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.on, self._expected, self._now = True, set[int](), dict[int, set[int]]()
        self._around: list[tuple[str, Holder]] = []
        _names_around(function, {}, self._around)
        self._objects = [_object_of(*each) for each in self._around]

    def causes(self) -> str:
        """The cause of runs that differ, and the remedy: names that were assigned anew since, if there are any."""
        names = sorted({each[0] for each, before in zip(self._around, self._objects, strict=True) if _object_of(*each) != before})
        if not names:
            return "it draws random numbers, or reads something that changes; let it depend on its arguments alone"
        defaults = ", ".join(f"{name}={name}" for name in names)
        return (
            f"it reads {', '.join(names)}, assigned anew since, as a variable of a for around it is; keep the value by a default argument, "
            f"as in lambda ..., {defaults}: ..."
        )

    def add(self, place: int) -> None:
        if self.on:
            self._now.get(get_ident(), self._expected).add(place)

    def begin(self) -> None:
        """Begin the runs of a sweep in this thread."""
        self._now[get_ident()] = set()

    def end(self, what: str) -> None:
        """End them.

        Raises:
            ReplayError: they did not read all that the first run read.
        """
        if self._expected - self._now.pop(get_ident()):
            raise assigned_anew(what)


Holder: TypeAlias = "CellType | dict[str, Any]"
"""The holder of the object of a name: a cell of a closure, or the names of a module."""


def _names_around(function: Any, seen: dict[int, None], names: list[tuple[str, Holder]]) -> None:
    """Add the names from outside that a user's function, and those that it calls by such names, read, with what holds them."""
    if not isinstance(function, FunctionType) or id(function) in seen:
        return
    seen[id(function)] = None
    code, cells = function.__code__, function.__closure__ or ()
    if not str(function.__module__).startswith(OWN):  # names of this package are none of the user's
        space = function.__globals__
        names += zip(code.co_freevars, cells, strict=True)
        names += [(name, space) for name in _global_names(code) if name in space]
    for each in (*map(_content, cells), *(function.__defaults__ or ())):
        _names_around(each, seen, names)


@lru_cache(maxsize=1024)
def _global_names(code: CodeType) -> tuple[str, ...]:
    return tuple(dict.fromkeys(read.name for read in reads_of(code) if read.kind == "global"))


def _object_of(name: str, holder: Holder) -> int:
    """The number of the object that a name has now."""
    return id(holder.get(name) if isinstance(holder, dict) else _content(holder))


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet
        return None


def assigned_anew(what: str) -> ReplayError:
    return ReplayError(
        f"{what} read something else when it was run again for its derivative, such as a name that was assigned anew after it; give the "
        "result another name, or pass what changes as an argument"
    )


class _Substitution(Interceptor):
    """Puts given values in the place of captured ones. With `watch`, a value that is not known is captured, and held constant."""

    __slots__ = ("captured", "given", "places", "reads", "watch")

    def __init__(self, captured: list[Tracer], given: Sequence[Any], reads: Reads) -> None:
        super().__init__()
        self.captured, self.reads = captured, reads
        self.given = list(given)
        self.places = {id(t): k for k, t in enumerate(captured)}
        self.watch: _Watch | None = None

    def replace(self, tracer: Tracer) -> Any:
        place = self.places.get(id(tracer))
        if place is None:
            if self.watch is None:
                return tracer  # it came in through an argument
            place = self.places[id(tracer)] = len(self.captured)
            self.captured.append(tracer)
            self.given.append(self.watch.mark(bottom(tracer)))
        self.reads.add(place)
        return self.given[place]

    def run(self, function: CoreFunction, args: Cores) -> Cores:
        before = local.interceptor
        local.interceptor = self
        try:
            with running():
                out = function(args)
            return tuple(self.replace(c) if isinstance(c, Tracer) and c.trace.id < self.id else c for c in out)
        finally:
            local.interceptor = before


def discover(function: CoreFunction, args: Cores, reads: Reads) -> tuple[Cores, list[Tracer]]:
    """Run a function on plain values, and find the traced values that it reaches from outside."""
    if local.recording:
        raise UnrecordableError(f"{caller()}: a loop or ds.remat is run, whose sweep compares values")
    captured: list[Tracer] = []
    substitution = _Substitution(captured, (), reads)
    watch = substitution.watch = _Watch()
    try:
        out = substitution.run(function, tuple(watch.mark(bottom(a)) for a in args))
    finally:
        watch.ended = True
    return tuple(map(bottom, out)), captured


def closed(function: CoreFunction, captured: list[Tracer], reads: Reads, what: str) -> Callable[[Cores, Cores], Cores]:
    """The function with the captured values as a second argument. `what`: it, in messages."""

    def run(args: Cores, values: Cores) -> Cores:
        try:
            return _Substitution(captured, values, reads).run(function, args)
        except EndedError as error:  # the first run had none
            raise assigned_anew(what) from error

    return run
