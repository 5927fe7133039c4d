"""The two modes: the tape of an operation in a reverse transformation, and the tangents of a forward one.

The rules are in the table of each `Primitive`; the reverse sweep over the tape is in `diffsim.ad.transforms.sweep`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim.ad.core import Aval, Primitive, Trace, Tracer, aval, bind, ids, is_inexact
from diffsim.ad.ops import roots
from diffsim.errors import DerivativeError

# reverse mode


class Node:
    """An operation on the tape: the operands of its rule, and the nodes of its arguments (None for those without derivative).

    An operation with several values has a node of its own and one for each value, whose only parent it is.

    Attributes:
        id: larger than those of its parents.
        primitive: None for an input.
        args: values that the rule reads; for the others the parent stands in, of the same shape and type.
        out: the value, if the rule reads it.
        shape: of the value.
        dtype: of the value.
        pullback: in place of the primitive's rule.
        label: a user's name for it.
        wanted: for each argument whether it has a node.
    """

    __slots__ = ("args", "dtype", "id", "label", "out", "params", "parents", "primitive", "pullback", "shape", "wanted")

    def __init__(
        self,
        primitive: Primitive | None,
        parents: tuple[Node | None, ...],
        args: Sequence[Any],
        out: Any,
        params: dict[str, Any],
        value: Any,
        pullback: Callable[..., Any] | None = None,
        wanted: tuple[bool, ...] = (),
    ) -> None:
        self.id = next(ids)
        self.primitive = primitive
        self.parents = parents
        self.args = args
        self.out = out
        self.params = params
        self.shape: tuple[int, ...] = value.shape
        self.dtype: Any = value.dtype
        self.pullback = pullback
        self.wanted = wanted
        self.label: str | None = None

    @property
    def name(self) -> str:
        return self.primitive.name if self.primitive else "input"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


_NOTHING = Aval((), np.dtype(np.float64))
VALUE = Primitive("value", lambda x, index: x[index])
"""The operation of a node that is one of several values of another operation."""


class ReverseTracer(Tracer):
    """A value with its place on the tape."""

    __slots__ = ("dtype", "node", "shape")

    def __init__(self, trace: ReverseTrace, primal: Any, node: Node) -> None:
        self.trace = trace
        self.primal = primal
        self.node = node
        self.shape = node.shape  # type: ignore[misc] # in place of the property, which takes a call
        self.dtype = node.dtype  # type: ignore[misc]


_ONE = (True,)


class ReverseTrace(Trace):
    """Writes operations on the tape. Nodes are held by the values computed from them alone, so unused ones are freed at once."""

    __slots__ = ()

    def leaf(self, x: Any) -> ReverseTracer:
        """An input to differentiate for; `x` is of an inexact type."""
        return ReverseTracer(self, x, Node(None, (), (), None, {}, x))

    def apply(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        primals: list[Any] = []
        parents: list[Node | None] = []
        plain = True  # no argument belongs to another transformation
        for a in args:
            if type(a) is ReverseTracer and a.trace is self:
                parents.append(a.node)
                a = a.primal
            else:
                parents.append(None)
            if isinstance(a, Tracer):
                plain = False
            primals.append(a)
        if primitive.outer and parents[0] is not None and parents[0].primitive in roots.ROOTS:
            composed = self._composed(primitive, primals, params, parents)
            if composed is not None:
                return composed
        wanted = _ONE if len(parents) == 1 else tuple([p is not None for p in parents])
        if primitive.with_pullback is not None:
            out, pullback = primitive.with_pullback(primals, params, wanted)
            return self._on_tape(primitive, parents, (), None, params, out, pullback, wanted)
        out = primitive.evaluate(*primals, **params) if plain else bind(primitive, primals, params)
        if primitive.constant:
            return out
        if not primitive.multiple and out.dtype.kind not in "fc":
            return out
        if primitive.vjp is None:
            raise no_rule(primitive, "reverse")
        kept, keeps_out = primitive.kept(wanted)
        if False in kept:
            primals = [a if keep else parent for a, parent, keep in zip(primals, parents, kept, strict=True)]
        if primitive.multiple:
            return self._on_tape(primitive, parents, primals, out if keeps_out else None, params, out, None, wanted)
        return ReverseTracer(self, out, Node(primitive, tuple(parents), primals, out if keeps_out else None, params, out, None, wanted))

    def _composed(self, primitive: Primitive, primals: list[Any], params: dict[str, Any], parents: list[Node | None]) -> Any:
        """A function of a root, whose derivative is taken for the argument of the root; None if it is not a known one."""
        root, *others = parents
        assert root is not None
        if any(other is not None and other is not root for other in others):
            return None
        partials = roots.composed(primitive, root.primitive, root.args, primals, same=root in others)
        if partials is None:
            return None
        out = bind(primitive, primals, params)
        composition = {"r": primals[0], "partials": partials, "of": root.params, "name": primitive.name}
        return ReverseTracer(self, out, Node(roots.COMPOSED, root.parents, root.args, None, composition, out, None, root.wanted))

    def _on_tape(
        self, primitive: Primitive, parents: Any, args: Any, kept_out: Any, params: dict[str, Any], out: Any, pullback: Any, wanted: Any
    ) -> Any:
        if not primitive.multiple:
            return ReverseTracer(self, out, Node(primitive, tuple(parents), args, kept_out, params, out, pullback, wanted))
        node = Node(primitive, tuple(parents), args, kept_out, params, _NOTHING, pullback, wanted)
        node.params = params | {"avals": [aval(o) if hasattr(o, "dtype") else None for o in out]}
        return tuple(
            ReverseTracer(self, o, Node(VALUE, (node,), (), None, {"index": k}, o)) if hasattr(o, "dtype") and is_inexact(o) else o
            for k, o in enumerate(out)
        )


# forward mode


class ForwardTracer(Tracer):
    """A value and its derivative along the direction of its trace.

    Attributes:
        root: the primitive of which it is the value, its arguments and their tangents, if it is a root (see `diffsim.ad.ops.roots`).
    """

    __slots__ = ("root", "tangent")

    def __init__(self, trace: ForwardTrace, primal: Any, tangent: Any, root: Any = None) -> None:
        self.trace = trace
        self.primal = primal
        self.tangent = tangent
        self.root = root


class ForwardTrace(Trace):
    """Carries a tangent along with each value."""

    __slots__ = ()

    def apply(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        primals: list[Any] = []
        tangents: list[Any] = []
        for a in args:
            if isinstance(a, ForwardTracer) and a.trace is self:
                primals.append(a.primal)
                tangents.append(a.tangent)
            else:
                primals.append(a)
                tangents.append(None)
        out = bind(primitive, primals, params)
        if primitive.constant or (not primitive.multiple and not is_inexact(out)):
            return out
        if primitive.jvp is None:
            raise no_rule(primitive, "forward")
        tangent = self._composed(primitive, args, primals, out) if primitive.outer else None
        if tangent is None:
            tangent = primitive.jvp(primals, tangents, out, params)
        if primitive in roots.ROOTS and tangent is not None:
            return ForwardTracer(self, out, tangent, (primitive, primals, tangents))
        if primitive.multiple:
            return tuple(o if t is None else ForwardTracer(self, o, t) for o, t in zip(out, tangent, strict=True))
        return out if tangent is None else ForwardTracer(self, out, tangent)

    def _composed(self, primitive: Primitive, args: Sequence[Any], primals: list[Any], out: Any) -> Any:
        """The tangent of a function of a root, by the derivative for the argument of the root; None if it is not a known one."""
        first = args[0]
        if not (isinstance(first, ForwardTracer) and first.trace is self and first.root is not None):
            return None
        mine = [a for a in args if isinstance(a, ForwardTracer) and a.trace is self]
        if any(a is not first for a in mine):
            return None
        root, inner, tangents = first.root
        partials = roots.composed(primitive, root, inner, primals, same=len(mine) > 1)
        return None if partials is None else roots.along(partials, primals[0], inner, tangents, out)


def no_rule(primitive: Primitive, mode: str) -> DerivativeError:
    return DerivativeError(
        f"{primitive.name} has no {mode}-mode derivative; write the function with other operations, give a rule with "
        f"ds.custom_{'vjp' if mode == 'reverse' else 'jvp'}, or hold its argument constant with ds.stop_gradient"
    )
