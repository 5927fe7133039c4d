"""The checkpointing policy and schedule of a scene."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from diffsim.checkpoint import Lossless, Lossy, Policy, parse_memory
from diffsim.checkpoint.planning.memory import memory_text
from diffsim.engine import backend
from diffsim.errors import PlanError
from diffsim.scene.schema import Checkpoint
from diffsim.scene.setup import Setup, prefix_error
from diffsim.system import available_memory


def policy_of(model: Checkpoint, folder: Path | None) -> Policy:
    """The policy of a scene.

    Args:
        model: its table.
        folder: folder for files, including those from which a killed run resumes; None: states go to files without names in the
            system's folder for temporary files, and no file remains.

    Raises:
        SceneError: a value is invalid, or two contradict each other. The message names the key.
    """
    memory = None if model.memory.strip().lower() == "auto" else model.memory
    for name, size in (("memory", memory), ("disk", model.disk)):
        if size is not None:
            with prefix_error(f"checkpoint.{name}"):
                parse_memory(size)
    compression: Lossless | None = None
    if model.compression is not None:
        with prefix_error("checkpoint.compression"):
            compression = Lossless() if model.compression == "lossless" else Lossy(float(model.compression))
    with prefix_error("checkpoint"):
        return Policy(
            memory=memory,
            slots=model.slots,
            schedule=model.schedule,
            disk=model.disk,
            folder=Path(tempfile.gettempdir()) if folder is None else folder,
            compression=compression,
            verify=model.verify,
            resume=0.0 if folder is None else model.resume,
        )


def decided(policy: Policy, setup: Setup) -> Policy:
    """A policy with its schedule, chosen by memory alone.

    Raises:
        SceneError: the memory or the number of slots is too small or too large. The message names the key.
    """
    with prefix_error(deciding_key(policy)):
        schedule = setup.simulation.schedule(setup.steps, policy)
        needed, free = setup.simulation.sizes(setup.steps).peak(schedule, policy.compression is not None), available_memory()
        if needed > free and backend().on_host:
            raise PlanError(
                f"expected a gradient that fits into the {memory_text(free)} of memory there is, found that {schedule!r} takes "
                f"{memory_text(needed)}; ask for less memory or fewer slots"
            )
        return replace(policy, schedule=schedule, memory=None, slots=None)


def deciding_key(policy: Policy) -> str:
    """The key of a scene that decides whether a policy can work."""
    if policy.slots is not None:
        return "checkpoint.slots"
    return "checkpoint.schedule" if policy.runs_backwards else "checkpoint.memory"
