#!/usr/bin/env python3
"""Plant faults in modules, one at a time, and see the tests nearest to each fail: a survivor is a fault that no test would find.

    python scripts/mutate.py diffsim/checkpoint              # 20 faults of the modules below a folder
    python scripts/mutate.py diffsim/losses/huber.py --all   # every fault of a module
    python scripts/mutate.py diffsim --number 100 --seed 3   # others of the whole package
    python scripts/mutate.py diffsim/mesh --list             # the faults, without planting them

A fault is a change of one node of the syntax tree: another operator or comparison, a number that is one more, a sign or a `not` that is
gone, a condition that is always true or false, a statement that is dropped. Texts, annotations and errors that are raised stay as they are.
The tests are `tests/` + the place of the module: its own file, else those of its folder, else those of its part; `--tests` names others.
Each fault is applied to a copy of the tracked files; the working tree stays as it is. It counts as found if a test fails with it and
passes without it: what failed is run again after the fault is taken out. A fault whose tests fail then, or take too long both times, is not
judged, and counts as one that is not found.

Some faults change nothing that can be seen, as a bound that is never met, so the share that is found is less than 1. Exit status 1: it is
less than `--least`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
PASSED, FAILED, EMPTY = 0, 1, 5  # exit statuses of pytest; after the last one it ran no tests
SECONDS = 600  # after which tests count as failed: some faults are endless loops


class Running:
    """Processes with tests, each the first of a group that a signal to this process does not reach."""

    def __init__(self) -> None:
        self.groups: set[int] = set()
        self.ended = False

    def add(self, process: subprocess.Popen[str]) -> None:
        """Enter a process that has just started. One that started while the others were ended is ended here."""
        self.groups.add(process.pid)
        if self.ended:
            end_group(process.pid)

    def end(self, number: int, _: object = None) -> None:
        """End them all, and this process, which starts no more."""
        self.ended = True
        for group in list(self.groups):
            end_group(group)
        raise SystemExit(128 + number)


def end_group(group: int) -> None:
    """Kill the processes of a group, of which none may be left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


running = Running()
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*",
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not", ast.IsNot: "is",
    ast.In: "not in", ast.NotIn: "in", ast.And: "or", ast.Or: "and",
}  # fmt: skip
"""Operators and their replacements."""
DROPPED = (ast.Assign, ast.AugAssign, ast.Expr, ast.Delete, ast.Continue, ast.Break)
"""Statements that are dropped. Where a later one needs their name, any test fails."""


@dataclass(frozen=True)
class Fault:
    """A change of one place.

    Attributes:
        path: of the file, from the root of the project.
        begin: where the changed text begins, in bytes of the file.
        end: where it ends.
        new: the replacement.
        line: its line.
        shown: the change in words.
    """

    path: str
    begin: int
    end: int
    new: str
    line: int
    shown: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.shown}"

    def plant(self, root: Path) -> bytes:
        """Change the file below `root`, and return its old text."""
        file = root / self.path
        source = file.read_bytes()
        file.write_bytes(self.changed(source))
        return source

    def changed(self, source: bytes) -> bytes:
        """The text of the file with the fault."""
        return source[: self.begin] + self.new.encode() + source[self.end :]


class Planter(ast.NodeVisitor):
    """The faults of a module."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source = path, source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.faults: list[Fault] = []

    def place(self, node: ast.AST) -> tuple[int, int]:
        """Where the text of a node begins and ends."""
        return (
            self.starts[node.lineno - 1] + node.col_offset,  # type: ignore[attr-defined]
            self.starts[node.end_lineno - 1] + node.end_col_offset,  # type: ignore[attr-defined]
        )

    def add(self, node: ast.AST, begin: int, end: int, new: str, shown: str = "") -> None:
        old = self.source[begin:end].decode()
        shown = shown or f"{' '.join(old.split())} -> {new}"
        self.faults.append(Fault(self.path, begin, end, new, node.lineno, shown))  # type: ignore[attr-defined]

    def between(self, node: ast.AST, left: ast.AST, right: ast.AST, operator: ast.AST) -> None:
        """Change the operator between two operands."""
        new = OPERATORS.get(type(operator))
        if new is not None:
            begin, end = self.place(left)[1], self.place(right)[0]
            text = self.source[begin:end].decode()
            word = text.strip(" ()\\\n\t")
            if "#" not in word and word:
                at = begin + text.index(word)
                self.add(node, at, at + len(word.encode()), new, f"{ast.unparse(node)[:80]}: {word} -> {new}")

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not isinstance(node.left, ast.Constant) or not isinstance(node.left.value, str):
            self.between(node, node.left, node.right, node.op)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.between(node, node.values[0], node.values[1], node.op)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self.between(node, left, right, operator)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, (ast.USub, ast.Not)):
            self.add(node, self.place(node)[0], self.place(node.operand)[0], " ", f"{ast.unparse(node)[:80]}: without its sign or not")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, (bool, int, float)):
            new = repr(not node.value) if isinstance(node.value, bool) else repr(node.value + 1)
            self.add(node, *self.place(node), new)

    def visit_If(self, node: ast.If) -> None:
        for value in ("True", "False"):
            self.add(node, *self.place(node.test), value, f"if {ast.unparse(node.test)[:80]}: always {value}")
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts stay."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """Messages stay; their conditions are changed."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        """Annotations stay."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.visit(node.args)
        self.body(node.body)

    def body(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self.visit(statement)

    def visit(self, node: ast.AST) -> None:
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)  # a docstring
        if isinstance(node, DROPPED) and not text and node.col_offset > 0:
            self.add(node, *self.place(node), "pass", f"without {ast.unparse(node).splitlines()[0][:80]}")
        if not text:
            super().visit(node)


