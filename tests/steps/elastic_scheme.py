"""The scheme of `diffsim.solvers.Elastic` in NumPy, with literal constants: nothing here comes from diffsim."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.steps.layer import figures

WEIGHTS = {
    2: (1.0,),
    4: (9 / 8, -1 / 24),
    6: (75 / 64, -25 / 384, 3 / 640),
    8: (1225 / 1024, -245 / 3072, 49 / 5120, -5 / 7168),
}
Fields = dict[str, np.ndarray]


@dataclass(frozen=True)
class Scheme:
    """A scheme in NumPy with the arguments of the constructor of the equation; axes by letters, such as "yx", the first down."""

    axes: str
    h: tuple[float, ...]
    dt: float
    order: int
    cells: tuple[tuple[int, int], ...]
    speed: float = 3000.0
    frequency: float = 20.0
    surface: bool = False
    periodic: str = ""

    def pad(self, a: np.ndarray, axis: int, width: int, otherwise: str = "constant") -> np.ndarray:
        wide = [(width, width) if each == axis else (0, 0) for each in range(a.ndim)]
        return np.pad(a, wide, mode="wrap" if self.axes[axis] in self.periodic else otherwise)  # type: ignore[call-overload]

    def difference(self, a: np.ndarray, axis: int, to_face: bool, order: int | None = None) -> np.ndarray:
        order = order or self.order
        reach, n = order // 2, a.shape[axis]
        wide, out = self.pad(a, axis, reach), np.zeros_like(a)
        for k, weight in enumerate(WEIGHTS[order]):
            right, left = (k + 1, -k) if to_face else (k, -k - 1)
            ends = [np.take(wide, range(reach + shift, reach + shift + n), axis) for shift in (right, left)]
            out += weight / self.h[axis] * (ends[0] - ends[1])
        return out

    def both(self, a: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """The values on both sides of the upper faces."""
        wide, n = self.pad(a, axis, 1, "symmetric"), a.shape[axis]
        return np.take(wide, range(1, n + 1), axis), np.take(wide, range(2, n + 2), axis)

    def medium(self, given: Fields) -> Fields:
        """Stiffness by pairs of letters, b on faces, mu on edges, and where differences are of full order."""
        vp, vs, rho = (given[name].astype(float) for name in ("vp", "vs", "rho"))
        if self.surface:
            rho = rho.copy()
            rho[0] = 0.0
        c33, c55 = rho * vp**2, rho * vs**2
        epsilon, delta, gamma = (given.get(name, np.zeros_like(vp)) for name in ("epsilon", "delta", "gamma"))
        c11, c66 = c33 * (1 + 2 * epsilon), c55 * (1 + 2 * gamma)
        c13 = np.sqrt(2 * delta * c33 * (c33 - c55) + (c33 - c55) ** 2) - c55  # equation 17 of Thomsen (1986)
        out = {}
        for a in self.axes:
            low, high = self.both(rho, self.axes.index(a))
            with np.errstate(divide="ignore"):
                out["b" + a] = np.where(low + high > 0, 2 / (low + high), 0.0)
            for b in self.axes:
                down = self.axes[0]
                out["c" + a + b] = (c33 if a == down else c11) if a == b else c13 if down in (a, b) else c11 - 2 * c66
                if a < b:
                    mu = c55 if down in (a, b) else c66
                    corners = [c for half in self.both(mu, self.axes.index(a)) for c in self.both(half, self.axes.index(b))]
                    with np.errstate(divide="ignore"):
                        out["c_" + a + b] = 4 / sum(1 / c for c in corners)
        out["far"] = self.far(rho)
        for a in self.axes:
            for b in self.axes:
                if a < b:
                    parts = [c for half in self.both(out["far"], self.axes.index(a)) for c in self.both(half, self.axes.index(b))]
                    out["far" + a + b] = np.min(parts, axis=0)
        return out

    def far(self, rho: np.ndarray) -> np.ndarray:
        out = np.ones_like(rho)
        reach = self.order // 2 - 1
        if self.surface and reach:
            for axis, n in enumerate(rho.shape):
                wide = self.pad((rho > 0).astype(float), axis, reach, "symmetric")
                for shift in range(2 * reach + 1):
                    out = np.minimum(out, np.take(wide, range(shift, shift + n), axis))
        return out

    def stretch(self, slope: np.ndarray, axis: int, at_face: bool, name: str, now: Fields, new: Fields) -> np.ndarray:
        name = f"psi_{name}_{self.axes[axis]}"
        if not any(self.cells[axis]):
            return slope
        n = slope.shape[axis]
        profiles = figures(n, self.h[axis], self.dt, self.cells[axis], int(at_face), self.speed, self.frequency)
        a, b = (profiles[key].reshape([-1 if each == axis else 1 for each in range(slope.ndim)]) for key in "ab")
        new[name] = b * now[name] + a * slope
        return slope + new[name]

    def advance(self, now: Fields, m: Fields, density: Fields) -> Fields:
        """A step.

        Args:
            now: states.
            m: of `medium`.
            density: of forcings, those that there are.
        """
        new: Fields = {}
        v = {}
        for a in self.axes:
            pull = np.zeros_like(now["v" + a])
            for axis, b in enumerate(self.axes):
                pair = "".join(sorted(a + b))
                far = m["far"] if a == b else m["far" + pair]
                stress = now["s" + pair]
                slope = self.difference(far * stress, axis, a == b) + self.difference((1 - far) * stress, axis, a == b, 2)
                pull += self.stretch(slope, axis, a == b, "s" + pair, now, new)
            v[a] = now["v" + a] + self.dt * m["b" + a] * pull
            new["v" + a] = v[a] + self.dt * m["b" + a] * density.get("f" + a, 0.0)
        e = {}
        for a in self.axes:
            for axis, b in enumerate(self.axes):
                far = m["far"] if a == b else m["far" + "".join(sorted(a + b))]
                slope = far * self.difference(v[a], axis, a != b) + (1 - far) * self.difference(v[a], axis, a != b, 2)
                e[a + b] = self.stretch(slope, axis, a != b, "v" + a, now, new)
        for a in self.axes:
            for b in self.axes:
                if a == b:
                    new["s" + a + a] = now["s" + a + a] + self.dt * sum(m["c" + a + c] * e[c + c] for c in self.axes)
                elif a < b:
                    new["s" + a + b] = now["s" + a + b] + self.dt * m["c_" + a + b] * (e[a + b] + e[b + a])
                if a <= b:
                    new["s" + a + b] = new["s" + a + b] - self.dt * density.get("m" + a + b, 0.0)
        if "p" in now:
            new["p"] = -sum(new["s" + a + a] for a in self.axes) / len(self.axes)
        return new
