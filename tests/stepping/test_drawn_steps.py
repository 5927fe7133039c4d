# ruff: noqa: E731
"""Drawn steps: runs, gradients, tangents and products with the Hessian are those of an evaluation by torch."""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from tests.sampled import sampled

torch = pytest.importorskip("torch")
from tests.stepping.drawn_reference import T  # noqa: E402
from tests.stepping.drawn_steps import Case  # noqa: E402


def differences_of(seed, only=None, hv=True):
    """Where a drawn step and the reference differ."""
    c = Case(seed, only)
    x = c.inputs()
    names = list(x)
    r = np.random.default_rng(seed + 5)
    wf = {m: r.normal(size=np.shape(x[m])) for m in c.decl if c.kinds[m] == "state"}
    wt = r.normal(size=(c.steps + 1, c.n_rec))
    sim = c.simulation()

    def loss(np_, final, tr):
        return sum(np_.sum(wf[m] * final[m] + 0.5 * final[m] ** 2) for m in wf) + np_.sum(wt * tr + 0.5 * tr**2)

    tloss = lambda f, t: sum(torch.sum(T(wf[m]) * f[m] + 0.5 * f[m] ** 2) for m in wf) + torch.sum(T(wt) * t + 0.5 * t**2)
    mine = lambda x: (lambda o: loss(dnp, o.final, o.traces[c.seen]))(sim.run(x, c.steps))
    jx = {m: T(v).clone().requires_grad_() for m, v in x.items()}
    out = c.reference(jx)
    got = sim.run(x, c.steps)
    problems = []

    def cmp(what, a, b, tol=1e-9):
        a, b = np.asarray(a), np.asarray(b.detach() if hasattr(b, "detach") else b)
        s = max(np.abs(b).max(initial=0), 1e-3)
        e = np.abs(a - b).max(initial=0) / s
        if not e < tol:
            problems.append(f"{what}: {e:.1e}")

    for m in wf:
        cmp(f"final {m}", got.final[m], out["final"][m])
    cmp("traces", got.traces[c.seen], out["traces"])
    if problems:
        return c, problems
    val = tloss(out["final"], out["traces"])
    gl = torch.autograd.grad(val, list(jx.values()), create_graph=True, allow_unused=True)
    gl = [torch.zeros_like(v) if q is None else q for q, v in zip(gl, jx.values(), strict=False)]
    gj = dict(zip(jx, gl, strict=False))
    _v, g = sim.value_and_grad(lambda o: loss(dnp, o.final, o.traces[c.seen]), x, c.steps)
    for m in names:
        cmp(f"grad {m}", g[m], gj[m])
    for ck in (1, 2):
        _v2, g2 = sim.value_and_grad(lambda o: loss(dnp, o.final, o.traces[c.seen]), x, c.steps, checkpoint=ck)
        for m in names:
            if not np.array_equal(g2[m], g[m]):
                problems.append(f"schedule {ck} bits of {m} {np.abs(np.asarray(g2[m]) - g[m]).max():.1e}")
    tx = {m: r.normal(size=np.shape(x[m])) for m in names}
    jv = sum(torch.sum(gj[m] * T(tx[m])) for m in names)
    if hv:
        xs = {m: (np.asarray(v) if np.ndim(v) else v) for m, v in x.items()}
        ts = {m: (np.asarray(v) if np.ndim(v) else float(v)) for m, v in tx.items()}
        _, dv = ds.jvp(mine, (xs,), (ts,))
        cmp("jvp", dv, jv)
        hl = torch.autograd.grad(jv, list(jx.values()), allow_unused=True)
        hj = {m: torch.zeros_like(v) if q is None else q for q, (m, v) in zip(hl, jx.items(), strict=False)}
        hd = ds.hvp(mine, xs, ts)
        for m in names:
            cmp(f"hvp {m}", hd[m], hj[m], 1e-8)
    return c, problems


@pytest.mark.filterwarnings("ignore::diffsim.errors.LongStepWarning")
@pytest.mark.parametrize("seed", sampled(range(60), gate=(27,)))
def test_a_drawn_step_is_that_of_torch(seed):
    _, problems = differences_of(seed, hv=seed % 2 == 0)
    assert not problems