def faults_of(path: str, root: Path = ROOT) -> list[Fault]:
    """Every fault of a module, in the order of the text."""
    planter = Planter(path, (root / path).read_bytes())
    planter.visit(ast.parse(planter.source))
    return sorted(planter.faults, key=lambda fault: (fault.begin, fault.end, fault.new))


def can_be_planted(fault: Fault, root: Path = ROOT) -> bool:
    """True if Python reads the module with the fault, and as another program."""
    source = (root / fault.path).read_bytes()
    try:
        return ast.dump(ast.parse(fault.changed(source))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def drawn(faults: Sequence[Fault], number: int | None, seed: int) -> list[Fault]:
    """So many of the faults that can be planted, at random; all of them without a number."""
    order = list(faults) if number is None else random.Random(seed).sample(faults, len(faults))
    return sorted(itertools.islice(filter(can_be_planted, order), number), key=lambda fault: (fault.path, fault.begin, fault.end))


def modules(places: Sequence[str], root: Path = ROOT) -> Iterator[str]:
    """Modules at these places, files or folders."""
    for place in places:
        paths = [root / place] if (root / place).is_file() else sorted((root / place).rglob("*.py"))
        if not paths:
            raise SystemExit(f"{place}: expected a module or a folder of the project, found none; give its path from the project's folder")
        yield from (path.relative_to(root).as_posix() for path in paths)


def nearest_tests(path: str, root: Path = ROOT) -> list[str]:
    """The tests nearest to a module."""
    place = Path("tests", *Path(path).parts[1:])
    own = place.with_name(f"test_{place.name}")
    if (root / own).is_file():
        return [own.as_posix()]
    folder = next(each for each in place.parents if (root / each).is_dir() and any((root / each).glob("test_*.py")))
    return [folder.as_posix()]


def copy_tree(to: Path) -> None:
    """Copy all tracked files, as they are now."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def run_tests(root: Path, tests: Sequence[str], option: str) -> tuple[int, str]:
    """Status of pytest on a copy of the tree, and the end of its output.

    Args:
        root: of the copy.
        tests: files, folders or node ids.
        option: "--cache-clear" for all of them up to the first that fails, "--last-failed" for the one that failed in the last run (all of
            them if that run came to no end).
    """
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", option, "--no-header", *tests]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    if running.ended:
        return FAILED, "not run"
    with subprocess.Popen(command, cwd=root, env=environment, text=True, start_new_session=True, **pipes) as process:
        running.add(process)
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            end_group(process.pid)  # and the processes that tests started
            return FAILED, "no end"
        finally:
            running.groups.discard(process.pid)
    return process.returncode, output[-1500:]


def fate_of(fault: Fault, tests: Sequence[str], roots: SimpleQueue[Path], verbose: bool) -> str:
    """Plant a fault in a copy of the tree that is free, and take it out again. Returns "found", "SURVIVED" or "NOT JUDGED"."""
    root, began = roots.get(), time.monotonic()
    try:
        source = fault.plant(root)
        status, output = run_tests(root, tests, "--cache-clear")
        (root / fault.path).write_bytes(source)
        failed = status not in (PASSED, EMPTY)
        again, cause = run_tests(root, tests, "--last-failed") if failed else (PASSED, "")
    finally:
        roots.put(root)
    if running.ended:
        return "NOT JUDGED"
    fate = "NOT JUDGED" if again != PASSED else "found" if failed else "SURVIVED"
    print(f"{fate}  {fault}  ({time.monotonic() - began:.0f} s)", flush=True)
    if again != PASSED:
        print(f"expected {' '.join(tests)} to pass without it, got status {again}:\n{cause}", flush=True)
    if verbose:
        print(output, flush=True)
    return fate


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant the faults and print the fate of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="+", help="modules or folders of modules, from the project's folder")
    parser.add_argument("--number", type=int, default=20, help="faults that are drawn (20)")
    parser.add_argument("--all", action="store_true", help="plant all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    parser.add_argument("--tests", nargs="+", help="files, folders or node ids for pytest, in place of the nearest")
    parser.add_argument("--least", type=float, default=0.0, help="the least share that must be found (0)")
    parser.add_argument("--list", action="store_true", help="print the faults and plant none")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree that are tested at once (1)")
    parser.add_argument("--verbose", action="store_true", help="show the output of the tests for each fault")
    asked = parser.parse_args(arguments)
    every = [fault for path in modules(asked.places) for fault in faults_of(path)]
    faults = drawn(every, None if asked.all else asked.number, asked.seed)
    if asked.list:
        print("\n".join(map(str, faults)))
        return 0
    tests = {fault.path: asked.tests or nearest_tests(fault.path) for fault in faults}
    with tempfile.TemporaryDirectory(prefix="diffsim-mutate-") as folder:
        roots: SimpleQueue[Path] = SimpleQueue()
        for job in range(asked.jobs):
            roots.put(Path(folder) / str(job))
            copy_tree(Path(folder) / str(job))
        with ThreadPoolExecutor(asked.jobs) as pool:
            fates = list(pool.map(lambda fault: fate_of(fault, tests[fault.path], roots, asked.verbose), faults))
    noticed = fates.count("found")
    print(f"{noticed} of {len(faults)} planted faults were found, {fates.count('NOT JUDGED')} were not judged")
    return int(noticed < asked.least * len(faults))


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, running.end)
    raise SystemExit(main())
