"""The kernel of a tile program: its source, its arrays, and its launch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim import buffers, engine
from diffsim.ad.ops import elementwise as ew
from diffsim.errors import ArrayIndexError, ParameterError, SingularError
from diffsim.expr.source import Text
from diffsim.tile import entries
from diffsim.tile.program import Program, Variable
from diffsim.tile.rules import write
from diffsim.tile.values import TYPES, Value, View, row_strides, stored
from diffsim.tile.writer import Writer

SCRATCH_BYTES = 1 << 23
"""The most scratch memory of a tile in bytes."""
CHUNKS = 64
"""Parts of the tiles whose sums are kept apart: results do not depend on the number of threads."""
GPU_THREADS = 16_384
"""Tiles that a GPU works on at a time."""
QUAD = {"f": 4, "i": 4, "d": 2, "n": 2}
"""Entries of 16 bytes."""
_ARRAYS = {"f": np.float32, "d": np.float64, "i": np.int32, "n": np.int64, "b": np.uint8}


@dataclass(frozen=True)
class Form:
    """What a kernel is compiled for.

    Attributes:
        mapped: for each argument whether there is one for each tile; others are shared by all tiles.
        summed: for each result whether it is added up over tiles.
    """

    mapped: tuple[bool, ...]
    summed: tuple[bool, ...]


class Kernel:
    """A compiled tile program. Calls from several threads take turns, as its scratch memory is there once."""

    def __init__(self, program: Program, form: Form) -> None:
        backend = engine.backend()
        self.program, self.form = program, form
        self.workers = backend.threads
        floats = [v.dtype for v in _variables(program) if v.dtype.kind == "f"]
        self.lanes = backend.lanes(max(floats, key=lambda d: d.itemsize, default=np.dtype(np.float64))) if backend.on_host else 1
        self._lock = threading.Lock()
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
        for name, kind, argument, mapped in self.inputs:
            view = View(name, kind, argument.shape, row_strides(argument.shape))
            if not mapped:
                view = View(f"u{name}", kind, argument.shape, row_strides(argument.shape))
            quads = mapped and self._in_quads(kind, argument.size)
            if quads or argument not in direct or not mapped:
                made = w.allocate(view.shape, kind)
                if quads:
                    self.quads.add(name)
                    self._load_quads(w, name, made)
                elif view.size:
                    w.copied(view, made)
                view = made
            values.append(view)
        sums = Text()
        found = w.run(program, values, write)
        w.close_all()
        self.outputs = []
        for k, (value, result, summed) in enumerate(zip(found, program.results, form.summed, strict=True)):
            kind = value.kind
            self.outputs.append((f"y{k}", kind, result.shape, summed))
            self._store(w, f"y{k}", value, result.shape, summed)
        self._sizes = {kind: max(count, 1) for kind, count in w.scratch.items()}
        self.checks = w.checks
        self.constants = {kind: np.concatenate(parts) for kind, parts in w.constants.items()}
        body = str(text)
        self.source = self._assembled(body, w)
        del sums

    # Entries of one tile lie side by side in an argument, and those of neighbouring tiles in a register. So blocks of as many entries as 16
    # bytes hold, for all tiles of a register, are transposed: twice as many shuffles as registers.

    def _in_quads(self, kind: str, size: int) -> bool:
        """Whether an argument or result is read and written 16 bytes at a time."""
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
                w.text(f"{name}[chunk * {size} + {place}] = {name}[chunk * {size} + {place}] + {source} * own_{stored(value.kind)}")
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
        letter = {name: "Q" for name in self.quads}
        arguments += [f"{'' if mapped else 'u'}{name}: {letter.get(name, 'A')}_{kind}" for name, kind, _, mapped in self.inputs]
        arguments += [f"{name}: {'W' if summed else letter.get(name, 'A')}_{kind}" for name, kind, _, summed in self.outputs]
        for kind in self._sizes:
            arguments += [f"s_{kind}: W_{kind}", f"p_{kind}: A_{kind}"]
        arguments += [f"c_{kind}: A_{kind}" for kind in self.constants]
        summed = any(self.form.summed)
        head("@ti.kernel")
        head(f"def tiles({', '.join(arguments)}):")
        head.depth = 1
        if self.workers == 1:
            head("ti.loop_config(serialize=True)")
        elif self.workers is not None:
            head("ti.loop_config(block_dim=1)")
        count = self.workers if self.workers is not None else GPU_THREADS
        head(f"for w in range({count}):")
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
                own = [f"ti.cast(ti.select(t0 + {lane} >= g * {lanes}, 1, 0), {TYPES[kind]})" for lane in range(lanes)]
                head(f"own_{kind} = {w.gathered(own)}")
        for name, kind, argument, mapped in self.inputs:
            if mapped:
                size = argument.size // QUAD[kind] if name in self.quads else max(argument.size, 1)
                head(f"{name}_size = {size}")
                head(f"{name}_at = t0 * {size}")
        for name, kind, shape, s in self.outputs:
            if not s:
                head(f"{name}_at = t0 * {int(np.prod(shape, dtype=np.int64)) // (QUAD[kind] if name in self.quads else 1)}")
        text.lines = head.lines
        whole = str(text) + body
        return entries.library(body, lanes) + "\n" + whole

    def _kernel(self) -> Any:
        lanes = self.lanes

        def names() -> dict[str, Any]:
            ti = engine.taichi()
            types = {"f": ti.f32, "d": ti.f64, "i": ti.i32, "n": ti.i64, "b": ti.u8}
            found: dict[str, Any] = {}
            for kind, kept in types.items():
                vector = ti.types.vector(lanes, kept) if lanes > 1 else kept
                found[f"F_{kind}"], found[f"V_{kind}"] = kept, vector
                found[f"A_{kind}"] = ti.types.ndarray(dtype=kept, ndim=1)
                found[f"W_{kind}"] = ti.types.ndarray(dtype=vector, ndim=1)
                if kind in QUAD:
                    found[f"Q_{kind}"] = ti.types.ndarray(dtype=ti.types.vector(QUAD[kind], kept), ndim=1)
            return found

        return engine.shared_kernel(self.source, "tiles", ("tiles", lanes), names)

    def __call__(self, arrays: Sequence[np.ndarray], tiles: int) -> list[np.ndarray]:
        """The results for arrays of the arguments, one after the other for each tile."""
        lanes = self.lanes
        count = max(tiles, lanes)
        given = []
        for (name, kind, argument, mapped), array in zip(self.inputs, arrays, strict=True):
            flat: Any = np.ascontiguousarray(array, _NUMPY[kind]).reshape(-1)
            if mapped and count > tiles and argument.size:
                flat = np.concatenate([flat, np.tile(flat[-argument.size :], count - tiles)])
            flat = flat if flat.size else np.zeros(1, flat.dtype)
            if name in self.quads:
                if flat.ctypes.data % 16:
                    aligned = engine.aligned((flat.size,), flat.dtype)
                    aligned[:] = flat
                    flat = aligned
                flat = flat.reshape(-1, QUAD[kind])
            given.append(flat.view(np.uint8) if kind == "b" else flat)
        groups = -(-tiles // lanes)
        per_chunk = max(-(-groups // CHUNKS), 1)
        chunks = -(-groups // per_chunk)
        threads = self.workers if self.workers is not None else GPU_THREADS
        share = -(-chunks // threads) * per_chunk
        results = []
        for _, kind, shape, summed in self.outputs:
            size = int(np.prod(shape, dtype=np.int64))
            if summed:
                results.append(engine.aligned((max(chunks * size, 1), lanes) if lanes > 1 else (max(chunks * size, 1),), _NUMPY[kind]))
            else:
                results.append(buffers.empty((max(count * size, 1),), np.dtype(_ARRAYS[kind])))
        errors = np.zeros(max(len(self.checks), 1), np.int32)
        control = np.array([count, share, groups, per_chunk], np.int32)
        with self._lock:
            scratch: list[np.ndarray] = []
            for kind, size in self._sizes.items():
                memory = _scratch(kind, size * threads * lanes)
                scratch += [memory.reshape(-1, lanes) if lanes > 1 else memory, memory]
            with engine.lock:
                outs = [r.reshape(-1, QUAD[k]) if n in self.quads else r for (n, k, _, _), r in zip(self.outputs, results, strict=True)]
                self._kernel()(control, errors, *given, *outs, *scratch, *self.constants.values())
        self._refuse(errors)
        found = []
        for (_, kind, shape, summed), result in zip(self.outputs, results, strict=True):
            size = int(np.prod(shape, dtype=np.int64))
            if summed:
                total = result.reshape(-1, lanes)[: chunks * size].reshape(chunks, size, lanes).sum(axis=(0, 2))
                found.append(total.reshape(shape).astype(_NUMPY[kind]))
            else:
                whole = result[: tiles * size].reshape(tiles, *shape)
                found.append(whole.view(np.bool_) if kind == "b" else whole)
        return found

    def _refuse(self, errors: np.ndarray) -> None:
        for tile, message in zip(errors.tolist(), self.checks, strict=False):
            if tile:
                kind = ArrayIndexError if "index" in message else ParameterError if "while_loop" in message else SingularError
                raise kind(f"{message} (tile {tile - 1})")


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
_memory: dict[str, np.ndarray] = {}


def _scratch(kind: str, size: int) -> np.ndarray:
    """Scratch memory, kept from call to call. The caller holds the engine's lock while it is used."""
    found = _memory.get(kind)
    if found is None or found.size < size:
        found = _memory[kind] = engine.aligned((size,), _NUMPY[kind])
    return found[:size]


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


_kernels: dict[tuple[Hashable, Form], Kernel] = {}
_generation = 0


def compiled(program: Program, form: Form) -> Kernel:
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
            _kernels[key] = Kernel(program, form)
        return _kernels[key]
