"""Measure: one module per step of a run."""
