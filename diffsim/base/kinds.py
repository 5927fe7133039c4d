"""Classes with names: each names its kind where it is defined, and a registry finds it by that name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from diffsim.base.messages import shown
from diffsim.base.misspelt import NOWHERE, is_packaged, warn_of_misspelt
from diffsim.errors import ParameterError

Base = TypeVar("Base")
FIELDS = "__dataclass_fields__"


class Kinds(Mapping[str, type[Base]], Generic[Base]):
    """Name of a kind -> its class, in the order of definition. It is read-only: classes enter themselves.

    Args:
        what: what the classes are, for errors, such as "schedule".
        taken: names that mean something else.
        elsewhere: names that are no attributes of the classes, which a user may take for some -> where they belong.
    """

    def __init__(self, what: str, taken: tuple[str, ...] = (), elsewhere: Mapping[str, str] = NOWHERE) -> None:
        self._what, self._taken, self._elsewhere = what, taken, elsewhere
        self._classes: dict[str, type[Base]] = {}

    def __getitem__(self, kind: str) -> type[Base]:
        return self._classes[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{kind!r}: {cls.__name__}' for kind, cls in self.items())}}}"

    def enter(self, cls: type[Base], kind: str | None) -> None:
        """Enter a class, for the `__init_subclass__` of its base.

        A class replaces an earlier one of the same qualified name in the same module: a notebook may define it twice.

        Args:
            cls: a new class.
            kind: its name; None: it has none.

        Raises:
            ParameterError: the name is no identifier, means something else, or is that of another class.
        """
        warn_of_misspelt(cls, self._elsewhere)
        before = next((name for name, other in self.items() if _definition(other) == _definition(cls)), None)
        if kind is None and (fields := vars(cls).get(FIELDS)) is not None:
            # dataclass(slots=True) makes its class a second time, with the attributes of the first and without its keywords
            kind = before = next((name for name, other in self.items() if vars(other).get(FIELDS) is fields), None)
        if kind is not None and (not isinstance(kind, str) or not kind.isidentifier() or kind in self._taken):
            taken = "".join(f", other than {name!r}" for name in self._taken)
            raise ParameterError(
                f"kind = {shown(kind)} of {cls.__name__}, expected a name of letters, digits and underscores{taken}; choose another"
            )
        if kind is not None and kind in self and kind != before:
            # a class of diffsim keeps its name, though its module may be imported last
            cls, other = sorted((cls, self[kind]), key=is_packaged)
            module, name = _definition(other)
            raise ParameterError(
                f"kind = {shown(kind)} of {cls.__name__}, expected a name that no other {self._what} has, got that of {name} in {module}; "
                "choose another"
            )
        if before is not None:
            del self._classes[before]
        if kind is not None:
            self._classes[kind] = cls


def _definition(cls: type) -> tuple[str, str]:
    """The module of a class, and its name there."""
    return cls.__module__, cls.__qualname__
