"""Declarations of a user: an equation, its fields, and points between cells."""
