"""NumPy's own tests, each call made inside of a derivative too: python scripts/fuzz/numpy_suite.py [MODULE ...]

The test modules of the installed NumPy run with recorders in place of NumPy's functions, of the methods of arrays and of the operators
(`numpy_recorder.py` beside this file). A recorder gives a test the results of NumPy, and repeats the call with `diffsim.numpy` twice: with
the arrays differentiated, and with arrays that are constants. Values, types, shapes and refusals are compared; the result of NumPy's
test does not count. Modules run in processes of their own, one after the other. The status is 1 if something differs that is not
in `ACCEPTED`.
"""

from __future__ import annotations

import collections
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MODULES = (
    *(f"_core.tests.test_{name}" for name in ("numeric", "umath", "shape_base", "einsum", "function_base")),
    *(f"_core.tests.test_{name}" for name in ("item_selection", "indexing")),
    *(
        f"lib.tests.test_{name}"
        for name in (
            "function_base",
            "shape_base",
            "twodim_base",
            "arraysetops",
            "index_tricks",
            "nanfunctions",
            "arraypad",
            "stride_tricks",
            "type_check",
            "ufunclike",
            "polynomial",
        )
    ),
    "linalg.tests.test_linalg",
    "fft.tests.test_pocketfft",
    "fft.tests.test_helper",
)
SECONDS = 900
"""Time limit of a module."""

ACCEPTED: tuple[tuple[str, str, str], ...] = (
    (".*", "<subclass>|<foreign>", "an array of a class of its own counts as a plain one (matrices and masked arrays are refused)"),
    (".*", "<O>", "Python objects have no derivative, and NumPy lets them decide on types"),
    (".*", "<[mM]>", "dates have no derivative"),
    (".*", "^raised: AssertionError: cotangent of .*<swapped>", "a cotangent has the byte order of the machine"),
    ("pad", "'empty'|mode=empty", "entries that NumPy leaves undefined are zeros"),
    ("shares_memory", "^value", "the recorder copies the arguments, which share memory in NumPy's test"),
    ("diff", "^kind: ndarray where NumPy gives .* parts", "of no differences of a list NumPy gives the list"),
    ("interp", "^value: .*(inf|nan)", "infinite complex values: NumPy takes real and imaginary parts apart"),
    (
        r"linalg\.eigh|linalg\.eigvalsh",
        "^value",
        "of a matrix that is not symmetric the symmetric part counts; vectors have any sign or phase",
    ),
    ("method.view|apply_along_axis", r"^raised: .*Array.view\(\) takes", "views as another type or class have no derivative"),
    (
        "array|asarray",
        "^value: .*uint64",
        "NumPy converts the entries of a list one by one, of differentiated ones the list has a type",
    ),
    (r"float_power\..*", "has no attribute", "float_power is a plain function here; power has these methods"),
    ("geomspace|logspace", "^value: .*int", "whole numbers that rounding puts on one side of an edge or the other"),
)
"""Departures that are known: a pattern of functions, a pattern of the difference, and the reason why it is right."""


def reason(name: str, text: str) -> str:
    """Why a difference is accepted; "" if it is not."""
    return next((why for names, what, why in ACCEPTED if re.fullmatch(names, name) and re.search(what, text)), "")


def recorded(module: str, folder: Path) -> dict[str, Any]:
    """Results of the recorder for a module: compared calls and differences, for each function."""
    path = folder / f"{module}.json"
    command = [sys.executable, str(Path(__file__).with_name("numpy_recorder.py")), f"numpy.{module}", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"failure": f"took more than {SECONDS} s"}
    if not path.exists():
        return {"failure": (done.stderr or done.stdout)[-500:] or f"ended with status {done.returncode}"}
    return json.loads(path.read_text())


def main() -> None:
    modules = sys.argv[1:] or MODULES
    calls: collections.Counter[str] = collections.Counter()
    refusals: collections.Counter[str] = collections.Counter()
    new: dict[str, list[str]] = collections.defaultdict(list)
    accepted: collections.Counter[str] = collections.Counter()
    failures, skipped = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for module in modules:
            results = recorded(module, Path(folder))
            if "failure" in results:
                failures.append(f"{module}: {results['failure']}")
                continue
            print(f"{module}: {sum(results['calls'].values())} calls in {results['seconds']} s", flush=True)
            calls.update(results["calls"])
            skipped += results["skipped"]
            for name, texts in results["differences"].items():
                for text in texts:
                    why = reason(name, text)
                    if why:
                        accepted[why] += 1
                    elif text.startswith("refused: "):
                        refusals[name] += 1
                    else:
                        new[name].append(text)
    print(f"\n{'function':32} {'compared':>9} {'refused':>8} {'new':>5}")
    for name in sorted(calls):
        print(f"{name:32} {calls[name]:9} {refusals[name]:8} {len(new[name]):5}  {new[name][0][:220] if new[name] else ''}")
    print(f"\n{sum(calls.values())} calls of {len(calls)} functions, methods and operators compared, {skipped} left out")
    print(f"{refusals.total()} forms that NumPy takes are refused by a message of diffsim's")
    for why, count in accepted.most_common():
        print(f"{count:6} accepted: {why}")
    for text in failures:
        print("FAILED", text)
    print(f"{sum(map(len, new.values()))} differences that are not accepted")
    sys.exit(bool(failures or any(new.values())))


if __name__ == "__main__":
    main()
