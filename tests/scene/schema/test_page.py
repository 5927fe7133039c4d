"""The reference of the scene file, docs/scene.md: it has a table for each part of the schema, and its scenes are run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from diffsim.boundary import KINDS
from diffsim.command.cli import main
from diffsim.mesh.grid import Grid
from diffsim.reference import keys, lists
from diffsim.reference.__main__ import main as look_up
from diffsim.scene import Scene, scene_files
from diffsim.scene.schema import misfit_keys
from diffsim.scene.schema.data import DATASETS
from diffsim.scene.schema.load import tomllib
from diffsim.scene.setup.setup import field_inputs
from diffsim.scene.words import rule_keys, rules
from diffsim.scene.words.equations import EQUATIONS, model_of
from diffsim.scene.words.model import Model, Positive
from tests.sampled import sampled

PAGE = Path(__file__).parents[3] / "docs" / "scene.md"
SOURCE = PAGE.read_text(encoding="utf-8")
TEXT = keys.filled(lists.filled(SOURCE))
"""The page as the site has it."""
BLOCKS = re.findall(r"^```toml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
WHOLE, FLUX, GROWTH = (block for block in BLOCKS if "[grid]" in block)
"""Scenes that can be run."""
PARTS = [block for block in BLOCKS if "[grid]" not in block]
"""Parts of the first."""
NAMED = {"fields", "sources", "receivers", "unknowns", "truth", "data"}
"""Tables of tables."""


@pytest.fixture
def plate(tmp_path: Path) -> Path:
    path = tmp_path / "plate.toml"
    path.write_text(WHOLE, encoding="utf-8")
    return path


def anchor(heading: str) -> str:
    """Anchor of a heading, as GitHub makes it."""
    return "#" + heading.lower().replace(" ", "-")


def section(heading: str) -> str:
    """The text under a heading, up to the next one."""
    (text,) = re.findall(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", re.sub(r"^```.*?^```$", "", TEXT, flags=re.S | re.M), re.S | re.M)
    return text


def rows(heading: str) -> dict[str, list[str]]:
    """Key -> (type, unit, default, meaning) of the table of keys under a heading; links are their targets."""
    lines = [re.sub(r"\[[^\]]*\]\((#[^)]*)\)", r"\1", line) for line in section(heading).splitlines() if line.startswith("|")]
    assert lines[0] == "| key | type | unit | default | meaning |", heading
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert all(len(row) == 5 for row in cells), heading
    return {row[0].strip("`"): row[1:] for row in cells}


@pytest.mark.parametrize("name", keys.parts_of_scenes())
def test_every_part_of_the_schema_has_its_table(name: str) -> None:
    """Once, and each key has its meaning."""
    model = keys.part_named(name)
    assert [keys.part_named(marker[1]) for marker in keys.MARKER.finditer(keys.completed(SOURCE))].count(model) == 1
    listed = keys.keys_of(model, lambda other: other.__name__)
    assert listed
    for key in listed:
        assert key.kind and key.unit and key.default, key.name
        assert key.meaning or key.name == "type", f"{name}: {key.name}: state its meaning in a docstring"


@pytest.mark.parametrize(
    ("heading", "name", "begins"),
    [
        ("Equation heat", "equation.heat", "Diffusion with variable diffusivity"),
        ("Misfit huber", "misfit.huber", "Least squares"),
        ("Penalty tikhonov", "penalty.tikhonov", "Quadratic penalty"),
        ("boxes", "fields.boxes", "The same value in every cell"),
    ],
)
def test_a_part_without_a_section_gets_one(heading: str, name: str, begins: str) -> None:
    """So a new class, or a new part of a field, needs no edit of the page, nor one of which the page would say no more."""
    without = re.sub(rf"^### {heading}\n(?:(?!^Keys).*\n)*Keys: .*\n\n", "", SOURCE, flags=re.M)
    marker = rf"Keys: `python -m diffsim\.reference scene\.{name}`.*\n"
    assert not re.search(marker, without)
    texts = re.findall(rf"^### {heading}\n\n({begins}.*)\n\n{marker}", keys.completed(without), re.M)
    assert len(texts) == 1, heading
    assert heading == "boxes" or re.search(r" It is `diffsim\.(solvers|losses)\.\w+`\.$", texts[0])
    assert "<!-- others" not in keys.completed(SOURCE)


def test_no_docstring_tells_of_a_key_that_there_is_not() -> None:
    for name, model in keys.parts_of_scenes().items():
        keys_told = set(keys.described(model.__doc__, "Attributes"))
        assert keys_told <= {*model.model_fields, *getattr(model, "__annotations__", {})}, name


class Inner(Model):
    """A part of a part."""

    depth: Positive


class Outer(Model):
    """A part.

    Attributes:
        level (m): how high | or low.
        inner: what lies
            within.
        words: some, see [there](#there).
    """

    level: Positive = 1.5
    inner: dict[str, Inner] | None = None
    words: tuple[Literal["a", "b"], ...]


def test_a_key_is_told_by_its_type_default_and_docstring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "parts_of_scenes", lambda: {"outer": Outer, "inner": Inner})
    line = "Keys: `python -m diffsim.reference scene."
    page = f"## A part\n\n{line}outer`\n\n## Below\n\n{line}inner` <!-- as pit -->\n"
    lines = keys.filled(page).splitlines()
    assert lines[4:7] == [
        "| `level` | number > 0 | m | `1.5` | how high \\| or low |",
        "| `inner` | table of [pit](#below) | - | none | what lies within |",
        '| `words` | list of `"a"` or `"b"` | - | required | some, see [there](#there) |',
    ]
    shown = keys.keys_text("outer")
    assert "level: number > 0, m; default 1.5\n    how high | or low." in shown
    assert 'words: list of "a" or "b"; required\n    some, see there.' in shown


@pytest.mark.parametrize(
    ("name", "first", "said"),
    [
        ("scene", "scene", "unknowns: table of scene.unknowns; required"),
        ("scene.data", "scene.data", "deviation: number > 0, as values; default none"),
        ("scene.truth.fields.layers", "scene.fields.layers", "tops: list of number, grid; required"),
        ("scene.sources.wavelet.pulse", "scene.fields.wavelet.pulse", "width: number > 0, s; required"),
        ("scene.unknowns.density", "scene.unknowns.density", "And the keys type, of, start, mask of scene.unknowns."),
        ("scene.equation.heat", "scene.equation.heat", "`python -m diffsim.reference Heat` says more."),
    ],
)
def test_a_terminal_shows_the_keys_of_a_part(name: str, first: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert look_up([name]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == first
    assert said in shown


@pytest.mark.parametrize("name", ["scene.dat", "scene.equation.heet", "scene.", "scene.data.path", "scene.fields.wavelet"])
def test_a_part_that_is_unknown_gets_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert look_up([name]) == 2
    assert re.fullmatch(r"diffsim.reference: .*expected a part of a scene, found none of that name; .*\n", capsys.readouterr().err)


def keys_of_the_rules() -> set[str]:
    """Keys of the rules that the page lists."""
    return {name for kind in rules_of_the_page() for name in rule_keys.keys_of(kind)}


def rules_of_the_page() -> dict[str, dict[str, Any]]:
    """Kind of each rule that the page lists -> its keys in the example there."""
    written = [tomllib.loads(f"x = {cell}")["x"] for cell in re.findall(r"^\| `(.*?)` \|", section("Rules"), re.MULTILINE)]
    examples = [{"type": each} if isinstance(each, str) else each for each in written]
    return {example["type"]: example for example in examples}


def test_rules_of_the_page_are_those_of_python() -> None:
    """The page has the main ones: all that diffsim had when it was written; each example is a rule, and each of its keys has a row."""
    examples = rules_of_the_page()
    assert len(examples) >= 10
    for example in examples.values():
        assert type(rules.RuleModel(**example).build()) is KINDS[example["type"]]
    table = rows("Boundary")
    for key in keys_of_the_rules():
        named = {kind for kind in examples if key in rule_keys.keys_of(kind)}
        assert named <= set(re.findall('"(.*?)"', table[key][3])), key


def test_types_of_misfits_are_those_of_the_page() -> None:
    lines = [
        [cell.strip(' `"') for cell in line.strip("|").split("|")]
        for line in section("Types of misfits").splitlines()
        if line.startswith("| `")
    ]
    named = {name: kind.__name__ for name, kind in misfit_keys.MISFITS.packaged.items()}
    assert {line[0]: line[1] for line in lines[1:]}.items() <= named.items() and len(lines) > 6, "the page has the main ones"


def test_links_lead_to_headings() -> None:
    headings = {anchor(heading) for heading in re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)}
    assert set(re.findall(r"\]\((#[^)]*)\)", TEXT)) <= headings


def test_equations_have_the_names_and_units_of_the_page() -> None:
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in section("Equation").splitlines() if line.startswith("| `")]
    names = [line[0].strip("`") for line in lines[1:]]
    assert names == sorted(names) and set(names) <= set(EQUATIONS.packaged) and len(names) >= 8, "the page has the main ones"
    for name, parameters, initials, forcings, states in lines[1:]:
        word = name.strip("`")
        shape = (40,) if word in ("kuramoto_sivashinsky", "lorenz96", "lorenz96_two_scale") else (12, 12)
        equation = model_of(word, EQUATIONS.packaged[word])(type=word).build(Grid(shape, 10.0), 1e-6)
        variables = {**equation.states, **equation.initials, **equation.parameters}
        listed = [f"`{key}` {variables[key].unit}" for key in field_inputs(equation)]
        assert [each for each in (*parameters.split(", "), *initials.split(", ")) if each != "-"] == listed
        assert re.findall("`(.*?)`", forcings) == list(equation.forcings)
        assert re.findall("`(.*?)`", states) == list(equation.states)


def test_names_of_data_sets_and_scenes() -> None:
    cell = rows("dataset")["name"][3]
    for name, load in DATASETS.items():
        assert f"`{name}`" in cell
        assert all(f"`{quantity}`" in cell for quantity in load().quantities)
    assert re.findall(r"^\| `(\w+)` \|", section("Packaged scenes"), re.MULTILINE) == list(scene_files())


@pytest.mark.parametrize("text", sampled([FLUX, WHOLE], ids=lambda text: "flux" if text == FLUX else "plate"))
def test_whole_scenes_run_and_reach_their_figures(plate: Path, text: str) -> None:
    """As a reader runs them, in a process of their own: in f32."""
    plate.write_text(text, encoding="utf-8")
    assert Scene.load(plate).name == "plate"
    done = subprocess.run(
        [sys.executable, "-m", "diffsim", "run", plate.name], cwd=plate.parent, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    listed = section("Run it")
    for path in (plate.parent / "runs" / "plate").iterdir():
        assert path.suffix == ".png" or f"`{path.name}`" in listed, path.name


def put(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """A scene with a part of it replaced, or added."""
    return base | {key: put(base.get(key, {}), value) if key in NAMED else value for key, value in change.items()}


@pytest.mark.parametrize("number", range(len(PARTS)))
def test_parts_fit_into_the_whole_scene(number: int) -> None:
    changed = put(tomllib.loads(WHOLE), tomllib.loads(PARTS[number]))
    assert changed != tomllib.loads(WHOLE)
    problem = Scene(**changed).problem("f64")
    labels = 3  # regions of kappa, where it is unknown
    assert problem.theta.size == sum(labels if name == "kappa" else mask.sum() for name, mask in problem.free.items())


def test_every_override_of_the_page_is_one(plate: Path) -> None:
    overrides = re.findall(r"--set ('[^']*'|[a-z][\w.]*=[\w.-]+)", TEXT)
    assert len(overrides) >= 7
    for override in overrides:
        assert Scene.load(plate, [override.strip("'")]) != Scene.load(plate), override


def test_the_mistake_reads_as_the_page_says(plate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    assert main(["run", str(plate), "--set", "optimise.iteration=5"]) == 2
    assert capsys.readouterr().err == f"diffsim: {shown}"
