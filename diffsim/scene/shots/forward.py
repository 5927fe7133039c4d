"""The forward problem of a scene: a setup, and the inputs that a search does not change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from diffsim.scene.setup.setup import Setup
from diffsim.scene.shots.together import Group, Grouping
from diffsim.typing import Array


@dataclass(frozen=True, eq=False)
class Forward:
    """All that a run of a shot needs except the unknown fields.

    Its pickle has no kernels and no records. Whoever loads it compiles a simulation of its own.

    Attributes:
        setup: equation, shots and receivers.
        known: inputs that do not change, over the cells.
        together: the most shots that run together.
    """

    setup: Setup
    known: Mapping[str, Array]
    together: int = 1

    @cached_property
    def _divided(self) -> Grouping:
        return Grouping(self.setup, self.together)

    def groups(self, shots: Sequence[int]) -> Iterator[Group]:
        """Groups of these shots, which run together, in their order."""
        return self._divided.groups(shots)

    def inputs(self, fields: Mapping[str, Array]) -> dict[str, Array]:
        """All inputs, with these fields for the unknowns."""
        return {**self.known, **fields}

    def prepared(self, fields: Mapping[str, Array], shots: Sequence[int]) -> Iterator[tuple[int, dict[str, Array]]]:
        """For each of these shots: move the sources there, and yield its number and the inputs of the simulation."""
        return zip(shots, self.setup.prepared(self.inputs(fields), shots), strict=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return Forward, (replace(self.setup, data={}), self.known, self.together)
