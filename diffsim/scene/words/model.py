"""The base of all parts of a scene's schema: strict, frozen models, and types of numbers and texts."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from diffsim.base.arguments import path_of
from diffsim.base.messages import name_shown, path_shown, shown
from diffsim.errors import ReadOnlyError, SceneError
from diffsim.records.conventions.clock import is_date
from diffsim.scene.words.explain import explained

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

Mask: TypeAlias = npt.NDArray[np.bool_]
"""A choice of cells."""
MOST = 10**15
"""The largest whole number."""
LEAST, GREATEST = 1e-50, 1e50
"""Range of the magnitude of a number, so that products of a few numbers do not overflow."""
LONGEST_NAME = 200
LONGEST_TEXT = 10_000
LONGEST_PATH = 4096


class _Explaining(ModelMetaclass):
    """Turns pydantic's errors of a model's constructor into diffsim's messages. Nested parts are built by pydantic without it."""

    def __call__(self, *arguments: Any, **tables: Any) -> Any:
        if arguments:
            example = f"{self.__name__}({next(iter(cast(type[BaseModel], self).model_fields))}=...)"
            raise SceneError(f"{self.__name__}: expected its tables by name, as in {example}, found {shown(arguments[0])}; name it")
        try:
            return super().__call__(**tables)
        except ValidationError as error:
            raise SceneError(explained(cast(type[BaseModel], self), error)) from None


class Model(BaseModel, metaclass=_Explaining):
    """A part of a scene. It refuses unknown keys and is immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise self._frozen(name)

    def __delattr__(self, name: str) -> NoReturn:
        raise self._frozen(name)

    def _frozen(self, name: str) -> ReadOnlyError:
        kind = type(self).__name__
        return ReadOnlyError(
            f"{kind}.{name_shown(name)}: expected no assignment, for a scene never changes; make another, such as "
            f"{kind}(**{{**dict(old), {name_shown(name)!r}: value}})"
        )


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _texts(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def moderate(number: float) -> float:
    if number and not LEAST <= abs(number) <= GREATEST:
        raise ValueError(f"expected 0 or a size from {LEAST:g} to {GREATEST:g}, found {shown(number)}; correct it")
    return number


def _countable(number: int) -> int:
    if number > MOST:
        raise ValueError(f"expected at most {MOST:g}, found {shown(number)}; lower it")
    return number


def _date(value: object) -> object:
    """A date as text; other values as they are.

    Raises:
        ValueError: a text that is no date.
    """
    if isinstance(value, datetime.date):  # of TOML; a datetime too
        return value.isoformat()
    if isinstance(value, str) and not is_date(value):
        raise ValueError(f"expected a number of seconds or a date such as 2011-03-11T05:46:23Z, found {shown(value)}; write it so")
    return value


def _plain(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"expected text without control characters, found {shown(text)}; remove them")
    return text


def _lines(text: str) -> str:
    _plain(text.replace("\n", " ").replace("\t", " "))
    return text


_NO_FILE = re.compile(r'[/\\:*?"<>|]|^[. ]|[. ]$')
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\..*)?", re.IGNORECASE)
"""Names of devices on Windows, with any suffix."""


def file_name(name: str) -> str:
    """Return a name that is valid for files and folders on every system.

    Raises:
        ValueError: it is a path, hidden, has characters that some system refuses, or is the name of a device on Windows.
    """
    if _DEVICE.fullmatch(name):
        raise ValueError(f"expected a name for a folder, found {shown(name)}, which means a device on Windows; choose another")
    if _NO_FILE.search(_plain(name)):
        raise ValueError(
            f'expected a name for a folder, without / \\ : * ? " < > | and without dots or blanks at its ends, found {shown(name)}; '
            "choose another"
        )
    return name


def whole(name: str, folder: Path | None, below: Path | None) -> str:
    """The full path of a file that a scene names, relative to the scene's folder.

    Raises:
        ValueError: it is not below the folder that may be read.
    """
    own = path_of("path", name)
    path = str(own if folder is None else folder / own)
    if below is None:
        return path
    resolved = Path(path).resolve()
    if not resolved.is_relative_to(below.resolve()):
        raise ValueError(
            f"expected a file below {below} (--read-below), found '{path_shown(Path(name))}'; move the file, or name another folder"
        )
    return str(resolved)  # the file that was checked, even if links change before it is read


Real: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False), AfterValidator(moderate)]
Positive: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0), AfterValidator(moderate)]
NotNegative: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0), AfterValidator(moderate)]
Count: TypeAlias = Annotated[int, Field(strict=True, ge=1), AfterValidator(_countable)]
CountOrNone: TypeAlias = Annotated[int, Field(strict=True, ge=0), AfterValidator(_countable)]
Flag: TypeAlias = Annotated[bool, Field(strict=True)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_plain)]
FileName: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(file_name)]
PathName: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_PATH), AfterValidator(_plain)]
Paths: TypeAlias = Annotated[tuple[PathName, ...], Field(min_length=1), BeforeValidator(_texts)]
"""Files; one may be given without a list."""
Text: TypeAlias = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_lines)]
"""A text of one or more lines."""
Point: TypeAlias = Annotated[tuple[Real, ...], Field(min_length=1, max_length=3)]
"""A place in the grid's units, with an entry for each axis."""
Widths: TypeAlias = Annotated[tuple[Positive, ...], Field(min_length=1, max_length=3), BeforeValidator(_listed)]
"""Lengths: one number for all axes, or one an axis."""
Start: TypeAlias = Annotated[Real | str, BeforeValidator(_date)]
"""A time in s, or a date."""
Reals: TypeAlias = Annotated[tuple[Real, ...], BeforeValidator(_listed)]
"""Numbers; one may be given without a list."""
Frequencies: TypeAlias = Annotated[tuple[Positive, ...], Field(min_length=1), BeforeValidator(_listed)]
"""Frequencies; one may be given without a list."""
CellWidths: TypeAlias = Annotated[tuple[NotNegative, ...], Field(min_length=1, max_length=3), BeforeValidator(_listed)]
"""Numbers of cells: one number for all axes, or one an axis; 0 is allowed."""
