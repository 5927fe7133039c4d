"""Files that are complete or absent, even if the process is killed or the power fails."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from diffsim.base.system import sync_folder
from diffsim.checkpoint.storage.failure import failure

ENDING = ".part"


@contextmanager
def written_aside(path: Path, what: str, needed: int) -> Iterator[BinaryIO]:
    """A new file that replaces `path` at the end of the block, after it is on disk. After an error the old file remains.

    Args:
        path: path of the file. The folder must exist.
        what: the activity, for messages, such as "writing the results".
        needed: size of the file in bytes.

    Raises:
        StorageError: the system cannot write it.
    """
    aside = aside_name(path)
    try:
        with aside.open("xb") as file:  # never writes to an existing name, such as a link
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
    """A name in the same folder as `path` that no other process writes to."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}{ENDING}")


def remove_asides(folder: Path, name: str = "*") -> None:
    """Delete the incomplete files that killed processes left for this name. No process may be writing one."""
    for left in folder.glob(f".{name}.*{ENDING}"):
        left.unlink(missing_ok=True)
