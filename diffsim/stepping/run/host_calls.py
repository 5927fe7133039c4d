"""Calls of host functions in messages: their names, and the step in which one failed."""

from __future__ import annotations

from diffsim.base.messages import reason_shown
from diffsim.errors import DiffsimError, HostStageError
from diffsim.stepping.ir.names import Title
from diffsim.stepping.ir.program import HostCall


def call_name(call: HostCall) -> str:
    """The name of a host function in messages, by its results."""
    return str(_title(call))


def described(call: HostCall, step: int, error: Exception) -> Exception:
    """An error of a host function with the number of the step, or the name of the steady problem."""
    where = _title(call).at(step)
    if isinstance(error, DiffsimError):
        return type(error)(f"{where}: {error}")
    return HostStageError(f"{where} raised {type(error).__name__}: {reason_shown(error)}; correct it, or the inputs that lead there")


def _title(call: HostCall) -> Title:
    if call.total is not None:
        return Title(f"the sum of the rows of {call.total.target}")
    title = getattr(call.function, "title", None)
    return title if isinstance(title, Title) else Title(f"the function that gives {' and '.join(written.name for written in call.outputs)}")
