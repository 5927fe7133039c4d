"""The kernel of a tile program: its source, its arrays, and its launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim import engine
from diffsim.ad.ops import elementwise as ew
from diffsim.base import buffers
from diffsim.errors import TileError
from diffsim.expr.source import Text
from diffsim.tile.source import entries, kernel_loops, lines, matrices, moves  # noqa: F401 -- these enter their rules in the table
from diffsim.tile.source.products import ProductKernel, products_of
from diffsim.tile.source.rules import write
from diffsim.tile.source.values import LARGEST, QUAD, TYPES, Affine, Value, View, in_quads, row_strides, stored
from diffsim.tile.source.writer import Writer
from diffsim.tile.trace.program import Program, Variable

SCRATCH_BYTES = 1 << 23
"""The most scratch memory of a tile in bytes."""
CHUNKS = 64
"""Parts of the tiles whose sums are kept apart: results do not depend on the number of threads."""
GPU_THREADS = 16_384
"""Tiles of a launch on a GPU: one for each thread."""
GPU_SCRATCH = 1 << 28
"""The most bytes of scratch memory of all tiles of a launch on a GPU."""
_ARRAYS = {"f": np.float32, "d": np.float64, "i": np.int32, "n": np.int64, "b": np.uint8}


@dataclass(frozen=True)
class Form:
    """The signature that a kernel is compiled for.

    Attributes:
        mapped: for each argument whether there is one for each tile; others are shared by all tiles.
        summed: for each result whether it is added up over tiles.
        wholes: for each argument the shape of the array of which it is a block, at a place of each tile; None for others.
    """

    mapped: tuple[bool, ...]
    summed: tuple[bool, ...]
    wholes: tuple[tuple[int, ...] | None, ...] = ()

    def whole(self, number: int) -> tuple[int, ...] | None:
        """The shape of the array of which an argument is a block."""
        return self.wholes[number] if self.wholes else None


class Kernel:
    """A compiled tile program. Calls from several threads take turns, as there is one scratch memory."""

    def __init__(self, program: Program, form: Form) -> None:
        backend = engine.backend()
        self.program, self.form = program, form
        self.workers = backend.threads
        floats = [v.dtype for v in _variables(program) if v.dtype.kind == "f"]
        self.lanes = backend.lanes(max(floats, key=lambda d: d.itemsize, default=np.dtype(np.float64))) if backend.on_host else 1
        self.narrow = np.dtype(np.int64) not in backend.numbers
        self._types = {**_ARRAYS, **({"n": np.int32, "b": np.int32} if self.narrow else {})}
        if self.narrow and any(v.dtype == np.float64 for v in _variables(program)):
            raise TileError(
                "a tile program with float64 on Vulkan, which has no double precision; convert its arguments with astype(float32)"
            )
        self._compile()

    def _compile(self) -> None:
        text = Text()
        text.depth = 3
        w = Writer(text, self.lanes, SCRATCH_BYTES)
        program, form = self.program, self.form
        names = [f"x{k}" for k in range(len(program.arguments))]
        self.inputs = [(name, w.kind(a.dtype), a, m) for name, a, m in zip(names, program.arguments, form.mapped, strict=True)]
        values: list[Value] = []
        direct = _read_once(program)
        self.quads: set[str] = set()
        for number, (name, kind, argument, mapped) in enumerate(self.inputs):
            shape = form.whole(number)
            if shape is not None:
                values.append(self._load_block(w, name, kind, argument.shape, shape))
                continue
            view = View(name, kind, argument.shape, row_strides(argument.shape))
            if not mapped:
                view = View(f"u{name}", kind, argument.shape, row_strides(argument.shape))
            quads = mapped and self._in_quads(kind, argument.size)
            if quads or argument not in direct or not mapped:
                quad_view = w.allocate(view.shape, kind)
                if quads:
                    self.quads.add(name)
                    self._load_quads(w, name, quad_view)
                elif view.size:
                    w.copied(view, quad_view)
                view = quad_view
            values.append(view)
        results = w.run(program, values, write)
        w.close_all()
        self.outputs = []
        for k, (value, result, summed) in enumerate(zip(results, program.results, form.summed, strict=True)):
            kind = value.kind
            self.outputs.append((f"y{k}", kind, result.shape, summed))
            self._store(w, f"y{k}", value, result.shape, summed)
        self._sizes = {kind: max(count, 1) for kind, count in w.scratch.items()}
        self.checks = w.checks
        self.constants = {kind: np.concatenate(parts) for kind, parts in w.constants.items()}
        body = str(text)
        self.source = self._assembled(body, w)

    def _load_block(self, w: Writer, name: str, kind: str, block: tuple[int, ...], shape: tuple[int, ...]) -> View:
        """The block of a whole array at the place of each tile, one tile after the other; 0 beyond the edges."""
        copy = w.allocate(block, kind)
        kept, text, lanes = stored(kind), w.text, self.lanes
        index = [Affine(0, ((f"b{axis}", 1),)) for axis in range(len(block))]
        with ExitStack() as stack:
            if lanes > 1:
                stack.enter_context(text.block(f"for lane in range({lanes})"))
            tile = "t0 + lane" if lanes > 1 else "t0"
            for axis, (n, length) in enumerate(zip(block, shape, strict=True)):
                text(f"first{axis} = {name}_places[({tile}) * {len(block)} + {axis}]")
                stack.enter_context(text.block(f"for b{axis} in range({n})"))
                text(f"at{axis} = first{axis} + b{axis}")
                text(f"inside{axis} = ti.select((at{axis} >= 0) & (at{axis} < {length}), 1, 0)")
            inside = " + ".join(f"inside{axis}" for axis in range(len(block)))
            position = " + ".join(f"at{axis} * {stride}" for axis, stride in enumerate(row_strides(shape)))
            text(f"entry = ti.cast(0, {TYPES[kept]})")
            with text.block(f"if {inside} == {len(block)}"):
                source = f"{name}[{position}]"
                text(f"entry = ti.cast({source}, {TYPES[kept]})")
            place = f"s0_{kept} + {copy.at(index)}"
            text(f"p_{kept}[({place}) * {lanes} + lane] = entry" if lanes > 1 else f"s_{kept}[{place}] = entry")
        return copy

    # Entries of one tile lie side by side in an argument, and those of neighbouring tiles in a register. So blocks of as many entries as 16
    # bytes hold, for all tiles of a register, are transposed: twice as many shuffles as registers.

    def _in_quads(self, kind: str, size: int) -> bool:
        """True if an argument or result is read and written 16 bytes at a time."""
        return kind in QUAD and self.lanes % QUAD[kind] == 0 and self.lanes > 1 and size % QUAD[kind] == 0 and size > 0

    def _load_quads(self, w: Writer, name: str, target: View) -> None:
        n, quad = target.size, QUAD[target.kind]
        with w.loops((n // quad,), []) as (index,):
            parts = [w.variable(f"{name}[{name}_at + {lane * (n // quad)} + {index}]") for lane in range(self.lanes)]
            rows = [
                w.variable(w.gathered([f"{parts[lane - lane % quad + p]}[{lane % quad}]" for lane in range(self.lanes)]))
                for p in range(quad)
            ]
            for p, row in enumerate(_transposed(w, rows)):
                w.text(f"s_{target.kind}[s0_{target.kind} + {target.offset + index * quad + p}] = {row}")

    def _store_quads(self, w: Writer, name: str, source: View) -> None:
        n, quad = source.size, QUAD[source.kind]
        with w.loops((n // quad,), []) as (index,):
            rows = [w.variable(f"s_{source.kind}[s0_{source.kind} + {source.offset + index * quad + p}]") for p in range(quad)]
            for p, row in enumerate(_transposed(w, rows)):
                for lane in range(0, self.lanes, quad):
                    part = w.gathered([f"{row}[{lane + q}]" for q in range(quad)])
                    w.text(f"{name}[{name}_at + {(lane + p) * (n // quad)} + {index}] = {part}")

    def _store(self, w: Writer, name: str, value: Value, shape: tuple[int, ...], summed: bool) -> None:
        text, size = w.text, int(np.prod(shape, dtype=np.int64))
        if not size:
            return
        if not summed and self._in_quads(value.kind, size) and isinstance(value, View):
            self.quads.add(name)
            self._store_quads(w, name, w.in_memory(value))
            return
        flat = row_strides(shape)
        strides = [flat, *([value.strides] if isinstance(value, View) else [])]
        with w.loops(shape, strides) as index:
            place = View("", "f", shape, flat).at(index)
            source = w.read(value, index)
            if summed:
                source = w.variable(source)
                kept = stored(value.kind)
                own = f"ti.select(own_{kept} == {w.number(1, kept)}, {source}, {w.number(0, kept)})"  # 0 * inf is no number
                w.text(f"{name}[chunk * {size} + {place}] = {name}[chunk * {size} + {place}] + {own}")
                return
            source = w.variable(f"ti.select({source}, V_i(F_i(1)), V_i(F_i(0)))" if value.kind == "b" else source)
            for lane in range(self.lanes):
                one = source if self.lanes == 1 else f"{source}[{lane}]"
                one = f"ti.cast({one}, ti.u8)" if value.kind == "b" else one
                text(f"{name}[({name}_at + {lane} * {size}) + {place}] = {one}")

    def _assembled(self, body: str, w: Writer) -> str:
        """The whole source."""
        lanes, head, text = self.lanes, Text(), Text()
        arguments = ["control: A_i", "errors: A_i"]
        letter = dict.fromkeys(self.quads, "Q")
        for number, (name, kind, _, mapped) in enumerate(self.inputs):
            block = self.form.whole(number) is not None
            arguments.append(f"{'' if mapped or block else 'u'}{name}: {letter.get(name, 'A')}_{kind}")
            arguments += [f"{name}_places: A_i"] if block else []
        arguments += [f"{name}: {'W' if summed else letter.get(name, 'A')}_{kind}" for name, kind, _, summed in self.outputs]
        for kind in self._sizes:
            arguments += [f"s_{kind}: W_{kind}", *([f"p_{kind}: A_{kind}"] if lanes > 1 else [])]
        arguments += [f"c_{kind}: A_{kind}" for kind in self.constants]
        summed = any(self.form.summed)
        head("@ti.kernel")
        head(f"def tiles({', '.join(arguments)}):")
        head.depth = 1
        if self.workers is not None:  # also for one: LLVM does not come to the end of some loops that Taichi serialises
            head("ti.loop_config(block_dim=1)")
        head(f"for w in range({self._threads}):")
        head.depth = 2
        for kind, size in self._sizes.items():
            head(f"s0_{kind} = w * {size}")
        # a worker has neighbouring chunks of neighbouring groups of tiles
        head("for g in range(control[1] * w, ti.min(control[1] * (w + 1), control[2])):")
        head.depth = 3
        head(f"t0 = ti.min(g * {lanes}, control[0] - {lanes})")
        if summed:
            head("chunk = g // control[3]")
            for kind in sorted({stored(kind) for _, kind, _, s in self.outputs if s}):
                own = [
                    f"ti.cast(ti.select((t0 + {lane} >= g * {lanes}) & (t0 + {lane} < control[4]), 1, 0), {TYPES[kind]})"
                    for lane in range(lanes)
                ]
                head(f"own_{kind} = {w.gathered(own)}")
        for number, (name, kind, argument, mapped) in enumerate(self.inputs):
            if mapped and self.form.whole(number) is None:
                size = argument.size // QUAD[kind] if name in self.quads else max(argument.size, 1)
                head(f"{name}_size = {size}")
                head(f"{name}_at = t0 * {size}")
        for name, kind, shape, s in self.outputs:
            if not s:
                head(f"{name}_at = t0 * {int(np.prod(shape, dtype=np.int64)) // (QUAD[kind] if name in self.quads else 1)}")
        text.lines = head.lines
        whole = str(text) + body
        source = entries.library(body, lanes) + "\n" + whole
        return source.replace("ti.i64", "ti.i32").replace("ti.u8", "ti.i32") if self.narrow else source

    def _kernel(self) -> Any:
        lanes = self.lanes

        def names() -> dict[str, Any]:
            ti = engine.language()
            types = {"f": ti.f32, "d": ti.f64, "i": ti.i32, "n": ti.i64, "b": ti.u8}
            types |= {"n": ti.i32, "b": ti.i32} if self.narrow else {}
            named: dict[str, Any] = {}
            for kind, kept in types.items():
                vector = ti.types.vector(lanes, kept) if lanes > 1 else kept
                named[f"F_{kind}"], named[f"V_{kind}"] = kept, vector
                named[f"A_{kind}"] = ti.types.ndarray(dtype=kept, ndim=1)
                named[f"W_{kind}"] = ti.types.ndarray(dtype=vector, ndim=1)
                if kind in QUAD:
                    named[f"Q_{kind}"] = ti.types.ndarray(dtype=ti.types.vector(QUAD[kind], kept), ndim=1)
            return named

        return engine.shared_kernel(self.source, "tiles", ("tiles", lanes, self.narrow), names)

    def __call__(self, arrays: Sequence[np.ndarray], tiles: int, places: Sequence[Any] = ()) -> list[np.ndarray]:
        """The results for arrays of the arguments, one after the other for each tile.

        Args:
            arrays: of the arguments; whole arrays for those that are blocks.
            tiles: how many there are.
            places: for each argument that is a block the index of its first entry, of shape (tiles, axes); None for others.
        """
        padded: list[Any] = [
            np.ascontiguousarray(a, _NUMPY[kind]).reshape(-1) for (_, kind, _, _), a in zip(self.inputs, arrays, strict=True)
        ]
        sizes = [math.prod(shape) for _, _, shape, _ in self.outputs]
        results = [
            np.zeros(size, _NUMPY[kind]) if summed else buffers.empty((tiles * size,), np.dtype(_NUMPY[kind]))
            for size, (_, kind, _, summed) in zip(sizes, self.outputs, strict=True)
        ]
        for first in range(0, tiles, self._most):
            last = min(first + self._most, tiles)
            inputs = [
                g[first * a.size : last * a.size] if m and self.form.whole(k) is None else g
                for k, (g, (_, _, a, m)) in enumerate(zip(padded, self.inputs, strict=True))
            ]
            here = [None if p is None else p[first:last] for p in places]
            whole = [None if s else f[first * n : last * n] for f, n, (_, _, _, s) in zip(results, sizes, self.outputs, strict=True)]
            for result, part, (_, _, _, summed) in zip(
                results, self._batch(inputs, here, whole, first, last - first), self.outputs, strict=True
            ):
                if summed:
                    result += part
        return [f.reshape(shape if s else (tiles, *shape)) for f, (_, _, shape, s) in zip(results, self.outputs, strict=True)]

    @property
    def _most(self) -> int:
        """Tiles of a launch."""
        largest = max([a.size for _, _, a, _ in self.inputs] + [math.prod(shape) for _, _, shape, _ in self.outputs], default=1)
        most = LARGEST // max(largest, 1)
        return most if self.workers is not None else min(most, self._threads)

    @property
    def _threads(self) -> int:
        """Workers of a CPU, or tiles of a launch on a GPU: as many as have scratch memory."""
        if self.workers is not None:
            return self.workers
        return max(min(GPU_THREADS, GPU_SCRATCH // max(8 * sum(self._sizes.values()), 1)), 1)

    def _batch(self, arrays: Sequence[np.ndarray], places: Sequence[Any], whole: Sequence[Any], first: int, tiles: int) -> list[Any]:
        """Launch the kernel for some tiles. Results go to the arrays `whole`; sums over tiles are returned."""
        lanes, count = self.lanes, max(tiles, self.lanes)
        inputs: list[Any] = []
        for number, ((name, kind, argument, mapped), array) in enumerate(zip(self.inputs, arrays, strict=True)):
            block = self.form.whole(number) is not None
            inputs.append(self._argument(name, kind, argument.size if mapped and not block else 0, array, count - tiles))
            if block:
                inputs.append(
                    np.concatenate([places[number], np.repeat(places[number][-1:], count - tiles, 0)]).astype(np.int32).reshape(-1)
                )
        groups = -(-tiles // lanes)
        per_chunk = max(-(-groups // CHUNKS), 1) if self.workers is not None else 1
        chunks = -(-groups // per_chunk)
        threads = self._threads
        control = np.array([count, -(-chunks // threads) * per_chunk, groups, per_chunk, tiles], np.int32)
        results = []
        for (name, kind, shape, summed), target in zip(self.outputs, whole, strict=True):
            size = max(math.prod(shape), 1)
            if summed:
                memory = engine.aligned((chunks * size * lanes,), self._types[kind])
                results.append(memory.reshape(-1, lanes) if lanes > 1 else memory)
            else:
                direct = count == tiles and target.size and self._types[kind] == target.dtype and not target.ctypes.data % 16
                memory = target if direct else engine.aligned((count * size,), self._types[kind])
                results.append(memory.reshape(-1, QUAD[kind]) if name in self.quads else memory)
        errors = np.zeros(max(len(self.checks), 1), np.int32)
        with engine.lock:
            scratch: list[Any] = []
            for kind, size in self._sizes.items():
                scratch += _scratch(kind, self._types[kind], size * threads, lanes)
            constants = [c.astype(self._types[kind], copy=False) for kind, c in self.constants.items()]
            self._kernel()(control, errors, *inputs, *results, *scratch, *constants)
        self._refuse(errors, first)
        sums: list[Any] = []
        for (_, kind, shape, summed), result, target in zip(self.outputs, results, whole, strict=True):
            size = math.prod(shape)
            if summed:
                sums.append(result.reshape(chunks, max(size, 1), lanes).sum(axis=(0, 2))[:size].astype(_NUMPY[kind]))
            else:
                sums.append(None)
                if target.size and not np.may_share_memory(result, target):
                    target[:] = result.reshape(-1)[: target.size]
        return sums

    def _argument(self, name: str, kind: str, size: int, flat: Any, missing: int) -> Any:
        """An argument as the kernel takes it; the last tile is repeated if there are fewer than lanes. `size`: its entries of a tile."""
        flat = flat.astype(self._types[kind], copy=False)
        if size and missing:
            flat = np.concatenate([flat, np.tile(flat[-size:], missing)])
        flat = flat if flat.size else np.zeros(1, flat.dtype)
        return in_quads(flat, QUAD[kind]) if name in self.quads else flat

    def _refuse(self, errors: np.ndarray, first: int) -> None:
        for tile, (error, message) in zip(errors.tolist(), self.checks, strict=False):
            if tile:
                raise error(f"{message} (tile {first + tile - 1})")


def _transposed(w: Writer, rows: list[str]) -> list[str]:
    """The blocks of 16 bytes of registers, transposed."""

    def mixed(a: str, b: str, pick: Callable[[int], tuple[int, int]]) -> str:
        places = [pick(lane) for lane in range(w.lanes)]
        return w.variable(w.gathered([f"{(a, b)[which]}[{lane}]" for which, lane in places]))

    if len(rows) == 2:
        a, b = rows
        return [mixed(a, b, lambda lane, p=p: (lane % 2, lane - lane % 2 + p)) for p in (0, 1)]  # type: ignore[misc]
    low = [mixed(rows[p], rows[p + 1], lambda lane: (lane % 2, lane - lane % 4 + lane % 4 // 2)) for p in (0, 2)]
    high = [mixed(rows[p], rows[p + 1], lambda lane: (lane % 2, lane - lane % 4 + 2 + lane % 4 // 2)) for p in (0, 2)]
    out = []
    for a, b in (low, high):
        for half in (0, 2):
            out.append(mixed(a, b, lambda lane, half=half: (lane % 4 // 2, lane - lane % 4 + half + lane % 2)))  # type: ignore[misc]
    return out


_NUMPY = {"f": np.float32, "d": np.float64, "i": np.int32, "n": np.int64, "b": np.bool_}
_memory: dict[Any, Any] = {}


def _scratch(kind: str, dtype: Any, size: int, lanes: int) -> list[Any]:
    """Scratch memory as registers and as numbers, kept from call to call. The caller holds the engine's lock while it is used."""
    memory = _memory.get(kind)
    if not engine.backend().on_host:
        if memory is None or memory.shape[0] < size:
            memory = _memory[kind] = engine.backend().memory.allocate((size,), dtype, flat=True)
        return [memory.data]
    if memory is None or memory.size < size * lanes:
        memory = _memory[kind] = engine.aligned((size * lanes,), dtype)
    part = memory[: size * lanes]
    return [part.reshape(-1, lanes), part] if lanes > 1 else [part]


