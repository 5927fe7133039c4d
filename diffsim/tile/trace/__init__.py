"""The function of a tile, run once on abstract arrays and written down as a program."""
