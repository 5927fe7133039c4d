"""Inputs that contradict themselves or say too little are refused in one line; units convert as in tables of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.base.quantities import Meaning, along_axis, plain
from diffsim.base.quantities.units import conversion
from diffsim.errors import DataError, ParameterError

SPEED = Meaning("m/s", ((along_axis("z", np.arange(3.0), "m"), along_axis("x", np.arange(3.0), "m")),))
VALUES = np.arange(9.0).reshape(3, 3)

TABLE = [
    ("km/s", "m/s", 1e3, 0.0),
    ("km s-1", "m/s", 1e3, 0.0),
    ("m·s⁻¹", "m/s", 1.0, 0.0),
    ("kilometer / hour", "m/s", 1 / 3.6, 0.0),
    ("mm2/s", "m²/s", 1e-6, 0.0),
    ("cm²/s", "m²/s", 1e-4, 0.0),
    ("g/cm3", "kg/m³", 1e3, 0.0),
    ("ft", "m", 0.3048, 0.0),
    ("inch", "m", 0.0254, 0.0),
    ("Angstrom", "m", 1e-10, 0.0),
    ("hPa", "Pa", 100.0, 0.0),
    ("dbar", "Pa", 1e4, 0.0),
    ("degC", "K", 1.0, 273.15),
    ("°C", "K", 1.0, 273.15),
    ("deg_C", "K", 1.0, 273.15),
    ("degF", "K", 5 / 9, 459.67 * 5 / 9),
    ("K", "degC", 1.0, -273.15),
    ("rad", "degree", 180 / np.pi, 0.0),
    ("degrees_north", "degree", 1.0, 0.0),
    ("%", "", 0.01, 0.0),
    ("1", "", 1.0, 0.0),
    ("people", "people", 1.0, 0.0),
    ("1/min", "1/s", 1 / 60, 0.0),
    ("1/s**2", "1/s²", 1.0, 0.0),
]


@pytest.mark.parametrize(("unit", "wanted", "factor", "offset"), TABLE)
def test_units_convert(unit: str, wanted: str, factor: float, offset: float) -> None:
    result = conversion(unit, wanted)
    assert (result.scale, result.shift) == (pytest.approx(factor, rel=4e-16), pytest.approx(offset, rel=4e-16))


@pytest.mark.parametrize(
    ("unit", "wanted"),
    [
        ("s", "m/s"),
        ("", "m"),
        ("m", ""),
        ("degree", ""),
        ("degree", "m"),
        ("rad", "1"),
        ("C", "K"),
        ("people", "m"),
        ("degrees_west", "degree"),
        ("days since 2000-01-01", "s"),
        ("dB", "Pa"),
    ],
)
def test_units_that_are_of_something_else_do_not_convert(unit: str, wanted: str) -> None:
    with pytest.raises(DataError, match=r"expected .*, found "):
        conversion(unit, wanted)


def _array(**options: Any) -> Any:
    xarray = pytest.importorskip("xarray")
    return xarray.DataArray(VALUES, dims=("z", "x"), **options)


def _pint(numbers: Any, unit: str) -> Any:
    import pint

    return pint.application_registry.get().Quantity(numbers, unit)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a set of arrays": (lambda: _array().to_dataset(name="c"), "one of its variables"),
    "packed numbers": (lambda: _array(attrs={"scale_factor": 0.1, "units": "m/s"}), "scale_factor"),
    "two units": (lambda: _array(attrs={"units": "km/s"}).copy(data=_pint(VALUES, "m/s")), "units = km/s"),
    "a mask": (lambda: _pint(np.ma.masked_greater(VALUES, 3), "m/s"), "mask"),
    "an unknown unit": (lambda: _array(attrs={"units": "smoots"}), "smoots"),
    "an angle for a number": (lambda: _pint(3.0, "degree"), "degree"),
    "too few dimensions": (lambda: _array()[0], r"\(x\), expected \(z, x\)"),
    "too many dimensions": (lambda: _array().expand_dims("time"), r"\(time, z, x\), expected \(z, x\)"),
    "names that may be several": (lambda: _array().rename(z="a", x="b").assign_coords(a=[0, 1, 2], b=[0, 1, 2]), r"\(a, b\)"),
    "an entry of a list": (lambda: [1.0, _pint(2.0, "kg")], r"c\[1\] has the unit kilogram"),
    "a table in a list": (lambda: [_array(attrs={"units": "m/s"})], "order"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_contradictions_are_refused(case: str) -> None:
    make, words = REFUSED[case]
    with pytest.raises(ds.DiffsimError, match=words) as refused:
        plain("c", make(), SPEED)
    assert "\n" not in str(refused.value) and "expected" in str(refused.value) and "; " in str(refused.value)


def test_a_list_may_hold_quantities_of_several_units() -> None:
    assert np.array_equal(plain("x", [1.0, _pint(2.0, "km"), (_pint(3.0, "cm"),)[0]], Meaning("m")), [1.0, 2000.0, 0.03])
    assert ds.Grid((3, 4), (_pint(1.0, "km"), 5.0)).spacing == (1000.0, 5.0)


def test_columns_of_places_are_those_that_they_are_named() -> None:
    xarray = pytest.importorskip("xarray")
    grid = ds.Grid((20, 30), 1.0, axes=("z", "x"))
    places = [[3.0, 20.0], [5.0, 6.0]]
    heat = ds.solvers.Heat(grid, 0.1)
    wanted = ds.Simulation(heat, receivers={"T": places})._compiled.points["points at T"]
    named = xarray.DataArray(np.array(places)[:, ::-1], dims=("gauge", "direction"), coords={"direction": ["x", "z"]})
    for labelled in (named, named.T, named.rename(direction="b").T, ds.Points(named)):
        points = ds.Simulation(heat, receivers={"T": labelled})._compiled.points["points at T"]
        assert np.array_equal(points.cells, wanted.cells)
    with pytest.raises(ParameterError, match=r"labels \(x, y\) along direction, expected \(z, x\); "):
        ds.Simulation(heat, receivers={"T": named.assign_coords(direction=["x", "y"])})
    with pytest.raises(ParameterError, match=r"\(a, b\), expected \(point, axis\)"):
        ds.Simulation(heat, receivers={"T": named.drop_vars("direction").rename(gauge="a", direction="b")})


def test_inputs_may_be_a_dataset_and_lists_of_quantities() -> None:
    xarray = pytest.importorskip("xarray")
    rod = ds.Simulation(ds.solvers.Heat(ds.Grid((3,), 1.0), 0.1), precision="f64")
    kappa, T = np.array([0.5, 0.4, 0.3]), np.array([280.0, 290.0, 300.0])
    loss = lambda solution: (solution.final["T"] ** 2).sum()  # noqa: E731
    wanted = rod.value_and_grad(loss, {"kappa": kappa, "T": T}, 4)
    data = xarray.Dataset({"kappa": ("x", kappa * 1e4, {"units": "cm2 s-1"}), "T": ("x", T - 273.15, {"units": "degC"})}, {"x": [0, 1, 2]})
    listed = {"kappa": [_pint(k * 1e4, "cm**2/s") for k in kappa], "T": [_pint(t - 273.15, "degC") for t in T]}
    for inputs in (data, data.isel(x=slice(None, None, -1)), listed):
        value, gradient = rod.value_and_grad(loss, inputs, 4)
        assert np.isclose(value, wanted[0], rtol=1e-13)
        assert all(np.allclose(gradient[name], wanted[1][name], rtol=1e-12) for name in wanted[1])


def test_inputs_are_copied_before_a_reverse_sweep() -> None:
    xarray = pytest.importorskip("xarray")
    rod = ds.Simulation(ds.solvers.Heat(ds.Grid((3,), 1.0), 0.1), precision="f64")
    inputs = {"kappa": xarray.DataArray(np.array([0.5, 0.4, 0.3]), dims="x"), "T": np.array([280.0, 290.0, 300.0])}
    _, pullback = rod.vjp(inputs, 4, checkpoint=2)
    ones = ds.Solution(final={"T": np.ones(3)})
    wanted = pullback(ones)["kappa"]
    inputs["kappa"][...] = 9.0
    assert np.array_equal(pullback(ones)["kappa"], wanted)


def test_an_array_without_unit_and_labels_is_taken_as_it_lies() -> None:
    xarray = pytest.importorskip("xarray")
    assert plain("c", VALUES, SPEED) is VALUES
    assert np.array_equal(plain("c", xarray.DataArray(VALUES), SPEED), VALUES)


def test_memory_is_shared_where_nothing_is_converted() -> None:
    assert np.shares_memory(plain("c", _array(attrs={"units": "m/s"}).T, SPEED), VALUES)


def test_an_own_equation_computes_with_plain_seconds() -> None:
    class Still(ds.Equation):
        def __init__(self, dt: Any) -> None:
            self.grid, self.dt, self.states = ds.Grid((4,), 1.0), dt, {"u": ds.Variable()}

        def step(self, u: Any) -> dict[str, Any]:
            return {"u": u}

    with pytest.raises(ParameterError, match=r"dt of Still = .*plain number of seconds; "):
        ds.Simulation(Still(_pint(1.0, "s")))


def test_a_certificate_takes_quantities_of_inputs_directions_scales_and_bounds() -> None:
    rod = ds.Simulation(ds.solvers.Heat(ds.Grid((6,), 1.0), 0.1), precision="f64")
    kappa, T = np.full(6, 0.5), np.linspace(280.0, 290.0, 6)
    plain_options: dict[str, Any] = {"directions": {"T": np.ones(6)}, "scale": {"T": 2.0}, "bounds": {"T": (250.0, None)}}
    said = {
        "directions": {"T": _pint(np.ones(6), "delta_degC")},
        "scale": {"T": _pint(2e3, "mK")},
        "bounds": {"T": (_pint(-23.15, "degC"), None)},
    }
    loss = lambda certificate: (certificate.final["T"] ** 2).sum()  # noqa: E731
    wanted = ds.certify(rod, loss, {"kappa": kappa, "T": T}, 3, **plain_options)
    certificate = ds.certify(rod, loss, {"kappa": _pint(kappa * 1e4, "cm**2/s"), "T": _pint(T - 273.15, "degC")}, 3, **said)
    assert certificate.passed and wanted.passed and len(certificate.lines) == len(wanted.lines)
    with pytest.raises(ParameterError, match=r"inputs\['kappa'\] has the unit meter"):
        ds.certify(rod, loss, {"kappa": _pint(kappa, "m"), "T": T}, 3)


@pytest.mark.parametrize(
    "operand",
    [
        lambda x, km: ds.numpy.asarray(np.ones(3) * km),
        lambda x, km: ds.numpy.asarray([1.0 * km, 2.0 * km, 3.0 * km]),
        lambda x, km: ds.numpy.full(3, 1.0 * km),
        lambda x, km: ds.numpy.where(x > 0, x, np.ones(3) * km),
        lambda x, km: ds.numpy.concatenate([x, np.ones(3) * km])[3:],
        lambda x, km: x * (np.ones(3) * km),
    ],
    ids=["array", "list", "number", "where", "concatenate", "product"],
)
def test_a_program_refuses_operands_whose_unit_it_cannot_know(operand: Any) -> None:
    """Its number would count, whatever it means."""
    with pytest.raises(ParameterError, match="operand of an array program has the unit kilometer"):
        ds.grad(lambda x: (x * operand(x, _pint(1.0, "km"))).sum())(np.ones(3))


def test_units_are_not_read_unless_something_states_one() -> None:
    program = "import sys, diffsim as ds; ds.Grid((3,), 1.0); print([n for n in ('pint', 'astropy', 'xarray') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"
