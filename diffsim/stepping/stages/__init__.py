"""Stages of a step that are no stencil: linear functions, linear and nonlinear systems, loops."""
