"""Programs of small blocks: a function of the arrays of one tile becomes one kernel for all tiles, with derivatives of every order."""

from diffsim.tile.maps import map as map
from diffsim.tile.programs import add as add
from diffsim.tile.programs import kernel as kernel
from diffsim.tile.programs import load as load
from diffsim.tile.programs import store as store

__all__ = ["add", "kernel", "load", "map", "store"]
