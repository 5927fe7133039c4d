"""Boundary rules: the values of a field outside the grid, one rule for each side.

A rule defines the values of cells beyond a side (ghost cells): a combination of cells inside on the same line, plus a given value times a
weight. Everything else is derived from that, here and in the kernels: filling a halo, its transpose, and its tangent. To add a rule,
write a subclass of `Rule` with a `kind`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

from diffsim.base.arguments import number, whole
from diffsim.base.kinds import Kinds
from diffsim.base.messages import shown
from diffsim.errors import ParameterError, ShapeError

Value: TypeAlias = float | str
"""The given value of a rule: a number, or the name of a coefficient, a profile or a series of the equation."""

Combination: TypeAlias = tuple[tuple[tuple[int, float], ...], float]
"""Cells inside, counted from the side, with their weights; and the weight of the rule's value."""

HIGHEST_EXTRAPOLATION = 3
"""Highest order. It reads one cell more, and kernels allow cells beyond a side to depend on four."""


@dataclass(frozen=True)
class Place:
    """The side on which a rule acts.

    Attributes:
        axis: the axis across the side.
        high: whether it is the side after the last cell.
        face: whether the field's values lie on the faces across this axis. The last one then lies on the high side itself, and none on
            the low side.
        sizes: the width of all cells along the axis, or of each, from the side inward; cells outside are mirror images of those inside.
    """

    axis: int
    high: bool
    face: bool = False
    sizes: float | tuple[float, ...] = 1.0

    def image(self, q: int) -> int:
        """The cell as far inside as the ghost cell `q` is outside; -1: the ghost cell lies on the side itself."""
        return q if not self.face else q + 1 if self.high else q - 1

    def inside(self, p: int) -> float:
        """Distance from the side to the value of cell `p` inside; 0 for p = -1."""
        if p < 0:
            return 0.0
        whole = p if not self.face or self.high else p + 1
        if isinstance(self.sizes, tuple):
            return sum(self.sizes[:whole]) + (0.0 if self.face else 0.5 * self.sizes[whole])
        return (whole if self.face else whole + 0.5) * self.sizes

    def outside(self, q: int) -> float:
        """Distance from the side to the ghost cell `q`."""
        return self.inside(self.image(q))


KINDS: Kinds[Rule] = Kinds("rule")
"""The class of each kind of rule that has a name."""


