"""Methods that use the rate or the state of the step before."""

from __future__ import annotations

from diffsim.expr.symbol import Symbol
from diffsim.integrators.states import Project, Rate, State, Time, matching, moved, projected, rates


def adams_bashforth2(
    rate: Rate, state: State, previous_rate: State, dt: Time, project: Project | None = None
) -> tuple[dict[str, Symbol], dict[str, Symbol]]:
    """The second-order method of Adams and Bashforth: u + dt (3 f(u) - f(u_prev)) / 2, with one evaluation of the rate.

    The rate of the step before is a state of the equation. Let `initial` give it the rate of the initial state: then the first step is
    an Euler step, and the result of many steps is of second order. (Left out of the inputs it starts at 0, which makes the first step
    half as long again.)

        def step(self, u, u_rate):
            state, rates = adams_bashforth2(self.rate, {"u": u}, {"u": u_rate}, self.dt)
            return {"u": state["u"], "u_rate": rates["u"]}

    Args:
        rate: gives du/dt for each field of the state.
        state: fields of the step.
        previous_rate: the rate of each, one step earlier.
        dt: time step, seconds, see `euler`; the same for all steps.
        project: brings the state back to a constraint, see `euler`. The rates are those before it.

    Returns:
        The state one step later, and the rate at this one, to be given to the next step.

    Raises:
        TraceError: the rate, or the previous one, is not that of each field of the state.

    Reference: Hairer, Nørsett and Wanner (1993), section III.1, doi:10.1007/978-3-540-78862-1.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian
        from diffsim.integrators import adams_bashforth2

        class Diffusion(ds.Equation):
            # Tₜ = κ ∇²T, whose rate is evaluated once a step.

            states = {"T": ds.Variable("periodic"), "T_rate": ds.Variable("periodic")}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, T, T_rate):
                state, rates = adams_bashforth2(lambda now: {"T": laplacian(now["T"])}, {"T": T}, {"T": T_rate}, self.dt)
                return {"T": state["T"], "T_rate": rates["T"]}

        grid = ds.Grid((20,), spacing=1.0)
        wave, decay = np.cos(2 * np.pi * np.arange(20) / 20), -4 * np.sin(np.pi / 20) ** 2
        start = {"T": wave, "T_rate": decay * np.exp(-decay * 0.1) * wave}
        T = ds.Simulation(Diffusion(grid, dt=0.1), precision="f64").run(start, steps=100).final["T"]
        assert np.allclose(T, np.exp(decay * 10.0) * wave, atol=1e-4)
    """
    now, before = rates(rate, state), matching("previous_rate", previous_rate, state)
    later = moved(state, {name: 1.5 * r - 0.5 * before[name] for name, r in now.items()}, dt)
    return projected(later, state, dt, project, dt), now


def leapfrog(acceleration: Rate, state: State, previous: State, dt: Time) -> dict[str, Symbol]:
    """The second-order leap-frog for u_tt = f(u): 2 u - u_prev + dt² f(u).

        def step(self, u, u_prev):
            return leapfrog(self.acceleration, {"u": u}, {"u": u_prev}, self.dt) | {"u_prev": u}

    Args:
        acceleration: gives d²u/dt² for each field of the state.
        state: fields of the step.
        previous: the same one step earlier: states of the equation whose next values are those of `state`. They take no memory of
            their own.
        dt: time step, seconds.

    Returns:
        The state one step later.

    Raises:
        TraceError: the acceleration, or the previous state, is not that of each field of the state.

    Reference: Hairer, Lubich and Wanner (2003), Geometric numerical integration illustrated by the Störmer-Verlet method, Acta Numerica
        12, 399-450, doi:10.1017/S0962492902000144.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian
        from diffsim.integrators import leapfrog

        class String(ds.Equation):
            # A string between two fixed ends, uₜₜ = c² uₓₓ.

            states = {"u": ds.Variable(ds.Dirichlet(0.0), unit="m"), "u_prev": ds.Variable(ds.Dirichlet(0.0), unit="m")}

            def __init__(self, grid, dt, c):
                self.grid, self.dt, self.c = grid, dt, c

            def step(self, u, u_prev):
                return leapfrog(lambda now: {"u": self.c**2 * laplacian(now["u"])}, {"u": u}, {"u": u_prev}, self.dt) | {"u_prev": u}

        grid = ds.Grid((50,), spacing=0.02)
        pulled = 1e-3 * np.sin(np.pi * (grid.coordinates(0) + 0.01))
        string = ds.Simulation(String(grid, dt=5e-5, c=200.0), precision="f64")
        u = string.run({"u": pulled, "u_prev": pulled}, steps=100).final["u"]  # 5 ms: half a period of 200 m/s over 2 · 1 m
        assert np.allclose(u, -pulled, atol=3e-5)
    """
    force, before = rates(acceleration, state), matching("previous", previous, state)
    return {name: 2 * u - before[name] + dt**2 * force[name] for name, u in state.items()}
