"""Runs stages; knows none by name."""
