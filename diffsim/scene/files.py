"""Files of a run, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from diffsim.checkpoint.storage.aside import written_aside


def write_aside(path: Path, content: bytes) -> None:
    """Write to a neighbouring file, wait until it is on disk, and rename it to `path`.

    Raises:
        StorageError: it cannot be written; names the file, the room that it needs and that there is.
    """
    with written_aside(path, "writing the file", len(content)) as file:
        file.write(content)
