"""Amounts of memory, read from text and written as text."""

from __future__ import annotations

import operator
import re
from decimal import Decimal

from diffsim.base.messages import shown
from diffsim.base.system import available_memory
from diffsim.errors import ParameterError

AUTO_FRACTION = 0.5
"""Share of the available memory that "auto" takes. The rest is for later allocations, by this process and by others."""
SMALL = 2**24
"""Bytes that "auto" takes without asking the system for its memory, which costs as much as a small gradient."""
_UNITS = {"b": 1, "byte": 1, "bytes": 1} | {
    f"{letter}{binary}b": (1024 if binary else 1000) ** power for power, letter in enumerate("kmgt", 1) for binary in ("", "i")
}
_AMOUNT = re.compile(r"\s*(\d{1,3}(?: \d{3})+|\d+\.?\d*|\.\d+)\s*([a-z]+)\s*", re.IGNORECASE | re.ASCII)


def parse_memory(amount: str | int) -> int:
    """Return an amount of memory in bytes.

    Args:
        amount: bytes as an int, or text with a unit: B (or bytes), kB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB powers of
            1024. Case does not matter. Fractions are rounded down to whole bytes. A space may separate thousands, as in messages.

    Raises:
        ParameterError: not such an amount, without a unit, or less than one byte.

    Returns:
        Bytes.

    Example:
        from diffsim.checkpoint import parse_memory

        assert parse_memory("1.5 GB") == 1_500_000_000
        assert parse_memory("2 MiB") == 2 * 1024**2
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
            f"expected an amount of memory of at least 1 byte, got {shown(amount)}; write for example '4 GB' or '512 MiB', or "
            "an int of bytes"
        )
    return size


def auto_memory(enough: int) -> int:
    """Bytes that "auto" may take, for a gradient that `enough` bytes would suffice to keep as a whole."""
    return SMALL if enough <= SMALL else max(int(AUTO_FRACTION * available_memory()), SMALL)


def memory_text(size: int) -> str:
    """An amount of memory with its unit, to three figures."""
    for unit, bytes_ in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= 0.9995 * bytes_:
            return f"{size / bytes_:.3g} {unit}" if size < 999.5 * bytes_ else f"{size / bytes_:.0f} {unit}"
    return f"{size} B"


def least_text(size: int) -> str:
    """The least sufficient memory, rounded up to three figures so that the text is a valid input; with the exact bytes if they differ."""
    unit = 10 ** max(len(str(size)) - 3, 0)  # unit of the third figure
    rounded = -(-size // unit) * unit
    return memory_text(size) if rounded == size else f"{memory_text(rounded)} ({grouped(size)} bytes)"


def grouped(count: int) -> str:
    """A whole number with its thousands apart: 253 412 096."""
    return f"{count:,}".replace(",", " ")
