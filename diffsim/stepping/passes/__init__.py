"""Passes that make a program cheaper."""
