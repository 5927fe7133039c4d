"""The checkpointing policy and schedule of a scene."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from diffsim.base.messages import shown
from diffsim.base.system import available_memory
from diffsim.checkpoint import AUTO_FRACTION, Lossless, Lossy, Policy, parse_memory
from diffsim.checkpoint.planning.memory import memory_text
from diffsim.engine import backend
from diffsim.errors import PlanError
from diffsim.scene.schema.search_keys import Checkpoint
from diffsim.scene.setup.setup import Setup
from diffsim.scene.shots.workers import Workers
from diffsim.scene.words.explain import prefix_error


def policy_of(model: Checkpoint, folder: Path | None, workers: Workers) -> Policy:
    """The policy of a scene.

    Args:
        model: its table.
        folder: folder for files, including those from which a killed run resumes; None: states go to files without names in the
            system's folder for temporary files, and no file remains.
        workers: where shots run. Processes that share this machine take equal parts of its memory and its disk.

    Raises:
        SceneError: a value is invalid, or two contradict each other. The message names the key.
    """
    memory = _part("memory", None if model.memory.strip().lower() == "auto" else model.memory, workers)
    available = workers.available()
    if memory is None and model.slots is None and available is not None:
        memory = int(AUTO_FRACTION * available)
    compression: Lossless | None = None
    if model.compression is not None:
        with prefix_error("checkpoint.compression"):
            compression = Lossless() if model.compression == "lossless" else Lossy(float(model.compression))
    with prefix_error("checkpoint"):
        return Policy(
            memory=memory,
            slots=model.slots,
            schedule=model.schedule,
            disk=_part("disk", model.disk, workers),
            folder=Path(tempfile.gettempdir()) if folder is None else folder,
            compression=compression,
            verify=model.verify,
            resume=0.0 if folder is None else model.resume,
        )


def _part(name: str, amount: str | None, workers: Workers) -> str | int | None:
    """The part of an amount that the process of a shot may take."""
    if amount is None:
        return None
    with prefix_error(f"checkpoint.{name}"):
        size = parse_memory(amount)
        return amount if workers.sharing == 1 else parse_memory(size // workers.sharing)


def decided(policy: Policy, setup: Setup, workers: Workers) -> Policy:
    """A policy with its schedule, chosen by memory alone.

    Raises:
        SceneError: the memory or the number of slots is too small or too large. The message names the key.
    """
    with prefix_error(deciding_key(policy)):
        schedule = setup.simulation.schedule(setup.steps, policy)
        needed, available = setup.simulation.sizes(setup.steps).peak(schedule, policy.compression is not None), workers.available()
        free = available_memory() if available is None else available
        if needed > free and backend().on_host:
            raise PlanError(
                f"expected a gradient that fits into the {memory_text(free)} of memory there is, found that {shown(schedule)} takes "
                f"{memory_text(needed)}; ask for less memory or fewer slots"
            )
        return replace(policy, schedule=schedule, memory=None, slots=None)


def deciding_key(policy: Policy) -> str:
    """The key of a scene that decides whether a policy can work."""
    if policy.slots is not None:
        return "checkpoint.slots"
    return "checkpoint.schedule" if policy.runs_backwards else "checkpoint.memory"
