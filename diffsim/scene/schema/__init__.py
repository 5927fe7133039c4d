"""The schema of a scene, and its file."""
