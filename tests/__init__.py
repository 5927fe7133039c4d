"""Tests. Their grids are small: where kernels are tested, each thread gets a slab, however little there is to do."""

from diffsim.stepping.source import slabs

WORTH_A_THREAD, NEXT_TO_NOTHING = slabs.LEAST_CYCLES, 1e-9
slabs.LEAST_CYCLES = NEXT_TO_NOTHING  # type: ignore[assignment]
