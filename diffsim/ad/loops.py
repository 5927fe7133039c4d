"""Loops and functions whose record is not kept: the reverse sweep runs them again from checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim.ad.closure import closed, discover
from diffsim.ad.core import Primitive, Tracer, aval, bind, bottom
from diffsim.ad.leaves import Cores, as_arrays, cores_of, is_floating, public
from diffsim.ad.modes import ForwardTrace, ForwardTracer, ReverseTrace, ReverseTracer
from diffsim.ad.ops.structure import zeros_like
from diffsim.ad.sweep import backward
from diffsim.ad.tree import Tree, in_order, unflatten
from diffsim.checkpoint import Action, Checkpoint, GrowthMonitor, Policy, ReplayGuard, Sizes, Sweep, resolve
from diffsim.checkpoint.growth import largest
from diffsim.checkpoint.progress import Teller
from diffsim.checkpoint.schedule import require_count
from diffsim.checkpoint.storage.fingerprint import fingerprint
from diffsim.checkpoint.stores import open_stores
from diffsim.errors import ParameterError, PlanError, ReplayError, ShapeError

Step = Callable[[int, Cores, Cores], Cores]
"""(number of the step, state, captured values) -> state: a pure function of core values."""
NODE_BYTES = 600
"""Memory of a node of the record beside the arrays that it keeps."""


# one step: its pullback and its tangent


class _Record:
    """The record of one step: a pullback from the cotangents of the state after it."""

    def __init__(self, step: Step, number: int, state: Cores, captured: Cores) -> None:
        trace = ReverseTrace()
        inputs = [trace.leaf(c) if is_floating(c) else c for c in (*state, *captured)]
        outs = step(number, tuple(inputs[: len(state)]), tuple(inputs[len(state) :]))
        trace.ended = True
        mine = [isinstance(o, ReverseTracer) and o.trace is trace for o in outs]
        self.ends = [o.node if m else None for o, m in zip(outs, mine, strict=True)]
        self.state = tuple(o.primal if m else o for o, m in zip(outs, mine, strict=True))
        self.leaves = [i.node if isinstance(i, ReverseTracer) and i.trace is trace else None for i in inputs]

    def pull(self, cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the state before and of the captured values."""
        seeds = [(end, ct) for end, ct in zip(self.ends, cts, strict=True) if end is not None and ct is not None]
        bars = iter(backward(seeds, [n for n in self.leaves if n is not None]))
        return [None if n is None else next(bars) for n in self.leaves]

    def nbytes(self) -> int:
        """Memory that it holds."""
        seen: set[int] = set()
        stack = [end for end in self.ends if end is not None]
        total = 0
        while stack:
            node = stack.pop()
            if node.id in seen:
                continue
            seen.add(node.id)
            kept = [bottom(a) for a in (*node.args, node.out) if a is not None]
            total += NODE_BYTES + sum(a.nbytes for a in kept if isinstance(a, np.ndarray))
            stack += [p for p in node.parents if p is not None]
        return total


