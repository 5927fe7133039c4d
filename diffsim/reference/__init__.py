"""The reference: `python -m diffsim.reference NAME` prints an entry or the keys of a part of a scene. Without a name it writes pages."""
