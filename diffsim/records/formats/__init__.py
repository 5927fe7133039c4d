"""A module for each format of files."""
