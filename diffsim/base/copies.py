"""Copying and pickling of functions that diffsim returns: they are rebuilt from their arguments, or refused with a message."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any, NoReturn, ParamSpec, SupportsIndex

P = ParamSpec("P")
Function = Callable[..., Any]


class Remade:
    """A function built by a public function. Its pickle contains the arguments that built it. Like any function, it is its own copy.

    Args:
        function: the function to call.
        make: the public function that built it.
        args: arguments of `make`.
        kwargs: keyword arguments of `make`.
    """

    def __init__(self, function: Function, make: Function, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        self._function, self._made = function, (make, args, kwargs)
        functools.update_wrapper(self, function)

    @property
    def made_of(self) -> list[object]:
        """The arguments that built it."""
        return [*self._made[1], *self._made[2].values()]

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self._function(*args, **kwargs)

    def __get__(self, thing: object, kind: type | None = None) -> Remade | MethodType:
        return self if thing is None else MethodType(self, thing)

    def __repr__(self) -> str:
        make, args, _ = self._made
        parts = (repr(a)[1:-1] if isinstance(a, Remade) else getattr(a, "__name__", repr(a)) for a in args[:1])
        return f"<{make.__name__} of {', '.join(parts)}>"

    def __copy__(self) -> Remade:
        return self

    def __deepcopy__(self, memo: object) -> Remade:
        return self

    def __reduce__(self) -> tuple[Function, tuple[Function, tuple[object, ...], Mapping[str, object]]]:
        make, args, kwargs = self._made
        return _make, (make, args, kwargs)


def _make(make: Function, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Any:
    return make(*args, **kwargs)


def remade(make: Callable[P, Function]) -> Callable[P, Function]:
    """Decorate a public function that returns functions: its results can be pickled if its arguments can."""

    @functools.wraps(make)
    def making(*args: P.args, **kwargs: P.kwargs) -> Function:
        return Remade(make(*args, **kwargs), making, args, kwargs)

    return making


class Bound:
    """A function that refers to objects in the memory of a process. It is its own copy, and cannot be pickled.

    Args:
        function: the function to call.
        name: name of the function, for messages.
        instead: the objects it refers to, and the parts to pickle in its place.
    """

    def __init__(self, function: Function, name: str, instead: str) -> None:
        self._function, self._name, self._instead = function, name, instead

    def __call__(self, *args: object) -> Any:
        return self._function(*args)

    def __repr__(self) -> str:
        return f"<{self._name}>"

    def __copy__(self) -> Bound:
        return self

    def __deepcopy__(self, memo: object) -> Bound:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"{self._name} cannot be pickled: it refers to {self._instead}")
