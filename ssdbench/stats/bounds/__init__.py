"""Compute pessimistic bounds and findings from the seconds that repeats measured."""
