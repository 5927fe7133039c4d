"""The program of docs/domains.md runs under MPI; tests/test_docs.py runs it in one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.domains.test_domains import LAUNCHER, ROOT, WITH_MPI
from tests.test_docs import code

PAGE = ROOT / "docs" / "domains.md"
REPORT = """
import sys
from hashlib import sha256
sys.stdout.write(f"{sha256(np.array(loss).tobytes() + gradient['c'].tobytes()).hexdigest()} {shot.box[1].stop - shot.box[1].start}\\n")
sys.stdout.flush()
"""


@WITH_MPI
def test_the_page_gives_the_same_bits_on_two_ranks(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(code(PAGE) + REPORT)
    commands = [[sys.executable, str(program)], [str(LAUNCHER), "-n", "2", sys.executable, str(program)]]
    one, two = (subprocess.run(each, cwd=ROOT, capture_output=True, text=True, timeout=600) for each in commands)
    assert one.returncode == 0 and two.returncode == 0, one.stderr + two.stderr
    (bits, columns), both = one.stdout.split(), [line.split() for line in two.stdout.splitlines()]
    assert columns == "80" and both == [[bits, "40"], [bits, "40"]]
