"""The reference of the scene file, docs/scene.md: its tables are the schema's, and its scenes are run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from diffsim.boundary import KINDS
from diffsim.command.cli import main
from diffsim.losses import SmoothedTotalVariation, Tikhonov
from diffsim.mesh.grid import Grid
from diffsim.photonics import Density
from diffsim.scene import Scene, scene_files
from diffsim.scene.schema import misfit_keys, parts, penalty_keys, schema
from diffsim.scene.schema.data import DATASETS
from diffsim.scene.schema.load import tomllib
from diffsim.scene.schema.schema import Description
from diffsim.scene.setup.setup import field_inputs
from diffsim.scene.words import rule_keys, rules
from diffsim.scene.words.equations import PACKAGED, model_of
from diffsim.scene.words.model import Real


def misfit(name: str) -> type[misfit_keys.MisfitModel]:
    """The model of a type of misfit."""
    return misfit_keys.model_of(name, misfit_keys.MISFITS.packaged[name])


PAGE = Path(__file__).parents[3] / "docs" / "scene.md"
TEXT = PAGE.read_text(encoding="utf-8")
MODELS: dict[str, type[BaseModel]] = {
    "The scene": Description,
    "Grid": schema.GridModel,
    "Time": schema.Time,
    "Equation acoustic": model_of("acoustic", PACKAGED["acoustic"]),
    "Equation dg_acoustic": model_of("dg_acoustic", PACKAGED["dg_acoustic"]),
    "Equation dg_advection": model_of("dg_advection", PACKAGED["dg_advection"]),
    "Equation elastic": model_of("elastic", PACKAGED["elastic"]),
    "Equation heat": model_of("heat", PACKAGED["heat"]),
    "Equation long_wave": model_of("long_wave", PACKAGED["long_wave"]),
    "Equation maxwell": model_of("maxwell", PACKAGED["maxwell"]),
    "Equation visco_acoustic": model_of("visco_acoustic", PACKAGED["visco_acoustic"]),
    "Boundary": rules.RuleModel,
    "Fields": parts.FieldModel,
    "layers": parts.Layers,
    "gaussians": parts.Gaussian,
    "boxes": parts.Box,
    "dataset": parts.DataSet,
    "file": parts.DataFile,
    "dataset and file": parts.Resampled,
    "Cells": parts.Where,
    "Points": parts.PointSet,
    "lines": parts.LineOfPoints,
    "Sources": parts.Sources,
    "Wavelet ricker": parts.Ricker,
    "Wavelet pulse": parts.Pulse,
    "Wavelet file": parts.Sampled,
    "Wavelet packet": parts.Packet,
    "Mode": parts.GuidedMode,
    "Truth": schema.Truth,
    "Data": schema.Data,
    "Unknowns": schema.UnknownModel,
    "Monitors": schema.Monitor,
    "Maximise": schema.Maximise,
    "Density": schema.unknown_of("density", Density),
    "Misfit": misfit_keys.MisfitModel,
    "Moveout": misfit_keys.Moveout,
    "Misfit huber": misfit("huber"),
    "Misfit envelope": misfit("envelope"),
    "Misfit log_amplitude": misfit("log_amplitude"),
    "Misfit wasserstein": misfit("wasserstein"),
    "Penalty tikhonov": penalty_keys.model_of("tikhonov", Tikhonov),
    "Penalty total_variation": penalty_keys.model_of("total_variation", SmoothedTotalVariation),
    "Optimise": schema.Optimise,
    "Stage": schema.Stage,
    "Checkpoint": schema.Checkpoint,
    "Certificate": schema.Certificate,
    "Accept": schema.Accept,
    "Uncertainty": schema.UncertaintyModel,
    "Prior": schema.PriorModel,
}
"""Section of the page -> the part of the schema whose keys its table lists."""
ELSEWHERE = {"dataset": parts.Resampled, "file": parts.Resampled, "Sources": parts.PointSet}
ELSEWHERE["Density"] = schema.UnknownModel
ELSEWHERE |= {heading: misfit_keys.MisfitModel for heading in MODELS if heading.startswith("Misfit ")}
"""Section -> a part that its own is made of, whose keys another section lists."""
PLAIN = {misfit(name).__name__ for name in ("l2", "cross_correlation")}
"""Models of misfits without keys of their own."""
MINIMUM, MAXIMUM = {"minimum": ">=", "exclusiveMinimum": ">"}, {"maximum": "<=", "exclusiveMaximum": "<"}
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
    """Of a heading, as GitHub makes it."""
    return "#" + heading.lower().replace(" ", "-")


def section(heading: str) -> str:
    """The text under a heading, up to the next one."""
    (found,) = re.findall(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", re.sub(r"^```.*?^```$", "", TEXT, flags=re.S | re.M), re.S | re.M)
    return found


def rows(heading: str) -> dict[str, list[str]]:
    """Key -> (type, unit, default, meaning) of the table of keys under a heading; links are their targets."""
    lines = [re.sub(r"\[[^\]]*\]\((#[^)]*)\)", r"\1", line) for line in section(heading).splitlines() if line.startswith("|")]
    assert lines[0] == "| key | type | unit | default | meaning |", heading
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert all(len(row) == 5 for row in cells), heading
    return {row[0].strip("`"): row[1:] for row in cells}


def kind(part: dict[str, Any]) -> str:
    """A part of a JSON schema, in the words of the page."""
    if "$ref" in part:
        name = part["$ref"].rsplit("/", 1)[1]
        if name in PLAIN:
            return anchor("Misfit")
        (heading,) = [heading for heading, model in MODELS.items() if model.__name__ == name and heading != "dataset and file"]
        return anchor(heading)
    if "enum" in part or "const" in part:
        return " or ".join(f"`{json.dumps(value)}`" for value in part.get("enum", [part.get("const")]))
    for several in ("anyOf", "oneOf"):
        if several in part:
            return " or ".join(sorted((kind(p) for p in part[several] if p.get("type") != "null"), key=len))
    limits = [f"{sign} {part[name]:g}" for name, sign in (MINIMUM | MAXIMUM).items() if name in part]
    match part["type"]:
        case "number" | "integer":
            return " ".join([part["type"], ", ".join(limits)]).strip()
        case "string":
            return "text"
        case "boolean":
            return "`true` or `false`"
        case "object":
            return f"table of {kind(part['additionalProperties'])}"
        case "array" if "prefixItems" in part and "$ref" in part["prefixItems"][0]:
            return f"pair of {kind(part['prefixItems'][0])}"
        case "array" if "prefixItems" in part:
            return f"[{', '.join(map(kind, part['prefixItems']))}]"
        case "array" if part.get("maxItems") == 3 and part["items"]["type"] == "number":
            item = kind(part["items"])
            return "point" if item == "number" else item.replace("number", "lengths")
        case "array":
            return f"list of {kind(part['items'])}"
    raise AssertionError(part)


def default(cell: str, model: type[BaseModel], key: str) -> bool:
    """Whether a cell of the page says what the schema takes where a key is left out."""
    field = model.model_fields[key]
    if field.is_required():
        return cell == "required"
    value = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel):
        return cell == ("none" if value is None else "its defaults")
    listed = list(value) if isinstance(value, tuple) else value
    return bool(re.fullmatch("`.*`", cell)) and tomllib.loads(f"x = {cell.strip('`')}")["x"] == listed


@pytest.mark.parametrize("heading", MODELS)
def test_tables_are_those_of_the_schema(heading: str) -> None:
    model, found = MODELS[heading], rows(heading)
    if model is rules.RuleModel:
        found = {key: row for key, row in found.items() if key not in keys_of_the_rules()}
    others = set(ELSEWHERE[heading].model_fields if heading in ELSEWHERE else ()) - set(getattr(model, "options", ()))
    assert list(found) == [key for key in model.model_fields if key not in others]
    properties = model.model_json_schema()
    for key, (words, unit, given, meaning) in found.items():
        expected = kind(properties["properties"][key])
        assert sorted(words.split(" or "), key=len) == sorted(expected.split(" or "), key=len), f"{heading}: {key}: expected {expected}"
        assert default(given, model, key), f"{heading}: {key}: {given}"
        assert unit and (meaning or key == "type"), f"{heading}: {key}"


def keys_of_the_rules() -> dict[str, set[tuple[str, str]]]:
    """Key of some rule that the page lists -> types and defaults of the arguments of that name."""
    words = {rule_keys.NumberOrName: "number or text", Real: "number", rule_keys.Integer: "integer"}
    found: dict[str, set[tuple[str, str]]] = {}
    for kind in rules_of_the_page():
        arguments = signature(KINDS[kind]).parameters
        for name, key in rule_keys.keys_of(kind).items():
            given = "required" if key.needed else f"`{json.dumps(arguments[name].default)}`"
            found.setdefault(name, set()).add((words[key.type], given))
    return found


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
    for key, wanted in keys_of_the_rules().items():
        words, unit, given, meaning = table[key]
        assert {(words, given)} == wanted, key
        named = {kind for kind in examples if key in rule_keys.keys_of(kind)}
        assert unit and named <= set(re.findall('"(.*?)"', meaning)), key


def test_every_part_of_the_schema_has_its_table() -> None:
    names = {"Description", "Resampled", "MisfitModel", *Description.model_json_schema()["$defs"]}
    assert {model.__name__ for model in MODELS.values()} | PLAIN == names | {MODELS["Density"].__name__}  # one of the unknowns


def test_types_of_misfits_are_those_of_the_page() -> None:
    lines = [
        [cell.strip(' `"') for cell in line.strip("|").split("|")]
        for line in section("Types of misfits").splitlines()
        if line.startswith("| `")
    ]
    assert {line[0]: line[1] for line in lines[1:]} == {name: kind.__name__ for name, kind in misfit_keys.MISFITS.packaged.items()}
    assert {misfit(name).__name__ for name in misfit_keys.MISFITS.packaged if not misfit(name).options} == PLAIN


def test_links_lead_to_headings() -> None:
    headings = {anchor(heading) for heading in re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)}
    assert set(re.findall(r"\]\((#[^)]*)\)", TEXT)) <= headings


def test_equations_have_the_names_and_units_of_the_page() -> None:
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in section("Equation").splitlines() if line.startswith("| `")]
    assert [line[0] for line in lines[1:]] == [f"`{name}`" for name in sorted(PACKAGED)]
    for name, parameters, initials, forcings, states in lines[1:]:
        equation = model_of(name.strip("`"), PACKAGED[name.strip("`")])(type=name.strip("`")).build(Grid((8, 8), 10.0), 1e-6)
        variables = {**equation.states, **equation.initials, **equation.parameters}
        listed = [f"`{key}` {variables[key].unit}" for key in field_inputs(equation)]
        assert [*parameters.split(", "), *initials.split(", ")] == listed
        assert re.findall("`(.*?)`", forcings) == list(equation.forcings)
        assert re.findall("`(.*?)`", states) == list(equation.states)


def test_names_of_data_sets_and_scenes() -> None:
    found = rows("dataset")["name"][3]
    for name, load in DATASETS.items():
        assert f"`{name}`" in found
        assert all(f"`{quantity}`" in found for quantity in load().quantities)
    assert re.findall(r"^\| `(\w+)` \|", section("Packaged scenes"), re.MULTILINE) == list(scene_files())


@pytest.mark.parametrize("text", [WHOLE, FLUX], ids=["plate", "flux"])
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
