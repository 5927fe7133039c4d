"""Reading scenes: the same object from a file and from Python, and one clear line for each thing that is wrong."""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from diffsim.checkpoint import KINDS, StoreAll
from diffsim.errors import SceneError
from diffsim.scene import Scene, scene_files
from diffsim.scene.schema.load import find_scene, tomllib
from diffsim.scene.schema.toml import to_toml
from tests.scene.tiny import ACOUSTIC, DRIVEN, HEAT, WAVE, as_toml, scene, tables


@pytest.fixture
def written(tmp_path):
    def write(base, **changes):
        path = tmp_path / f"{base['name']}.toml"
        path.write_text(as_toml(tables(base, **changes)))
        return path

    return write


@pytest.mark.parametrize("base", [ACOUSTIC, HEAT, WAVE, DRIVEN], ids=lambda base: base["name"])
def test_file_and_python_give_the_same_object(written, base):
    assert Scene.load(written(base)) == scene(base)


@pytest.mark.parametrize("base", [ACOUSTIC, HEAT, WAVE, DRIVEN], ids=lambda base: base["name"])
def test_toml_reads_back_as_the_same_scene(tmp_path, base):
    path = tmp_path / "again.toml"
    path.write_text(to_toml(scene(base, title='a "quoted"\nline \\ µ')))
    assert Scene.load(path) == scene(base, title='a "quoted"\nline \\ µ')


@pytest.mark.parametrize("name", scene_files())
def test_packaged_scenes_load_and_read_back(tmp_path, name):
    loaded = Scene.load(name)
    path = tmp_path / "again.toml"
    path.write_text(to_toml(loaded), encoding="utf-8")
    assert Scene.load(path) == loaded
    assert loaded.name == name
    assert loaded.accept


def test_name_comes_from_the_file(written):
    assert Scene.load(written(tables(ACOUSTIC, name="else"), name=None)).name == "else"


def test_overrides(written):
    path = written(ACOUSTIC)
    changes = [
        "optimise.iterations=5",
        "sources.f.wavelet.frequency = 33.0",
        "misfit.0.weight=2.0",
        "checkpoint.memory=1 GB",
        'title="new"',
    ]
    loaded = Scene.load(path, changes)
    assert loaded.optimise.iterations == 5
    assert loaded.sources["f"].wavelet.frequency == 33.0
    assert loaded.misfit[0].weight == 2.0
    assert loaded.checkpoint.memory == "1 GB"
    assert loaded.title == "new"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("optimise.iterations", "expected key=value"),
        ("misfit.3.weight=1.0", "expected an entry 0 to 0 of misfit, found '3'"),
        ("title.deeper=1", "expected a table at title"),
    ],
)
def test_overrides_that_cannot_be(written, override, expected):
    with pytest.raises(SceneError, match="--set") as caught:
        Scene.load(written(ACOUSTIC), [override])
    assert expected in str(caught.value)


