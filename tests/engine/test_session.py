"""Effects of `init`, settings of a forked process, and the cores of the threads of Taichi's pool."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from diffsim import engine
from diffsim.base.system import REGISTER_VARIABLE, usable_cores
from diffsim.engine import session

AFFINITIES = """
import json, os, sys
import diffsim as ds
ds.init(threads=1 if sys.argv[1] == "one" else None)
ds.init(threads=1 if sys.argv[1] == "one" else None)
print(json.dumps([sorted(os.sched_getaffinity(int(thread))) for thread in os.listdir("/proc/self/task")]))
"""


def pinned(threads: str) -> list[list[int]]:
    """The cores of threads that may use one core only."""
    done = subprocess.run([sys.executable, "-c", AFFINITIES, threads], capture_output=True, text=True, check=True)
    return sorted(cores for cores in json.loads(done.stdout.splitlines()[-1]) if len(cores) == 1)


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the system has no list of threads")
@pytest.mark.skipif(usable_cores() < 2, reason="one core only")
def test_as_many_workers_as_cores_have_a_core_each() -> None:
    cores = sorted(os.sched_getaffinity(0))
    expected = [[core] for core in cores] if usable_cores() == len(cores) else []
    assert pinned("all") == expected
    assert pinned("one") == []


def printed(code: str) -> list[str]:
    """Lines that a program printed."""
    done = subprocess.run([sys.executable, "-c", PROGRAM + code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


PROGRAM = """
import json, os, subprocess, sys, threading, time
import numpy as np
import diffsim as ds
from diffsim.errors import BackendError, StaleValueError
from diffsim.solvers import Heat
x = {"kappa": np.ones((16, 16)), "T": np.arange(256.0).reshape(16, 16)}
def simulate():
    return ds.Simulation(Heat(ds.Grid((16, 16), 1.0), 0.1))
def attempt(what):
    try:
        what()
        print("works")
    except ds.DiffsimError as error:
        print(type(error).__name__ + ":", error)
"""
STALE = "StaleValueError: this simulation was built before diffsim.init() changed settings, which frees its kernels; build it anew"
INITS = """
s = simulate()
s.run(x, 2)
def again():
    s.run(x, 2)
first = ds.init()
for same in {}, {"arch": "cpu"}, {"arch": "auto", "precision": first.precision}, {"threads": first.threads}:
    assert ds.init(**same) is first
    attempt(again)
for wrong in json.loads(WRONG):
    attempt(lambda: ds.init(**wrong))
    assert ds.init() is first
    attempt(again)
"""
WRONG = [
    {"arch": "cuda", "precision": "f16"},
    {"arch": "tpu"},
    {"arch": None},
    {"arch": []},
    {"arch": "vulkan", "precision": "f64"},
    {"precision": ""},
    {"precision": ["f32"]},
    {"threads": True},
    {"threads": 0},
    {"threads": 10**6},
    {"threads": 1.0},
    {"threads": "1"},
    {"anew": 1},
]


def test_settings_in_force_and_wrong_ones_change_nothing() -> None:
    lines = printed(f"WRONG = {json.dumps(json.dumps(WRONG))}\n" + INITS)
    assert lines[:4] == ["works"] * 4
    assert lines[5::2] == ["works"] * len(WRONG)
    refusals = lines[4::2]
    assert len(refusals) == len(WRONG)
    for settings, line in zip(WRONG, refusals, strict=True):
        assert line.startswith("BackendError: "), (settings, line)


def test_a_device_that_is_not_there_changes_nothing() -> None:
    """Also if Taichi finds a driver, but nothing behind it: the driver is made up here."""
    code = """
from diffsim import engine
from diffsim.engine import session
from diffsim.engine import session
s = simulate()
s.run(x, 2)
misc = engine.present().part("lang.misc")
core = getattr(misc, "_ti_core", None) or misc._qd_core
for there in (False, True):
    core.with_cuda = lambda: there
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    attempt(lambda: ds.init("cuda"))
    attempt(lambda: s.run(x, 2))
"""
    none, works, behind, still = printed(code)
    assert "Taichi finds no driver for it); give arch='cpu' (--arch cpu to the command)" in none
    assert "Taichi's driver for it finds no device); give arch='cpu' (--arch cpu to the command)" in behind
    assert works == still == "works"


def test_other_settings_and_a_wish_free_kernels() -> None:
    code = """
for change in {"precision": "f64"}, {"anew": True}:
    s = simulate()
    s.run(x, 2)
    ds.init(**change)
    attempt(lambda: s.run(x, 2))
    attempt(lambda: s.vjp(x, 2))
    attempt(lambda: simulate().run(x, 2))
"""
    assert printed(code) == [STALE, STALE, "works"] * 2


FORKS = """
def fork(what, leave):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        what()
        sys.stdout.flush()
        leave(3)
    for _ in range(400):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            print("ended", os.waitstatus_to_exitcode(status))
            return
        time.sleep(0.05)
    print("hangs")
    os.kill(child, 9)
fork(lambda: attempt(lambda: simulate().run(x, 2)), os._exit)
s = simulate()
s.run(x, 2)
busy = threading.Event()
def work():
    while not busy.is_set():
        s.run(x, 50)
