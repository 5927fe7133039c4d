"""The arrays of a simulation: fields, rings of levels, profiles, streams and kept tiles, on the host or on a GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from diffsim.boundary import Fill, Rules, extend, fills, fills_of
from diffsim.engine import backend
from diffsim.errors import PlanError
from diffsim.stepping.ir.stored import StoredFields
from diffsim.stepping.run.launches import Allocated
from diffsim.stepping.run.strips import strip_rows
from diffsim.typing import Array, IntArray


class FieldArrays:
    """The arrays of a simulation by name.

    Args:
        fields: the storage of the arrays.

    Attributes:
        strips: array of kept tiles -> the tiles, as `damped_tiles` gives them.
        bindings: how often arrays were replaced.
    """

    def __init__(self, fields: StoredFields) -> None:
        self.fields, self.layout = fields, fields.layout
        self.slim, self.sparse, self.stacks = fields.slim, fields.sparse, fields.stacks
        self.strips: dict[str, IntArray] = {}
        self.memory = backend().memory
        self.bindings = 0
        self.arrays: dict[str, Allocated] = {}
        self._views: dict[tuple[str, int | None], tuple[Array, Array]] = {}  # of the cells of a field, and with their halo
        self._fills: dict[tuple[str, int | None], tuple[Rules, list[Fill] | None]] = {}  # of the halos of fields
        self._threads = backend().threads

    def allocate(self, name: str, shape: tuple[int, ...]) -> Allocated:
        """Allocate a zeroed array `name`. An earlier array of that name is freed first.

        Kernels are bound anew at their next launch.
        """
        self.arrays.pop(name, None)
        self.unbind()
        self.arrays[name] = self.memory.allocate(shape, self.layout.dtype, flat=True)
        return self.arrays[name]

    def unbind(self) -> None:
        """Release all views of arrays, and what is bound to them. Kernels are bound anew at their next launch."""
        self.bindings += 1
        self._views.clear()
        self._fills.clear()

    def field(self, name: str) -> Allocated:
        """The array `name`. If there is none, one field is allocated."""
        levels = (self.stacks[name],) if name in self.stacks else ()
        return self.arrays[name] if name in self.arrays else self.allocate(name, (*levels, *self.storage(name)))

    def storage(self, name: str) -> tuple[int, ...]:
        """Shape of the storage of a field, or of a level of a ring."""
        return self.sparse[name].storage if name in self.sparse else self.layout.storage

    def field_bytes(self, name: str) -> int:
        """Bytes of a field, or of a level of a ring."""
        return self.sparse[name].nbytes if name in self.sparse else self.layout.nbytes

    def table_bytes(self) -> int:
        """Bytes of the tables with the storage and the regions of sparse fields."""
        return sum(sparse.table.nbytes + sparse.inside.nbytes for sparse in set(self.sparse.values()))

    def put(self, name: str, values: Array) -> None:
        """Write an array that is no field (a profile, a stream). Allocate it if there is none of its shape."""
        if name not in self.arrays or tuple(self.arrays[name].shape) != values.shape:
            self.arrays[name] = self.memory.allocate(values.shape, self.layout.dtype)
            self.unbind()
        self.memory.write(self.arrays[name], values)

    def put_slim(self, name: str, values: Array | None, steps: int = 1) -> None:
        """Write a slim field with its halo, shape (steps, ...) if it is a series; None: zero. Allocate it if necessary."""
        slim, layout = self.slim[name], self.layout
        shape = (*((steps,) if slim.series else ()), *layout.slim_storage(slim))
        if math.prod(shape) >= 2**31:
            raise PlanError(
                f"{name} has {math.prod(shape)} values in all steps, more than the 2^31 that a kernel can count; take fewer steps"
            )
        if name not in self.arrays or tuple(self.arrays[name].shape) != (shape or (1,)):
            self.allocate(name, shape or (1,))

        def write(stored: Array) -> None:
            stored.fill(0)
            if values is not None:
                layout.slim_extended(slim, stored)[...] = values
                layout.go_on(slim, stored)

        self.memory.fill(self.arrays[name], None, write)

    def slim_cells(self, name: str) -> Array:
        """The values of a slim field, without its halo: a view on the host, a copy from a GPU."""
        return self.layout.slim_cells(self.slim[name], self.memory.read(self.arrays[name]))

    def clear(self, name: str, level: int | None = None) -> None:
        """Set a field, or a level of a ring, to zero."""
        array = self.field(name)
        if isinstance(array, np.ndarray):
            (array if level is None else array[level]).fill(0)
        else:
            self.memory.clear(array, level)

    def put_field(self, name: str, cells: Array, rules: Rules, level: int | None = None) -> None:
        """Write the cells of a field, or of a level of a ring, and its halo by the rules. Cells outside of its region are dropped."""
        layout = self.layout
        known, bound = self._fills.get((name, level), (None, None))
        if known is rules and bound:
            self._views[name, level][0][...] = cells
            for part in bound:
                np.add(*part)
            return
        sparse = self.sparse.get(name)
        if self.seen(name):
            place, extended = self._views_of(name, level)
            place[...] = cells
            extend(extended, layout.halo, rules)
            again = known is rules and bound is None  # only what is written again and again is worth it
            self._fills[name, level] = rules, (fills_of(extended, layout.halo, rules) or []) if again else bound if known is rules else None
            return

        def write(stored: Array) -> None:
            full = stored if sparse is None else np.zeros(layout.storage, layout.dtype)
            layout.cells(full)[...] = cells
            if sparse is not None:
                full[sparse.spread(sparse.inside) == 0] = 0
            extend(layout.extended(full), layout.halo, rules)
            if sparse is not None:
                stored[...] = sparse.gathered(full)

        self.memory.fill(self.field(name), level, write)

    def seen(self, name: str) -> bool:
        """True if the cells of a field can be seen in its storage: not on a GPU, nor where it exists in a region alone."""
        return name not in self.sparse and self._threads is not None

    def _views_of(self, name: str, level: int | None) -> tuple[Array, Array]:
        """The cells of a field, or of a level of a ring, and the cells with their halo, as views."""
        views = self._views.get((name, level))
        if views is None:
            stored = self.memory.read(self.field(name), level)
            views = self._views[name, level] = self.layout.cells(stored), self.layout.extended(stored)
        return views

    def pack(self, name: str, where: tuple[slice, ...], into: Array, level: int | None = None) -> None:
        """Copy the values of a part of the cells, in C order, to an array of one dimension. Of a sparse field those are left out that do
        not exist."""
        if name in self.sparse:
            stored = self.memory.read(self.field(name), level).reshape(-1)
            np.take(stored, self.sparse[name].places(where)[1], out=into, mode="clip")  # other modes buffer the result
        else:
            part = self.cells(name, level)[where]
            into.reshape(part.shape)[...] = part

    def places(self, name: str, where: tuple[slice, ...], level: int | None = None) -> tuple[Array, IntArray] | None:
        """The values of a sparse field, a view of one dimension, and the places of a part of the cells in it; None on a GPU and for other
        fields."""
        if name not in self.sparse or self._threads is None:
            return None
        return self.memory.read(self.field(name), level).reshape(-1), self.sparse[name].places(where)[1]

    def part(self, name: str, where: tuple[slice, ...], level: int | None = None) -> Array | None:
        """A view of a part of the cells; None on a GPU and for a sparse field."""
        return self.cells(name, level)[where] if self.seen(name) else None

    def planes(self, name: str, where: tuple[slice, ...], level: int | None = None) -> Array | None:
        """A view of a part of the cells as it lies in memory with its halo, of one dimension, if it is whole rows (planes in three
        dimensions) of the first axis; None if it is not, or there is no view."""
        layout = self.layout
        whole = all((along.start, along.stop) == (0, n) for along, n in zip(where[1:], layout.shape[1:], strict=True))
        if len(layout.shape) == 1 or not whole or not self.seen(name):
            return None
        halo = layout.row_halo[0]
        rows: Array = self.memory.read(self.field(name), level)[where[0].start + halo : where[0].stop + halo].reshape(-1)
        return rows

    def owned(self, name: str, where: tuple[slice, ...], level: int | None = None) -> Array:
        """The values of a part of the cells: a view, or for a sparse field those that `pack` gives."""
        if name not in self.sparse:
            return self.cells(name, level)[where]
        values = np.empty(self.packed_size(name, where), self.layout.dtype)
        self.pack(name, where, values, level)
        return values

    def packed_size(self, name: str, where: tuple[slice, ...]) -> int:
        """The number of values that `pack` gives."""
        return len(self.sparse[name].places(where)[0]) if name in self.sparse else math.prod(along.stop - along.start for along in where)

    def unpack(self, name: str, parts: Sequence[tuple[tuple[slice, ...], Array]], rules: Rules, level: int | None = None) -> None:
        """Write some parts of the cells, as `pack` gives them, and the halo by the rules."""
        array, layout, sparse = self.field(name), self.layout, self.sparse.get(name)
        if not isinstance(array, np.ndarray) or (sparse is not None and any(map(fills, rules))):
            cells = self.cells(name, level)  # a copy
            for where, values in parts:
                part = cells[where]
                flat = part.reshape(-1)  # a copy unless the part is contiguous
                flat[slice(None) if sparse is None else sparse.places(where)[0]] = values
                cells[where] = flat.reshape(part.shape)
            self.put_field(name, cells, rules, level)
        elif sparse is not None:
            stored = self.memory.read(array, level).reshape(-1)
            for where, values in parts:
                stored[sparse.places(where)[1]] = values
        else:
            stored = self.memory.read(array, level)
            for where, values in parts:
                part = layout.cells(stored)[where]
                part[...] = values.reshape(part.shape)
            if any(map(fills, rules)):  # else there is 0 beyond all sides, as before
                extend(layout.extended(stored), layout.halo, rules)

    def cells(self, name: str, level: int | None = None) -> Array:
        """The cells of a field, without its halo: a view on the host, a copy from a GPU or of a sparse field."""
        if self.seen(name):
            return self._views_of(name, level)[0]
        stored = self.memory.read(self.field(name), level)
        return self.layout.cells(self.sparse[name].spread(stored) if name in self.sparse else stored)

    def kept(self, name: str, level: int) -> Array:
        """The values that a saved level of a ring needs: the cells, or the stored values of a sparse field. A view on the host."""
        return self.memory.read(self.field(name), level) if name in self.sparse else self.cells(name, level)

    def put_kept(self, name: str, values: Array, rules: Rules, level: int) -> None:
        """Write the values that `kept` returned."""
        if name in self.sparse:
            self.memory.write(self.field(name), values, level)
        else:
            self.put_field(name, values, rules, level)

    def put_strips(self, strips: Mapping[str, IntArray], steps: int) -> None:
        """Replace the kept tiles by name, and allocate memory for `steps` steps of them. Tiles that are left out are freed.

        Memory of the right size is reused: touching new memory costs more than all work on it.
        """
        if not (strips or self.strips):
            return
        lanes = (self.layout.lanes,) if self.layout.lanes > 1 else ()
        shapes = {name: (count, *lanes) for name, count in strip_rows(strips, steps).items()}
        self.unbind()
        present = {name: tuple(self.arrays[name].shape) for name in self.strips if name in self.arrays}
        self.strips = dict(strips)  # set before the allocation: if that fails, the allocated arrays are known and freed
        if present != shapes:
            for name in present:
                del self.arrays[name]
            for name, shape in shapes.items():
                self.allocate(name, shape)

    def nbytes(self, name: str) -> int:
        """Bytes of an array."""
        return math.prod(self.arrays[name].shape) * self.layout.dtype.itemsize
