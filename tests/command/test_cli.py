"""The command: its output, its exit codes, and one clear message for each kind of bad input."""

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import textwrap
import threading
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import diffsim
from diffsim import engine
from diffsim.base import start
from diffsim.command import cli
from diffsim.engine import settings
from diffsim.errors import SceneError, StorageError
from diffsim.scene import Outcome, Scene, room, scene_files
from diffsim.scene.disk.folder import held
from diffsim.scene.schema.toml import to_toml
from tests.scene.tiny import ACOUSTIC, HEAT, WAVE, as_toml, scene, tables

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """In an empty folder, on the machine as the other tests have it: a new `init` would kill their simulations."""
    monkeypatch.chdir(tmp_path)
    right = cli.init

    def init(arch, precision, threads, engine):
        return right(arch, precision, threads, engine=engine) if (arch, threads) != ("auto", None) else settings()

    monkeypatch.setattr(cli, "init", init)


@pytest.fixture(autouse=True)
def _without_figures(request, monkeypatch):
    """They take most of the time of a small run, and the tests of the report look at them."""
    if "report" not in request.function.__name__:
        monkeypatch.setattr("diffsim.report.write_report", lambda outcome, folder: None)


@pytest.fixture
def written(tmp_path):
    def write(base, name="own.toml", **changes):
        path = tmp_path / name
        path.write_text(to_toml(scene(base, **changes)))
        return str(path)

    return write


def test_run_prints_the_acceptance_and_exits_0(written, capsys, tmp_path):
    assert cli.main(["run", written(HEAT), "--set", "name=warm"]) == 0
    output = capsys.readouterr()
    assert "pass  loss reduction: " in output.out
    assert "limit at least 5" in output.out
    assert "results in runs/warm" in output.out
    assert "\nit stopped: all 8 iterations were done" in output.out
    assert "iteration   1 of 8" in output.err
    outcome = Outcome.load(tmp_path / "runs" / "warm")
    assert outcome.passed
    kappa = outcome.unknowns["kappa"]
    numbers = ", ".join(f"{value:.4g}" for value in (kappa.answer[0, 0], kappa.answer[-1, -1]))
    assert f"\nkappa: by region, {kappa.unit}: {numbers}\n" in output.out


def test_a_run_that_is_there_already_is_named(written, capsys, monkeypatch):
    path = written(HEAT, accept=[], optimise__iterations=1)
    assert cli.main(["run", path, "--out", "there"]) == 0
    assert "holds this run" not in capsys.readouterr().err

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("diffsim.scene.run.observe", stop)
    assert cli.main(["run", path, "--out", "there"]) == 130
    assert capsys.readouterr().err.count("there holds this run, finished; running it again") == 1


def test_missed_acceptance_exits_1_with_its_results_written(written, capsys, tmp_path):
    assert cli.main(["run", written(HEAT, accept=[{"quantity": "loss_reduction", "at_least": 1e9}]), "--out", "there", "--certify"]) == 1
    output = capsys.readouterr()
    assert "FAIL  loss reduction" in output.out
    assert "pass  dot product, T" in output.out
    outcome = Outcome.load(tmp_path / "there")
    assert not outcome.passed
    assert all(line.passed for line in outcome.certificate)
    assert Scene.load(tmp_path / "there" / "scene.toml").name == "warm"


def test_plan_predicts_and_draws(written, capsys, tmp_path):
    path = written(ACOUSTIC)
    assert cli.main(["plan", path, "--memory", "120 kB", "--draw", "plan.png"]) == 0
    output = capsys.readouterr().out
    for word in (
        "Gradient of 24 steps, at most 120 kB of memory",
        "what is kept",
        "forward runs",
        "(binomial)",
        "more memory",
        "\n> ",
        "one of 2 shots",
    ):
        assert word in output
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    assert not (tmp_path / "runs").exists()


