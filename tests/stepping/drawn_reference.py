# ruff: noqa: B023, E731, E741, N802  functions of a drawn step are called at once, and names are those of formulas
"""An evaluation of drawn steps by torch, which shares no code with diffsim: fields with cells beyond all sides, and shifts by rolls."""

from __future__ import annotations

import functools

import numpy as np
import torch


def T(x):
    """A tensor of f64."""
    return x if isinstance(x, torch.Tensor) else torch.as_tensor(x, dtype=torch.float64)


W = 9


@functools.lru_cache(None)
def matrix(lo, hi, face, h, N):
    """The matrix (N + 2 W, N) that extends a line beyond both sides, and for each value of a rule its share in each cell."""
    E = np.zeros((N + 2 * W, N))
    C = {}
    E[W : W + N] = np.eye(N)
    for q in range(W):
        for side, (kind, *args) in (("lo", lo), ("hi", hi)):
            row = W - 1 - q if side == "lo" else W + N + q
            cell = lambda p: min(p, N - 1) if side == "lo" else max(N - 1 - p, 0)
            if kind == "zero":
                continue
            if kind in ("periodic", "antiperiodic"):
                k = q if side == "hi" else N - 1 - q
                E[row, k % N] += 1.0 if kind == "periodic" else (-1.0) ** (q // N + 1)
                continue
            img = q if not face else (q + 1 if side == "hi" else q - 1)
            if kind == "extrapolate":
                o = args[0]

                def dist(p):
                    if p < 0:
                        return 0.0
                    w = p if (not face or side == "hi") else p + 1
                    return w * h if face else (w + 0.5) * h

                at = -dist(img)
                nodes = [dist(p) for p in range(o + 1)]
                for p, nd in enumerate(nodes):
                    E[row, cell(p)] += np.prod([(at - x) / (nd - x) for x in nodes if x != nd])
                continue
            A, B, V = {
                "mirror": (0.0, 1.0, 0.0),
                "odd_image": (1.0, 0.0, 0.0),
                "dirichlet": (1.0, 0.0, args[0] if args else 0),
                "neumann": (0.0, 1.0, args[0] if args else 0),
                "robin": tuple(args) if len(args) == 3 else (0, 1, 0),
            }[kind]
            if img < 0:
                den = A + B * 1.5 / h
                E[row, cell(0)] += 4 * B / (2 * h) / den
                E[row, cell(1)] -= B / (2 * h) / den
                wv = 1 / den
            else:
                d = ((img + 1 if side == "lo" else img) if face else img + 0.5) * h
                if d == 0:
                    d = 1e-300
                E[row, cell(img)] -= (A / 2 - B / (2 * d)) / (A / 2 + B / (2 * d))
                wv = 1 / (A / 2 + B / (2 * d))
            if V != 0:
                C.setdefault(V, []).append((row, wv))
    return torch.tensor(E), {
        v: torch.tensor([sum(w for r, w in l if r == row) for row in range(N + 2 * W)], dtype=torch.float64) for v, l in C.items()
    }


def ext_axis(a, axis, lo, hi, face, h, values, n):
    E, C = matrix(lo, hi, face, h, a.shape[axis])
    out = torch.movedim(torch.tensordot(E, torch.movedim(a, axis, 0), 1), 0, axis)
    for v, col in C.items():
        x = values[v] if isinstance(v, str) else T(v)
        shp = [1] * a.ndim
        shp[axis] = len(col)
        if x.ndim:
            x = x.unsqueeze(axis)
        out = out + col.reshape(shp) * x
    return out


class Decl:
    """rules: per axis (lo, hi); loc; axes"""

    def __init__(self, rules, loc, axes):
        self.rules, self.loc, self.axes = rules, loc, axes


class J:
    __array_priority__ = 1000

    def __init__(self, L, a):
        self.L, self.a = L, a

    def _b(self, o, f):
        return J(self.L, f(self.a, o.a if isinstance(o, J) else o))

    def __add__(self, o):
        return self._b(o, lambda x, y: x + y)

    __radd__ = __add__

    def __sub__(self, o):
        return self._b(o, lambda x, y: x - y)

    def __rsub__(self, o):
        return self._b(o, lambda x, y: y - x)

    def __mul__(self, o):
        return self._b(o, lambda x, y: x * y)

    __rmul__ = __mul__

    def __truediv__(self, o):
        return self._b(o, lambda x, y: x / y)

    def __rtruediv__(self, o):
        return self._b(o, lambda x, y: y / x)

    def __pow__(self, o):
        return self._b(o, lambda x, y: x**y)

    def __mod__(self, o):
        return self._b(o, lambda x, y: x % y)

    def __neg__(self):
        return J(self.L, -self.a)

    def __abs__(self):
        return J(self.L, torch.abs(self.a))

    def __gt__(self, o):
        return self._b(o, lambda x, y: x > y)

    def __lt__(self, o):
        return self._b(o, lambda x, y: x < y)

    def __ge__(self, o):
        return self._b(o, lambda x, y: x >= y)

    def __and__(self, o):
        return self._b(o, lambda x, y: x & y)

    def __or__(self, o):
        return self._b(o, lambda x, y: x | y)

    def __invert__(self):
        return J(self.L, ~self.a)

    def shifted(self, axis, k):
        return J(self.L, torch.roll(self.a, -k, axis)) if self.a.ndim else self

    def across(self, axis):
        return self


class JL:
    """The operations of a step in torch."""

    def __init__(self, case):
        self.c = case
        self.values = {}

    def one(self, f):
        return lambda x: J(self, f(x.a if isinstance(x, J) else x))

    def full(self, a):
        return T(a).expand(tuple(n + 2 * W for n in self.c.shape))

    def crop(self, x):
        a = self.full(x.a if isinstance(x, J) else T(x))
        return a[tuple(slice(W, W + n) for n in self.c.shape)]

    def extend(self, a, rules, loc):
        """a: interior full field"""
        c = self.c
        for ax in reversed(range(c.ndim)):
            lo, hi = rules[ax]

            def v(name):
                x = self.raw[name]  # shape over its axes
                d = c.decl[name]
                if not d.axes:
                    return x
                # varies along axes d.axes (not ax): extended for those < ax (already done), in order
                arr = x
                if len(d.axes):
                    full = x
                    for pos, k in enumerate(d.axes):
                        if k > ax:
                            full = ext_axis(full, pos, *d.rules[pos if len(d.rules) == len(d.axes) else k], False, c.h[k], {}, None)
                    # to shape of a without axis ax
                    shp = [1] * c.ndim
                    for pos, k in enumerate(d.axes):
                        shp[k] = full.shape[pos]
                    shp.pop(ax)
                    return full.reshape(shp)
                return arr

            names = {x for x in (lo + hi) if isinstance(x, str) and x in self.raw}
            a = ext_axis(a, ax, lo, hi, bool(loc[ax]), c.h[ax], {m: v(m) for m in names}, c.shape[ax])
        return J(self, a)

    def edge(self, a, rules, loc):
        for ax in range(self.c.ndim):
            kind, *args = rules[ax][1]
            if loc[ax] and kind in ("dirichlet", "odd_image"):
                v = args[0] if args else 0.0
                if isinstance(v, str):
                    d = self.c.decl[v]
                    x = self.raw[v]
                    if d.axes:
                        shp = [1] * self.c.ndim
                        for pos, k in enumerate(d.axes):
                            shp[k] = x.shape[pos]
                        shp.pop(ax)
                        x = x.reshape(shp)
                    v = x
                idx = tuple(slice(None) if k != ax else -1 for k in range(self.c.ndim))
                a = a.clone()
                a[idx] = v
        return a

    def stage(self, x, rules, loc):
        return self.extend(self.edge(self.crop(x), rules, loc), rules, loc)

    def w(self, f, axis, ks):
        return sum((wt * f.shifted(axis, k) for k, wt in ks), 0.0)

    def diff(self, f, axis, loc, order=2):
        h = self.c.h[axis]
        o = 0 if loc[axis] == 0 else -1
        ks = {2: [(0, -1.0), (1, 1.0)], 4: [(-1, 1 / 24), (0, -27 / 24), (1, 27 / 24), (2, -1 / 24)]}[order]
        return self.w(f, axis, [(k + o, v / h) for k, v in ks])

    def interpolate(self, f, axis, loc, order=2):
        o = 0 if loc[axis] == 0 else -1
        ks = {2: [(0, 0.5), (1, 0.5)], 4: [(-1, -1 / 16), (0, 9 / 16), (1, 9 / 16), (2, -1 / 16)]}[order]
        return self.w(f, axis, [(k + o, v) for k, v in ks])

    def diff_centred(self, f, axis, order=2):
        h = self.c.h[axis]
        ks = {2: [(-1, -0.5), (1, 0.5)], 4: [(-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12)]}[order]
        return self.w(f, axis, [(k, v / h) for k, v in ks])

    def laplacian(self, f, order=2):
        ks = {2: [(-1, 1.0), (0, -2.0), (1, 1.0)], 4: [(-2, -1 / 12), (-1, 4 / 3), (0, -5 / 2), (1, 4 / 3), (2, -1 / 12)]}[order]
        r = 0.0
        for ax in range(self.c.ndim):
            r = r + self.w(f, ax, [(k, v / self.c.h[ax] ** 2) for k, v in ks])
        return r

    def where(self, c, a, b):
        g = lambda x: x.a if isinstance(x, J) else x
        return J(self, torch.where(g(c), T(g(a)), T(g(b))))

    def min2(self, a, b):
        return self.where(a < b, a, b)

    def max2(self, a, b):
        return self.where(a > b, a, b)

    def red(self, kind, x):
        a = self.crop(x)
        return J(self, {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}[kind](a))

    def fn(self, name, x):
        f = {
            "sin": torch.sin,
            "cos": torch.cos,
            "tanh": torch.tanh,
            "expit": torch.sigmoid,
            "softplus": lambda x: torch.logaddexp(x, 0 * x),
            "erf": torch.erf,
            "exp": torch.exp,
            "sqrt": torch.sqrt,
            "arctan": torch.atan,
            "log1p": torch.log1p,
            "sign": torch.sign,
            "floor": torch.floor,
            "arcsinh": torch.asinh,
            "cbrt": lambda x: x ** (1 / 3),
            "log": torch.log,
        }[name]
        return J(self, f(T(x.a)))

    def arctan2(self, a, b):
        return J(self, torch.atan2(a.a, b.a))

    def limiter(self, name, a, b):
        a, b = a.a, b.a
        ok = a * b > 0
        sa = torch.where(ok, a, 1.0)
        sb = torch.where(ok, b, 1.0)
        s = torch.sign(sa)
        if name == "minmod":
            r = s * torch.minimum(abs(sa), abs(sb))
        if name == "van_leer":
            r = 2 * sa * sb / (sa + sb)
        if name == "mc":
            r = s * torch.minimum(torch.minimum(2 * abs(sa), 2 * abs(sb)), abs(sa + sb) / 2)
        if name == "superbee":
            r = s * torch.maximum(torch.minimum(2 * abs(sa), abs(sb)), torch.minimum(abs(sa), 2 * abs(sb)))
        return J(self, torch.where(ok, r, 0.0))

    def repeat(self, count, body, fields, decls, laps=None):
        now = list(fields)
        for k in range(count):
            new = body(*now)
            new = [self.stage(x, d.rules, d.loc) for x, d in zip(new, decls, strict=False)]
            if laps is not None:
                new = [self.where(J(self, k < torch.floor(laps.a)), a, b) for a, b in zip(new, now, strict=False)]
            now = new
        return now

    def solve(self, op, rhs, rules, loc):
        shape = self.c.shape
        f = lambda x: self.crop(op(self.extend(x.reshape(shape), rules, loc))).ravel()
        z = torch.zeros(int(np.prod(shape)), dtype=torch.float64)
        A = torch.func.jacfwd(f)(z)
        x = torch.linalg.solve(A, self.crop(rhs).ravel() - f(z))
        return self.extend(x.reshape(shape), rules, loc)

    def newton(self, res, guess, rules, loc):
        shape = self.c.shape
        f = lambda x: self.crop(res(self.extend(x.reshape(shape), rules, loc))).ravel()
        x = self.crop(guess).ravel().detach()
        for _ in range(12):
            A = torch.func.jacfwd(f)(x).detach()
            x = (x - torch.linalg.solve(A, f(x))).detach()
        for _ in range(2):
            x = x - torch.linalg.solve(torch.func.jacfwd(f)(x), f(x))
        return self.extend(x.reshape(shape), rules, loc)

    def running_sum(self, x, axis, reverse, rules, loc):
        a = self.crop(x)
        a = torch.flip(torch.cumsum(torch.flip(a, (axis,)), axis), (axis,)) if reverse else torch.cumsum(a, axis)
        return self.extend(a, rules, loc)

    def host(self, f, xs, rules, loc):
        return self.extend(f(TN, *[self.crop(x) for x in xs]), rules, loc)


class TN:
    tanh, sin = torch.tanh, torch.sin
    sum = staticmethod(lambda a: torch.sum(a))
    cumsum = staticmethod(lambda a, axis: torch.cumsum(a, axis))
    flip = staticmethod(lambda a, ax: torch.flip(a, (ax,)))
    roll = staticmethod(lambda a, k, ax: torch.roll(a, k, ax))
    mean = staticmethod(lambda a, axis, keepdims: torch.mean(a, axis, keepdim=keepdims))
