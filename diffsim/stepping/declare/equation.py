"""The classes that declare an equation."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffsim.base.arguments import instance, real_array, whole
from diffsim.base.kinds import Kinds
from diffsim.base.messages import shown
from diffsim.boundary import Boundary, rules_of
from diffsim.errors import ParameterError, ShapeError, TraceError
from diffsim.expr.components import Index, Layout
from diffsim.expr.symbol import Symbol
from diffsim.mesh.field import Location
from diffsim.mesh.grid import MAX_DIMENSIONS, Grid
from diffsim.typing import Array

_UNFINISHED = re.compile(r"[*/·⋅^]\s*$|/\s*/|\(\s*\)|^\s*[*·⋅^]")
"""A text that is no whole unit, since an operator has nothing on one side."""


@dataclass(frozen=True)
class Variable:
    """A field of an equation.

    Attributes:
        boundary: values outside the grid: a rule such as `diffsim.Dirichlet`, or the name of one that needs no numbers, such as "zero",
            "periodic" and "mirror". Give one for all sides or one for each axis, where a pair is for the low and the high side:
            ("periodic", (Dirichlet(1.0), Neumann(0.0))).
        location: location of its values in the cell, 0 centre or 1 upper face, an entry for each axis; None: the centre.
        unit: unit, for labels.
        axes: axes along which it varies, such as (1,), or () for a number; None: all. Along the other axes it is constant, also outside
            the grid, and it can be combined with fields at any location.
        region: for a state: the cells in which it exists, bool, shape of the grid; None: all. It is 0 in all other cells, where its values
            are neither computed nor stored. For example, a polarisation exists only in a metal, and a memory variable only in a layer.

    Raises:
        ParameterError: the boundary is no rule.
        ShapeError: by the simulation, a region of something other than a state.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import diff

        class Tube(ds.Equation):
            # Sound in a tube: pressure at the centres of cells, velocity at their upper faces, one density for all.

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt
                self.states = {
                    "p": ds.Variable("mirror", unit="Pa"),
                    "v": ds.Variable((("zero", ds.Dirichlet(0.0)),), location=(1,), unit="m/s"),  # closed ends
                }
                self.parameters = {"rho": ds.Variable(axes=(), unit="kg/m³")}

            def step(self, p, v, rho):
                v = ds.stage(v - self.dt / rho * diff(p, 0), boundary=v)
                return {"p": p - self.dt * 1.4e5 * diff(v, 0), "v": v}

        grid = ds.Grid((50,), spacing=0.02)
        tube = ds.Simulation(Tube(grid, dt=2e-5), precision="f64")
        p = np.exp(-(((grid.coordinates(0) - 0.5) / 0.1) ** 2))
        later = tube.run({"p": p, "rho": 1.2}, steps=200).final["p"]
        assert np.isclose(later.sum(), p.sum())  # no air leaves
    """

    boundary: Boundary = "zero"
    location: Location | None = None
    unit: str = ""
    axes: tuple[int, ...] | None = None
    region: NDArray[np.bool_] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        rules_of(self.boundary)
        if self.axes is not None:
            known = isinstance(self.axes, (tuple, list)) and all(type(axis) is int and 0 <= axis < MAX_DIMENSIONS for axis in self.axes)
            if not known or list(self.axes) != sorted(set(self.axes)):
                raise ShapeError(
                    f"axes = {shown(self.axes)}, expected axes of the grid in increasing order; write it like (1,), or () for a number"
                )
            object.__setattr__(self, "axes", tuple(self.axes))
        if self.location is not None and (not isinstance(self.location, (tuple, list)) or not self.location):
            raise ShapeError(
                f"location = {shown(self.location)}, expected 0 (centre) or 1 (upper face) for each axis; write it like (0, 1)"
            )
        if self.region is not None:
            region = np.asarray(self.region)
            if region.dtype != np.bool_:
                raise ShapeError(f"region = {shown(self.region)}, expected True or False for each cell of the grid; compare, as in x < 10")
            region = region.copy()
            region.flags.writeable = False
            object.__setattr__(self, "region", region)
        instance("unit", self.unit, str, "a text", "write it like 'm/s'")
        if _UNFINISHED.search(self.unit) or self.unit.count("(") != self.unit.count(")"):
            raise ParameterError(f"unit = {shown(self.unit)}, expected a whole unit, such as 'kg/m³' or 'W/(m K)'; complete it")


class Group(Variable):
    """Several fields that a step has as one argument. `Vector` and `SymmetricTensor` are its kinds.

    Attributes:
        layout: its components.
        parts: the field of each component.
    """

    layout: Layout
    parts: Mapping[str, Variable]

    def _declare(self, layout: Layout, places: Mapping[str, Location], boundary: object, unit: str, region: object) -> None:
        def own(what: str, value: object, key: str) -> Any:
            if not isinstance(value, Mapping):
                return value
            if set(value) != set(layout.keys):
                raise ShapeError(
                    f"{what} of {', '.join(map(str, value)) or 'no component'}, expected {', '.join(layout.keys)}; give one for each"
                )
            return value[key]

        parts = {key: Variable(own("boundary", boundary, key), places[key], unit, region=own("region", region, key)) for key in layout.keys}
        for name, value in {"layout": layout, "parts": parts, "unit": unit}.items():
            object.__setattr__(self, name, value)

    def __getitem__(self, index: str | tuple[Index, ...]) -> Variable:
        """A component, by its letters."""
        return self.parts[self.layout.key(type(self).__name__, *index)]

    def fields(self, name: str) -> dict[str, Variable]:
        """Its components, by their names as fields."""
        return {layout_name: self.parts[key] for key, layout_name in self.layout.names(name).items()}

    __eq__, __hash__ = object.__eq__, object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.parts)})"


@dataclass(frozen=True)
class Profile:
    """A given function of one coordinate, such as a damping profile. It is not differentiated.

    Attributes:
        axis: the axis along which it varies.
        values: shape (cells along `axis`,). Outside the grid the end values continue.
        location: 0: values at centres, 1: at upper faces.

    Raises:
        ShapeError: by the simulation, for values that are not one a cell.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian

        class Lit(ds.Equation):
            # A ground that the sun heats more at the equator than at the poles.

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt
                self.states = {"T": ds.Variable("mirror", unit="K")}
                self.profiles = {"sun": ds.Profile(0, np.cos(np.radians(grid.coordinates(0))))}

            def step(self, T, sun):
                return {"T": T + self.dt * (sun + laplacian(T))}

        grid = ds.Grid((18, 36), spacing=10.0, origin=(-85.0, 5.0))
        T = ds.Simulation(Lit(grid, dt=1.0)).run({"T": np.zeros(grid.shape)}, steps=20).final["T"]
        assert T[9, 0] > T[0, 0]
    """

    axis: int
    values: Array
    location: int = 0

    def __post_init__(self) -> None:
        whole("axis of a profile", self.axis, 0, MAX_DIMENSIONS - 1, "give the axis along which it varies", ShapeError)
        whole("location of a profile", self.location, 0, 1, "give 0 for centres or 1 for upper faces", ShapeError)
        real_array("values of a profile", self.values)

    def extended(self, values: Array, halo: int) -> Array:
        """The profile's `values` with `halo` more at both ends."""
        return np.pad(values, halo, mode="edge")

    def after_one_more(self) -> Profile:
        """The profile along the same axis where one more comes before it."""
        return replace(self, axis=self.axis + 1)


