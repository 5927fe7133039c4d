"""A figure of the report, with its title and its caption."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure

from diffsim.plot.style import png


@dataclass(frozen=True)
class Picture:
    """A figure of the report.

    Attributes:
        name: of the PNG file, without its ending.
        title: one line, above it.
        caption: the content of the figure, and a way to read it.
        figure: drawn.
    """

    name: str
    title: str
    caption: str
    figure: Figure

    def png(self) -> bytes:
        """The figure as a PNG file."""
        return png(self.figure)
