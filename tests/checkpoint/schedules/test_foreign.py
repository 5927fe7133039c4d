"""Schedules of the package checkpoint_schedules: stand-ins of the same form always, the package's own where it is installed."""

from __future__ import annotations

import enum
import warnings
from dataclasses import dataclass

import pytest

from diffsim.checkpoint import Adapted, Binomial, EndForward, Free, Load, Mixed, Policy, Record, Reverse, Save, Schedule, StoreAll, simulate
from diffsim.checkpoint.actions import Advance
from diffsim.errors import ScheduleError
from tests.simulation import chaotic

Storage = enum.Enum("Storage", ["RAM", "DISK", "WORK", "NONE"])
RAM, DISK, WORK, NONE = Storage


def action(name, *fields):
    """Return a class of an action, which is known by its name."""
    return dataclass(type(name, (), {"__annotations__": dict.fromkeys(fields, object)}))


Forward = action("Forward", "n0", "n1", "write_ics", "write_adj_deps", "storage")
Copy = action("Copy", "n", "from_storage", "to_storage")
Move = action("Move", "n", "from_storage", "to_storage")
Back = action("Reverse", "n1", "n0", "clear_adj_deps")
End = action("EndForward")
Over = action("EndReverse")
Rest = action("Rest")


class StandIn:
    def __init__(self, max_n, *listed):
        self.max_n, self.listed, self.n, self.r = max_n, listed, 0, 0

    def __iter__(self):
        return iter(self.listed)

    def finalize(self, n):
        assert self.max_n is None
        self.max_n = n


TWO_TIERS = StandIn(
    3, Forward(0, 1, True, False, DISK), Forward(1, 2, True, False, RAM), Forward(2, 3, False, True, WORK), End(), Back(3, 2, True),
    Move(1, RAM, WORK), Forward(1, 2, False, True, WORK), Back(2, 1, True),
    Copy(0, DISK, WORK), Forward(0, 1, False, True, WORK), Back(1, 0, True), Over(),
)  # fmt: skip


def test_actions_and_counts():
    schedule = Adapted(TWO_TIERS, 3)
    expected = [
        *(Save(0, 0, 1), Advance(0, 1), Save(1, 0), Advance(1, 2), Record(2, 3), EndForward(3), Reverse(2, 3)),
        *(Load(1, 0), Free(0), Record(1, 2), Reverse(1, 2)),
        *(Load(0, 0, 1), Record(0, 1), Reverse(0, 1), Free(0, 1)),
    ]
    assert list(schedule.actions()) == list(schedule.actions()) == expected
    assert isinstance(schedule, Schedule)
    summary = simulate(schedule)
    assert (summary.advances, summary.recorded, summary.peak_slots) == (2, 3, (1, 1)) == (schedule.advances, 3, (schedule.slots, 1))


def test_a_schedule_that_learns_the_number_of_steps():
    listed = (Forward(0, 10**18, False, True, WORK), End(), Back(7, 0, True), Over())
    assert list(Adapted(StandIn(None, *listed), 7).actions()) == [Record(0, 7), EndForward(7), Reverse(0, 7)]


def test_records_on_disk_and_between_tiers():
    listed = (
        *(
            Forward(0, 1, False, True, DISK),
            Forward(1, 3, True, True, DISK),
            End(),
            Copy(1, DISK, RAM),
            Copy(1, RAM, WORK),
            Back(3, 0, True),
        ),
        Over(),
    )
    assert list(Adapted(StandIn(3, *listed), 3).actions()) == [
        *(Record(0, 1), Save(1, 0, 1), Record(1, 3), EndForward(3), Load(1, 0, 1), Save(1, 0), Load(1, 0)),
        *(Reverse(1, 3), Reverse(0, 1), Free(0, 1), Free(0)),
    ]


def test_a_deleted_state_frees_its_slot():
    listed = (Forward(0, 1, True, True, RAM), Move(0, RAM, NONE), Forward(1, 2, True, True, RAM), End(), Back(2, 0, True), Over())
    assert simulate(Adapted(StandIn(2, *listed), 2)).peak_slots == (1,)


UNMAPPABLE = {
    "an unknown action": ((Rest(),), r"expected Forward, Copy, .*, got Rest\(\) of StandIn; this schedule cannot be mapped"),
    "a state nowhere": ((Forward(0, 3, True, False, WORK),), "a state written to RAM or DISK"),
    "a state twice": ((Forward(0, 1, True, False, RAM), Copy(0, RAM, RAM)), "state 0 written once"),
    "a state not kept": ((Forward(0, 1, True, False, RAM), Copy(0, DISK, WORK)), r"a state that is kept in RAM or on DISK, such as \[0\]"),
    "part of a record": ((Forward(0, 3, False, True, WORK), End(), Back(3, 1, True)), r"reversed whole; the newest is range\(0, 3\)"),
    "no record": ((Forward(0, 3, False, False, WORK), End(), Back(3, 2, True)), "steps up to 2, reversed whole; the newest is none"),
}


