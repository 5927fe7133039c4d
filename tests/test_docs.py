"""The code in the README and the docs runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def code(page: Path) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("page", [p for p in PAGES if code(p)], ids=lambda p: p.name)
def test_code_runs(page: Path, tmp_path: Path) -> None:
    script = tmp_path / "page.py"  # a file, since Taichi reads the source of kernels
    script.write_text(code(page))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_worked_example_certifies_itself() -> None:
    assert "assert report.passed" in code(ROOT / "docs" / "new_equation.md")


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
