"""A wrong argument is refused by an error of diffsim with the expected value, the given one, and a remedy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.expr as ex
import diffsim.numpy as dn
from diffsim.base.arguments import one_of
from tests.base.wrong_calls import FITTING, GRID, WRONG, Call, calls
from tests.sampled import together

WORDS = ("expected", "unknown", "exceeds")
REFUSED_WORDS = (*WORDS, "derivative", "would lose", "out=")
"""Arguments that a derivative does not take have one of these."""
LONGEST = 700


COLLECTED = calls()


@pytest.fixture(scope="module", name="named")
def _named() -> dict[str, Call]:
    """The calls, whose simulations are of the settings that hold now: another module's tests may have run since these were collected."""
    return {call.name: call for call in calls()}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [call.name for call in COLLECTED])
def test_wrong_arguments_are_refused(named: dict[str, Call], name: str) -> None:
    call = named[name]
    call.function(**call.arguments)
    accepted: dict[str, set[str]] = {}
    for argument, what, attempt in call.variants():
        try:
            attempt()
        except ds.DiffsimError as error:
            message = str(error)
            assert any(word in message for word in WORDS) and ("; " in message or ", such as" in message), (argument, what, message)
            assert len(message) < 500, (argument, what, message)
        else:
            accepted.setdefault(f"{call.name} {argument}", set()).add(what)
    fitting = {name: {*whats} for name, whats in FITTING.items() if name.rpartition(" ")[0] == call.name}
    for whats in fitting.values():
        if "1.5" in whats:
            whats.add("no axes")  # NumPy's form of the same number
    assert accepted == fitting


WHOLE = [call.name for call in COLLECTED if any(True for _ in call.of_numpy())]


@together(WHOLE)
def test_whole_numbers_may_be_of_numpy(name: str, named: dict[str, Call]) -> None:
    refused = {}
    for argument, kind, attempt in named[name].of_numpy():
        try:
            attempt()
        except ds.DiffsimError as error:
            refused[argument, kind] = str(error)
    assert refused == {}


def test_every_name_that_fits_is_of_a_call() -> None:
    known = {f"{call.name} {argument}" for call in COLLECTED for argument in call.arguments}
    assert FITTING.keys() <= known


KINDS: dict[str, Callable[[], Any]] = {what: make for what, make in WRONG.items() if what != "huge"} | {
    "a matrix": lambda: np.eye(2) + 0.5,
}
"""Values that fit few arguments; no huge number, for which NumPy would ask the system for memory."""


def _binds(function: Callable[..., Any], args: list[Any]) -> bool:
    """True if a call has as many arguments as the function takes; that is Python's to refuse."""
    try:
        inspect.signature(function).bind(*args)
    except TypeError:
        return False
    return True


def _complaint(attempt: Callable[[], Any], words: tuple[str, ...] = WORDS) -> str | None:
    """The defect of the error that a call raises; None: it raises none, or one of diffsim's that names a remedy, on one line."""
    try:
        attempt()
    except ds.DiffsimError as error:
        text = str(error)
        clear = any(word in text for word in words) and ("; " in text or ", such as" in text or "derivative" in text)
        return None if clear and len(text) < LONGEST and "\n" not in text else f"{type(error).__name__}: {text[:200]}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def _namespaces() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions of `diffsim.numpy`, but for those that call functions of the user's, or set how NumPy prints."""
    users = {"apply_along_axis", "vectorize", "piecewise", "fromfunction"}
    others = {*users, "set_printoptions", "printoptions", "errstate", "ndarray"}
    for module in (dn, dn.linalg, dn.fft, dn.special):
        for name in module.__all__:
            function = getattr(module, name)
            if callable(function) and not isinstance(function, type) and name not in others and not name.endswith("info"):
                yield f"{module.__name__}.{name}", function


ARRAY_FUNCTIONS = dict(_namespaces())
FORMS = ("w", "xw", "aw", "xxw", "wx", "nw", "aaw", "xwx")
"""Arguments of a call: w the wrong value, x a vector, a a matrix, n a number, the last three differentiated."""


@pytest.mark.filterwarnings("ignore")
@together(ARRAY_FUNCTIONS, gate=list(ARRAY_FUNCTIONS)[::4])
def test_array_functions_refuse_wrong_arguments_inside_of_a_derivative(name: str) -> None:
    function, complaints = ARRAY_FUNCTIONS[name], {}

    def attempts(x: Any, a: Any) -> Any:
        for form in FORMS:
            for what, make in KINDS.items():
                fresh = {"x": x * 1.0, "a": a * 1.0, "n": x[0]}  # anew, as a call may write into them
                args = [make() if place == "w" else fresh[place] for place in form]
                if _binds(function, args) and (wrong := _complaint(lambda args=args: function(*args), REFUSED_WORDS)):
                    complaints[form, what] = wrong
        return x[0]

    ds.vjp(attempts, np.array([0.3, 0.7, 1.1]), np.arange(9.0).reshape(3, 3) + np.eye(3))
    assert complaints == {}


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, w: x + w, "-": lambda x, w: w - x, "*": lambda x, w: x * w, "/": lambda x, w: w / x, "**": lambda x, w: x**w,
    "@": lambda x, w: x @ w, "//": lambda x, w: x // w, "<": lambda x, w: x < w, "[]": lambda x, w: x[w],
    "reshape": lambda x, w: x.reshape(w), "transpose": lambda x, w: x.transpose(w), "sum": lambda x, w: x.sum(w),
    "astype": lambda x, w: x.astype(w), "ravel": lambda x, w: x.ravel(w), "item": lambda x, w: x.item(w), "float": lambda x, w: float(x),
    "len": lambda x, w: len(x[0]), "iter": lambda x, w: list(x[0]),
}  # fmt: skip
NOT_OPERANDS = (type(None), str, dict, object, type)


