"""A tile program as the source of a kernel, and its launch."""
