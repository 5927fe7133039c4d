#!/usr/bin/env python3
"""Set up diffsim in an environment of its own (.venv beside this folder's parent), then run it. Needs Python 3.10 - 3.13 and pip or uv.

    python3 scripts/start.py run scenes/tsunami.toml     any diffsim command
    python3 scripts/start.py test                        the tests; further arguments go to pytest

The system's Python is left alone, so this works where a bare `pip install` is refused (PEP 668), and where the venv module
comes without its own pip (Debian). Where there is uv, it installs, in a tenth of pip's time. Later calls reuse the environment while
pyproject.toml stays the same.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = Path(os.environ.get("DIFFSIM_VENV", ROOT / ".venv"))
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = ENVIRONMENT / "diffsim-installed"


def main() -> int:
    if not (3, 10) <= sys.version_info[:2] <= (3, 13):
        print(
            f"Python {sys.version.split()[0]} found, 3.10 to 3.13 needed (Taichi has no wheels for others); run this with one of those",
            file=sys.stderr,
        )
        return 2
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    tests = sys.argv[1] == "test"
    install("dev" if tests else "")
    command = [str(PYTHON), "-m", *(["pytest", *sys.argv[2:]] if tests else ["diffsim", *sys.argv[1:]])]
    return subprocess.call(command, cwd=ROOT if tests else None)


def install(extra: str) -> None:
    """Make the environment and install diffsim into it, unless that was done for this pyproject.toml."""
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    done = STAMP.read_text().split() if STAMP.exists() else []
    if done and done[0] == wanted and (not extra or extra in done):
        return
    print(f"setting up {ENVIRONMENT} (once; downloads about 200 MB) ...", file=sys.stderr, flush=True)
    if not PYTHON.exists():
        venv.create(ENVIRONMENT, with_pip=False)
    target = ["-q", "--editable", f"{ROOT}[{extra}]" if extra else str(ROOT)]
    if not by_uv(target):
        by_pip(target)
    STAMP.write_text(" ".join([wanted, *({*done[1:], extra} - {""})]))


def by_uv(target: list[str]) -> bool:
    """Install by uv. Returns whether there is one that could, for it does not read pip's settings, of a mirror for example."""
    uv = shutil.which("uv")
    return uv is not None and subprocess.call([uv, "pip", "install", "--python", str(PYTHON), *target]) == 0


def by_pip(target: list[str]) -> None:
    """Install by the system's pip, working on the environment."""
    pip = [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    if subprocess.call([*pip, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        subprocess.check_call([str(PYTHON), "-m", "ensurepip", "-q"])  # an old pip without --python
        pip = [str(PYTHON), "-m", "pip"]
    subprocess.check_call([*pip, "install", "--disable-pip-version-check", *target])


if __name__ == "__main__":
    sys.exit(main())
