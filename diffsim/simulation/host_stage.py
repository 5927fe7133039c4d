"""Array programs inside a time step."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.ad.core import outside_derivatives
from diffsim.ad.surroundings.reading import look, readers_of
from diffsim.ad.transforms.jvp import jvp
from diffsim.ad.transforms.vjp import vjp
from diffsim.base import arguments
from diffsim.base.code import constant_text
from diffsim.base.messages import shown
from diffsim.boundary import Boundary
from diffsim.errors import ParameterError, ShapeError
from diffsim.expr.symbol import Symbol
from diffsim.mesh.field import Location
from diffsim.stepping.ir.names import Title
from diffsim.stepping.trace.stages import array_stage, placed, trace_of


def host_stage(
    f: Callable[..., Any],
    fields: Symbol | Sequence[Symbol],
    boundary: Boundary | Symbol | list[Boundary | Symbol] = "zero",
    location: Location | list[Location] | None = None,
    outputs: int | None = None,
) -> Any:
    """Compute intermediate fields of a step with an array program, such as one with Fourier transforms.

    The step is cut there: the part before it runs as a compiled kernel, then `f` is called with the cells, then the next kernel runs. The
    tangent and the adjoint of a simulation differentiate `f` by `ds.jvp` and `ds.vjp`, so it is written in `diffsim.numpy`, or it is a
    `ds.kernel`. It is called at each step, and again when a step is repeated. Its results must depend on its arguments alone, which
    the comparison of repeated states checks. On a GPU the cells are copied to the host and back.

    Args:
        f: takes arrays over the cells, in the simulation's type, one for each field. It returns an array of the same shape, or a tuple of
            them. Its arguments are copies, which it may edit.
        fields: expressions of the step, or one.
        boundary: values of each result outside the grid: rules, see `Variable`, or a field of the step whose rules are used. A list has one
            entry for each result.
        location: location of each result on the cell. A list has one entry for each result. None: the location of the field of the
            same number, or of the first field if `outputs` is given.
        outputs: the number of results; None: as many as fields.

    Returns:
        The results as fields of the step: a tuple, or a single field if `outputs` is 1 or `fields` is a single expression.

    Raises:
        TraceError: it is called outside of a step, or a field is no expression of the step.
        ParameterError, ShapeError: another argument is not as described.
        HostStageError: in a run, `f` failed. The message names the step.
        ShapeError: in a run, `f` did not return such arrays.

    Example:
        import numpy as np

        import diffsim as ds
        import diffsim.numpy as dnp

        class Spectral(ds.Equation):
            # Diffusion in a periodic box, exact in Fourier space for any time step.

            states = {"T": ds.Variable("periodic", unit="K")}

            def __init__(self, grid, dt, kappa):
                self.grid, self.dt, self.kappa = grid, dt, kappa

            def decay(self, T):
                k = 2 * np.pi * np.fft.rfftfreq(self.grid.shape[0], self.grid.spacing[0])
                return dnp.fft.irfft(np.exp(-self.kappa * k**2 * self.dt) * dnp.fft.rfft(T), T.shape[0])

            def step(self, T):
                return {"T": ds.host_stage(self.decay, T, boundary="periodic")}

        grid = ds.Grid((64,), spacing=1 / 64)
        wave = np.sin(2 * np.pi * grid.coordinates(0))
        T = ds.Simulation(Spectral(grid, dt=0.5, kappa=0.01), precision="f64").run({"T": wave}, steps=10).final["T"]
        assert np.allclose(T, wave * np.exp(-0.01 * (2 * np.pi) ** 2 * 5.0))
    """
    arguments.function("f", f, "ds.host_stage(lambda u: dnp.fft.irfft(...), u)", optional=False)
    several = not isinstance(fields, Symbol)
    symbols: list[Any] = list(fields) if isinstance(fields, (tuple, list)) else [fields]
    if not symbols or not all(isinstance(each, Symbol) for each in symbols):
        raise ParameterError(f"fields = {shown(fields)}, expected an expression of the step, or a tuple of them; give the arguments of f")
    count = len(symbols) if outputs is None else arguments.whole("outputs", outputs, 1)
    homes = [placed(each) for each in symbols] if outputs is None else [placed(symbols[0])] * count
    locations = homes if location is None else _one_each("location", location, count)
    several = several if outputs is None else count > 1
    title = Title(f"host_stage of {getattr(f, '__qualname__', type(f).__name__)}", steady=trace_of(symbols[0], "host_stage()").steady)
    function = ArrayProgram(f, count if several else None, identity_of(f), title)
    results = array_stage(function, symbols, locations, _one_each("boundary", boundary, count))
    return tuple(results) if several else results[0]


def _one_each(name: str, value: Any, count: int) -> list[Any]:
    if not isinstance(value, list):
        return [value] * count
    if len(value) != count:
        raise ShapeError(f"{name} = {shown(value)} has {len(value)} entries, expected {count}, one for each result; give those")
    return value


@dataclass(frozen=True)
class ArrayProgram:
    """An array program that a stage of a step calls.

    Attributes:
        f: a function of arrays that returns arrays.
        count: the number of results; None: a single array, not in a tuple.
        about: a text that identifies it.
        title: its name in messages.
    """

    f: Callable[..., Any]
    count: int | None
    about: str = field(compare=False)
    title: Title = field(compare=False)

    def __call__(self, *cells: npt.NDArray) -> list[npt.NDArray]:
        with outside_derivatives():  # NumPy's functions and those of derivatives round differently
            return [np.asarray(value) for value in self._values(*(each.copy() for each in cells))]

    def _values(self, *cells: Any) -> tuple[Any, ...]:
        """Call `f` with arrays that may be differentiated."""
        result = self.f(*cells)
        together = isinstance(result, (tuple, list))
        if together != (self.count is not None) or (together and len(result) != self.count):
            raise ShapeError(self._miscounted(result, cells[0].shape))
        values = result if together else (result,)
        shape = cells[0].shape
        for value in values:
            if getattr(value, "shape", None) != shape or value.dtype.kind != "f":
                got = f"{value.dtype} of shape {value.shape}" if hasattr(value, "dtype") else shown(value)
                raise ShapeError(f"expected real floating-point numbers of shape {shape}, one a cell, got {got}; return such arrays")
        return tuple(values)

    def _miscounted(self, result: Any, shape: tuple[int, ...]) -> str:
        """The message for results that are not as many as expected."""
        expected = "an array" if self.count is None else f"a tuple of {arguments.plural(self.count, 'array')}"
        returned = result if isinstance(result, (tuple, list)) else (result,)
        others = len(returned) != (self.count or 1) and len(returned) > 0 and all(getattr(one, "shape", None) == shape for one in returned)
        remedy = f", or give outputs={len(returned)}" if others else ""
        return f"expected {expected}, got {shown(result)}; return {'it' if self.count is None else 'those'}{remedy}"

    def tangent(self) -> ArrayProgram:
        def along(*both: Any) -> tuple[Any, ...]:
            half = len(both) // 2
            return tuple(jvp(self._values, both[:half], both[half:])[1])

        return ArrayProgram(along, self.count or 1, f"tangent of {self.about}", self.title)

    def transpose(self, wanted: Sequence[int]) -> Pullback:
        return Pullback(self, tuple(wanted))

    def identity(self) -> str:
        return self.about

    def room(self, cells: int) -> int:
        return 0  # the memory of the user's function is unknown


@dataclass(frozen=True)
class Pullback:
    """(arguments, cotangents of results) -> cotangents of the arguments with the numbers `wanted`."""

    program: ArrayProgram
    wanted: tuple[int, ...]

    def __call__(self, *cells: npt.NDArray) -> list[npt.NDArray]:
        count = len(cells) - (self.program.count or 1)
        copies = [each.copy() for each in cells[:count]]

        def of_wanted(*chosen: Any) -> tuple[Any, ...]:
            full = list(copies)
            for number, value in zip(self.wanted, chosen, strict=True):
                full[number] = value
            return self.program._values(*full)

        with outside_derivatives():
            _, pullback = vjp(of_wanted, *(copies[number] for number in self.wanted))
            return [np.asarray(bar) for bar in pullback(tuple(each.copy() for each in cells[count:]))]

    @property
    def title(self) -> Title:
        """Its name in messages."""
        return self.program.title

    def identity(self) -> str:
        return f"transpose of {self.program.about}"

    def room(self, cells: int) -> int:
        return 0


def identity_of(f: Callable[..., Any]) -> str:
    """A text that identifies a function: its code, that of functions that it calls, and the outside numbers and arrays that they read."""
    digest = hashlib.blake2b(digest_size=16)
    codes: list[CodeType] = []
    for (_, name), reader in readers_of(f, codes).items():
        digest.update(name.encode() + repr(look(reader())).encode())
    for code in codes:
        _add_code(digest, code)
    return f"{getattr(f, '__module__', '')}.{getattr(f, '__qualname__', type(f).__qualname__)} {digest.hexdigest()}"


def _add_code(digest: Any, code: CodeType) -> None:
    digest.update(code.co_code + repr(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add_code(digest, constant)
        else:
            digest.update(constant_text(constant).encode())
