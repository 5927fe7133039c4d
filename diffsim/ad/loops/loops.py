"""Loops as one operation, whose reverse sweep runs them again from checkpoints."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array, core, wrap
from diffsim.ad.arrays.leaves import Cores, as_arrays, cores_of, is_floating, public
from diffsim.ad.core import Primitive, Tracer, aval, bind, bottom, is_known, local
from diffsim.ad.loops.closure import Reads, closed, discover
from diffsim.ad.loops.replay import LoopStepper, Step, StepTape, require_same
from diffsim.ad.ops.elementwise import where
from diffsim.ad.ops.structure import compact, reshape, zeros_like
from diffsim.ad.transforms.modes import ForwardTrace, ForwardTracer
from diffsim.ad.tree import Tree, in_order, unflatten
from diffsim.base import arguments
from diffsim.base.messages import shown
from diffsim.checkpoint import Action, Checkpoint, GrowthMonitor, Policy, ReplayGuard, Sizes, Sweep, resolve
from diffsim.checkpoint.growth import largest
from diffsim.checkpoint.progress import Reporter
from diffsim.checkpoint.schedule import require_count, require_truth
from diffsim.checkpoint.stores import open_stores
from diffsim.errors import ParameterError, ShapeError

WHAT = "a loop"


def _nbytes(cores: Cores) -> int:
    return sum(bottom(c).nbytes for c in cores if hasattr(c, "dtype"))


def _evaluate(*cores: Any, step: Step, count: int, first: int, steps: int, memo: list[Any], **others: Any) -> tuple[Any, ...]:
    if memo:
        return memo.pop()
    state, captured = tuple(cores[:count]), tuple(cores[count:])
    for n in range(steps):
        state = step(first + n, state, captured)
    return state


def _with_pullback(cores: Sequence[Any], params: dict[str, Any], wanted: tuple[bool, ...]) -> tuple[Any, Callable[..., Any]]:
    """The value of a loop, and its pullback: the reverse sweep of a checkpointing schedule."""
    count, steps, step, first = params["count"], params["steps"], params["step"], params["first"]
    state, captured = tuple(cores[:count]), tuple(cores[count:])
    out = bind(_loop, cores, params)
    if not steps:
        return out, lambda cts: [*cts, *(None for _ in captured)]
    avals = [aval(c) if is_floating(c) else None for c in cores]

    policy = Policy.of(params["checkpoint"])

    def pullback(cts: Sequence[Any]) -> list[Any]:
        params["reads"].begin()
        stepper = LoopStepper(step, first, steps, state, captured)
        counted = policy.slots is not None and policy.slots < steps  # the user asks for states, whatever the tape of a step takes
        taped = None if counted else max(StepTape(step, first, state, captured).nbytes(), 1)
        schedule = resolve(policy, steps, Sizes(max(_nbytes(state), 1), taped, _nbytes(captured)))
        guard = ReplayGuard(stepper.compared, foreign=True, steps=steps) if policy.verify else None
        growth = GrowthMonitor(stepper.cotangent_size, stepper.precision(), lambda: largest(stepper.compared()))
        stores = open_stores(schedule, stepper.state_arrays, policy)
        watchers: list[Callable[[Action], None]] = [growth]

        def watch(action: Action) -> None:
            for watcher in watchers:
                watcher(action)

        with Sweep(schedule, stepper, stores=stores, guard=guard, on_piece=watch) as sweep:
            if policy.progress is not None:
                watchers.append(Reporter(sweep, policy.progress))
            sweep.forward()
            if policy.verify:
                require_same(stepper.state, out, WHAT, params["reads"].causes)
            stepper.cts = list(cts)
            sweep.reverse()
        params["reads"].end(WHAT)
        growth.warn()
        bars = [*stepper.cts, *stepper.captured_cts]
        return [None if a is None else zeros_like(a)[()] if b is None else b for a, b in zip(avals, bars, strict=True)]

    return out, pullback


def _jvp(cores: Sequence[Any], tangents: Sequence[Any], out: Any, params: dict[str, Any]) -> list[Any]:
    """The same loop over states and their tangents: it is checkpointed in the same way if it is differentiated again."""
    count, step = params["count"], params["step"]
    floating = [k for k, c in enumerate(cores) if is_floating(c)]
    dots = [zeros_like(aval(cores[k]))[()] if tangents[k] is None else tangents[k] for k in floating]
    in_state = [k for k in floating if k < count]

    def both(number: int, state: Cores, captured: Cores) -> Cores:
        trace = ForwardTrace()
        values = [*state[:count], *captured[: len(cores) - count]]
        movements = [*state[count:], *captured[len(cores) - count :]]
        for k, dot in zip(floating, movements, strict=True):
            values[k] = ForwardTracer(trace, values[k], dot)
        outs = step(number, tuple(values[:count]), tuple(values[count:]))
        mine = [isinstance(o, ForwardTracer) and o.trace is trace for o in outs]
        primals = [o.primal if m else o for o, m in zip(outs, mine, strict=True)]
        moved = [outs[k].tangent if mine[k] else zeros_like(aval(primals[k]))[()] for k in in_state]
        return (*primals, *moved)

    inner = [*cores[:count], *dots[: len(in_state)], *cores[count:], *dots[len(in_state) :]]
    outputs = bind(_loop, inner, params | {"step": both, "count": count + len(in_state), "memo": []})
    moved = iter(outputs[count:])
    return [next(moved) if k in in_state else None for k in range(count)]


_loop = Primitive("loop", _evaluate, jvp=_jvp, with_pullback=_with_pullback, multiple=True)


# for users


def _in_rows(state: Cores) -> Cores:
    """A state laid out in memory in one way, so that views in the body are views in each run, also after a slow tier."""
    return tuple(compact(c) if isinstance(c, (Tracer, np.ndarray)) else c for c in state)


def _body(function: Callable[[int, Any], Any], tree: Tree) -> Callable[[int, Cores], Cores]:
    """A loop's body on core values; the state must keep its structure, shapes and types."""

    def run(number: int, state: Cores) -> Cores:
        record = unflatten(tree, as_arrays(_in_rows(state)))
        cores, structure = cores_of(in_order(function(number, record), tree))
        if structure != tree:
            raise ShapeError(f"the body of a loop returned a state of the structure {structure}, expected that of the first, {tree}")
        out = []
        for before, after in zip(state, cores, strict=True):
            if is_floating(after) and not is_floating(before) and not isinstance(before, float):
                raise ShapeError(
                    f"the body of a loop returned {after.dtype} for a state that began as "
                    f"{getattr(before, 'dtype', type(before).__name__)}, whose derivative would be "
                    "lost; begin with a floating-point value, such as 0.0"
                )
            if _is_number(before) and not _is_number(after):
                raise ShapeError(f"the body of a loop returned {type(after).__name__} for a state that began as a number; return one")
            if is_floating(before) and hasattr(after, "dtype") and after.shape != before.shape:
                raise ShapeError(f"the body of a loop returned an array of shape {after.shape}, expected that of the state, {before.shape}")
            if is_floating(before) and not is_floating(after):
                after = np.asarray(after, before.dtype)[()]
            out.append(after)
        return tuple(out)

    return run


