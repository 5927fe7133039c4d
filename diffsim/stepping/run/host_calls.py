"""Calls of host functions in messages: their names, and the step in which one failed."""

from __future__ import annotations

from diffsim.errors import DiffsimError, HostStageError
from diffsim.stepping.ir.program import HostCall


def call_name(call: HostCall) -> str:
    """The name of a host function in messages, by its results."""
    if call.total is not None:
        return f"the sum of the rows of {call.total.target}"
    return f"the function that gives {' and '.join(written.name for written in call.outputs)}"


def described(call: HostCall, step: int, error: Exception) -> Exception:
    """An error of a host function with the number of the step."""
    if isinstance(error, DiffsimError):
        return type(error)(f"in step {step}, {call_name(call)}: {error}")
    text = f"in step {step}, {call_name(call)} raised {type(error).__name__}: {error}; correct it, or the inputs that lead there"
    return HostStageError(text)
