"""Tests. Their grids are small: here each thread gets a slab, however little there is to do."""

from diffsim.stepping.source import slabs

slabs.LEAST_CYCLES = 1e-9  # type: ignore[assignment]