class _LoopStepper:
    """A loop as the checkpointing schedules see it."""

    def __init__(self, step: Step, first: int, steps: int, state: Cores, captured: Cores) -> None:
        self.step, self.first, self.steps, self.captured = step, first, steps, captured
        self.state = state
        self.slots: dict[int, Cores] = {}
        self.records: dict[int, _Record] = {}
        self.cts: list[Any] = [None] * len(state)
        self.captured_cts: list[Any] = [None] * len(captured)

    def advance(self, start: int, stop: int) -> int | None:
        stop = min(stop, self.steps)
        for n in range(start, stop):
            self.state = self.step(self.first + n, self.state, self.captured)
        return stop if stop == self.steps else None

    def record(self, start: int, stop: int) -> None:
        for n in range(start, stop):
            self.records[n] = _Record(self.step, self.first + n, self.state, self.captured)
            self.state = self.records[n].state

    def save(self, step: int, slot: int) -> None:
        self.slots[slot] = self.state

    def load(self, step: int, slot: int) -> None:
        self.state = self.slots[slot]

    def free(self, slot: int) -> None:
        del self.slots[slot]

    def reverse(self, start: int, stop: int) -> None:
        for n in reversed(range(start, stop)):
            record = self.records.pop(n, None) or _Record(self.step, self.first + n, self.state, self.captured)
            bars = record.pull(self.cts)
            self.cts = bars[: len(self.cts)]
            for k, bar in enumerate(bars[len(self.cts) :]):
                if bar is not None:
                    self.captured_cts[k] = bar if self.captured_cts[k] is None else self.captured_cts[k] + bar

    def compared(self) -> list[np.ndarray]:
        """What tells the state from others, for the guard."""
        return _compared(self.state)

    def state_arrays(self) -> list[np.ndarray]:
        """The state for a slow tier.

        Raises:
            PlanError: not all of it is numbers.
        """
        if other := [type(c).__name__ for c in self.state if not _is_storable(c)]:
            raise PlanError(
                f"expected numbers, of 64 bits where they are integers, in the state of a loop that keeps states in slow tiers, got "
                f"{', '.join(other)}; give checkpoint= a schedule without slow tiers"
            )
        return [np.asarray(bottom(c)) for c in self.state]

    def cotangent_size(self) -> float:
        """The largest entry of the state's cotangent now."""
        return largest(bottom(ct) for ct in self.cts if ct is not None)

    def precision(self) -> float:
        """The largest relative rounding error of what there is in the state."""
        kinds = {value.dtype for value in self.compared() if value.dtype.kind in "fc"}
        return max((float(np.finfo(kind).eps) for kind in kinds), default=float(np.finfo(float).eps))

    def set_state(self, arrays: Sequence[np.ndarray]) -> None:
        if any(isinstance(c, Tracer) for c in self.state):
            raise PlanError(
                "a loop that is differentiated twice keeps its states in memory; give checkpoint= a schedule without slow tiers"
            )
        self.state = tuple(_like(array, c) for array, c in zip(arrays, self.state, strict=True))


def _is_storable(core: Any) -> bool:
    """Whether a value of a state comes back as it was from an array of numbers."""
    if isinstance(core, int):
        return -(2**63) <= core < 2**63
    return isinstance(core, (float, complex)) or getattr(getattr(core, "dtype", None), "kind", "O") in "biufc"


