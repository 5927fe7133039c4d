"""Values that TOML or Python cannot read, at any key: the message has the key, in one line."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diffsim.errors import SceneError
from diffsim.scene import Scene, scene_files
from diffsim.scene.schema.load import tomllib
from tests.scene.tiny import HEAT, scene

VALUES = {
    "400 digits": "1" * 400,
    "400 digits below 0": "-" + "7" * 400,
    "400 hexadecimal digits": "0x" + "f" * 400,
    "5000 digits": "9" * 5000,
    "in a list": f"[1, [2, {'3' * 400}]]",
    "5000 digits in a list": f"[1,\n  2, {'3' * 5000}]",
    "a letter after a backslash": '"\\q"',
    "half a character": '"\\ud800"',
    "beyond Unicode": '"\\U00110000"',
    "a short number of a character": '"\\u12"',
    "no date": "2024-13-41",
    "a control character": '"a\x07b"',
}


def keys(table: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Dotted keys of all values but tables."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from keys(value, (*above, name))
        elif not (isinstance(value, list) and value and isinstance(value[0], dict)):
            yield *above, name


def with_value(text: str, key: tuple[str, ...], value: str) -> str | None:
    """The text of a scene with another value at a key, None where it is not on a line of its own below its table."""
    table, lines = "", text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("["):
            table = line.partition("]")[0].strip("[")
        elif line.partition("=")[0].strip() == key[-1] and table == ".".join(key[:-1]):
            try:
                tomllib.loads(line)
            except tomllib.TOMLDecodeError:
                return None  # it goes on in the next line
            return "\n".join([*lines[:number], f"{key[-1]} = {value}", *lines[number + 1 :]])
    return None


def cases() -> list[tuple[str, tuple[str, ...], str]]:
    """Scene, key, and its value."""
    every = [
        (name, key, what)
        for name, text in ((name, path.read_text(encoding="utf-8")) for name, path in scene_files().items())
        for key in keys(tomllib.loads(text))
        for what in VALUES
        if with_value(text, key, "0")
    ]
    return random.Random(28).sample(every, len(every))


def refused(name: str, key: tuple[str, ...], what: str, folder: Path) -> None:
    text = with_value(scene_files()[name].read_text(encoding="utf-8"), key, VALUES[what])
    assert text is not None
    file = folder / "scene.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SceneError) as error:
        Scene.load(file)
    dotted, said = ".".join(key), str(error.value)
    assert said.startswith((f"{dotted}: ", f"{dotted}[")) and "\n" not in said and len(said) < 500, (name, dotted, what, said)


@pytest.mark.parametrize("most", [150, pytest.param(None, marks=pytest.mark.slow)])
def test_the_key_is_named(most: int | None, tmp_path: Path) -> None:
    every = cases()
    assert len(every) > 1000
    for case in every[:most]:
        refused(*case, tmp_path)


@pytest.mark.parametrize("what", VALUES)
def test_the_key_of_an_override_is_named(what: str) -> None:
    with pytest.raises(SceneError, match=r"^(--set )?optimise\.iterations(\[1\]\[1\])?: [^\n]*$"):
        Scene.load("heat_mri", [f"optimise.iterations={VALUES[what]}"])


def test_a_path_below_the_home_is_written_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    scene(HEAT).run("~/x")
    assert (tmp_path / "home" / "x" / "outcome.json").is_file() and not (tmp_path / "~").exists()
