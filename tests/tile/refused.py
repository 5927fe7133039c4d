"""Programs of the array collection that no tile program can do, and what the error says."""

from __future__ import annotations

TRUTH = r"truth value of a value of a tile program.*write where\(condition, a, b\) or ds.cond"
NUMBER = "Python number of a value of a tile program.*lengths, slices and ranges are known numbers"
ARRAY = "NumPy array of a value of a tile program.*use functions of diffsim.numpy"
COMPLEX = "array of complex128 in a tile program, expected float32"
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
    "fft and complex/parseval": COMPLEX,
    "fft and complex/real_and_imaginary_parts": COMPLEX,
    "fft and complex/spectral_derivative": COMPLEX,
    "fft and complex/circular_convolution": COMPLEX,
    "fft and complex/low_pass_with_the_real_transform": COMPLEX,
    "fft and complex/power_spectrum_of_an_odd_length": COMPLEX,
    "fft and complex/parseval_in_two_dimensions": COMPLEX,
    "fft and complex/transform_of_rows": COMPLEX,
    "fft and complex/escape_iteration": TRUTH,
    "fft and complex/escape_iteration_that_leaves_early": TRUTH,
    "fft and complex/rotation_by_a_phase": COMPLEX,
    "fft and complex/modulus_of_a_polynomial_by_horner": COMPLEX,
    "fft and complex/phase": COMPLEX,
    "fft and complex/modulus_at_zero": COMPLEX,
    "fft and complex/schroedinger_split_step": COMPLEX,
    "fft and complex/complex_array_filled_in_a_loop": COMPLEX,
    "fft and complex/twice_derived_through_a_transform": COMPLEX,
    "histogram/bins_decided_by_the_values": NUMBER,
    "linear algebra/gauss_elimination_with_pivots": NUMBER,
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
