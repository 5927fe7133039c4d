"""The command `diffsim`: plan and run a scene, show and compare runs, check a gradient, list and make scenes, show the machine, and
measure it.

Exit code: 0 all is well; 1 an acceptance figure or a line of the certificate fails; 2 bad input, with one message;
3 nothing fails, but a line of the certificate cannot judge; 130 interrupted; 143 and 129 ended by SIGTERM and SIGHUP.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import sys
import webbrowser
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

from diffsim.base.arguments import path_of, plural
from diffsim.base.messages import cut, message_shown, path_shown, shown
from diffsim.base.start import ENDINGS, exit_code, how
from diffsim.base.system import REGISTER_VARIABLE, register_forced
from diffsim.certificate import Line
from diffsim.certificate.line import judged
from diffsim.checkpoint.planning.table import seconds_text
from diffsim.checkpoint.storage.failure import failure
from diffsim.command.tune import WORK, best_width, fastest, measured
from diffsim.domains.mpi import end_all_ranks, leave_together, ranks
from diffsim.engine import ENGINES, Tuned, chosen, init, keep, kept_in, name_of, usual_register_bytes
from diffsim.errors import BackendError, DiffsimError, SceneError
from diffsim.scene import Scene, scene_files
from diffsim.scene.disk.files import write_aside
from diffsim.scene.disk.interrupt import Interrupt, Stopped
from diffsim.scene.disk.outcome import Outcome
from diffsim.scene.disk.progress import Display
from diffsim.scene.disk.versions import versions
from diffsim.scene.notes import notes_of
from diffsim.scene.run import machine
from diffsim.scene.search.plan import plan_of
from diffsim.scene.words.model import file_name

OK, FAILED, BAD_INPUT, NOT_JUDGED = 0, 1, 2, 3
CODES = {True: OK, False: FAILED, None: NOT_JUDGED}
PICTURES = (".png", ".svg", ".pdf")
WIDEST = 48
"""Characters of an entry of a table of two runs."""
TEMPLATE = Path(__file__).parents[1] / "scene" / "template.toml"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    interrupt = Interrupt(ENDINGS)
    try:
        with interrupt:
            options = _parser().parse_args(arguments)
            action: Callable[[argparse.Namespace], int] = options.action
            code = action(options)
            sys.stdout.flush()
            return code
    except BrokenPipeError:  # the reader of the output, such as `head`, has read enough
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it again at its end
        return leave_together(exit_code(signal.SIGPIPE))
    except (DiffsimError, OSError, MemoryError) as error:
        if end_all_ranks(error):
            return BAD_INPUT
        if interrupt.asked is not None:  # a closed terminal cannot be written to
            return _ended(interrupt.asked)
        text = str(error) or "expected more memory than there is, got none; make the grid, the steps or the shots fewer"
        print(f"diffsim: {message_shown(text)}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt as error:
        return leave_together(_ended(error.number if isinstance(error, Stopped) else signal.SIGINT))


def _ended(number: int) -> int:
    with contextlib.suppress(OSError):
        print(f"diffsim: {how(number)}; --resume goes on from the saved iterations, if there are any", file=sys.stderr)
    return exit_code(number)


def plan(options: argparse.Namespace) -> int:
    scene = _with_memory(_loaded(options), options.memory)
    if options.draw:  # before anything is measured
        options.draw = picture = path_of("--draw", options.draw)
        if picture.suffix not in PICTURES or not picture.parent.is_dir():
            raise SceneError(f"--draw: expected a file in a folder that is there, ending in {', '.join(PICTURES)}, got {options.draw}")
    init(options.arch, options.precision, options.threads, engine=options.engine)
    problem = scene.problem()
    schedule = plan_of(problem)
    print(schedule)
    for line in notes_of(problem):
        print(f"\nnote: {line}")
    shots = len(problem.setup.shots)
    if shots > 1 and schedule.chosen.seconds is not None:
        print(f"\nThat is one of {shots} shots, which follow one another: {seconds_text(shots * schedule.chosen.seconds)} in all.")
    if options.draw:
        schedule.draw(options.draw)
        print(f"wrote {options.draw}")
    return OK


def run(options: argparse.Namespace) -> int:
    if options.domains is not None:
        ranks()  # from here on an error ends all of them
    scene = _with_memory(_loaded(options), options.memory)
    init(options.arch, options.precision, options.threads, engine=options.engine)
    folder = path_of("--out", options.out or Path("runs") / scene.name)
    domains = None if options.domains is None else _domains(options.domains)
    if domains is not None and (processes := ranks()).rank:  # rank 0 writes and shows what all find
        scene.run(folder, options.resume, options.certify, workers=options.workers, domains=domains)
        processes.gathered(None)
        return OK
    with Display() as display:
        outcome = scene.run(folder, options.resume, options.certify, watcher=display, workers=options.workers, domains=domains)
    if domains is not None:
        processes.gathered(None)
    from diffsim.report import write_report  # late: Matplotlib takes a third of a second to import
    from diffsim.report.tables import FEW, numbers_behind

    try:
        write_report(outcome, folder)
    except OSError as error:
        raise failure(folder, "writing the report beside the results, which are there", error) from error
    console = _console()
    if outcome.certificate:
        _print_lines(console, "certificate", outcome.certificate)
    if outcome.accepted:
        _print_lines(console, "acceptance", outcome.accepted)
    start, end = outcome.losses
    iterations = plural(outcome.history[-1].iteration, "iteration")
    console.print(f"loss {start:.4e} -> {end:.4e} in {iterations}, {outcome.seconds['all']:.1f} s")
    for name, rows in numbers_behind(outcome, FEW):
        console.print(f"{name}: " + "; ".join(f"{part}: {values}" for part, values in rows), soft_wrap=True, highlight=False, markup=False)
    console.print(f"it stopped: {outcome.stopped}", soft_wrap=True)
    console.print(f"results in {folder}", soft_wrap=True)
    return CODES[outcome.judged]


def _domains(text: str) -> tuple[int, ...]:
    """Boxes along each axis, from a text such as "2x2"."""
    parts = text.split("x")
    if not all(part.isdigit() and int(part) for part in parts):
        raise SceneError(f"--domains: expected a number of boxes for each axis of the grid, such as 2x2, got {shown(text)}")
    return tuple(map(int, parts))


def show(options: argparse.Namespace) -> int:
    from diffsim.report import REPORT, write_report

    folder = _run_folder(options.run)
    page = folder / REPORT
    if not page.exists():  # the run ended between its results and its report
        page = write_report(Outcome.load(folder), folder)
    print(page)
    if not options.print:
        webbrowser.open(page.absolute().as_uri())
    return OK


def compare(options: argparse.Namespace) -> int:
    from diffsim.report import compare as compared
    from diffsim.report import write_comparison

    folders = [_run_folder(name) for name in (options.first, options.second)]
    first, second = map(Outcome.load, folders)
    names = tuple(folder.name if folders[0].name != folders[1].name else str(folder) for folder in folders)
    console = _console()
    for heading, rows in compared(first, second):
        table = Table(heading, *names, box=None)
        for row in rows:
            table.add_row(*(cut(each, WIDEST) for each in row))
        console.print(table)
        console.print()
    if options.out is not None:
        print(f"wrote {write_comparison(first, second, (names[0], names[1]), path_of('--out', options.out))}")
    return OK


def _run_folder(name: str) -> Path:
    """The folder of a run: a path, or its name below runs/."""
    folders = [folder for folder in (path_of("RUN", name), Path("runs") / name) if folder.is_dir()]
    if not folders:
        raise SceneError(f"expected the folder of a run, or its name below runs/, got {path_shown(Path(name))}; `diffsim run` makes them")
    return folders[0]


def gradcheck(options: argparse.Namespace) -> int:
    scene = _loaded(options)
    init(options.arch, options.precision, options.threads, engine=options.engine)
    console = _console()
    certificate = scene.gradcheck(lambda line: console.print(str(line), soft_wrap=True))
    good, bad, open_ = (sum(line.passed is verdict for line in certificate) for verdict in (True, False, None))
    others = [f"{bad} fail"] * (bad > 0) + [f"{open_} cannot judge"] * (open_ > 0)
    console.print(", ".join([f"{scene.name}: {certificate.verdict}, {good} of {len(certificate)} lines pass", *others]))
    return CODES[judged(certificate.lines)]


def list_scenes(options: argparse.Namespace) -> int:
    table = Table("scene", "title", box=None)
    for name, path in scene_files().items():
        table.add_row(name, Scene.load(path).title)
    _console().print(table)
    return OK


def new(options: argparse.Namespace) -> int:
    path = path_of("new", options.name if options.name.endswith(".toml") else f"{options.name}.toml")
    try:
        file_name(path.stem)
    except ValueError as error:
        raise SceneError(f"new: {error}") from None
    if path.exists():
        raise SceneError(f"new: expected a name that is free, found the file {path}; choose another name")
    write_aside(path, TEMPLATE.read_text(encoding="utf-8").replace("NAME", path.stem).encode())
    print(f"wrote {path}; run it by: diffsim run {shlex.quote(str(path))}")
    return OK


def info(options: argparse.Namespace) -> int:
    precision = init(options.arch, options.precision, options.threads, engine=options.engine).precision
    table = Table("", "", box=None, show_header=False)
    kept = {"kernels kept in": kept_in()}
    for name, value in (machine(precision) | kept | versions()).items():
        table.add_row(name, str(value))
    _console().print(table)
    return OK


def tune(options: argparse.Namespace) -> int:
    if options.forget:
        path = keep(name_of(options.engine), None)
        print(f"nothing is kept for this computer{f' in {path}' if path else ''}; kernels are written by the rule")
        return OK
    if register_forced():
        raise BackendError(f"{REGISTER_VARIABLE} is set, which goes before any measurement; unset it, or leave diffsim as it is")
    now = init("cpu", options.precision, options.threads, engine=options.engine)
    console = _console()
    with console.status("measuring, half a minute"):
        speeds_of = fastest(measured(now.engine, now.precision, now.threads))
    usual = usual_register_bytes(now.engine)
    best = best_width(speeds_of, usual)
    table = Table("registers", *WORK, box=None)
    for width, speeds in speeds_of.items():
        table.add_row(f"{width} bytes", *(f"{speeds[name] / 1e9:.2f}" for name in WORK))
    console.print(f"billions of cells in a second, {plural(now.threads, 'thread')}, {now.precision}, {now.engine}:")
    console.print(table)
    path = keep(now.engine, Tuned(best, date.today().isoformat()))
    why = (
        "as without measuring: no other width is 5 % faster in the mean of all"
        if best == usual
        else f"and not for {usual} as without measuring"
    )
    console.print(f"kernels are now written for registers of {best} bytes, {why}", soft_wrap=True)
    console.print(
        f"kept in {path}; `diffsim tune --forget` undoes it" if path else "kept nowhere: there is no file for it",
        soft_wrap=True,
    )
    return OK


def _loaded(options: argparse.Namespace) -> Scene:
    below = None if options.read_below is None else path_of("--read-below", options.read_below)
    if below is not None and not below.is_dir():
        raise SceneError(f"--read-below: expected a folder, found '{path_shown(below)}', which is none; name one that is there")
    return Scene.load(options.scene, options.set, below, options.allow_code)


def _with_memory(scene: Scene, memory: str | None) -> Scene:
    """The scene with another limit on memory, in place of its memory or slots."""
    if memory is None:
        return scene
    checkpoint = scene.checkpoint.model_copy(update={"memory": memory, "slots": None})
    return scene.model_copy(update={"checkpoint": checkpoint})


def _print_lines(console: Console, title: str, lines: Sequence[Line]) -> None:
    console.print(f"{title}:")
    for line in lines:
        console.print("  " + str(line), soft_wrap=True)


def _console() -> Console:
    return Console(highlight=False, markup=False)


def _versions() -> str:
    installed = versions()
    return f"diffsim {installed['diffsim']} ({ENGINES[chosen()].title} {installed[chosen()]}, Python {installed['python']})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="diffsim", description="Answers inverse questions about physical systems by gradient.")
    parser.add_argument("--version", action="version", version=_versions(), help="show the versions of diffsim, its engine and Python")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    hardware = argparse.ArgumentParser(add_help=False)
    hardware.add_argument("--arch", default="auto", help="cpu, cuda, vulkan or auto (the default: DIFFSIM_ARCH, else cpu)")
    hardware.add_argument("--engine", default="auto", help="taichi, quadrants or auto (the default: DIFFSIM_ENGINE, else taichi)")
    hardware.add_argument("--precision", help="f32 or f64 (the default: DIFFSIM_PRECISION, else f32)")
    hardware.add_argument("--threads", type=int, help="CPU threads (the default: as many as this process may use)")
    about = argparse.ArgumentParser(add_help=False)
    about.add_argument("scene", metavar="SCENE", help="a TOML file, or the name of a scene that `diffsim list` shows")
    about.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a value, such as optimise.iterations=5")
    about.add_argument("--read-below", metavar="DIR", help="refuse a scene that names a data file outside of this folder")
    about.add_argument("--allow-code", action="store_true", help="import the classes that the scene names, such as mymodule:MyEquation")

    def command(
        name: str, action: Callable[[argparse.Namespace], int], text: str, *parents: argparse.ArgumentParser
    ) -> argparse.ArgumentParser:
        parser = commands.add_parser(name, help=text, description=text, parents=parents)
        parser.set_defaults(action=action)
        return parser

    memory = argparse.ArgumentParser(add_help=False)
    memory.add_argument("--memory", metavar="SIZE", help="the most that a gradient may take, such as 4GB, whatever the scene says")
    planning = command("plan", plan, "Predict memory and time of a gradient, and how its states are kept.", about, memory, hardware)
    planning.add_argument("--draw", metavar="FILE.png", help="also write a picture of the schedule")
    running = command("run", run, "Find the unknowns of a scene.", about, memory, hardware)
    running.add_argument("--out", help="folder of the results (the default: runs/NAME)")
    running.add_argument("--resume", action="store_true", help="go on with the run in that folder")
    running.add_argument(
        "--workers",
        type=lambda text: int(text) if text.isdecimal() else text,
        metavar="N or ADDRESS",
        help="run the shots in N processes of this machine, or in those of a dask scheduler, such as tcp://host:8786",
    )
    running.add_argument("--domains", metavar="2x2", help="boxes along each axis of the grid, one for each process of mpiexec -n 4")
    running.add_argument("--certify", action="store_true", help="measure the gradient's certificate too")
    showing = command("show", show, "Open the report of a finished run.")
    showing.add_argument("run", metavar="RUN", help="folder of the run, or its name below runs/")
    showing.add_argument("--print", action="store_true", help="only print the path of the report")
    comparing = command("compare", compare, "Set two finished runs side by side.")
    comparing.add_argument("first", metavar="RUN", help="folder of a run, or its name below runs/")
    comparing.add_argument("second", metavar="RUN", help="folder of another run, or its name below runs/")
    comparing.add_argument("--out", metavar="FILE.html", help="also write a page with pictures of both")
    command("gradcheck", gradcheck, "Check the gradient of a scene.", about, hardware)
    command("list", list_scenes, "List the scenes that come with diffsim.")
    command("new", new, "Write a commented scene to start from.").add_argument("name", metavar="NAME", help="file to write")
    command("info", info, "Show arch, lanes, threads, cores and versions.", hardware)
    tuning = command("tune", tune, "Measure which vector registers kernels are best written for here, and keep it.", hardware)
    tuning.add_argument("--forget", action="store_true", help="remove the kept measurement")
    return parser
