"""Calls that once ended in an error of Python or of another package: each gives one line with a remedy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.base import system
from diffsim.errors import KernelError, ParameterError

REMEDY = "write it like @ds.kernel(reads=('x',), writes={'y': 'x'})"


class BFloat16:
    """Like a tensor of torch on the CPU, of a type that NumPy lacks."""

    dtype, shape = "torch.bfloat16", (5,)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("Got unsupported ScalarType BFloat16")


def test_a_kernel_without_brackets_is_refused() -> None:
    def kernel(x: Any) -> None:
        pass

    for call, lack in ((lambda: ds.kernel(kernel), "without brackets"), (lambda: ds.kernel(), "without writes")):
        with pytest.raises(KernelError, match=rf"^@ds\.kernel {lack}, expected .*; {re.escape(REMEDY)}$"):
            call()


def arrays() -> list[Any]:
    others: list[Any] = [BFloat16()]
    try:
        import ml_dtypes
    except ImportError:
        return others
    return [*others, np.ones(5, ml_dtypes.bfloat16)]


@pytest.mark.parametrize("kappa", arrays(), ids=lambda value: type(value).__name__)
def test_bfloat16_is_converted_by_the_user(kappa: Any) -> None:
    rod = ds.Simulation(ds.solvers.Heat(ds.Grid((5,), 1.0), dt=0.1))
    with pytest.raises(ParameterError, match=r"^input kappa: expected numbers of a type that NumPy has, .*bfloat16; convert it.*float"):
        rod.run({"kappa": kappa, "T": np.ones(5)}, 2)


def test_an_array_beyond_the_memory_is_refused_before_it_is_touched() -> None:
    """A system may promise more memory than it has, and then end the process."""
    with pytest.raises(
        MemoryError, match=r"^expected .* GB of memory for one array, the system has too little \(it has .* GB\); make the grid"
    ):
        system.clear_memory(system.total_memory() + 1)


@pytest.mark.parametrize(("unit", "shown"), [("s", "0.25 s"), ("", "0.25"), ("lengths / c", "0.25 lengths / c")])
def test_the_time_step_has_the_unit_of_the_equation(unit: str, shown: str) -> None:
    heat = ds.solvers.Heat(ds.Grid((5,), 1.0), dt=0.25)
    heat.time_unit = unit
    assert re.search(rf"time step +{re.escape(shown)}$", str(ds.Simulation(heat)), re.MULTILINE)


def test_light_has_no_seconds() -> None:
    light = ds.Simulation(ds.solvers.Maxwell(ds.Grid((20,), 0.02), dt=0.01))
    assert re.search(r"time step +0.01 lengths / c$", str(light), re.MULTILINE)
