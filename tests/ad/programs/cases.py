"""A case: a program, its arguments, the derivative, and the source of the expectation."""

from __future__ import annotations

import copy
import inspect
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from . import oracles, reference
from .trees import flatten, is_float, leaves, tree_map, unflatten

# Where an expected derivative comes from, when the case does not give a closed form.
COMPLEX_STEP = "complex step"
STORED = "stored"
STORED_NUMBERS = Path(__file__).with_name("stored.json")  # written by scripts/program_references.py

KINDS = ("grad", "vjp", "jvp", "jacobian", "hessian", "hvp", "raises")
FIRST_ORDER = ("grad", "vjp", "jvp", "jacobian")


@dataclass(frozen=True)
class Case:
    """One program with its expectation.

    `expected` is a function in plain NumPy. By kind it takes and gives:
        grad: the arguments -> the gradient
        vjp: the cotangent and the arguments -> the cotangents of the arguments
        jvp: the tangents, a tuple, and the arguments -> the tangent of the result
        jacobian, hessian: the arguments -> the matrix, as an array with the axes of the result before those of the argument
        hvp: the vector and the arguments -> the product
        raises: an exception class instead of a function
    A gradient or cotangents are those of the arguments `wrt`: a tuple where these are several.
    """

    group: str
    name: str
    program: Callable[..., Any]
    args: tuple[Any, ...]
    kind: str
    expected: Any
    wrt: tuple[int, ...]
    plain: Callable[..., Any] | None = None  # the same function in plain NumPy, for programs that take derivatives themselves
    differences: bool = True  # False at ties and kinks, and where the derivative is not that of the value: differences cannot tell
    difference_step: float = 1e-3  # fourth-order: h^4 of truncation and 1e-16 / h of rounding are both below 1e-11
    transposable: bool = True  # False where only one of jvp and vjp exists
    exact_zeros: bool = False  # entries that the closed form has at zero must come back as exactly zero
    tolerance: float = 1e-9

    def __str__(self) -> str:
        return f"{self.group}/{self.name}"

    def bind(self, np: Any, ds: Any) -> Callable[..., Any]:
        """The program of its arguments alone, on a given namespace."""
        parameters = list(inspect.signature(self.program).parameters)
        bound = (np, ds) if parameters[1:2] == ["ds"] else (np,)
        return lambda *args: self.program(*bound, *args)

    def bind_plain(self, np: Any = numpy, ds: Any = reference) -> Callable[..., Any]:
        """The program on plain NumPy, or the plain form that stands for it."""
        return self.plain or self.bind(np, ds)

    def fresh_args(self) -> tuple[Any, ...]:
        """The arguments, as copies: a program may overwrite them."""
        return copy.deepcopy(self.args)

    def value(self) -> Any:
        return self.bind_plain()(*self.fresh_args())

    def _random(self, tree: Any, what: str) -> Any:
        generator = numpy.random.default_rng(zlib.crc32(f"{self}:{what}".encode()))
        entries = generator.uniform(0.5, 1.5, flatten(tree).size) * generator.choice([-1.0, 1.0], flatten(tree).size)
        precisions = iter([numpy.asarray(leaf).dtype for leaf in leaves(tree)])
        return tree_map(lambda leaf: _in_precision(leaf, next(precisions)), unflatten(tree, entries))

    def cotangent(self) -> Any:
        """A random cotangent of the result, None for results that are not floating-point. Its entries are away from zero."""
        return _without_integers(self._random(self.value(), "cotangent"))

    def tangents(self) -> tuple[Any, ...]:
        """Random tangents of the arguments `wrt`."""
        return tuple(_without_integers(self._random(self.args[i], f"tangent {i}")) for i in self.wrt)

    def expected_derivative(self) -> numpy.ndarray:
        """The expectation, as one vector."""
        if self.expected is STORED:
            return self.from_jacobian(numpy.array(stored_numbers()[str(self)], float))
        if self.expected is COMPLEX_STEP:
            return self.from_jacobian(oracles.complex_step_jacobian(self.bind_plain(oracles.ComplexNumpy()), self.args, self.wrt))
        direction = {"vjp": self.cotangent, "jvp": self.tangents, "hvp": self.vector}.get(self.kind)
        return flatten(self.expected(*([direction()] if direction else []), *self.fresh_args())).astype(float)

    def vector(self) -> Any:
        """The vector of a Hessian-vector product."""
        return self.tangents()[0]

    @staticmethod
    def scale(expected: numpy.ndarray) -> float:
        """The scale of errors: the largest entry, or 1e-3 where all are smaller."""
        return max(1e-3, float(numpy.max(numpy.abs(expected), initial=0.0)))

    def from_jacobian(self, jacobian: numpy.ndarray) -> numpy.ndarray:
        """The expectation for this kind, from the Jacobian (the Hessian for the second-order kinds)."""
        if self.kind == "vjp":
            return flatten(self.cotangent()) @ jacobian
        if self.kind in ("jvp", "hvp"):
            return jacobian @ flatten(self.tangents())
        return numpy.ravel(jacobian)


def _in_precision(leaf: Any, dtype: Any) -> Any:
    """A random entry in the precision of its partner."""
    return leaf.astype(dtype) if dtype == numpy.float32 else leaf


def _without_integers(tree: Any) -> Any:
    return tree_map(lambda leaf: leaf if is_float(leaf) else None, tree)


def stored_numbers() -> dict[str, Any]:
    return json.loads(STORED_NUMBERS.read_text()) if STORED_NUMBERS.exists() else {}


CASES: list[Case] = []


def group(name: str) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """The decorator that puts a program into the collection, for one group.

    `kind` is `vjp` with a random cotangent unless said otherwise, `grad` for a program that returns a scalar and says so.
    """

    def case(args: tuple[Any, ...], expected: Any, kind: str = "vjp", wrt: Any = None, **options: Any) -> Any:
        def put(program: Callable[..., Any]) -> Callable[..., Any]:
            positions = _float_arguments(args) if wrt is None else (wrt if isinstance(wrt, tuple) else (wrt,))
            assert kind in KINDS, kind
            CASES.append(Case(name, program.__name__, program, args, kind, expected, positions, **options))
            return program

        return put

    return case


def _float_arguments(args: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(i for i, arg in enumerate(args) if any(is_float(leaf) for leaf in leaves(arg)))


def normal(seed: int, *shape: int) -> numpy.ndarray:
    """Standard normal entries, the same each time."""
    return numpy.random.default_rng(seed).normal(size=shape)


def uniform(seed: int, low: float, high: float, *shape: int) -> numpy.ndarray:
    """Entries between two bounds, the same each time."""
    return numpy.random.default_rng(seed).uniform(low, high, size=shape)
