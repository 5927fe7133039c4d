"""Plant faults, one at a time, and see the tests nearest to each fail: what survives is a fault that no test would find.

    python scripts/mutate.py                     # all of scripts/faults.toml
    python scripts/mutate.py gravity sponge      # those whose name contains one of these words
    python scripts/mutate.py --list

All of the tests run once before, and must pass. Each fault is applied to a copy of the tracked files; the working tree stays as it is.
Exit status 1: a fault survived, or could not be planted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
FAULTS = Path(__file__).with_name("faults.toml")
PASSED, FAILED, USAGE, EMPTY = 0, 1, 4, 5  # exit statuses of pytest; after the last two it ran no tests
SECONDS = 600  # after which tests count as failed: some faults are endless loops


@dataclass(frozen=True)
class Fault:
    """A change of one place.

    Attributes:
        name: what is wrong then.
        path: of the file.
        old: text that stands there once.
        new: what is put in its place.
        tests: files and node ids that pytest is given, the nearest to the place.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    def plant(self, root: Path) -> str:
        """Change the file below `root`, and return what it was."""
        file = root / self.path
        text = file.read_text()
        count = text.count(self.old)
        if count != 1:
            raise SystemExit(
                f"{self.name}: expected its text once in {self.path}, found it {count} times; bring scripts/faults.toml up to date"
            )
        file.write_text(text.replace(self.old, self.new))
        return text


def load(words: Sequence[str] = ()) -> list[Fault]:
    """The faults whose name contains one of the words; without words, all."""
    faults = [Fault(**{**entry, "tests": tuple(entry["tests"])}) for entry in tomllib.loads(FAULTS.read_text())["fault"]]
    return [fault for fault in faults if not words or any(word in fault.name for word in words)]


def copy_tree(to: Path) -> None:
    """Copy all tracked files, as they are now."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def run_tests(root: Path, tests: Sequence[str], seconds: float | None = SECONDS) -> tuple[int, str]:
    """Status of pytest on a copy of the tree, and the end of its output."""
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    try:
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return FAILED, "no end"
    return done.returncode, (done.stdout + done.stderr)[-1500:]


def require_sound(root: Path, faults: Sequence[Fault]) -> None:
    """Refuse to judge by tests that fail anyway."""
    tests = sorted({test for fault in faults for test in fault.tests})
    status, output = run_tests(root, tests, None)
    if status != PASSED:
        raise SystemExit(f"expected the tests to pass without a fault, got status {status}:\n{output}")


def found_by_its_tests(fault: Fault, roots: SimpleQueue[Path], verbose: bool) -> bool:
    """Plant a fault in a copy of the tree that is free, and take it out again."""
    root, began = roots.get(), time.monotonic()
    text = fault.plant(root)
    status, output = run_tests(root, fault.tests)
    (root / fault.path).write_text(text)
    roots.put(root)
    found = status not in (PASSED, USAGE, EMPTY)
    print(f"{'found' if found else 'SURVIVED'}  {fault.name}  ({time.monotonic() - began:.0f} s)", flush=True)
    if verbose or status == USAGE:
        print(output, flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant the faults and print what became of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only faults whose name contains one of these")
    parser.add_argument("--list", action="store_true", help="print the faults and plant none")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree that are tested at once (1)")
    parser.add_argument("--verbose", action="store_true", help="show what the tests said of each fault")
    asked = parser.parse_args(arguments)
    faults = load(asked.words)
    if asked.list:
        print("\n".join(f"{fault.path}: {fault.name}" for fault in faults))
        return 0
    with tempfile.TemporaryDirectory(prefix="diffsim-mutate-") as folder:
        roots: SimpleQueue[Path] = SimpleQueue()
        for job in range(asked.jobs):
            roots.put(Path(folder) / str(job))
            copy_tree(Path(folder) / str(job))
        require_sound(Path(folder) / "0", faults)
        with ThreadPoolExecutor(asked.jobs) as pool:
            found = list(pool.map(lambda fault: found_by_its_tests(fault, roots, asked.verbose), faults))
    survivors = [fault.name for fault, seen in zip(faults, found, strict=True) if not seen]
    print(f"{len(faults) - len(survivors)} of {len(faults)} planted faults were found")
    for name in survivors:
        print(f"  survived: {name}")
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main())
