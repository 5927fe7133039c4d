"""The command `diffsim`."""
