"""The folder of a run: its contents, its owner, and when it may be written to."""

from __future__ import annotations

import glob
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from diffsim.base.messages import reason_shown
from diffsim.checkpoint import KINDS
from diffsim.checkpoint.progress import time_text
from diffsim.checkpoint.storage.aside import ENDING, remove_asides
from diffsim.checkpoint.storage.failure import failure
from diffsim.checkpoint.storage.lock import PathLock
from diffsim.engine import lanes, settings
from diffsim.errors import SceneError
from diffsim.optimize.journal import recorded
from diffsim.scene.disk.files import write_aside
from diffsim.scene.disk.outcome import OUTCOME
from diffsim.scene.disk.source import code_digest
from diffsim.scene.disk.versions import versions
from diffsim.scene.schema.parts import RECEIVER
from diffsim.scene.schema.schema import Description
from diffsim.scene.schema.search_keys import Checkpoint
from diffsim.scene.schema.toml import to_toml

RUN, SCENE, JOURNAL, LAST, LOCK = "run.json", "scene.toml", "journal.bin", "last.npz", "run.lock"
JOURNALS = "journal*.bin"
"""All journals of a run: one for each stage."""
UNCERTAINTY = "uncertainty-*.bin"
"""Products of an uncertainty under way."""
FREE = ("title", "summary", "accept", "certificate", "checkpoint", "uncertainty")
"""Keys that may change when a run is resumed. They do not change a bit of the search (but see `_rounding`)."""

SHORT = 60
"""Most letters of a value that the record of a run has; of a longer one it has a digest."""
DIGEST = "sha256 "
"""The beginning of a digest in place of a value."""
SHOWN = 3
"""Most settings that a message names."""

DECISIVE = ("diffsim", "numpy", "scipy", "matplotlib")
"""Packages that can change bits of the search. Matplotlib has data sets."""
NAMING = ("path", "stations")
"""Keys that name data files."""
LEFT = ("sweep-*", "shots-*", "states-*", UNCERTAINTY)
"""Files that an interrupted gradient or uncertainty leaves."""


@dataclass(frozen=True)
class Identity:
    """The identity of a run.

    Attributes:
        search: digest of all settings that can change bits of the search. A run can be resumed while it is the same.
        whole: digest of these settings and the whole scene.
        settings: these settings by name, as JSON, or a digest where that is long.
    """

    search: str
    whole: str
    settings: Mapping[str, str] = field(default_factory=dict, compare=False)

    def differences(self, other: Identity) -> str:
        """The settings that differ from those of another run, in words."""
        names = sorted({*self.settings, *other.settings})
        differing = [name for name in names if self.settings.get(name) != other.settings.get(name)]
        if not self.settings or not other.settings or not differing:
            return "its settings differ"
        first = [self._difference(name, other) for name in differing[:SHOWN]]
        return ", ".join([*first, f"and {len(differing) - SHOWN} more differ"] if len(differing) > SHOWN else first)

    def _difference(self, name: str, other: Identity) -> str:
        there, here = (settings.get(name, "not set") for settings in (self.settings, other.settings))
        return f"{name} differs" if DIGEST in (there[: len(DIGEST)], here[: len(DIGEST)]) else f"{name} is {there} there and {here} here"


def identify(scene: Description, precision: str) -> Identity:
    """The identity of a run of this scene with the present settings and packages."""
    tables = scene.model_dump(mode="json")
    whole = json.dumps(tables, sort_keys=True)
    decisive = {key: value for key, value in tables.items() if key not in FREE}
    decisive["rounding"] = _rounding(scene.checkpoint)
    decisive["optimise"] = {key: value for key, value in tables["optimise"].items() if key != "iterations"}
    decisive["stage"] = _stages(scene)
    now = settings()
    machine = {"arch": now.arch, "engine": now.engine, "precision": precision, "lanes": lanes(precision_dtype(precision))}
    packages = {f"version of {name}": versions(now.engine)[name] for name in (now.engine, *DECISIVE)}
    settled = _flat({**decisive, **machine, **packages, **_files(tables), **_code(scene)})
    text = json.dumps(settled, sort_keys=True)
    return Identity(_digest(text.encode()), _digest((whole + text).encode()), settled)