def test_memory_on_the_command_line_takes_the_place_of_the_scene(written, capsys, tmp_path):
    path = written(ACOUSTIC, checkpoint={"slots": 3}, accept=[], optimise__iterations=1)
    assert cli.main(["run", path, "--memory", "120 kB", "--out", "less"]) == 0
    outcome = Outcome.load(tmp_path / "less")
    assert outcome.gradient.peak_predicted <= 120_000
    assert outcome.settings["checkpoint"] == {"memory": "120 kB"}
    capsys.readouterr()
    refused(["plan", path, "--memory", "2 kB"], ("checkpoint.memory:", "at least", "got 2 kB", "raise the memory"), capsys)
    refused(["run", path, "--memory", "lots"], ("checkpoint.memory:", "'lots'", "write for example"), capsys)


def test_states_on_disk_go_to_the_folder_of_the_run_and_leave_it(written, tmp_path):
    """With the same search, bit for bit, as in memory."""
    changes = {"accept": [], "optimise__iterations": 2}
    disk = {"schedule": "spilling", "slots": 2, "disk": "1 MB", "compression": "lossless"}
    assert cli.main(["run", written(ACOUSTIC, checkpoint=disk, **changes), "--out", "disk"]) == 0
    assert cli.main(["run", written(ACOUSTIC, **changes), "--out", "memory"]) == 0
    on_disk, in_memory = Outcome.load(tmp_path / "disk"), Outcome.load(tmp_path / "memory")
    assert on_disk.schedule.startswith("Spilling(steps=24, slots=2") and in_memory.schedule == "StoreAll(steps=24)"
    assert on_disk.unknowns["c"].answer.tobytes() == in_memory.unknowns["c"].answer.tobytes()
    names = {path.name for path in (tmp_path / "disk").iterdir()}
    assert names == {path.name for path in (tmp_path / "memory").iterdir()}


def test_gradcheck(written, capsys, monkeypatch):
    path = written(HEAT)
    assert cli.main(["gradcheck", path]) == 0
    assert "warm: " in capsys.readouterr().out
    monkeypatch.setattr("diffsim.scene.search.certificate.MISMATCH", {"f64": 0.0, "f32": 0.0})
    monkeypatch.setattr("diffsim.certificate.engine.FACTORS", ())  # no rounding excuses a difference
    assert cli.main(["gradcheck", path]) == 1
    assert "FAIL  " in capsys.readouterr().out


def test_a_certificate_that_cannot_judge_exits_3(written, capsys):
    """After one step nothing has come from the source to the receivers."""
    path = written(ACOUSTIC, certificate={"steps": 1}, misfit=[{"of": "traces", "state": "p", "normalise": False}])
    assert cli.main(["gradcheck", path]) == 3
    out = capsys.readouterr().out
    assert "cannot judge  " in out and "take more steps" in out and "FAIL" not in out


def test_list_names_every_scene(capsys):
    assert cli.main(["list"]) == 0
    output = capsys.readouterr().out
    assert {"tsunami", "acoustic_crosswell", "heat_mri"} <= set(scene_files())
    assert all(name in output for name in scene_files())


def test_info(capsys):
    assert cli.main(["info"]) == 0
    output = capsys.readouterr().out
    for word in ("arch", "engine", "lanes", "registers", "threads", "cores", "diffsim", engine.chosen(), "numpy"):
        assert word in output


def test_new_tells_a_command_that_can_be_pasted(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["new", "two words"]) == 0
    assert "diffsim run 'two words.toml'" in capsys.readouterr().out


def test_new_writes_a_commented_scene_that_runs(capsys, tmp_path):
    assert cli.main(["new", "mine"]) == 0
    text = (tmp_path / "mine.toml").read_text()
    assert text.count("#") > 20
    assert "NAME" not in text.replace("[fields.NAME]", "")
    assert cli.main(["new", "mine"]) == 2
    assert "mine.toml; choose another name" in capsys.readouterr().err
    smaller = ["grid.shape=[30, 40]", "time.steps=60", "optimise.iterations=1", "accept=[]", "sources.f.lines.0.count=1"]
    smaller += ["sources.f.lines.0.stop=[200.0, 110.0]", "receivers.p.lines.0.stop=[250.0, 380.0]"]
    assert cli.main(["run", "mine.toml", *(word for change in smaller for word in ("--set", change))]) == 0


