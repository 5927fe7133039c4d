"""Functions and loops that the reverse sweep runs again."""
