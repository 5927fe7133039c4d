"""Write files of a run completely or not at all."""

from __future__ import annotations

from pathlib import Path

from diffsim.checkpoint.storage.aside import written_aside


def write_aside(path: Path, content: bytes) -> None:
    """Write to a neighbouring file, wait until it is on disk, and rename it to `path`.

    Raises:
        StorageError: it cannot be written. The message names the file, the needed space and the free space.
    """
    with written_aside(path, "writing the file", len(content)) as file:
        file.write(content)
