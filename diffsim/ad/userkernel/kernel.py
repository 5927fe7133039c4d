"""`diffsim.kernel`: a user's own Taichi kernel as a function of arrays that has a derivative."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from diffsim import engine
from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.core import Primitive, bind, is_plain
from diffsim.ad.ops.structure import zeros_like
from diffsim.ad.surroundings import watch as surroundings
from diffsim.ad.userkernel.around import Around, looks_of, names_from_outside
from diffsim.ad.userkernel.launched import Compiled
from diffsim.ad.userkernel.lint import Finding, check, refusal
from diffsim.ad.userkernel.signature import Signature, is_real, read_signature
from diffsim.ad.userkernel.source import Source, raw_function
from diffsim.errors import DivergenceError, KernelError, ShapeError

BAR = "_bar"
"""A kernel given as an adjoint calls the cotangent of `x` by the name `x_bar`."""


class UserKernel:
    """A Taichi kernel as a function: it takes the arrays that it reads, and returns those that it writes. `diffsim.kernel` makes it.

    Attributes:
        signature: parameters, and which of them are given and returned.
        source: the function's source.
        hand_adjoint, hand_tangent: derivatives given by hand, or None.
    """

    def __init__(self, source: Source, signature: Signature) -> None:
        self.source, self.signature = source, signature
        self.hand_adjoint: Callable[..., Any] | UserKernel | None = None
        self.hand_tangent: Callable[..., Any] | None = None
        self._watch: surroundings.Watch | None = None
        self.__name__, self.__doc__ = signature.name, source.function.__doc__
        self.__module__, self.__qualname__ = source.function.__module__, source.function.__qualname__

    def __repr__(self) -> str:
        return f"<kernel {self.__name__}({', '.join(self.signature.inputs)}) -> {', '.join(self.signature.outputs)}>"

    def __reduce__(self) -> str:
        """Pickle it by its name, as Python does with functions."""
        return self.__qualname__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel on the arrays that it reads. Return those that it writes, one or a tuple. The arguments do not change."""
        outputs = self._apply(self.signature.bind(args, kwargs))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _apply(self, inputs: Sequence[Any], around: Around | None = None) -> list[Any]:
        """The kernel on values that may be differentiated; what it takes from outside has to look as it does now, or as in `around`."""
        around = self._around() if around is None else around
        values = [value if isinstance(value, (int, float, list, tuple)) else core(value) for value in inputs]
        if is_plain(*values):
            return [wrap(out) for out in self.evaluate(values, around)]
        kept = [v if hasattr(v, "dtype") else np.asarray(v) for v in values]
        return [wrap(out) for out in bind(self._primitive, kept, {"around": around, "noted": self._noted()})]

    def names_around(self) -> list[tuple[Source, str]]:
        """Names of the values that the kernel, and the kernel that is its adjoint, take from outside."""
        more = self.hand_adjoint.names_around() if isinstance(self.hand_adjoint, UserKernel) else []
        return [*self._compiled.names, *more]

    def _around(self) -> Around:
        return looks_of(self.names_around())

    def _noted(self) -> surroundings.Noted | None:
        """The present values that an adjoint in Python reads from outside."""
        if self.hand_adjoint is None or isinstance(self.hand_adjoint, UserKernel):
            return None
        if self._watch is None or self._watch.rule is not self.hand_adjoint:
            self._watch = surroundings.Watch(self.hand_adjoint)
        return self._watch.note()

    @cached_property
    def _primitive(self) -> Primitive:
        return Primitive(
            self.__name__, lambda *args, around, **_: tuple(self.evaluate(args, around)), jvp=self._jvp, vjp=self._vjp, multiple=True
        )

    def _jvp(self, args: Sequence[Any], tangents: Sequence[Any], out: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        dots = [zeros_like(a) if t is None and a.dtype.kind == "f" else t for a, t in zip(args, tangents, strict=True)]
        return [core(t) for t in self.pushforward(list(map(_public, args)), list(map(_public, out)), list(map(_public, dots)))]

    def _vjp(
        self, cotangents: Sequence[Any], args: Sequence[Any], out: Sequence[Any], params: dict[str, Any], wanted: tuple[bool, ...]
    ) -> list[Any]:
        with surroundings.running(params["noted"]):
            if is_plain(*args, *out, *cotangents):
                return list(self.pullback(args, out, cotangents, wanted, params["around"]))
            values = [list(map(_public, part)) for part in (args, out, cotangents)]
            bars = self._hand_pullback(values[0], values[1], values[2], wanted, params["around"])
        own = [np.array(bar) if isinstance(bar, np.ndarray) else bar for bar in bars]  # the next call may fill the same memory
        return [None if bar is None or not w else core(bar) for bar, w in zip(own, wanted, strict=True)]

    @cached_property
    def findings(self) -> list[Finding]:
        """The constructs for which the source is refused."""
        with engine.lock:
            return check(self.source, self.signature)

    @cached_property
    def _compiled(self) -> Compiled:
        return Compiled(self.source, self.signature, names_from_outside(self.source))

    def evaluate(self, inputs: Sequence[Any], around: Around | None = None) -> list[np.ndarray]:
        """Run the kernel on arrays.

        Args:
            inputs: values in the order of `signature.inputs`; they are not changed.
            around: looks that the values from outside have to have; None: the present ones.

        Returns:
            The arrays that the kernel writes, in the order of `signature.outputs`. A new output starts at zero.

        Raises:
            KernelError: the source has a construct that cannot even run, or an argument has the wrong type.
            ShapeError: an argument has the wrong number of axes.
        """
        if fatal := [f for f in self.findings if f.fatal]:
            raise refusal(self.__name__, fatal, "run")
        converted = self.signature.convert(inputs)
        arrays = {name: converted[name].copy() if name in self.signature.in_place else converted[name] for name in converted}
        arrays |= {name: self.signature.new_output(name, converted) for name in self.signature.outputs if name not in converted}
        self._compiled.forward(arrays, self._around() if around is None else around)
        return [arrays[name] for name in self.signature.outputs]

    def pullback(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[np.ndarray],
        cotangents: Sequence[np.ndarray | None],
        wanted: Sequence[bool] | None = None,
        around: Around | None = None,
    ) -> list[np.ndarray | None]:
        """Cotangents of the inputs, by the adjoint given by hand, else by Taichi's transform.

        Args:
            inputs: the arguments of `evaluate`.
            outputs: its results.
            cotangents: of the outputs, of their shapes; None is zero.
            wanted: which inputs' cotangents are used; None: all. Cotangents of float numbers cost atomic additions.
            around: as in `evaluate`.

        Returns:
            A cotangent of the shape and type of each input, None where the input holds integers or is not wanted.

        Raises:
            KernelError: the source has constructs that Taichi differentiates wrongly, and no adjoint is given by hand; or the
                results of the adjoint do not fit.
            DivergenceError: a cotangent is not finite although all values are.
        """
        around = self._around() if around is None else around
        converted = self.signature.convert(inputs)
        ended = dict(zip(self.signature.outputs, (np.asarray(o) for o in outputs), strict=True))
        bars = {
            name: np.zeros_like(ended[name]) if bar is None else self._like(np.asarray(bar), ended[name], f"cotangent of {name}")
            for name, bar in zip(ended, cotangents, strict=True)
        }
        use = [is_real(converted[n]) and (wanted is None or wanted[i]) for i, n in enumerate(self.signature.inputs)]
        if self.hand_adjoint is not None:
            values = [list(v.values()) for v in (converted, ended, bars)]
            if not isinstance(self.hand_adjoint, UserKernel):  # it may work in place on what it gets, and in a buffer that it returns
                values = [[v.copy() for v in part] for part in values]
            answers = [None if a is None else np.array(a) for a in self._hand_pullback(values[0], values[1], values[2], use, around)]
            by_name = dict(zip(converted, answers, strict=True))
        else:
            by_name = dict(self._taichi_pullback(converted, ended, bars, use, around))
        result: list[np.ndarray | None] = []
        for name, used, value in zip(self.signature.inputs, use, inputs, strict=True):
            answer = self._like(np.asarray(by_name[name]), converted[name], f"adjoint's cotangent of {name}") if used else None
            self._demand_finite(name, answer, [*converted.values(), *ended.values(), *bars.values()])
            whole = not np.issubdtype(np.asarray(value).dtype, np.floating)
            result.append(answer if answer is None or whole else answer.astype(np.asarray(value).dtype, copy=False))
        return result

    def _taichi_pullback(
        self,
        converted: dict[str, np.ndarray],
        ended: dict[str, np.ndarray],
        bars: dict[str, np.ndarray],
        use: Sequence[bool],
        around: Around,
    ) -> dict[str, np.ndarray]:
        """Taichi's own transform. Arrays updated in place get their values from before, and new outputs keep their final ones."""
        if self.findings:
            raise refusal(self.__name__, self.findings, "be differentiated")
        used = [name for name, needed in zip(converted, use, strict=True) if needed]
        if not used:
            return {}
        arrays = {name: converted.get(name, ended.get(name)) for name in self.signature.parameters}
        numbers = frozenset(name for name in used if self.signature.parameters[name].scalar)
        return self._compiled.reverse({n: a for n, a in arrays.items() if a is not None}, bars, numbers, around)

    def _hand_pullback(
        self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any], use: Sequence[bool] | None, around: Around
    ) -> list[Any]:
        """The adjoint given by hand, on values of any kind: with values on a tape it is differentiated once more."""
        if self.hand_adjoint is None:
            raise KernelError(
                f"kernel {self.__name__} has no second derivative: Taichi's transform is not differentiated again; "
                f"give an adjoint that is itself differentiable: @{self.__name__}.adjoint"
            )
        names = self.signature.inputs
        if isinstance(self.hand_adjoint, UserKernel):
            bars = self._by_kernel(self.hand_adjoint, inputs, outputs, cotangents, around)
        else:
            bars = self.hand_adjoint(tuple(inputs), tuple(outputs), tuple(cotangents))
            bars = list(bars) if isinstance(bars, (tuple, list)) else [bars]
        if len(bars) != len(names):
            raise KernelError(
                f"the adjoint of kernel {self.__name__} returned {len(bars)} cotangents, expected {len(names)}: "
                f"one for each of ({', '.join(names)}), None for integers"
            )
        lost = [name for name, bar, used in zip(names, bars, use or (), strict=False) if used and bar is None]
        if lost:
            raise KernelError(
                f"the adjoint of kernel {self.__name__} gives no cotangent of {', '.join(lost)}, which is differentiated; "
                "return one, or hold that argument constant"
            )
        return bars

    def _by_kernel(
        self, adjoint: UserKernel, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any], around: Around
    ) -> list[Any]:
        """Run an adjoint that is a kernel: it takes its arguments by name."""
        values = dict(zip(self.signature.inputs, inputs, strict=True))
        ended = dict(zip(self.signature.outputs, outputs, strict=True))
        values |= {name: ended[name] for name in ended if name not in values}
        values |= {f"{name}_out": ended[name] for name in ended if f"{name}_out" not in values}
        values |= {f"{name}{BAR}": bar for name, bar in zip(self.signature.outputs, cotangents, strict=True)}
        results = adjoint._apply([values[name] for name in adjoint.signature.inputs], around)
        named = dict(zip(adjoint.signature.outputs, results, strict=True))
        return [named.get(f"{name}{BAR}") for name in self.signature.inputs]

    def pushforward(self, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Tangents of the outputs, by the function given with `tangent`.

        Raises:
            KernelError: none is given; Taichi's forward mode takes no arrays.
        """
        if self.hand_tangent is None:
            raise KernelError(
                f"kernel {self.__name__} has no tangent: Taichi's forward mode does not take arrays; "
                f"give one, @{self.__name__}.tangent, or differentiate in reverse"
            )
        dots = self.hand_tangent(tuple(inputs), tuple(outputs), tuple(tangents))
        dots = list(dots) if isinstance(dots, (tuple, list)) else [dots]
        if len(dots) != len(self.signature.outputs):
            raise KernelError(
                f"the tangent of kernel {self.__name__} returned {len(dots)} values, expected one for each of "
                f"({', '.join(self.signature.outputs)})"
            )
        return dots

    def adjoint(self, function: Any) -> Any:
        """Decorator: the derivative by hand, in place of Taichi's transform.

        Args:
            function: `(inputs, outputs, cotangents) -> cotangents of the inputs`, all tuples, None for an input of integers; or
                another kernel, whose parameters are named as inputs, outputs (`x_out` for one that is updated in place) and
                cotangents (`y_bar`), and which writes `x_bar` for each input that has a derivative.

        Returns:
            `function`.

        Raises:
            KernelError: a kernel that reads or writes names that do not exist.
        """
        if isinstance(function, UserKernel):
            names = {*self.signature.inputs, *self.signature.outputs}
            known = names | {n + BAR for n in self.signature.outputs} | {n + "_out" for n in self.signature.outputs}
            strange = [n for n in function.signature.inputs if n not in known]
            strange += [n for n in function.signature.outputs if n.removesuffix(BAR) not in self.signature.inputs or not n.endswith(BAR)]
            if strange:
                raise KernelError(
                    f"kernel {function.__name__} as the adjoint of {self.__name__} has {', '.join(strange)}; expected inputs, outputs "
                    f"and cotangents such as {next(iter(self.signature.outputs))}{BAR}, and to write {self.signature.inputs[0]}{BAR}"
                )
        self.hand_adjoint = function
        return function

    def tangent(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: the forward derivative by hand, `(inputs, outputs, tangents) -> tangents of the outputs`, all tuples."""
        self.hand_tangent = function
        return function

    def _like(self, value: np.ndarray, model: np.ndarray, what: str) -> np.ndarray:
        if value.shape != model.shape:
            raise ShapeError(f"kernel {self.__name__}: {what} has shape {value.shape}, expected {model.shape}; reshape it")
        return value.astype(model.dtype, copy=False)

    def _demand_finite(self, name: str, bar: np.ndarray | None, values: Sequence[np.ndarray]) -> None:
        """Raise where the derivative made NaN or infinity of finite values."""
        if bar is None or np.isfinite(bar).all() or not all(np.isfinite(v).all() for v in values):
            return
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(bar))[0]) if bar.ndim else ()
        raise DivergenceError(
            f"the cotangent of {name}{list(where) if where else ''} through kernel {self.__name__} is {bar[where]}, expected a finite "
            "number since all values are; sqrt, norm or a power at 0, or log of a number that is not positive, has no derivative: keep "
            "away from it with an if or norm(eps); ti.select differentiates both sides, `a if condition else b` the one that is taken"
        )