def test_report_is_written_beside_the_results(written, tmp_path):
    assert cli.main(["run", written(HEAT), "--out", "reported"]) == 0
    assert (tmp_path / "reported" / "report.html").stat().st_size > 10_000
    assert list((tmp_path / "reported").glob("*.png"))


def test_module_runs_as_the_command():
    process = subprocess.run(
        [sys.executable, "-m", "diffsim", "info", "--threads", "1", "--precision", "f64"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert "[Taichi]" not in process.stdout
    assert "lanes" in process.stdout


# bad input: changes to a scene (or its text, or arguments), and the parts of the message: key, expected, found, remedy

BAD_SCENES = [
    (
        "unknown key",
        ACOUSTIC,
        {"equation__spnge": 3},
        ("equation.spnge:", "expected one of type, order", "'spnge'", "did you mean sponge?"),
    ),
    ("wrong type", ACOUSTIC, {"time__steps": "many"}, ("time.steps:", "expected an integer", "'many'", "correct the value")),
    (
        "data file missing",
        ACOUSTIC,
        {"unknowns__c__start": {"file": {"path": "no.npy"}}},
        ("unknowns.c.start.file.path:", "no.npy", "correct"),
    ),
    (
        "data file unreadable",
        ACOUSTIC,
        {"unknowns__c__start": {"file": {"path": "text.npy"}}},
        (".path:", "expected a NumPy", "save it by"),
    ),
    (
        "NaN in a data file",
        ACOUSTIC,
        {"unknowns__c__start": {"file": {"path": "nan.npy"}}},
        (".path:", "expected finite", "nan at (3, 4)", "fill"),
    ),
    (
        "wrong shape",
        ACOUSTIC,
        {"unknowns__c__start": {"file": {"path": "shape.npy"}}},
        (".path:", "(16, 15)", "found (5, 6)", "resample it"),
    ),
    (
        "negative speed",
        ACOUSTIC,
        {"unknowns__c__start__constant": -5.0},
        ("unknowns.c.start:", "expected positive", "-5 m/s", "correct the data"),
    ),
    ("negative depth", WAVE, {"fields__H__constant": 900.0}, ("fields.H:", "expected zero or more", "-100 m", "correct the data")),
    ("unstable dt", ACOUSTIC, {"time__dt": 4e-3}, ("time.dt:", "dt = 0.004 s", "exceeds the stable", "lower dt")),
    ("source outside", ACOUSTIC, {"sources__f__points__0": [40.0, -9.0]}, ("sources.f:", "expected 0 to 140", "x = -9", "move it")),
    ("receiver outside", WAVE, {"receivers__eta__points__0": [9e9, 0.0]}, ("receivers.eta:", "expected 0 to 6500", "y = 9e+09", "move it")),
    (
        "zero slots",
        ACOUSTIC,
        {"checkpoint__slots": 0},
        ("checkpoint.slots:", "expected a number greater than or equal to 1", "found 0", "correct"),
    ),
]


@pytest.mark.parametrize(("what", "base", "changes", "words"), BAD_SCENES, ids=[case[0] for case in BAD_SCENES])
def test_bad_scene(what, base, changes, words, tmp_path, capsys, written):
    np.save(tmp_path / "nan.npy", np.where(np.arange(240).reshape(16, 15) == 49, np.nan, 2000.0))
    np.save(tmp_path / "shape.npy", np.zeros((5, 6)))
    (tmp_path / "text.npy").write_text("no array")
    path = tmp_path / "bad.toml"
    path.write_text(as_toml(tables(base, **changes)))
    refused(["run", str(path), "--out", "out"], words, capsys)
    assert not (tmp_path / "out").exists()


def test_bad_arguments(tmp_path, capsys, written):
    path = written(HEAT)
    refused(["run", "tsunmai"], ("scene:", "expected a TOML file", "'tsunmai'", "did you mean tsunami?"), capsys)
    refused(["run", str(tmp_path)], ("scene:", "expected a TOML file", str(tmp_path)), capsys)
    refused(["run", path, "--arch", "abacus", "--out", "out"], ("arch = 'abacus'", "choose one of cpu, cuda, vulkan"), capsys)
    refused(["run", path, "--threads", "4096", "--out", "out"], ("threads = 4096", "from 1 to", "or fewer"), capsys)
    refused(["run", path, "--set", "time", "--out", "out"], ("--set time:", "expected key=value", "write --set"), capsys)
    assert not (tmp_path / "out").exists()
    assert cli.main(["run", path, "--out", "out"]) == 0
    capsys.readouterr()
    held = ("--out:", "expected an empty folder or this same run", "found another run in out", "name another folder")
    refused(["run", path, "--out", "out", "--set", "seed=8"], held, capsys)
    refused(["run", path, "--out", path], ("--out:", "expected a folder", "own.toml", "name another"), capsys)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_that_may_not_be_written(tmp_path, capsys, written):
    (tmp_path / "closed").mkdir(mode=0o500)
    refused(["run", written(HEAT), "--out", "closed/run"], ("closed",), capsys)


def test_full_disk_is_no_traceback(written, capsys, monkeypatch, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device", "result.npz")

    monkeypatch.setattr("diffsim.scene.disk.outcome.write_aside", full)
    refused(["run", written(HEAT), "--out", "out"], ("No space left on device", "result.npz"), capsys)
    assert not (tmp_path / "out" / "result.npz").exists()


def refused(arguments, words, capsys):
    assert cli.main(arguments) == 2
    output = capsys.readouterr()
    message = output.err[output.err.index("diffsim: ") :]  # after the progress
    for word in words:
        assert word in message, message
    assert "Traceback" not in output.err
    assert output.out == ""
    assert message.count("\n") == 1


# names, files, folders, signals


@pytest.mark.parametrize(
    "name",
    [
        "../../../evil",
        "/tmp/evil",
        "..",
        "a/b",
        "a\\b",
        "C:evil",
        "a\0b",
        "a\nb",
        "",
        ".hidden",
        "x" * 999,
        "CON",
        "aux.x",
        "Nul .tar.gz",
        "com¹",
        "LPT9.",
    ],
)
def test_a_name_is_no_path(name, written, tmp_path, capsys):
    path = tmp_path / "own.toml"
    path.write_text(f"name = {json.dumps(name)}\n" + as_toml(tables(HEAT, name=None)))
    refused(["run", str(path)], ("name: expected ", "; "), capsys)
    assert [entry.name for entry in tmp_path.iterdir()] == ["own.toml"]


def test_only_files_below_a_folder_are_read_where_that_is_asked(tmp_path, capsys):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    for folder in (inside, outside):
        np.save(folder / "c.npy", np.full((16, 15), 2000.0))
    (inside / "link.npy").symlink_to(outside / "c.npy")
    for name, good in (("c.npy", True), ("../outside/c.npy", False), (str(outside / "c.npy"), False), ("link.npy", False)):
        for place in ({"unknowns__c__start": {"file": {"path": name}}}, {"truth__fields__c": {"file": {"path": name}}}):
            (inside / "own.toml").write_text(as_toml(tables(ACOUSTIC, **place)))
            assert Scene.load(inside / "own.toml")
            if good:
                assert Scene.load(inside / "own.toml", read_below=inside)
            else:
                words = ("file.path: expected a file below", "--read-below", name, "move the file")
                refused(["plan", str(inside / "own.toml"), "--read-below", str(inside)], words, capsys)
    refused(["run", str(inside / "own.toml"), "--read-below", "nowhere"], ("--read-below: expected a folder", "nowhere"), capsys)


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    title, version = engine.present().title, metadata.version(engine.chosen())
    assert capsys.readouterr().out == f"diffsim {diffsim.__version__} ({title} {version}, Python {platform.python_version()})\n"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda how: how.name)
@pytest.mark.parametrize("after", [0.15, 0.5, 0.9])
def test_a_signal_while_the_command_is_imported_is_quiet(how, after):
    process = subprocess.Popen(
        [sys.executable, "-m", "diffsim", "list"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(after)
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    if process.returncode == -how or "init_import_site" in errors:  # before the first line of diffsim: Python itself
        return
    assert process.returncode in (0, 128 + how), errors
    assert "Traceback" not in errors.partition("diffsim: ")[2]


def test_a_signal_in_the_import_ends_it_with_its_code(tmp_path):
    """Struck from within: as NumPy is imported."""
    program = f"""
        import importlib.abc, os, runpy, signal, sys
        class Struck(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == "numpy":
                    os.kill(os.getpid(), int(sys.argv[1]))
        sys.meta_path.insert(0, Struck())
        sys.argv[0] = "diffsim"
        sys.path.insert(0, {str(ROOT)!r})
        import diffsim
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    for how, words in ((signal.SIGINT, "interrupted"), (signal.SIGTERM, "ended by SIGTERM"), (signal.SIGHUP, "ended by SIGHUP")):
        done = subprocess.run([sys.executable, tmp_path / "program.py", str(int(how))], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (128 + how, "", f"diffsim: {words}\n")


def test_importing_diffsim_elsewhere_changes_no_signal():
    program = "import signal; import diffsim; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT).stdout == "True\n"


@pytest.mark.parametrize(
    ("arguments", "seen", "command"),
    [
        (["/bin/diffsim", "run"], ["/bin/diffsim", "run"], True),
        (["C:/Scripts/diffsim.exe"], ["C:/Scripts/diffsim.exe"], True),
        (["-m", "diffsim"], ["-m"], True),
        (["-I", "-W", "error", "-m", "diffsim", "run", "-m"], ["-m", "run", "-m"], True),
        (["-mdiffsim", "run"], ["-m", "run"], True),
        (["train.py", "-m", "diffsim"], ["train.py", "-m", "diffsim"], False),
        (["-m", "mine", "-m", "diffsim"], ["-m", "-m", "diffsim"], False),
        (["-m", "diffsim_tools", "diffsim"], ["-m", "diffsim"], False),
        (["diffsim.py"], ["diffsim.py"], False),
        (["-c", "import diffsim", "-m", "diffsim"], ["-c", "-m", "diffsim"], False),
        ([], [""], False),
    ],
)
def test_only_the_command_is_taken_for_it(arguments, seen, command, monkeypatch):
    """The state of Python's `sys` while a program of these arguments imports diffsim."""
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, *arguments])
    monkeypatch.setattr(sys, "argv", seen)
    assert start.is_command() is command
    answers = []
    thread = threading.Thread(target=lambda: answers.append(start.is_command()))
    thread.start()
    thread.join()
    assert answers == [False]


@pytest.mark.parametrize("arguments", [["train.py", "-m", "diffsim"], ["-m", "mine", "-m", "diffsim"], ["diffsim.py", "run"]])
def test_a_program_of_a_user_keeps_its_signals(arguments, tmp_path):
    look = f"""
import signal, sys
sys.path[0] = {str(ROOT)!r}
import diffsim
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    (tmp_path / "mine").mkdir()
    for name in ("train.py", "diffsim.py", "mine/__init__.py"):
        (tmp_path / name).write_text(look)
    (tmp_path / "mine" / "__main__.py").touch()
    done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr


def test_a_second_run_in_the_folder_is_refused_while_the_first_goes_on(written, capsys, tmp_path):
    path = written(HEAT)
    with held(tmp_path / "out"):
        words = ("out: expected one that is not in use", f"the process {os.getpid()} uses it", "wait until it has ended")
        refused(["run", path, "--out", "out"], words, capsys)
    assert not (tmp_path / "out").exists()
    assert cli.main(["run", path, "--out", "out"]) == 0
    before = (tmp_path / "out" / "journal.bin").read_bytes()
    capsys.readouterr()
    with held(tmp_path / "out"):
        refused(["run", path, "--out", "out"], words, capsys)
    assert (tmp_path / "out" / "journal.bin").read_bytes() == before


def test_room_is_asked_for_before_the_data_are_made(written, capsys, monkeypatch, tmp_path):
    path = written(HEAT)
    monkeypatch.setattr("diffsim.scene.run.observe", lambda *_: pytest.fail("the data were made"))
    with monkeypatch.context() as patch:
        patch.setattr("diffsim.scene.room.free_disk", lambda _: 1000)
        refused(["run", path, "--out", "out"], ("out/", "expected room for a file of", " free; make room"), capsys)
    with monkeypatch.context() as patch:

        def limited(*_):
            raise OSError(27, "File too large")

        patch.setattr("os.truncate", limited)
        refused(["run", path, "--out", "out"], ("out/", "'File too large'", " free; raise the limit", "ulimit"), capsys)
    assert not (tmp_path / "out").exists()


def test_disk_space_that_the_run_has_already_is_not_asked_for_again(tmp_path, monkeypatch):
    """Files that are used again or deleted: a disk that is full of them has the room for them."""
    files = {room.RESULT: 1000, "journal.bin": 500, "sweep": 300, "states": 4000}
    monkeypatch.setattr(room, "wanted", lambda _: files)
    for name, size in {room.RESULT: 1000, "journal.bin": 200, "sweep-1": 100, "sweep-2": 150, "states-0": 9000}.items():
        (tmp_path / name).write_bytes(bytes(size))
    needed = 1000 + 300 + 50 + 0
    monkeypatch.setattr(room, "free_disk", lambda _: needed)
    room.require_room(None, tmp_path)
    monkeypatch.setattr(room, "free_disk", lambda _: needed - 1)
    with pytest.raises(StorageError, match="expected room for"):
        room.require_room(None, tmp_path)


@pytest.mark.parametrize("content", ["5", "[]", "{}", '"x"', "null", '{"search": 1, "whole": 2}', "[" * 100_000, "", "\0", "{"])
def test_a_record_of_a_run_that_is_none(content, written, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").write_text(content)
    for more in ([], ["--resume"]):
        refused(["run", written(HEAT), "--out", "out", *more], ("run.json, found", "name another folder"), capsys)


def test_results_that_are_damaged(written, tmp_path):
    assert cli.main(["run", written(HEAT), "--out", "out"]) == 0
    result, outcome = tmp_path / "out" / "result.npz", tmp_path / "out" / "outcome.json"
    whole, text = result.read_bytes(), outcome.read_text()
    rng = np.random.default_rng(0)
    broken = [whole[: int(cut)] for cut in rng.integers(0, len(whole), 20)]
    broken += [whole[:spot] + bytes([whole[spot] ^ 255]) + whole[spot + 1 :] for spot in map(int, rng.integers(0, len(whole), 40))]
    for content in broken:
        result.write_bytes(content)
        with contextlib.suppress(SceneError):  # where it does not matter, such as a time of day
            assert Outcome.load(tmp_path / "out")
    result.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SceneError, match="expected a finished run with"):
        Outcome.load(tmp_path / "out")
    result.write_bytes(whole)
    for content in (
        "5",
        "[]",
        '{"traces": [1]}',
        "[" * 100_000,
        text.replace('"traces": {', '"traces": 3, "x": {'),
        text[: len(text) // 2],
    ):
        outcome.write_text(content)
        with pytest.raises(SceneError, match="expected a finished run with"):
            Outcome.load(tmp_path / "out")


def test_a_reader_that_has_read_enough_is_no_error(written):
    """As in `diffsim plan ... | head -1`: the pipe is closed before the command writes."""
    command = [sys.executable, "-m", "diffsim", "list"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == "" and process.wait(timeout=60) not in (0, 2)