@pytest.mark.filterwarnings("ignore")
@together(OPERATORS)
def test_operators_and_methods_of_arrays_refuse_wrong_operands(name: str) -> None:
    complaints = {}

    def attempts(x: Any) -> Any:
        for what, make in KINDS.items():
            wrong = make()
            if name in ("+", "-", "*", "/", "**", "@", "//", "<") and type(wrong) in NOT_OPERANDS:
                continue  # Python itself says that the types do not go together
            if complaint := _complaint(lambda wrong=wrong: OPERATORS[name](x * 1.0, wrong), REFUSED_WORDS):
                complaints[what] = complaint
        return x[0]

    ds.vjp(attempts, np.array([0.3, 0.7, 1.1]))
    assert complaints == {}


def test_errors_of_arrays_are_of_the_kind_that_numpy_raises() -> None:
    cases: dict[type[Exception], Callable[[Any], Any]] = {
        np.exceptions.AxisError: lambda x: dn.sum(x[0], axis=0, keepdims=True) + dn.sort(x[0]),
        ValueError: lambda x: x + dn.ones(7),
        TypeError: lambda x: dn.zeros("a"),
        IndexError: lambda x: x[9],
        np.linalg.LinAlgError: dn.linalg.inv,
    }
    for kind, wrong in cases.items():
        with pytest.raises(ds.errors.ArrayCallError, match="expected") as raised:
            ds.vjp(wrong, np.ones(3))
        assert isinstance(raised.value, kind)
    with pytest.raises(ds.errors.ArrayAxisError, match="expected an array with axes, got a number; leave the axis out") as raised:
        ds.vjp(lambda x: dn.max(dn.sum(x), axis=1), np.ones(3))
    assert (raised.value.axis, raised.value.ndim) == (1, 0)


class _InStep(ds.Equation):
    """Calls a function with a field while a step is traced."""

    def __init__(self, attempts: Callable[[Any], None]) -> None:
        self.grid, self.dt, self.attempts = GRID, 0.1, attempts
        self.states = {"u": ds.Variable()}

    def step(self, u: Any) -> dict[str, Any]:
        self.attempts(u)
        return {"u": 0.5 * u}


STEP_FUNCTIONS = {name: function for name in ex.__all__ if callable(function := getattr(ex, name)) and not isinstance(function, type)}
STEP_FUNCTIONS |= {"stage": ds.stage}


@together(STEP_FUNCTIONS)
def test_functions_of_steps_refuse_wrong_arguments(name: str) -> None:
    function, complaints = STEP_FUNCTIONS[name], {}

    def attempts(u: Any) -> None:
        for form in ("w", "uw", "wu", "uuw", "uuuw", "wuu", "u0w"):
            for what, make in KINDS.items():
                if what == "type" and form == "u0w":
                    continue  # a limiter of the user's may raise anything
                args = [make() if place == "w" else {"u": u, "0": 0}[place] for place in form]
                if _binds(function, args) and (wrong := _complaint(lambda args=args: function(*args))):
                    complaints[form, what] = wrong

    ds.Simulation(_InStep(attempts), precision="f64")
    assert complaints == {}


def test_fields_of_a_step_refuse_operations_of_arrays() -> None:
    complaints = {}

    def attempts(u: Any) -> None:
        names = [name for name in dir(np.ndarray) if not name.startswith("_") and name != "ndim"]
        tries: dict[str, Callable[[], Any]] = {name: lambda name=name: getattr(u, name) for name in names}
        tries |= {"//": lambda: u // 2, "@": lambda: u @ u, "round": lambda: round(u), "[] =": lambda: u.__setitem__(0, 1.0)}
        for name, attempt in tries.items():
            with pytest.raises(ds.errors.TraceError):
                attempt()
            complaints[name] = _complaint(attempt)
        assert not any(hasattr(u, name) for name in names)

    ds.Simulation(_InStep(attempts), precision="f64")
    assert set(complaints.values()) == {None}
    with pytest.raises(ds.errors.TraceAttributeError, match=r"f\.max of a field f of a step, .*; write diffsim\.expr\.max\(f\)"):
        ds.Simulation(_InStep(lambda u: u.max()), precision="f64")


PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (ds, ds.solvers, ds.layers, ds.integrators, ds.checkpoint)
    for name in getattr(module, "__all__", ())
    if callable(getattr(module, name)) and name not in ("init", "DiffsimError")
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@together(PUBLIC)
def test_public_names_refuse_calls_with_wrong_values_alone(name: str) -> None:
    function, complaints = PUBLIC[name], {}
    if isinstance(function, type) and issubclass(function, Exception):
        return
    for what, make in KINDS.items():
        for count in range(1, 5):
            for first in ([], [GRID]):
                args = [*first, *(make() for _ in range(count - len(first)))]
                calls_it = what == "type" and not first  # a type can be called, and raises its own errors
                if _binds(function, args) and not calls_it and (wrong := _complaint(lambda args=args: function(*args))):
                    complaints[what, count, len(first)] = wrong
    assert complaints == {}


def test_a_choice_is_returned_in_its_own_type() -> None:
    """NumPy's text would show in messages and be pickled."""
    for value, known in ((np.str_("f64"), ("f32", "f64")), (np.int64(4), (2, 4))):
        assert type(one_of("choice", value, known)) is type(known[0])
