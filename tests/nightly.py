"""Tests that the gate leaves to the nightly run: some cases of each stay in it, or none where others prove the same in less time.

The gate has to end within a quarter of an hour on two cores, and most of a test's time is the compilation of its kernels. So it keeps the
cases of each property that compile least: a rule of derivatives is proved for one step, not for all, and a solver by its closed forms and
one gradient. The other cases are marked `slow` here, and `pytest -m slow` runs them.
"""

from __future__ import annotations

Kept = int | tuple[str, ...]
"""Cases that stay in the gate: every so many of them, or those with these names; (): none."""

NIGHTLY: dict[str, dict[str, Kept]] = {
    "ad/loops/test_loops.py": {
        "test_chaos_in_a_loop_is_told_at_the_users_line": ("auto",),
        "test_many_steps_in_fifty_slots": (),
    },
    "ad/test_model.py": {
        "test_forward_reverse_and_differences_agree": (),
    },
    "ad/userkernel/test_check.py": {
        "test_a_script_is_not_run_again": (),
        "test_an_endless_kernel_is_given_up": (),
    },
    "ad/userkernel/test_lint.py": {
        "test_accepted": 2,
    },
    "assimilate/test_kalman.py": {
        "test_states_and_deviations_are_those_of_the_smoother": ("1",),
    },
    "base/test_system.py": {
        "test_every_question_has_an_answer_without": ("all",),
    },
    "bridges/test_jax.py": {
        "test_gradients_are_those_of_the_simulation": 3,
    },
    "bridges/test_jax_transforms.py": {
        "test_a_transform_gives_the_derivative_of_the_simulation": 6,
    },
    "bridges/test_torch.py": {
        "test_a_hessian_is_that_of_diffsim": (),
        "test_workers_of_a_data_loader_have_simulations": (),
    },
    "bridges/test_torch_transforms.py": {
        "test_a_transform_gives_the_derivative_of_the_simulation": 6,
    },
    "certificate/test_directions.py": {
        "test_receivers_that_nothing_has_reached_do_not_fail_a_right_adjoint": (),
    },
    "certificate/test_fronts.py": {
        "test_a_lake_at_rest_fails_by_name_with_a_limiter_that_has_a_kink_there": (),
        "test_a_wrong_gradient_passes_nowhere": (),
        "test_the_right_gradient_passes_though_kinks_are_close_by": (),
    },
    "chaos/test_kolmogorov.py": {
        "test_it_comes_to_that_of_a_spectral_program_with_the_square_of_the_spacing": (),
    },
    "chaos/test_sensitivity.py": {
        "test_plain_gradients_of_an_ensemble_are_noise_where_they_are_long": (),
    },
    "chaos/test_systems.py": {
        "test_kuramoto_sivashinsky_keeps_its_mean_and_grows_one_tangent_after_another": (),
        "test_lorenz96_of_two_scales_is_that_of_scipy_and_has_exact_gradients": (),
    },
    "checkpoint/planning/test_plan.py": {
        "test_the_text_of_a_plan_fits_a_terminal_and_explains_its_columns": (
            "unmeasured-Policy(memory='300 MB')",
            "unmeasured-Policy(slots=10)",
            "measured-Policy(slots=10)",
        ),
    },
    "checkpoint/storage/test_disk.py": {
        "test_a_killed_run_leaves_states_that_are_whole": ("packed",),
        "test_any_order_of_calls_on_a_slow_disk": ("0", "4"),
    },
    "command/test_cli.py": {
        "test_a_signal_while_the_command_is_imported_is_quiet": 3,
        "test_report_is_written_beside_the_results": (),
    },
    "domains/test_domains.py": {
        "test_domains_have_the_bits_of_one_process": ("2 ranks",),
        "test_killed_ranks_go_on_from_a_copy_that_all_have": (),
    },
    "domains/test_page.py": {
        "test_the_page_gives_the_same_bits_on_two_ranks": (),
    },
    "elementwise/test_functions.py": {
        "test_derivatives": 4,
        "test_in_an_operator": 4,
        "test_value_in_a_step": 4,
        "test_value_in_a_tile": 4,
    },
    "engine/test_cache.py": {
        "test_the_command_shows_the_folder": (),
        "test_the_same_bits_wherever_the_process_runs": ("home_only_read-taichi", "xdg_nowhere-taichi"),
    },
    "engine/test_engines.py": {
        "test_a_process_may_use_both_engines_in_turn": (),
    },
    "engine/test_session.py": {
        "test_a_kernel_that_waited_while_another_thread_initialised_is_not_launched": (),
        "test_a_process_forked_after_use_is_refused_at_once": (),
        "test_the_first_use_may_be_in_any_thread": ("anew in another", "never"),
        "test_who_asks_while_another_thread_initialises_gets_its_settings_and_changes_nothing": (),
    },
    "engine/test_translation.py": {
        "test_an_engine_gets_the_same_tree_as_from_its_own_visitor": (),
    },
    "expr/test_van_albada.py": {
        "test_a_certificate_of_a_lake_at_rest": ("None-pass", "van_leer-fail"),
        "test_the_gradient_at_a_flat_state_is_that_of_the_smooth_limiter_only": ("1e-15",),
    },
    "kernels/test_histograms.py": {
        "test_adjoint_of_any_operator": 4,
        "test_any_operator": 4,
        "test_histograms": 4,
        "test_the_records_of_the_histogram_for_its_adjoint_change_no_bits": 4,
    },
    "kernels/test_operator.py": {
        "test_every_operation_compiled": 2,
    },
    "kernels/test_scans.py": {
        "test_adjoints_along_random_directions": 4,
        "test_running_extrema": 4,
        "test_scan_and_reduce": 8,
    },
    "layers/test_cpml.py": {
        "test_steps_with_a_layer_are_computed_backwards": (),
    },
    "layers/test_reflection.py": {
        "test_grazing_waves_do_not_come_back": ("20",),
        "test_plane_waves_do_not_come_back": ("0-SecondOrder", "0-Compact", "0-Divergence"),
    },
    "numpy/test_behaviour.py": {
        "test_along_axes": 2,
    },
    "numpy/test_singular_values.py": {
        "test_vectors_of_close_or_small_singular_values_are_right_or_refused": 3,
    },
    "optimize/test_journal.py": {
        "test_resumes_after_kill_9": ("4-objective", "19-write"),
    },
    "records/test_coordinates.py": {
        "test_coordinates_over_two_dimensions": 3,
    },
    "report/test_compare.py": {
        "test_the_commands": (),
    },
    "report/test_page.py": {
        "test_all_figures_are_there_and_none_is_blank": ("line", "driven", "design"),
        "test_the_folder_holds_nothing_else": ("line", "driven", "design"),
        "test_the_page_holds_the_same_figures_as_the_files": ("line", "driven", "design"),
    },
    "scene/disk/test_own_files.py": {
        "test_the_example_finds_the_field_that_made_the_records": (),
    },
    "scene/schema/test_page.py": {
        "test_whole_scenes_run_and_reach_their_figures": (),
    },
    "scene/search/test_certificate.py": {
        "test_right_gradients_pass": ("tiny", "warm"),
    },
    "scene/setup/test_design.py": {
        "test_the_drag_of_a_body_is_made_small_at_its_area": (),
    },
    "scene/setup/test_recorded.py": {
        "test_a_run_without_a_truth": (),
    },
    "scene/shots/test_cluster.py": {
        "test_a_run_has_the_same_bits": (),
        "test_a_shot_that_kills_its_workers": (),
        "test_progress_of_shots": (),
        "test_a_worker_that_is_killed_within_an_evaluation_loses_its_shot_alone": (),
        "test_ctrl_c_ends_all_processes_and_the_run_resumes": (),
        "test_a_worker_that_dies_with_a_result_loses_it": (),
    },
    "scene/shots/test_misfits.py": {
        "test_a_start_more_than_half_a_period_off": 3,
    },
    "scene/shots/test_together.py": {
        "test_a_search_that_takes_long_has_the_same_bits": (),
    },
    "scene/test_packaged.py": {
        "test_a_packaged_scene_in_small": (),
    },
    "scene/test_resume_inside.py": {
        "test_histories_go_on_inside_the_gradient": (),
        "test_it_goes_on_inside_the_gradient": (),
    },
    "scene/test_reuse.py": {
        "test_every_key_that_decides_the_numbers_is_part_of_the_key": 2,
    },
    "scene/test_run.py": {
        "test_resumed_run_ends_with_the_same_bits": (),
    },
    "scene/words/test_kinds.py": {
        "test_it_goes_to_a_process_that_has_not_imported_the_class": (),
    },
    "scene/words/test_objects.py": {
        "test_another_process_finds_the_same_state": (),
    },
    "scene/words/test_own_equation.py": {
        "test_a_scene_goes_to_another_process": (),
    },
    "scene/words/test_own_parts.py": {
        "test_the_examples_of_the_page_run_from_the_command": (),
    },
    "scripts/test_benchmarks.py": {
        "test_that_of_the_gpu_runs_at_a_tiny_size": (),
    },
    "scripts/test_tohoku.py": {
        "test_a_free_field_explains_its_records": (),
    },
    "simulation/test_batch.py": {
        "test_a_batch_is_certified": (),
        "test_each_run_has_the_bits_that_it_has_alone": ("numbers 2-D-f64",),
        "test_what_runs_share_has_the_sum_of_their_gradients": (),
    },
    "simulation/test_checkpoints.py": {
        "test_states_of_a_gpu_go_to_slow_tiers_and_back": (),
        "test_steps_computed_backwards_give_the_gradient_to_rounding": ("long wave on the sphere",),
    },
    "simulation/test_drift.py": {
        "test_a_run_from_rest_is_computed_backwards": ("f64-0",),
        "test_an_error_that_is_not_of_rounding_is_seen_in_kept_states": 4,
    },
    "simulation/test_locks.py": {
        "test_a_process_pool_takes_a_simulation_that_was_used": (),
    },
    "simulation/test_planning.py": {
        "test_all_that_a_plan_needs_is_measured": ("acoustic 2-D order 8 zero",),
        "test_steps_are_undone_for_the_measurement_only_if_asked": (),
        "test_the_fields_of_a_plan_are_what_is_allocated": ("oddities",),
        "test_the_peak_is_what_becomes_resident": (),
    },
    "simulation/test_points.py": {
        "test_the_gradient_is_certified": (),
    },
    "simulation/test_resume.py": {
        "test_it_goes_on_inside_the_reverse_sweep": (),
    },
    "simulation/test_simulation.py": {
        "test_checkpointed_gradient_has_the_bits_of_the_stored_one": ("1-acoustic 2-D mixed", "1-functions", "1-loop 2-D"),
        "test_forward_and_adjoint_equal_numpy": ("fluxes periodic", "nonlinear mirror", "staggered acoustic 2-D", "visco acoustic 2-D"),
        "test_tangent_is_the_transpose_of_the_adjoint_and_agrees_with_differences": (
            "acoustic 2-D mixed",
            "heat 2-D",
            "long wave on the sphere",
        ),
    },
    "simulation/test_starts.py": {
        "test_any_steps_and_slots_give_the_stored_bits": 3,
    },
    "solvers/dg/test_dg.py": {
        "test_a_line_is_a_plane_that_does_not_vary_along_the_other_axis": (),
        "test_a_pulse_is_reflected_by_the_impedances_and_leaves_through_an_open_side": (),
        "test_acoustics_are_their_weak_form": ("2-boundary1",),
        "test_advection_is_its_weak_form": ("1-outflow",),
        "test_errors_fall_with_order_p_plus_1_on_a_line": (),
        "test_errors_fall_with_order_p_plus_1_on_a_plane": (),
        "test_the_limit_of_dt_is_stable_and_a_larger_dt_is_refused": (),
        "test_the_mass_stays": (),
        "test_walls_keep_the_volume_and_no_energy_arises": (),
    },
    "solvers/test_acoustic.py": {
        "test_a_shot_in_the_layer_is_that_in_an_endless_medium": ("2-3e-05",),
    },
    "solvers/test_advection.py": {
        "test_the_gradient_is_that_of_differences": (),
        "test_the_mean_error_of_a_sine_wave_falls_by_the_order": (),
    },
    "solvers/test_bodies.py": {
        "test_couette_flow_between_cylinders_is_of_second_order": (),
        "test_forces_are_those_of_momentum_and_gradients_those_of_differences": (),
        "test_heat_is_that_which_the_flow_takes_along_and_gradients_those_of_differences": (),
        "test_the_force_on_a_hot_body_is_that_of_the_fluid": (),
        "test_heat_by_a_flux_is_that_which_the_flow_takes_along": (),
    },
    "solvers/test_burgers.py": {
        "test_the_error_falls_by_the_order": (),
        "test_the_gradient_is_that_of_differences": (),
    },
    "solvers/test_drift.py": {
        "test_paths_in_a_steady_gyre_are_those_of_its_closed_form": (),
        "test_the_gradient_through_paths_is_that_of_differences_and_certified": (),
    },
    "solvers/test_elastic.py": {
        "test_reciprocity": (),
        "test_the_gradient_is_certified_in_the_layer_at_the_surface_and_at_the_source": (),
    },
    "solvers/test_euler.py": {
        "test_shock_tubes": ("contact at rest-1e-14",),
    },
    "solvers/test_flow_implicit.py": {
        "test_a_steady_cavity_balances_in_every_cell": (),
        "test_a_wall_that_oscillates": (),
        "test_velocity_is_of_second_order_with_steps_of_twenty_explicit_ones": (),
        "test_waves_decay_by_the_factor_of_the_method": (),
    },
    "solvers/test_flow_options.py": {
        "test_a_scalar_in_vortices_is_of_the_order_of_the_differences": (),
        "test_eddies_have_the_viscosity_of_smagorinsky": (),
        "test_energy_leaves_through_an_outflow_and_none_comes_in": (),
        "test_gradients_are_those_of_differences": (),
        "test_layers_of_two_viscosities_slide_exactly": (),
        "test_the_flow_of_kovasznay_is_of_second_order": (),
        "test_a_flow_that_became_too_fast_says_for_which_speed_dt_is_stable": (),
        "test_a_lid_may_move_faster_than_a_flow_through_the_grid": (),
    },
    "solvers/test_gas_sides.py": {
        "test_a_flow_from_elsewhere_becomes_that_of_its_sides": (),
    },
    "solvers/test_heat_implicit.py": {
        "test_steps_are_those_of_dense_matrices": 3,
        "test_the_gradient_is_that_of_differences": ("sdirk2",),
    },
    "solvers/test_layered_currents.py": {
        "test_energy_is_kept_in_a_basin_and_passes_between_its_layers": (),
        "test_steps_are_those_of_an_independent_version": 2,
    },
    "solvers/test_maxwell.py": {
        "test_gradients_are_certified": (),
        "test_plane_waves_do_not_come_back": (),
    },
    "solvers/test_navier_stokes.py": {
        "test_a_force_drives_a_channel_that_is_open_at_both_ends": (),
        "test_momentum_and_energy_are_kept_without_viscosity": (),
        "test_no_cell_has_a_divergence_whatever_is_around": ("('no_slip', ('inflow', 'inflow'))",),
        "test_poiseuille_and_couette_flow_are_exact_up_to_a_constant": (),
        "test_steps_are_those_of_a_program_in_numpy": 3,
        "test_taylor_green_vortices_decay_by_the_order_of_the_differences": (),
        "test_the_cavity_flow_of_a_sliding_lid": (),
        "test_the_gradient_is_that_of_differences": ("channel",),
        "test_the_order_in_time_is_that_of_the_method": (),
    },
    "solvers/test_penalised.py": {
        "test_a_body_that_is_as_its_fluid_takes_and_gives_nothing": (),
    },
    "solvers/test_quasi_geostrophic.py": {
        "test_a_rossby_wave_has_its_dispersion_relation": (),
        "test_a_wind_that_changes_in_time": (),
        "test_energy_is_kept_between_rough_coasts_on_the_beta_plane": (),
        "test_steps_are_those_of_an_independent_version": ("mixed-laplacian",),
        "test_the_gradient_of_a_late_transport_for_the_wind_and_the_numbers": (),
        "test_the_jacobian_keeps_energy_and_enstrophy": (),
    },
    "solvers/test_reaction_diffusion.py": {
        "test_the_gradient_is_that_of_differences": ("own",),
    },
    "solvers/test_shallow_water.py": {
        "test_a_gauge_on_dry_land_shows_the_bed_from_the_start": (),
        "test_a_steady_flow_along_circles_of_latitude_is_of_second_order": (),
        "test_a_storm_over_a_beach": (),
        "test_a_tide_drives_a_standing_wave_at_second_order": (),
        "test_a_wave_runs_up_a_beach_as_carrier_and_greenspan_say": (),
        "test_on_the_sphere_a_lake_rests_and_water_is_kept": (),
        "test_the_gradient_at_a_shore_a_gauge_dry_land_and_sides": (),
        "test_the_gradient_over_a_plane_bed_is_the_mean_of_both_slopes_of_the_loss": (),
        "test_the_order_where_the_flow_is_smooth": (),
        "test_water_rises_with_its_bed_and_gravity_waves_leave_from_there": (),
        "test_waves_leave_through_an_open_side_and_a_tide_fills_a_harbour": (),
    },
    "solvers/test_substeps.py": {
        "test_a_dam_breaks_as_with_steps_of_one_length": (),
        "test_a_wall_of_water_runs_off_at_twice_the_speed_of_its_waves": (),
    },
    "solvers/test_supply.py": {
        "test_water_that_seeps_away_takes_its_momentum_along": 2,
    },
    "solvers/test_visco_acoustic.py": {
        "test_a_mode_obeys_the_discrete_dispersion_relation": ("2-shape0", "6-shape2"),
        "test_a_shot_in_the_layer_is_that_in_an_endless_medium": (),
        "test_the_gradient_is_certified": ("none",),
        "test_the_layer_stays_calm": (),
        "test_the_stable_step_is_sharp": (),
    },
    "stepping/declare/test_groups.py": {
        "test_a_step_with_groups_has_the_bits_of_one_by_hand": (),
        "test_its_gradient_is_certified_in_two_and_three_dimensions": (),
    },
    "stepping/declare/test_stretched.py": {
        "test_operators_are_of_second_order": 2,
        "test_straight_lines_are_exact_where_cells_jump_in_size": 2,
    },
    "stepping/derive/test_outside.py": {
        "test_a_grid_is_as_narrow_as_the_step_allows": ("(3, 15)-periodic", "(3, 15)-zero", "(3, 3)-zero"),
    },
    "stepping/derive/test_overwritten.py": {
        "test_what_is_overwritten_changes_no_bit": (),
    },
    "stepping/derive/test_residuals.py": {
        "test_tangents_and_cotangents_of_stored_runs_have_one_product": ("5",),
    },
    "stepping/derive/test_subtotals.py": {
        "test_gradients_agree_with_tangents": ("quotient-odd-2-1", "Rusanov-periodic-1-1"),
    },
    "stepping/derive/test_undo.py": {
        "test_each_field_keeps_what_it_loses": ("zero-both",),
    },
    "stepping/passes/test_interior.py": {
        "test_an_interior_changes_no_bit": (),
    },
    "stepping/passes/test_rolling.py": {
        "test_no_bit_depends_on_what_is_kept": ("transport 3 1",),
    },
    "stepping/passes/test_sharing.py": {
        "test_gradients_through_shared_values": 3,
    },
    "stepping/run/test_cached.py": {
        "test_another_process_finds_the_kernels": ("taichi",),
        "test_kernels_that_differ_within_a_function_are_told_apart": (),
    },
    "stepping/run/test_guarded.py": {
        "test_no_kernel_touches_memory_beside_its_arrays": ("end-some",),
    },
    "stepping/run/test_leaving.py": {
        "test_launches_that_are_left_change_no_bit": (),
    },
    "stepping/run/test_pace.py": {
        "test_a_small_grid_has_one_worker": ("256-2",),
    },
    "stepping/source/test_arches.py": {
        "test_every_lane_count_agrees": ("acoustic 2-D mixed-16",),
    },
    "stepping/source/test_folds.py": {
        "test_long_nests_are_swept_without_kept_values": (),
        "test_one_sweep_over_the_grid_and_beyond_changes_no_bit": ("1-along0-seeds0",),
    },
    "stepping/source/test_wavefront.py": {
        "test_a_batch": (),
        "test_on_one_thread": (),
        "test_slow_steps_are_computed_together_too": (),
        "test_receivers_that_move_are_read_where_they_are": (),
        "test_states_of_one_level_keep_their_receivers": (),
        "test_steps_that_overwrite_states_have_the_same_bits": (),
        "test_steps_together_have_the_same_bits": ("heat mirror",),
        "test_steps_with_stages": (),
    },
    "stepping/stages/test_host_stage.py": {
        "test_a_stage_between_fields_at_different_places": (),
        "test_in_f32_as_exact_as_f32_can_be": (),
        "test_several_stages_feed_one_another_in_every_dimension": ("1-D",),
    },
    "stepping/stages/test_newton.py": {
        "test_a_solution_on_faces_has_the_value_on_the_side_that_its_rule_gives": ("odd",),
        "test_cells_that_differ_in_size": (),
        "test_derivatives_by_dot_products_taylor_slopes_and_other_schedules": ("porous-1d-auto",),
        "test_in_f32_as_exact_as_f32_can_be": (),
        "test_second_derivatives_by_differences": (),
        "test_values_of_sides_by_name_numbers_and_the_clock": (),
    },
    "stepping/stages/test_repeat.py": {
        "test_a_function_on_the_host_reads_the_result_of_a_loop": (),
        "test_a_loop_is_all_its_laps": (),
        "test_many_sweeps": (),
        "test_second_derivatives": (),
    },
    "stepping/stages/test_running_sum.py": {
        "test_checkpointed_equals_stored": (),
        "test_derivatives_in_every_dimension": (),
        "test_derivatives_through_every_rule": (),
    },
    "stepping/stages/test_solve.py": {
        "test_a_right_side_is_compatible_up_to_the_rounding_of_its_terms": ("False-False-f64",),
        "test_a_solution_on_faces_has_the_value_on_the_side_that_its_rule_gives": (),
        "test_in_f32_as_exact_as_f32_can_be": (),
        "test_recorded_solutions_are_not_solved_for_again": (),
        "test_rounding_that_a_function_gives_is_compatible_without_its_mean": (),
        "test_unsymmetric_operators_in_every_dimension": (),
        "test_weights_that_are_numbers_of_a_run_are_solved_by_transforms": (),
        "test_weights_with_a_number_of_all_cells": (),
    },
    "stepping/stages/test_steady.py": {
        "test_the_gradient_by_differences_and_products": ("True",),
    },
    "stepping/test_compositions.py": {
        "test_no_derivative_of_a_composition_in_a_step_is_wrong_without_a_word": (),
    },
    "stepping/trace/test_antiperiodic.py": {
        "test_half_of_a_periodic_grid": (),
        "test_steps_and_gradients_are_numpys": ("((9,), [Antiperiodic(), Antiperiodic(), Antiperiodic()])",),
        "test_vjp_and_jvp_agree": ("cg",),
    },
    "stepping/trace/test_given_sides.py": {
        "test_systems_take_named_values": (),
    },
    "stepping/trace/test_numbers.py": {
        "test_a_step_with_numbers_is_that_of_numpy": ("((7, 13),)",),
        "test_second_derivatives": (),
        "test_states_that_are_numbers_or_rows_are_fields_that_are_alike_in_all_cells": ("shape1",),
    },
    "stepping/trace/test_open_sides.py": {
        "test_gradients_are_certified": (),
        "test_low_sides_are_as_high_sides_and_no_cell_has_divergence": ("still-slip-inflow-open",),
    },
    "stepping/trace/test_regions.py": {
        "test_regions_are_states_multiplied_by_0_outside": (),
    },
    "stepping/trace/test_sides.py": {
        "test_faces_of_an_axis_no_wider_than_the_halo": 4,
        "test_gradients_are_certified": ("1",),
    },
    "steps/test_bits.py": {
        "test_blocks_of_threads_that_do_not_fit_into_the_grid": (),
        "test_gpu_kernels_on_vulkan": (),
        "test_other_lane_counts_agree": ("Maxwell with a Drude metal-16",),
        "test_the_number_of_threads_changes_no_bit": (),
    },
    "steps/test_forward.py": {
        "test_a_run_equals_numpy": 4,
    },
    "steps/test_gradient.py": {
        "test_certificate_passes": ("Maxwell with a Drude metal", "shallow water, HLL, wetting and drying", "advection, 3-D"),
        "test_products_with_the_hessian": (),
    },
    "test_docs.py": {
        "test_code_runs": ("README.md", "data.md", "certificate.md", "inversion.md"),
    },
    "test_integrators.py": {
        "test_gradients_are_certified": ("ssp_rk2", "leapfrog"),
        "test_gradients_of_projected_states_are_certified": (),
        "test_order_in_a_box_with_walls": ("ssp_rk2", "ssp_rk3"),
        "test_the_order_remains_where_each_state_is_projected": ("ssp_rk2-False",),
        "test_without_the_pressure_of_the_step_before_implicit_viscosity_between_walls_is_of_first_order": (),
    },
    "test_tableaux.py": {
        "test_gradients_of_exponential_methods_are_certified": 2,
    },
    "tile/test_arches.py": {
        "test_vulkan": ("cholesky 2",),
    },
    "tile/test_collection.py": {
        "test_agrees_with_the_array_program": 4,
    },
    "tile/test_compositions.py": {
        "test_no_derivative_of_a_composition_in_a_tile_is_wrong_without_a_word": (),
    },
    "tile/test_nested.py": {
        "test_a_mapped_function_maps_another_one": (),
    },
    "tile/test_preconditioners.py": {
        "test_larger_blocks_take_fewer_iterations": (),
        "test_the_inverses_of_blocks": ("shape0-block0", "shape3-block3"),
    },
    "tile/test_products.py": {
        "test_products_of_arguments_and_transposes": ("lengths0-f4", "lengths0-f8"),
    },
    "tile/test_programs.py": {
        "test_second_order_of_a_tile_program": 48,
        "test_tile_program": 16,
    },
    "tile/test_random_programs.py": {
        "test_agrees_tile_by_tile": ("6",),
    },
    "tile/test_singular.py": {
        "test_derivatives_are_refused_where_those_of_array_programs_are": ("cholesky-f4",),
        "test_second_derivatives_of_matrices_of_tiles_agree_with_those_of_array_programs": (),
        "test_the_error_names_the_tile_and_only_derivatives_that_are_asked_for_count": ("inv",),
        "test_units_do_not_make_a_matrix_of_a_tile_singular": (),
    },
}
