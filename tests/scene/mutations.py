"""Scenes that are mangled at random, and the truth about each: it is accepted, or refused with one message of diffsim's.

As a program: python -m tests.scene.mutations COUNT SEED FOLDER: checks COUNT scenes under a limit on memory, and prints the broken ones.
"""

from __future__ import annotations

import copy
import io
import json
import os
import random
import resource
import sys
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import diffsim as ds
from diffsim.base.messages import LONGEST_MESSAGE, message_shown
from diffsim.errors import DiffsimError
from diffsim.scene import Scene
from diffsim.scene.disk.folder import identify
from diffsim.scene.search.assemble import assemble
from diffsim.scene.shots.truth import prepared, true_fields
from tests.scene.tiny import ACOUSTIC, DRIVEN, HEAT, WAVE

BASES = (ACOUSTIC, HEAT, WAVE, DRIVEN)
ROOM = 3 << 30
"""Bytes beyond the size of the process, which nothing may take."""
SECONDS = 10.0
"""That a scene may take."""
FOREIGN = ("Input should", "validation error", "pydantic", "valid dictionary", "Tuple should", "Traceback", "object has no attribute")
"""Words that are not diffsim's."""


class Raw(str):
    """TOML as it is."""


VALUES: list[Any] = [
    *(0, -1, 1, 2, 3, 10**6, 10**10, 10**12, 10**15, 2**63, 10**18, 10**30, 10**400, -(10**12)),
    *(0.0, -0.0, 0.5, -1.5, 1e-300, 5e-324, 1e300, 1e308, -1e308, float("nan"), float("inf"), float("-inf"), 1e9, 3.7),
    *(
        "",
        "x",
        "auto",
        "no such thing",
        "\0",
        "a\0b",
        "line\nbreak",
        "\x1b[31mred",
        "\x7f",
        "\u202ereversed",
        "../../../evil",
        "/etc/passwd",
    ),
    *(
        "/etc/passwd",
        "~",
        "../../../evil",
        "C:\\evil",
        ".",
        "..",
        " ",
        "x" * 10_000,
        "µ" * 300,
        "9" * 500 + " GB",
        "1e400 GB",
        "-4 GB",
        "0 B",
        "4 GB",
    ),
    *(True, False, [], {}, [[]], [{}], [0], [1, 2, 3, 4], [0] * 2000, ["a", 1], {"a": 1}, {"type": "acoustic"}, [float("nan")] * 2),
    *(Raw("1979-05-27T07:32:00Z"), Raw("07:32:00"), Raw("9" * 5000), Raw("0x" + "f" * 5000), Raw("1e5000"), Raw("[" * 60 + "]" * 60)),
    *(Raw("[" * 2000 + "]" * 2000), Raw("{a = " * 50 + "1" + "}" * 50)),
    *(
        "mirror",
        "periodic",
        "dirichlet",
        "miror",
        "lamp",
        "T",
        "kappa",
        "t",
        "n",
        "time",
        "q",
        ["time"],
        ["x"],
        ["time", "time"],
        ["y", "x"],
    ),
    *({"x": "periodic"}, {"x": ["periodic", "mirror"]}, {"z": "zero", "x": []}, ["mirror", "mirror"], {"x": ["mirror"] * 3}),
    *({"type": "dirichlet", "value": "lamp"}, {"type": "neumann", "flux": "c", "varies": []}, {"type": "outflow", "speed": 1e9}),
    *({"type": "robin", "a": 1.0, "b": -1.0, "value": 0.0}, {"type": "extrapolate", "order": 3}, {"type": "dirichlet", "value": 1e50}),
    *({"wavelet": {"type": "pulse", "delay": 1.0, "width": 0.1}}, {"layers": {"axis": "time", "tops": [0.1], "values": [1.0, 2.0]}}),
]
KEYS = ["x", "tpye", "steps", "constant", "a b", "a.b", "a\nb", "\0", "\x1b[2J", "k" * 5000, "", "ключ", "..", "T", "c", "f", "p"]