KINDS: Kinds[Equation] = Kinds(
    "equation", elsewhere={"boundary": "an argument of Variable; write states = {'u': Variable(boundary)}, of each field"}
)
"""The class of each kind of equation that has a name."""


class Equation(ABC):
    """A partial differential equation with its time step, which is written once with symbolic fields.

    A subclass sets the attributes below and writes `step`, and `coefficients` if the step uses derived fields. Both are
    called with symbols by argument name: states, parameters (in `coefficients` only), coefficients, profiles, forcings, series;
    an argument `**others` receives all others. A `step` may also have the arguments `t`, the time in seconds at its beginning, and `n`,
    its number.

    A subclass may name its kind, `class Fisher(Equation, kind="fisher")`. Then scenes take it by this name, with the arguments of the class
    as keys.

    Raises:
        ParameterError: the kind is no identifier, or another equation has it.

    Attributes:
        grid: the grid.
        dt: time step, in seconds unless `time_unit` says otherwise.
        states: the fields that a step advances: name -> `Variable`, or a group of them, `Vector` or `SymmetricTensor`. Once set, the
            attribute has the components of each group by their own names; so have parameters, initials, series and forcings.
        parameters: given fields, which can be differentiated for.
        forcings: names of point-source terms. A step is linear in them. A dict of groups, {"f": Vector("zx")}, names their components.
        groups: the groups that were declared, by name.
        series: values given for each time step, such as a control or values at a side, which can be differentiated for. They are numbers
            unless their `Variable` has axes.
        profiles: given functions of one coordinate.
        uniform: fields among these inputs for which one number may be given, that of all cells.
        initials: the arguments of `initial`, if it is overridden. One may have the name of a state, as the user gives it: `initial` must
            not change a state that it gave itself, which a further run starts from.
        coefficient_boundaries: rules of coefficients whose rule is not "zero".
        stable_dt_power: the stable time step is proportional to this power of the size of a cell: 1 for waves, 2 for diffusion. A scene
            takes the time step of its data from it, which it makes on a finer grid.
        in_cells: arguments of the constructor that count cells, such as the width of a sponge. A scene takes more of them on a finer grid.
        positive: the direction, "up" or "down", in which inputs that are heights or depths count, such as {"z": "up"} of a bed, as the
            attribute of the CF conventions. A scene refuses a file that differs.
        time_unit: unit of `dt`, for texts and figures. In units of your own choice it may be a text such as "lengths / c", or "".
        speed: the parameter that is the speed of the fastest waves; "": there is none. A scene tunes the absorbing layer for it.
        unstable: what to look at, in a sentence, when a run is no longer finite; "": nothing that only this equation has.
        steady: whether one step gives the solution of a steady problem, see `Steady`.
        optional: fields that only some arguments of the constructor give, for errors about unknown names: name -> these arguments, such as
            {"manning": 'drag = "manning"'}. A name may be a regular expression, in which {side}, {axis} and {velocity} stand for the names
            that those of the grid have: "low_x", "x", "u".

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian

        class Fisher(ds.Equation):
            # A population that spreads and grows: uₜ = D ∇²u + r u (1 - u).

            def __init__(self, grid, dt, D=0.01):
                self.grid, self.dt, self.D = grid, dt, D
                self.states = {"u": ds.Variable("mirror")}
                self.parameters = {"r": ds.Variable("mirror", unit="1/s")}

            def step(self, u, r):
                return {"u": u + self.dt * (self.D * laplacian(u) + r * u * (1 - u))}

        grid = ds.Grid((40,), spacing=0.1)
        front = ds.Simulation(Fisher(grid, dt=0.1))
        start = {"u": np.where(grid.coordinates(0) < 0.5, 1.0, 0.0), "r": np.full(40, 0.5)}
        value, gradient = front.value_and_grad(lambda end: end.final["u"].sum(), start, steps=100)
        assert gradient["r"].shape == (40,) and gradient["r"].sum() > 0  # faster growth, more of them
    """

    grid: Grid
    dt: float
    states: Mapping[str, Variable]
    parameters: Mapping[str, Variable] = {}
    forcings: Collection[str] = ()
    series: Mapping[str, Variable] = {}
    profiles: Mapping[str, Profile] = {}
    uniform: tuple[str, ...] = ()
    initials: Mapping[str, Variable] = {}
    coefficient_boundaries: Mapping[str, Boundary] = {}
    stable_dt_power: float = 1.0
    in_cells: tuple[str, ...] = ()
    positive: Mapping[str, str] = {}
    time_unit: str = "s"
    speed: str = ""
    unstable: str = ""
    steady: bool = False
    groups: Mapping[str, Group] = {}
    optional: Mapping[str, str] = {}

    def __init_subclass__(cls, kind: str | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        KINDS.enter(cls, kind)
        for name in _DECLARED & vars(cls).keys():
            value, groups = _apart(name, getattr(cls, name))
            if groups:
                setattr(cls, name, value)
                cls.groups = {**cls.groups, **groups}

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _DECLARED:
            value, groups = _apart(name, value)
            if groups:
                object.__setattr__(self, "groups", {**self.groups, **groups})
        object.__setattr__(self, name, value)

    @property
    def component_names(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the components of each vector or tensor, by its own name."""
        return {name: tuple(group.fields(name)) for name, group in self.groups.items()}

    @abstractmethod
    def step(self, *args: Any, **fields: Any) -> dict[str, Symbol]:
        """The states one step later."""

    def coefficients(self, *args: Any, **fields: Any) -> dict[str, Symbol]:
        """Fields that the step uses, computed once from the parameters. The default returns the parameters themselves."""
        raise NotImplementedError

    def initial(self, *args: Any, **fields: Any) -> dict[str, Symbol]:
        """The states before the first step, from `initials` and the coefficients. By default the user gives them as inputs."""
        raise NotImplementedError

    def check(self, parameters: Mapping[str, Array]) -> None:
        """Raise if the parameters are not physical or `dt` is not stable for them."""

    def check_series(self, parameters: Mapping[str, Array], series: Mapping[str, Array]) -> None:
        """Raise if values for each step, (steps, cells along their axes), are not physical, or `dt` is not stable for them.

        `parameters` has the inputs for initial states, too.
        """

    def check_start(self, parameters: Mapping[str, Array], states: Mapping[str, Array]) -> None:
        """Raise if the states before the first step are not physical, or `dt` is not stable for them."""

    def check_end(self, parameters: Mapping[str, Array], final: Mapping[str, Array]) -> None:
        """Raise if a run went where `dt` is not stable. `final` has the states at its end, which are finite."""

    def still(self, parameters: Mapping[str, Array], states: Mapping[str, Array]) -> str:
        """Why no state can ever change in the cells of the arrays, and what to correct; "" if one can. The default: "".

        A run in which all cells are still warns with this text. In domains each process asks for its own cells.
        """
        return ""

    def cell_lengths(self) -> tuple[float, ...]:
        """Distance of cells along each axis in the middle of the grid, m. Penalties of a scene use it. The default: the grid's spacing."""
        return self.grid.spacing

    def silent(self, parameters: Mapping[str, Array]) -> Mapping[str, NDArray[np.bool_]]:
        """Cells where the states never change, such as {"land": H <= 0}. A scene refuses receivers there. The default: none.

        Args:
            parameters: values of the inputs over the cells.
        """
        return {}

    def waiting(self, inputs: Mapping[str, Array], wrt: Collection[str]) -> Mapping[str, NDArray[np.bool_]]:
        """Cells where the states depend on none of the inputs `wrt` until something reaches them, such as {"dry land": eta <= z}.

        A scene refuses a run in which nothing reaches any receiver, before its gradient is compiled. The default: none.

        Args:
            inputs: parameters and initial states over the cells.
            wrt: inputs that are differentiated for.
        """
        return {}


def option_of(equation: Equation, name: str) -> str:
    """The arguments of an equation's constructor with which it has a field of this name; "" if none is known to give it."""
    if name in equation.optional:
        return equation.optional[name]
    ndim = equation.grid.ndim
    letters, velocities = "zyx"[-ndim:], "uvw"[:ndim]
    places = {"side": f"(low|high)_[{letters}]", "axis": f"[{letters}]", "velocity": f"[{velocities}]"}
    known = {each.lower() for each in (*equation.states, *equation.parameters, *equation.series, *equation.forcings)}
    if name.lower() in known:  # it is misspelt
        return ""
    matching = (option for pattern, option in equation.optional.items() if re.fullmatch(pattern.format(**places), name))
    return next(matching, "")


def hands_on(equation: Equation) -> bool:
    """True if the parameters are the coefficients: neither the class nor the equation itself has a `coefficients` of its own."""
    return getattr(equation.coefficients, "__func__", None) is Equation.coefficients


_DECLARED = {"states", "parameters", "initials", "series", "forcings"}
"""Attributes that may declare groups."""


def _apart(what: str, declared: Any) -> tuple[Any, dict[str, Group]]:
    """The declared fields, with the components in place of each group, and the groups. Without groups they are returned as they are."""
    groups = {name: one for name, one in declared.items() if isinstance(one, Group)} if isinstance(declared, Mapping) else {}
    if not groups:
        return declared, {}
    fields: dict[str, Any] = {}
    for name, one in declared.items():
        parts = one.fields(name) if isinstance(one, Group) else {name: one}
        if twice := fields.keys() & parts.keys():
            raise TraceError(f"{what}: expected each field once, found {', '.join(sorted(twice))} twice, also in a group; rename one")
        fields |= parts
    return tuple(fields) if what == "forcings" else fields, groups
