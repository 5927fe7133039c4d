"""NumPy's names, differentiable: a numerical program with `np` bound to this module differentiates as it stands.

Outside of a derivative the functions are NumPy's own. Inside, they give `diffsim.ad.arrays.array.Array`s, which behave as NumPy's arrays
do and can be assigned to. Names follow NumPy 2, and the array API where the two differ; `cummax`, `cummin` and `logsumexp` are further
ones, and `special` has functions of `scipy.special`. A function of NumPy that is not here works on plain values and raises for
differentiated ones.

Departures inside of a derivative: `out=` belongs to universal functions alone; sorting is stable; `empty` holds zeros; of the matrices
given to `linalg.cholesky` and `linalg.eigh` the symmetric part counts; `linalg.pinv`, `linalg.lstsq` and `linalg.qr` are for full rank; a
Python float that a function is differentiated for is float64 (as `numpy.float64` is), so that it promotes float32 arrays.
"""

from __future__ import annotations

import sys

import numpy as _np

# fmt: off
# isort: off
from numpy import (
    bool_, complex64, complex128, dtype, e, errstate, euler_gamma, finfo, float16, float32, float64, floating, generic, iinfo,
    index_exp, inexact, inf, int8, int16, int32, int64, integer, intp, nan, newaxis, number, pi, printoptions, s_, set_printoptions,
    uint8, uint16, uint32, uint64,
)

from diffsim.ad.arrays import namespace as _namespace
from diffsim.numpy import fft, linalg, special
from diffsim.numpy.calling.dispatch import without_rules as _without_rules
from diffsim.numpy.calls import apply_along_axis, vectorize
from diffsim.numpy.decisions import (
    all, allclose, any, argmax, argmin, argpartition, argsort, argwhere, array_equal, array_equiv, count_nonzero, diag_indices,
    diag_indices_from, digitize, flatnonzero, isclose, iscomplexobj, isin, isneginf, isposinf, isrealobj, isscalar, ix_, lexsort,
    nanargmax, nanargmin, ndarray, ndindex, nonzero, ravel_multi_index, result_type, searchsorted, shares_memory, tril_indices,
    tril_indices_from, triu_indices, triu_indices_from, unravel_index,
)
from diffsim.numpy.diagonals import diag, diagflat, diagonal, trace, tril, triu, vander
from diffsim.numpy.elementwise import (
    abs, absolute, acos, acosh, add, angle, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, around, asin, asinh, atan,
    atan2, atanh, bitwise_and, bitwise_invert, bitwise_left_shift, bitwise_not, bitwise_or, bitwise_right_shift, bitwise_xor, cbrt,
    ceil, clip, conj, conjugate, copysign, cos, cosh, deg2rad, degrees, divide, divmod, equal, exp, exp2, expm1, fabs, fix, float_power,
    floor, floor_divide, fmax, fmin, fmod, frexp, gcd, greater, greater_equal, heaviside, hypot, i0, imag, invert, iscomplex, isfinite,
    isinf, isnan, isreal, lcm, ldexp, left_shift, less, less_equal, log, log1p, log2, log10, logaddexp, logaddexp2, logical_and,
    logical_not, logical_or, logical_xor, maximum, minimum, mod, modf, multiply, nan_to_num, negative, not_equal, positive, pow, power,
    rad2deg, radians, real, reciprocal, remainder, right_shift, rint, round, sign, signbit, sin, sinc, sinh, sqrt, square, subtract,
    tan, tanh, true_divide, trunc, where,
)
from diffsim.numpy.indexing import (
    choose, compress, copyto, extract, fill_diagonal, ndenumerate, piecewise, place, put, put_along_axis, putmask, select, take,
    take_along_axis,
)
from diffsim.numpy.padding import pad
from diffsim.numpy.products import cross, dot, einsum, inner, kron, matmul, outer, tensordot, vdot, vecdot
from diffsim.numpy.ranges import geomspace, linspace, logspace, meshgrid
from diffsim.numpy.reductions import (
    amax, amin, average, logsumexp, max, mean, min, nanmax, nanmean, nanmin, nanprod, nanstd, nansum, nanvar, prod, ptp, std, sum, var,
)
from diffsim.numpy.running import (
    cummax, cummin, cumprod, cumsum, cumulative_prod, cumulative_sum, diff, ediff1d, gradient, nancumprod, nancumsum, trapezoid, unwrap,
)
from diffsim.numpy.sampling import bincount, convolve, correlate, interp, polyval
from diffsim.numpy.shapes.creation import (
    arange, array, asanyarray, asarray, ascontiguousarray, asfortranarray, bartlett, blackman, copy, empty, empty_like, eye,
    fromfunction, full, full_like, hamming, hanning, identity, indices, ones, ones_like, tri, zeros, zeros_like,
)
from diffsim.numpy.shapes.joining import (
    append, array_split, block, column_stack, concat, concatenate, delete, dsplit, dstack, flip, fliplr, flipud, hsplit, hstack, insert,
    repeat, roll, rot90, split, stack, tile, unstack, vsplit, vstack,
)
from diffsim.numpy.shapes.shaping import (
    astype, atleast_1d, atleast_2d, atleast_3d, broadcast_arrays, broadcast_shapes, broadcast_to, expand_dims, matrix_transpose,
    moveaxis, ndim, permute_dims, ravel, reshape, rollaxis, shape, size, squeeze, swapaxes, transpose,
)
from diffsim.numpy.sorting import median, partition, percentile, quantile, sort, unique
from diffsim.numpy.statistics import corrcoef, cov, histogram
from diffsim.numpy.ufunc import ufunc
# isort: on
# fmt: on

