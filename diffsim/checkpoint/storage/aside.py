"""Files that are there whole or not at all, whenever the process is killed or the power fails."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from diffsim.checkpoint.storage.failure import failure
from diffsim.system import sync_folder

ENDING = ".part"


@contextmanager
def written_aside(path: Path, what: str, needed: int) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` at the end of the block, once it is on disk; after an error the old one is still there.

    Args:
        path: where it goes; the folder must exist.
        what: is written, for messages, such as "writing the results".
        needed: bytes that it will have.

    Raises:
        StorageError: the system cannot write it.
    """
    aside = aside_name(path)
    try:
        with aside.open("xb") as file:  # a name that is taken, by a link perhaps, is not written to
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        sync_folder(path.parent)
    except OSError as error:
        raise failure(path, what, error, needed) from error
    finally:
        aside.unlink(missing_ok=True)


def aside_name(path: Path) -> Path:
    """A name beside `path` that no other process writes to."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}{ENDING}")


def remove_asides(folder: Path, name: str = "*") -> None:
    """Delete what processes that were killed left of files of this name; no process may be writing one."""
    for left in folder.glob(f".{name}.*{ENDING}"):
        left.unlink(missing_ok=True)