PROBLEMS = [
    ({"optimise__iteration": 5}, "optimise.iteration: expected one of method, iterations, tolerance", "did you mean iterations?"),
    ({"iterations": 5}, "iterations: expected one of name, title", "did you mean optimise.iterations?"),
    ({"memroy": "1 GB"}, "memroy: expected one of name, title", "did you mean checkpoint.memory?"),
    ({"tilte": "x"}, "tilte: expected one of name, title", "did you mean title?"),
    ({"equation__ordr": 4}, "equation.ordr: expected one of type, order", "did you mean order?"),
    ({"sources__f__wavelet__freq": 4.0}, "sources.f.wavelet.freq: expected one of type, frequency", "did you mean frequency?"),
    ({"unknowns__c__start__gauss": []}, "unknowns.c.start.gauss: expected one of", "did you mean gaussians?"),
    ({"time__steps": "many"}, "time.steps: expected an integer, found 'many'", "correct the value"),
    ({"time__steps": 0}, "time.steps: expected a number greater than or equal to 1, found 0", "correct the value"),
    ({"time__dt": -1.0}, "time.dt: expected a number greater than 0, found -1.0", "correct the value"),
    ({"time__dt": None}, "time: expected duration where dt is left out, found steps", "give dt, or duration"),
    ({"time__duration": 1.0}, "time: expected either steps or duration, found both", "give one of them"),
    ({"grid__shape": [16, 15.5]}, "grid.shape[1]: expected an integer, found 15.5", "correct the value"),
    ({"grid__origin": 10.0}, "grid.origin: expected a list, found 10.0", "write [10.0]"),
    ({"grid__axes": "x"}, "grid.axes: expected a list, found 'x'", "write ['x']"),
    ({"grid__axes": "x" * 50}, "grid.axes: expected a list", "put it into brackets"),
    ({"grid__like": "matplotlib:topobathy"}, "grid: expected one of spacing and like, found both", "give one of them"),
    ({"grid__spacing": None}, "grid: expected one of spacing and like, found none", "give one of them"),
    ({"grid__axes": ["time", "x"]}, "grid: expected axes of space, found time", "rename them"),
    ({"grid__axes": ["z"]}, "grid: expected axes with 2 entries", "add or drop some"),
    (
        {"equation__type": "waves"},
        "equation.type: expected one of acoustic, advection, burgers, dg_acoustic, dg_advection, elastic, euler, heat, kolmogorov, "
        "kuramoto_sivashinsky, long_wave, lorenz96, lorenz96_two_scale, maxwell, navier_stokes, quasi_geostrophic, reaction_diffusion, "
        "schroedinger, shallow_water, visco_acoustic, or a class such as mypackage.module:Class, ",
        "found 'waves'; choose one of these",
    ),
    ({"equation__type": None}, "equation.type: expected a value, found none", "add the type"),
    ({"equation__order": 3}, "equation.order: expected 2, 4, 6, 8, 10 or 12, found 3", "choose one of these"),
    ({"unknowns__c__start": {"floor": 1.0}}, "unknowns.c.start: expected at least one of constant, layers", "add one"),
    ({"checkpoint__slots": 0}, "checkpoint.slots: expected a number greater than or equal to 1, found 0", "correct the value"),
    ({"checkpoint": {"slots": 3, "memory": "1 GB"}}, "checkpoint: expected memory or slots, found memory = '1 GB'", "give one of them"),
    ({"checkpoint": {"slots": 3, "schedule": "store_all"}}, "checkpoint: expected no slots with schedule", "leave slots out"),
    ({"checkpoint": {"schedule": "spilling"}}, "checkpoint: expected disk with schedule = 'spilling', found none", "add disk"),
    ({"checkpoint": {"schedule": "best"}}, "checkpoint.schedule: expected one of auto, ", "found 'best'; choose one of these"),
    ({"checkpoint": {"schedule": "multitier"}}, "checkpoint.schedule: expected one of auto, ", "did you mean multi_tier?"),
    ({"checkpoint": {"schedule": 3}}, "checkpoint.schedule: expected text, found 3", "correct the value"),
    ({"checkpoint": {"compression": "lossless"}}, "checkpoint: expected compression together with disk", "drop compression"),
    ({"checkpoint": {"resume": -1.0}}, "checkpoint.resume: expected a number greater than or equal to 0", "correct the value"),
    ({"checkpoint": {"verify": 1}}, "checkpoint.verify: expected true or false, found 1", "correct the value"),
    ({"accept__0": {"quantity": "correlation"}}, "accept[0]: expected at_least or at_most, found neither", "give a limit"),
    ({"misfit": []}, "scene: expected [[misfit]]", "give one"),
    ({"truth__noise": float("nan")}, "truth.noise: expected", "found nan"),
]


@pytest.mark.parametrize(
    ("changes", "expected", "remedy"), PROBLEMS, ids=lambda value: next(iter(value)) if isinstance(value, dict) else ""
)
def test_each_problem_is_named(tmp_path, changes, expected, remedy):
    path = tmp_path / "bad.toml"
    path.write_text(as_toml(tables(ACOUSTIC, **changes)))
    with pytest.raises(SceneError) as caught:
        Scene.load(path)
    assert str(caught.value).startswith(expected)
    assert remedy in str(caught.value)
    assert "\n" not in str(caught.value)


BOX = {"lower": [0.0, 0.0], "upper": [50.0, 50.0], "amplitude": 1.0}
PER_AXIS: list[tuple[str, dict[str, object], object]] = [
    ("grid.origin", {"grid__origin": 10.0}, 10.0),
    ("grid.axes", {"grid__axes": "x"}, "x"),
    ("grid.units", {"grid__units": "m"}, "m"),
    ("unknowns.c.start.boxes[0].lower", {"unknowns__c__start": {"boxes": [{**BOX, "lower": 1.0}]}}, 1.0),
    ("unknowns.c.start.boxes[0].upper", {"unknowns__c__start": {"boxes": [{**BOX, "upper": 60.0}]}}, 60.0),
]


