"""Programs of the array collection that no tile program can do, and the words of the error."""

from __future__ import annotations

import re
import sys

_TRUTH = "a truth value of a value of a tile program, which differs from tile to tile; in place of "
IF = _TRUTH + r"`if (.*)` write np.where\(\1, a, b\) or ds.cond\(\1, f, g, \*args\)"
IF_EXPRESSION = _TRUTH + r"`(.*) if (.*) else (.*)` write np.where\(\2, \1, \3\)"
WHILE = _TRUTH + r"`while (.*)` write ds.while_loop\(lambda state: \1, body, state, max_steps=n\)"
WHILE_AND = _TRUTH + r"`while .* and .*` write ds.while_loop\(lambda state: .* & .*, body, state, max_steps=n\)"
BREAK = _TRUTH + r"`if .*` write the loop as ds.while_loop\(condition, body, state\)"
RANGE = r"an index or a length of a value of a tile program.*ds.fori_loop\(0, n, body, state\)"
INTEGER = r"int\(\) of a value of a tile program.*write x.astype\(int\)"
ARRAY = "NumPy array of a value of a tile program.*use functions of diffsim.numpy"
OPERATIONS = "operations, expected at most 4000.*ds.fori_loop"

REFUSED: dict[str, str] = {
    "branches/side_taken": IF,
    "branches/other_side_taken": IF_EXPRESSION,
    "branches/early_return": IF,
    "branches/branch_at_each_element": IF,
    "branches/only_one_argument_on_this_side": IF_EXPRESSION,
    "branches/piecewise_function": IF,
    "branches/builtin_max_and_sum": _TRUTH + re.escape("`max(x[0], x[1])` write np.maximum(x[0], x[1])"),
    "branches/chained_comparison_and_logic": _TRUTH + r"`if 0 < .*` write np.where\(condition, a, b\)",
    "for loops/ten_thousand_cheap_steps": OPERATIONS,
    "fft and complex/escape_iteration": BREAK,
    "fft and complex/escape_iteration_that_leaves_early": WHILE_AND,
    "histogram/bins_decided_by_the_values": INTEGER,
    "linear algebra/gauss_elimination_with_pivots": INTEGER,
    "nested/newton_iteration_in_a_while_loop": IF,
    "pytrees/dataclass_with_an_integer": RANGE,
    "sorting/bubble_sort": IF,
    "sorting/insertion_sort_that_overwrites_its_argument": WHILE_AND,
    "sorting/partition_by_scans": ARRAY,
    "sorting/merge_of_two_sorted_arrays": _TRUTH + r"`if j == 3 or .*` write np.where\(\(j == 3\) \| .*, a, b\)",
    "jvp/while_loop": WHILE,
    "while loops/heron_square_root": WHILE,
    "while loops/newton_for_keplers_equation": WHILE,
    "while loops/doubled_until_large": WHILE,
    "while loops/loop_that_does_not_run": WHILE,
    "while loops/left_by_break": BREAK,
    "while loops/passed_over_by_continue": IF,
    "while loops/power_iteration": WHILE,
    "while loops/adaptive_steps": WHILE,
    "while loops/while_in_a_for": WHILE,
    "while loops/stops_at_a_budget": WHILE_AND,
    "while loops/bisection": WHILE,
}
if sys.version_info < (3, 11):  # which does not know where in a line it is
    REFUSED = dict.fromkeys(REFUSED, "a tile program")
