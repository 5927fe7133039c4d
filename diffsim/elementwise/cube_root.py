"""Source of the cube root, which has no branches, so that lanes of a tile compute it together.

|x| is brought to 1 ≤ a < 8 by powers of 8, of which the root has powers of 2, all exact. a^(-1/3) is a polynomial (error 7e-3) and two
steps of third order, y (1 + h/3 + 2h²/9) with h = 1 - a y³; none divides. The last line but one takes off most of the rounding of a y²: the
error is below one unit in the last place of normal numbers.

The powers are those of f64. In f32 the largest ones are infinite and the smallest ones 0, so that their comparisons are false.
"""

from __future__ import annotations

_UP: tuple[tuple[int, float], ...] = ((186, 8.0**-186), (93, 8.0**-93), (51, 8.0**-51), (42, 1.0), (9, 1.0))
"""Powers of 8 that small numbers are multiplied by, and the numbers below which they are."""
_DOWN = (256, 128, 64, 32, 16, 8, 4, 2, 1)
"""Powers of 8 that larger numbers are divided by."""
_START = (0.0005852953643912806, -0.012986650203982493, 0.1085042564590947, -0.44083300656950325, 1.3377011402880372)
"""a^(-1/3) for 1 ≤ a ≤ 8, the highest power first, with the least relative error."""


def _step(condition: str, power: int) -> tuple[str, ...]:
    """a 8^power and r / 2^power where a condition holds."""
    return (
        f"k = a {condition}",
        f"a = ti.select(k, a * {{{8.0**power!r}}}, a)",
        f"r = ti.select(k, r * {{{2.0**-power!r}}}, r)",
    )


SOURCE = (
    "a = {abs}(x)",
    "plain = (a - a == {0}) & (a > {0})",
    "a = ti.select(plain, a, {1})",
    "r = ti.select(x > {0}, {1}, {0} - {1})",
    *(line for power, limit in _UP for line in _step(f"< {{{limit!r}}}", power)),
    *(line for power in _DOWN for line in _step(f">= {{{8.0**power!r}}}", -power)),
    f"y = {{{_START[0]!r}}}",
    *(f"y = y * a + {{{c!r}}}" for c in _START[1:]),
    *("h = {1} - a * y * y * y", f"y = y + y * h * ({{{1 / 3!r}}} + {{{2 / 9!r}}} * h)") * 2,
    "z = a * y * y",
    f"z = z - (z * z * z - a) * (y * y) * {{{1 / 3!r}}}",
    "return ti.select(plain, z * r, x)",
)
