"""Sums over the shots of a scene, in this process or in several."""
