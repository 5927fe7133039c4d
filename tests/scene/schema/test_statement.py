"""Mistakes of TOML in scene files: the line names the key that they belong to."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from diffsim.errors import SceneError
from diffsim.scene import Scene, scene_files
from diffsim.scene.schema.load import read_scene
from diffsim.scene.schema.statement import statement_at

BEFORE = {
    "nothing": "",
    "number": "before = 1\n",
    "brackets in strings": 'before = "][\'" # ]{"\nagain = \'x["\'\n',
    "list": "before = [1, # [\n  [2, 3],\n]\n",
    "text": 'before = """\n[no]\na = [\\"""\n""""\n',
    "raw text": "before = '''\n[no]\na = [\n'''\n",
    "inline": 'before = {a = [1], "b]" = 2}\n\n',
}
"""Statements without a mistake, some of which look like others inside."""
WRONG = {
    "no value": ("wrong =", 0, True),
    "two values": ("wrong = 1 2", 0, True),
    "no such value": ("wrong = yes", 0, True),
    "text that is not closed": ("wrong = 'x", 0, True),
    "escape": ('wrong = "\\q"', 0, True),
    "no comma": ("wrong = [1,\n  2 3]", 0, True),
    "list that is not closed": ("wrong = [1, 2", 0, True),
    "list that ends with a comma": ("wrong = [1,\n 2,", 0, True),
    "inner list": ("wrong = [[1],\n [2,\n [3]", 0, True),
    "inline table": ("wrong = {a = 1", 0, True),
    "long text": ('wrong = """\nx = 1', 0, True),
    "long raw text in a list": ("wrong = [\n'''\n[", 0, True),
    "twice": ("wrong = 1\nwrong = 2", 1, True),
    "no sign": ("wrong 1", 0, False),
    "no key": ("= 1", 0, False),
    "table that is not closed": ("[wrong", 0, False),
}
"""Kind of mistake -> a statement, how many lines later the wrong statement begins, and whether its key can be read."""
AFTER = {"nothing": "", "end": "\n", "key": "\nafter = 3\n", "table": "\n\n[last]\nafter = 3\n"}


def mistake(path: Path, content: str) -> str:
    path.write_bytes(content.encode())
    with pytest.raises(SceneError) as caught:
        read_scene(path)
    return str(caught.value)


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("kind", WRONG)
def test_the_key_of_a_mistake(tmp_path: Path, kind: str, end: str) -> None:
    wrong, later, readable = WRONG[kind]
    for table, before, after in itertools.product(("", "[own]\n", "[[own.list]]\n"), BEFORE.values(), AFTER.values()):
        content = table + before + wrong + after
        text = mistake(tmp_path / "bad.toml", content.replace("\n", end))
        name = table.strip("[]\n")
        key = f"{name}.wrong".lstrip(".") if readable else "scene"
        assert text.startswith(f"{key}: expected TOML in "), (content, text)
        begun = 1 + (table + before).count("\n") + later
        lines = [int(each) for each in re.findall(r"(?:at|begins in) line (\d+)", text)]
        assert lines and lines[-1] == begun, (content, text)
        assert "\n" not in text


@pytest.mark.parametrize("name", scene_files())
def test_the_key_of_each_place_of_a_packaged_scene(name: str) -> None:
    """Cut off after the sign of each key, the text has its mistake there."""
    text = scene_files()[name].read_text(encoding="utf-8")
    table = ""
    places = 0
    for line in re.finditer(r"^(?:\[+([\w.]+)\]+|(\w+) = ).*$", text, re.MULTILINE):
        table = line[1] or table
        key = f"{table}.{line[2]}".lstrip(".") if line[2] else table
        for place in (line.end(2) + 3 if line[2] else line.end(), line.end()):
            assert statement_at(text, place).key == key
            places += 1
    assert places > 10


def test_a_value_that_cannot_be_read(tmp_path: Path) -> None:
    """It follows the grammar, so no line is known from the reader."""
    for before, after in itertools.product(BEFORE.values(), AFTER.values()):
        for value in ("9" * 5000, "2021-02-30", f"[1,\n {'9' * 5000}]", "[\n2021-02-30,\n1]"):
            assert mistake(tmp_path / "bad.toml", f"[own]\n{before}wrong = {value}{after}").startswith("own.wrong: expected TOML")


def test_an_unclosed_list_of_a_scene(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[grid]\nshape = [3, 4\nspacing = 1.0\n")
    with pytest.raises(
        SceneError, match=r"^grid\.shape: expected TOML .* \(at line 3, column 1\); it is in what begins in line 2; correct it$"
    ):
        Scene.load(path)
