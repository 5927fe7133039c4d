"""How an array of a file is understood: units, dimensions, places, missing numbers, times."""
