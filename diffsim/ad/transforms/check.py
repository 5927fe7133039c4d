"""Gradients checked against differences, along random directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from diffsim.ad.arrays.leaves import differentiable, inputs_of, own_arrays
from diffsim.ad.transforms.jvp import jvp
from diffsim.ad.transforms.vjp import vjp
from diffsim.ad.tree import Tree, flatten, unflatten
from diffsim.base import arguments
from diffsim.errors import GradientError, ParameterError

TOLERANCE = {np.dtype(np.float32): 2e-2, np.dtype(np.float64): 1e-6}
"""Relative, for fourth-order differences; the change by halving the step is allowed on top."""
EPS = {np.dtype(np.float32): 1.2e-7, np.dtype(np.float64): 2.2e-16}
MATCH = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-9}
"""Relative, of reverse against forward mode."""
SHORTER = (1.0, 0.1, 0.01)
"""Steps of differences, tried one after the other where those of a longer one disagree."""
UNCLEAR = 0.1
"""Share of a derivative by which differences may disagree at most."""
BRIEF = 30
"""Steps by which the rounding of a function is measured, in units of that of its arguments."""
CHANCE = 1e-3
"""Share of its terms that is left of a sum in which they cancel by chance."""


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("forward", "reverse"),
    directions: int = 2,
    step: float | None = None,
    seed: int = 0,
) -> None:
    """Check the derivatives of a function; a one-line test.

    Forward mode is compared with fourth-order central differences along random directions, and reverse mode with forward mode by
    <c, J v> = <J^T c, v> with random c; reverse mode alone with differences. Orders above the first check the derivatives in the
    same way. All bounds are relative: each argument is changed in proportion to its largest entry (by 1 where it is 0), all of them at
    once and each alone, and each result counts in proportion to its own, so units and sizes do not matter.

    Args:
        f: of arrays, numbers and pytrees of them; smooth within a few steps of `args`.
        args: a tuple, one entry an argument.
        order: of the highest derivatives.
        modes: "forward", "reverse", or both.
        directions: random directions a check, in which all arguments change. Of several arguments each one also changes alone.
        step: of the differences, a share of the largest entry of each argument; None: fit for the precision, and shorter where differences
            disagree.
        seed: of the directions.

    Raises:
        GradientError: a derivative is wrong, or differences disagree so much that they cannot judge it; the message says which, in which
            mode and by how much.
        ParameterError: nothing to differentiate for, or an unknown mode.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # A pressure drop along a pipe by Darcy and Weisbach, with the friction of Blasius.
        def drop(speed, diameter):
            friction = 0.316 * (speed * diameter / 1e-6) ** -0.25
            return np.sum(friction * 10.0 / diameter * 500.0 * speed**2)

        assert ds.check_grads(drop, (numpy.array([0.5, 1.0, 2.0]), 0.05)) is None  # a wrong derivative raises
    """
    arguments.function("f", f, "ds.check_grads(lambda x: x**2, (x,))", optional=False)
    if not isinstance(args, (tuple, list)):
        raise ParameterError(f"args is a {type(args).__name__}, expected a tuple with one entry an argument; write check_grads(f, (x,))")
    modes = arguments.names("modes", modes, "('forward', 'reverse')")
    order, directions = arguments.whole("order", order, 1), arguments.whole("directions", directions, 1)
    if not modes or set(modes) - {"forward", "reverse"}:
        raise ParameterError(f"modes = {tuple(modes)}, expected 'forward' and 'reverse'; write one of them or both")
    if step is not None:
        step = arguments.positive("step", step)
    seed = arguments.whole("seed", seed, 0)
    leaves, tree = inputs_of(tuple(args))
    floating = [k for k, leaf in enumerate(leaves) if differentiable(leaf) is not None]
    if not floating:
        raise ParameterError("args hold no floating-point values, expected some to differentiate for; use float(x) or astype(float)")
    _Check(f, leaves, tree, floating, directions, step, np.random.default_rng(seed)).run(order, tuple(modes), "")


class _Check:
    """A function of the floating-point leaves of its arguments."""

    def __init__(
        self,
        f: Callable[..., Any],
        leaves: list[Any],
        tree: Tree,
        floating: list[int],
        directions: int,
        step: float | None,
        rng: np.random.Generator,
    ) -> None:
        self.leaves, self.tree, self.floating, self.directions, self.rng = leaves, tree, floating, directions, rng
        self.f, self.step, self.noise = f, step, list[float]()
        self.x = [np.asarray(leaves[k], np.result_type(leaves[k], np.float32)) for k in floating]
        self.x = [x if isinstance(leaves[k], np.ndarray | np.generic) else x.astype(float) for k, x in zip(floating, self.x, strict=True)]
        single = any(x.dtype in (np.float32, np.complex64) for x in self.x)
        self.precision = np.dtype(np.float32 if single else np.float64)
        self.h = (2e-2 if single else 1e-3) if step is None else step
        self.steps = [share * self.h for share in SHORTER] if step is None else [step]

    def values(self, *x: Any) -> list[Any]:
        """The floating-point leaves of the value. The function may edit its arguments, so it gets copies."""
        full = list(self.leaves)
        for k, value in zip(self.floating, x, strict=True):
            full[k] = value
        out = flatten(self.f(*unflatten(self.tree, own_arrays(full))))[0]
        return [o for o in out if differentiable(o) is not None]

    def run(self, order: int, modes: tuple[str, ...], name: str) -> None:
        if not self.values(*self.x):
            raise ParameterError(
                "the function returned no floating-point values, expected some to differentiate; return an array or a number"
            )
        self.noise = self._noise()
        for v in self._directions():
            if "forward" in modes:
                out, moved = jvp(self.values, tuple(self.x), tuple(v))
                c = self._cotangents(out)
                slope = _inner(c, moved)
                self._against_differences(v, c, slope, f"forward derivative of the {name}")
                if "reverse" in modes:
                    self._match(v, vjp(self.values, *self.x)[1](c), c, out, moved, name)
            else:
                out, pullback = vjp(self.values, *self.x)
                c = self._cotangents(out)
                self._against_differences(v, c, _inner(pullback(c), v), f"reverse derivative of the {name}")
        if order > 1:
            if "forward" in modes:
                v = [self._direction(x) for x in self.x]
                self._next(lambda *x: jvp(self.values, x, tuple(v))[1], order - 1, modes, f"{name}forward derivative of the ")
            if "reverse" in modes:
                c = self._cotangents(self.values(*self.x))
                self._next(lambda *x: vjp(self.values, *x)[1](c), order - 1, modes, f"{name}reverse derivative of the ")

    def _noise(self) -> list[float]:
        """Rounding of each result: second differences over steps that are too short for curvature.

        It is as large as the result where that is all that rounding leaves of a sum.
        """
        here = [np.asarray(o) for o in self.values(*self.x)]
        noise = [0.0] * len(here)
        for _ in range(3):
            d = [BRIEF * EPS[self.precision] * self._direction(x) for x in self.x]
            up, down = (self.values(*(x + sign * each for x, each in zip(self.x, d, strict=True))) for sign in (1, -1))
            bends = [float(np.abs(a - o + (b - o)).max(initial=0.0)) for a, o, b in zip(up, here, down, strict=True)]
            noise = [float(np.fmax(a, b)) for a, b in zip(noise, bends, strict=True)]
        return noise

    def _next(self, f: Callable[..., Any], order: int, modes: tuple[str, ...], name: str) -> None:
        leaves, tree = flatten(tuple(self.x))
        _Check(f, leaves, tree, list(range(len(leaves))), self.directions, self.step, self.rng).run(order, modes, name)

    def _directions(self) -> Iterator[list[Any]]:
        """Some that change all arguments, and one for each of several that changes it alone."""
        for _ in range(self.directions):
            yield [self._direction(x) for x in self.x]
        if len(self.x) > 1:
            for k, x in enumerate(self.x):
                alone: list[Any] = [np.zeros_like(each)[()] for each in self.x]
                alone[k] = self._direction(x)
                yield alone

    def _direction(self, x: np.ndarray) -> Any:
        return (self._normal(x) * _size(x)).astype(x.dtype)[()]

    def _cotangents(self, out: Sequence[Any]) -> list[Any]:
        """Weights by which results of all sizes count alike, but for those that are rounding alone, which count as what rounds to them."""
        sizes = [max(_size(np.asarray(o)), noise / EPS[self.precision]) for o, noise in zip(out, self.noise, strict=True)]
        return [(self._normal(o) / size).astype(o.dtype)[()] for o, size in zip(map(np.asarray, out), sizes, strict=True)]

    def _normal(self, x: np.ndarray) -> Any:
        v = self.rng.standard_normal(x.shape)
        return v + 1j * self.rng.standard_normal(x.shape) if x.dtype.kind == "c" else v

    def _against_differences(self, v: list[Any], c: list[Any], slope: float, name: str) -> None:
        here = [np.asarray(o) for o in self.values(*self.x)]
        rounding = EPS[self.precision] * _terms(c, here) + _terms(c, self.noise)
        for h in self.steps:
            (fine, terms, _), (coarse, _, way) = self._difference(v, c, 0.5 * h, here), self._difference(v, c, h, here)
            roundoff, apart = 20 * (rounding + EPS[self.precision] * way / h) / h, abs(fine - coarse)
            derivative = max(abs(slope), abs(fine), CHANCE * terms)
            allowed = TOLERANCE[self.precision] * derivative + apart + roundoff
            if apart <= max(TOLERANCE[self.precision] * derivative, roundoff):
                break
        if np.isfinite(_terms(c, here)) and not np.isfinite(fine + coarse):
            raise GradientError(
                f"the {name}function has no value within {h:.1g} of the size of its arguments (differences are {fine}), expected one "
                "along each direction; give a smaller step, or arguments that are farther from where it ends"
            )
        wrong = not abs(fine - slope) <= allowed
        if not wrong and not apart > max(UNCLEAR * derivative, roundoff):
            return
        got = f"the {name}function is {slope:.10g} along a random direction, differences give {fine:.10g}"
        why = (
            f"apart by {abs(fine - slope):.2g}, allowed {allowed:.2g}); a rule is wrong, or"
            if wrong
            else f"and {coarse:.10g} with twice the step, so they cannot judge it); give a smaller step:"
        )
        raise GradientError(
            f"{got} ({why} the function is not smooth within {h:.1g} of the size of its arguments, or it computes in less precision "
            "than they have (a simulation in f32)"
        )

    def _difference(self, v: list[Any], c: list[Any], h: float, here: Sequence[np.ndarray]) -> tuple[float, float, float]:
        """Sum of c times the derivative along v, that of the magnitudes, and that of the changes by the longest steps.

        An argument is rounded when it is moved, so a change has a relative error of the rounding over h, and at an extremum all changes are
        large beside the derivative.
        """

        def at(k: float) -> list[np.ndarray]:
            moved = self.values(*(x + k * h * d for x, d in zip(self.x, v, strict=True)))
            return [np.asarray(o, np.result_type(np.asarray(o), np.float64)) for o in moved]

        far = at(2.0), at(-2.0)
        ends = zip(at(1.0), at(-1.0), *far, strict=True)
        slopes = [(8.0 * (up - down) - (far_up - far_down)) / (12.0 * h) for up, down, far_up, far_down in ends]
        way = max(_terms(c, [a - b for a, b in zip(end, here, strict=True)]) for end in far)
        return _inner(c, slopes), _terms(c, slopes), way

    def _match(self, v: list[Any], bars: Sequence[Any], c: list[Any], out: Sequence[Any], moved: Sequence[Any], name: str) -> None:
        reverse, forward = _inner(bars, v), _inner(c, moved)
        rounding = 20 * EPS[self.precision] * _terms(c, out) + 200 * _terms(c, self.noise)  # of results that hardly change
        allowed = MATCH[self.precision] * max(_terms(c, moved), abs(reverse)) + rounding
        if not abs(reverse - forward) <= allowed:
            raise GradientError(
                f"the reverse derivative of the {name}function gives <J^T c, v> = {reverse:.12g}, the forward one <c, J v> = "
                f"{forward:.12g} (apart by {abs(reverse - forward):.2g}, allowed {allowed:.2g}); a rule is wrong"
            )


def _size(x: np.ndarray) -> float:
    """The largest magnitude; 1 where all is 0."""
    return float(np.abs(x).max(initial=0.0)) or 1.0


def _inner(a: Sequence[Any], b: Sequence[Any]) -> float:
    """Sum of products, its real part: the pairing of cotangents and tangents."""
    return float(sum(np.real(np.sum(np.asarray(p, np.result_type(p, np.float64)) * q)) for p, q in zip(a, b, strict=True)))


def _terms(a: Sequence[Any], b: Sequence[Any]) -> float:
    """Sum of the magnitudes of products."""
    return float(sum(np.abs(np.asarray(p) * np.asarray(q)).sum() for p, q in zip(a, b, strict=True)))