class Rule(ABC):
    """The values of a field beyond one side of the grid.

    A subclass is a frozen dataclass. It may name its kind, `class Slip(Rule, kind="slip")`. Then scenes take it by this name, with the
    arguments of the class as keys. If all its arguments have defaults, so do equations: `Variable("slip")`.

    Raises:
        ParameterError: the kind is no identifier, or another rule has it.
    """

    def __init_subclass__(cls, kind: str | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        KINDS.enter(cls, kind)

    @property
    def given(self) -> Value:
        """Its given value; 0 if it has none."""
        return 0.0

    @property
    def named(self) -> bool:
        """True if its value is the name of an input."""
        return isinstance(self.given, str)

    @property
    def joins(self) -> bool:
        """True if it joins the two ends of an axis. Then either both sides have it, or none."""
        return False

    @property
    def low_faces(self) -> str:
        """The state with the values on the low side of a field on faces, none of which the field itself has; "" if there is none."""
        return ""

    def unit(self, field: str) -> str:
        """Unit of its given value, from the unit of the field; "" if that does not tell."""
        return ""

    @abstractmethod
    def ghost(self, q: int, n: int, place: Place) -> Combination:
        """The value of ghost cell `q` on a line of `n` cells; 0 is the first cell beyond the side."""

    def edge(self, now: Any, place: Place, dt: float, given: Any) -> Any:
        """The next value of the outermost cell of the grid, which replaces that of the step; None: the step's value is used.

        Args:
            now: the field before the step, a symbol; None for a stage of a step.
            place: the side.
            dt: time step.
            given: the value of the rule, a number or a symbol.
        """
        return None


@dataclass(frozen=True)
class Zero(Rule, kind="zero"):
    """0 beyond the side: "zero"."""

    def ghost(self, q: int, n: int, place: Place) -> Combination:
        return (), 0.0


@dataclass(frozen=True)
class Periodic(Rule, kind="periodic"):
    """The other end of the grid: "periodic". Both sides of an axis have it, or none."""

    @property
    def joins(self) -> bool:
        return True

    def ghost(self, q: int, n: int, place: Place) -> Combination:
        return ((n - 1 - q, 1.0),), 0.0


@dataclass(frozen=True)
class Antiperiodic(Rule, kind="antiperiodic"):
    """Minus the other end of the grid, u(x + L) = -u(x). Both sides of an axis have it, or none.

    Example:
        import numpy as np

        import diffsim as ds

        # Half a wave fits into the grid: it decays as the whole wave in a periodic grid of twice the length.
        grid = ds.Grid((20,), spacing=0.05)
        half = ds.Simulation(ds.solvers.Heat(grid, dt=0.1, boundary=ds.Antiperiodic()), precision="f64")
        T = np.cos(np.pi * grid.coordinates(0))
        later = half.run({"kappa": np.full(20, 0.01), "T": T}, steps=50).final["T"]
        rate = 4 * 0.01 / 0.05**2 * np.sin(np.pi * 0.05 / 2) ** 2
        assert np.allclose(later, T * (1 - 0.1 * rate) ** 50)
    """

    @property
    def joins(self) -> bool:
        return True

    def ghost(self, q: int, n: int, place: Place) -> Combination:
        return ((n - 1 - q, -1.0),), 0.0


class Condition(Rule):
    """a u + b ∂u/∂n = value on the side, n pointing outward, to second order.

    A ghost cell and the cell as far inside have the mean and the slope of the side between them. Where the values lie on faces, the last
    one lies on the high side. With b = 0 the rule gives it, otherwise the step computes it. None lies on the low side, so the
    value there follows from the two cells next to it.
    """

    @property
    @abstractmethod
    def weights(self) -> tuple[float, float]:
        """a and b."""

    def ghost(self, q: int, n: int, place: Place) -> Combination:
        a, b = self.weights
        image, distance = place.image(q), place.outside(q)
        if image < 0:
            slope = _one_sided([place.inside(p) for p in range(min(n, 2))])
            on_side = a + b * slope[0]
            return tuple((cell, -b * weight / on_side) for cell, weight in enumerate(slope[1:]) if b), 1 / on_side
        half, across = a / 2, b / (2 * distance)
        total = half + across
        return ((image, (across - half) / total),), 1 / total

    def edge(self, now: Any, place: Place, dt: float, given: Any) -> Any:
        a, b = self.weights
        return given / a if place.face and place.high and not b else None


def _one_sided(distances: list[float]) -> tuple[float, ...]:
    """Weights of the outward slope on a side: of the value there, and of one or two cells at these distances from it."""
    near, *others = distances
    if not others:
        return 1 / near, -1 / near
    (far,) = others
    return 1 / near + 1 / far, -far / (near * (far - near)), near / (far * (far - near))


@dataclass(frozen=True)
class Dirichlet(Condition, kind="dirichlet"):
    """u = value on the side.

    Args:
        value (field): a number, or the name of an input (a coefficient, a profile or a series of the equation) that does not vary across
            the side.

    Raises:
        ParameterError: the value is neither a finite number nor the name of an input.

    Example:
        import numpy as np

        import diffsim as ds

        # A wall of 1 m that is held at 290 K inside and at 270 K outside, until its temperature no longer changes.
        grid = ds.Grid((20,), spacing=0.05)
        held = ((ds.Dirichlet(290.0), ds.Dirichlet(270.0)),)
        wall = ds.Simulation(ds.solvers.Heat(grid, dt=0.1, boundary=held), precision="f64")
        T = wall.run({"kappa": np.full(20, 0.01), "T": np.full(20, 280.0)}, steps=5000).final["T"]
        depth = grid.coordinates(0) + 0.025  # from the inner side to the centre of each cell, m
        assert np.allclose(T, 290.0 - 20.0 * depth, atol=0.01)
    """

    value: Value

    def __post_init__(self) -> None:
        _check_value("value of Dirichlet", self.value)

    @property
    def weights(self) -> tuple[float, float]:
        return 1.0, 0.0

    @property
    def given(self) -> Value:
        return self.value

    def unit(self, field: str) -> str:
        return field


@dataclass(frozen=True)
class Neumann(Condition, kind="neumann"):
    """∂u/∂n = flux on the side, n pointing out of the grid.

    Args:
        flux (field/grid): a number, or the name of an input, see `Dirichlet`.

    Raises:
        ParameterError: the flux is neither a finite number nor the name of an input.

    Example:
        import numpy as np

        import diffsim as ds

        # A rod that is heated at its low end; no heat passes the other one.
        grid = ds.Grid((20,), spacing=0.05)
        ends = ((ds.Neumann(100.0), ds.Neumann(0.0)),)  # K/m
        rod = ds.Simulation(ds.solvers.Heat(grid, dt=0.1, boundary=ends), precision="f64")
        T = rod.run({"kappa": np.full(20, 0.01), "T": np.zeros(20)}, steps=500).final["T"]
        assert np.isclose(T.sum() * 0.05, 0.01 * 100.0 * 500 * 0.1)  # kappa times slope times time: all heat that flowed in, K m
    """

    flux: Value

    def __post_init__(self) -> None:
        _check_value("flux of Neumann", self.flux)

    @property
    def weights(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def given(self) -> Value:
        return self.flux

    def unit(self, field: str) -> str:
        return f"{field}/m"


@dataclass(frozen=True)
class Robin(Condition, kind="robin"):
    """a u + b ∂u/∂n = value on the side, n pointing out of the grid.

    Args:
        a: of the sign of b, not both 0. Heat that leaves to air of temperature T: a = h, b = k, value = h T, with a heat transfer
            coefficient h and a conductivity k.
        b (grid): of the sign of a.
        value (field): of the sum, in the unit of the field times that of a; a number, or the name of an input, see `Dirichlet`.

    Raises:
        ParameterError: a or b is not a finite number, they differ in sign or are both 0, or the value is neither a number nor a name.

    Example:
        import numpy as np

        import diffsim as ds

        # A plate of conductivity 2 W/(m K) that loses heat to air of 280 K by 5 W/(m² K).
        grid = ds.Grid((20,), spacing=0.05)
        sides = (("mirror", ds.Robin(5.0, 2.0, 5.0 * 280.0)),)
        plate = ds.Simulation(ds.solvers.Heat(grid, dt=0.1, boundary=sides), precision="f64")
        T = plate.run({"kappa": np.full(20, 0.01), "T": np.full(20, 300.0)}, steps=20_000).final["T"]
        assert np.allclose(T, 280.0, atol=0.1)  # it has the temperature of the air at last
    """

    a: float
    b: float
    value: Value

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            number(f"{name} of Robin", getattr(self, name), "a finite number", math.isfinite, "correct it")
        if self.a * self.b < 0 or not (self.a or self.b):
            raise ParameterError(
                f"Robin has a = {self.a:g} and b = {self.b:g}, expected numbers of one sign, not both 0; "
                "correct the signs (n points outward)"
            )
        _check_value("value of Robin", self.value)

    @property
    def weights(self) -> tuple[float, float]:
        return float(self.a), float(self.b)

    @property
    def given(self) -> Value:
        return self.value


@dataclass(frozen=True)
class OddImage(Condition, kind="odd_image"):
    """The field inside, reflected about the side with a change of sign: a free surface for pressure, a wall for the velocity across it.

    Example:
        import numpy as np

        import diffsim as ds

        # A pressure pulse in water comes back from the free surface with the opposite sign.
        grid = ds.Grid((200,), spacing=5.0)
        column = ds.Simulation(ds.solvers.Acoustic(grid, dt=2e-3, order=4, boundary=((ds.OddImage(), "zero"),)))
        pulse = np.exp(-(((grid.coordinates(0) - 200.0) / 40.0) ** 2))
        start = {"c": np.full(200, 1500.0), "p": pulse, "p_prev": pulse}
        p = column.run(start, steps=100).final["p"]  # two halves of the pulse set out; that upwards is turned round after 0.13 s
        assert p.min() < -0.4
    """

    @property
    def weights(self) -> tuple[float, float]:
        return 1.0, 0.0


@dataclass(frozen=True)
class EvenImage(Condition, kind="mirror"):
    """The field inside, reflected about the side: no flux through it, "mirror".

    Example:
        import numpy as np

        import diffsim as ds

        # An insulated box keeps its heat.
        box = ds.Simulation(ds.solvers.Heat(ds.Grid((20,), spacing=0.05), dt=0.1, boundary=ds.EvenImage()), precision="f64")
        T = np.linspace(280.0, 300.0, 20)
        later = box.run({"kappa": np.full(20, 0.01), "T": T}, steps=200).final["T"]
        assert np.isclose(later.sum(), T.sum())
    """

    @property
    def weights(self) -> tuple[float, float]:
        return 0.0, 1.0


@dataclass(frozen=True)
class Extrapolate(Rule, kind="extrapolate"):
    """The polynomial through the cells next to the side continues beyond it.

    Args:
        order: of the polynomial, 0 to 3; 0: the last cell's value continues.

    Raises:
        ParameterError: an order other than 0 to 3.
        ShapeError: the grid has no more cells along the axis than `order`.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import diff_centred

        class Slope(ds.Equation):
            # A state that becomes the slope of a terrain, also in its outermost cells.

            states = {"h": ds.Variable(ds.Extrapolate(1), unit="m")}

            def __init__(self, grid):
                self.grid, self.dt = grid, 1.0

            def step(self, h):
                return {"h": diff_centred(h, 0)}

        grid = ds.Grid((30,), spacing=10.0)
        slope = ds.Simulation(Slope(grid)).run({"h": 0.2 * grid.coordinates(0)}, steps=1).final["h"]
        assert np.allclose(slope, 0.2, atol=1e-5)
    """

    order: int = 0

    def __post_init__(self) -> None:
        whole("order of Extrapolate", self.order, 0, HIGHEST_EXTRAPOLATION)

    def ghost(self, q: int, n: int, place: Place) -> Combination:
        if n <= self.order:
            raise ShapeError(
                f"Extrapolate({self.order}) along axis {place.axis} of {n} cells, expected at least {self.order + 1}; lower the order"
            )
        at, nodes = -place.outside(q), [place.inside(p) for p in range(self.order + 1)]
        weights = [math.prod((at - other) / (node - other) for other in nodes if other != node) for node in nodes]
        return tuple(enumerate(weights)), 0.0


@dataclass(frozen=True)
class Outflow(Rule, kind="outflow"):
    """Waves leave through the side with a given speed: ∂u/∂t + speed ∂u/∂n = 0 for the outermost cell of the grid.

    The first-order upwind difference replaces the step's value in that cell. Beyond it, the field is extrapolated linearly.

    Args:
        speed (grid/s): outward, at least 0; at most a cell a time step.

    Reference: Orlanski (1976), A simple boundary condition for unbounded hyperbolic flows, J. Comput. Phys. 21, 251-269,
        doi:10.1016/0021-9991(76)90023-1. Here with a given speed.

    Raises:
        ParameterError: the speed is negative, or moves more than a cell a step.

    Example:
        import numpy as np

        import diffsim as ds

        class Smoke(ds.Equation):
            # Smoke that the wind carries, by upwind differences: cₜ + w cₓ = 0.

            states = {"c": ds.Variable((("zero", ds.Outflow(2.0)),), unit="kg/m³")}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, c):
                return {"c": c - self.dt * 2.0 * (c - c.shifted(0, -1)) / self.grid.spacing[0]}

        grid = ds.Grid((50,), spacing=1.0)
        cloud = np.exp(-(((grid.coordinates(0) - 25.0) / 4.0) ** 2))
        c = ds.Simulation(Smoke(grid, dt=0.4)).run({"c": cloud}, steps=100).final["c"]
        assert abs(c).max() < 1e-3  # after 40 s it has left
    """

    speed: float

    def __post_init__(self) -> None:
        number("speed of Outflow", self.speed, "a number of at least 0", lambda x: 0 <= x < math.inf, "give the speed outward")

    def ghost(self, q: int, n: int, place: Place) -> Combination:
        return Extrapolate(min(1, n - 1)).ghost(q, n, place)

    def edge(self, now: Any, place: Place, dt: float, given: Any) -> Any:
        courant = self.speed * dt / (place.inside(1) - place.inside(0))
        if courant > 1:
            raise ParameterError(
                f"Outflow({self.speed:g}) along axis {place.axis} moves {courant:.3g} cells a step, expected at most 1; lower dt"
            )
        return None if now is None else now - courant * (now - now.shifted(place.axis, -1 if place.high else 1))


@dataclass(frozen=True)
class Open(Rule, kind="open"):
    """A side through which a fluid flows freely: ∂u/∂n = 0. On faces the step computes the velocity across the side, as inside.

    The field itself has the faces on a high side. Those on a low side are a state of their own, which has the location of the field and
    is named here: its entry at the first cell is the value on the side. The step need not mention it. Stages of the field come with stages
    of these values, and its next value with theirs.

    Args:
        state: the state with the values on the low side, for fields on faces.

    Raises:
        ParameterError: the name is no name of a state, or is missing where values lie on the faces of a low side.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import div, grad, laplacian

        class Outlets(ds.Equation):
            # A velocity without divergence in a channel that is open at both ends.

            def __init__(self, grid):
                self.grid, self.dt = grid, 1.0
                wall, both = ds.Dirichlet(0.0), (ds.Open("vx_low"), ds.Open("vx_low"))
                self.states = {"v": ds.Vector("yx", (wall, both)), "vx_low": ds.Variable(location=(0, 1))}

            def step(self, v):
                ends = (ds.Dirichlet(0.0), ds.Dirichlet(0.0))  # of the pressure
                return {"v": v - grad(ds.solve(laplacian, div(v), boundary=("mirror", ends)))}

        grid = ds.Grid((6, 9), spacing=1.0)
        start = {"vx": np.random.default_rng(0).random((6, 9)), "vx_low": np.ones((6, 9))}
        found = ds.Simulation(Outlets(grid), precision="f64").run(start, steps=1).final
        out = np.diff(found["vx"], axis=1, prepend=found["vx_low"][:, :1]) + np.diff(found["vy"], axis=0, prepend=0.0)
        assert abs(out).max() < 1e-12 and abs(found["vx_low"][:, 0]).max() > 0.1
    """

    state: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.state, str) or (self.state and not self.state.isidentifier()):
            raise ParameterError(f"state of Open = {shown(self.state)}, expected the name of a state; give one")

    @property
    def low_faces(self) -> str:
        return self.state

    def ghost(self, q: int, n: int, place: Place) -> Combination:
        image = place.image(q)
        if image >= 0:
            return ((image, 1.0),), 0.0
        if not self.state:
            raise ParameterError(
                f"Open() at the low side of axis {place.axis} of a field on faces, expected the state with the values on that side, where "
                "the field has none; declare one at the same location and name it, as in Open('vx_low')"
            )
        return (), 1.0


def _check_value(name: str, value: Any) -> None:
    if not (isinstance(value, str) and value.isidentifier()):
        number(name, value, "a finite number, or the name of an input", math.isfinite, "give one")
