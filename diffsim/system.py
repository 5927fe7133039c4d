"""What depends on the system: memory, processes, disks."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil


def available_memory() -> int:
    """Bytes that this process may still allocate without swapping."""
    return int(psutil.virtual_memory().available)


def process_alive(pid: int) -> bool:
    """Whether there is a process of this number."""
    return bool(psutil.pid_exists(pid))


def free_disk(path: Path) -> int:
    """Bytes that may still be written to the disk of a file or folder, which need not be there yet."""
    here = path.absolute()
    while not here.exists():
        here = here.parent
    return shutil.disk_usage(here).free
