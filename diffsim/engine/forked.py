"""Objects that a forked process gets by pickle: it cannot build them, and says so when they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from diffsim.engine.session import refuse_forked
from diffsim.errors import BackendError

T = TypeVar("T", bound="Rebuilt")


class Rebuilt:
    """An object that pickle builds anew from its parts, by means of the engine.

    In a process that was forked after the engine started it cannot be built. An error while a worker of a pool unpickles its task ends the
    worker, and `multiprocessing.Pool` starts the next one, for ever. So there it is an object of the same class without parts, and any use
    of it raises. The worker sends this error to its parent.
    """

    @classmethod
    def _rebuilt(cls: type[T], build: Callable[..., T], parts: tuple[Any, ...]) -> T:
        """The object that `build` makes of the parts; pickle calls this."""
        try:
            return build(*parts)
        except BackendError:
            if not _is_forked():
                raise
        empty = cls.__new__(cls)
        empty.__dict__["_parts"] = build, parts
        return empty

    def _reduced(self, build: Callable[..., Any], parts: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """The value of `__reduce__` for these parts."""
        return type(self)._rebuilt, self.__dict__.get("_parts") or (build, parts())

    if not TYPE_CHECKING:  # else every attribute would be known to type checkers

        def __getattr__(self, name: str) -> Any:
            if "_parts" in self.__dict__ and not name.startswith("__"):
                refuse_forked()
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


def _is_forked() -> bool:
    try:
        refuse_forked()
    except BackendError:
        return True
    return False
