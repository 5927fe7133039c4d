# ruff: noqa: B023, E731, E741, SIM102  functions of a drawn step are called at once, and names are those of formulas
"""Steps that are drawn by a number: states with any rules at any place of the cell, stages, loops, systems, and numbers of all cells."""

from __future__ import annotations

import numpy as np
import torch

import diffsim as ds
import diffsim.expr as ex
import diffsim.numpy as dnp
from tests.stepping.drawn_reference import JL, TN, Decl, J, T, W, ext_axis

RULE = {"zero": "zero", "periodic": "periodic", "antiperiodic": "antiperiodic", "mirror": "mirror", "odd_image": "odd_image"}


def to_ds(r):
    kind, *args = r
    if kind in RULE:
        return RULE[kind]
    return {"dirichlet": ds.Dirichlet, "neumann": ds.Neumann, "robin": ds.Robin, "extrapolate": ds.Extrapolate}[kind](*args)


def rules_ds(rules):
    out = []
    for lo, hi in rules:
        out.append(to_ds(lo) if lo[0] in ("periodic", "antiperiodic") else (to_ds(lo), to_ds(hi)))
    return tuple(out)


class DL:
    """The operations of a step in diffsim."""

    def __init__(self, case):
        self.c = case

    def stage(self, x, rules, loc):
        return ds.stage(x, boundary=rules_ds(rules))

    def diff(self, f, axis, loc, order=2):
        return ex.diff(f, axis=axis, order=order)

    def interpolate(self, f, axis, loc, order=2):
        return ex.interpolate(f, axis=axis, order=order)

    def diff_centred(self, f, axis, order=2):
        return ex.diff_centred(f, axis, order=order)

    def laplacian(self, f, order=2):
        return ex.laplacian(f, order=order)

    def where(self, c, a, b):
        return ex.where(c, a, b)

    def min2(self, a, b):
        return ex.minimum(a, b)

    def max2(self, a, b):
        return ex.maximum(a, b)

    def red(self, kind, x):
        return getattr(ex, kind)(x)

    def fn(self, name, x):
        return getattr(ex, name)(x)

    def arctan2(self, a, b):
        return ex.arctan2(a, b)

    def limiter(self, name, a, b):
        return getattr(ex, name)(a, b)

    def repeat(self, count, body, fields, decls, laps=None):
        kw = {} if laps is None else {"laps": laps}
        r = ds.repeat(
            count,
            (lambda *a: tuple(body(*a))) if len(fields) > 1 else (lambda a: body(a)[0]),
            *fields,
            boundary=rules_ds(decls[0].rules),
            **kw,
        )
        return list(r) if len(fields) > 1 else [r]

    def solve(self, op, rhs, rules, loc):
        return ds.solve(op, rhs, boundary=rules_ds(rules), **self.c.solver)

    def newton(self, res, guess, rules, loc):
        return ds.newton(res, guess, boundary=rules_ds(rules), tolerance=1e-14)

    def running_sum(self, x, axis, reverse, rules, loc):
        return ds.running_sum(x, axis=axis, reverse=reverse, boundary=rules_ds(rules))

    def host(self, f, xs, rules, loc):
        return ds.host_stage(lambda *a: f(dnp, *a), tuple(xs) if len(xs) > 1 else xs[0], boundary=rules_ds(rules))


HOST = [
    lambda np, a: np.tanh(a) * np.sum(a * a) / (a.numel() if np is TN else a.size),
    lambda np, a: np.cumsum(a, axis=-1) * 0.2,
    lambda np, a: np.flip(a, 0) * a,
    lambda np, a: np.sin(np.roll(a, 1, -1)) + np.mean(a, axis=0, keepdims=True),
]


