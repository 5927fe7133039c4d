"""The keys of a misfit in a scene: those that all have, and the arguments of its class."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union

from pydantic import Discriminator, SerializeAsAny, ValidationInfo, ValidatorFunctionWrapHandler, WrapValidator, model_validator

import diffsim.losses  # noqa: F401  # its misfits enter themselves
from diffsim.errors import SceneError
from diffsim.losses.data_misfit import KINDS
from diffsim.scene.words.model import Flag, Model, Name, NotNegative, Positive, Real
from diffsim.scene.words.objects import call_arguments, is_object, require_call
from diffsim.scene.words.options import arguments_of, options_of
from diffsim.scene.words.own import Family
from diffsim.scene.words.typed import TypedModel, each_of, keys_made, numbered

MISFITS = Family("a misfit", "diffsim.misfits", KINDS, methods=("__call__",))
"""The misfits that scenes name by a word."""
GIVEN = ("data", "weight", "mask", "dt", "normalise", "unit")
"""Arguments that the scene gives: the data of a shot, their weights, where they count, and the time between samples. A scene normalises
over all shots, so it takes no class's own `normalise`. Its data have the unit of the state, so it takes no `unit`."""


class Moveout(Model):
    """A line in time and offset, t = time + offset / velocity.

    Attributes:
        time (s): of the line at the source.
        velocity (m/s): of the line.
    """

    time: Real
    velocity: Positive


class MisfitModel(TypedModel):
    """A misfit of predictions and data, over all shots.

    Attributes:
        type: which of the [types](#types-of-misfits), or [one of your own](#a-misfit-of-your-own).
        of: records at `[receivers.STATE]`, all time steps and the start; or the field after the last step.
        state: of which state.
        weight: its weight.
        normalise: divide by the misfit of a prediction of zero, so that this would have the misfit 1. Data that are all zero need `false`.
            "receivers": each record is divided by the root of its own sum of squares first, so weak and short records count as much as
            strong and long ones. Then it counts by the mean of its weights.
        window (s): first and last time that count; none: all times.
        offset (m): least and greatest distance of a receiver from the nearest source of its shot; none: all receivers.
        mute_before: samples before this line in time and offset do not count.
        mute_after: samples after this line do not count.
        taper (s): length of the cosine with which window and mutes set in. Good: a period.
    """

    type: str = "l2"
    of: Literal["traces", "final"]
    state: Name
    weight: NotNegative = 1.0
    normalise: Flag | Literal["receivers"] = True
    window: tuple[Real, Real] | None = None
    offset: tuple[NotNegative, NotNegative] | None = None
    mute_before: Moveout | None = None
    mute_after: Moveout | None = None
    taper: NotNegative = 0.0

    @model_validator(mode="after")
    def _fits(self) -> MisfitModel:
        for name in ("window", "offset"):
            pair = getattr(self, name)
            if pair is not None and pair[0] >= pair[1]:
                raise ValueError(f"expected a {name} that rises, found [{pair[0]:g}, {pair[1]:g}]; exchange or widen it")
        if self.taper and not self.timed:
            raise ValueError("expected taper together with window, mute_before or mute_after, found it alone; add one, or drop taper")
        if self.of == "final" and (self.timed or self.offset is not None):
            raise ValueError('expected window, offset and mutes with of = "traces", found them with "final"; drop them')
        if self.of == "final" and self.normalise == "receivers":
            raise ValueError('expected normalise = "receivers" with of = "traces", found it with "final"; choose true or false')
        return self

    @property
    def timed(self) -> bool:
        """True if some times do not count."""
        return not (self.window is None and self.mute_before is None and self.mute_after is None)


@cache
def model_of(name: str, kind: type) -> type[MisfitModel]:
    """The model of a misfit's keys.

    Raises:
        SceneError: a scene cannot build it.
    """
    if is_object(name):
        return _model_of_object(name, kind)
    if "data" not in arguments_of(kind):
        raise SceneError(f"expected a constructor of {kind.__name__} with the argument data, found none; add it")
    options = options_of(kind, GIVEN, {*dir(MisfitModel), *MisfitModel.model_fields}, "type: ")
    return keys_made(MisfitModel, name, kind, MISFITS, options)


def _model_of_object(name: str, kind: type) -> type[MisfitModel]:
    """The model of the keys of a misfit that is an object."""
    if "data" not in call_arguments(kind):
        instead = f"give {kind.__name__} itself, or a functools.partial of it" if "data" in arguments_of(kind) else "let __call__ take data"
        raise SceneError(
            "type: expected an object that is called with predictions and data, for a scene has the data of each shot, found one of "
            f"{kind.__name__}, which is called without data; {instead}"
        )
    require_call(kind, GIVEN)
    return keys_made(MisfitModel, name, kind, MISFITS, {})


MisfitModel.model_of = model_of


def _validated(given: Any, inner: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    if not isinstance(given, (list, tuple)) or not given:
        return inner(given)
    return tuple(each_of(given, info, numbered(given, "misfit"), MISFITS, MisfitModel))


if TYPE_CHECKING:
    Misfits: TypeAlias = tuple[MisfitModel, ...]
else:
    AnyMisfit = Annotated[Union[tuple(model_of(*each) for each in MISFITS.packaged.items())], Discriminator("type")]  # noqa: UP007
    Misfits = Annotated[tuple[SerializeAsAny[AnyMisfit], ...], WrapValidator(_validated)]