def _public(value: Any) -> Any:
    return None if value is None else wrap(value)


def kernel(*bare: Any, reads: Sequence[str] = (), writes: Mapping[str, Any] | Sequence[str] | None = None) -> Callable[[Any], UserKernel]:
    """Decorator: make a Taichi kernel a function of arrays, with a derivative.

    Parameters of the function are `ti.types.ndarray(...)` of numbers, or numbers (`float`, `int`, `ti.f64` ...). The call
    takes the parameters that are read, in their order, and returns those that are written; its arguments do not change.
    Untyped numbers and locals in the kernel have the widest float type of its arrays.

    Args:
        bare: nothing. A function here is the decorator without brackets, which is refused.
        reads: names of parameters that are only read.
        writes: names that are updated in place; or a mapping from the name of a new array, which starts at zero, to the
            name of the input whose shape and type it has, to a shape, or to a function that takes inputs by name and
            returns a shape. In a mapping, a name that maps to itself is updated in place.

    Returns:
        A decorator for a plain `def` or for a `@ti.kernel`.

    Raises:
        KernelError: parameters and declaration do not fit together, nothing is declared, or there is no source to read.

    Example:
        import numpy as np
        import taichi as ti

        import diffsim as ds

        Cells = ti.types.ndarray(dtype=ti.f64, ndim=1)

        @ds.kernel(reads=("T", "kappa"), writes={"flux": "T"})
        def heat_flux(T: Cells, kappa: Cells, flux: Cells):
            for i in T:
                if i > 0:
                    flux[i] = -0.5 * (kappa[i] + kappa[i - 1]) * (T[i] - T[i - 1])

        T, kappa = np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.0, 3.0])
        assert np.allclose(heat_flux(T, kappa), [0.0, -1.0, -4.0])
        gradient = ds.grad(lambda kappa: heat_flux(T, kappa).sum())(kappa)
        assert np.allclose(gradient, [-0.5, -1.5, -1.0])
        assert ds.check_kernel(heat_flux, T, kappa, isolated=False).passed
    """

    if bare or writes is None:
        fault = "without brackets" if bare else "without writes"
        raise KernelError(
            f"@ds.kernel {fault}, expected the parameters that the kernel reads and writes; write it like "
            "@ds.kernel(reads=('x',), writes={'y': 'x'})"
        )

    def decorate(function: Any) -> UserKernel:
        source = Source.of(raw_function(function))
        with engine.lock:
            return UserKernel(source, read_signature(source.evaluated(), reads, writes))

    return decorate
