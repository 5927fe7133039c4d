"""Functions with the traced values that they reach from outside made into arguments.

The body of a checkpointed loop is run again in the reverse sweep. Traced values that it takes from around it must be told apart
from its own: an interceptor sees each operation on a value of an earlier trace and puts another in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from diffsim.ad.core import Interceptor, Tracer, bottom, local, running
from diffsim.ad.leaves import Cores

CoreFunction = Callable[[Cores], Cores]
"""From core values to core values. It may be run again."""


class _Substitution(Interceptor):
    """Puts given values in the place of captured ones. With `grow`, a value that is not known is captured, and held constant."""

    __slots__ = ("captured", "given", "grow", "places")

    def __init__(self, captured: list[Tracer], given: Sequence[Any], grow: bool) -> None:
        super().__init__()
        self.captured = captured
        self.given = list(given)
        self.places = {id(t): k for k, t in enumerate(captured)}
        self.grow = grow

    def replace(self, tracer: Tracer) -> Any:
        place = self.places.get(id(tracer))
        if place is None:
            if not self.grow:
                return tracer  # it came in through an argument
            place = self.places[id(tracer)] = len(self.captured)
            self.captured.append(tracer)
            self.given.append(bottom(tracer))
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


def discover(function: CoreFunction, args: Cores) -> tuple[Cores, list[Tracer]]:
    """Run a function on plain values, and find the traced values that it reaches from outside."""
    captured: list[Tracer] = []
    return _Substitution(captured, (), grow=True).run(function, tuple(map(bottom, args))), captured


def closed(function: CoreFunction, captured: list[Tracer]) -> Callable[[Cores, Cores], Cores]:
    """The function with the captured values as a second argument."""

    def run(args: Cores, values: Cores) -> Cores:
        return _Substitution(captured, values, grow=False).run(function, args)

    return run
