"""Fields as a file for ParaView and other programs that read VTK: image data, or a rectilinear grid where cells differ in size."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from diffsim.base.messages import path_shown
from diffsim.errors import ParameterError
from diffsim.mesh.grid import Grid
from diffsim.simulation.export.described import Described
from diffsim.typing import Array

TYPES = {"float32": "Float32", "float64": "Float64"}
"""NumPy's types and those of VTK."""


def write_vtk(path: str | os.PathLike[str], grid: Grid, arrays: Sequence[Described]) -> Path:
    """Write fields over cells; see `Simulation.to_vtk`.

    The file is XML with raw data appended, each array after its length in bytes.

    Reference: VTK file formats, XML formats, https://docs.vtk.org/en/latest/vtk_file_formats/vtkxml_file_format.html
    """
    uniform = None not in grid.uniform_spacing
    path = Path(path)
    suffix = ".vti" if uniform else ".vtr"
    if path.suffix not in ("", suffix):
        raise ParameterError(f"path = '{path_shown(path)}', expected a name that ends with {suffix}, or without an ending; correct it")
    kind = "ImageData" if uniform else "RectilinearGrid"
    faces = [] if uniform else [_faces(grid, axis) for axis in reversed(range(3))]
    data = [(a.name, a.unit, _over_cells(grid, a)) for a in arrays]
    path = path.with_suffix(suffix)
    with path.open("wb") as file:
        file.write(_header(grid, kind, data, faces).encode())
        for values in (*(values for _, _, values in data), *faces):
            file.write(np.uint64(values.nbytes).tobytes())
            file.write(values.tobytes())
        file.write(b"\n</AppendedData>\n</VTKFile>\n")
    return path


def _over_cells(grid: Grid, array: Described) -> Array:
    """A field at each cell. The last axis is x, whose cells lie next to each other in VTK too."""
    axes = array.axes or ()
    cells = array.values.reshape([grid.shape[axis] if axis in axes else 1 for axis in range(grid.ndim)])
    kept = cells if cells.dtype.name in TYPES else cells.astype(np.float64)
    return np.ascontiguousarray(np.broadcast_to(kept, grid.shape))


def _faces(grid: Grid, axis: int) -> Array:
    """Coordinates of the faces along an axis of three, of which a grid has the last ones."""
    own = axis - (3 - grid.ndim)
    if own < 0:
        return np.array([0.0, 1.0])
    upper = grid.coordinates(own, 1)
    return np.concatenate([[upper[0] - grid.widths(own)[0]], upper])


def _header(grid: Grid, kind: str, data: Sequence[tuple[str, str, Array]], faces: Sequence[Array]) -> str:
    """The XML up to the appended data."""
    order = {"little": "LittleEndian", "big": "BigEndian"}[sys.byteorder]
    cells = (*reversed(grid.shape), 1, 1)[:3]
    extent = quoteattr(" ".join(f"0 {n}" for n in cells))
    where = ""
    if kind == "ImageData":
        widths = (*reversed(grid.spacing), 1.0, 1.0)[:3]
        start = [_faces(grid, axis)[0] for axis in (2, 1, 0)]
        where = f' Origin="{" ".join(f"{float(x)!r}" for x in start)}" Spacing="{" ".join(f"{float(h)!r}" for h in widths)}"'
    offsets = np.cumsum([0, *(values.nbytes + 8 for values in (*(v for _, _, v in data), *faces))]).tolist()
    arrays = [_array(name, values, offset, unit) for (name, unit, values), offset in zip(data, offsets, strict=False)]
    lines = [
        '<?xml version="1.0"?>',
        f'<VTKFile type="{kind}" version="1.0" byte_order="{order}" header_type="UInt64">',
        f"<{kind} WholeExtent={extent}{where}>",
        f"<Piece Extent={extent}>",
        *("<CellData>", *arrays, "</CellData>"),
    ]
    if faces:
        along = [_array(name, values, offset) for name, values, offset in zip("xyz", faces, offsets[len(data) :], strict=False)]
        lines += ["<Coordinates>", *along, "</Coordinates>"]
    return "\n".join([*lines, "</Piece>", f"</{kind}>", '<AppendedData encoding="raw">', "_"])


def _array(name: str, values: Array, offset: int, unit: str = "") -> str:
    """The element of an array. VTK shows the name of its only component, which says the unit."""
    component = f" ComponentName0={quoteattr(unit)}" if unit else ""
    kind = TYPES[values.dtype.name]
    return f'<DataArray type="{kind}" Name={quoteattr(name)}{component} NumberOfComponents="1" format="appended" offset="{offset}"/>'
