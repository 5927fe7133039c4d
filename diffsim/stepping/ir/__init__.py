"""Programs: loop nests over cells and sums at points, before they become source."""
