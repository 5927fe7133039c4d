"""Making arrays, and changing their shape."""
