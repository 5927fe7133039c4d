"""Functions of values at one cell, under the names of NumPy and SciPy. Arguments and results are `Symbol`s; all but one may be numbers.

Elementary functions are those of `diffsim.elementwise`. A function with an example of its own is written out; `named` makes the others.
"""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent

import numpy as np

from diffsim.elementwise.function import Function
from diffsim.elementwise.table import FUNCTIONS
from diffsim.errors import TraceError
from diffsim.expr.symbol import Operand, Several, Symbol


def where(condition: Symbol, a: Operand, b: Operand) -> Symbol:
    """a where the condition holds, b elsewhere. The condition is not differentiated.

    Args:
        condition: a comparison of expressions of the step, or several joined by `& | ~`.
        a: an expression or a number.
        b: likewise.

    Returns:
        An expression at the same place.

    Raises:
        TraceError: the condition is no condition of the step.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import clip, laplacian, maximum, where

        class Melting(ds.Equation):
            # Ice and water: each conducts by its own diffusivity, and neither falls below 250 K nor boils.

            states = {"T": ds.Variable("mirror", unit="K")}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, T):
                frozen = (T < 273.15) & ~(T < 0)
                kappa = maximum(where(frozen, 1.1e-6, 1.4e-7), 1e-7)
                return {"T": clip(T + self.dt * kappa * laplacian(T), 250.0, 373.15)}

        start = np.where(np.arange(20) < 10, 240.0, 280.0)
        T = ds.Simulation(Melting(ds.Grid((20,), spacing=0.01), dt=10.0), precision="f64").run({"T": start}, steps=20).final["T"]
        assert 250.0 <= T.min() and T.max() < 280.0 + 1e-9
    """
    return field_of(condition, "where").combine("select", a, b)


def minimum(a: Operand, b: Operand) -> Symbol:
    """The smaller of two values, NaN where one of them is. A tie gives the whole derivative to `a`.

    Args:
        a: an expression of the step.
        b: another one at the same place, or a number; one of the two may be a number.

    Returns:
        An expression at the same place.

    Raises:
        TraceError: neither is an expression of the step.
    """
    return lifted(a, b, "minimum").combine("min", b)


def maximum(a: Operand, b: Operand) -> Symbol:
    """The larger of two values, NaN where one of them is. A tie gives the whole derivative to `a`.

    Arguments, result and errors are those of `minimum`.
    """
    return lifted(a, b, "maximum").combine("max", b)


def clip(f: Symbol, low: Operand, high: Operand) -> Symbol:
    """f between two bounds, `high` where they cross; at a bound the derivative is that inside.

    Args:
        f: an expression of the step.
        low: the lower bound, an expression or a number.
        high: the upper bound, likewise.

    Returns:
        An expression at the same place.

    Raises:
        TraceError: `f` is no expression of the step.
    """
    return minimum(maximum(field_of(f, "clip"), low), high)


def sign(f: Symbol) -> Symbol:
    """1 where f > 0, -1 where f < 0, else 0; the derivative is 0.

    Arguments, result and errors are those of `sqrt`.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import floor, minimum, sign

        class Sliding(ds.Equation):
            # A block on a belt: dry friction against the velocity, and how many whole metres it has gone.

            states = {"v": ds.Variable(unit="m/s"), "x": ds.Variable(unit="m"), "metres": ds.Variable()}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, v, x, metres):
                slower = v - sign(v) * minimum(self.dt * 2.0, abs(v))
                return {"v": slower, "x": x + self.dt * v, "metres": floor(x + self.dt * v)}

        blocks = ds.Simulation(Sliding(ds.Grid((3,), spacing=1.0), dt=0.01), precision="f64")
        found = blocks.run({"v": np.array([-3.0, 0.0, 3.0])}, steps=300).final
        assert (found["v"] == 0).all() and np.allclose(found["x"], [-2.25, 0.0, 2.25], atol=0.02)  # v² / (2 · 2 m/s²)
        assert (found["metres"] == [-3, 0, 2]).all()
    """
    f = field_of(f, "sign")
    return where(f > 0, 1, where(f < 0, -1, 0))


def floor(f: Symbol) -> Symbol:
    """The largest whole number that is at most f. The derivative is 0.

    Arguments, result and errors are those of `sqrt`.
    """
    return field_of(f, "floor").combine("floor")


def sqrt(f: Symbol) -> Symbol:
    """The square root of a field, cell by cell.

    Args:
        f: an expression of the step, of any shape and location.

    Returns:
        An expression at the same place.

    Raises:
        TraceError: `f` is no expression of the step.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import arccos, arcsin, arctan2, cos, sqrt, tan

        class Current(ds.Equation):
            # Properties of a current: its speed, its direction, and the refraction of light of 45 degrees from above.

            states = {name: ds.Variable() for name in ("u", "v", "speed", "bearing", "slope", "refracted", "zenith")}

            def __init__(self, grid):
                self.grid, self.dt = grid, 1.0

            def step(self, u, v, **others):
                speed, bearing = sqrt(u**2 + v**2), arctan2(v, u)
                refracted = arcsin(np.sin(np.pi / 4) / (1.33 + 0.001 * speed))
                found = {"speed": speed, "bearing": bearing, "slope": tan(bearing), "refracted": refracted}
                return {"u": u, "v": v, "zenith": arccos(cos(refracted))} | found

        rng = np.random.default_rng(1)
        u, v = rng.uniform(0.5, 1.0, (2, 10))
        found = ds.Simulation(Current(ds.Grid((10,), spacing=1.0)), precision="f64").run({"u": u, "v": v}, steps=1).final
        assert np.allclose(found["speed"], np.hypot(u, v)) and np.allclose(found["bearing"], np.arctan2(v, u))
        assert np.allclose(found["slope"], v / u) and np.allclose(found["zenith"], found["refracted"])
    """
    return field_of(f, "sqrt").combine("sqrt")


