"""Findings of the check of a kernel's source, and the message about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diffsim.errors import KernelError


@dataclass(frozen=True)
class Finding:
    """One construct that cannot stay.

    Attributes:
        file, line, text: its place, and the source line.
        wrong: the fault.
        remedy: the way round.
        fatal: the kernel must not even run forward; otherwise only its derivative is wrong.
    """

    file: str
    line: int
    text: str
    wrong: str
    remedy: str
    fatal: bool = False

    def __str__(self) -> str:
        return f"  {self.file}:{self.line}: {self.text}\n      {self.wrong}; {self.remedy}"


def refusal(name: str, findings: Sequence[Finding], action: str) -> KernelError:
    """The error that lists all findings: `action` is refused, such as "be differentiated"."""
    count = f"{len(findings)} construct{'s' if len(findings) > 1 else ''}"
    return KernelError(
        f"kernel {name} cannot {action}: expected source without constructs that Taichi 1.7.4 gets wrong, got {count}\n"
        + "\n".join(map(str, findings))
        + ("" if "run" in action else f"\n  Or give the derivative by hand: @{name}.adjoint")
    )
