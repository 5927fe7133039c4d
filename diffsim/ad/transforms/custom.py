"""Derivatives given by hand."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array, wrap
from diffsim.ad.arrays.leaves import Form, as_arrays, as_kept, cores_of, forms_of, is_floating, public
from diffsim.ad.core import Primitive, aval, is_plain, running
from diffsim.ad.ops.structure import like, zeros_like
from diffsim.ad.surroundings import watch as surroundings
from diffsim.ad.transforms.vjp import vjp
from diffsim.ad.tree import Tree, flatten, leaves_like, tree_map, unflatten
from diffsim.base import arguments
from diffsim.base.messages import shown
from diffsim.errors import DerivativeError, ParameterError, ShapeError


class _Custom:
    """The base of both kinds: the function runs as one operation on the leaves of its arguments."""

    def __init__(self, f: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        arguments.function("f", f, "@ds.custom_vjp above a function", optional=False)
        if not isinstance(nondiff_argnums, (tuple, list)) or not all(type(n) is int for n in nondiff_argnums):
            raise ParameterError(f"nondiff_argnums = {shown(nondiff_argnums)}, expected numbers of arguments; write it like (1,)")
        functools.update_wrapper(self, f)
        self.f = f
        self.nondiff = tuple(nondiff_argnums)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self._by_position(args, kwargs)
        nondiff = tuple(args[i] for i in self.nondiff)
        rest = (tuple(a for i, a in enumerate(args) if i not in self.nondiff), kwargs)
        cores, tree = cores_of(rest)
        if is_plain(*cores):
            return self.f(*args, **kwargs)
        out_tree: list[Tree] = []
        outputs = self._primitive()(*cores, tree=tree, out_tree=out_tree, nondiff=nondiff, forms=forms_of(rest))
        return public(outputs, out_tree[0])

    def _by_position(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments given by keyword at their positions, where rules have them; the rest can only be given by keyword."""
        if not kwargs:
            return args, kwargs
        bound = inspect.signature(self.f).bind(*args, **kwargs)
        bound.apply_defaults()
        if not is_plain(*cores_of(bound.kwargs)[0]):
            raise DerivativeError(
                f"{getattr(self, '__name__', 'a function')} with a derivative by hand is given a differentiated value for a keyword-only "
                f"argument ({', '.join(bound.kwargs)}), for which its rule has no place; make it an argument by position"
            )
        return bound.args, bound.kwargs

    def _primitive(self) -> Primitive:
        raise NotImplementedError

    def _full(self, cores: Sequence[Any], tree: Tree, nondiff: Sequence[Any], forms: list[Form]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments in the order of the function."""
        rest, kwargs = unflatten(tree, as_arrays(tuple(cores), forms))
        args = list(rest)
        for i, value in sorted(zip(self.nondiff, nondiff, strict=True)):
            args.insert(i, value)
        return args, kwargs

    def _evaluate(self, *cores: Any, tree: Tree, out_tree: list[Tree], nondiff: Any, forms: list[Form]) -> tuple[Any, ...]:
        args, kwargs = self._full(cores, tree, nondiff, forms)
        with self._unedited((args, kwargs), "the function"):
            outputs, shape = cores_of(self.f(*args, **kwargs))
        out_tree[:] = [shape]
        return outputs

    @contextmanager
    def _unedited(self, args: Any, what: str) -> Iterator[None]:
        """Refuse edits of arguments: outside of a derivative they reach the caller's array, here an array of the call's own."""
        versions = [(leaf, leaf._version) for leaf in flatten(args)[0] if isinstance(leaf, Array)]
        yield
        if any(leaf._version != version for leaf, version in versions):
            raise DerivativeError(
                f"{what} of {getattr(self, '__name__', 'a function')} with a derivative by hand edits an argument in place, which its "
                "caller would not see; copy it first: x = x.copy()"
            )


class custom_vjp(_Custom):  # noqa: N801 -- JAX's name
    """A function whose reverse-mode derivative is given by hand.

    ```
    f = ds.custom_vjp(function)
    f.defvjp(forward, backward)
    ```

    `forward` takes the arguments of the function and returns (value, residuals); `backward(residuals, cotangent)` returns a tuple
    with a cotangent (None for zero) for each argument. Both are differentiated in their turn for higher orders.

    Args:
        f: the function. Differentiated values must come in as arguments.
        nondiff_argnums: positions of arguments that are not arrays; they come first in `backward`.

    Returns:
        The function, to which `defvjp` gives its rule.

    Raises:
        DerivativeError: it is differentiated without a rule.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # A quantity of a legacy code that brings its own adjoint: the mean square of a field.
        @ds.custom_vjp
        def mean_square(field):
            return np.mean(field**2)

        def forward(field):
            return mean_square(field), field

        def backward(field, cotangent):
            return (cotangent * 2 * field / field.size,)

        mean_square.defvjp(forward, backward)
        gradient = ds.grad(mean_square)(numpy.array([1.0, 3.0]))
        assert numpy.allclose(gradient, [1.0, 3.0])
    """

    _forward: Callable[..., Any] | None = None
    _backward: Callable[..., Any] | None = None
    _watch: surroundings.Watch | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Give the rule."""
        arguments.function("forward", forward, "f.defvjp(forward, backward)", optional=False)
        arguments.function("backward", backward, "f.defvjp(forward, backward)", optional=False)
        self._forward, self._backward, self._watch = forward, backward, surroundings.Watch(backward)

    def _primitive(self) -> Primitive:
        if self._forward is None:
            raise DerivativeError(f"{self._name} has no rule; give one with defvjp(forward, backward) before it is differentiated")
        primitive = Primitive(self._name, self._evaluate, with_pullback=self._with_pullback, multiple=True)
        primitive.jvp = lambda *_: _raise(self._no_forward())
        return primitive

    def _no_forward(self) -> DerivativeError:
        return DerivativeError(
            f"{self._name} has a reverse rule only, and forward mode was asked for (jvp, jacfwd, check_grads); give it a rule with "
            "ds.custom_jvp, or go in reverse: ds.jacrev(ds.grad(f)), ds.check_grads(f, args, modes=('reverse',))"
        )

    @property
    def _name(self) -> str:
        return getattr(self, "__name__", "custom_vjp")

    def _with_pullback(self, cores: Sequence[Any], params: dict[str, Any], wanted: tuple[bool, ...]) -> tuple[Any, Callable[..., Any]]:
        tree, nondiff = params["tree"], tree_map(as_kept, params["nondiff"])
        args, kwargs = self._full(cores, tree, nondiff, params["forms"])
        assert self._forward is not None and self._backward is not None and self._watch is not None
        noted = self._watch.note()
        with self._unedited((args, kwargs), "the forward rule"):
            result = self._forward(*args, **kwargs)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ShapeError(f"the forward rule of {self._name} returned {type(result).__name__}, expected a pair (value, residuals)")
        outputs, out_tree = cores_of(result[0])
        params["out_tree"][:] = [out_tree]
        residuals, avals = result[1], [aval(c) if is_floating(c) else None for c in cores]

        kept, kept_tree = cores_of(residuals)

        def pullback(cts: Sequence[Any]) -> list[Any]:
            with surroundings.running(noted), running():  # the rule gets an array of its own, which it may edit in place
                given_cts, given_kept = (unflatten(t, as_arrays(tuple(c))) for t, c in ((out_tree, cts), (kept_tree, kept)))
                return checked(self._backward(*nondiff, given_kept, given_cts))  # type: ignore[misc]

        def checked(bars: Any) -> list[Any]:
            positional = unflatten(tree, list(cores))[0]
            if not isinstance(bars, tuple) or len(bars) != len(positional):
                count = len(bars) if isinstance(bars, tuple) else type(bars).__name__
                raise ShapeError(
                    f"the backward rule of {self._name} returned {count}, expected a tuple of {len(positional)}, one an argument"
                )
            returned = leaves_like(bars, flatten(positional)[1], f"the result of the backward rule of {self._name}")
            out = []
            for a, bar in zip(avals, [*returned, *[None] * (len(avals) - len(returned))], strict=True):
                core = None if a is None or bar is None else cores_of(bar)[0][0]
                core = np.asarray(core, a.dtype)[()] if a is not None and core is not None and not hasattr(core, "dtype") else core
                if core is not None and core.shape != a.shape:  # type: ignore[union-attr]
                    raise ShapeError(f"the backward rule of {self._name} gave a cotangent of shape {core.shape}, expected {a.shape}")  # type: ignore[union-attr]
                out.append(None if core is None else like(np.array(core)[()] if is_plain(core) else core, a))
            return out

        return outputs, pullback


class custom_jvp(_Custom):  # noqa: N801 -- JAX's name
    """A function whose forward-mode derivative is given by hand; reverse mode transposes it.

    ```
    f = ds.custom_jvp(function)
    f.defjvp(rule)  # rule(primals, tangents) -> (value, tangent)
    ```

    The rule must be linear in the tangents.

    Args:
        f: the function. Differentiated values must come in as arguments.
        nondiff_argnums: positions of arguments that are not arrays; they come first in the rule.

    Returns:
        The function, to which `defjvp` gives its rule.

    Raises:
        DerivativeError: it is differentiated without a rule.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        @ds.custom_jvp
        def softplus(x):
            return np.log1p(np.exp(x))

        @softplus.defjvp
        def rule(primals, tangents):
            (x,), (x_dot,) = primals, tangents
            return softplus(x), x_dot / (1 + np.exp(-x))  # no overflow

        assert numpy.isclose(ds.grad(softplus)(50.0), 1.0)
        ds.check_grads(softplus, (0.3,))
    """

    _rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Give the rule; it can decorate it."""
        arguments.function("rule", rule, "f.defjvp(rule)", optional=False)
        self._rule = rule
        return rule

    def _primitive(self) -> Primitive:
        if self._rule is None:
            raise DerivativeError(f"{self.__name__} has no rule; give one with defjvp(rule) before it is differentiated")  # type: ignore[attr-defined]
        return Primitive(
            getattr(self, "__name__", "custom_jvp"), self._evaluate, jvp=self._jvp, with_pullback=self._with_pullback, multiple=True
        )

    def _both(self, cores: Sequence[Any], tangents: Sequence[Any], tree: Tree, nondiff: Any, forms: list[Form]) -> tuple[Any, Any, Tree]:
        args, kwargs = unflatten(tree, as_arrays(tuple(cores), forms))
        if kwargs:
            raise DerivativeError(
                "a function with custom_jvp takes no keyword-only arguments while it is differentiated, as its rule has no place for them; "
                "make them arguments by position"
            )
        dots, _ = unflatten(tree, as_arrays(tuple(_zero(c) if t is None else t for c, t in zip(cores, tangents, strict=True))))
        assert self._rule is not None
        with self._unedited((args, dots), "the custom_jvp rule"):
            result = self._rule(*nondiff, tuple(args), tuple(dots))
        if not isinstance(result, tuple) or len(result) != 2:
            raise ShapeError(f"a custom_jvp rule returned {type(result).__name__}, expected a pair (value, tangent)")
        value, out_tree = cores_of(result[0])
        moved = [None if t is None else cores_of(t)[0][0] for t in leaves_like(result[1], out_tree, "the tangent of a custom_jvp rule")]
        return value, moved, out_tree

    def _jvp(self, cores: Sequence[Any], tangents: Sequence[Any], out: Any, params: dict[str, Any]) -> list[Any]:
        value, moved, _ = self._both(cores, tangents, params["tree"], params["nondiff"], params["forms"])
        return [None if t is None or not is_floating(v) else like(t, v) for v, t in zip(value, moved, strict=True)]

    def _with_pullback(self, cores: Sequence[Any], params: dict[str, Any], wanted: tuple[bool, ...]) -> tuple[Any, Callable[..., Any]]:
        tree, nondiff = params["tree"], params["nondiff"]
        floating = [k for k, c in enumerate(cores) if wanted[k]]

        def tangent(*dots: Any) -> Any:
            full: list[Any] = [None] * len(cores)
            for k, dot in zip(floating, dots, strict=True):
                full[k] = cores_of(dot)[0][0]
            value, moved, out_tree = self._both(cores, full, tree, nondiff, params["forms"])
            params["out_tree"][:] = [out_tree]
            return [wrap(m) if m is not None else wrap(_zero(v)) for v, m in zip(value, moved, strict=True)], [wrap(v) for v in value]

        ones = [
            wrap(np.ones(cores[k].shape, cores[k].dtype)[()]) for k in floating
        ]  # anywhere, since the rule is linear; at 0 it might hide a singularity
        _, transposed, value = vjp(tangent, *ones, has_aux=True)

        def pullback(cts: Sequence[Any]) -> list[Any]:
            bars = iter(transposed([wrap(c) if c is not None else None for c in cts]))
            return [cores_of(next(bars))[0][0] if k in floating else None for k in range(len(cores))]

        return tuple(cores_of(v)[0][0] for v in value), pullback


def _zero(c: Any) -> Any:
    return zeros_like(aval(c))[()] if is_floating(c) else None


def _raise(error: Exception) -> Any:
    raise error
