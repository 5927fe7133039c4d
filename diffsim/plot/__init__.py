"""Figures of fields, gradients, records and searches. Each function returns a `matplotlib.figure.Figure`, which a notebook shows.

They change no setting of Matplotlib's, and the report of a scene is made of them.
"""

from diffsim.plot.animation import animate
from diffsim.plot.fields import field, gradient
from diffsim.plot.gathers import gather, traces
from diffsim.plot.residuals import misfit, spectrum
from diffsim.plot.search import loss

__all__ = ["animate", "field", "gather", "gradient", "loss", "misfit", "spectrum", "traces"]
