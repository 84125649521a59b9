"""Measure many drives on many hosts: which drives, how many at once, their status."""
