"""Elementary functions in one table, from which array programs, steps, scans and tiles are made."""