def exp(f: Symbol) -> Symbol:
    """e to the power of a field, cell by cell.

    Arguments, result and errors are those of `sqrt`.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import exp, laplacian

        class Flame(ds.Equation):
            # Fuel that burns by the law of Arrhenius, with temperatures in units of that of the flame.

            states = {"T": ds.Variable("mirror"), "fuel": ds.Variable("mirror")}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, T, fuel):
                burnt = self.dt * 50.0 * fuel * exp(-4.0 / T)
                return {"T": T + self.dt * laplacian(T) + burnt, "fuel": fuel - burnt}

        flame = ds.Simulation(Flame(ds.Grid((60,), spacing=1.0), dt=0.1), precision="f64")
        start = {"T": np.where(np.arange(60) < 5, 1.2, 0.2), "fuel": np.ones(60)}
        found = flame.run(start, steps=200).final
        assert found["fuel"][10] < 0.01 < 0.9 < found["fuel"][-1]  # the front has passed cell 10
    """
    return field_of(f, "exp").combine("exp")


def log(f: Symbol) -> Symbol:
    """The natural logarithm of a field, cell by cell.

    Arguments, result and errors are those of `sqrt`.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian, log

        class Demixing(ds.Equation):
            # Two liquids: the flow follows the slope of the chemical potential, log(c / (1 - c)) + 3 (1 - 2 c).

            states = {"c": ds.Variable("mirror")}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, c):
                potential = ds.stage(log(c / (1 - c)) + 3 * (1 - 2 * c) - laplacian(c), boundary="mirror")
                return {"c": c + self.dt * 0.1 * laplacian(potential)}

        c = 0.5 + 0.01 * np.random.default_rng(1).standard_normal((24, 24))
        found = ds.Simulation(Demixing(ds.Grid((24, 24), spacing=1.0), dt=0.1), precision="f64").run({"c": c}, steps=2000).final["c"]
        assert found.std() > 3 * c.std() and np.isclose(found.mean(), c.mean())
    """
    return field_of(f, "log").combine("log")


def sin(f: Symbol) -> Symbol:
    """The sine of a field in radians, cell by cell.

    Arguments, result and errors are those of `sqrt`.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian, sin

        class SineGordon(ds.Equation):
            # A line of coupled pendulums, uₜₜ = uₓₓ - sin(u).

            states = {"u": ds.Variable("mirror"), "u_prev": ds.Variable("mirror")}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, u, u_prev):
                return {"u": 2 * u - u_prev + self.dt**2 * (laplacian(u) - sin(u)), "u_prev": u}

        grid = ds.Grid((200,), spacing=0.1)
        kink = 4 * np.arctan(np.exp(grid.coordinates(0) - 10.0))  # a solution that does not move
        found = ds.Simulation(SineGordon(grid, dt=0.05), precision="f64").run({"u": kink, "u_prev": kink}, steps=200).final["u"]
        assert np.allclose(found, kink, atol=0.01)
    """
    return field_of(f, "sin").combine("sin")


def sinh(f: Symbol) -> Symbol:
    """The hyperbolic sine of a field, cell by cell.

    Arguments, result and errors are those of `sqrt`.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import cosh, laplacian, sinh, tanh

        class DoubleLayer(ds.Equation):
            # Ions beside a charged wall: the potential with φₓₓ = sinh φ (Gouy and Chapman), and the ions, of which there are 2 cosh φ.

            def __init__(self, grid):
                self.grid, self.dt = grid, 1.0
                sides = ((ds.Dirichlet(2.0), ds.Dirichlet(0.0)),)
                self.states = {"phi": ds.Variable(sides), "ions": ds.Variable(), "quarter": ds.Variable()}

            def step(self, phi, ions, quarter):
                phi = ds.newton(lambda x: laplacian(x) - sinh(x), guess=phi)
                return {"phi": phi, "ions": 2 * cosh(phi), "quarter": tanh(phi / 4)}

        grid = ds.Grid((200,), spacing=0.05)
        found = ds.Simulation(DoubleLayer(grid), precision="f64").run({"phi": np.zeros(200)}, steps=1).final
        x = grid.coordinates(0) + 0.025
        assert np.allclose(found["quarter"], np.tanh(0.5) * np.exp(-x), atol=1e-3)  # the closed form
    """
    return field_of(f, "sinh").combine("sinh")