def _flat(value: Any, name: str = "") -> dict[str, str]:
    """Name -> JSON of each value inside of tables and lists of tables, or its digest where that is long."""
    if isinstance(value, dict):
        inner = [(f"{name}.{key}" if name else key, each) for key, each in value.items()]
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        inner = [(f"{name}[{number}]", each) for number, each in enumerate(value)]
    else:
        text = json.dumps(value, sort_keys=True)
        return {name: text if len(text) <= SHORT else DIGEST + _digest(text.encode())}
    return {key: text for path, each in inner for key, text in _flat(each, path).items()}


def _code(scene: Description) -> dict[str, str]:
    """Digests of the code of all classes that the scene names."""
    kinds = (kind for _, kind in scene.classes())
    return {f"the code of {kind.__module__}:{kind.__qualname__}": DIGEST + digest for kind in kinds if (digest := code_digest(kind))}


def _stages(scene: Description) -> list[dict[str, Any]]:
    """The stages, without the iterations of the last one, which may be raised."""
    if not scene.stage:
        return []
    stages = [stage.model_dump(mode="json") for stage in scene.stages()]
    del stages[-1]["iterations"]
    return stages


def _rounding(checkpoint: Checkpoint) -> list[str]:
    """The settings of checkpoints that change bits of a gradient. All others do not."""
    kind = KINDS.get(checkpoint.schedule)
    backwards = [checkpoint.schedule] if kind is not None and kind.runs_backwards else []
    return backwards if checkpoint.compression in (None, "lossless") else [*backwards, repr(checkpoint.compression)]


def precision_dtype(precision: str) -> str:
    """NumPy's name of a precision."""
    return "float32" if precision == "f32" else "float64"


def check_folder(folder: Path, identity: Identity, resume: bool) -> None:
    """Refuse a folder that this run may not write to. It writes nothing.

    A folder that holds the same run may be overwritten (with the same bits), and so may one whose run ended before its first evaluation.
    """
    record = folder / RUN
    if folder.exists() and not folder.is_dir():
        raise SceneError(f"--out: expected a folder, found the file {folder}; name another folder")
    if resume and not record.is_file():
        raise SceneError(f"--resume: expected a run in {folder}, found none; leave --resume out, or name its folder by --out")
    held = _read(record) if record.is_file() else None
    if held is not None and (resume or _has_begun(folder)):
        _require_same(folder, held, identity, resume)
        return
    ours = {LOCK} if held is None else {LOCK, RUN, SCENE, *(path.name for path in folder.glob(JOURNALS))}
    if folder.is_dir() and any(path.name not in ours and not path.name.endswith(ENDING) for path in folder.iterdir()):
        raise SceneError(f"--out: expected an empty folder or a run, found other files in {folder}; name another folder")


def _require_same(folder: Path, held: Identity, identity: Identity, resume: bool) -> None:
    """Refuse a folder that holds another run."""
    if resume and held.search != identity.search:
        raise SceneError(
            f"--resume: expected in {folder} a run of this scene, precision and arch, found another; "
            f"{held.differences(identity)}; restore its settings "
            f"({folder / SCENE} has them), its data files and the code of its classes, or start anew in another folder by --out"
        )
    if not resume and held.search == identity.search and held != identity:
        raise SceneError(
            f"--out: found in {folder} this search with other iterations (or names); --resume goes on from it, "
            "or name another folder by --out"
        )
    if not resume and held != identity:
        raise SceneError(
            f"--out: expected an empty folder or this same run, found another run in {folder}; {held.differences(identity)}; "
            "name another folder, or remove it"
        )


def _has_begun(folder: Path) -> bool:
    """True if a run in a folder has a first evaluation, or a part of one. A run that was refused before has nothing to lose."""
    some = any(path for pattern in (LAST, OUTCOME, *LEFT) for path in folder.glob(pattern))
    return some or any(recorded(path)[0] for path in folder.glob(JOURNALS))


