"""Functions of `scipy.special`, differentiable: entry by entry, of real numbers.

The values are SciPy's own. NumPy has no functions of these names, and programs import them from `scipy.special`; so they stand here, as
linear algebra stands in `linalg`. SciPy's own functions, called on arrays of a derivative, lead here too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.arrays.refusals import refusing
from diffsim.ad.core import local
from diffsim.ad.ops.elementwise import TABLE
from diffsim.ad.ops.structure import astype
from diffsim.elementwise.table import FUNCTIONS
from diffsim.numpy.calling.dispatch import value_of

__all__ = ["erf", "erfc", "expit", "softplus"]


def named(name: str) -> Callable[..., Any]:
    """A function of the table of elementary functions, for arrays."""
    function, primitive = FUNCTIONS[name], TABLE[name]

    def of_arrays(*args: Any) -> Any:
        if not local.depth:
            return function.reference(*args)
        if len(args) != function.count:
            raise TypeError(f"{name} of {len(args)} arguments, expected {function.count}; give arrays or numbers only")
        return wrap(primitive(*(_floating(name, core(a)) for a in args)))

    of_arrays.__name__ = of_arrays.__qualname__ = name
    of_arrays.__doc__ = f"{function.meaning} As `scipy.special.{name}`, differentiable."
    return refusing(f"scipy.special.{name}")(of_arrays)


def _floating(name: str, x: Any) -> Any:
    value = x if hasattr(x, "dtype") else value_of(x)
    if value.dtype.kind not in "fiub":
        raise TypeError(f"{name} of {value.dtype}, expected real numbers; take the real part, or abs")
    return value if value.dtype.kind == "f" else astype(value, dtype=np.dtype(float))


erf = named("erf")
erfc = named("erfc")
expit = named("expit")
softplus = named("softplus")
