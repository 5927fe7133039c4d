"""Which schedule, by memory and time, before the run."""
