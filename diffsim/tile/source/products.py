"""Programs that only multiply matrices.

Other programs have tiles in the lanes of a register, so each argument is transposed on its way in. A product of small matrices takes less
time than that. Its kernel has the entries of a row in the lanes: a row of the result is a sum of rows of the right factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from diffsim import engine
from diffsim.base import buffers
from diffsim.expr.source import Text
from diffsim.tile.source.values import LARGEST, QUAD, in_quads, kind_of
from diffsim.tile.trace.program import Operation, Program, Variable

INNER = 32
"""The longest sum: the rows of the right factor, written out."""


@dataclass(frozen=True)
class Factor:
    """An argument of the program, or its transpose."""

    argument: int
    turned: bool = False


@dataclass(frozen=True)
class Product:
    """A result: (rows, inner) times (inner, columns)."""

    left: Factor
    right: Factor
    rows: int
    inner: int
    columns: int

    @property
    def turned(self) -> Product:
        """The transpose."""
        left, right = (replace(f, turned=not f.turned) for f in (self.left, self.right))
        return Product(right, left, self.columns, self.inner, self.rows)


def products_of(program: Program) -> list[Product] | None:
    """The products that are the results of a program; None if it does anything else."""
    known: dict[Any, Factor | Product] = {a: Factor(k) for k, a in enumerate(program.arguments)}
    kinds = {v.dtype for v in (*program.arguments, *program.results)}
    if len(kinds) != 1 or kinds.pop() not in (np.float32, np.float64) or any(a.ndim not in (1, 2) for a in program.arguments):
        return None
    for operation in program.operations:
        product = _made(operation, [known.get(o) if isinstance(o, Variable) else None for o in operation.operands])
        if product is None:
            return None
        known[operation.results[0]] = product
    products = [known.get(r) if isinstance(r, Variable) else None for r in program.results]
    quad = QUAD[kind_of(program.results[0].dtype)]
    fit = all(isinstance(p, Product) and 0 < p.inner <= INNER and p.columns and p.columns % quad == 0 and p.rows for p in products)
    return products if products and fit else None  # type: ignore[return-value]


def _made(operation: Operation, operands: Sequence[Factor | Product | None]) -> Factor | Product | None:
    """The result of an operation on matrices, if it is one of them or a product of two arguments."""
    name, params = operation.primitive.name, operation.params
    first = operands[0] if operands else None
    if first is None:
        return None
    if name == "layout":
        return first
    if name == "reshape":
        return _as_row(first, operation.operands[0].shape, operation.results[0].shape)
    if name == "transpose":
        if tuple(params["axes"]) == (0, 1):
            return first
        return first.turned if isinstance(first, Product) else replace(first, turned=not first.turned)
    if name not in ("matmul", "contract") or not all(isinstance(f, Factor) for f in operands):
        return None
    axes = ("ik", "kj", "ij") if name == "matmul" else tuple(params[key] for key in ("x_axes", "y_axes", "out_axes"))
    return _product(operation, list(operands), axes)  # type: ignore[arg-type]


def _as_row(value: Factor | Product, before: tuple[int, ...], after: tuple[int, ...]) -> Factor | Product | None:
    """A vector as a matrix of one row or column, or back."""
    long = [[n for n in shape if n != 1] for shape in (before, after)]
    if long[0] != long[1] or len(long[0]) > 1 or len(after) > 2:
        return None
    column = len(after) == 2 and after[1] == 1
    if isinstance(value, Factor):
        return replace(value, turned=column)
    return value if (value.columns == 1) == column else value.turned


def _product(operation: Operation, factors: list[Factor], axes: tuple[str, ...]) -> Product | None:
    x, y, out = axes
    shared = set(x) & set(y) - set(out)
    if len(x) != 2 or len(y) != 2 or len(out) != 2 or len(shared) != 1 or len(set(x + y)) != 3:
        return None
    (k,) = shared
    lengths = [dict(zip(a, o.shape, strict=True)) for a, o in zip((x, y), operation.operands, strict=True)]
    if lengths[0][k] != lengths[1][k]:  # one of them is repeated
        return None
    left, right = (replace(f, turned=f.turned != (a.index(k) == first)) for f, a, first in zip(factors, (x, y), (0, 1), strict=True))
    rows, columns = operation.results[0].shape
    if out[0] in x:
        return Product(left, right, rows, lengths[0][k], columns)
    return Product(left, right, columns, lengths[0][k], rows).turned


class ProductKernel:
    """A compiled program of products. It is called as `diffsim.tile.source.kernel.Kernel`.

    Args:
        program: whose results are `products`.
        products: of its arguments.
        mapped: for each argument whether there is one for each tile; others are shared by all tiles.
    """

    def __init__(self, program: Program, products: Sequence[Product], mapped: Sequence[bool]) -> None:
        backend = engine.backend()
        self.program, self.products, self.mapped, self.workers = program, tuple(products), tuple(mapped), backend.threads
        self.dtype = program.results[0].dtype
        self.quad = QUAD[kind_of(self.dtype)]
        self.lanes = max(backend.lanes(self.dtype), self.quad)
        self.source = self._source()

    def _source(self) -> str:
        text = Text()
        arrays = [f"x{k}: Entries, q{k}: Quads" for k in range(len(self.program.arguments))]
        arrays += [f"y{k}: Quads" for k in range(len(self.products))]
        text("@ti.kernel")
        with text.block(f"def products(control: Control, {', '.join(arrays)})"):
            text("ti.loop_config(serialize=True)" if self.workers == 1 else "ti.loop_config(block_dim=1)")
            with (
                text.block(f"for w in range({self.workers})"),
                text.block("for t in range(control[1] * w, ti.min(control[1] * (w + 1), control[0]))"),
            ):
                for number, product in enumerate(self.products):
                    self._write(text, number, product)
        return str(text)

    def _width(self, columns: int) -> int:
        """How many columns fit a register, as a divisor of all."""
        return max(n for n in range(self.quad, self.lanes + 1, self.quad) if columns % n == 0)

    def _write(self, text: Text, number: int, product: Product) -> None:
        """A product, some columns at a time."""
        rows, inner, columns = product.rows, product.inner, product.columns
        width = self._width(columns)
        row, column = (1, rows) if product.left.turned else (inner, 1)
        x = f"x{product.left.argument}[{self._first(product.left)} + i * {row}"
        with text.block(f"for part in range({columns // width})"):
            for k in range(inner):
                self._read_row(text, product, k, width)
            with text.block(f"for i in range({rows})"):
                text(f"total = Row{width}(Entry(0.0))")
                for k in range(inner):
                    text(f"total = total + Row{width}({x} + {k * column}]) * b{k}")
                for p in range(width // self.quad):
                    part = ", ".join(f"total[{p * self.quad + e}]" for e in range(self.quad))
                    place = f"(t * {rows} + i) * {columns // self.quad} + part * {width // self.quad} + {p}"
                    text(f"y{number}[{place}] = ti.Vector([{part}])")

    def _read_row(self, text: Text, product: Product, k: int, width: int) -> None:
        """Row k of the right factor."""
        factor, inner, columns, quad = product.right, product.inner, product.columns, self.quad
        if factor.turned:
            first = f"{self._first(factor)} + part * {width * inner} + {k}"
            entries = [f"x{factor.argument}[{first} + {j * inner}]" for j in range(width)]
        else:
            for p in range(width // quad):
                place = f"{self._first(factor, quad)} + part * {width // quad} + {k * columns // quad + p}"
                text(f"p{p} = q{factor.argument}[{place}]")
            entries = [f"p{p}[{e}]" for p in range(width // quad) for e in range(quad)]
        text(f"b{k} = ti.Vector([{', '.join(entries)}])")

    def _first(self, factor: Factor, each: int = 1) -> str:
        """The first entry of an argument, or the first block of `each` entries."""
        return f"t * {self.program.arguments[factor.argument].size // each}" if self.mapped[factor.argument] else "0"

    def _kernel(self) -> Any:
        widths = sorted({self._width(product.columns) for product in self.products})

        def names() -> dict[str, Any]:
            ti = engine.language()
            entry = ti.f32 if self.dtype == np.float32 else ti.f64
            array = ti.types.ndarray
            types = {"Control": array(dtype=ti.i32, ndim=1), "Entry": entry, "Entries": array(dtype=entry, ndim=1)}
            types["Quads"] = array(dtype=ti.types.vector(self.quad, entry), ndim=1)
            return types | {f"Row{n}": ti.types.vector(n, entry) for n in widths}

        return engine.shared_kernel(self.source, "products", ("products", self.dtype.name, self.lanes), names)

    def __call__(self, arrays: Sequence[np.ndarray], tiles: int, places: Sequence[Any] = ()) -> list[np.ndarray]:
        """See `diffsim.tile.source.kernel.Kernel.__call__`; no argument is a block."""
        arguments = self.program.arguments
        inputs = [np.ascontiguousarray(a, self.dtype).reshape(-1) for a in arrays]
        outputs = [buffers.empty((tiles, *r.shape), self.dtype) for r in self.program.results]
        most = LARGEST // max(v.size for v in (*arguments, *self.program.results))
        for first in range(0, tiles, most):
            last = min(first + most, tiles)
            parts = [g[first * a.size : last * a.size] if m else g for g, a, m in zip(inputs, arguments, self.mapped, strict=True)]
            results = [f[first:last].reshape(-1, self.quad) for f in outputs]
            control = np.array([last - first, -(-(last - first) // self.workers)], np.int32)
            views = [view for part in parts for view in self._views(part)]
            with engine.lock:
                self._kernel()(control, *views, *results)
        return outputs

    def _views(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """An argument as entries and as blocks of 16 bytes, which are left out if it has no whole number of them."""
        if flat.size % self.quad:
            return flat, np.zeros((1, self.quad), self.dtype)
        blocks = in_quads(flat, self.quad)
        return blocks.reshape(-1), blocks
