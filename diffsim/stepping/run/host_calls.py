"""Calls of host functions in messages: their names, and the step in which one failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from diffsim.errors import DiffsimError, HostStageError
from diffsim.stepping.ir.program import HostCall


def call_name(call: HostCall) -> str:
    """The name of a host function in messages, by its results."""
    if call.total is not None:
        return f"the sum of the rows of {call.total.target}"
    return f"the function that gives {' and '.join(written.name for written in call.outputs)}"


@contextmanager
def errors_of(call: HostCall, step: int) -> Iterator[None]:
    """Add the number of the step to an error of a host function."""
    try:
        yield
    except DiffsimError as error:
        raise type(error)(f"in step {step}, {call_name(call)}: {error}") from error
    except Exception as error:
        text = f"in step {step}, {call_name(call)} raised {type(error).__name__}: {error}; correct it, or the inputs that lead there"
        raise HostStageError(text) from error
