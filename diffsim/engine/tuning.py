"""The width of registers that `diffsim tune` measured to be fastest on this computer, kept in a file of the user."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from diffsim.base.system import REGISTERS, processor_name
from diffsim.engine.cache import cache_folder
from diffsim.errors import BackendError

VARIABLE = "DIFFSIM_TUNING"
"""Environment variable with the path of the file. Empty: there is none."""


@dataclass(frozen=True)
class Tuned:
    """The measurement for one engine on one processor.

    Attributes:
        register_bytes: width of registers that kernels are written for.
        date: of the measurement, as YYYY-MM-DD.
    """

    register_bytes: int
    date: str


def tuning_file() -> Path | None:
    """The file: DIFFSIM_TUNING, or tuning.json in the folder of diffsim's caches (`cache_folder`); None if there is no such folder."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    folder = cache_folder()
    return None if folder is None else folder.path / "tuning.json"


def tuned(engine: str) -> Tuned | None:
    """The measurement for an engine, of its installed version, on this processor; None: nothing, or it cannot be read."""
    entries = _entries()
    entry = entries.get(_key(engine)) if entries else None
    if isinstance(entry, dict) and entry.get("register_bytes") in REGISTERS:
        return Tuned(entry["register_bytes"], str(entry.get("date", "")))
    return None


def keep(engine: str, best: Tuned | None) -> Path | None:
    """Write the measurement, or remove it. Entries of other engines and processors stay. Returns the file, if there is one.

    Raises:
        BackendError: the file cannot be written.
    """
    path = tuning_file()
    if path is None:
        return None
    entries = _entries()
    if entries.pop(_key(engine), None) is None and best is None:
        return path
    if best is not None:
        entries[_key(engine)] = asdict(best)
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise BackendError(
            f"expected to keep the measurement in {path}, got {error.strerror or error}; set {VARIABLE} to a file that can be written"
        ) from error
    return path


def _entries() -> dict[str, object]:
    path = tuning_file()
    with contextlib.suppress(OSError, ValueError):
        entries = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
        return entries if isinstance(entries, dict) else {}
    return {}


def _key(engine: str) -> str:
    try:
        version = metadata.version(engine)
    except metadata.PackageNotFoundError:
        version = ""
    return f"{processor_name()}, {engine} {version}"
