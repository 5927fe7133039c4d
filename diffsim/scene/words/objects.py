"""Objects that Python code gives in the place of a class: a part of a scene with the state that it has."""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Any

from diffsim.base.messages import reason_shown, shown
from diffsim.errors import SceneError

NAMED = re.compile(r".+ object [0-9a-f]{12}", re.DOTALL)
"""The name of an object in a scene: that of its class, and of its state."""
DIGITS = 12
"""Digits of the state in the name."""


@dataclass(frozen=True)
class PartObject:
    """An object, compared by its state.

    Attributes:
        value: the object.
        digest: of its pickled bytes, by which a resumed run knows it again.
    """

    value: Any = field(compare=False)
    digest: str

    @classmethod
    def of(cls, value: Any, key: str) -> PartObject:
        """The object of a part.

        Args:
            value: the object.
            key: key of the part in the scene.

        Raises:
            SceneError: it cannot be pickled.
        """
        try:
            content = pickle.dumps(value, protocol=pickle.DEFAULT_PROTOCOL)
        except Exception as error:  # the code of a user may raise anything
            what = reason_shown(error)
            raise SceneError(
                f"{key}.type: expected an object that can be pickled, by which a resumed run knows it again, found {shown(value)} "
                f"({what}); define its class at the top of a module and leave out by __getstate__ parts that "
                "cannot be pickled, or give a class"
            ) from None
        return cls(value, hashlib.sha256(content).hexdigest())

    def name(self, kind: str) -> str:
        """Its name in a scene.

        Args:
            kind: the name of its class.
        """
        return f"{kind} object {self.digest[:DIGITS]}"


def is_object(name: str) -> bool:
    """True if a name in a scene is that of an object."""
    return NAMED.fullmatch(name) is not None


def call_arguments(kind: type) -> Mapping[str, Parameter]:
    """The arguments by name that objects of a class are called with, after the first one; none if they cannot be called."""
    if not any("__call__" in vars(each) for each in kind.__mro__):
        return {}
    _itself, *rest = signature(kind.__call__).parameters.items()
    return {name: argument for name, argument in rest[1:] if argument.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)}


def require_call(kind: type, given: Collection[str]) -> None:
    """Refuse a class whose objects have to be called with more than a scene gives."""
    for name, argument in call_arguments(kind).items():
        if name not in given and argument.default is Parameter.empty:
            raise SceneError(
                f"type: expected an object of {kind.__name__} that is called with arguments of {', '.join(given)}, found {name}; "
                "give it a default, or let the object hold it"
            )
