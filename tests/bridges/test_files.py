"""Solutions in files of other programs, read back by their own libraries."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import MissingPackageError, ParameterError, ShapeError
from diffsim.expr import diff

PLACES = [[0.31, 0.22], [0.5, 0.4]]
STEPS = 4


class Sound(ds.Equation):
    """Pressure at centres, velocity on faces, a density for each row, and a number that says how much moves."""

    forcings = ("f",)

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 1e-3
        self.states = {"p": ds.Variable("mirror", unit="Pa"), "v": ds.Variable("zero", location=(0, 1), unit="m/s")}
        self.parameters = {"rho": ds.Variable("mirror", axes=(0,), unit="kg/m³"), "k": ds.Variable("mirror", unit="Pa")}

    def step(self, p: Any, v: Any, rho: Any, k: Any, f: Any) -> dict[str, Any]:
        v = ds.stage(v - self.dt / rho * diff(p, 1), boundary=v)
        return {"p": p - self.dt * k * (diff(v, 1) - f), "v": v}


UNIFORM = ds.Grid((6, 9), spacing=(0.1, 0.05), origin=(0.05, 0.02), axes=("depth", "distance"))
STRETCHED = ds.Grid.from_faces((np.linspace(0, 0.6, 7), np.geomspace(0.02, 0.9, 10)), axes=("depth", "distance"))


def simulation_on(grid: ds.Grid) -> ds.Simulation:
    return ds.Simulation(Sound(grid), sources={"f": [[0.3, 0.3]]}, receivers={"p": PLACES, "v": PLACES[:1]})


def inputs_on(grid: ds.Grid) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "p": rng.standard_normal(grid.shape),
        "rho": rng.uniform(1.0, 1.5, 6),
        "k": rng.uniform(1.0, 1.5, grid.shape),
        "f": np.zeros((STEPS, 1)),
    }


def test_a_dataset_on_the_sphere_is_in_degrees_and_is_an_input_again() -> None:
    pytest.importorskip("xarray")
    sphere = ds.Grid((5, 6), 0.2, origin=(36.0, -128.0), axes=("lat", "lon"))
    sea = ds.Simulation(ds.solvers.LongWave(sphere, 10.0, coordinates="sphere"), receivers={"eta": [[36.5, -127.3]]})
    inputs = {"H": np.full(sphere.shape, 3000.0), "eta0": np.random.default_rng(0).standard_normal(sphere.shape)}
    dataset = sea.to_xarray(sea.run(inputs, STEPS), inputs)
    assert {name: each.attrs["units"] for name, each in dataset.coords.items()} == {
        **{"lat": "degrees_north", "lon": "degrees_east", "time": "s"},
        **{"receiver_eta_lat": "degrees_north", "receiver_eta_lon": "degrees_east"},
    }
    again = sea.run({"H": dataset["input_H"], "eta0": dataset["input_eta0"]}, STEPS)
    np.testing.assert_array_equal(again.final["eta"], dataset["final_eta"])
    radians = dataset["input_H"].assign_coords(lat=("lat", np.radians(dataset["lat"].values), {"units": "radian"}))
    np.testing.assert_allclose(sea.run({"H": radians, "eta0": inputs["eta0"]}, STEPS).final["eta"], again.final["eta"], rtol=1e-6)


def test_a_dataset_has_coordinates_units_and_values(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    for grid in (UNIFORM, STRETCHED):
        simulation, inputs = simulation_on(grid), inputs_on(grid)
        solution = simulation.run(inputs, STEPS)
        _, gradient = simulation.value_and_grad(lambda dataset: (dataset.final["p"] ** 2).sum(), inputs, STEPS)
        dataset = simulation.to_xarray(solution, inputs, gradient, unit="km")
        assert isinstance(dataset, xarray.Dataset)
        assert dataset["final_v"].dims == ("depth", "distance_face") and dataset["final_p"].dims == ("depth", "distance")
        assert dataset["trace_p"].dims == ("time", "receiver_p") and dataset["input_rho"].dims == ("depth",)
        assert dataset["input_f"].dims == ("step", "source_f") and dataset["gradient_k"].dims == ("depth", "distance")
        assert np.shares_memory(dataset["final_p"].values, solution.final["p"])
        np.testing.assert_array_equal(dataset["distance"], grid.coordinates(1))
        np.testing.assert_array_equal(dataset["distance_face"], grid.coordinates(1, 1))
        np.testing.assert_allclose(dataset["time"], 1e-3 * np.arange(STEPS + 1))
        places = np.stack([dataset[f"receiver_p_{axis}"] for axis in grid.axes], axis=1)
        np.testing.assert_allclose(places, PLACES, rtol=1e-12)
        np.testing.assert_allclose(dataset["receiver_v_distance"], [0.22], rtol=1e-12)  # of values on faces
        assert dataset["final_p"].attrs == {"long_name": "p after the last step", "units": "Pa"}
        assert dataset["depth"].attrs["units"] == "km" and dataset["time"].attrs["units"] == "s"
        assert "units" not in dataset["gradient_k"].attrs and dataset["input_rho"].attrs["units"] == "kg/m³"
        assert dataset.attrs["equation"] == "Sound" and dataset.attrs["dt"] == 1e-3 and ds.__version__ in dataset.attrs["source"]


@pytest.mark.parametrize(("package", "method", "read"), [("netCDF4", "to_netcdf", "open_dataset"), ("zarr", "to_zarr", "open_zarr")])
@pytest.mark.filterwarnings("ignore")  # of packages among themselves
def test_datasets_are_written_and_read(package: str, method: str, read: str, tmp_path: Path) -> None:
    pytest.importorskip(package)
    xarray = pytest.importorskip("xarray")
    simulation, inputs = simulation_on(UNIFORM), inputs_on(UNIFORM)
    wanted = simulation.to_xarray(simulation.run(inputs, STEPS), inputs)
    getattr(wanted, method)(tmp_path / "found")
    with getattr(xarray, read)(tmp_path / "found") as stored:
        assert stored.identical(wanted)


@pytest.mark.parametrize("grid", [UNIFORM, STRETCHED, ds.Grid((3, 4, 5), (0.3, 0.2, 0.1)), ds.Grid((7,), 0.1)], ids=str)
def test_vtk_reads_written_files(grid: ds.Grid, tmp_path: Path) -> None:
    xml = pytest.importorskip("vtkmodules.vtkIOXML")
    numpy_support = importlib.import_module("vtkmodules.util.numpy_support")
    if grid.ndim == 2:
        simulation, inputs = simulation_on(grid), inputs_on(grid)
    else:
        heat = ds.solvers.Heat(grid, dt=0.01)
        simulation = ds.Simulation(heat, precision="f32")
        rng = np.random.default_rng(0)
        inputs = {name: rng.uniform(0.1, 0.2, grid.shape) for name in ("kappa", "T")}
    solution = simulation.run(inputs, STEPS)
    path = simulation.to_vtk(tmp_path / "found", solution, inputs)
    reader = xml.vtkXMLImageDataReader() if path.suffix == ".vti" else xml.vtkXMLRectilinearGridReader()
    assert path.suffix == (".vtr" if grid is STRETCHED else ".vti")
    reader.SetFileName(str(path))
    reader.Update()
    mesh = reader.GetOutput()
    assert mesh.GetDimensions() == (*(n + 1 for n in reversed(grid.shape)), 2, 2)[:3]  # of points
    data = mesh.GetCellData()
    arrays = {data.GetArrayName(k): data.GetArray(k) for k in range(data.GetNumberOfArrays())}
    fields = {f"input_{name}": value for name, value in inputs.items() if name != "f"}
    wanted = {**{f"final_{name}": value for name, value in solution.final.items()}, **fields}
    assert arrays.keys() == wanted.keys()
    shape = (1,) * (3 - grid.ndim) + grid.shape
    for name, value in wanted.items():
        expected = np.broadcast_to(value[:, None], grid.shape) if name == "input_rho" else value
        assert np.array_equal(numpy_support.vtk_to_numpy(arrays[name]).reshape(shape), expected.reshape(shape))
    if grid.ndim == 2:
        assert arrays["final_p"].GetComponentName(0) == "Pa"
    cell = [0.0] * 6  # bounds of the first cell but one along x: VTK counts x first
    mesh.GetCellBounds(1, cell)
    x = grid.coordinates(grid.ndim - 1)
    widths = grid.widths(grid.ndim - 1)
    np.testing.assert_allclose(cell[:2], [x[1] - widths[1] / 2, x[1] + widths[1] / 2], rtol=1e-12)
    if grid.ndim > 1:
        y, height = grid.coordinates(grid.ndim - 2)[0], grid.widths(grid.ndim - 2)[0]
        np.testing.assert_allclose(cell[2:4], [y - height / 2, y + height / 2], rtol=1e-12, atol=1e-12)


def test_arguments_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = simulation_on(UNIFORM)
    with pytest.raises(ShapeError, match=r"final p has shape \(3,\), expected \(6, 9\)"):
        simulation.to_vtk(tmp_path / "a", ds.Solution(final={"p": np.ones(3)}))
    with pytest.raises(ShapeError, match=r"gradient rho has shape \(3,\), expected \(6,\)"):
        simulation.to_vtk(tmp_path / "a", gradient={"rho": np.ones(3)})
    with pytest.raises(ParameterError, match="inputs are"):
        simulation.to_vtk(tmp_path / "a", inputs={"speed": np.ones(3)})
    with pytest.raises(ParameterError, match=r"expected a name that ends with \.vti"):
        simulation.to_vtk(tmp_path / "a.vtr", inputs={"rho": np.ones(6)})
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(MissingPackageError, match=r"pip install xarray$"):
        simulation.to_xarray()