def _variables(program: Program) -> list[Variable]:
    return [*program.arguments, *(r for o in program.operations for r in o.results)]


def _read_once(program: Program) -> set[Variable]:
    """Arguments that one operation entry by entry reads, once."""
    uses: dict[Variable, int] = {}
    simple: set[Variable] = set()
    for operation in program.operations:
        for operand in operation.operands:
            if isinstance(operand, Variable):
                uses[operand] = uses.get(operand, 0) + 1
                if operation.primitive.name in ew.TABLE and operand.shape == operation.results[0].shape:
                    simple.add(operand)
    for result in program.results:
        if isinstance(result, Variable):
            uses[result] = uses.get(result, 0) + 2
    return {a for a in program.arguments if uses.get(a) == 1 and a in simple}


_kernels: dict[tuple[Hashable, Form], Kernel | ProductKernel] = {}
_generation = 0


def compiled(program: Program, form: Form) -> Kernel | ProductKernel:
    """The kernel of a program, made once for all programs that do the same."""
    global _generation
    with engine.lock:
        generation = engine.settings().generation
        if generation != _generation:
            _kernels.clear()
            _memory.clear()
            _generation = generation
        key = program.signature, form
        if key not in _kernels:
            _kernels[key] = _new(program, form)
        return _kernels[key]


def _new(program: Program, form: Form) -> Kernel | ProductKernel:
    if engine.backend().on_host and not any(form.summed) and not any(form.wholes):
        products = products_of(program)
        if products is not None:
            return ProductKernel(program, products, form.mapped)
    return Kernel(program, form)
