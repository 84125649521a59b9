"""Compute statistics and verdicts: numbers in, frozen dataclasses out, no I/O."""
