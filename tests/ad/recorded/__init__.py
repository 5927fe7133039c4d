"""Tests of functions that are recorded and replayed."""
