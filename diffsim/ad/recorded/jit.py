"""Functions whose operations are recorded in the first call of a form and replayed in later ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np

from diffsim.ad.arrays import guard
from diffsim.ad.arrays.array import Array
from diffsim.ad.arrays.leaves import array_core
from diffsim.ad.core import Tracer, UnrecordableError, local, running
from diffsim.ad.model import SOLVE
from diffsim.ad.recorded.form import CONSTANTS, Form, as_core, is_input
from diffsim.ad.recorded.outside import require_no_writes, unchanged_of
from diffsim.ad.recorded.program import NotReplayedError, Program
from diffsim.ad.recorded.recording import RecordedTracer, Recording, Register
from diffsim.ad.tree import Tree, flatten, unflatten
from diffsim.base import arguments
from diffsim.base.copies import Remade, remade
from diffsim.base.messages import shown, silenced, warn_user
from diffsim.errors import DiffsimError, JitError, JitWarning

MOST_FORMS = 16
"""Forms of which recordings are kept. After as many new ones in a row, none of which came again, further ones are called."""
MOST_CHANGES = 8
"""Calls in a row before each of which values from outside changed, after which a function is recorded no more."""
FAILURES = (DiffsimError, ArithmeticError, ValueError, LookupError, Warning)
"""Errors of a replay after which the function is called: it raises the same, with its own lines, or goes another way."""

EDITS = "the function edits its arguments; let it copy them"


@dataclass
class _Entry:
    """A known form of calls.

    Attributes:
        values: from the arguments to the inputs of the replay; None for another form.
        unchanged: True if what the function takes from outside is as it was.
        program: the replay; None: the function is called.
    """

    values: Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, ...] | None]
    unchanged: Callable[[], bool]
    program: Program | None


@dataclass
class _Recorded:
    """The operations of a call.

    Attributes:
        recording: of them.
        registers: of the arguments.
        results: registers, or constants.
        tree: of the results.
        arrays: of NumPy's that took part.
    """

    recording: Recording
    registers: list[Register]
    results: list[Any]
    tree: Tree
    arrays: list[np.ndarray]


class Replayed:
    """A function with the recordings of its forms, the last one first.

    Args:
        function: of the user.

    Attributes:
        entries: of known forms.
    """

    __slots__ = ("__name__", "_changes", "_last", "_new", "_reasons", "entries", "function")  # and no dict, which wrappers would copy

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.entries = function, list[_Entry]()
        self.__name__ = getattr(function, "__name__", "function")
        self._changes = self._new = 0
        self._last: Form | None = None
        self._reasons: set[str] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if local.depth or local.tiling is not None:  # a derivative around it has to see the operations
            return self.function(*args, **kwargs)
        for entry in self.entries:
            values = entry.values(args, kwargs)
            if values is None:
                continue
            if entry.program is None:
                return self.function(*args, **kwargs)
            if not entry.unchanged():
                self._changes += 1
                self._drop(entry)
                break
            try:
                result = entry.program.run(*values)
            except FAILURES:
                leaves, tree = flatten(self.function(*args, **kwargs))
                return unflatten(tree, _own(leaves))
            self._changes = self._new = 0
            if entry is not self.entries[0]:
                self._put_first(entry)
            return result
        if self._new >= MOST_FORMS and self._varies(args, kwargs):
            return self.function(*args, **kwargs)
        return self._first(args, kwargs)

    def _varies(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """True if a call after too many forms has another one again. A form is made of the 2^n-th of these calls only, since that takes
        longer than many functions."""
        if self._last is not None and self._last.values(args, kwargs) is not None:
            self._new = 0
            return False
        self._new += 1
        if self._new & (self._new - 1) == 0:
            try:
                self._last = Form(args, kwargs)
            except UnrecordableError:
                self._last = None
        return True

    def _is_new(self, form: Form) -> bool:
        """Count a form that differs from the one before. Return False, with a warning, after as many as are kept without a replay."""
        difference = form.difference(self._last) if self._last is not None else None
        self._last = form
        self._new = self._new + 1 if difference is not None else 0
        if difference is None or self._new < MOST_FORMS:
            return True
        place, kind = difference
        name = _said(self.function, place) if place else "the arguments"
        what = f"{name} differs" if place else f"{name} differ"
        if kind in ("structure", "type"):
            remedy = "pass the same structure, and the same types of numbers and arrays"
        elif kind.startswith("shape"):
            remedy = "pass arrays of one shape, type and layout"
        elif kind.startswith("array"):
            remedy = "take the entries outside (x[index]) and pass them"
        elif kind.startswith("int"):
            remedy = f"if it is a value, pass it as np.float64({name}); if it is a count or an index, use it outside of the function"
        else:
            remedy = "pass the same one, or make a function of ds.jit for each"
        self._warn(
            f"{MOST_FORMS + 1} calls in a row had another form each, which is recorded anew and slower than a plain call: {what} ({kind}); "
            f"{remedy}"
        )
        return False

    def _drop(self, entry: _Entry) -> None:
        self.entries = [each for each in self.entries if each is not entry]

    def _put_first(self, entry: _Entry) -> None:
        self.entries = [entry, *(each for each in self.entries if each is not entry)][:MOST_FORMS]

    def _first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, and record it."""
        try:
            form = Form(args, kwargs)
        except UnrecordableError as reason:
            self._warn(str(reason))
            return self.function(*args, **kwargs)
        if not self._is_new(form):
            return self.function(*args, **kwargs)
        passed = flatten((args, kwargs))[0]
        before = [leaf.copy("K") if isinstance(leaf, np.ndarray) else leaf for leaf in passed]
        recorded: _Recorded | UnrecordableError
        try:  # before the plain call, whose values are those that the function leaves elsewhere
            if self._changes > MOST_CHANGES:
                raise UnrecordableError(
                    "values from outside of the function change before each call; pass them as arguments, a number as a float (float(k) or "
                    "an array), since another int is another form, which is recorded anew"
                )
            require_no_writes(self.function)
            recorded = self._record(form, before)
        except UnrecordableError as reason:
            recorded = reason
        result = self.function(*args, **kwargs)
        leaves, tree = flatten(result)
        if not all(np.isfinite(leaf).all() for leaf in leaves if is_input(leaf)):
            return unflatten(tree, _own(leaves))  # other operations may follow from such values
        try:
            if isinstance(recorded, UnrecordableError):
                raise recorded
            if not all(_same(leaf, copied, layout=False) for leaf, copied in zip(passed, before, strict=True)):
                raise UnrecordableError(EDITS)
            own = _own(leaves)
            self._put_first(self._replay_of(form, before, recorded, own, tree))
        except UnrecordableError as reason:
            if not reason.now:
                self._warn(str(reason))
                self._put_first(_Entry(form.values, lambda: True, None))
            return unflatten(tree, _own(leaves)) if reason.now else result
        return unflatten(tree, own)

    def _record(self, form: Form, given: Sequence[Any]) -> _Recorded:
        """The operations of a call with these leaves as arguments.

        Raises:
            UnrecordableError: they cannot be replayed.
            JitError: the function decides by a value.
        """
        with silenced():
            recording = Recording()
        try:
            with running(), silenced():
                local.recording = True
                args, kwargs, registers = form.recorded(recording, given)
                passed = flatten((args, kwargs))
                versions = [_version(leaf) for leaf in passed[0]]
                outs, tree = flatten(self.function(*args, **kwargs))
                results = [_result(leaf) for leaf in outs]
                arrays = guard.outside()
                left = flatten((args, kwargs))
                if left[1] != passed[1] or not all(map(is_, left[0], passed[0])) or versions != [_version(leaf) for leaf in left[0]]:
                    raise UnrecordableError(EDITS)
        except JitError:
            raise
        except Exception as error:  # a part of diffsim or NumPy that cannot do without values
            now = isinstance(error, UnrecordableError) and error.now
            raise UnrecordableError(f"{type(error).__name__}: {error}", now=now) from error
        finally:
            local.recording = False
            recording.ended = True
        return _Recorded(recording, registers, results, tree, arrays)

    def _replay_of(self, form: Form, given: Sequence[Any], recorded: _Recorded, leaves: Sequence[Any], tree: Tree) -> _Entry:
        """A replay that gives the bits of a plain call.

        Args:
            form: of the call.
            given: leaves of the arguments.
            recorded: its operations.
            leaves: of the result of a plain call.
            tree: of the result.

        Raises:
            UnrecordableError: there is none.
        """
        if recorded.tree != tree:
            raise UnrecordableError(f"its second run returned the structure {tree}, after {recorded.tree}")
        program = Program(recorded.recording, recorded.registers, recorded.results, tree, leaves)
        models = [o.params["model"] for o in recorded.recording.operations if o.name == SOLVE.name]
        try:
            unchanged = unchanged_of(self.function, recorded.arrays, models, form.callables, form.kinds)
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:  # from code of the user's
            raise UnrecordableError(f"what it takes from outside cannot be looked at ({type(error).__name__}: {error})") from error
        for _ in range(2):  # in their first run solvers may prepare what they use in the second one
            try:
                with silenced():
                    again = flatten(program.run(*(as_core(leaf) for leaf in given if is_input(leaf))))[0]
            except (NotReplayedError, ArithmeticError) as error:  # another call may have values that do well
                raise UnrecordableError(str(error), now=True) from error
            if not all(map(_same, leaves, again)):
                if all(map(_near, leaves, again)):
                    raise UnrecordableError(
                        "its replay would round the last digits otherwise, as it does where an array is read at several positions that are "
                        "computed from an argument; take such positions from outside, or as an argument of integers"
                    )
                raise UnrecordableError("its second run had other results than its first: it draws random numbers, or counts its calls")
        return _Entry(form.values, unchanged, program)

    def _warn(self, reason: str) -> None:
        if reason not in self._reasons:
            self._reasons.add(reason)
            name = f"ds.{repr(self.function)[1:-1]}" if isinstance(self.function, Remade) else self.__name__
            warn_user(f"{name} of ds.jit runs as a plain call, which is no faster: {reason}", JitWarning)


