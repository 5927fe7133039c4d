"""Covariant Lyapunov vectors: the directions of growth that the tangent map takes into each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim.base.arguments import whole
from diffsim.chaos.exponents import Spectrum, standard_error
from diffsim.chaos.laps import Laps
from diffsim.errors import ParameterError
from diffsim.simulation import Simulation
from diffsim.typing import Array


@dataclass(frozen=True, repr=False)
class CovariantVectors(Spectrum):
    """Covariant Lyapunov vectors along a run, at the beginning of each lap and at the end of the last.

    Attributes:
        values: the exponents: the mean growth of each vector, largest first but for their errors, 1/s.
        errors: their standard errors, from parts of the run.
        states: the states, by name, shape (laps + 1, *shape of the state).
        vectors: the vectors, each of length 1 over all states, by state, shape (laps + 1, exponents, *shape of the state).
        growth: the logarithm of the factor by which each vector grows in each lap, shape (laps, exponents).
    """

    states: dict[str, Array]
    vectors: dict[str, Array]
    growth: Array

    def angles(self, first: int) -> Array:
        """The smallest angle between the space of the first vectors and that of the others, radians, shape (laps + 1,).

        A system is hyperbolic where the angles between its unstable, neutral and stable directions stay away from 0. Angles that come
        close to 0 are tangencies: there a small change of the system has no small answer.

        Args:
            first: how many vectors the first space has, from 1 to the number of exponents less 1: `unstable`, or one more with that of the
                flow.
        """
        count = len(self.values)
        if count < 2:
            raise ParameterError(f"{count} vector, expected 2 at least, between which there are angles; compute more")
        first = whole("first", first, 1, count - 1, "give the number of vectors of the first space")
        each = np.concatenate([part.reshape(*part.shape[:2], -1) for part in self.vectors.values()], axis=2)
        one, other = (np.linalg.qr(part.transpose(0, 2, 1))[0] for part in (each[:, :first], each[:, first:]))
        cosines = np.linalg.svd(one.transpose(0, 2, 1) @ other, compute_uv=False)[:, 0]
        return np.asarray(np.arccos(np.minimum(cosines, 1.0)))


def covariant_vectors(
    simulation: Simulation, inputs: Mapping[str, Any], steps: int, laps: int, count: int | None = None, settle: int | None = None
) -> CovariantVectors:
    """Covariant Lyapunov vectors of a system: at each state, the directions in which perturbations grow by one exponent, for ever.

    The tangent map takes each vector into a multiple of the same vector later. The vectors of `lyapunov` are orthogonal instead, and only
    the first of them is covariant. In a flow one is the velocity of the state, with the exponent 0. The method of Ginelli and others:
    orthogonal tangents Q go forwards with M Q = Q' R; coefficients C of the vectors V = Q C, a triangle, go backwards with C = R⁻¹ C'.
    There each vector takes its direction as fast as its exponent differs from its neighbours'.

    All tangents of the run are kept: (laps + 1) count states of memory, twice.

    Args:
        simulation: the system; in f32 angles below 1e-3 are round-off.
        inputs: initial states, and parameters.
        steps: steps of a lap, see `lyapunov`.
        laps: laps that count.
        count: number of vectors; None: all. The first ones do not depend on how many follow.
        settle: laps before those that count, in which the tangents take their directions, and as many after them, for the coefficients;
            None: as many as `laps`. Directions are right to about exp(-Δλ settle steps dt), with the smallest difference Δλ of exponents.

    Returns:
        The vectors with their exponents.

    Raises:
        ParameterError: a number out of range, or a state without an initial value.
        DivergenceError: the state is no longer finite, or a lap is too long for its tangents.

    Reference: Ginelli, Poggi, Turchi, Chaté, Livi and Politi (2007), Characterizing dynamics with covariant Lyapunov vectors, Phys. Rev.
        Lett. 99, 130601, doi:10.1103/PhysRevLett.99.130601; Kuptsov and Kuznetsov (2009), Phys. Rev. E 80, 016205,
        doi:10.1103/PhysRevE.80.016205, for the angles.

    Example:
        import numpy as np

        import diffsim as ds

        # In the convection of Lorenz the second vector is the velocity of the state.
        system = ds.Simulation(ds.solvers.Lorenz63(dt=0.005), precision="f64")
        start = {"x": 1.0, "y": 2.0, "z": 20.0, "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
        result = ds.chaos.covariant_vectors(system, start, steps=20, laps=200)
        x, y, z = (result.states[name][:, 0] for name in "xyz")
        velocity = np.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z])
        neutral = np.stack([result.vectors[name][:, 1, 0] for name in "xyz"])
        along = np.abs((velocity * neutral).sum(axis=0)) / np.linalg.norm(velocity, axis=0)
        assert along.min() > 1 - 1e-6
        assert result.angles(2).min() > 0.05  # between the stable direction and the others
    """
    run, laps = Laps(simulation, inputs, steps, count), whole("laps", laps, 2, remedy="give the laps")
    settle = laps if settle is None else whole("settle", settle, 0, remedy="give the laps before those that count, and after them")
    for _ in range(settle):
        run.go(counts=False)
    states, bases, triangles = [run.state], [run.basis], list[Array]()
    for _ in range(laps):
        triangles.append(run.go())
        states.append(run.state)
        bases.append(run.basis)
    later = [run.go() for _ in range(settle)]
    coefficients = _unit(np.triu(np.random.default_rng(1).standard_normal((run.count, run.count))))[0]
    for triangle in reversed(later):
        coefficients = _back(triangle, coefficients)[0]
    vectors, growth = np.empty((laps + 1, run.count, run.vectors.size)), np.empty((laps, run.count))
    vectors[laps] = (bases[laps] @ coefficients).T
    for lap in reversed(range(laps)):
        coefficients, lengths = _back(triangles[lap], coefficients)
        vectors[lap], growth[lap] = (bases[lap] @ coefficients).T, -np.log(lengths)
    rates, apart = growth / run.time, run.vectors.apart
    return CovariantVectors(rates.mean(axis=0), standard_error(rates), apart(np.stack(states)), apart(vectors), growth)


def _back(triangle: Array, coefficients: Array) -> tuple[Array, Array]:
    """The coefficients before a lap, of vectors of length 1, and the lengths before the lap of those of length 1 after it."""
    from scipy.linalg import solve_triangular

    return _unit(solve_triangular(triangle, coefficients))


def _unit(columns: Array) -> tuple[Array, Array]:
    lengths = np.linalg.norm(columns, axis=0)
    return columns / lengths, lengths
