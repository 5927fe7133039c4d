"""Puts mangled scenes through loading and all checks before a run: python scripts/fuzz/scenes.py [COUNT] [SEED]"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.scene.mutations import explore

if __name__ == "__main__":
    count, seed = (int(text) for text in [*sys.argv[1:3], *["3000", "0"][len(sys.argv[1:3]) :]])
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(explore(count, seed, Path(folder)) > 0)
