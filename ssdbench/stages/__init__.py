"""One step of a run per module."""