@pytest.mark.parametrize(("key", "changes", "entry"), PER_AXIS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_number_for_all_axes_is_no_list_of_one(tmp_path, key, changes, entry):
    """A list of one alone would be the next error."""
    path = tmp_path / "bad.toml"
    path.write_text(as_toml(tables(ACOUSTIC, **changes)))
    with pytest.raises(SceneError) as caught:
        Scene.load(path)
    entered = f"'{entry}'" if isinstance(entry, str) else entry
    assert str(caught.value) == f"{key}: expected a list, found {entered}; write [{entered}], with as many entries as the grid has axes"


def test_every_problem_has_its_line(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(as_toml(tables(ACOUSTIC, time__dt=-1.0, optimise__iteration=5)))
    with pytest.raises(SceneError) as caught:
        Scene.load(path)
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["time.dt", "optimise.iteration"]


def test_a_schedule_of_ones_own_is_requested_by_its_name(written, monkeypatch):
    monkeypatch.setattr(KINDS, "_classes", dict(KINDS))

    @dataclass(frozen=True)
    class KeepAll(StoreAll, kind="keep_all"):
        """It keeps all steps, under another name."""

    path = written(ACOUSTIC, checkpoint={"schedule": "keep_all"})
    assert Scene.load(path).plan().schedule == KeepAll(24)
    with pytest.raises(SceneError, match=r"expected no slots with schedule = \"keep_all\", found slots = 3; leave slots out"):
        Scene.load(path, ["checkpoint.slots=3"])
    with pytest.raises(SceneError, match=r"expected one of auto, .*, keep_all, found 'keepall'; did you mean keep_all\?"):
        Scene.load(path, ["checkpoint.schedule=keepall"])


def test_missing_and_unreadable_scenes(tmp_path):
    with pytest.raises(SceneError, match=r"scene: expected a TOML file or one of the scenes .*found no 'tsunmai'; did you mean tsunami\?"):
        find_scene("tsunmai")
    path = tmp_path / "broken.toml"
    path.write_text("[grid\nshape = 3")
    with pytest.raises(SceneError, match=r"expected TOML in .*broken.toml, found a mistake.*line 1"):
        Scene.load(path)
    path.write_bytes(b"title = '\xff\xfe'")
    with pytest.raises(SceneError, match=r"found bytes that are no UTF-8 .*; save it as UTF-8"):
        Scene.load(path)


def test_a_scene_that_lacks_its_ending_is_named(tmp_path):
    (tmp_path / "mine.toml").touch()
    with pytest.raises(SceneError, match=r"found no '.*mine'; did you mean .*mine\.toml\?"):
        find_scene(tmp_path / "mine")


def test_folders_and_endless_names_are_no_scenes(tmp_path):
    with pytest.raises(SceneError, match="found the folder"):
        find_scene(tmp_path)
    with pytest.raises(SceneError, match="found no 'aaa"):
        find_scene("a" * 3000)


def test_paths_start_at_the_scene(tmp_path):
    path = tmp_path / "file.toml"
    path.write_text(as_toml(tables(ACOUSTIC, unknowns__c__start={"file": {"path": "c.npy"}})))
    assert Scene.load(path).unknowns["c"].start.file.path == str(tmp_path / "c.npy")


def _tables_of(table: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all tables in a scene."""
    if isinstance(table, dict) and way:
        yield way
    for key, value in table.items() if isinstance(table, dict) else enumerate(table) if isinstance(table, list) else ():
        yield from _tables_of(value, (*way, key))


def _with(table: Any, way: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(table)
    holder = changed
    for key in way[:-1]:
        holder = holder[key]
    holder[way[-1]] = value
    return changed


PLACES = [(kind, way) for kind, table in (("acoustic", ACOUSTIC), ("heat", HEAT)) for way in _tables_of(table)]


@pytest.mark.parametrize("value", ["c.npy", 7.0], ids=["text", "number"])
@pytest.mark.parametrize(("kind", "way"), PLACES, ids=lambda part: part if isinstance(part, str) else ".".join(map(str, part)))
def test_a_value_in_place_of_a_table_names_the_table_that_says_it(kind, way, value):
    table = {"acoustic": ACOUSTIC, "heat": HEAT}[kind]
    with pytest.raises(SceneError, match=r"expected (a table|no slots)") as caught:
        Scene(**_with(table, way, value))
    (line,) = (line for line in str(caught.value).splitlines() if "expected a table" in line)
    assert "correct the value" not in line
    written = re.search(r"; write ({.*})$", line)
    if written is None or "..." in written[1]:
        assert re.search(r"; write (\{\w+ = \.\.\.\}|a table, \{name = value\}|\{type = .*\} and its options)$", line)
        return
    try:
        Scene(**_with(table, way, tomllib.loads(f"value = {written[1]}")["value"]))
        error = ""
    except SceneError as refused:  # a file that is not there, say
        error = str(refused)
    assert "expected a table" not in error


@pytest.mark.parametrize(
    ("way", "value", "remedy"),
    [
        (("unknowns", "c", "start"), "c.npy", "write {file = {path = 'c.npy'}}"),
        (("unknowns", "c", "start"), 2000.0, "write {constant = 2000.0}"),
        (("unknowns", "c"), 2000.0, "write {start = {constant = 2000.0}}"),
        (("sources", "f", "wavelet"), "w.npy", "write {type = 'file', path = 'w.npy'}"),
        (("unknowns", "c", "start"), "2.5 m/s", "write {constant = ...}"),
        (("sources", "f", "wavelet"), "0.5", "write {type = '0.5'} and its options"),
        (("sources", "f", "wavelet"), "../w.csv", "write {type = 'file', path = '../w.csv'}"),
        (("sources", "f", "wavelet"), "ricker", "write {type = 'ricker'} and its options"),
        (("unknowns",), "c", "write a table, {name = value}"),
        (("grid",), 5.0, "write {shape = ...}"),
    ],
)
def test_tables_in_place_of_values(way, value, remedy):
    with pytest.raises(SceneError) as caught:
        Scene(**_with(ACOUSTIC, way, value))
    assert any(line.endswith(remedy) for line in str(caught.value).splitlines())
