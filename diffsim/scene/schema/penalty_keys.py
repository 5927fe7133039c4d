"""The keys of a penalty in a scene: those that all have, and the arguments of its class."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union

import numpy as np
from pydantic import Discriminator, SerializeAsAny, ValidationInfo, ValidatorFunctionWrapHandler, WrapValidator

from diffsim.base.arguments import require_takes
from diffsim.errors import ParameterError
from diffsim.losses.regularise import KINDS, Regulariser
from diffsim.scene.words.model import Mask, Name, NotNegative, Widths
from diffsim.scene.words.number import one_number
from diffsim.scene.words.objects import call_arguments, is_object, require_call
from diffsim.scene.words.options import arguments_of, options_of
from diffsim.scene.words.own import Family
from diffsim.scene.words.typed import TypedModel, each_of, keys_made, numbered
from diffsim.typing import Array

PENALTIES = Family("a penalty", "diffsim.penalties", KINDS, methods=("__call__",))
"""The penalties that scenes name by a word."""
GIVEN = ("weight", "spacing", "reference", "mask")
"""Arguments that the scene gives: the weight, the distance of cells in units of `length`, the start of the search, the free cells."""


class PenaltyModel(TypedModel):
    """A penalty of an unknown.

    Attributes:
        unknown: which unknown.
        of: what is penalised: the "field", or the "variables" of the optimiser, theta, such as the slips of faults over their scale, which
            count from those of the start.
        weight (1/penalty): its weight; in 1/field² for "tikhonov", in 1/field for "total_variation".
        length (m): the penalty compares values this far apart, in seconds along time; nothing is compared by a "tikhonov" of order 0. Good:
            the size of resolved structures.
        epsilon (field): changes over `length` well below it are penalised quadratically. Good: a hundredth of the jumps to be expected.
    """

    unknown: Name
    of: Literal["field", "variables"] = "field"
    weight: NotNegative

    def built(self, start: Array, free: Mask, steps: tuple[float, ...]) -> Regulariser:
        """The penalty. One whose class takes a spacing is an integral over cells, of which this is the mean over the free ones.

        Args:
            start: start of the search.
            free: cells that may change.
            steps: distance of cells along each axis, m, or s along time.

        Raises:
            ParameterError: `length` has another number of entries than there are axes.
        """
        arguments: dict[str, Any] = {"reference": start, "mask": free}
        weight = self.weight
        if self.takes("spacing"):
            arguments["spacing"] = _in_lengths(steps, getattr(self, "length"))  # noqa: B009  # a key of classes with a spacing
            weight /= np.count_nonzero(free) * prod(arguments["spacing"])
        if self.takes("weight"):
            arguments["weight"] = weight
        penalty: Regulariser = self.instance(**arguments)
        require_takes(f"{self.of_class.__name__}.__call__", penalty, "field")
        return penalty if self.takes("weight") else Weighted(penalty, weight)


@dataclass(frozen=True)
class Weighted:
    """A penalty times a weight."""

    penalty: Regulariser
    weight: float

    def __call__(self, field: Any) -> Any:
        return self.weight * one_number(self.penalty(field))


def _in_lengths(steps: tuple[float, ...], length: tuple[float, ...]) -> list[float]:
    if len(length) not in (1, len(steps)):
        raise ParameterError(f"length: expected one number, or {len(steps)}, one an axis, got {len(length)}; add or drop some")
    per_axis = length * len(steps) if len(length) == 1 else length
    return [h / each for h, each in zip(steps, per_axis, strict=True)]


@cache
def model_of(name: str, kind: type) -> type[PenaltyModel]:
    """The model of a penalty's keys.

    Raises:
        SceneError: a scene cannot build it.
    """
    if is_object(name):
        require_call(kind, GIVEN)
        options, arguments = {}, call_arguments(kind)
    else:
        options = options_of(kind, GIVEN, {*dir(PenaltyModel), *PenaltyModel.model_fields, "length"}, "type: ")
        arguments = arguments_of(kind)
    later = {"length": (Widths, (1.0,))} if "spacing" in arguments else {}
    return keys_made(PenaltyModel, name, kind, PENALTIES, options, **later)


PenaltyModel.model_of = model_of


def _validated(given: Any, inner: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    if not isinstance(given, (list, tuple)):
        return inner(given)
    return tuple(each_of(given, info, numbered(given, "penalty"), PENALTIES, PenaltyModel))


if TYPE_CHECKING:
    Penalties: TypeAlias = tuple[PenaltyModel, ...]
else:
    AnyPenalty = Annotated[Union[tuple(model_of(*each) for each in PENALTIES.packaged.items())], Discriminator("type")]  # noqa: UP007
    Penalties = Annotated[tuple[SerializeAsAny[AnyPenalty], ...], WrapValidator(_validated)]
