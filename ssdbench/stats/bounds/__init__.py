"""Pessimistic bounds: from the seconds of repeats to the number to plan on, with its findings."""