def _said(function: Callable[..., Any], place: tuple[Any, ...]) -> str:
    """An argument, or a part of one, in words of the user's."""
    first, key, *inside = place
    while isinstance(function, Remade):  # a derivative has the arguments of its function
        function = function.made_of[0]  # type: ignore[assignment]
    parts = "".join(f"[{part!r}]" for part in inside)
    if first == 1:
        return f"{key}{parts}"
    try:
        names = [p.name for p in inspect.signature(function).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    return f"{names[key]}{parts}" if key < len(names) else f"argument {key + 1}{parts}"


def _version(leaf: Any) -> Any:
    """The number of assignments to an array."""
    return leaf._version if isinstance(leaf, Array) else None


def _own(leaves: Sequence[Any]) -> list[Any]:
    """The results of a call of the function as a replay returns them: no array shares memory with an argument, with what the function takes
    from outside, or with another result, so that an edit of one of them is the same after all calls."""
    return [leaf.copy("K") if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]


def _result(leaf: Any) -> Any:
    """The register of a result, or a constant."""
    value = array_core(leaf)
    if isinstance(value, RecordedTracer):
        return value.register
    if isinstance(value, Tracer) or (value is None and not isinstance(leaf, CONSTANTS)):
        raise UnrecordableError(f"it returns {shown(leaf)}, expected arrays, numbers, texts and pytrees of them")
    return leaf if value is None or type(leaf) is float else value


def _same(a: Any, b: Any, layout: bool = True) -> bool:
    """True if two leaves have the same type and bits, and, if wanted, layout."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
            return False
        steps = zip(a.strides, b.strides, a.shape, strict=True)  # those along axes of one entry mean nothing
        return not layout or (a.flags.c_contiguous and b.flags.c_contiguous) or all(x == y or n < 2 for x, y, n in steps)
    if type(a) is not type(b):
        return False
    return a.tobytes() == b.tobytes() if isinstance(a, np.generic) else a is b or bool(a == b)


def _near(a: Any, b: Any) -> bool:
    """True if two leaves differ by rounding alone: by less than half of the digits of the largest entry."""
    if not (isinstance(a, np.ndarray | np.generic) and isinstance(b, np.ndarray | np.generic)) or a.dtype != b.dtype or a.shape != b.shape:
        return _same(a, b, layout=False)
    if a.dtype.kind not in "fc":
        return _same(a, b, layout=False)
    with np.errstate(all="ignore"):
        x, y = np.asarray(a), np.asarray(b)
        return bool(np.max(np.abs(x - y), initial=0.0) <= np.sqrt(np.finfo(x.dtype).eps) * np.max(np.abs(x), initial=0.0))


@remade
def jit(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that records the operations of `f` in the first call of a form, and replays them in later ones.

    A replay calls neither `f` nor the tape: it is a list of NumPy's functions and of launches, with the bits of a plain call. That is for
    functions that take microseconds, such as losses of small systems.

    Args:
        f: of arrays, numbers and pytrees of them, such as the function that `ds.value_and_grad` gives, or one that runs simulations.
            Arrays of floating-point numbers, and such numbers, may differ from call to call. Everything else, such as an int, a text or
            an array of ints, belongs to the form of a call.

    Returns:
        A function of the same arguments. The first call of a form runs `f` twice, and must give the same twice; so do calls after a value
        that `f` takes from outside has changed. What `f` prints or counts is done in these calls only. Where a replay would do something
        else than `f`, as for values that are not finite, `f` is called.

    Raises:
        JitError: `f` decides by a value (`if x > 0`, `float(x)`).

    Warns:
        JitWarning: `f` cannot be replayed, so that each call is a plain one: it runs loops of diffsim, or has other results each time.

    Example:
        import numpy as np

        import diffsim as ds

        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((20,), spacing=0.05), dt=0.1), precision="f64")
        start = np.cos(np.pi * np.arange(20) / 20)

        def loss(kappa):
            return (rod.run({"kappa": kappa, "T": start}, 20).final["T"] ** 2).sum()

        plain = ds.value_and_grad(loss)
        fast = ds.jit(plain)
        for kappa in (np.full(20, 5e-3), np.full(20, 6e-3)):  # the second call is a replay
            value, gradient = fast(kappa)
            assert value == plain(kappa)[0] and (gradient == plain(kappa)[1]).all()
    """
    return Replayed(arguments.function("f", f, "ds.jit(ds.value_and_grad(lambda x: (x**2).sum()))", optional=False) or f)