def toml(value: Any) -> str:
    """A value as TOML, in which everything gets through."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in nested tables and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in items for place in ((*path, key), *places(inner, (*path, key)))]


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def full(base: dict[str, Any]) -> dict[str, Any]:
    """A scene in which keys that are left out at other times have a value, so that they are mangled too."""
    whole = copy.deepcopy(base)
    whole["checkpoint"] = {"schedule": "auto", "verify": True, "resume": 1.0}
    whole["certificate"] = {"steps": 4, "directions": 3}
    whole["optimise"] = {"method": "L-BFGS-B", "iterations": 3, "tolerance": 1e-9}
    if "eta" in whole.get("receivers", {}):
        whole["data"] = {"eta": {"path": ["gauges.csv"], "unit": "cm", "time_unit": "s", "start": 0.0, "deviation": 1.0, "allow": ["zero"]}}
    name = next(iter(whole["unknowns"]))
    whole["unknowns"][name] |= {"smooth": 0.0, "scale": 1.0, "mask": {"margin": 0}}
    return whole


def hostile_files(folder: Path) -> list[str]:
    """Data files that claim, hide or lack something; their names."""
    good = np.full((16, 15), 2000.0)
    np.save(folder / "good.npy", good)
    np.savez(folder / "two.npz", a=good, b=good)
    np.save(folder / "series.npy", np.ones(14))
    np.save(folder / "longer.npy", np.ones((40, 6)))
    rows = [f"{t},{t % 7},{t % 5},{t % 3}" for t in range(61)]
    (folder / "gauges.csv").write_text("\n".join(["time,a,b,c", *rows]))
    (folder / "lost.csv").write_text("\n".join(["time,receiver,value", *(f"{t},{'ab'[t % 2]}," for t in range(61))]))
    content = (folder / "good.npy").read_bytes()
    (folder / "short.npy").write_bytes(content[:-8])
    (folder / "head.npy").write_bytes(content[:20])
    (folder / "empty.npy").touch()
    for kind in ("npy", "npz", "h5", "nc", "csv", "sgy", "tif", "asc"):
        (folder / f"noise.{kind}").write_bytes(random.Random(1).randbytes(5000))
    (folder / "old.npy").write_bytes(content[:6] + b"\x09\x00" + content[8:])
    for number, (shape, descr) in enumerate(
        [((10**6, 10**6), "<f8"), ((16, 15), "|O"), ((16, 15), "|V999999999"), ((-16, -15), "<f8"), ((16, 15), "<c16"), ((10**30,), "<f8")]
    ):
        with (folder / f"claim{number}.npy").open("wb") as file:
            header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
            file.write(b"\x93NUMPY\x01\x00" + len(header.ljust(118)).to_bytes(2, "little") + header.ljust(117).encode() + b"\n")
    with (folder / "deep.npy").open("wb") as file:
        header = "[" * 9000
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", content[: -good.nbytes] + bytes(200_000_000))
        archive.writestr("huge.npy", (folder / "claim0.npy").read_bytes() + bytes(100_000_000))
        for number in range(2000):
            archive.writestr(f"\x1b[31m{number}" + "x" * 50, b"")
    (folder / "bomb.npz").write_bytes(bomb.getvalue())
    (folder / "cut.npz").write_bytes((folder / "two.npz").read_bytes()[:-30])
    broken = bytearray((folder / "two.npz").read_bytes())
    broken[200] ^= 255
    (folder / "broken.npz").write_bytes(broken)
    os.mkfifo(folder / "pipe.npy")
    (folder / "folder.npy").mkdir()
    os.symlink("/dev/zero", folder / "endless.npy")
    return [*sorted(path.name for path in folder.iterdir()), "no.npy", "a\0b.npy", "x" * 5000, "../" * 50 + "etc/passwd"]


def mangled(rng: random.Random, files: list[str]) -> bytes:
    """A scene that something, or several things, happened to."""
    data = full(rng.choice(BASES))
    for _ in range(rng.choice((1, 1, 1, 1, 2, 5))):
        path = rng.choice(places(data))
        holder, key = at(data, path[:-1]), path[-1]
        match rng.choice(("value", "value", "value", "value", "drop", "unknown", "wrap", "list", "file", "records", "swap", "rename")):
            case "value":
                holder[key] = copy.deepcopy(rng.choice(VALUES))
            case "drop":
                del holder[key]
            case "unknown" if isinstance(holder, dict):
                holder[rng.choice(KEYS)] = copy.deepcopy(rng.choice(VALUES))
            case "wrap":
                holder[key] = copy.deepcopy(rng.choice(([holder[key]], {"x": holder[key]}, [holder[key]] * 50)))
            case "list" if isinstance(holder[key], list):
                holder[key] = holder[key] * rng.choice((2, 500))
            case "file":
                name = next(iter(data.get("unknowns") or {"c": 0})) if isinstance(data.get("unknowns"), dict) else "c"
                part = {"path": rng.choice(files), "key": rng.choice(("a", "huge", "no", "a\0b"))}
                if rng.random() < 0.5:
                    del part["key"]
                data["unknowns"] = {name: {"start": {"file": part}}}
            case "records":
                data["data"] = {
                    rng.choice(("eta", "p", "T")): {"path": rng.choice(files), "dt": 0.1, "allow": ["short", "zero", "clipped"]}
                }
            case "swap":
                holder[key] = copy.deepcopy(at(data, rng.choice(places(data))))
            case "rename" if isinstance(holder, dict):
                holder[rng.choice(KEYS)] = holder.pop(key)
        if not places(data):
            break
    text = "\n".join(f"{json.dumps(k)} = {toml(v)}" for k, v in data.items()).encode()
    if rng.random() < 0.1:  # and its text besides
        spot = rng.randrange(len(text) + 1)
        inserted = [text[:spot] + more + text[spot:] for more in (b"\0", b"\xff\xfe")]
        text = rng.choice((text[:spot], *inserted, text * 2, b"a." * 5000 + b"b = 1"))
    return text


def examine(path: Path) -> str | None:
    """Load a scene, and check it as before a run; the message if it is refused.

    Raises:
        AssertionError: the message is not one, or not ours.
    """
    try:
        scene = Scene.load(path)
        assert Path("runs", scene.name).resolve().parent == Path("runs").resolve(), scene.name
        problem = assemble(scene, "f64")
        identify(scene, "f64")
        true_fields(scene, problem.setup)
        if scene.truth is not None:
            prepared(scene, problem.setup)
        return None
    except DiffsimError as error:
        message = str(error)
    assert message and len(message) <= LONGEST_MESSAGE, f"{len(message)} characters: {message[:300]}"
    assert message == message_shown(message), f"control characters: {message!r}"
    assert not any(word in message for word in FOREIGN), message
    assert all((line.count(": ") and ";" in line) or line.startswith("and ") for line in message.splitlines()), f"no remedy: {message}"
    return message


def explore(count: int, seed: int, folder: Path, told: Callable[[str], object] = print) -> int:
    """Put so many scenes through; returns how many broke, after printing them."""
    ds.init(arch="cpu", precision="f64")
    warnings.simplefilter("error")
    rng, files, broken, refused = random.Random(seed), hostile_files(folder), 0, 0
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, now + ROOM))
    for number in range(count):
        path = folder / f"scene{number}.toml"
        path.write_bytes(mangled(rng, files))
        began = time.monotonic()
        try:
            refused += examine(path) is not None
            if time.monotonic() - began > SECONDS:
                raise AssertionError(f"took {time.monotonic() - began:.0f} s")
            path.unlink()
        except BaseException:
            broken += 1
            told(f"{path}\n{traceback.format_exc()[-1500:]}\n")
    told(f"{count} scenes: {count - refused - broken} accepted, {refused} refused, {broken} broken")
    return broken


if __name__ == "__main__":
    sys.exit(explore(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])) > 0)
