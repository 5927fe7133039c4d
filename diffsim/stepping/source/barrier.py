"""The barrier after a loop nest, at which workers of the CPU wait for one another.

No worker spins for long. If other workers have no core, a waiting worker abandons the launch, and so do all others at the
same barrier. Then all work before this barrier is done, and another launch continues from there. One word decides whether
a barrier is abandoned. It counts arrivals and has a flag. The flag is valid if it was set before the last worker arrived,
and that worker sees whether it was. The others wait until it has opened or closed the gate.
"""

from __future__ import annotations

from diffsim.expr.source import Text
from diffsim.stepping.source.kernel import ARRIVALS, GATE, LEFT_BEGIN, LEFT_DONE, LOOKS

PATIENCE = 20_000
"""Polls of a gate before a worker abandons it, 0.1 - 0.4 ms: about the cost of waking a thread twice. A scheduler tick is 4 ms. Long
steps get more (`Pace.patience`)."""
FLAG = 1 << 30
"""In arrivals: a worker wants to abandon the launch. In openings: a gate is closed, and all abandon it. Larger than either count."""
NOTHING = 1 << 20
"""More operations than a step has. A worker that abandoned the launch begins with this one."""


def write_start(text: Text) -> None:
    """Count arrivals and openings of gates from the start of a launch."""
    text("arrivals = 0")
    text("openings = 0")


def write_barrier(text: Text, workers: int, done: str) -> None:
    """Wait until all workers have done `done` operations of this step, or abandon the launch with all of them."""
    text(f"arrivals = arrivals + {workers}")
    text("openings = openings + 1")
    text(f"seen = ti.atomic_add(control[{ARRIVALS}], 1)")
    with text.block(f"if seen & {FLAG - 1} == arrivals - 1"):  # the last one
        with text.block(f"if seen < {FLAG}"):
            text(f"ti.atomic_add(control[{GATE}], 1)")
        with text.block("else"):
            text(f"control[{LEFT_DONE}] = t")
            text(f"control[{LEFT_BEGIN}] = {done}")
            text(f"ti.atomic_add(control[{GATE}], {FLAG})")
            text(f"begin = {NOTHING}")
    with text.block("else"):
        text(f"gate = ti.atomic_add(control[{GATE}], 0)")
        text("looks = 0")
        with text.block(f"while gate < openings and begin < {NOTHING}"):
            text("looks = looks + 1")
            with text.block(f"if looks == control[{LOOKS}]"):
                text(f"seen = ti.atomic_or(control[{ARRIVALS}], {FLAG})")
                with text.block(f"if seen & {FLAG - 1} < arrivals"):
                    text(f"begin = {NOTHING}")
            text(f"gate = ti.atomic_add(control[{GATE}], 0)")
        with text.block(f"if gate >= {FLAG}"):
            text(f"begin = {NOTHING}")