class Case:
    """A step that is drawn by a number.

    Args:
        seed: the number.
        only: kinds of its stages; others become plain ones. None: all kinds.
    """

    def __init__(self, seed, only=None):
        self.seed = seed
        r = np.random.default_rng(seed)
        self.ndim = int(r.choice([1, 1, 2, 2, 3], p=[0.3, 0.15, 0.3, 0.15, 0.1]))
        self.shape = tuple(int(x) for x in r.integers(5, 10 if self.ndim < 3 else 7, self.ndim))
        self.h = tuple(float(x) for x in np.round(r.uniform(0.6, 1.4, self.ndim), 2))
        self.dt = 0.1
        self.steps = int(r.integers(2, 5))
        self.solver = {}
        self.decl = {}
        self.kinds = {}
        joined = [r.random() < 0.35 for _ in range(self.ndim)]
        self.joined = joined
        self.staggered = r.random() < 0.45
        self.simple = r.random() < 0.3
        self.simpleq = r.random() < 0.3
        nstates = int(r.integers(1, 4))
        self.state_names = list("uvw")[:nstates]
        # parameters
        self.decl["k"] = Decl(self.rules(r, False), (0,) * self.ndim, tuple(range(self.ndim)))
        self.kinds["k"] = "parameter"
        if r.random() < 0.6:
            self.decl["a"] = Decl((), (), ())
            self.kinds["a"] = "parameter"
        if r.random() < 0.5:
            self.decl["s"] = Decl((), (), ())
            self.kinds["s"] = "series"
        if r.random() < 0.4 and self.ndim > 1:
            ax = int(r.integers(self.ndim))
            self.decl["p"] = Decl((self.rules(r, False)[ax],), (0,), (ax,))
            self.kinds["p"] = "parameter"
        if r.random() < 0.3:
            ax = int(r.integers(self.ndim))
            self.decl["q"] = Decl((self.rules(r, False)[ax],), (0,), (ax,))
            self.kinds["q"] = "series"
        if r.random() < 0.3:
            self.decl["z"] = Decl(self.rules(r, False), self.loc(r), tuple(range(self.ndim)))
            self.kinds["z"] = "parameter"
        if r.random() < 0.25:
            self.decl["held"] = Decl((), (), ())
            self.kinds["held"] = "series"
        if r.random() < 0.15:
            self.decl["heldp"] = Decl((), (), ())
            self.kinds["heldp"] = "parameter"
        for m in self.state_names:
            loc = self.loc(r)
            self.decl[m] = Decl(self.rules(r, True, loc), loc, tuple(range(self.ndim)))
            self.kinds[m] = "state"
        if r.random() < 0.2:
            self.decl["num"] = Decl((), (), ())
            self.kinds["num"] = "state"
        self.forced = r.choice(self.state_names) if r.random() < 0.4 else None
        self.n_src, self.n_rec = 2, 3
        self.uses_t = r.random() < 0.3
        self.prog_seed = int(r.integers(1 << 30))

        def places(m):
            # strictly between values in cells 1..n-2 of location-0 coordinates
            return [
                [float((1 + x * (n - 3)) * h) for x, n, h in zip(r.random(self.ndim), self.shape, self.h, strict=False)] for _ in range(m)
            ]

        self.src = places(self.n_src)
        self.rec = places(self.n_rec)
        self.seen = self.state_names[int(r.integers(nstates))]
        self.only = only

    def loc(self, r):
        return tuple(int(r.random() < 0.4) for _ in range(self.ndim)) if self.staggered else (0,) * self.ndim

    def plainq(self, m):
        return all(k[0] == "mirror" for side in self.decl[m].rules for k in side) and self.simpleq

    def rules(self, r, valued, loc=None):
        out = []
        qa = [self.decl[m].axes[0] for m in ("p", "q") if m in self.decl]
        for ax in range(self.ndim):
            if self.joined[ax]:
                k = "antiperiodic" if r.random() < 0.2 and not self.simple else "periodic"
                out.append(((k,), (k,)))
                continue

            def side():
                if self.simple or (valued and self.simpleq and ax in qa):
                    return ("mirror",)
                opts = [
                    ("zero",),
                    ("mirror",),
                    ("mirror",),
                    ("odd_image",),
                    ("dirichlet", 0.3),
                    ("neumann", -0.2),
                    ("robin", 0.7, 0.4, 0.2),
                    ("extrapolate", int(r.integers(0, 3))),
                ]
                if not valued:
                    opts = opts[:4] + opts[-1:]
                if valued:
                    if "held" in self.decl:
                        opts += [("dirichlet", "held"), ("neumann", "held")] * 2
                    if "heldp" in self.decl:
                        opts += [("dirichlet", "heldp"), ("robin", 0.5, 0.5, "heldp")]
                    if "q" in self.decl and ax not in self.decl["q"].axes and self.plainq("q") and not loc[self.decl["q"].axes[0]]:
                        opts += [("dirichlet", "q"), ("neumann", "q")]
                    if "p" in self.decl and ax not in self.decl["p"].axes and self.plainq("p") and not loc[self.decl["p"].axes[0]]:
                        opts += [("dirichlet", "p"), ("robin", 0.5, 0.2, "p")]
                return opts[int(r.integers(len(opts)))]

            out.append((side(), side()))
        return tuple(out)

    # ----- the program -----
    def program(self, L, env):
        """The next values of the states, by the operations `L` on the present values `env`. The same lines are drawn at each call."""
        r = np.random.default_rng(self.prog_seed)
        nd = self.ndim
        pool = [(env[m], self.decl[m].loc) for m in self.state_names]
        pool.append((env["k"], self.decl["k"].loc))
        if "z" in env:
            pool.append((env["z"], self.decl["z"].loc))
        numbers = [env[m] for m in ("a", "s", "held", "heldp", "num") if m in env]
        lines = [(env[m], self.decl[m].axes[0]) for m in ("p", "q") if m in env]
        if self.uses_t:
            numbers += [env["t"]]
        self.count = 0

        def leaf(loc, pool):
            v, l = pool[int(r.integers(len(pool)))]
            for ax in range(nd):
                if l[ax] != loc[ax]:
                    v = L.interpolate(v, ax, l)
                    l = tuple(loc[k] if k == ax else l[k] for k in range(nd))
            return v

        def bounded(e):
            k = int(r.integers(4))
            if k == 0:
                return L.fn("tanh", e)
            if k == 1:
                return L.fn("sin", e)
            if k == 2:
                return e / (1 + e * e)
            return L.fn("arctan", e)

        def expr(depth, loc, pool, reach=2):
            k = int(r.integers(17)) if depth > 0 else -1
            if k < 0:
                return leaf(loc, pool)
            if k == 0:
                return leaf(loc, pool)
            if k == 1:
                return expr(depth - 1, loc, pool, reach) + expr(depth - 1, loc, pool, reach)
            if k == 2:
                return expr(depth - 1, loc, pool, reach) * expr(depth - 1, loc, pool, reach)
            if k == 3:
                b = expr(depth - 1, loc, pool, reach)
                return expr(depth - 1, loc, pool, reach) / (1 + b * b)
            if k == 4:
                a, b = expr(depth - 1, loc, pool, reach), expr(depth - 1, loc, pool, reach)
                return L.min2(a, b) if r.random() < 0.5 else L.max2(a, b)
            if k == 5:
                a, b = expr(depth - 1, loc, pool, reach), expr(depth - 1, loc, pool, reach)
                cnd = a > b
                if r.random() < 0.4:
                    cnd = cnd & ~(expr(0, loc, pool) > 0.2)
                return L.where(cnd, expr(depth - 1, loc, pool, reach), 0.5 * a)
            if k == 6:
                e = expr(depth - 1, loc, pool, reach)
                f = r.choice(
                    [
                        "sin",
                        "cos",
                        "tanh",
                        "expit",
                        "softplus",
                        "erf",
                        "arctan",
                        "arcsinh",
                        "abs",
                        "sq",
                        "cbrt",
                        "floor",
                        "pow",
                        "log",
                        "a2",
                    ]
                )
                if f == "abs":
                    return abs(e)
                if f == "sq":
                    return L.fn("sqrt", 1 + e * e)
                if f == "cbrt":
                    return L.fn("cbrt", 1 + e * e)
                if f == "log":
                    return L.fn("log", 1 + e * e)
                if f == "floor":
                    return L.fn("floor", 3 * e) + e
                if f == "pow":
                    return (1 + e * e) ** L.fn("tanh", expr(0, loc, pool))
                if f == "a2":
                    return L.arctan2(e, 1 + abs(expr(0, loc, pool)))
                return L.fn(f, e)
            if k in (7, 8) and reach > 0:
                return expr(depth - 1, loc, pool, reach - 1).shifted(int(r.integers(nd)), int(r.choice([-2, -1, 1, 2])))
            if k == 9 and reach > 0:
                return L.laplacian(expr(depth - 1, loc, pool, reach - 1), order=int(r.choice([2, 2, 4]))) * 0.2
            if k == 10 and reach > 0:
                return L.diff_centred(expr(depth - 1, loc, pool, reach - 1), int(r.integers(nd)), order=int(r.choice([2, 4])))
            if k in (11, 12) and reach > 0:
                ax = int(r.integers(nd))
                l = tuple(1 - loc[m] if m == ax else loc[m] for m in range(nd))
                e = expr(depth - 1, l, pool, reach - 1)
                w = r.random()
                if w < 0.5:
                    return L.diff(e, ax, l, order=int(r.choice([2, 2, 4])))
                if w < 0.8:
                    return L.interpolate(e, ax, l, order=int(r.choice([2, 4])))
                return e.across(ax)
            if k == 13 and reach > 0:
                ax = int(r.integers(nd))
                f = expr(depth - 1, loc, pool, reach - 1)
                return L.limiter(str(r.choice(["minmod", "van_leer", "mc", "superbee"])), f - f.shifted(ax, -1), f.shifted(ax, 1) - f)
            if k == 14 and numbers:
                return expr(depth - 1, loc, pool, reach) * numbers[int(r.integers(len(numbers)))]
            if k == 15 and lines:
                v, ax = lines[int(r.integers(len(lines)))]
                return expr(depth - 1, loc, pool, reach) + (v if not loc[ax] else L.interpolate(v, ax, (0,) * nd))
            return 0.7 * expr(depth - 1, loc, pool, reach)

        used = []
        n_st = int(r.integers(1, 5))
        for _ in range(n_st):
            kind = str(
                r.choice(["stage", "stage", "stage", "repeat", "repeat", "number", "number", "solve", "newton", "running", "host", "laps"])
            )
            if self.only and kind not in self.only:
                kind = "stage"
            if "host" in used or "running" in used or "solve" in used or "newton" in used:
                if kind in ("solve", "newton", "running", "host") and r.random() < 0.5:
                    kind = "stage"
            used.append(kind)
            m = self.state_names[int(r.integers(len(self.state_names)))]
            d = self.decl[m]
            hasface = any(d.loc[ax] and d.rules[ax][1][0] in ("dirichlet", "odd_image") for ax in range(nd))
            if kind in ("solve", "newton", "running", "host") and hasface:
                kind = "stage"
            if kind == "stage":
                pool.append((L.stage(env[m] + 0.3 * bounded(expr(3, d.loc, pool)), d.rules, d.loc), d.loc))
            elif kind == "number":
                numbers.append(L.fn("tanh", L.red(str(r.choice(["sum", "mean", "max", "min"])), bounded(expr(2, d.loc, pool)))))
            elif kind in ("repeat", "laps"):
                nf = int(r.integers(1, 3))
                names = [m]
                others = [o for o in self.state_names if o != m and self.decl[o].rules == d.rules and self.decl[o].loc == d.loc]
                names += others[: nf - 1]
                seed = int(r.integers(1 << 30))
                cnt = int(r.integers(2, 4))
                outer = list(pool)
                fields = []
                for o in names:
                    c = r.random()
                    fields.append(
                        env[o]
                        if c < 0.5
                        else L.stage(env[o] + 0.2 * bounded(expr(1, d.loc, pool)), d.rules, d.loc)
                        if c < 0.8
                        else env[o] * 1.1
                    )

                def body(*now, seed=seed, outer=outer, d=d, nums=tuple(numbers)):
                    nonlocal r, numbers
                    keep, keepn = r, numbers
                    r, numbers = np.random.default_rng(seed), list(nums)
                    try:
                        now = list(now)
                        inner = outer + [(v, d.loc) for v in now] * 2
                        for _ in range(int(r.integers(0, 3))):
                            if r.random() < 0.25:
                                numbers.append(L.fn("tanh", L.red(str(r.choice(["sum", "max", "mean"])), bounded(expr(1, d.loc, inner)))))
                            else:
                                s = L.stage(bounded(expr(2, d.loc, inner)), d.rules, d.loc)
                                inner.append((s, d.loc))
                                if r.random() < 0.4:
                                    i = int(r.integers(len(now)))
                                    now[i] = s
                        out = []
                        for v in now:
                            c = r.random()
                            out.append(
                                v
                                if c < 0.15
                                else L.stage(v + 0.2 * bounded(expr(2, d.loc, inner)), d.rules, d.loc)
                                if c < 0.5
                                else v + 0.2 * bounded(expr(2, d.loc, inner))
                            )
                        return out
                    finally:
                        r, numbers = keep, keepn

                laps = None
                if kind == "laps":
                    laps = L.red("max", 0.0 * env["k"] + cnt - 0.5 + 0.4 * L.fn("tanh", env["k"]))
                    cnt += 2
                res = L.repeat(cnt, body, fields, [d] * len(names), laps)
                pool += [(v, d.loc) for v in res]
            elif kind == "solve":
                kk = leaf(d.loc, [(env["k"], self.decl["k"].loc)])
                cc = int(r.integers(4))
                al = 0.2 * (1 + L.fn("tanh", kk))
                op = [
                    lambda x: x - 0.3 * L.laplacian(x),
                    lambda x: x - al * L.laplacian(x),
                    lambda x: (1 + al) * x - 0.2 * L.diff_centred(x, 0),
                    lambda x: x - 0.2 * L.laplacian(al * x),
                ][cc]
                pool.append((L.solve(op, bounded(expr(2, d.loc, pool)), d.rules, d.loc), d.loc))
            elif kind == "newton":
                rhs = bounded(expr(2, d.loc, pool))
                kk = leaf(d.loc, [(env["k"], self.decl["k"].loc)])
                al = 0.1 * (1 + L.fn("tanh", kk))
                cc = int(r.integers(3))
                res = [
                    lambda x: x + 0.3 * x**3 - al * L.laplacian(x) - rhs,
                    lambda x: x - 0.1 * L.laplacian(L.fn("sin", x)) - rhs,
                    lambda x: x + 0.3 * L.fn("tanh", x) * al - 0.1 * L.diff_centred(x * x, 0) - rhs,
                ][cc]
                pool.append((L.newton(res, env[m], d.rules, d.loc), d.loc))
            elif kind == "running":
                pool.append(
                    (L.running_sum(0.2 * bounded(expr(2, d.loc, pool)), int(r.integers(nd)), bool(r.random() < 0.5), d.rules, d.loc), d.loc)
                )
            elif kind == "host":
                pool.append((L.host(HOST[int(r.integers(len(HOST)))], [bounded(expr(2, d.loc, pool))], d.rules, d.loc), d.loc))
        self.used = used
        out = {}
        for m in self.state_names:
            d = self.decl[m]
            nxt = env[m] + 0.3 * bounded(expr(3, d.loc, pool))
            if r.random() < 0.15:
                nxt = leaf(d.loc, pool[-1:])  # a stage as it is
            if self.forced == m:
                nxt = nxt + self.dt * env["f"]
            out[m] = nxt
        if "num" in env:
            out["num"] = 0.5 * env["num"] + L.fn("tanh", L.red("mean", expr(2, self.decl[self.state_names[0]].loc, pool)))
        return out

    def inputs(self):
        r = np.random.default_rng(self.seed + 10**6)
        x = {}
        for m, d in self.decl.items():
            shp = tuple(self.shape[a] for a in d.axes)
            if self.kinds[m] == "series":
                shp = (self.steps, *shp)
            x[m] = r.uniform(-1, 1, shp) if shp else float(r.uniform(-1, 1))
        if self.forced:
            x["f"] = r.normal(size=(self.steps, self.n_src))
        return x

    def equation(self):
        case = self
        names = list(case.decl) + (["f"] if case.forced else []) + (["t"] if case.uses_t else [])

        def run(s, env):
            return case.program(DL(case), env)

        src = f"def step(self, {', '.join(names)}):\n    return run(self, dict({', '.join(f'{m}={m}' for m in names)}))\n"
        ns = {"run": run}
        exec(src, ns)

        class Drawn(ds.Equation):
            step = ns["step"]

            def __init__(self):
                self.grid, self.dt = ds.Grid(case.shape, case.h), case.dt
                self.states, self.parameters, self.series = {}, {}, {}
                for m, d in case.decl.items():
                    to = {"state": self.states, "parameter": self.parameters, "series": self.series}[case.kinds[m]]
                    if len(d.axes) == case.ndim and case.kinds[m] != "series":
                        to[m] = ds.Variable(rules_ds(d.rules), location=d.loc)
                    elif d.axes:
                        rr = ["mirror"] * case.ndim
                        for pos, k in enumerate(d.axes):
                            rr[k] = rules_ds(d.rules)[pos]
                        to[m] = ds.Variable(tuple(rr), axes=d.axes)
                    else:
                        to[m] = ds.Variable(axes=())
                if case.forced:
                    self.forcings = ("f",)

        return Drawn()

    def simulation(self, **kw):
        d = {"precision": "f64"}
        d.update(kw)
        return ds.Simulation(self.equation(), sources={"f": self.src} if self.forced else {}, receivers={self.seen: self.rec}, **d)

    def weights(self, place, loc):
        """The weights of the cells of the grid for a linear interpolation to a place."""
        w = np.ones(())
        for x, n, h, l in zip(place, self.shape, self.h, loc, strict=False):
            c = x / h - 0.5 * l
            i = int(np.floor(c))
            f = c - i
            v = np.zeros(n)
            v[i] += 1 - f
            v[i + 1] += f
            w = np.multiply.outer(w, v)
        return w

    def reference(self, x):
        L = JL(self)
        state = {m: T(x[m]) for m in self.decl if self.kinds[m] == "state"}
        wr = [self.weights(p, self.decl[self.seen].loc) for p in self.rec]
        rec = lambda: torch.stack([torch.sum(T(w) * state[self.seen]) for w in wr])
        traces = [rec()]
        vol = np.prod(self.h)
        for n in range(self.steps):
            L.raw = {m: (T(x[m])[n] if self.kinds[m] == "series" else T(x[m])) for m in self.decl if self.kinds[m] != "state"}
            env = {}
            for m, d in self.decl.items():
                v = state[m] if self.kinds[m] == "state" else L.raw[m]
                if len(d.axes) == self.ndim:
                    env[m] = L.extend(v, d.rules, d.loc)
                elif d.axes:
                    for pos, k in enumerate(d.axes):
                        v = ext_axis(v, pos, *d.rules[pos], False, self.h[k], {}, None)
                    shp = [1] * self.ndim
                    for pos, k in enumerate(d.axes):
                        shp[k] = v.shape[pos]
                    env[m] = J(L, L.full(v.reshape(shp)))
                else:
                    env[m] = J(L, v)
            if self.forced:
                dens = sum(x["f"][n, i] * T(self.weights(p, self.decl[self.forced].loc) / vol) for i, p in enumerate(self.src))
                env["f"] = J(L, torch.nn.functional.pad(dens, (W, W) * self.ndim))
            if self.uses_t:
                env["t"] = J(L, T(n * self.dt))
            out = self.program(L, env)
            new = {}
            for m in state:
                d = self.decl[m]
                new[m] = L.edge(L.crop(out[m]), d.rules, d.loc) if d.axes else out[m].a
            state = new
            traces.append(rec())
        return {"final": state, "traces": torch.stack(traces)}
