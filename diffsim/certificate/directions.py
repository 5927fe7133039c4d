"""Directions of changes of a simulation's inputs: of sensible size, and within the admissible range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import mapping, real_array
from diffsim.base.messages import shown
from diffsim.base.quantities import ANYTHING, Meaning
from diffsim.errors import ParameterError, ShapeError
from diffsim.simulation.prepared.groups import Groups
from diffsim.typing import Array

Directions: TypeAlias = int | Mapping[str, npt.ArrayLike] | Sequence[Mapping[str, npt.ArrayLike]]
"""The number of random directions, or one or several given ones: input -> change."""
Scale: TypeAlias = float | Mapping[str, npt.ArrayLike] | None
Bounds: TypeAlias = Mapping[str, tuple[npt.ArrayLike | None, npt.ArrayLike | None]] | None

SHARE = 0.1
"""Largest change of an input relative to its size, if no scale is given."""
NOTHING = 1e-12
"""An entry this much smaller than the largest of its field is 0 except for round-off. A change by its size would have no effect."""


def of_components(groups: Groups, directions: Directions, scale: Scale, bounds: Bounds) -> tuple[Directions, Scale, Bounds]:
    """Directions, scale and bounds by the names of fields: those of a vector are its components', one each or one for all of them."""
    scale = groups.shared("scale of", scale) if isinstance(scale, Mapping) else scale
    if isinstance(bounds, Mapping):
        pairs = {name: pair for name, pair in bounds.items() if name in groups.parts and isinstance(pair, Sequence) and len(pair) == 2}
        least, most = (groups.shared("bound of", {name: pair[end] for name, pair in pairs.items()}) for end in (0, 1))
        bounds = {name: pair for name, pair in bounds.items() if name not in pairs} | {name: (least[name], most[name]) for name in least}
    if isinstance(directions, Mapping):
        return groups.apart("direction of", directions), scale, bounds
    if isinstance(directions, (list, tuple)):
        directions = [groups.apart("direction of", one) if isinstance(one, Mapping) else one for one in directions]
    return directions, scale, bounds


@dataclass(frozen=True)
class Moves:
    """A change of inputs; h = 1 is the largest.

    Attributes:
        fields: input -> change.
        back: whether the opposite change is admissible too.
    """

    fields: Mapping[str, Array]
    back: bool = True


