"""Functions whose tape is not kept: the reverse sweep runs them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from diffsim.ad.arrays.leaves import Cores, as_arrays, cores_of, forms_of, is_floating, public
from diffsim.ad.core import Primitive, Tracer, aval, bind, local
from diffsim.ad.loops.closure import Reads, closed, discover
from diffsim.ad.loops.replay import Step, StepTape, require_same
from diffsim.ad.ops.structure import zeros_like
from diffsim.ad.transforms.modes import ForwardTrace, ForwardTracer
from diffsim.ad.tree import Tree, unflatten
from diffsim.base import arguments
from diffsim.base.copies import remade

WHAT = "a function of remat"


@remade
def remat(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` without its tape: the reverse sweep runs it again. It must do the same each time.

    Args:
        f: of arrays, numbers and pytrees of them.

    Returns:
        A function of the same arguments.

    Raises:
        ReplayError: by the reverse sweep: `f` does not do the same each time.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # A filter of which only the input is kept, not its twenty intermediate fields.
        @ds.remat
        def smooth(field):
            for _ in range(20):
                field = 0.5 * field + 0.25 * (np.roll(field, 1) + np.roll(field, -1))
            return field

        field = numpy.random.default_rng(1).random(100)
        gradient = ds.grad(lambda x: 0.5 * np.sum(smooth(x) ** 2))(field)
        assert numpy.allclose(gradient, smooth(smooth(field)))  # the filter is symmetric
    """
    arguments.function("f", f, "ds.remat(lambda x: x**2)", optional=False)

    def again(*args: Any, **kwargs: Any) -> Any:
        if local.tiling is not None:
            return f(*args, **kwargs)
        cores, tree = cores_of((args, kwargs))
        forms = forms_of((args, kwargs))
        out_tree: list[Tree] = []

        def run(values: Cores) -> Cores:
            given_args, given_kwargs = unflatten(tree, as_arrays(values, forms))
            outputs, shape = cores_of(f(*given_args, **given_kwargs))
            out_tree[:] = [shape]
            return outputs

        reads = Reads(f)
        value, captured = discover(run, cores, reads)
        if not captured and not any(isinstance(c, Tracer) for c in cores):
            return public(value, out_tree[0])
        params = {"run": closed(run, captured, reads, WHAT), "count": len(cores), "memo": [value], "reads": reads}
        outputs = bind(_remat, (*cores, *captured), params)
        return public(outputs, out_tree[0])

    again.__name__ = getattr(f, "__name__", "remat")
    again.__doc__ = f.__doc__
    return again


def _remat_evaluate(*cores: Any, run: Any, count: int, memo: list[Any], reads: Reads) -> tuple[Any, ...]:
    return memo.pop() if memo else run(tuple(cores[:count]), tuple(cores[count:]))


def _remat_step(params: dict[str, Any]) -> Step:
    return lambda _, state, captured: params["run"](state, captured)


def _remat_with_pullback(cores: Sequence[Any], params: dict[str, Any], wanted: tuple[bool, ...]) -> tuple[Any, Callable[..., Any]]:
    count = params["count"]
    out = bind(_remat, cores, params)

    def pullback(cts: Sequence[Any]) -> list[Any]:
        params["reads"].begin()
        tape = StepTape(_remat_step(params), 0, tuple(cores[:count]), tuple(cores[count:]))
        require_same(tape.state, out, WHAT, params["reads"].causes)
        params["reads"].end(WHAT)
        return tape.pull(cts)

    return out, pullback


def _remat_jvp(cores: Sequence[Any], tangents: Sequence[Any], out: Any, params: dict[str, Any]) -> list[Any]:
    """The function over values and tangents, again without its tape."""
    count, run = params["count"], params["run"]
    moving = [k for k, t in enumerate(tangents) if t is not None]

    def both(values: Cores, captured: Cores) -> Cores:
        trace = ForwardTrace()
        full = [*values[:count], *captured]
        for k, dot in zip(moving, values[count:], strict=True):
            full[k] = ForwardTracer(trace, full[k], dot)
        outs = run(tuple(full[:count]), tuple(full[count:]))
        return tuple(
            o.tangent if isinstance(o, ForwardTracer) and o.trace is trace else zeros_like(aval(o))[()] if is_floating(o) else None
            for o in outs
        )

    inner = [*cores[:count], *(tangents[k] for k in moving), *cores[count:]]
    return list(bind(_remat, inner, params | {"run": both, "count": count + len(moving), "memo": []}))


_remat = Primitive("remat", _remat_evaluate, jvp=_remat_jvp, with_pullback=_remat_with_pullback, multiple=True)
