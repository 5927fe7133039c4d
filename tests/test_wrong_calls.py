"""A wrong argument is refused by an error of diffsim that says what was expected, what came, and what to do."""

from __future__ import annotations

import pytest

import diffsim as ds
from tests.wrong_calls import CALLS, FITTING, Call

WORDS = ("expected", "unknown", "exceeds")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_wrong_arguments_are_refused(call: Call) -> None:
    call.function(**call.arguments)
    accepted: dict[str, set[str]] = {}
    for argument, what, attempt in call.variants():
        try:
            attempt()
        except ds.DiffsimError as error:
            message = str(error)
            assert any(word in message for word in WORDS) and ("; " in message or ", such as" in message), (argument, what, message)
            assert len(message) < 500, (argument, what, message)
        else:
            accepted.setdefault(f"{call.name} {argument}", set()).add(what)
    assert accepted == {name: fitting for name, fitting in FITTING.items() if name.rpartition(" ")[0] == call.name}


WHOLE = [call for call in CALLS if any(True for _ in call.of_numpy())]


@pytest.mark.parametrize("call", WHOLE, ids=lambda call: call.name)
def test_whole_numbers_may_be_of_numpy(call: Call) -> None:
    refused = {}
    for argument, kind, attempt in call.of_numpy():
        try:
            attempt()
        except ds.DiffsimError as error:
            refused[argument, kind] = str(error)
    assert refused == {}


def test_every_name_that_fits_is_of_a_call() -> None:
    known = {f"{call.name} {argument}" for call in CALLS for argument in call.arguments}
    assert FITTING.keys() <= known