class Chooser:
    """Chooses directions at a point.

    Args:
        point: the inputs that are changed.
        scale: typical size of a change, a number or by name; None: a tenth of each entry, and 1 for inputs that are 0 everywhere.
        bounds: input -> least and greatest value; None: none.
        rng: of random numbers.
        meanings: input -> its unit and dimensions, for changes, scales and bounds that state theirs.

    Raises:
        ParameterError: a scale that is not positive, a name that is none of the inputs, or a point outside of the bounds.
        ShapeError: a scale or bound that does not broadcast to its input.
    """

    def __init__(
        self,
        point: Mapping[str, Array],
        scale: Scale,
        bounds: Bounds,
        rng: np.random.Generator,
        meanings: Mapping[str, Meaning] | None = None,
    ) -> None:
        self.point, self.rng = point, rng
        self._meanings = dict.fromkeys(point, ANYTHING) | dict(meanings or {})
        self._changes = {name: replace(meaning, difference=True) for name, meaning in self._meanings.items()}
        scales = dict.fromkeys(point, scale) if isinstance(scale, (int, float)) else _named("scale", scale, point, "{'h': 1e-3}")
        self.scale = {
            name: _scale(name, value, point[name].shape, self._changes[name]) for name, value in scales.items() if value is not None
        }
        pairs = _named("bounds", bounds, point, "{'h': (0, None)}")
        self.room = {name: _room(name, value, point[name], self._meanings[name]) for name, value in pairs.items()}

    def sizes(self, name: str) -> Array:
        """The typical change of each entry of an input."""
        if name in self.scale:
            return self.scale[name]
        values = np.abs(self.point[name])
        return SHARE * values if np.any(values) else np.ones_like(values)

    def random(self, name: str) -> Array:
        """A random change of an input."""
        return self.rng.standard_normal(self.point[name].shape) * self.sizes(name)

    def anywhere(self) -> Moves:
        """A random change of every input."""
        return self._within({name: self.random(name) for name in self.point})

    def one(self, name: str) -> Moves:
        """A random change of one input."""
        return self._within({name: self.random(name)})

    def at_edge(self, name: str, gradient: Array) -> Moves:
        """A change of the outermost entry with the largest gradient, by its own size, or by 1 if it is 0 relative to the others."""
        values = self.point[name]
        border = np.ones(values.shape, bool)
        border[tuple(slice(1, -1) for _ in values.shape)] = False
        where = np.unravel_index(int(np.argmax(np.where(border, np.abs(gradient), -1.0))), values.shape)
        out = np.zeros(values.shape)
        size = float(self.sizes(name)[where])
        nothing = name not in self.scale and abs(float(values[where])) <= NOTHING * np.abs(values).max()
        out[where] = SHARE if nothing else size
        return self._within({name: out})

    def own(self, given: Mapping[str, npt.ArrayLike], label: str) -> Moves:
        """A direction of the user's, as long as the scales allow."""
        named = _named(label, given, self.point, "{'h': dh}")
        fields = {name: real_array(f"{label}, {name}", value, np.float64, self._changes[name]) for name, value in named.items()}
        for name, field in fields.items():
            if field.shape != self.point[name].shape:
                raise ShapeError(
                    f"{label}, {name}: expected shape {self.point[name].shape}, that of the input, got {field.shape}; reshape it"
                )
            if not np.isfinite(field).all():
                raise ParameterError(f"{label}, {name}: expected finite numbers, got others; correct it")
        largest = {name: float(np.abs(field).max(initial=0.0)) for name, field in fields.items()}
        if not any(largest.values()):
            raise ParameterError(f"{label}: expected a change of an input, got zeros; give one that is not zero")
        factor = min(self._typical(name, size) / size for name, size in largest.items() if size)
        return self._within({name: factor * field for name, field in fields.items()})

    def _typical(self, name: str, size: float) -> float:
        """The largest change of an input: `size` itself if nothing else is known."""
        if name in self.scale:
            return float(self.scale[name].max())
        return SHARE * float(np.abs(self.point[name]).max()) or size

    def _within(self, fields: dict[str, Array]) -> Moves:
        """The change, each entry no longer than the way to the nearer bound; one that is at a bound everywhere points inwards."""
        out, back = {}, True
        for name, field in fields.items():
            out[name] = field
            if name not in self.room:
                continue
            down, up = self.room[name]
            near = np.minimum(down, up)
            out[name] = np.clip(field, -near, near)
            if np.any(field) and not np.any(out[name]):
                out[name] = np.where(up >= down, np.minimum(np.abs(field), up), -np.minimum(np.abs(field), down))
                back = False
        return Moves(out, back)


def _named(what: str, given: Any, point: Mapping[str, Array], like: str) -> dict[str, Any]:
    """A mapping whose keys are inputs."""
    if given is None:
        return {}
    entries = dict(mapping(what, given, like))
    unknown = sorted(set(entries) - set(point))
    if unknown:
        raise ParameterError(f"{what} names {', '.join(unknown)}, expected some of the inputs {', '.join(point)}; correct the name")
    return entries


def _broadcast(what: str, value: Any, shape: tuple[int, ...], meaning: Meaning) -> Array:
    array = real_array(what, value, np.float64, meaning)
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ShapeError(f"{what}: expected a number or a shape that broadcasts to {shape}, got {array.shape}; reshape it") from None


def _scale(name: str, value: Any, shape: tuple[int, ...], meaning: Meaning) -> Array:
    scale = _broadcast(f"scale of {name}", value, shape, meaning)
    if not np.all(np.isfinite(scale) & (scale > 0)):
        raise ParameterError(f"scale of {name} = {shown(value)}, expected finite numbers > 0; give the size of a typical change")
    return scale


def _room(name: str, value: Any, values: Array, meaning: Meaning) -> tuple[Array, Array]:
    """The distance of each entry from its least and from its greatest value."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ParameterError(f"bounds of {name} = {shown(value)}, expected a pair of least and greatest value; write it like (0, None)")
    low, high = (
        _broadcast(f"bounds of {name}", end if side is None else side, values.shape, meaning)
        for side, end in zip(value, (-np.inf, np.inf), strict=True)
    )
    if not np.all((low <= values) & (values <= high)):
        raise ParameterError(f"bounds of {name}: expected inputs within them, got one outside; move the point or widen the bounds")
    return values - low, high - values
