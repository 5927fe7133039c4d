"""Files of a run: its folder, its outcome, its progress, and the code that it was made by."""
