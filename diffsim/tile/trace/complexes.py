"""Tile programs with complex numbers as programs on their real and imaginary parts.

Derivatives are taken before: the rules of the reverse-mode layer hold for complex operations as they stand.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from diffsim.ad.arrays.leaves import Cores
from diffsim.ad.core import Primitive, bind
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops import matrix as mx
from diffsim.ad.ops import structure as st
from diffsim.errors import TileError
from diffsim.tile.trace.program import Operation, Program, Variable
from diffsim.tile.trace.trace import derived


class Pair(NamedTuple):
    """Real and imaginary parts."""

    re: Any
    im: Any


def is_complex(x: Any) -> bool:
    """True if a variable, a number or an array is complex."""
    return np.dtype(x.dtype).kind == "c" if hasattr(x, "dtype") else isinstance(x, complex)


@functools.lru_cache(maxsize=1000)  # programs are compared by identity
def has_complex(program: Program) -> bool:
    """True if any value of a program is complex."""
    values = [*program.arguments, *program.results, *(r for o in program.operations for r in o.results)]
    return any(map(is_complex, values)) or any(is_complex(o) for p in program.operations for o in p.operands)


def part_of(dtype: Any) -> np.dtype[Any]:
    """The type of the parts of a complex type; a real type itself."""
    return np.dtype(dtype).type(0).real.dtype


def in_parts(program: Program) -> Program:
    """The program on parts: complex arguments and results are two each, the real parts first."""

    def run(cores: Cores) -> Cores:
        entries = iter(cores)
        known: dict[Variable, Any] = {a: Pair(next(entries), next(entries)) if is_complex(a) else next(entries) for a in program.arguments}
        for operation in program.operations:
            operands = [known[o] if isinstance(o, Variable) else _constant(o) for o in operation.operands]
            results = _done(operation, operands)
            known.update(zip(operation.results, results if operation.primitive.multiple else (results,), strict=True))
        out: list[Any] = []
        for result in program.results:
            value = known[result] if isinstance(result, Variable) else _constant(result)
            out += list(value) if isinstance(value, Pair) else [value]
        return tuple(out)

    parts = [Variable(a.shape, part_of(a.dtype)) for a in program.arguments for _ in range(2 if is_complex(a) else 1)]
    return derived(run, parts)


def _constant(x: Any) -> Any:
    return Pair(np.real(x), np.imag(x)) if is_complex(x) else x


def _pair(x: Any) -> Pair:
    return x if isinstance(x, Pair) else Pair(x, 0.0)


def _done(operation: Operation, operands: Sequence[Any]) -> Any:
    primitive, params = operation.primitive, operation.params
    complex_result = any(map(is_complex, operation.results))
    if not any(isinstance(o, Pair) for o in operands) and not complex_result:
        return bind(primitive, operands, params)
    name = primitive.name
    if name in _PARTWISE:
        return _partwise(primitive, operands, params, complex_result, operation.results[0])
    rule = RULES.get(name)
    if rule is None:
        raise TileError(
            f"{operation.place}: {name} of complex numbers has no rule in tile programs; write it with real and imaginary parts"
        )
    return rule(*operands, **params)


_PARTWISE = frozenset(
    (
        "reshape", "transpose", "broadcast_to", "getitem", "copy", "layout", "stop_gradient", "concatenate", "setitem", "index_add",
        "sum", "cumsum", "diagonal", "add", "subtract", "negative", "positive", "take", "put", "add_at", "diff", "diff transposed",
    )
)  # fmt: skip
"""Operations that do the same to both parts. Positions and conditions among the operands are real."""


def _partwise(primitive: Primitive, operands: Sequence[Any], params: Mapping[str, Any], both: bool, result: Variable) -> Any:
    places = {"take": (1,), "put": (1,), "add_at": (1,)}.get(primitive.name, ())
    real = [o if k in places else _pair(o).re for k, o in enumerate(operands)]
    imaginary = [o if k in places else _pair(o).im for k, o in enumerate(operands)]
    if primitive.name in ("concatenate", "setitem", "index_add", "put", "add_at"):
        imaginary = [
            np.zeros(getattr(r, "shape", ()), part_of(result.dtype)) if isinstance(i, float) else i
            for r, i in zip(real, imaginary, strict=True)
        ]
    return Pair(bind(primitive, real, dict(params)), bind(primitive, imaginary, dict(params)))


def _multiply(x: Any, y: Any) -> Pair:
    if not isinstance(x, Pair) or not isinstance(y, Pair):
        x, y = (x, y) if isinstance(x, Pair) else (y, x)
        return Pair(_times(x.re, y), _times(x.im, y))
    return Pair(_times(x.re, y.re) - _times(x.im, y.im), _times(x.re, y.im) + _times(x.im, y.re))


def _times(a: Any, b: Any) -> Any:
    return bind(ew.multiply, (a, b), {})


def _over(a: Any, b: Any) -> Any:
    return bind(ew.divide, (a, b), {})


def _divide(x: Any, y: Any) -> Pair:
    x = _pair(x)
    if not isinstance(y, Pair):
        return Pair(_over(x.re, y), _over(x.im, y))
    size = _times(y.re, y.re) + _times(y.im, y.im)
    product = _multiply(x, Pair(y.re, _minus(y.im)))
    return Pair(_over(product.re, size), _over(product.im, size))


def _minus(x: Any) -> Any:
    return bind(ew.negative, (x,), {})


def _exp(x: Pair) -> Pair:
    size = bind(ew.exp, (x.re,), {})
    return Pair(_times(size, bind(ew.cos, (x.im,), {})), _times(size, bind(ew.sin, (x.im,), {})))


def _log(x: Pair) -> Pair:
    return Pair(bind(ew.log, (_absolute(x),), {}), bind(ew.arctan2, (x.im, x.re), {}))


def _absolute(x: Pair) -> Any:
    return bind(ew.hypot, (x.re, x.im), {})


def _sqrt(x: Pair) -> Pair:
    size = _absolute(x)
    re = bind(ew.sqrt, (_times(0.5, size + x.re),), {})
    im = bind(ew.sqrt, (bind(ew.maximum, (_times(0.5, size - x.re), 0.0), {}),), {})
    return Pair(re, bind(ew.where, (bind(ew.less, (x.im, 0.0), {}), _minus(im), im), {}))


def _power(x: Any, y: Any) -> Pair:
    if isinstance(y, Pair) or hasattr(y, "dtype") or not float(y).is_integer() or not 0 <= y <= 16:
        product = _multiply(_log(_pair(x)), y)
        return _exp(_pair(product))
    power: Any = None
    for _ in range(int(y)):
        power = x if power is None else _multiply(power, x)
    return power if power is not None else Pair(_times(0.0, x.re) + 1.0, _times(0.0, x.im))


def _where(c: Any, x: Any, y: Any) -> Pair:
    x, y = _pair(x), _pair(y)
    return Pair(bind(ew.where, (c, x.re, y.re), {}), bind(ew.where, (c, x.im, y.im), {}))


def _scale(t: Any, p: Any) -> Pair:
    """A product in which a factor t of 0 wins over infinity and NaN."""
    t, p = _pair(t), _pair(p)
    none = _equal(t, 0.0)
    product = _multiply(t, p)
    return Pair(bind(ew.where, (none, 0.0, product.re), {}), bind(ew.where, (none, 0.0, product.im), {}))


def _equal(x: Any, y: Any) -> Any:
    x, y = _pair(x), _pair(y)
    return bind(ew.TABLE["logical_and"], (bind(ew.equal, (x.re, y.re), {}), bind(ew.equal, (x.im, y.im), {})), {})


def _finite(x: Pair) -> Any:
    return bind(ew.TABLE["logical_and"], (bind(ew.isfinite, (x.re,), {}), bind(ew.isfinite, (x.im,), {})), {})


def _nan(x: Pair) -> Any:
    return bind(ew.logical_or, (bind(ew.isnan, (x.re,), {}), bind(ew.isnan, (x.im,), {})), {})


def _bilinear(primitive: Primitive) -> Callable[..., Pair]:
    def product(x: Any, y: Any, **params: Any) -> Pair:
        if not isinstance(y, Pair):
            return Pair(primitive(x.re, y, **params), primitive(x.im, y, **params))
        if not isinstance(x, Pair):
            return Pair(primitive(x, y.re, **params), primitive(x, y.im, **params))
        return Pair(
            primitive(x.re, y.re, **params) - primitive(x.im, y.im, **params),
            primitive(x.re, y.im, **params) + primitive(x.im, y.re, **params),
        )

    return product


def _astype(x: Any, dtype: Any) -> Any:
    part = part_of(dtype)
    if np.dtype(dtype).kind != "c":
        return st.astype(_pair(x).re, dtype=dtype)
    if not isinstance(x, Pair):
        re = st.astype(x, dtype=part) if hasattr(x, "dtype") else np.asarray(x, part)
        return Pair(re, np.zeros(getattr(x, "shape", ()), part))
    return Pair(_in(x.re, part), _in(x.im, part))


def _in(x: Any, part: Any) -> Any:
    x = x if hasattr(x, "dtype") else np.asarray(x, part)
    return x if x.dtype == part else st.astype(x, dtype=part)


def _fft(x: Pair, axes: Sequence[int], inverse: bool) -> Pair:
    """Along one axis after the other, as a product with a matrix of sines and cosines."""
    transformed = x
    for axis in axes:
        n = transformed.re.shape[axis]
        rank, axis = transformed.re.ndim, axis % transformed.re.ndim
        turns = np.outer(np.arange(n), np.arange(n)) % n * (2 * np.pi / n)
        dtype = transformed.re.dtype
        c = (np.cos(turns) / (n if inverse else 1)).astype(dtype)
        s = (np.sin(turns) / (n if inverse else 1) * (1 if inverse else -1)).astype(dtype)
        letters = "abcdefg"[:rank]
        axes_of = {"x_axes": letters, "y_axes": letters[axis] + "z", "out_axes": letters.replace(letters[axis], "z")}
        re = mx.contract(transformed.re, c, **axes_of) - mx.contract(transformed.im, s, **axes_of)
        im = mx.contract(transformed.re, s, **axes_of) + mx.contract(transformed.im, c, **axes_of)
        transformed = Pair(re, im)
    return transformed


RULES: Mapping[str, Callable[..., Any]] = {
    "multiply": _multiply,
    "divide": _divide,
    "reciprocal": lambda x: _divide(1.0, x),
    "square": lambda x: _multiply(x, x),
    "power": _power,
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "absolute": _absolute,
    "conjugate": lambda x: Pair(x.re, _minus(x.im)),
    "real": lambda x: x.re,
    "imag": lambda x: x.im,
    "times_minus_i": lambda x: Pair(x.im, _minus(x.re)),
    "where": _where,
    "scale": _scale,
    "equal": _equal,
    "not_equal": lambda x, y: bind(ew.logical_not, (_equal(x, y),), {}),
    "isfinite": _finite,
    "isnan": _nan,
    "matmul": _bilinear(mx.matmul),
    "contract": _bilinear(mx.contract),
    "astype": _astype,
    "fft": _fft,
    "sin": lambda x: Pair(
        _times(bind(ew.sin, (x.re,), {}), bind(ew.cosh, (x.im,), {})), _times(bind(ew.cos, (x.re,), {}), bind(ew.sinh, (x.im,), {}))
    ),
    "cos": lambda x: Pair(
        _times(bind(ew.cos, (x.re,), {}), bind(ew.cosh, (x.im,), {})), _minus(_times(bind(ew.sin, (x.re,), {}), bind(ew.sinh, (x.im,), {})))
    ),
}
"""Operations that mix the parts."""
