"""Small results that other processes use, in files beside the engine's compiled kernels. Where it keeps no kernels, nothing is written."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
import zlib
from pathlib import Path

from diffsim.engine.engines import present
from diffsim.engine.session import settings

MOST = 4096
"""Files of one kind. When there are more, the older half is removed."""


def load_result(kind: str, name: str) -> object:
    """A result as `store_result` wrote it, made of lists, dictionaries, numbers and texts; None: there is none, or it cannot be read."""
    folder = _folder(kind)
    if folder is None:
        return None
    with contextlib.suppress(OSError, ValueError):
        check, _, text = (folder / f"{name}.json").read_bytes().partition(b"\n")
        return json.loads(text) if check == _check(text) else None
    return None


def store_result(kind: str, name: str, value: object) -> None:
    """Write a result for other processes and threads, which see it whole or not at all. A folder that cannot be written stays as it is."""
    folder = _folder(kind)
    if folder is None:
        return
    aside, text = folder / f"{name}.{uuid.uuid4().hex}", json.dumps(value).encode()
    try:
        folder.mkdir(exist_ok=True)
        aside.write_bytes(_check(text) + b"\n" + text)
        aside.replace(folder / f"{name}.json")
        _remove_old(folder)
    except OSError:
        with contextlib.suppress(OSError):
            aside.unlink()


def _check(text: bytes) -> bytes:
    """The first line of a file, a checksum of the rest. A file whose rest differs is ignored."""
    return b"%08x" % zlib.crc32(text)


def _folder(kind: str) -> Path | None:
    """The folder of a kind of results; None: the engine keeps no kernels."""
    settings()  # starts an engine
    kernels = present().kept_kernels
    return kernels and kernels / f"diffsim-{kind}"


def _remove_old(folder: Path) -> None:
    files = [*os.scandir(folder)]
    if len(files) <= MOST:
        return
    ages: list[tuple[float, str]] = []
    for file in files:
        with contextlib.suppress(OSError):  # another process or thread may have removed it
            ages.append((file.stat().st_mtime, file.path))
    for _, path in sorted(ages)[: len(files) // 2]:
        with contextlib.suppress(OSError):
            os.unlink(path)
