"""Read arrays from untrusted NumPy files: the header is compared with the expected shape before memory is allocated."""

from __future__ import annotations

import contextlib
import io
import math
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.lib import format as npy

from diffsim.errors import DiffsimError
from diffsim.scene.shown import cut, name_shown, path_shown, printable
from diffsim.typing import Array

MAGIC, ARCHIVE = b"\x93NUMPY", b"PK"
PIECE = 1 << 20
NAMES = 10
"""Most names of an archive in a message."""
UNREADABLE = (
    *(OSError, ValueError, TypeError, SyntaxError, EOFError, NotImplementedError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
"""Errors of NumPy and zipfile for damaged files. RuntimeError means an archive with a password, or brackets too deep in a header."""


class ArrayError(DiffsimError, ValueError):
    """A file that does not contain the expected array."""


class MemberError(ArrayError):
    """An archive that has no array of that name."""


def load_array(path: Path, member: str | None, shape: tuple[int, ...], longer: bool = False) -> Array:
    """Read the array of a `.npy` file, or a named array of a `.npz` file.

    Args:
        path: the file.
        member: the name.
        shape: the expected shape.
        longer: accept more entries along the first axis. They are not read.

    Raises:
        MemberError: there is no such array in the archive.
        ArrayError: the file cannot be read, or holds no numbers of that shape.
    """
    where = path_shown(path)
    try:
        if not path.is_file():
            if path.exists():
                raise ArrayError(f"expected a NumPy file, found {where}, which is no regular file; correct the path")
            raise ArrayError(f"expected a NumPy file, found no {where}; correct the path (it starts at the scene's folder)")
        with path.open("rb") as file:
            begin = file.read(len(MAGIC))
            file.seek(0)
            if begin.startswith(ARCHIVE):
                with _member(file, member, where) as inner:
                    return _read(inner, where, shape, longer)
            return _read(file, where, shape, longer)
    except ArrayError:
        raise
    except UNREADABLE as error:
        what = cut(printable(str(error)) or type(error).__name__, 200)
        raise ArrayError(f"expected a NumPy file of numbers, found {where}, unreadable ({what}); save it by numpy.save") from None


@contextlib.contextmanager
def _member(file: BinaryIO, member: str | None, where: str) -> Iterator[BinaryIO]:
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        inside = f"{member}.npy" if f"{member}.npy" in names else member
        if member is None or inside not in names:
            known = [name_shown(name.removesuffix(".npy")) for name in names[:NAMES]] + ["..."] * (len(names) > NAMES)
            found = "none" if member is None else name_shown(member)
            raise MemberError(f"expected one of the arrays {', '.join(known) or '(none)'} in {where}, found {found}; name one")
        with archive.open(cast(str, inside)) as inner:
            yield cast(BinaryIO, inner)


def _read(file: BinaryIO, where: str, shape: tuple[int, ...], longer: bool) -> Array:
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ArrayError(f"expected a NumPy file of format 1 to 3, found {version[0]}.{version[1]} in {where}; save it by numpy.save")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # headers that Python 2 wrote
        found, fortran, dtype = npy.read_array_header_1_0(file) if version == (1, 0) else npy.read_array_header_2_0(file)
    if dtype.kind not in "iuf":
        raise ArrayError(f"expected numbers in {where}, found dtype {cut(printable(str(dtype)))}; save it as float64")
    more = longer and len(found) == len(shape) and found[0] > shape[0] and found[1:] == shape[1:]
    if found != shape and not more:
        claimed = cut(str(tuple(int(n) for n in found)) if max(map(abs, found), default=0) < 10**18 else f"{len(found)} axes")
        if longer:
            raise ArrayError(f"expected the shape {shape}, or more time steps, in {where}, found {claimed}; give a value for each step")
        raise ArrayError(f"expected the grid's shape {shape} in {where}, found {claimed}; resample it, or change grid.shape")
    if more and fortran and len(shape) > 1:
        raise ArrayError(f"expected C order in {where}, found Fortran order; save numpy.ascontiguousarray(...) of it")
    content, left = io.BytesIO(), math.prod(shape) * dtype.itemsize
    while left:  # piece by piece: a truncated file takes no more memory than its size
        piece = file.read(min(left, PIECE))
        if not piece:
            raise ArrayError(f"expected {math.prod(shape)} numbers in {where}, found the file cut off; save it again")
        content.write(piece)
        left -= len(piece)
    return np.frombuffer(content.getbuffer(), dtype).reshape(shape, order="F" if fortran else "C")
