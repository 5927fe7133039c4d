"""One step of an equation: trace it, derive programs and kernels from it, and run it through time."""