def arctan(f: Symbol) -> Symbol:
    """The angle in radians whose tangent is a field, -π/2 to π/2, cell by cell.

    Arguments, result and errors are those of `sqrt`.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import arctan, diff_centred

        class Steepness(ds.Equation):
            # The angle of a terrain.

            states = {"h": ds.Variable(ds.Extrapolate(1), unit="m")}

            def __init__(self, grid):
                self.grid, self.dt = grid, 1.0

            def step(self, h):
                return {"h": arctan(diff_centred(h, 0))}

        grid = ds.Grid((30,), spacing=10.0)
        found = ds.Simulation(Steepness(grid), precision="f64").run({"h": 0.2 * grid.coordinates(0)}, steps=1).final["h"]
        assert np.allclose(found, np.arctan(0.2))
    """
    return field_of(f, "arctan").combine("arctan")


def arctan2(y: Operand, x: Operand) -> Symbol:
    """The angle of the point (x, y), -π to π.

    Args:
        y: an expression of the step, or a number.
        x: likewise; one of the two may be a number.

    Returns:
        The angle in radians, an expression at the same place.

    Raises:
        TraceError: neither is an expression of the step.
    """
    return lifted(y, x, "arctan2").combine("arctan2", x)


def field_of(value: Symbol, what: str) -> Symbol:
    """The value if it is a field, or an expression of fields, of a step."""
    if isinstance(value, Several):
        raise TraceError(f"{what}() of a vector or a tensor, expected one field of the step; take its components, as in v['x']")
    if not isinstance(value, Symbol):
        raise TraceError(f"{what}() of a {type(value).__name__}, expected a field of the step; compute numbers with math or NumPy")
    return value


def lifted(a: Operand, b: Operand, what: str) -> Symbol:
    """The first operand as a symbol, where only the second is one."""
    return a if isinstance(a, Symbol) else field_of(b, what)._lift(a)  # type: ignore[arg-type]


_DOCUMENT = """{meaning} Cell by cell.

Args:
{arguments}

Returns:
    An expression at the same place.

Raises:
    TraceError: {refused}.

Example:
{example}
"""
_EXAMPLE = """
import numpy as np{scipy}

import diffsim as ds
from diffsim.expr import {name}

class Applied(ds.Equation):
    # The function of a field.

    states = {{"f": ds.Variable(), "found": ds.Variable()}}

    def __init__(self, grid):
        self.grid, self.dt = grid, 1.0

    def step(self, f, found):
        return {{"f": f, "found": {name}({given})}}

f = np.linspace({low}, {high}, 5)
found = ds.Simulation(Applied(ds.Grid((5,), spacing=1.0)), precision="f64").run({{"f": f}}, steps=1).final["found"]
assert np.allclose(found, {module}.{name}({given}), rtol=1e-14)
"""


def named(name: str, shown_at: str | None = None) -> Callable[..., Symbol]:
    """A function of the table of elementary functions, for fields.

    Args:
        name: in the table.
        shown_at: the function whose example uses it; None: it gets an example of its own.
    """
    function = FUNCTIONS[name]

    def of_field(f: Symbol) -> Symbol:
        return field_of(f, name).combine(name)

    def of_fields(a: Operand, b: Operand) -> Symbol:
        return lifted(a, b, name).combine(name, b)

    wrapper: Callable[..., Symbol] = of_field if function.count == 1 else of_fields
    wrapper.__name__ = wrapper.__qualname__ = name
    wrapper.__doc__ = _document(function, shown_at)
    return wrapper


def _document(function: Function, shown_at: str | None) -> str:
    if function.count == 1:
        arguments, written, refused = ["f: an expression of the step, of any shape and location."], "f", "`f` is no expression of the step"
    else:
        arguments = ["a: an expression of the step.", "b: another one at the same place. One of a and b may be a number."]
        written, refused = "f, 0.5", "neither is an expression of the step"
    low = max(function.domain[0], -2.0) + 0.25
    own = _EXAMPLE.strip().format(
        name=function.name,
        given=written,
        low=low,
        high=min(function.domain[1] - 0.25, low + 3.5),
        module="np" if hasattr(np, function.name) else "scipy.special",
        scipy="" if hasattr(np, function.name) else "\nimport scipy.special",
    )
    example = own if shown_at is None else f"See `{shown_at}`."
    return _DOCUMENT.format(
        meaning=function.meaning, arguments=indent("\n".join(arguments), "    "), refused=refused, example=indent(example, "    ")
    )


cos, tan, arcsin, arccos = (named(name, "sqrt") for name in ("cos", "tan", "arcsin", "arccos"))
cosh, tanh = (named(name, "sinh") for name in ("cosh", "tanh"))
arccosh = named("arccosh")
arcsinh = named("arcsinh")
arctanh = named("arctanh")
cbrt = named("cbrt")
deg2rad = named("deg2rad")
erf = named("erf")
erfc = named("erfc")
exp2 = named("exp2")
expit = named("expit")
expm1 = named("expm1")
log10 = named("log10")
log1p = named("log1p")
log2 = named("log2")
rad2deg = named("rad2deg")
softplus = named("softplus")