def _is_number(core: Any) -> bool:
    """True if it is an array or a number, not a text or another object that a state carries along."""
    return hasattr(core, "dtype") or isinstance(core, (bool, int, float, complex))


def _run_loop(body: Callable[[int, Cores], Cores], init: Cores, first: int, last: Callable[[int, Cores], bool], checkpoint: Any) -> Cores:
    """Run a loop on plain values, then as one operation on the values that are being differentiated.

    Raises:
        ParameterError: `checkpoint` is of another kind, or asks for an option that loops do not have.
    """
    if Policy.of(checkpoint).resume:
        raise ParameterError("expected no resume= in the policy of a loop, got one: only the sweeps of simulations go on; leave it out")
    steps = 0

    def whole(state: Cores) -> Cores:
        nonlocal steps
        while True:
            reads.on = False  # for only the body is run again
            if last(first + steps, state):
                return state
            reads.on = True
            state = body(first + steps, state)
            steps += 1

    reads = Reads(body)
    value, captured = discover(whole, init, reads)
    reads.on = True
    if not captured and not any(isinstance(c, Tracer) for c in init):
        return tuple(_apart(c, init) for c in value)
    run = closed(lambda numbered: body(numbered[0], numbered[1:]), captured, reads, WHAT)

    def step(n: int, state: Cores, values: Cores) -> Cores:
        return run((n, *state), values)

    params = {"step": step, "count": len(init), "first": first, "steps": steps, "checkpoint": checkpoint, "memo": [value], "reads": reads}
    return bind(_loop, (*init, *captured), params)


def _apart(core: Any, init: Cores) -> Any:
    """A result in memory of its own, as in a derivative: that of a loop without a turn may be the first state itself."""
    shared = isinstance(core, np.ndarray) and any(np.may_share_memory(core, c) for c in init if isinstance(c, np.ndarray))
    return np.array(core) if shared else core


