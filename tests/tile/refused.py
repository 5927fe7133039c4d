"""Programs of the array collection that no tile program can do, and what the error says."""

from __future__ import annotations

TRUTH = r"truth value of a value of a tile program.*write where\(condition, a, b\) or ds.cond"
NUMBER = "an index or a length of a value of a tile program.*lengths, slices and ranges are known numbers"
INTEGER = r"int\(\) of a value of a tile program.*write x.astype\(int\)"
ARRAY = "NumPy array of a value of a tile program.*use functions of diffsim.numpy"
OPERATIONS = "operations, expected at most 4000.*ds.fori_loop"

REFUSED: dict[str, str] = {
    "branches/side_taken": TRUTH,
    "branches/other_side_taken": TRUTH,
    "branches/early_return": TRUTH,
    "branches/branch_at_each_element": TRUTH,
    "branches/only_one_argument_on_this_side": TRUTH,
    "branches/piecewise_function": TRUTH,
    "branches/builtin_max_and_sum": TRUTH,
    "branches/chained_comparison_and_logic": TRUTH,
    "for loops/ten_thousand_cheap_steps": OPERATIONS,
    "fft and complex/escape_iteration": TRUTH,
    "fft and complex/escape_iteration_that_leaves_early": TRUTH,
    "histogram/bins_decided_by_the_values": INTEGER,
    "linear algebra/gauss_elimination_with_pivots": INTEGER,
    "nested/newton_iteration_in_a_while_loop": TRUTH,
    "records/dataclass_with_an_integer": NUMBER,
    "sorting/bubble_sort": TRUTH,
    "sorting/insertion_sort_that_overwrites_its_argument": TRUTH,
    "sorting/partition_by_scans": ARRAY,
    "sorting/merge_of_two_sorted_arrays": TRUTH,
    "jvp/while_loop": TRUTH,
    "while loops/heron_square_root": TRUTH,
    "while loops/newton_for_keplers_equation": TRUTH,
    "while loops/doubled_until_large": TRUTH,
    "while loops/loop_that_does_not_run": TRUTH,
    "while loops/left_by_break": TRUTH,
    "while loops/passed_over_by_continue": TRUTH,
    "while loops/power_iteration": TRUTH,
    "while loops/adaptive_steps": TRUTH,
    "while loops/while_in_a_for": TRUTH,
    "while loops/stops_at_a_budget": TRUTH,
    "while loops/bisection": TRUTH,
}
