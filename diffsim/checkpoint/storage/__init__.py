"""Stores of states in host memory and on disk: compressed, checked, and reopened after a crash."""
