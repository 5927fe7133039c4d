"""Tests of variational assimilation."""
