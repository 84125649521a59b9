"""Measure a drive, with one module per step of a run."""
