"""Results lie in memory as NumPy's do, so that edits through views of them reach the same entries as there."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn

from .orders import FORMS, KEYS, NAMES, SHAPES, both, functions, is_accepted, orders, places

KNOWN: list[tuple[str, str, dict[str, Any]]] = [
    ("block", "x", {}), ("block", "[x]", {}), ("block", "[[x, x], [x, x]]", {}),
    ("quantile", "x, 0.3", {"axis": 0}), ("quantile", "x, [0.2, 0.7]", {"axis": 1}),
    ("percentile", "x, 0.3", {"axis": 1, "keepdims": True}), ("median", "x", {"axis": 0}),
    ("dot", "x, 0.3", {}), ("inner", "x, 0.3", {}), ("clip", "x", {}),
]  # fmt: skip
"""Calls whose results once lay otherwise, and calls like them."""


def compared(calls: Any) -> collections.Counter[str]:
    """Compare the results of calls in all orders of memory; how many were compared of each function."""
    count: collections.Counter[str] = collections.Counter()
    wrong = []
    for name, form, keys in calls:
        for shape in (shape for shape in SHAPES if is_accepted(name, form, keys, shape)):
            for order, x in orders(shape):
                strides = both(name, form, keys, x)
                count[name] += strides is not None
                if strides is not None and strides[0] != strides[1]:
                    wrong.append(f"{name}({form}, {keys}), shape {shape}, {order}: strides {strides[1]}, in NumPy {strides[0]}")
    assert not wrong, "\n".join(wrong)
    return count


@pytest.mark.filterwarnings("ignore")
def test_results_of_some_functions_lie_as_in_numpy() -> None:
    rng = np.random.default_rng(0)
    forms, keys = list(FORMS), list(KEYS)
    sampled = [(name, forms[3 * rng.integers(2)], keys[rng.integers(4)]) for name in NAMES[::4] for _ in range(2)]
    count = compared([*KNOWN, *sampled])
    assert sum(count.values()) > 1500 and all(count[name] for name, *_ in KNOWN)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_results_of_all_functions_lie_as_in_numpy() -> None:
    count = compared((name, form, keys) for name in NAMES for form in FORMS for keys in KEYS)
    print(sum(count.values()), "results of", len(count), "functions")
    assert sum(count.values()) > 100_000 and len(+count) > 200


@pytest.mark.parametrize(("name", "form", "keys"), KNOWN)
@pytest.mark.filterwarnings("ignore")
def test_an_edit_through_a_flat_view_of_a_result_reaches_it(name: str, form: str, keys: dict[str, Any]) -> None:
    def edited(np_: Any, function: Any, x: Any) -> Any:
        result = function(*FORMS[form](x), **keys)
        flat = np_.reshape(result, -1)
        flat[1] += 100.0
        return result

    theirs, ours = functions(name)
    for _, x in orders((2, 3, 4)):
        after = ds.vjp(lambda x: edited(dn, ours, x), x)[0]
        np.testing.assert_allclose(after, edited(np, theirs, np.array(x, order="K", copy=None)), rtol=1e-12)
        assert places(after) is not None
