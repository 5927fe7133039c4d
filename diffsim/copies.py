"""Functions that diffsim returns, as `copy` and `pickle` see them: made again from what they were made of, or said not to be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, NoReturn, ParamSpec

P = ParamSpec("P")
Function = Callable[..., Any]


class Remade:
    """A function made of others. Pickled it is what it was made of; its copies are itself, as those of functions are.

    Args:
        function: what it does.
        make: a public function that made it.
        args: of `make`.
        kwargs: of `make`.
    """

    def __init__(self, function: Function, make: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._function, self._made = function, (make, args, kwargs)
        functools.update_wrapper(self, function)

    @property
    def made_of(self) -> list[Any]:
        """The arguments that it was made of."""
        return [*self._made[1], *self._made[2].values()]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __get__(self, thing: Any, kind: Any = None) -> Any:
        return self if thing is None else MethodType(self, thing)

    def __repr__(self) -> str:
        make, args, _ = self._made
        return f"<{make.__name__} of {', '.join(getattr(a, '__name__', repr(a)) for a in args[:1])}>"

    def __copy__(self) -> Remade:
        return self

    def __deepcopy__(self, memo: Any) -> Remade:
        return self

    def __reduce__(self) -> Any:
        make, args, kwargs = self._made
        return _make, (make, args, kwargs)


def _make(make: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return make(*args, **kwargs)


def remade(make: Callable[P, Function]) -> Callable[P, Function]:
    """For a public function that makes functions: what it makes can be pickled if its arguments can."""

    @functools.wraps(make)
    def making(*args: P.args, **kwargs: P.kwargs) -> Function:
        return Remade(make(*args, **kwargs), making, args, kwargs)

    return making


class Bound:
    """A function that refers to what a process has in its memory. Its copies are itself, and it cannot be pickled.

    Args:
        function: what it does.
        name: of the function, in messages.
        instead: what to pickle in its place.
    """

    def __init__(self, function: Function, name: str, instead: str) -> None:
        self._function, self._name, self._instead = function, name, instead

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)

    def __repr__(self) -> str:
        return f"<{self._name}>"

    def __copy__(self) -> Bound:
        return self

    def __deepcopy__(self, memo: Any) -> Bound:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"{self._name} cannot be pickled: it refers to {self._instead}")