workers = [threading.Thread(target=work) for _ in range(2)]
for worker in workers:
    worker.start()
for use in (lambda: s.run(x, 2), lambda: simulate(), lambda: ds.init(), lambda: ds.init(precision="f64"),
            lambda: ds.plan(s, steps=3)):
    for leave in os._exit, sys.exit:
        fork(lambda: attempt(use), leave)
busy.set()
for worker in workers:
    worker.join()
attempt(lambda: s.run(x, 2))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_forked_after_use_is_refused_at_once() -> None:
    lines = printed("import warnings\nwarnings.simplefilter('ignore')\n" + FORKS)
    assert lines[:2] == ["works", "ended 3"]
    assert lines[-1] == "works"
    uses = lines[2:-1]
    assert len(uses) == 20
    for first, ended in zip(uses[::2], uses[1::2], strict=True):
        assert "BackendError: expected a process in which diffsim was started" in first and 'get_context("spawn")' in first
        assert ended == "ended 3"


@pytest.mark.parametrize(("width", "of_f32", "of_f64"), [(16, 4, 2), (32, 16, 8), (64, 16, 8)])
def test_a_tile_fills_one_register_or_two(width: int, of_f32: int, of_f64: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forced = dataclasses.replace(engine.settings(), register_bytes=width)
    monkeypatch.setattr("diffsim.engine.session.settings", lambda: forced)
    assert (engine.lanes("f4"), engine.lanes(float)) == (of_f32, of_f64)


@pytest.mark.parametrize(
    ("vendor", "width", "forced", "compiled"),
    [
        ("AuthenticAMD", 64, "", 32),
        ("AuthenticAMD", 32, "", 32),
        ("GenuineIntel", 64, "", 64),
        ("AuthenticAMD", 64, "64", 64),
        ("", 16, "", 16),
    ],
)
def test_kernels_have_the_registers_that_the_compiler_knows(
    vendor: str, width: int, forced: str, compiled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REGISTER_VARIABLE, forced)
    monkeypatch.setattr(session, "processor_vendor", lambda: vendor)
    monkeypatch.setattr(session, "register_bytes", lambda: width)
    assert session.compiled_register_bytes() == compiled


OVERTAKEN = """
from diffsim import engine
from diffsim.engine import session
from diffsim.engine import session
os.environ["DIFFSIM_PRECISION"] = "f32"
ds.init(threads=1)
seen = []
def look():
    seen.append(WAYS[way]())
def run():
    s = simulate()
    return len(s.run(x, 2).final)
WAYS = {"settings": lambda: engine.settings().precision, "lanes": lambda: engine.lanes("f4") == engine.lanes("f8") * 2, "run": run}
forget = session.before_start[0]
def slowly():
    thread.start()
    time.sleep(0.5)  # it asks meanwhile
    forget()
session.before_start[0] = slowly
for way in WAYS:
    for precision in "f64", "f32":
        thread = threading.Thread(target=look)
        found = ds.init(threads=1, precision=precision, anew=True)
        thread.join()
        assert engine.settings() is found, (way, engine.settings(), found)
        print(way, precision, found.precision, seen.pop())
"""


def test_who_asks_while_another_thread_initialises_gets_its_settings_and_changes_nothing() -> None:
    assert printed(OVERTAKEN) == [
        f"{way} {precision} {precision} {precision if way == 'settings' else True if way == 'lanes' else 1}"
        for way in ("settings", "lanes", "run")
        for precision in ("f64", "f32")
    ]


def test_a_kernel_that_waited_while_another_thread_initialised_is_not_launched() -> None:
    """Bound kernels, kernels that are yet to be bound, whole runs and gradients."""
    code = """
from diffsim import engine
from diffsim.engine import session
from diffsim.engine import session
def uses(s):
    launcher = s._stepper.launcher
    bound = next(iter(launcher._bound.values()))
    program, workers = s._stepper.forward, ds.init().threads
    def bind():
        launcher._bound.clear()
        launcher._kernel(program, workers)
    return [bound, bind, lambda: s.run(x, 2), lambda: s.vjp(x, 2)]
for number in range(4):
    s = simulate()
    s.run(x, 2)
    use = uses(s)[number]
    with engine.lock:
        thread = threading.Thread(target=lambda: attempt(use))
        thread.start()
        time.sleep(0.3)
        ds.init(anew=True)
    thread.join()
"""
    assert printed(code) == [STALE] * 4


@pytest.mark.parametrize("initialised", ["before", "in the thread", "anew in another", "never"])
def test_the_first_use_may_be_in_any_thread(initialised: str) -> None:
    code = f"""
import diffsim.numpy as dnp
initialised = {initialised!r}
def begin():
    ds.init(anew=True)
def use():
    if initialised == "in the thread":
        begin()
    attempt(lambda: simulate().run(x, 2))
    attempt(lambda: ds.grad(lambda a: dnp.cumprod(a).sum())(np.ones(10**5)))
def in_thread(what):
    thread = threading.Thread(target=what)
    thread.start()
    thread.join()
if initialised == "before":
    begin()
elif initialised == "anew in another":
    begin()
    in_thread(begin)
in_thread(use)
in_thread(use)
use()
"""
    assert printed(code) == ["works"] * 6
