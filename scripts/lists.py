#!/usr/bin/env python3
"""Write the lists of packaged scenes and of solvers into README.md, and of methods in time into docs/integrators.md, between their markers.

python scripts/lists.py
"""

from __future__ import annotations

import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
sys.path.insert(0, str(README.parent))  # this tree, whatever is installed

from diffsim.reference.lists import filled  # noqa: E402

for page in (README, README.parent / "docs" / "integrators.md"):
    page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
