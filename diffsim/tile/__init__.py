"""Programs of small blocks: a function of the arrays of one tile becomes one kernel for all tiles, with derivatives of every order."""

from diffsim.tile.maps import map as map

__all__ = ["map"]