def fori_loop(lower: int, upper: int, body: Callable[[int, Any], Any], init: Any, *, checkpoint: Checkpoint = "auto") -> Any:
    """`state = body(i, state)` for i from `lower` to `upper` - 1, as one operation whose memory is bounded.

    Args:
        lower: first i.
        upper: past the last i.
        body: (i, state) -> state. It is run again in the reverse sweep, so it must do the same each time; it may use values from
            around it, which are differentiated too, but not assign to arrays made outside.
        init: first state: an array, a number, or a pytree of them. Structure, shapes and types stay.
        checkpoint: memory for the reverse sweep ("auto" is half of the available memory, or a size such as "100 MB"), or a number
            of states to keep at most, or a schedule or `Policy` of `diffsim.checkpoint`; `resume` is for simulations alone.

    Returns:
        The last state.

    Raises:
        ParameterError: a bound is no whole number; `checkpoint` is none of these, or asks for `resume`.
        PlanError: by the reverse sweep: the memory cannot work, or states that are not all numbers would go to slow tiers.
        ShapeError: the body changes the structure or a shape of the state.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # A satellite: where is it after 1000 steps, and how does that depend on its initial velocity?
        def distance(v):
            def kick_and_drift(i, state):
                q, p = state
                p = p - 1e-2 * q / (q @ q) ** 1.5
                return q + 1e-2 * p, p

            q, p = ds.fori_loop(0, 1000, kick_and_drift, (np.array([1.0, 0.0]), v), checkpoint=20)
            return np.sqrt(q @ q)

        value, gradient = ds.value_and_grad(distance)(numpy.array([0.0, 1.0]))
        assert abs(value - 1.0) < 0.05 and gradient.shape == (2,)  # a circle, nearly
    """
    arguments.function("body", body, "ds.fori_loop(0, n, lambda i, x: 0.5 * x, x)", optional=False)
    cores, tree = cores_of(init)
    if local.tiling is not None:
        body_of = _body(body, tree)
        bounds = [c if isinstance(c := core(b), Tracer) else _whole(name, b) for name, b in (("lower", lower), ("upper", upper))]
        return public(local.tiling.loop(lambda n, state: body_of(wrap(n), state), cores, bounds[0], bounds[1], None, None), tree)
    lower, upper = _whole("lower", lower), _whole("upper", upper)
    state = _run_loop(_body(body, tree), cores, lower, lambda n, _: n >= upper, checkpoint)
    return public(state, tree)


def _whole(name: str, value: Any) -> int:
    try:
        if not isinstance(value, (bool, np.bool_)):
            return operator.index(value)
    except TypeError:
        pass
    raise ParameterError(f"{name} = {shown(value)} of a loop, expected a whole number; round it with int()")


def while_loop(
    cond: Callable[[Any], Any],
    body: Callable[[Any], Any],
    init: Any,
    *,
    checkpoint: Checkpoint = "auto",
    max_steps: int | None = None,
) -> Any:
    """`state = body(state)` while `cond(state)` holds, as one operation whose memory is bounded.

    The condition is read, not differentiated. The steps are counted in a first run, which the reverse sweep repeats from checkpoints.

    Args:
        cond: state -> whether to go on.
        body: state -> state; see `fori_loop`.
        init: first state; see `fori_loop`.
        checkpoint: see `fori_loop`. A schedule must be of as many steps as the loop takes.
        max_steps: raise if the loop takes more; None: no limit.

    Returns:
        The last state.

    Raises:
        ParameterError: the loop takes more than `max_steps`.
        ShapeError: the condition is an array of more or fewer than one element.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # Friction in a turbulent pipe by Colebrook: the equation is iterated until it holds.
        def friction(roughness):
            def better(state):
                x, _ = state
                return -2 * np.log10(roughness / 3.7 + 2.51 * x / 1e5), x

            x, _ = ds.while_loop(lambda state: abs(state[0] - state[1]) > 1e-12, better, (8.0, 0.0), max_steps=100)
            return 1 / x**2

        value, gradient = ds.value_and_grad(friction)(1e-3)
        assert 0.02 < value < 0.025 and gradient > 0
    """
    arguments.function("cond", cond, "ds.while_loop(lambda x: x < 1, lambda x: 2 * x, x)", optional=False)
    arguments.function("body", body, "ds.while_loop(lambda x: x < 1, lambda x: 2 * x, x)", optional=False)
    if max_steps is not None:
        max_steps = arguments.whole("max_steps", max_steps, 0)
    cores, tree = cores_of(init)

    def done(n: int, state: Cores) -> bool:
        if max_steps is not None and n > max_steps:
            raise ParameterError(f"a while_loop took more than max_steps = {max_steps} steps; raise it, or check the condition")
        return not require_truth("cond", cond(unflatten(tree, as_arrays(_in_rows(state)))))

    if local.tiling is not None:
        going = lambda _, state: core(cond(unflatten(tree, as_arrays(state))))  # noqa: E731
        return public(local.tiling.loop(_body(lambda _, state: body(state), tree), cores, 0, None, going, max_steps), tree)
    final = _run_loop(_body(lambda _, state: body(state), tree), cores, 0, done, checkpoint)
    return public(final, tree)