@pytest.mark.parametrize("name", UNMAPPABLE)
def test_what_cannot_be_mapped_is_refused(name):
    listed, message = UNMAPPABLE[name]
    with pytest.raises(ScheduleError, match=message):
        list(Adapted(StandIn(3, *listed), 3).actions())


def test_what_is_no_such_schedule_is_refused():
    used = StandIn(3)
    used.n = 2
    for schedule, message in (
        (Binomial(3, 2), "of the package checkpoint_schedules, got Binomial"),
        (StandIn(4), "a schedule of 3 steps, got one of 4"),
        (used, "that was not iterated, got one that was"),
    ):
        with pytest.raises(ScheduleError, match=message):
            Adapted(schedule, 3)
    with pytest.raises(ScheduleError, match="expected steps"):
        Adapted(StandIn(None), 0)


@pytest.fixture(scope="module")
def package():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that it works without Numba
        return pytest.importorskip("checkpoint_schedules")


def theirs(package, name, steps):
    storage = package.StorageType
    return {
        "Revolve": lambda: package.Revolve(steps, 3),
        "Multistage": lambda: package.MultistageCheckpointSchedule(steps, 2, 1),
        "DiskRevolve": lambda: package.DiskRevolve(steps, 2),
        "PeriodicDiskRevolve": lambda: package.PeriodicDiskRevolve(steps, 2),
        "HRevolve": lambda: package.HRevolve(steps, 2, 2),
        "Mixed": lambda: package.MixedCheckpointSchedule(steps, 3),
        "SingleMemory": package.SingleMemoryStorageSchedule,
        "SingleDisk": package.SingleDiskStorageSchedule,
        "SingleDiskMoving": lambda: package.SingleDiskStorageSchedule(move_data=True),
        "TwoLevel": lambda: package.TwoLevelCheckpointSchedule(4, 2, binomial_storage=storage.RAM),
    }[name]()


NAMES = [
    "Revolve",
    "Multistage",
    "DiskRevolve",
    "PeriodicDiskRevolve",
    "HRevolve",
    "Mixed",
    "SingleMemory",
    "SingleDisk",
    "SingleDiskMoving",
]


@pytest.mark.filterwarnings("ignore:Numba not available")
@pytest.mark.parametrize("steps", [5, 10, 33])
@pytest.mark.parametrize("name", [*NAMES, "TwoLevel"])
def test_schedules_of_the_package(package, name, steps):
    summary = simulate(Adapted(theirs(package, name, steps), steps))
    assert summary.recorded == steps
    if name in ("Revolve", "Multistage"):
        assert summary.advances == Binomial(steps, 3).advances
    if name == "Mixed":
        assert summary.cost == Mixed(steps, 4).forward  # they count the record that is being reversed apart


RAM_ALONE = StandIn(
    3, Forward(0, 1, True, False, RAM), Forward(1, 2, False, False, WORK), Forward(2, 3, False, True, WORK), End(), Back(3, 2, True),
    Copy(0, RAM, WORK), Forward(0, 1, False, False, WORK), Forward(1, 2, False, True, WORK), Back(2, 1, True),
    Move(0, RAM, WORK), Forward(0, 1, False, True, WORK), Back(1, 0, True), Over(),
)  # fmt: skip


@pytest.mark.parametrize(("listed", "tiers"), [(RAM_ALONE, ["device"]), (TWO_TIERS, ["device", "disk"])])
def test_a_simulation_runs_one(listed, tiers, tmp_path):
    simulation = chaotic.simulation()
    inputs = chaotic.inputs(simulation, 3)

    def gradient(checkpoint):
        solution, pullback = simulation.vjp(inputs, 3, checkpoint)
        return pullback(chaotic.cotangents(solution))["a"].tobytes()

    schedule = Adapted(listed, 3)
    assert [tier.name for tier in schedule.all_tiers] == tiers
    assert gradient(Policy(schedule=schedule, folder=tmp_path)) == gradient(StoreAll(3))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("listed", [RAM_ALONE, TWO_TIERS])
def test_the_rest_of_a_run_is_binomial(listed):
    policy = Policy(schedule=Adapted(listed, 3), memory="1 GB")
    assert policy.for_rest(2).schedule == Binomial(2, 1)
