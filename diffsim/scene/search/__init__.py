"""The search of a scene: its loss, stages, uncertainty, certificate and verdict."""
