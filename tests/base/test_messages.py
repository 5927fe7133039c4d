"""Values in messages: short, on one line, the same in each process, whatever the value is."""

from __future__ import annotations

import ast
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import diffsim as ds
from diffsim.base.messages import LONGEST, shown


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Long:
    def __repr__(self) -> str:
        return "a\n\x00" * 100


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value, 1]
    return value


VALUES: dict[str, object] = {
    "a function": lambda x: x,
    "a partial function": partial(nested, 3),
    "an object": object(),
    "a class": Long,
    "a value without a text": Unprintable(),
    "a text of two lines": Long(),
    "a number of 5000 digits": 10**5000,
    "a negative one, in a list": [-(10**5000)],
    "a matrix": np.eye(50),
    "a million numbers": list(range(10**6)),
    "deep lists": nested(2000),
    "a long text": "x\n" * 10**6,
    "marks of direction": "a\u202eb",
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_any_value_is_shown_on_one_short_line(value: object) -> None:
    text = shown(value)
    assert 0 < len(text) <= LONGEST and text.isprintable() and "0x" not in text


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_any_value_is_refused_in_one_line(value: object) -> None:
    heat = ds.Simulation(ds.solvers.Heat(ds.Grid((4,), 1.0), dt=0.1))
    parameter = [value] if callable(value) else value  # a function alone is an input,
    slots = [value] if isinstance(value, int) else value  # and more slots than steps are all of them
    for call in (
        lambda: ds.Grid(value, 1.0),  # type: ignore[arg-type]
        lambda: ds.Grid((4,), value),  # type: ignore[arg-type]
        lambda: heat.run({"kappa": np.ones(4)}, value),  # type: ignore[arg-type]
        lambda: heat.run({"kappa": parameter}, 3),
        lambda: ds.Simulation(heat.equation, receivers={"T": value}),  # type: ignore[dict-item]
        lambda: ds.solvers.Heat(ds.Grid((4,), 1.0), value),  # type: ignore[arg-type]
        lambda: heat.vjp({"kappa": np.ones(4)}, 3, checkpoint=slots),  # type: ignore[arg-type]
    ):
        with pytest.raises(ds.DiffsimError) as caught:
            call()
        message = str(caught.value)
        assert len(message) < 500 and message.isprintable() and " at 0x" not in message, message


def test_short_values_are_shown_whole() -> None:
    for value in (3, 2.5, "wave", (100, 200, 300), [1, 2, 3, 4, 5, 6, 7], {"c": 1, "f": 2, "g": 3, "h": 4}, None, True):
        assert shown(value) == repr(value)
    assert shown(np.eye(2)) == "array([[1., 0.], [0., 1.]])"


def test_errors_show_values_by_this_function_alone() -> None:
    """`!r` in an error would print all of a long value, or raise for a number of many digits."""
    for path in sorted(Path(ds.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) != "AttributeError":
                raw = [part for part in ast.walk(node) if isinstance(part, ast.FormattedValue) and part.conversion == ord("r")]
                assert not raw, f"{path}:{node.lineno}: write shown(...)"
