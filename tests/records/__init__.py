"""Records and fields from files."""
