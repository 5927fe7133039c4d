"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_aside(path: Path, content: bytes) -> None:
    """Write to a neighbouring file, wait until it is on disk, and rename it to `path`."""
    aside = path.with_name(f".{path.name}.part")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
