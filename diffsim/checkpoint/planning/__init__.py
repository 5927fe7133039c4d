"""Choose a schedule before the run, by memory and time."""