def integrate(
    step: Callable[[Any], Any],
    state: Any,
    *,
    steps: int | None = None,
    until: Callable[[Any], Any] | None = None,
    max_steps: int | None = None,
    checkpoint: Checkpoint = "auto",
) -> Any:
    """Take `state = step(state)` many times, as one differentiable operation whose memory is bounded.

    Args:
        step: state -> state, one time step; see `fori_loop` for its limits. A step that depends on time has the time in its state.
        state: the first state.
        steps: how many.
        until: instead of `steps`: state -> whether that is the last one. It is read, not differentiated.
        max_steps: with `until`: raise if it takes more; None: no limit.
        checkpoint: see `fori_loop`.

    Returns:
        The last state.

    Raises:
        ParameterError: neither or both of `steps` and `until`, or more than `max_steps` steps.
        ShapeError: `until` gives an array of more or fewer than one element.
        ReplayError: by the reverse sweep: the step does not do the same each time.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # When has a tank run empty (Torricelli), and how does that depend on its outlet?
        def time_to_empty(area):
            def step(state):
                height, time = state
                return height - 0.5 * area * np.sqrt(2 * 9.81 * height), time + 0.5

            height, time = ds.integrate(step, (1.0, 0.0), until=lambda state: state[0] < 0.05, max_steps=10_000)
            return time + height / (area * np.sqrt(2 * 9.81 * 0.05))  # the rest at the last speed

        value, gradient = ds.value_and_grad(time_to_empty)(0.01)
        assert 30 < value < 60 and gradient < 0
    """
    arguments.function("step", step, "ds.integrate(lambda x: 0.5 * x, x, steps=10)", optional=False)
    arguments.function("until", until, "until=lambda x: x < 1")
    if steps is None and until is not None:
        return while_loop(lambda now: not require_truth("until", until(now)), step, state, checkpoint=checkpoint, max_steps=max_steps)
    if steps is None or until is not None:
        raise ParameterError("expected either steps= or until=, got both or neither; give one")
    steps = _whole("steps", steps)
    if steps:
        require_count("steps", steps)
    return fori_loop(0, steps, lambda _, now: step(now), state, checkpoint=checkpoint)


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """`true_fun(*operands)` if `pred` holds, else `false_fun(*operands)`; the choice is read, not differentiated.

    Args:
        pred: a number or an array of one element.
        true_fun: of the operands.
        false_fun: likewise.
        operands: arrays, numbers and pytrees of them.

    Returns:
        The result of the chosen function.

    Raises:
        ShapeError: the condition is an array of more or fewer than one element; in a tile program, where both functions are computed, these
            give arrays of different shapes.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # Friction in a pipe: laminar below a Reynolds number of 2300, turbulent beyond.
        def friction(reynolds):
            return ds.cond(reynolds < 2300, lambda r: 64 / r, lambda r: 0.316 * r**-0.25, reynolds)

        assert numpy.isclose(ds.grad(friction)(1000.0), -64 / 1000.0**2)
        assert numpy.isclose(ds.grad(friction)(1e4), -0.25 * 0.316 * 1e4**-1.25)
    """
    for name, function in (("true_fun", true_fun), ("false_fun", false_fun)):
        arguments.function(name, function, "ds.cond(x > 0, lambda x: x, lambda x: -x, x)", optional=False)
    chosen = core(pred) if isinstance(pred, (Array, Tracer)) else pred
    if isinstance(chosen, Tracer) and not is_known(chosen):
        return _either(chosen, true_fun(*operands), false_fun(*operands))
    return true_fun(*operands) if require_truth("pred", pred) else false_fun(*operands)


def _either(chosen: Any, yes: Any, no: Any) -> Any:
    """Both branches, and of each value that of the branch that holds."""
    cores, tree = cores_of(yes)
    others, structure = cores_of(no)
    if structure != tree:
        raise ShapeError(
            f"the functions of a cond return the structures {tree} and {structure}, expected one; return the same pytree from both"
        )
    if chosen.size != 1:
        raise ShapeError(f"pred has the shape {chosen.shape}, expected one truth value; use where for arrays")
    for a, b in zip(cores, others, strict=True):
        if np.shape(a) != np.shape(b):
            raise ShapeError(
                f"the functions of a cond return arrays of the shapes {np.shape(a)} and {np.shape(b)}, expected one shape, as tiles go "
                "both ways; return arrays of one shape from both, such as np.zeros_like(x) or np.full(shape, number)"
            )
    holds = reshape(chosen, shape=())
    return public(tuple(bind(where, (holds, a, b), {}) for a, b in zip(cores, others, strict=True)), tree)