bool = bool_  # the array API's name


def __dir__() -> list[str]:
    return __all__


__array_api_version__ = "2023.12"
__getattr__ = _without_rules(_np)

_namespace.set_namespace(sys.modules[__name__])

# fmt: off
__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "all", "allclose", "amax", "amin", "angle", "any", "append", "apply_along_axis",
    "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "argpartition", "argsort",
    "argwhere", "around", "array", "array_equal", "array_equiv", "array_split", "asanyarray", "asarray", "ascontiguousarray",
    "asfortranarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "atleast_1d", "atleast_2d", "atleast_3d", "average",
    "bartlett", "bincount", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "blackman", "block", "bool", "bool_", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "cbrt", "ceil",
    "choose", "clip", "column_stack", "complex64", "complex128", "compress", "concat", "concatenate", "conj", "conjugate", "convolve",
    "copy", "copysign", "copyto", "corrcoef", "correlate", "cos", "cosh", "count_nonzero", "cov", "cross", "cummax", "cummin",
    "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "deg2rad", "degrees", "delete", "diag", "diag_indices",
    "diag_indices_from", "diagflat", "diagonal", "diff", "digitize", "divide", "divmod", "dot", "dsplit", "dstack", "dtype", "e",
    "ediff1d", "einsum", "empty", "empty_like", "equal", "errstate", "euler_gamma", "exp", "exp2", "expand_dims", "expm1", "extract",
    "eye", "fabs", "fft", "fill_diagonal", "finfo", "fix", "flatnonzero", "flip", "fliplr", "flipud", "float16", "float32", "float64",
    "float_power", "floating", "floor", "floor_divide", "fmax", "fmin", "fmod", "frexp", "fromfunction", "full", "full_like", "gcd",
    "generic", "geomspace", "gradient", "greater", "greater_equal", "hamming", "hanning", "heaviside", "histogram", "hsplit", "hstack",
    "hypot", "i0", "identity", "iinfo", "imag", "index_exp", "indices", "inexact", "inf", "inner", "insert", "int8", "int16", "int32",
    "int64", "integer", "interp", "intp", "invert", "isclose", "iscomplex", "iscomplexobj", "isfinite", "isin", "isinf", "isnan",
    "isneginf", "isposinf", "isreal", "isrealobj", "isscalar", "ix_", "kron", "lcm", "ldexp", "left_shift", "less", "less_equal",
    "lexsort", "linalg", "linspace", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2", "logical_and", "logical_not",
    "logical_or", "logical_xor", "logspace", "logsumexp", "matmul", "matrix_transpose", "max", "maximum", "mean", "median", "meshgrid",
    "min", "minimum", "mod", "modf", "moveaxis", "multiply", "nan", "nan_to_num", "nanargmax", "nanargmin", "nancumprod", "nancumsum",
    "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "ndarray", "ndenumerate", "ndim", "ndindex", "negative",
    "newaxis", "nonzero", "not_equal", "number", "ones", "ones_like", "outer", "pad", "partition", "percentile", "permute_dims", "pi",
    "piecewise", "place", "polyval", "positive", "pow", "power", "printoptions", "prod", "ptp", "put", "put_along_axis", "putmask",
    "quantile", "rad2deg", "radians", "ravel", "ravel_multi_index", "real", "reciprocal", "remainder", "repeat", "reshape",
    "result_type", "right_shift", "rint", "roll", "rollaxis", "rot90", "round", "s_", "searchsorted", "select", "set_printoptions",
    "shape", "shares_memory", "sign", "signbit", "sin", "sinc", "sinh", "size", "sort", "special", "split", "sqrt", "square", "squeeze",
    "stack", "std", "subtract", "sum", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "trace", "transpose",
    "trapezoid", "tri", "tril", "tril_indices", "tril_indices_from", "triu", "triu_indices", "triu_indices_from", "true_divide",
    "trunc", "ufunc", "uint8", "uint16", "uint32", "uint64", "unique", "unravel_index", "unstack", "unwrap", "vander", "var", "vdot",
    "vecdot", "vectorize", "vsplit", "vstack", "where", "zeros", "zeros_like",
]  # fmt: skip
