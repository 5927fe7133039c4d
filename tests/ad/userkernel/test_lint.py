"""Refused constructs are wrong, accepted ones are right; each construct once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import diffsim as ds
from diffsim import engine
from diffsim.ad.userkernel import UserKernel
from diffsim.ad.userkernel.check import compare
from tests.ad.userkernel import accepted, outside, refused
from tests.ad.userkernel.inputs import inputs_of
from tests.language import ti

ROOT = Path(__file__).parents[3]


def name(kernel: UserKernel) -> str:
    return kernel.__name__


@pytest.mark.parametrize("kernel", accepted.KERNELS, ids=name)
def test_accepted(kernel: UserKernel) -> None:
    assert kernel.findings == []
    result = compare(kernel, inputs_of(kernel), directions=2, seed=1, tolerance=None)
    assert result.passed, str(result)


@pytest.mark.parametrize("kernel", refused.KERNELS, ids=name)
def test_refused(kernel: UserKernel) -> None:
    phrase = refused.PHRASES[kernel.__name__]
    findings = [f for f in kernel.findings if phrase in f.wrong and "# !" in f.text]
    assert findings, [str(f) for f in kernel.findings]
    lines = Path(findings[0].file).read_text().splitlines()
    assert lines[findings[0].line - 1].strip() == findings[0].text
    assert not any(f.fatal for f in kernel.findings)
    inputs = inputs_of(kernel)
    with pytest.raises(ds.errors.KernelError, match="cannot be differentiated") as error:
        kernel.pullback(inputs, [np.ones(6)] * len(kernel.signature.outputs), [None] * len(kernel.signature.outputs))
    assert findings[0].remedy in str(error.value) and f"@{kernel.__name__}.adjoint" in str(error.value)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.ad.userkernel.probe"], capture_output=True, text=True, cwd=ROOT, timeout=300, check=True
    )
    outcome_of: dict[str, str] = json.loads(done.stdout[done.stdout.index("{") :])
    return outcome_of


@pytest.mark.slow  # the engine is pinned, so the claims change with its version alone
@pytest.mark.skipif(engine.chosen() != "taichi", reason="the claims are about Taichi; other engines refuse the same")
@pytest.mark.parametrize("kernel", refused.KERNELS, ids=name)
def test_the_claim_is_true(kernel: UserKernel, outcomes: dict[str, str]) -> None:
    """Taichi really does what a kernel is refused for: when this fails, a refusal can go."""
    assert outcomes[kernel.__name__] == refused.OUTCOME[kernel.__name__]


@pytest.mark.parametrize("kernel", outside.KERNELS, ids=name)
def test_what_must_not_even_run(kernel: UserKernel) -> None:
    with pytest.raises(ds.errors.KernelError, match=outside.PHRASES[kernel.__name__]):
        kernel(np.ones(6))


@pytest.mark.skipif(engine.chosen() != "taichi", reason="the claim is about Taichi")
def test_numbers_at_one_call_do_not_see_what_a_branch_hides() -> None:
    """Why the source is read: the derivative is right at the first arguments, and silently wrong at later ones."""

    @ds.kernel(reads=("x",), writes={"y": "x"})
    def sum_of_large(x: outside.A1, y: outside.A1):
        for i in x:
            s = x[i]
            if x[i] > 2.0:
                for j in range(3):
                    s += ti.exp(-x[j] * x[i])
            y[i] = s * s

    assert sum_of_large.findings
    sum_of_large.findings.clear()
    x = np.linspace(0.3, 1.3, 6)
    assert compare(sum_of_large, [x], directions=3, seed=1, tolerance=None).passed
    assert not compare(sum_of_large, [x + 2.0], directions=3, seed=1, tolerance=None).passed


def test_all_findings_are_told_at_once() -> None:
    with pytest.raises(ds.errors.KernelError) as error:
        refused.vector_as_a_buffer.pullback([np.ones(6)], [np.ones(6)], [None])
    assert str(error.value).count("refused.py:") == len(refused.vector_as_a_buffer.findings) == 4


def test_a_field_from_outside_must_not_even_be_read() -> None:
    table = ti.field(ti.f64, 6)

    @ds.kernel(reads=("x",), writes={"y": "x"})
    def reads_a_field(x: outside.A1, y: outside.A1):
        for i in x:
            y[i] = x[i] * table[i]

    with pytest.raises(ds.errors.KernelError, match="table in reads_a_field is a Taichi field from outside"):
        reads_a_field(np.ones(6))


def test_the_engine_refuses_a_statement_beside_a_loop() -> None:
    @ds.kernel(reads=("x",), writes={"y": "x"})
    def statement_beside_loop(x: outside.A1, y: outside.A1):
        n = x.shape[0]
        for i in range(n):
            y[i] = x[i] ** 2

    x = np.ones(6)
    with pytest.raises(ds.errors.KernelError, match=r"cannot be differentiated(.|\n)*usage of for-loops and statements(.|\n)*user_kernels"):
        statement_beside_loop.pullback([x], [statement_beside_loop(x)], [x])
