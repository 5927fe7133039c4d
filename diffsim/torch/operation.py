"""A function of arrays as an operation of torch's graph, in reverse mode, forward mode, `torch.func` and `torch.vmap`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim.base.packages import needed_by
from diffsim.errors import ParameterError
from diffsim.simulation.exported import Exported, Latest, Pulled

with needed_by("diffsim.torch"):
    import torch

TOGETHER = 2**22
"""The most entries of an argument of a batch. A batch has several fields of this size; more runs are computed in pieces."""


def applied(model: Exported, tensors: Sequence[Any], latest: Latest | None = None) -> Sequence[Any]:
    """The values of a function of arrays, as part of torch's record of the tensors.

    Args:
        model: the function.
        tensors: its arguments.
        latest: takes the pullback of the values, if a reverse sweep will follow that torch does not show here.
    """
    if any(map(is_transformed, tensors)):
        if latest is None and not model.derived and any(map(wants_gradient, tensors)):
            latest = Latest(model)
        return _Transformed.apply(_Call(model, latest), *tensors)
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return _Run.apply(model, *tensors)
    values = model.evaluate if latest is None else latest.values
    return [torch.from_numpy(value) for value in values(*map(_array, tensors))]


def is_transformed(tensor: Any) -> bool:
    """True if a tensor belongs to `torch.func`, `torch.vmap` or forward mode."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)  # torch has no public name for it
    return wrapped or torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None


def wants_gradient(tensor: Any) -> bool:
    """True if a tensor requires a gradient, at any level of `torch.func`."""
    return any(level.requires_grad for level in _levels(tensor))


def _levels(tensor: Any) -> Iterator[Any]:
    yield tensor
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
        yield tensor


def _array(tensor: Any) -> np.ndarray:
    """The memory of a tensor."""
    return tensor.detach().resolve_conj().resolve_neg().numpy()


class _Run(torch.autograd.Function):
    """A function of arrays in reverse mode. Its backward pass is such an operation too, if it is to be differentiated."""

    @staticmethod
    def forward(ctx: Any, model: Exported, *tensors: Any) -> tuple[Any, ...]:
        kept = torch.empty(0)
        values, kept.pull = model.with_pullback(*map(_array, tensors))
        ctx.model = model
        ctx.save_for_backward(*tensors, kept)  # torch frees these after the backward pass, and the pullback with them
        return tuple(torch.from_numpy(value) for value in values)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
        *tensors, kept = ctx.saved_tensors
        if any(map(torch._C._functorch.is_legacy_batchedtensor, cotangents)):
            raise ParameterError(
                "is_grads_batched (or vectorize) = True, expected False, since a run does not know tensors of that kind; take "
                "torch.func.vmap, torch.func.jacrev or torch.func.jacfwd"
            )
        if torch.is_grad_enabled() or any(map(is_transformed, cotangents)):  # create_graph=True, or vmap over cotangents
            return None, *applied(ctx.model.adjoint(), [*tensors, *cotangents])
        bars = kept.pull([_array(ct) for ct in cotangents])
        wanted = ctx.needs_input_grad[1:]
        return None, *(torch.from_numpy(bar) if want else None for bar, want in zip(bars, wanted, strict=True))


@dataclass(frozen=True, eq=False)
class _Call:
    """A function of arrays, and the pullback of its latest values if a reverse sweep will follow."""

    model: Exported
    latest: Latest | None


class _Transformed(torch.autograd.Function):
    """A function of arrays for tensors of `torch.func`, `torch.vmap` and forward mode. Its derivatives are such operations too."""

    @staticmethod
    def forward(call: _Call, *tensors: Any) -> tuple[Any, ...]:
        values = call.model.evaluate if call.latest is None else call.latest.values
        return tuple(torch.from_numpy(value) for value in values(*map(_array, tensors)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.call, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
        call, tensors = ctx.call, ctx.saved_tensors
        pulled = call.model.adjoint() if call.latest is None else Pulled(call.latest, len(tensors))
        return None, *applied(pulled, [*tensors, *cotangents])

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Any) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        moved = [torch.zeros_like(x) if x_dot is None else x_dot for x, x_dot in zip(tensors, tangents, strict=True)]
        return tuple(applied(ctx.call.model.pushforward(), [*tensors, *moved]))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], call: _Call, *tensors: Any) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        runs = info.batch_size
        rows = [
            tensor.expand(runs, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
            for tensor, dim in zip(tensors, in_dims[1:], strict=True)
        ]
        most = max(1, TOGETHER * runs // max(row.numel() for row in rows))
        pieces = [_together(call, [row[k : k + most] for row in rows]) for k in range(0, runs, most)]
        values = tuple(torch.cat(piece) if len(pieces) > 1 else piece[0] for piece in zip(*pieces, strict=True))
        return values, (0,) * len(values)


def _together(call: _Call, rows: Sequence[Any]) -> list[Any]:
    """The values of several runs: in one call if the solver can, one run after another otherwise."""
    runs = len(rows[0])
    latest = None if call.latest is None else call.latest.batched(runs)
    batched = (call.model.batched(runs) if latest is None else latest.model) if runs > 1 else None
    if batched is not None:
        return list(applied(batched, rows, latest))
    alone = [applied(call.model, [row[k] for row in rows], call.latest) for k in range(runs)]
    return [torch.stack(values) for values in zip(*alone, strict=True)]