def _compared(cores: Cores) -> list[np.ndarray]:
    """The numbers of a state as arrays whose bytes are their value: an integer of Python's may be of any length."""
    out = []
    for c in cores:
        if isinstance(c, int):
            out.append(np.frombuffer(c.to_bytes(c.bit_length() // 8 + 1, "little", signed=True), np.uint8))
        elif isinstance(c, (float, complex)) or hasattr(c, "dtype"):
            array = np.asarray(bottom(c))
            if array.dtype.kind != "O":
                out.append(array)
    return out


def _like(array: np.ndarray, core: Any) -> Any:
    """A copy of a stored array as a value of the kind of `core`."""
    if isinstance(core, (np.ndarray, np.generic)):
        return array.copy() if isinstance(core, np.ndarray) else array[()]
    return array.item()


def _require_same(found: Cores, expected: Cores, what: str) -> None:
    if fingerprint(_compared(found)) != fingerprint(_compared(expected)):
        raise ReplayError(
            f"{what} gave another result when it was run again for its derivative: it draws random numbers, or reads something that "
            "changes; let it depend on its arguments alone"
        )


def _nbytes(cores: Cores) -> int:
    return sum(bottom(c).nbytes for c in cores if hasattr(c, "dtype"))


def _evaluate(*cores: Any, step: Step, count: int, first: int, steps: int, checkpoint: Any, memo: list[Any]) -> tuple[Any, ...]:
    if memo:
        return memo.pop()
    state, captured = tuple(cores[:count]), tuple(cores[count:])
    for n in range(steps):
        state = step(first + n, state, captured)
    return state


def _record(cores: Sequence[Any], params: dict[str, Any], wanted: tuple[bool, ...]) -> tuple[Any, Callable[..., Any]]:
    """The value of a loop, and its pullback: the reverse sweep of a checkpointing schedule."""
    count, steps, step, first = params["count"], params["steps"], params["step"], params["first"]
    state, captured = tuple(cores[:count]), tuple(cores[count:])
    out = bind(_loop, cores, params)
    if not steps:
        return out, lambda cts: [*cts, *(None for _ in captured)]
    avals = [aval(c) if is_floating(c) else None for c in cores]

    policy = Policy.of(params["checkpoint"])

    def pullback(cts: Sequence[Any]) -> list[Any]:
        stepper = _LoopStepper(step, first, steps, state, captured)
        recorded = 1 if policy.slots else max(_Record(step, first, state, captured).nbytes(), 1)
        schedule = resolve(policy, steps, Sizes(max(_nbytes(state), 1), recorded, _nbytes(captured)))
        guard = ReplayGuard(stepper.compared) if policy.verify else None
        growth = GrowthMonitor(stepper.cotangent_size, stepper.precision(), lambda: largest(stepper.compared()))
        stores = open_stores(schedule, stepper.state_arrays, policy)
        watchers: list[Callable[[Action], None]] = [growth]

        def watch(action: Action) -> None:
            for watcher in watchers:
                watcher(action)

        with Sweep(schedule, stepper, stores=stores, guard=guard, on_piece=watch) as sweep:
            if policy.progress is not None:
                watchers.append(Teller(sweep, policy.progress))
            sweep.forward()
            if policy.verify:
                _require_same(stepper.state, out, "a loop")
            stepper.cts = list(cts)
            sweep.reverse()
        growth.warn()
        bars = [*stepper.cts, *stepper.captured_cts]
        return [None if a is None else zeros_like(a)[()] if b is None else b for a, b in zip(avals, bars, strict=True)]

    return out, pullback


def _jvp(cores: Sequence[Any], tangents: Sequence[Any], out: Any, params: dict[str, Any]) -> list[Any]:
    """The same loop over states and their tangents: it is checkpointed in the same way if it is differentiated in turn."""
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
    found = bind(_loop, inner, params | {"step": both, "count": count + len(in_state), "memo": []})
    moved = iter(found[count:])
    return [next(moved) if k in in_state else None for k in range(count)]


_loop = Primitive("loop", _evaluate, jvp=_jvp, record=_record, multiple=True)


# for users


def _body(function: Callable[[int, Any], Any], tree: Tree) -> Callable[[int, Cores], Cores]:
    """A loop's body on core values; the state must keep its structure, shapes and types."""

    def run(number: int, state: Cores) -> Cores:
        given = unflatten(tree, as_arrays(state))
        cores, found = cores_of(in_order(function(number, given), tree))
        if found != tree:
            raise ShapeError(f"the body of a loop returned a state of the structure {found}, expected that of the first, {tree}")
        out = []
        for before, after in zip(state, cores, strict=True):
            if is_floating(after) and not is_floating(before) and not isinstance(before, float):
                raise ShapeError(
                    f"the body of a loop returned {after.dtype} for a state that began as "
                    f"{getattr(before, 'dtype', type(before).__name__)}, whose derivative would be "
                    "lost; begin with a floating-point value, such as 0.0"
                )
            if is_floating(before) and hasattr(after, "dtype") and after.shape != before.shape:
                raise ShapeError(f"the body of a loop returned an array of shape {after.shape}, expected that of the state, {before.shape}")
            if is_floating(before) and not is_floating(after):
                after = np.asarray(after, before.dtype)[()]
            out.append(after)
        return tuple(out)

    return run


def _run_loop(body: Callable[[int, Cores], Cores], init: Cores, first: int, last: Callable[[int, Cores], bool], checkpoint: Any) -> Cores:
    """Run a loop on plain values, then as one operation on the values that are being differentiated.

    Raises:
        ParameterError: `checkpoint` is no such thing, or asks for what loops do not have.
    """
    if Policy.of(checkpoint).resume:
        raise ParameterError("expected no resume= in the policy of a loop, got one: only the sweeps of simulations go on; leave it out")
    steps = 0

    def whole(state: Cores) -> Cores:
        nonlocal steps
        while not last(first + steps, state):
            state = body(first + steps, state)
            steps += 1
        return state

    value, captured = discover(whole, init)
    if not captured and not any(isinstance(c, Tracer) for c in init):
        return value
    run = closed(lambda numbered: body(numbered[0], numbered[1:]), captured)

    def step(n: int, state: Cores, values: Cores) -> Cores:
        return run((n, *state), values)

    params = {"step": step, "count": len(init), "first": first, "steps": steps, "checkpoint": checkpoint, "memo": [value]}
    return bind(_loop, (*init, *captured), params)


def fori_loop(lower: int, upper: int, body: Callable[[int, Any], Any], init: Any, *, checkpoint: Checkpoint = "auto") -> Any:
    """`state = body(i, state)` for i from `lower` to `upper` - 1, as one operation whose memory is bounded.

    Args:
        lower: first i.
        upper: past the last i.
        body: (i, state) -> state. It is run again in the reverse sweep, so it must do the same each time; it may use values from
            around it, which are differentiated too, but not assign to arrays made outside.
        init: first state: an array, a number, or a record of them. Structure, shapes and types stay.
        checkpoint: memory for the reverse sweep ("auto" is half of what is available, or a size such as "100 MB"), or a number
            of states to keep at most, or a schedule or `Policy` of `diffsim.checkpoint`; `resume` is for simulations alone.

    Returns:
        The last state.

    Raises:
        ParameterError: `checkpoint` is none of these, or asks for `resume`.
        PlanError: by the reverse sweep: the memory cannot work, or states that are not all numbers would go to slow tiers.
        ShapeError: the body changes the structure or a shape of the state.
    """
    lower, upper = int(lower), int(upper)
    cores, tree = cores_of(init)
    found = _run_loop(_body(body, tree), cores, lower, lambda n, _: n >= upper, checkpoint)
    return public(found, tree)


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
    """
    cores, tree = cores_of(init)

    def done(n: int, state: Cores) -> bool:
        if max_steps is not None and n > max_steps:
            raise ParameterError(f"a while_loop took more than max_steps = {max_steps} steps; raise it, or check the condition")
        return not cond(unflatten(tree, as_arrays(state)))

    found = _run_loop(_body(lambda _, state: body(state), tree), cores, 0, done, checkpoint)
    return public(found, tree)


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
        step: state -> state, one time step; see `fori_loop` for what it may do. A step that depends on time has the time in its state.
        state: the first state.
        steps: how many.
        until: instead of `steps`: state -> whether that is the last one. It is read, not differentiated.
        max_steps: with `until`: raise if it takes more; None: no limit.
        checkpoint: see `fori_loop`.

    Returns:
        The last state.

    Raises:
        ParameterError: neither or both of `steps` and `until`, or more than `max_steps` steps.
        ReplayError: by the reverse sweep: the step does not do the same each time.
    """
    if steps is None and until is not None:
        return while_loop(lambda now: not until(now), step, state, checkpoint=checkpoint, max_steps=max_steps)
    if steps is None or until is not None:
        raise ParameterError("expected either steps= or until=, got both or neither; give one")
    if steps:
        require_count("steps", steps)
    return fori_loop(0, steps, lambda _, now: step(now), state, checkpoint=checkpoint)


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """`true_fun(*operands)` if `pred` holds, else `false_fun(*operands)`; the choice is read, not differentiated."""
    return true_fun(*operands) if bool(pred) else false_fun(*operands)


def remat(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` without its record: the reverse sweep runs it again. It must do the same each time."""

    def again(*args: Any, **kwargs: Any) -> Any:
        cores, tree = cores_of((args, kwargs))
        out_tree: list[Tree] = []

        def run(values: Cores) -> Cores:
            given_args, given_kwargs = unflatten(tree, as_arrays(values))
            found, shape = cores_of(f(*given_args, **given_kwargs))
            out_tree[:] = [shape]
            return found

        value, captured = discover(run, cores)
        if not captured and not any(isinstance(c, Tracer) for c in cores):
            return public(value, out_tree[0])
        params = {"run": closed(run, captured), "count": len(cores), "memo": [value]}
        found = bind(_remat, (*cores, *captured), params)
        return public(found, out_tree[0])

    again.__name__ = getattr(f, "__name__", "remat")
    again.__doc__ = f.__doc__
    return again


def _remat_evaluate(*cores: Any, run: Any, count: int, memo: list[Any]) -> tuple[Any, ...]:
    return memo.pop() if memo else run(tuple(cores[:count]), tuple(cores[count:]))


def _remat_step(params: dict[str, Any]) -> Step:
    return lambda _, state, captured: params["run"](state, captured)


def _remat_record(cores: Sequence[Any], params: dict[str, Any], wanted: tuple[bool, ...]) -> tuple[Any, Callable[..., Any]]:
    count = params["count"]
    out = bind(_remat, cores, params)

    def pullback(cts: Sequence[Any]) -> list[Any]:
        record = _Record(_remat_step(params), 0, tuple(cores[:count]), tuple(cores[count:]))
        _require_same(record.state, out, "a function of remat")
        return record.pull(cts)

    return out, pullback


def _remat_jvp(cores: Sequence[Any], tangents: Sequence[Any], out: Any, params: dict[str, Any]) -> list[Any]:
    """The function over values and tangents, again without its record."""
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
    return list(bind(_remat, inner, {"run": both, "count": count + len(moving), "memo": []}))


_remat = Primitive("remat", _remat_evaluate, jvp=_remat_jvp, record=_remat_record, multiple=True)
