"""Pages that `mkdocs build` adds to docs/: the start page, the changes, the reference, and a gallery of the packaged scenes.

The reference and the tables of a scene's keys come from docstrings (`diffsim.reference`), the lists of scenes and solvers from their files,
the gallery from runs of the scenes.

DIFFSIM_GALLERY in the environment names the scenes of the gallery, with commas between them. Each search then has one iteration, and its
data are made on its own grid: the pages are there, the answers are not.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffsim.plot.units import number
from diffsim.reference import keys, lists
from diffsim.reference.pages import pages as reference_pages
from diffsim.report.page import file_name, pictures
from diffsim.scene import Scene, scene_files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[1]
SMALL = ("optimise.iterations=1", "stage=[]")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    pages: dict[str, str | bytes] = {"index.md": start_page(), "changes.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")}
    reference = reference_pages()
    pages |= {f"api/{name}": text for name, text in reference.items()}
    some = os.environ.get("DIFFSIM_GALLERY")
    pages |= gallery(scene_files()) if some is None else gallery({name: scene_files()[name] for name in some.split(",")}, SMALL)
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    titles = {path: content.splitlines()[0].lstrip("# ") for path, content in pages.items() if isinstance(content, str)}
    scenes = sorted(path for path in titles if path.startswith("gallery/") and path != "gallery/index.md")
    shown = [{"Overview": "gallery/index.md"}, *({titles[path]: path} for path in scenes)]
    api = [{"Overview": "api/README.md"}, *({name.removesuffix(".md"): f"api/{name}"} for name in sorted(reference) if name != "README.md")]
    config.nav = [*config.nav[:2], {"Gallery": shown}, *config.nav[2:-1], {"Reference": api}, *config.nav[-1:]]
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put in the tables of keys and the lists of packaged scenes and solvers."""
    return keys.filled(lists.filled(markdown))


def start_page() -> str:
    """The README, with links as they are within docs/."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\((docs/)?", lambda link: "](" if link.group(1) else link.group(), text).replace("](CHANGELOG.md", "](changes.md")


def gallery(scenes: Mapping[str, Path], changes: tuple[str, ...] = ()) -> dict[str, str | bytes]:
    """A page for each scene, made from its file and from a run of it, and an overview."""
    files: dict[str, str | bytes] = {}
    entries = []
    for name, path in scenes.items():
        scene = Scene.load(path)
        same = ("truth.refine=1",) if changes and scene.truth is not None else ()
        text, figures = scene_page(name, path, (*changes, *same))
        shown = next((file for file in figures if file.startswith("unknown")), next(iter(figures)))
        files |= {f"gallery/{name}.md": text} | {f"gallery/{name}_{file}": content for file, content in figures.items()}
        entries.append(f"## [{scene.title}]({name}.md)\n\n{scene.summary}\n\n![{scene.title}]({name}_{shown})\n")
    note = "\nThe searches of this build were cut short.\n" if changes else ""
    head = "# Gallery\n\nThe scenes that come with diffsim. Each page is made from the scene's file, and from a run of it.\n"
    return files | {"gallery/index.md": "\n".join([head + note, *entries])}


def scene_page(name: str, path: Path, changes: tuple[str, ...]) -> tuple[str, dict[str, bytes]]:
    """The page of a scene, and its figures by file."""
    with tempfile.TemporaryDirectory() as folder:
        outcome: Any = Scene.load(path, changes).run(Path(folder) / name)
    figures, parts = {}, [f"# {outcome.title}", outcome.summary]
    parts.append(f"`diffsim run {name}` asks this question. The search took {outcome.history[-1].iteration} iterations: {outcome.stopped}.")
    for picture in pictures(outcome):
        figures[file_name(picture)] = picture.png()
        parts += [f"## {picture.title}", f"![{picture.title}]({name}_{file_name(picture)})", picture.caption]
    parts += ["## Acceptance", "| figure | value | limit | verdict |\n|---|---|---|---|"]
    parts[-1] += "".join(f"\n| {line.name} | {number(line.value)} | {line.limit} | {line.verdict} |" for line in outcome.accepted)
    if outcome.measured:
        parts += ["## Measured", "| figure | at the start | at the answer |\n|---|---|---|"]
        parts[-1] += "".join(f"\n| {name} | {start:.3f} | {end:.3f} |" for name, (start, end) in outcome.measured.items())
    parts += ["## The scene", f"```toml\n{path.read_text(encoding='utf-8')}```"]
    return "\n\n".join(parts) + "\n", figures
