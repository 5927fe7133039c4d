"""A field of a file over the cells of a grid, in Python, as scenes take it by `file`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from diffsim.base.arguments import instance
from diffsim.errors import SceneError
from diffsim.mesh.grid import Grid
from diffsim.scene.schema.parts import FieldModel
from diffsim.scene.setup.fields import build_field
from diffsim.scene.setup.place import Place
from diffsim.scene.words.explain import explained
from diffsim.typing import Array


def field_on_grid(
    path: str | Path,
    grid: Grid,
    field_unit: str = "",
    floor: float | None = None,
    ceil: float | None = None,
    grid_crs: str | None = None,
    **keys: Any,
) -> Array:
    """Read a model, a start field or a depth from a file, and bring it to the cells of a grid.

    The formats are those of `diffsim.records.read_field`, which gives the numbers as the file has them.

    Args:
        path: the file. Its extension says the format.
        grid: the grid of the simulation, in the coordinates of the file.
        field_unit: unit of the result, such as "m" or "m/s". Numbers whose unit the file or `unit` states are converted to it; "": they
            are taken as they are.
        floor: least value; None: there is none.
        ceil: greatest value; None: there is none.
        grid_crs: map projection of the grid, such as "EPSG:32654", for a file with another one, which the key `crs` states.
        keys: those of `file` in a scene: `key`, `crs`, `method` ("linear", "nearest", "cubic" or "mean"), `scale`, `offset`, `unit`,
            `fill`, `blur`, `coordinates`, `spacing`, `origin`, `order`, `shape`, `missing`, `extend`, `thresholds` and `values`.
            docs/scene.md explains them.

    Returns:
        The field over the cells, f64, of the shape of the grid.

    Raises:
        SceneError: the file cannot be read, a key is not as it should be, or the file does not cover the grid.

    Example:
        from pathlib import Path

        import diffsim as ds
        import diffsim.scene

        # The depth of a bay is minus the elevation of the ground.
        Path("bay.asc").write_text("ncols 4\\nnrows 2\\nxllcenter 0\\nyllcenter 0\\ncellsize 5\\n-1 -2 -3 4\\n-5 -6 -7 8\\n")
        grid = ds.Grid((2, 2), spacing=(5.0, 10.0), origin=(0.0, 2.5))
        depth = ds.scene.field_on_grid("bay.asc", grid, method="mean", scale=-1.0, floor=0.0)
        assert depth.tolist() == [[5.5, 0.0], [1.5, 0.0]]
    """
    instance("grid", grid, Grid, "a diffsim.Grid", "give that of the simulation")
    instance("field_unit", field_unit, str, "a text", "write it like 'm/s'")
    try:
        model = FieldModel.model_validate({"file": {"path": str(path), **keys}, "floor": floor, "ceil": ceil}, context={})
    except ValidationError as error:
        raise SceneError(explained(FieldModel, error, "field")) from None
    return build_field(model, Place(grid, grid, "field", unit=field_unit, crs=grid_crs))
