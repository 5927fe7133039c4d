"""The fields of a system of equations, as a user writes them: one, a vector or a tensor, or several of these in a tuple or a dict."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diffsim.base import arguments
from diffsim.base.messages import shown
from diffsim.errors import ShapeError, TraceError
from diffsim.expr.components import Components
from diffsim.expr.symbol import Symbol
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.grouped import apart
from diffsim.stepping.trace.stages import placed, require_same, trace_of


@dataclass(frozen=True)
class Unknowns:
    """Fields that are solved for together, and the form in which a user writes them.

    Attributes:
        values: an expression or a group for each name.
        form: "one" for one value, "tuple" or "dict" for several.
        what: the function that solves, for messages.
    """

    values: dict[str, Symbol | Components]
    form: str
    what: str

    @classmethod
    def of(cls, value: Any, function: Callable[..., Any], name: str, what: str) -> Unknowns:
        """The unknowns that an argument `name` of `what` stands for. Those of a tuple have the names of the function's arguments.

        Raises:
            ParameterError: it is no expression, nor several.
            TraceError: they are no expressions of the step.
        """
        form = "dict" if isinstance(value, Mapping) else "tuple" if isinstance(value, (tuple, list)) else "one"
        if form == "one" and not isinstance(value, Components):
            arguments.instance(name, value, Symbol, "an expression of the step", "give one")
        several = [*value] if form == "tuple" else [value]
        values = dict(value) if form == "dict" else dict(zip(_names(function, several), several, strict=True))
        if not values or any(not isinstance(each, (Symbol, Components)) for each in values.values()):
            raise TraceError(f"{name} = {shown(value)} of {what}(), expected expressions of the step; give one for each unknown field")
        if any(not isinstance(key, str) for key in values):
            raise TraceError(
                f"{name} of {what}() has the keys {', '.join(map(shown, values))}, expected names of the fields; take text, as 'u'"
            )
        unknowns = cls(values, form, what)
        counts = Counter(each for each, _ in unknowns._named())
        if twice := [each for each, count in counts.items() if count > 1]:
            raise TraceError(
                f"{name} of {what}() has {', '.join(twice)} twice, alone and in a vector, expected it once; rename one of them"
            )
        first, *_ = fields = [*unknowns.fields.values()]
        trace_of(first, f"{what}()")
        require_same(fields)
        return unknowns

    @property
    def fields(self) -> dict[str, Symbol]:
        """All fields, the components of groups by their own names."""
        return dict(self._named())

    def _named(self) -> Iterator[tuple[str, Symbol]]:
        for name, value in self.values.items():
            if isinstance(value, Components):
                yield from ((value.layout.name(name, *key), part) for key, part in value.parts.items())
            else:
                yield name, value

    def joined(self, fields: Sequence[Symbol]) -> Any:
        """Other fields in the same form."""
        left = list(fields)
        values: dict[str, Any] = {}
        for name, value in self.values.items():
            if isinstance(value, Components):
                values[name] = Components(value.layout, {key: left.pop(0) for key in value.parts})
            else:
                values[name] = left.pop(0)
        if self.form == "dict":
            return values
        each = tuple(values.values())
        return each if self.form == "tuple" else each[0]

    def called(self, function: Callable[..., Any]) -> Callable[[Sequence[Symbol]], list[Any]]:
        """A user's function of the unknowns as one from fields to the results for these, in their order."""

        whose = f"the function of {self.what}()"
        arguments.require_takes(whose, function, *{"dict": ("fields",), "one": ("x",)}.get(self.form, tuple(self.values)))

        def of_fields(fields: Sequence[Symbol]) -> list[Any]:
            values = self.joined(fields)
            if self.form == "dict":
                values = arguments.FieldsByName(whose, values)
            return self._apart(function(*values) if self.form == "tuple" else function(values))

        return of_fields

    def _apart(self, result: Any) -> list[Any]:
        names = ", ".join(self.values)
        if self.form == "dict":
            if not isinstance(result, Mapping) or set(result) != set(self.values):
                got = f"a dict of {', '.join(map(str, result))}" if isinstance(result, Mapping) else f"a {type(result).__name__}"
                raise TraceError(f"the function of {self.what}() gave {got}, expected a dict of {names}; give an expression for each")
            results = {name: result[name] for name in self.values}
        elif self.form == "tuple":
            if not isinstance(result, (tuple, list)) or len(result) != len(self.values):
                got = f"{len(result)} results" if isinstance(result, (tuple, list)) else f"a {type(result).__name__}"
                raise TraceError(
                    f"the function of {self.what}() gave {got}, expected {len(self.values)} expressions, of {names}; return a tuple of them"
                )
            results = dict(zip(self.values, result, strict=True))
        else:
            results = dict.fromkeys(self.values, result)
        groups = {name: value.layout for name, value in self.values.items() if isinstance(value, Components)}
        return [*apart(results, groups, f"the function of {self.what}")[0].values()]

    def placed(self, boundary: Any) -> list[Placed]:
        """The location and the rules of each field. `boundary`: as in `diffsim.solve`; None: the rules of the fields themselves."""
        each = self._boundaries(boundary)
        out = []
        for field, own in zip(self.fields.values(), each, strict=True):
            location = placed(field)
            try:
                rules = trace_of(field, f"{self.what}()").bound(field if own is None else own, location)
            except ShapeError as error:
                if self.form == "one" or own is not boundary or not isinstance(boundary, tuple):
                    raise
                names = ", ".join(self.values)
                example = f", {shown([*boundary])}" if len(boundary) == len(self.values) else ""
                remedy = "a dict with these keys" if self.form == "dict" else f"a list{example}"
                raise ShapeError(f"{error}. A tuple has an entry for each axis; for a rule for each of {names} write {remedy}") from None
            out.append(Placed(location, rules))
        return out

    def _boundaries(self, boundary: Any) -> list[Any]:
        names = ", ".join(self.values)
        several = isinstance(boundary, list) or (isinstance(boundary, tuple) and any(isinstance(b, (Symbol, Components)) for b in boundary))
        if self.form == "dict" and isinstance(boundary, Mapping):
            if set(boundary) != set(self.values):
                raise TraceError(
                    f"boundary of {self.what}() for {', '.join(map(str, boundary))}, expected one for each of {names}; give these"
                )
            values = [boundary[name] for name in self.values]
        elif isinstance(boundary, Mapping):
            listed = f" or a list with one for each of {names}" if self.form == "tuple" else ""
            raise TraceError(f"boundary of {self.what}() is a dict, expected a rule{listed}; write that")
        elif self.form != "one" and several:
            if len(boundary) != len(self.values):
                raise TraceError(
                    f"boundary of {self.what}() has {len(boundary)} entries, expected {len(self.values)}, for {names}; give one for each"
                )
            values = list(boundary)
        else:
            values = [boundary] * len(self.values)
        out: list[Any] = []
        for value, own in zip(self.values.values(), values, strict=True):
            if not isinstance(value, Components):
                out.append(own)
            else:
                whose = own.over(value.layout.axes) if isinstance(own, Components) else None
                out += [own if whose is None else whose.parts[key] for key in value.parts]
        return out


def _names(function: Callable[..., Any], values: Sequence[Any]) -> list[str]:
    """Names of the unknowns in a tuple: those of the function's arguments, if it has as many."""
    try:
        names = [
            name
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        names = []
    return names if len(names) == len(values) else [f"unknown {number}" for number in range(len(values))]
