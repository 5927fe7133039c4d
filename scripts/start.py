#!/usr/bin/env python3
"""Set up diffsim in an environment of its own (.venv beside this folder's parent), then run it. Needs Python 3.10 - 3.13 and pip.

    python3 scripts/start.py run scenes/tsunami.toml     any diffsim command
    python3 scripts/start.py test                        the tests; further arguments go to pytest

The system's Python is left alone, so this works where a bare `pip install` is refused (PEP 668), and where the venv module
comes without its own pip (Debian). Later calls reuse the environment while pyproject.toml stays the same.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = Path(os.environ.get("DIFFSIM_VENV", ROOT / ".venv"))
BIN = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")
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
    command = [str(BIN / "python"), "-m", *(["pytest", *sys.argv[2:]] if tests else ["diffsim", *sys.argv[1:]])]
    return subprocess.call(command, cwd=ROOT if tests else None)


def install(extra: str) -> None:
    """Make the environment and install diffsim into it, unless that was done for this pyproject.toml."""
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    done = STAMP.read_text().split() if STAMP.exists() else []
    if done and done[0] == wanted and (not extra or extra in done):
        return
    print(f"setting up {ENVIRONMENT} (once; downloads about 200 MB) ...", file=sys.stderr, flush=True)
    python = BIN / "python"
    if not python.exists():
        venv.create(ENVIRONMENT, with_pip=False)
    target = f"{ROOT}[{extra}]" if extra else str(ROOT)
    pip = [sys.executable, "-m", "pip", "--python", str(python)]  # the system's pip, working on the environment
    if subprocess.call([*pip, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        subprocess.check_call([str(python), "-m", "ensurepip", "-q"])  # an old pip without --python
        pip = [str(python), "-m", "pip"]
    subprocess.check_call([*pip, "install", "-q", "--disable-pip-version-check", "--editable", target])
    STAMP.write_text(" ".join([wanted, *({*done[1:], extra} - {""})]))


if __name__ == "__main__":
    sys.exit(main())
