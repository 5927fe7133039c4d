"""The code in the README and the docs runs as it stands, and prints what the page says that it prints."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from diffsim.reference import lists
from diffsim.reference.entries import NUMPY, OPTIONAL, PACKAGES
from diffsim.scene import scene_files
from tests.sampled import sampled

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BOOK = [
    ROOT / "docs" / f"validation_{family}.md"
    for family in ("acoustic", "elastic", "maxwell", "flow", "gas", "transport", "ocean", "currents", "heat")
]
"""The validation book: they state what they print, draw their figure and certify gradients, as worked examples do."""
QUICK = ("certificate", "checkpointing", "data", "inversion", "photonics", "scene", "shallow_water", "user_kernels")
GATE = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in QUICK)]
"""Pages whose code the gate runs, a worked example among them; the nightly run takes all."""
WORKED = [
    ROOT / "docs" / f"{name}.md"
    for name in (
        "assimilation",
        "boundary_control",
        "chaos",
        "crank_nicolson",
        "dg",
        "migration",
        "shallow_water",
        "maxwell",
        "navier_stokes",
        "waveguide_bend",
    )
] + BOOK
"""Worked examples: they state what they print, and draw their figure."""

NEEDED = {"bridges.md": ("torch", "jax", "netCDF4", "xarray", "tesseract_core")}
"""Packages that a page needs and diffsim does not."""

SECONDS = 1200
"""Time limit of a page. One that takes 210 CPU s took 290 s where other programs ran on both cores, and another more than 300 s."""

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?", re.ASCII)
ROUND_OFF = 1e-12
"""Figures below it are round-off, which differs from machine to machine."""


REFERENCE = {"README.md", *(f"{package}.md" for package in (*PACKAGES, *OPTIONAL, NUMPY))}
"""Pages that the site has in api/, made of the docstrings."""


def blocks(page: Path, kind: str) -> str:
    return "\n".join(re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))


def code(page: Path) -> str:
    return blocks(page, "python")


def same_figure(figure: str, said: str) -> bool:
    """True if a figure is the one of the page: a whole number exactly, others to one in the last digit."""
    if max(abs(float(figure)), abs(float(said))) < ROUND_OFF:
        return True
    exponent = Decimal(said).as_tuple().exponent
    assert isinstance(exponent, int)
    return abs(Decimal(figure) - Decimal(said)) <= (0 if said.lstrip("+-").isdigit() else Decimal(10) ** exponent)


def same_line(found: str, said: str) -> bool:
    figures = NUMBER.findall(found), NUMBER.findall(said)
    return NUMBER.sub("", found).split() == NUMBER.sub("", said).split() and all(map(same_figure, *figures))


def require_same_output(found: str, said: str) -> None:
    """Raise at the first line that is not that of the page."""
    lines = [[line for line in text.splitlines() if line.strip()] for text in (found, said)]
    for printed, stated in zip(*lines, strict=False):
        assert same_line(printed, stated), f"the page states {stated!r}, its code prints {printed!r}"
    assert len(lines[0]) == len(lines[1]), f"the page states {len(lines[1])} lines, its code prints {len(lines[0])}"


@pytest.mark.parametrize(
    "page",
    sampled([p for p in PAGES if code(p)], gate=GATE, ids=lambda p: p.name),
)
def test_code_runs(page: Path, tmp_path: Path) -> None:
    for package in NEEDED.get(page.name, ()):
        pytest.importorskip(package)
    script = tmp_path / "page.py"  # a file, since Taichi reads the source of kernels
    script.write_text(code(page))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-3000:]
    if page in WORKED:
        require_same_output(done.stdout, blocks(page, "output"))
        assert (tmp_path / page.with_suffix(".png").name).stat().st_size > 0


@pytest.mark.parametrize("page", WORKED, ids=lambda p: p.name)
def test_a_worked_example_certifies_itself_and_shows_its_figure(page: Path) -> None:
    assert "assert report.passed" in code(page)
    assert f"]({page.with_suffix('.png').name})" in page.read_text()
    assert blocks(page, "output")


def test_pages_that_state_output_are_held_to_it() -> None:
    assert [p.name for p in PAGES if blocks(p, "output")] == sorted(p.name for p in WORKED)


@pytest.mark.parametrize(
    ("found", "same"),
    [
        ("pressure 4.03, 12 cells, 3e-16", True),
        ("pressure  4.04, 12 cells, 8e-15", True),
        ("pressure 4.05, 12 cells, 3e-16", False),
        ("pressure 4.03, 13 cells, 3e-16", False),
        ("pressure 4.03, 12 cells, 3e-6", False),
        ("pressure 4.03, 12 cells, nan", False),
        ("pressure -4.03, 12 cells, 3e-16", False),
        ("level 4.03, 12 cells, 3e-16", False),
        ("pressure 4.03, 12 cells, 3e-16\nand more", False),
        ("", False),
    ],
)
def test_a_figure_that_differs_is_noticed(found: str, same: bool) -> None:
    said = "pressure 4.03, 12 cells, 3e-16"
    if same:
        require_same_output(found, said)
    else:
        with pytest.raises(AssertionError, match="the page states"):
            require_same_output(found, said)


def test_the_worked_example_certifies_itself() -> None:
    assert "assert report.passed" in code(ROOT / "docs" / "new_equation.md")


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
            generated = target.removeprefix("api/") in REFERENCE if page.parent.name == "docs" else False
            assert generated or (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_lists_of_pages_are_those_of_the_files() -> None:
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/integrators.md"))
    assert lists.filled(text) == text, "run python scripts/lists.py"
    assert set(re.findall(r"^<!-- (\w+): made", text, re.MULTILINE)) == set(lists.LISTS)


def test_a_list_names_each_scene_and_each_solver() -> None:
    """With the first words of its file or docstring; a page that is out of date is seen."""
    page = "a\n<!-- scenes: made by hand -->\nold\n<!-- end -->\nb\n<!-- solvers: made by hand -->\n<!-- end -->\n"
    filled = lists.filled(page)
    assert "old" not in filled and filled.startswith("a\n") and "\nb\n" in filled
    assert re.findall(r"^\| `(\w+)` \| .*\? .*\| `\w+` in [123]-D \| `", filled, re.MULTILINE)
    for name in (*scene_files(), "Acoustic", "Maxwell"):
        assert f"\n| `{name}` | " in filled


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert sum(not line.startswith("| `") for line in lines) < 97  # lists of solvers and scenes grow


LATER = ("stepping/source", "stepping/derive", "stepping/passes", "stepping/ir")
"""Folders of diffsim/ and tests/ whose words are not checked yet."""


def checked(path: Path) -> bool:
    return not any(path.is_relative_to(ROOT / part / folder) for part in ("diffsim", "tests") for folder in LATER)


PLAIN = [
    p for folder in ("diffsim", "scripts", "tests") for p in sorted((ROOT / folder).rglob("*.py")) if checked(p) and p != Path(__file__)
]
"""Modules whose sentences and names are held to the common words."""
UNCOMMON = re.compile(
    r"^Of |\bdear\b|\b(?:is|are) told\b|\bto be had\b|\bwhat is had\b|\bthereof\b|\bso many times\b|\bone of both\b|\bto speak of\b"
    r"|\bof no account\b"
)
"""Turns of phrase that a colleague would not use: write the noun first, `costly`, `there is no`, `one of the two`."""
CLAUSE = re.compile(r"(?:What|Whether)\s(?!.*\?)", re.DOTALL)
"""Docstrings that begin with a clause in place of a noun: name the thing, or write `True if`."""
SPACE = r"(?:\s|[\"']\s*f?[\"'])+"
"""Between two words of a text, which may go on in the next line."""
VAGUE = {"found", "made", "told", "given"}
"""Names that say nothing of a value."""


def uncommon(text: str) -> list[str]:
    return [match.group() for match in UNCOMMON.finditer(text.strip())]


def with_words(pattern: str) -> list[tuple[Path, ast.Module]]:
    """The modules whose text has a match, and their syntax trees: to take all of them apart takes twice as long."""
    return [(path, tree_of(path)) for path in PLAIN if re.search(pattern, path.read_text(encoding="utf-8"))]


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def clauses(tree: ast.AST) -> list[int]:
    """Lines of docstrings, those of attributes and constants too, that begin with a clause."""
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    return sorted(text.lineno for text in texts if isinstance(text.value, str) and CLAUSE.match(text.value.strip()))


def vague(tree: ast.AST) -> list[int]:
    """Lines that give a variable or a function a vague name. Members of classes and arguments may have one: others use their names."""
    members = [statement for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for statement in node.body]
    fields = {part for each in members if isinstance(each, ast.Assign | ast.AnnAssign) for part in ast.walk(each)}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node not in members]
    return sorted({n.lineno for n in names if n.id in VAGUE} | {f.lineno for f in functions if f.name in VAGUE})


@pytest.mark.parametrize(
    "text",
    [
        "Of a field.",
        "a run dear to repeat",
        "Taichi is told",
        "no value is to be had",
        "the ends thereof",
        "a run so many times as long",
        "expected one of both",
        "waves to speak of",
        "they are of no account",
    ],
)
def test_an_uncommon_phrase_is_noticed(text: str) -> None:
    assert uncommon(text)
    assert not uncommon("Derivatives of a run that is costly to repeat")


def test_clauses_and_vague_names_are_noticed() -> None:
    assert clauses(ast.parse('def f():\n    """What a run keeps."""\nx = 1\n"""Whether it is."""')) == [2, 4]
    assert not clauses(ast.parse('def f():\n    """What comes next? The first step."""\n\ndef g():\n    """The state that a run keeps."""'))
    assert vague(
        ast.parse("def f(given):\n    found = given\n    for a, made in found:\n        pass\n    return [told for told in a]")
    ) == [2, 3, 5]
    assert vague(ast.parse("def f():\n    def told():\n        pass\n    if (found := g()):\n        pass")) == [2, 4]
    assert not vague(
        ast.parse("class A:\n    found: int\n    given = 3\n    def made(self, told):\n        self.told = f(found=self.found)")
    )


def test_docstrings_and_messages_use_common_words() -> None:
    phrases = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {phrase}"
        for path, tree in with_words(UNCOMMON.pattern.replace(" ", SPACE).replace("^", r"[\"']\s*"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for phrase in uncommon(node.value)
    ]
    assert not phrases, "\n".join(phrases)


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    modules = with_words(r"[\"']\s*(?:What|Whether)\s")
    lines = [f"{path.relative_to(ROOT)}:{line}" for path, tree in modules for line in clauses(tree)]
    assert not lines, "\n".join(lines)


def test_names_say_what_a_value_is() -> None:
    name = f"(?:{'|'.join(sorted(VAGUE))})"
    modules = with_words(rf"\b{name}\s*(?:[^\w\s{{.(\"']|in\b)|\bdef {name}\b")
    lines = [f"{path.relative_to(ROOT)}:{line}" for path, tree in modules for line in vague(tree)]
    assert not lines, "\n".join(lines)


def test_pages_use_common_words() -> None:
    pages = [p for p in PAGES if p.name != "architecture.md"]
    assert not [f"{page.name}: {phrase}" for page in pages for line in page.read_text().splitlines() for phrase in uncommon(line)]


FOREIGN = re.compile(r"pip install (?:-\S+ )*['\"]?diffsim|'diffsim\[")
"""PyPI's package of this name is another project, so this is installed from its folder."""


@pytest.mark.parametrize("text", ["pip install diffsim", "pip install 'diffsim[formats]'", "pip install -U diffsim", "get 'diffsim[jax]'"])
def test_a_command_that_installs_the_package_of_pypi_is_noticed(text: str) -> None:
    assert FOREIGN.search(text)
    assert not FOREIGN.search("pip install '/path/to/diffsim[formats]'") and not FOREIGN.search("pip install '.[formats]'")


def test_no_text_installs_the_package_of_pypi() -> None:
    folders = [ROOT / name for name in ("diffsim", "docs", "scripts", "scenes")]
    texts = [p for folder in folders for p in folder.rglob("*") if p.suffix in {".py", ".md", ".toml", ".html", ".txt", ".yml", ".css"}]
    texts += [p for p in ROOT.iterdir() if p.suffix in {".md", ".toml", ".yml"}]
    commands = [f"{p.relative_to(ROOT)}: {m.group()}" for p in texts for m in FOREIGN.finditer(p.read_text())]
    assert not commands, "; ".join(commands)
