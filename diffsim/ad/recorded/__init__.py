"""Functions that are recorded once and replayed: `ds.jit`."""
