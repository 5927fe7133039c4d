"""Rules for inner loops: those that Taichi's reverse mode differentiates rightly.

Taichi cuts a kernel into *blocks*: the smallest loop bodies that use no mutable local from outside. A block is run again
and differentiated in one piece; statements outside of every block are dropped silently. Within a block:

- locals that inner loops assign are kept on a stack of fixed size, and one entry more overwrites the thread's stack;
- of an intermediate result only the last iteration's value is kept. Most operations have their operands on the stack, and
  so have conditions of `if` (with `real_matrix_scalarize` only), but exp, tanh and rsqrt use their result, and the operands
  of min and max are forgotten;
- a value that is computed outside an inner loop and read inside loses its derivative, unless the loop carries that local.

All of it gives wrong numbers silently, or ends the process. So two shapes of inner loop are accepted. An *independent*
one is the whole body of the loop around it and shares no local with it. A *carrying* one has a known number of trips, is
under no `if`, and uses from outside only indices, arrays and the locals that it assigns.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

STACK_LIMIT = 1000
"""Most assignments to a local in the inner loops of a block: 16 KB of the thread's stack a local."""

REPEAT = "ti.static(range(...)) unrolls a short loop"
Flag = Callable[[ast.AST, str, str], None]


@dataclass(eq=False)
class Loop:
    """A loop that is not unrolled, or a whole body outside of loops, with facts about its statements.

    Attributes:
        trips: the number of times that it runs, where that is a constant.
        guarded: it is under an `if` that is decided at run time.
        unrolled: copies of it that `ti.static` loops around it make.
        carried: locals from outside that it assigns.
        borrowed: locals from outside, with a derivative or changing, that it reads.
        last_value: operations of which Taichi keeps the last value only, by name.
        beside: its own statements that have a derivative, inner loops apart.
        assignments: to locals, in its own body.
    """

    node: ast.AST
    parent: Loop | None = None
    targets: tuple[str, ...] = ()
    trips: int | None = None
    guarded: bool = False
    unrolled: int = 1
    carried: set[str] = field(default_factory=set)
    borrowed: dict[str, ast.AST] = field(default_factory=dict)
    last_value: list[tuple[ast.AST, str]] = field(default_factory=list)
    beside: list[ast.AST] = field(default_factory=list)
    children: list[Loop] = field(default_factory=list)
    assignments: int = 0
    flag: Flag = field(default=lambda node, wrong, remedy: None, repr=False)

    @property
    def nests(self) -> bool:
        """True if it consists of one inner loop and nothing else that has a derivative."""
        return len(self.children) == 1 and not (self.beside or self.children[0].guarded or self.children[0].unrolled > 1)

    @property
    def independent(self) -> bool:
        """True if it shares no changing local with the loops around it: Taichi makes it a block of its own."""
        return not self.carried and not self.borrowed


def judge(body: Loop) -> int:
    """Flag every fault of the inner loops of a block, or of the loops around it.

    Returns:
        The stack entries that a local may need, 0 without inner loops.
    """
    if body.nests and body.children[0].independent:
        (only,) = body.children
        if not only.children or (only.nests and only.children[0].independent):
            return judge(only)
    # where the body nests, either of the two may be Taichi's block, as their own statements are dropped: right if both are
    total = sum(child.unrolled * _judge_carrying(child) for child in body.children if body.nests or _may_stand(child))
    if total + 2 > STACK_LIMIT:
        body.children[0].flag(
            body.children[0].node,
            f"up to {total} values of a local would be kept on the stack of a thread, expected at most {STACK_LIMIT - 2}",
            "add straight into an array, in a loop without locals from outside, or split the sum",
        )
        return 0
    return total + 2 if total else 0


def _may_stand(child: Loop) -> bool:
    """Flag an inner loop at a wrong place, in a body that has more than this loop."""
    if child.guarded:
        child.flag(child.node, "an inner loop under an if is differentiated wrongly, silently", "put the if into the loop")
    elif child.independent:
        child.flag(
            child.node,
            "beside an inner loop that shares no local with them, the derivatives of other statements are lost, silently",
            f"give it a top-level loop of its own, or {REPEAT}",
        )
    return not child.guarded and not child.independent


def _judge_carrying(loop: Loop) -> int:
    """Flag the faults of an inner loop that carries locals; return the stack entries that it needs."""
    for name, node in loop.borrowed.items():
        if name not in loop.carried:
            loop.flag(
                node,
                f"{name} is computed outside this inner loop and only read inside: its derivative is lost, silently",
                f"compute it inside, or {REPEAT}",
            )
    for node, name in loop.last_value:
        loop.flag(
            node,
            f"{name} in an inner loop that carries locals is differentiated at the last iteration's value, silently",
            f"{REPEAT}; or add straight into an array in a loop without locals from outside"
            + ("; or an if" if name in ("max", "min", "clamp") else ""),
        )
    if loop.trips is None:
        loop.flag(
            loop.node,
            "an inner loop that carries locals overruns a stack of fixed size after some trips and ends the process, "
            "and its number of trips is not a constant here",
            "write range(...) of numbers, or add straight into an array in a loop without locals from outside",
        )
    inside = sum(child.unrolled * _judge_carrying(child) for child in loop.children if _may_stand(child))
    return (loop.trips or 0) * (max(loop.assignments, 1) + inside)
