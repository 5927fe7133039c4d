"""Storage of fields, launches of kernels, and the stepper that a schedule drives."""