def what_starts_anew(folder: Path) -> str | None:
    """A line about the fate of the same run in a folder if it is not resumed; None: there is no such run."""
    if not (folder / RUN).is_file():
        return None
    journals = [recorded(path) for path in folder.glob(JOURNALS)]
    count, seconds = sum(number for number, _ in journals), sum(taken for _, taken in journals)
    if _finished(folder, count):
        return f"{folder} holds this run, finished; running it again, and its results stay until the new ones take their place"
    if not count and not (folder / LAST).is_file():
        return None
    done = f"{count} evaluation{'' if count == 1 else 's'} ({time_text(seconds)})"
    return (
        f"{folder} holds this run, interrupted after {done}; starting anew, which deletes them when the search begins: "
        "stop now (Ctrl-C) and give --resume to go on with it"
    )


def _finished(folder: Path, evaluations: int) -> bool:
    """True if the results in a folder belong to its journal. After a finished run was started again and killed, they are older."""
    try:
        last = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))["history"][-1]
        return evaluations >= last["evaluations"] + last.get("products", 0)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False


def start_anew(folder: Path) -> None:
    """Delete the progress of an earlier run."""
    for path in (folder / LAST, *(path for pattern in (JOURNALS, *LEFT) for path in folder.glob(pattern))):
        path.unlink(missing_ok=True)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock the folder for this process, and create it if necessary. A created folder that stays empty is removed.

    Raises:
        StorageError: another process runs in it, or it cannot be created or written to.
    """
    new = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise failure(folder, "making the folder of the run", error) from error
    try:
        with PathLock(folder / LOCK, f"the folder {folder}", "wait until it has ended, or name another folder by --out"):
            remove_asides(folder)
            yield
    finally:
        for parent in new:
            with suppress(OSError):  # it is not empty
                parent.rmdir()


def journal_of(folder: Path, stage: int) -> Path:
    """The journal of a stage, counted from 1."""
    return folder / (JOURNAL if stage == 1 else f"journal-{stage}.bin")


def claim_folder(folder: Path, scene: Description, identity: Identity) -> None:
    """Claim the folder for this run. Files of the same run stay until they are replaced."""
    # the record first: it marks the folder as this run's before other files are written
    write_aside(folder / RUN, json.dumps(asdict(identity), indent=1).encode())
    write_aside(folder / SCENE, to_toml(scene).encode())


def _read(record: Path) -> Identity:
    try:
        entry = json.loads(record.read_text(encoding="utf-8"))
        if isinstance(entry, dict) and all(isinstance(entry.get(name), str) for name in ("search", "whole")):
            settled = entry.get("settings")
            known = settled if isinstance(settled, dict) and all(isinstance(value, str) for value in settled.values()) else {}
            return Identity(entry["search"], entry["whole"], known)
        what = "something else"
    except (OSError, ValueError, RecursionError) as error:
        what = f"none that can be read ({reason_shown(error)})"
    raise SceneError(f"--out: expected the record of a run in {record}, found {what}; name another folder")


def _files(value: Any) -> dict[str, str]:
    """Digests of all data files that a scene names."""
    if not isinstance(value, dict | list):
        return {}
    files: dict[str, str] = {}
    if isinstance(value, dict):
        named = [name for key in NAMING for name in (value[key] if isinstance(value.get(key), list) else [value.get(key)])]
        texts = [text for name in named if isinstance(name, str) for text in _each_receiver(name)]
        files = {f"the file {path}": DIGEST + _file_digest(path) for path in map(Path, texts) if path.is_file()}
    for part in value.values() if isinstance(value, dict) else value:
        files |= _files(part)
    return files


def _each_receiver(path: str) -> list[str]:
    """The files that a path with `{receiver}` stands for."""
    if RECEIVER not in path:
        return [path]
    return sorted(glob.glob("*".join(map(glob.escape, path.split(RECEIVER)))))


def _file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise failure(path, "reading the data file", error) from error
    return digest.hexdigest()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
