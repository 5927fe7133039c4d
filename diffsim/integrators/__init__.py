"""Time steps from a rate: a step calls one of them instead of writing its stages.

A rate is a function of the state, `rate({"u": u}) -> {"u": du_dt}`. The state is a dict of fields of the step, vectors
and tensors among them. Intermediate states are
stored, so that a neighbour's value is read and not computed again. They have the boundary rule and the location of their field. Each
method evaluates the rate once a stage. All coefficients are in one table, `TABLEAUX`; docs/integrators.md says which method to take when.

    def step(self, u, s):
        return rk4(lambda now: {"u": s - div([flux(now["u"], axis) for axis in range(2)])}, {"u": u}, self.dt)

If a part of the rate is linear and stiff, such as diffusion, an implicit-explicit method treats that part implicitly. It solves one linear
system a stage for each field with such a part (`diffsim.solve`):

    def step(self, u, nu):
        return imex_ars222(lambda now: {"u": -advection(now["u"])}, {"u": lambda x: nu * laplacian(x)}, {"u": u}, self.dt)

If the state obeys a constraint, such as a velocity without divergence, `project=` brings each state that a method makes back to it:

    def step(self, v, p, nu):
        def rate(now):
            return {"v": nu * viscous(now["v"]) - advection(now["v"])}

        def project(now, dt):  # dt: the time over which the pressure acts
            p = ds.solve(laplacian, div(now["v"]) / dt, boundary="periodic")
            return {"v": now["v"] - dt * grad(p), "p": p}

        return ssp_rk3(rate, {"v": v}, self.dt, project=project)
"""

from diffsim.integrators.explicit import dopri5, euler, midpoint, rk4, runge_kutta, ssp_rk2, ssp_rk3, ssp_rk43, ssp_rk104
from diffsim.integrators.exponential import etdrk2, etdrk4
from diffsim.integrators.implicit import IMPLICIT_SHARE as IMPLICIT_SHARE
from diffsim.integrators.implicit import imex_ars222, imex_ars443, imex_euler
from diffsim.integrators.multistep import adams_bashforth2, leapfrog
from diffsim.integrators.tableaux import TABLEAUX, Tableau

__all__ = [
    "TABLEAUX", "Tableau", "adams_bashforth2", "dopri5", "etdrk2", "etdrk4", "euler", "imex_ars222", "imex_ars443", "imex_euler",
    "leapfrog", "midpoint", "rk4", "runge_kutta", "ssp_rk2", "ssp_rk3", "ssp_rk43", "ssp_rk104",
]  # fmt: skip
