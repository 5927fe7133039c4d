"""One step of an equation: traced, turned into programs and kernels, and driven through time."""
