"""Every public name has a docstring with its sections and an example that runs; the pages of the reference are made of these."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from diffsim.errors import ParameterError
from diffsim.reference.entries import OPTIONAL, PACKAGES, entries, items, packages
from diffsim.reference.lookup import entry_text
from diffsim.reference.pages import pages
from tests.sampled import sampled, together

ROOT = Path(__file__).parents[1]
RUN_ALL = """
import json, pathlib, sys, time, traceback, warnings

warnings.simplefilter("error")
warnings.filterwarnings("ignore", category=DeprecationWarning, module="taichi.*")
found = {}
for path in sorted(pathlib.Path().glob("*.py")):
    source, began = path.read_text(), time.process_time()
    try:
        exec(compile(source, str(path), "exec"), {"__name__": path.stem})
        found[path.stem] = ""
    except BaseException:
        found[path.stem] = traceback.format_exc(limit=-3)
    print(f"{time.process_time() - began:6.2f} s  {path.stem}", file=sys.stderr)
pathlib.Path("found.json").write_text(json.dumps(found))
"""
"""Runs the examples in one process, which compiles a kernel once; files, since Taichi reads the source of kernels."""


ENTRIES = {f"{entry.package}.{entry.name}": entry for package in packages() for entry in entries(package)}
EXAMPLES = {name: entry.example for name, entry in ENTRIES.items() if entry.example and not entry.shown_at}
SHARED = "Arguments, result and errors"
"""The sentence of a docstring that leaves Args, Returns and Raises to another one of its family."""


LONG = {
    *(f"diffsim.{name}" for name in ("Antiperiodic", "Batch", "BlockJacobi", "ODE", "Open", "Scene", "Steady", "plan", "steady")),
    *(f"diffsim.assimilate.{name}" for name in ("Analysis", "FourDVar")),
    *(f"diffsim.solvers.{name}" for name in ("Acoustic", "Advection", "Burgers", "DGAcoustic", "DGAdvection", "Elastic", "Euler")),
    *(f"diffsim.solvers.{name}" for name in ("Kolmogorov", "LongWave", "Lorenz96", "Lorenz96TwoScale", "Maxwell", "NavierStokes")),
    *(f"diffsim.solvers.{name}" for name in ("QuasiGeostrophic", "ReactionDiffusion", "Schroedinger", "ShallowWater", "ViscoAcoustic")),
    *(f"diffsim.chaos.{name}" for name in ("covariant_vectors", "ensemble_gradient", "linear_response", "predictability", "shadowing")),
    *(f"diffsim.photonics.{name}" for name in ("gaussian_beam", "plane_wave", "slab_mode")),
    *("diffsim.expr.interpolate_to", "diffsim.expr.muscl", "diffsim.jax.run", "diffsim.plot.animate", "diffsim.plot.gather"),
    *("diffsim.solvers.bodies.cylinder", "diffsim.tesseract.Function"),
}
"""Names whose examples take longer than half a second, most of it compilation: four fifths of the time of all."""


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The error of each example that is chosen, "" if it ran."""
    folder = tmp_path_factory.mktemp("examples")
    chosen = {item.name for item in request.session.items}
    for name, text in EXAMPLES.items():
        if f"test_the_example_runs[{name}]" in chosen:
            (folder / f"{name}.py").write_text(text + "\n")
    command = [sys.executable, "-c", RUN_ALL]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert (folder / "found.json").exists(), done.stderr[-3000:]
    print(done.stderr)
    return json.loads((folder / "found.json").read_text())


@pytest.mark.parametrize("name", sampled(EXAMPLES, gate=EXAMPLES.keys() - LONG))
def test_the_example_runs(name: str, outcomes: dict[str, str]) -> None:
    if outcomes[name]:
        pytest.fail(outcomes[name], pytrace=False)


@together(ENTRIES)
def test_it_is_documented(name: str) -> None:
    entry = ENTRIES[name]
    sections = entry.sections
    assert sections[""], "there is no docstring"
    assert sections.get("Example"), "there is no example"
    if inspect.isfunction(entry.value) and SHARED not in entry.doc:
        wanted = ["Args"] if inspect.signature(entry.value).parameters else []
        wanted += [] if inspect.signature(entry.value).return_annotation in ("None", None) else ["Returns"]
        assert not [section for section in wanted if not sections.get(section)], f"of the sections there are {', '.join(sections)}"


@together(ENTRIES)
def test_the_example_uses_the_name_and_asserts_something(name: str) -> None:
    entry = ENTRIES[name]
    at = entry.shown_at
    shown = entry if not at else ENTRIES[at if "." in at else f"{entry.package}.{at}"]
    assert not shown.shown_at, "that example refers to another one"
    assert re.search(rf"\b{entry.name}\b", shown.example)
    assert "assert " in shown.example


@together(ENTRIES)
def test_each_parameter_is_explained(name: str) -> None:
    """A docstring that has Args names all parameters, and no other ones."""
    entry = ENTRIES[name]
    text = entry.sections.get("Args")
    if text is None:
        return
    explained = {word.strip("* ") for name in items(text) for word in name.partition(" (")[0].split(",")}
    assert explained == set(inspect.signature(entry.value).parameters)


def test_there_is_a_page_for_each_package_with_each_entry() -> None:
    texts = pages()
    assert set(texts) == {"README.md", "diffsim.numpy.md", *(f"{package}.md" for package in packages())}
    for name, entry in ENTRIES.items():
        text = texts[f"{entry.package}.md"]
        assert f"\n## {entry.name}\n" in text, name
        assert entry.example.splitlines()[0] in text, name
    assert "\n- `sponge_depth` (m): depth" in texts["diffsim.solvers.md"]
    assert "\n- `order`: of the polynomial" in texts["diffsim.md"]


def test_the_index_links_the_pages_that_there_are() -> None:
    texts = pages()
    assert set(re.findall(r"\]\((.*?)\)", texts["README.md"])) == texts.keys() - {"README.md"}
    assert all(f"`{package}`" in texts["README.md"] for package in (*PACKAGES, *OPTIONAL))


def test_a_package_may_be_named_without_diffsim() -> None:
    for package in ("diffsim.integrators", "diffsim.losses", "diffsim.solvers"):
        assert entry_text(package.partition(".")[2]) == entry_text(package)


def imports(text: str) -> set[str]:
    """Full names of what the code of a page imports from packages of diffsim."""
    lines = re.findall(r"^(?: {4})?from (diffsim[\w.]*) import ([\w, ]+)$", text, re.MULTILINE)
    return {f"{module}.{name.split(' as ')[0].strip()}" for module, names in lines for name in names.split(",")}


PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def test_what_pages_import_has_an_entry_by_the_name_of_the_import() -> None:
    lacking = []
    for name in sorted(set().union(*(imports(page.read_text(encoding="utf-8")) for page in PAGES))):
        module = importlib.import_module(name.rpartition(".")[0])
        if inspect.ismodule(getattr(module, name.rpartition(".")[2], None)) or name.startswith("diffsim.numpy"):
            continue
        try:
            assert inspect.getdoc(getattr(module, name.rpartition(".")[2])) is None or entry_text(name).strip()
        except ParameterError:
            lacking.append(name)
    assert not lacking
