"""Read arrays from untrusted NumPy files: the header is checked before memory is allocated."""

from __future__ import annotations

import contextlib
import io
import math
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from diffsim.base.messages import cut, name_shown, path_shown, printable, reason_shown
from diffsim.errors import DataError
from diffsim.records.conventions.clock import seconds_of
from diffsim.records.conventions.packing import numbers
from diffsim.records.conventions.variables import Labels, Variable, Variables, dated, listed, require_room

MAGIC, ARCHIVE = b"\x93NUMPY", b"PK"
PIECE = 1 << 20
UNREADABLE = (
    *(OSError, ValueError, TypeError, SyntaxError, EOFError, NotImplementedError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
"""Errors of NumPy and zipfile for damaged files. RuntimeError means an archive with a password, or brackets too deep in a header."""


Accept: TypeAlias = Callable[[str, tuple[int, ...], bool], tuple[int, ...]]
"""(file, shape in its header, whether it is in Fortran order) -> the shape to read, with fewer entries along the first axis at most.

It raises `DataError` for a shape that does not fit."""


class MemberError(DataError):
    """An archive that has no array of that name."""


def any_shape(where: str, shape: tuple[int, ...], fortran: bool) -> tuple[int, ...]:
    """Accept every shape that fits into memory."""
    require_room(shape, where)
    return shape


def load_array(path: Path, member: str | None, accept: Accept = any_shape, kinds: str = "iuf") -> npt.NDArray[np.generic]:
    """Read the array of a `.npy` file, or a named array of a `.npz` file.

    Args:
        path: the file.
        member: the name.
        accept: checks the shape.
        kinds: letters of NumPy for the kinds of numbers that are accepted.

    Raises:
        MemberError: there is no such array in the archive.
        DataError: the file cannot be read, or holds no numbers of an accepted shape.
    """
    where = path_shown(path)
    with _opened(path) as file:
        if _is_archive(file):
            with zipfile.ZipFile(file) as archive, _member(archive, member, where) as inner:
                return _read(inner, where, accept, kinds)
        if member not in (None, "values"):
            raise MemberError(f"expected no name for {where}, which holds one array, found {name_shown(member)}; drop it")
        return _read(file, where, accept, kinds)


class NumpyFile(Variables):
    """The arrays of a `.npz` file, or that of a `.npy` file, which has the name "values"."""

    @classmethod
    def open(cls, path: Path) -> NumpyFile:
        """Read the names."""
        with _opened(path) as file:
            if not _is_archive(file):
                return cls(path, ("values",))
            with zipfile.ZipFile(file) as archive:
                return cls(path, tuple(name.removesuffix(".npy") for name in archive.namelist()))

    def read(self, name: str) -> Variable:
        """The array of that name; dates, and differences of dates, as seconds."""
        values, what = load_array(self.path, name, kinds="iufmM"), f"{self.where}, {name_shown(name)}"
        axes = ("",) * values.ndim
        if values.dtype.kind == "M":
            return dated(values, axes, what, (name,))
        if values.dtype.kind == "m":
            return Variable(seconds_of(values, what), "s", axes, typed=True)
        return Variable(numbers(values, what), "", axes)

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape of an array, from its header; None: its file is damaged, or it is none of numbers."""
        shapes: list[tuple[int, ...]] = []

        def no_row(where: str, shape: tuple[int, ...], fortran: bool) -> tuple[int, ...]:
            shapes.append(shape)
            return shape and (0, *shape[1:])

        with contextlib.suppress(DataError):
            load_array(self.path, name, no_row, "iufmM")
        return shapes[0] if shapes else None

    def labels(self, name: str) -> Labels | None:
        """The texts of an array."""
        try:
            return Labels.of(load_array(self.path, name, kinds="SU"), ("",))
        except DataError:  # numbers
            return None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file; errors of NumPy and zipfile become a `DataError`."""
    where = path_shown(path)
    try:
        if not path.is_file():
            if path.exists():
                raise DataError(f"expected a NumPy file, found {where}, which is no regular file; correct the path")
            raise DataError(f"expected a NumPy file, found no {where}; correct the path (in a scene it starts at the scene's folder)")
        with path.open("rb") as file:
            yield file
    except DataError:
        raise
    except UNREADABLE as error:
        what = reason_shown(error)
        raise DataError(f"expected a NumPy file of numbers, found {where}, unreadable ({what}); save it by numpy.save") from None


def _is_archive(file: BinaryIO) -> bool:
    begin = file.read(len(MAGIC))
    file.seek(0)
    return begin.startswith(ARCHIVE)


@contextlib.contextmanager
def _member(archive: zipfile.ZipFile, member: str | None, where: str) -> Iterator[BinaryIO]:
    names = archive.namelist()
    inside = f"{member}.npy" if f"{member}.npy" in names else member
    if member is None or inside not in names:
        every, sought = listed([name.removesuffix(".npy") for name in names]), "none" if member is None else name_shown(member)
        raise MemberError(f"expected one of the arrays {every} in {where}, found {sought}; name one")
    with archive.open(inside) as inner:
        yield cast(BinaryIO, inner)


def _read(file: BinaryIO, where: str, accept: Accept, kinds: str) -> npt.NDArray[np.generic]:
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise DataError(f"expected a NumPy file of format 1 to 3, found {version[0]}.{version[1]} in {where}; save it by numpy.save")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # headers that Python 2 wrote
        stored, fortran, dtype = npy.read_array_header_1_0(file) if version == (1, 0) else npy.read_array_header_2_0(file)
    if dtype.kind not in kinds:
        raise DataError(f"expected numbers in {where}, found dtype {cut(printable(str(dtype)))}; save it as float64")
    shape = accept(where, stored, fortran)
    content, left = io.BytesIO(), math.prod(shape) * dtype.itemsize
    while left:  # piece by piece: a truncated file takes no more memory than its size
        piece = file.read(min(left, PIECE))
        if not piece:
            raise DataError(f"expected {math.prod(shape)} numbers in {where}, found the file cut off; save it again")
        content.write(piece)
        left -= len(piece)
    return np.frombuffer(content.getbuffer(), dtype).reshape(shape, order="F" if fortran else "C")
