"""Amounts of memory: reading them from text, and measuring what this process may still use."""

from __future__ import annotations

import operator
import os
import re
from decimal import Decimal
from pathlib import Path

from diffsim.errors import ParameterError, PlanError

_UNITS = {
    "b": 1,
    "byte": 1,
    "bytes": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_AMOUNT = re.compile(r"\s*(\d{1,3}(?: \d{3})+|\d+\.?\d*|\.\d+)\s*([a-z]+)\s*", re.IGNORECASE | re.ASCII)


def parse_memory(amount: str | int) -> int:
    """Return an amount of memory in bytes.

    Args:
        amount: bytes as an int, or text with a unit: B (or bytes), kB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB powers of
            1024; case does not matter. Fractions are rounded down to whole bytes. Thousands may stand apart, as messages have them.

    Raises:
        ParameterError: not such an amount, without a unit, or less than one byte.
    """
    if isinstance(amount, str):
        match = _AMOUNT.fullmatch(amount)
        unit = _UNITS.get(match[2].lower()) if match else None
        size = int(Decimal(match[1].replace(" ", "")) * unit) if match and unit else 0
    else:
        try:
            size = 0 if isinstance(amount, bool) else operator.index(amount)
        except TypeError:
            size = 0
    if size < 1:
        raise ParameterError(
            f"expected an amount of memory of at least 1 byte, got {amount!r}; write for example '4 GB' or '512 MiB', or an int of bytes"
        )
    return size


def memory_text(size: int) -> str:
    """An amount of memory with its unit, to three figures."""
    for unit, bytes_ in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= 0.9995 * bytes_:
            return f"{size / bytes_:.3g} {unit}" if size < 999.5 * bytes_ else f"{size / bytes_:.0f} {unit}"
    return f"{size} B"


def least_text(size: int) -> str:
    """The least memory that will do, to three figures, rounded up so that it may be given back, and to the byte if that differs."""
    unit = 10 ** max(len(str(size)) - 3, 0)  # of the third figure
    rounded = -(-size // unit) * unit
    return memory_text(size) if rounded == size else f"{memory_text(rounded)} ({grouped(size)} bytes)"


def grouped(count: int) -> str:
    """A whole number with its thousands apart: 253 412 096."""
    return f"{count:,}".replace(",", " ")


def available_memory() -> int:
    """Return the bytes this process may still allocate without swapping or being killed.

    On Linux that is the smaller of what the kernel calls available and what the limits of the control groups (v1 or v2) leave, where
    file pages that the kernel can drop do not count as used. Elsewhere it is the free physical memory, or all of it where the system
    does not tell.

    Raises:
        PlanError: the system tells nothing.
    """
    found = _linux_memory(Path("/"))
    if found is None:
        found = _sysconf_memory()
    if found is None:
        raise PlanError("expected the system to tell its available memory, got nothing; give the memory as a size, such as '4 GB'")
    return found


def _linux_memory(root: Path) -> int | None:
    meminfo = _table(root / "proc/meminfo")
    if "MemAvailable:" not in meminfo:
        return None
    limits = [meminfo["MemAvailable:"] * 1024]
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            mount = root / "sys/fs/cgroup"
            names = ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = mount / path.strip("/")
        # The limit of any ancestor binds too, and above the mount there is none to be found. Inside a container the path may be the
        # host's and lead nowhere: the mount itself is then ours.
        for folder in (group, *group.parents):
            room = _group_room(folder, *names)
            if room is not None:
                limits.append(room)
    return max(min(limits), 0)


def _group_room(folder: Path, limit_name: str, usage_name: str, reclaimable_name: str) -> int | None:
    limit, usage = _text(folder / limit_name).strip(), _text(folder / usage_name).strip()
    if not limit.isdecimal() or not usage.isdecimal():  # "max", or not there
        return None
    return int(limit) - int(usage) + _table(folder / "memory.stat").get(reclaimable_name, 0)


def _table(path: Path) -> dict[str, int]:
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _sysconf_memory() -> int | None:
    names = getattr(os, "sysconf_names", {})
    for pages in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):
        if pages in names and "SC_PAGE_SIZE" in names:
            return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
    return None
